//! Listening sockets.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use super::{BindTls, CliLevel, Identity, Location};

/// A listening socket.
#[derive(Clone, Debug, Default)]
pub struct Bind {
    /// Where it is in the configuration.
    pub location: Location,
    /// Address.
    pub address: BindAddress,
    /// `name`.
    pub name: Option<String>,
    /// `id`.
    pub id: Option<u32>,
    /// How workers share it.
    pub accept: AcceptMode,
    /// `accept-proxy`.
    pub accept_proxy: bool,
    /// `accept-netscaler-cip`: the number that such headers begin with.
    pub netscaler_magic: Option<u32>,
    /// `namespace`.
    pub namespace: Option<String>,
    /// `proto`: which HTTP it speaks; none is what clients begin with.
    pub protocol: Option<BindProtocol>,
    /// `maxconn`.
    pub maxconn: Option<u32>,
    /// `backlog`.
    pub backlog: Option<u32>,
    /// `interface`.
    pub interface: Option<String>,
    /// `transparent`.
    pub transparent: bool,
    /// `v4v6`, `v6only`.
    pub v6only: Option<bool>,
    /// `tfo`.
    pub tfo: bool,
    /// `defer-accept`.
    pub defer_accept: bool,
    /// `mss`.
    pub mss: Option<u32>,
    /// `tcp-ut`.
    pub tcp_user_timeout: Option<Duration>,
    /// `mode`, `user`, `group`, `uid`, `gid` of a unix socket.
    pub unix: UnixOptions,
    /// `level` (stats sockets).
    pub level: Option<CliLevel>,
    /// `process`/`thread`: workers that serve it; empty is all.
    pub threads: Vec<u32>,
    /// `ssl`.
    pub tls: Option<Arc<BindTls>>,
    /// `quic-force-retry`.
    pub quic_force_retry: bool,
}

/// Which HTTP a listening socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindProtocol {
    /// `h1`
    Http1,
    /// `h2`
    Http2,
}

/// Ownership and mode of a unix socket.
#[derive(Clone, Debug, Default)]
pub struct UnixOptions {
    /// `prefix` (only `unix-bind`).
    pub prefix: Option<String>,
    /// `mode`: octal.
    pub mode: Option<u32>,
    /// `user` or `uid`.
    pub user: Option<Identity>,
    /// `group` or `gid`.
    pub group: Option<Identity>,
}

/// Where to listen or to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// TCP.
    Inet(SocketAddr),
    /// `quic4@` or `quic6@`: QUIC over UDP.
    Quic(SocketAddr),
    /// `unix@path` or a path.
    Unix(String),
    /// `abns@name`.
    Abstract(String),
    /// `fd@N`.
    Descriptor(i32),
}

impl Default for BindAddress {
    fn default() -> Self {
        Self::Descriptor(-1)
    }
}

impl BindAddress {
    /// As it is written in a configuration.
    #[must_use]
    pub fn written(&self) -> String {
        match self {
            Self::Inet(address) => address.to_string(),
            Self::Quic(address) if address.is_ipv4() => format!("quic4@{address}"),
            Self::Quic(address) => format!("quic6@{address}"),
            Self::Unix(path) => path.clone(),
            Self::Abstract(name) => format!("abns@{name}"),
            Self::Descriptor(number) => format!("fd@{number}"),
        }
    }
}

/// How workers share a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptMode {
    /// A socket for each worker; the kernel spreads connections by hash.
    #[default]
    Reuseport,
    /// One socket, exclusive wake-up.
    Shared,
    /// One acceptor gives each connection to the worker with the fewest.
    Dispatch,
}
