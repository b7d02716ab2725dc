//! Certificates by themselves: `acme` sections, and the certificates that they see to.

use std::{net::IpAddr, sync::Arc};

use tls::{Identity, KeyType, TrustAnchors};

use super::Location;

/// An `acme` section.
#[derive(Clone, Debug)]
pub struct Acme {
    /// Where it is in the configuration.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// `directory`: the authority.
    pub directory: String,
    /// `account-key`: the file with the key of the account.
    pub account_key: String,
    /// What stands in it; nothing if it is to be made.
    pub account_pem: Option<Arc<[u8]>>,
    /// `contact`
    pub contact: Option<String>,
    /// `challenge`
    pub challenge: ChallengeKind,
    /// `keytype`, `curves`, `bits`
    pub key: KeyType,
    /// `map`
    pub map: Option<String>,
    /// `profile`
    pub profile: Option<String>,
    /// `reuse-key`
    pub reuse_key: bool,
    /// `eab-*`
    pub external_account: Option<ExternalAccount>,
    /// `challenge-program`: what sets records of DNS.
    pub program: Option<String>,
    /// `httpclient.ssl.*`: whom the authority's own certificate is verified by; nothing verifies nothing.
    pub anchors: Option<TrustAnchors>,
}

/// A certificate that comes by itself.
#[derive(Clone, Debug)]
pub struct AcmeCertificate {
    /// Where it is in the configuration.
    pub location: Location,
    /// What it is called.
    pub name: Arc<str>,
    /// Its file.
    pub file: String,
    /// Who sees to it.
    pub section: Arc<Acme>,
    /// `domains`
    pub domains: Vec<String>,
    /// `ips`
    pub addresses: Vec<IpAddr>,
    /// What stands in the file, if there is one.
    pub identity: Option<Arc<Identity>>,
}

/// How an authority is shown that a name is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A page at port 80 (RFC 8555, section 8.3).
    #[default]
    Http01,
    /// A certificate at port 443 (RFC 8737).
    TlsAlpn01,
    /// A record of DNS for each order (RFC 8555, section 8.4).
    Dns01,
    /// A record of DNS that stays (draft-ietf-acme-dns-persist).
    DnsPersist01,
}

impl ChallengeKind {
    /// All.
    pub const ALL: [Self; 4] = [Self::Http01, Self::TlsAlpn01, Self::Dns01, Self::DnsPersist01];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
            Self::DnsPersist01 => "dns-persist-01",
        }
    }

    /// Whether it is a record of DNS, which proves wildcards, but no addresses.
    #[must_use]
    pub fn is_record(self) -> bool {
        matches!(self, Self::Dns01 | Self::DnsPersist01)
    }
}

/// The account that a person has at the authority, to which the one of ACME is bound.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// `eab-key-id`
    pub key_id: String,
    /// `eab-mac-key`
    pub mac_key: Vec<u8>,
    /// `eab-mac-alg`
    pub algorithm: MacAlgorithm,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// `eab-mac-alg`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacAlgorithm {
    /// `HS256`
    #[default]
    Hs256,
    /// `HS384`
    Hs384,
    /// `HS512`
    Hs512,
}

impl MacAlgorithm {
    /// All.
    pub const ALL: [Self; 3] = [Self::Hs256, Self::Hs384, Self::Hs512];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }
}
