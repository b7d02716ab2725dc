//! What an authority sends, as far as it is looked at (RFC 8555, section 7.1).

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use crate::problem::Problem;

/// A request to an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`.
    pub method: &'static str,
    /// Where to.
    pub url: String,
    /// The body of a POST.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// `Replay-Nonce`
    pub nonce: Option<String>,
    /// `Location`
    pub location: Option<String>,
    /// `Retry-After`
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Whether it went well.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The URLs of an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Directory {
    /// Where nonces come from.
    pub new_nonce: String,
    /// Where accounts are made.
    pub new_account: String,
    /// Where certificates are ordered.
    pub new_order: String,
    /// Where it says when to renew (RFC 9773).
    #[serde(default)]
    pub renewal_info: Option<String>,
    /// What else it says.
    #[serde(default)]
    pub meta: Meta,
}

/// What an authority says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Accounts are bound to one that a person has elsewhere.
    pub external_account_required: bool,
    /// The profiles that it has, each with what it is.
    pub profiles: BTreeMap<String, String>,
}

/// How far an order, an authorization or a challenge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Something is to be done.
    Pending,
    /// An order whose names are proven.
    Ready,
    /// The authority is at work.
    Processing,
    /// Done.
    Valid,
    /// Failed.
    Invalid,
    /// Given up by the client.
    Deactivated,
    /// Too late.
    Expired,
    /// Taken back by the authority.
    Revoked,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Order {
    /// How far it is.
    pub status: Status,
    /// The names.
    #[serde(default)]
    pub identifiers: Vec<Identifier>,
    /// What is to be proven, by URL.
    #[serde(default)]
    pub authorizations: Vec<String>,
    /// Where the request for the certificate goes.
    pub finalize: String,
    /// Where the certificate is.
    #[serde(default)]
    pub certificate: Option<String>,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<Problem>,
}

/// A name of an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
pub struct Identifier {
    /// `dns` or `ip`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name.
    pub value: String,
}

/// What proves that a name is ours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Authorization {
    /// The name, without the star of a wildcard.
    pub identifier: Identifier,
    /// How far it is.
    pub status: Status,
    /// The ways to prove it.
    #[serde(default)]
    pub challenges: Vec<OfferedChallenge>,
    /// It is for a wildcard.
    #[serde(default)]
    pub wildcard: bool,
}

/// A way to prove that a name is ours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OfferedChallenge {
    /// `http-01` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is begun.
    #[serde(default)]
    pub url: String,
    /// How far it is.
    pub status: Status,
    /// What is to be shown.
    #[serde(default)]
    pub token: String,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<Problem>,
    /// dns-persist-01: who may be named in the record.
    #[serde(default, rename = "issuer-domain-names")]
    pub issuers: Vec<String>,
}
