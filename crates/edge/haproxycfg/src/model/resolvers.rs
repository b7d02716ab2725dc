//! `resolvers` sections, and what is looked up by them.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use sample::{Expression as Expr, VariableName};

use super::Location;

/// Index of a section in [`super::Config::resolvers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResolversIndex(pub u32);

/// A `resolvers` section.
#[derive(Clone, Debug)]
pub struct Resolvers {
    /// Where it is in the configuration.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// `nameserver` lines, and what `parse-resolv-conf` found.
    pub nameservers: Vec<NameServer>,
    /// `accepted_payload_size`: largest answer in bytes.
    pub accepted_payload_size: u16,
    /// `resolve_retries`.
    pub resolve_retries: u32,
    /// `timeout resolve`: from one resolution of a name to the next.
    pub timeout_resolve: Duration,
    /// `timeout retry`.
    pub timeout_retry: Duration,
    /// `hold nx`.
    pub hold_nx: Duration,
    /// `hold other`.
    pub hold_other: Duration,
    /// `hold refused`.
    pub hold_refused: Duration,
    /// `hold timeout`.
    pub hold_timeout: Duration,
    /// `hold valid`.
    pub hold_valid: Duration,
    /// `hold obsolete`.
    pub hold_obsolete: Duration,
}

impl Resolvers {
    /// A section without lines, as HAProxy has it.
    #[must_use]
    pub fn new(name: &str, location: Location) -> Self {
        let hold = Duration::from_secs(30);
        Self {
            location,
            name: name.into(),
            nameservers: Vec::new(),
            accepted_payload_size: 512,
            resolve_retries: 3,
            timeout_resolve: Duration::from_secs(1),
            timeout_retry: Duration::from_secs(1),
            hold_nx: hold,
            hold_other: hold,
            hold_refused: hold,
            hold_timeout: hold,
            hold_valid: Duration::from_secs(10),
            hold_obsolete: Duration::ZERO,
        }
    }
}

/// A name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Where it is in the configuration, or in `/etc/resolv.conf`.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub address: SocketAddr,
    /// Whether it is asked over TCP.
    pub stream: bool,
}

/// What a server wants of the addresses of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolveOptions {
    /// `resolve-net`: networks by address and length.
    pub networks: Vec<(IpAddr, u8)>,
    /// `resolve-opts allow-dup-ip`.
    pub allow_duplicates: bool,
    /// `resolve-opts ignore-weight`.
    pub ignore_weight: bool,
}

/// `do-resolve`.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// The variable that gets the address.
    pub variable: VariableName,
    /// The section's name.
    pub resolvers: Arc<str>,
    /// `ipv4`.
    pub prefer_ipv4: bool,
    /// The name.
    pub expr: Expr,
}
