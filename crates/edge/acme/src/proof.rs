//! Ways to prove that a name is ours.

use aws_lc_rs::digest::{SHA256, digest};
use haproxycfg::model::ChallengeKind;

use crate::jws::base64url;

/// What is to be shown so that an authority finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// How.
    pub kind: ChallengeKind,
    /// The name, without the star of a wildcard.
    pub name: String,
    /// What the authority asks for.
    pub token: String,
    /// What it expects: the token and the thumbprint of the account's key. For dns-persist-01, the text of the record.
    pub authorization: String,
    /// It is for a wildcard.
    pub wildcard: bool,
}

impl Proof {
    /// The digest that tls-alpn-01 shows (RFC 8737, section 3).
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        digest(&SHA256, self.authorization.as_bytes()).as_ref().try_into().unwrap_or_default()
    }

    /// The name of the record of DNS, if there is one to be.
    #[must_use]
    pub fn record_name(&self) -> Option<String> {
        match self.kind {
            ChallengeKind::Dns01 => Some(format!("_acme-challenge.{}", self.name)),
            ChallengeKind::DnsPersist01 => Some(format!("_validation-persist.{}", self.name)),
            ChallengeKind::Http01 | ChallengeKind::TlsAlpn01 => None,
        }
    }

    /// The text of that record.
    #[must_use]
    pub fn record_text(&self) -> String {
        match self.kind {
            ChallengeKind::Dns01 => base64url(&self.digest()),
            _ => self.authorization.clone(),
        }
    }
}
