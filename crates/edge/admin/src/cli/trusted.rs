//! `show`, `new`, `set`, `commit`, `abort` and `del ssl ca-file` and `crl-file`: whom listeners and servers trust changes while these
//! run.

use std::fmt::Write as _;

use live::tls_store::{TrustKind, Trusted};
use tls::{Certificate, RevocationList};

use super::{
    certificates::{NO_TLS, date, dots, fields, notice},
    line::Line,
    reply::{Reply, Severity},
    session::{Context, Session},
};

/// Which kind of file a command is about.
fn kind(line: &Line) -> TrustKind {
    if line.word(2) == "crl-file" { TrustKind::Revocation } else { TrustKind::Authorities }
}

/// The file that a command names, or what HAProxy says of one that names none.
fn named<'a>(line: &'a Line, missing: &str) -> Result<&'a str, Reply> {
    match line.word(3) {
        "" => Err(Reply::error(missing.replace("FILE", line.word(2)).replace("KIND", kind(line).name()))),
        file => Ok(file),
    }
}

/// `new ssl ca-file`, `new ssl crl-file`.
pub(super) fn new(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = match named(line, "'new ssl FILE' expects a filename") {
        Ok(file) => file,
        Err(reply) => return reply,
    };
    match edge.instance().tls.new_trusted(kind(line), file) {
        Ok(()) => notice(format!("New {} file created '{file}'!", kind(line).name())),
        Err(error) => Reply::error(error.to_string()),
    }
}

/// `set ssl ca-file`, `set ssl crl-file`.
pub(super) fn set(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let missing = "'set ssl FILE expects a filename and KINDs as a payload";
    let file = match named(line, missing) {
        Ok(file) => file,
        Err(reply) => return reply,
    };
    let Some(payload) = line.payload.as_deref() else {
        return Reply::error(missing.replace("FILE", line.word(2)).replace("KIND", kind(line).name()));
    };
    let word = kind(line).name();
    match edge.instance().tls.set_trusted(kind(line), file, payload) {
        Ok(true) => notice(format!("transaction created for {word} {file}!")),
        Ok(false) => notice(format!("transaction updated for {word} {file}!")),
        Err(error) => Reply::error(format!("{error}\nCan't update {file}!")),
    }
}

/// `commit ssl ca-file`, `commit ssl crl-file`.
pub(super) fn commit(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = match named(line, "'commit ssl FILE expects a filename") {
        Ok(file) => file,
        Err(reply) => return reply,
    };
    let instance = edge.instance();
    match instance.tls.commit_trusted(kind(line), file) {
        Ok(places) => notice(format!("Committing {file}{}\nSuccess!", dots(places))),
        Err(error) => Reply::error(format!("{error}\nCan't commit {file}!")),
    }
}

/// `abort ssl ca-file`, `abort ssl crl-file`.
pub(super) fn abort(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = match named(line, "'abort ssl FILE' expects a filename") {
        Ok(file) => file,
        Err(reply) => return reply,
    };
    match edge.instance().tls.abort_trusted(kind(line), file) {
        Ok(()) => notice(format!("Transaction aborted for certificate '{file}'!")),
        Err(error) => Reply::error(error.to_string()),
    }
}

/// `del ssl ca-file`, `del ssl crl-file`.
pub(super) fn delete(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let file = match named(line, "'del ssl FILE' expects a KIND file name") {
        Ok(file) => file,
        Err(reply) => return reply,
    };
    let (instance, word) = (edge.instance(), kind(line).name());
    match instance.tls.delete_trusted(kind(line), file) {
        Ok(()) => notice(format!("{word} file '{file}' deleted!")),
        Err(error) => Reply::error(format!("Can't remove the {word} file: {error}")),
    }
}

/// `show ssl ca-file`, `show ssl crl-file`.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (instance, kind, wanted) = (edge.instance(), kind(line), line.word(3));
    if wanted.is_empty() {
        let (names, pending) = instance.tls.trusted_names(kind);
        let count = |count: usize| match kind {
            TrustKind::Authorities => format!(" - {count} certificate(s)"),
            TrustKind::Revocation => String::new(),
        };
        let mut text = String::new();
        if let Some((name, held)) = pending {
            let _ = writeln!(text, "# transaction\n*{name}{}", count(held));
        }
        text += "# filename\n";
        for (name, held) in names {
            let _ = writeln!(text, "{name}{}", count(held));
        }
        return Reply::Text(text);
    }
    let word = kind.name();
    // A number behind a colon wants one of what is in the file.
    let (name, number) = match wanted.rsplit_once(':') {
        None => (wanted, None),
        Some((name, number)) => match number.parse::<usize>() {
            Ok(number) if number > 0 => (name, Some(number)),
            _ => return Reply::Unended(Severity::Error, format!("wrong {word} index after colons in '{wanted}'!")),
        },
    };
    let Some((trusted, is_used)) = instance.tls.trusted(kind, name) else {
        return Reply::error(format!("Can't display the {word} file : Not found!"));
    };
    Reply::Text(describe(name, &trusted, is_used, number))
}

fn describe(name: &str, trusted: &Trusted, is_used: bool, number: Option<usize>) -> String {
    let contents = trusted.contents();
    let wanted = contents.iter().zip(1_usize..).filter(|(_, place)| number.is_none_or(|number| number == *place));
    let (state, has_any) = (if is_used { "Used" } else { "Unused" }, !contents.is_empty());
    match trusted {
        Trusted::Authorities(_) => {
            let mut text = String::new();
            for (certificate, place) in wanted {
                let Some(certificate) = Certificate::read(certificate) else { continue };
                if text.is_empty() {
                    text = format!("Filename: {name}\nStatus: {state}\n");
                }
                let _ = write!(text, " \nCertificate #{place}:\n{}", fields(&certificate));
            }
            text
        }
        Trusted::Revocation(_) => {
            let state = if has_any { state } else { "Empty" };
            let mut text = format!("Filename: {name}\nStatus: {state}\n");
            for (list, place) in wanted {
                if let Some(list) = RevocationList::read(list) {
                    let _ = write!(text, " \nCertificate Revocation List #{place}:\n{}", revocation(&list));
                }
            }
            text
        }
    }
}

fn revocation(list: &RevocationList<'_>) -> String {
    let next = list.ends_at.map_or_else(|| "NONE".to_owned(), |at| date(Some(at)));
    let mut text = format!(
        "Version {}\nSignature Algorithm: {}\nIssuer: {}\nLast Update: {}\nNext Update: {next}\n",
        list.version,
        list.signature_algorithm(),
        list.issuer.one_line(),
        date(list.begins_at),
    );
    let mut revoked = list.revoked().peekable();
    text += if revoked.peek().is_some() { "Revoked Certificates:\n" } else { "No Revoked Certificates.\n" };
    for (serial, at) in revoked {
        let _ =
            write!(text, "    Serial Number: {}\n        Revocation Date: {}\n", basics::hex::upper(serial), date(at));
    }
    text
}
