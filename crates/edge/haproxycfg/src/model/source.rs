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
    /// `hdr_ip(name,occurrence)`: an IPv4 address out of a request header.
    Header {
        /// Its name.
        name: String,
        /// Which of its values, from 1; from the end if negative.
        occurrence: i32,
    },
    /// An address.
    Address(SocketAddr),
}
