//! `source` of a backend or server.

use std::net::SocketAddr;

/// `source`.
#[derive(Clone, Debug)]
pub struct SourceAddress {
    /// Address and port to bind before connecting; port 0 is any.
    pub address: SocketAddr,
    /// `addr:low-high`.
    pub ports: Option<(u16, u16)>,
    /// `interface`.
    pub interface: Option<String>,
    /// `usesrc`.
    pub usesrc: Option<UseSource>,
}

/// `usesrc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseSource {
    /// `client`.
    Client,
    /// `clientip`.
    ClientIp,
    /// An address.
    Address(SocketAddr),
}
