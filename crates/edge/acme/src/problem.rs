//! What an authority says when it refuses (RFC 8555, section 6.7), and what a person can do about it.

use std::{fmt::Write as _, time::Duration};

use serde::Deserialize;

/// The beginning of the types of problems.
const PREFIX: &str = "urn:ietf:params:acme:error:";

/// A problem document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// What kind of problem, as a URN.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, for people.
    pub detail: String,
    /// What is wrong with each name.
    pub subproblems: Vec<Subproblem>,
}

/// A problem with one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Subproblem {
    /// What kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong.
    pub detail: String,
    /// The name.
    pub identifier: Option<Named>,
}

/// A name in a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub value: String,
}

impl Problem {
    /// That of a response's body; one that says nothing for a body that is no problem document.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Its kind without what all kinds begin with.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kind.strip_prefix(PREFIX).unwrap_or(&self.kind)
    }

    /// For people: what is wrong, and what to do.
    #[must_use]
    pub fn text(&self) -> String {
        self.text_with(remedy(self.name()))
    }

    /// The same of a proof, of the kind that the authority looked for.
    #[must_use]
    pub fn text_of_proof(&self, kind: &str) -> String {
        let is_of_dns = kind.starts_with("dns-");
        match self.name() {
            "dns" | "connection" | "unauthorized" | "incorrectResponse" if is_of_dns => self.text_with(Some(
                "every name server of the domain must show the proof's TXT record: see whether the record was set, and \
                 whether it had the time to spread",
            )),
            name => self.text_with(remedy(name)),
        }
    }

    fn text_with(&self, remedy: Option<&str>) -> String {
        let mut text = match (self.name(), &*self.detail) {
            ("", "") => "it gives no reason".to_owned(),
            ("", detail) => detail.to_owned(),
            (name, "") => name.to_owned(),
            (name, detail) => format!("{detail} ({name})"),
        };
        for part in &self.subproblems {
            let name = part.identifier.as_ref().map_or("", |named| &named.value);
            let _ = write!(text, "; {name}: {}", part.detail);
        }
        if let Some(remedy) = remedy {
            let _ = write!(text, "; {remedy}");
        }
        // It ends up in a log line, and on terminals.
        text.replace(char::is_control, " ")
    }
}

/// What helps against a kind of problem.
fn remedy(name: &str) -> Option<&'static str> {
    Some(match name {
        "dns" => "give the name an A or AAAA record with this machine's public address",
        "connection" => {
            "the authority must reach this machine from the internet, at port 80 for http-01 and 443 for tls-alpn-01: \
                         look at firewalls and at where the name's records lead"
        }
        "unauthorized" | "incorrectResponse" => {
            "something else answers at the name's address: its A and AAAA records must all lead to this machine"
        }
        "tls" => "whatever is in front of this machine must pass TLS on as it is for tls-alpn-01",
        "caa" => "the domain's CAA record forbids this authority: change the record, or 'directory'",
        "externalAccountRequired" | "accountDoesNotExist" => {
            "the authority wants an account of theirs: see 'eab-key-id' and 'eab-mac-key'"
        }
        "invalidContact" | "unsupportedContact" => "see 'contact'",
        "invalidProfile" => "see 'profile'",
        "rejectedIdentifier" => "the authority makes no certificates for this name",
        "userActionRequired" => "log in at the authority to accept its terms",
        _ => return None,
    })
}

/// Why there is no certificate yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed, for people.
    pub text: String,
    /// How long the authority wants to be left alone.
    pub retry_after: Option<Duration>,
    /// The order goes on at the authority: the next attempt picks it up.
    pub keeps_order: bool,
}

impl Failure {
    /// One after which the order begins anew.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry_after: None, keeps_order: false }
    }

    /// The same, after which the order goes on.
    #[must_use]
    pub fn keeping_order(mut self) -> Self {
        self.keeps_order = true;
        self
    }

    /// The same, with what the authority says about when to come back.
    #[must_use]
    pub fn retry_after(mut self, time: Option<Duration>) -> Self {
        self.retry_after = time;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_say_what_to_do() {
        let problem = Problem::read(
            br#"{"type":"urn:ietf:params:acme:error:dns","detail":"no A record","subproblems":[{"detail":"x","identifier":{"type":"dns","value":"a.example"}}]}"#,
        );
        assert_eq!(
            problem.text(),
            "no A record (dns); a.example: x; give the name an A or AAAA record with this machine's public address"
        );
        let absent = Problem::read(br#"{"type":"urn:ietf:params:acme:error:unauthorized","detail":"no record"}"#);
        assert!(absent.text_of_proof("dns-01").contains("TXT record"), "{}", absent.text_of_proof("dns-01"));
        assert!(absent.text_of_proof("http-01").contains("A and AAAA"), "{}", absent.text_of_proof("http-01"));
        assert_eq!(Problem::read(b"<html>").text(), "it gives no reason");
        assert_eq!(Problem::read(br#"{"detail":"a\nb\u001b[31m"}"#).text(), "a b [31m");
    }
}
