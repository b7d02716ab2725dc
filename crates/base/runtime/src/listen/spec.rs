//! What to listen on, as a role asks for it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;
use std::path::PathBuf;
use std::time::Duration;

/// One address to listen on with its options. Port ranges and lists are expanded by the caller: one spec an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenSpec {
    /// The role's own name for it; comes back with the [`crate::Listener`]. Means nothing to this crate.
    pub name: String,
    /// What an error about it begins with: the line that asks for it. Means nothing to this crate.
    #[serde(default)]
    pub place: String,
    /// Where.
    pub address: Address,
    /// How connections get to the workers.
    pub mode: AcceptMode,
    /// Connections that may wait to be accepted. `None`: the system's limit (`somaxconn`).
    pub backlog: Option<u32>,
    /// `interface`: only what comes in over this network interface (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// `namespace`: the network namespace to listen in.
    pub namespace: Option<String>,
    /// `transparent`: the address need not be this machine's (`IP_TRANSPARENT`).
    pub transparent: bool,
    /// `v6only`: `Some(true)` for IPv6 alone, `Some(false)` (`v4v6`) for both, `None` for the system's default.
    pub v6only: Option<bool>,
    /// `tfo`: TCP Fast Open.
    pub tcp_fast_open: bool,
    /// `defer-accept`: accept a connection only once data has come.
    pub defer_accept: bool,
    /// `mss`: the largest segment size to announce.
    pub maxseg: Option<u32>,
    /// `tcp-ut`: how long sent data may stay unacknowledged.
    pub tcp_user_timeout: Option<Duration>,
    /// Owner and mode of a unix socket's file.
    pub unix: UnixPermissions,
    /// The workers that accept from it, from 0; none named: all.
    #[serde(default)]
    pub workers: Vec<usize>,
    /// How far commands reach that are taken there, by the role's measure; 0 where none are. Run files list these sockets.
    #[serde(default)]
    pub commands_reach: u8,
}

impl ListenSpec {
    /// A spec for `address` with every option at its default.
    pub fn new(name: impl Into<String>, address: Address) -> Self {
        Self {
            name: name.into(),
            place: String::new(),
            address,
            mode: AcceptMode::default(),
            backlog: None,
            interface: None,
            namespace: None,
            transparent: false,
            v6only: None,
            tcp_fast_open: false,
            defer_accept: false,
            maxseg: None,
            tcp_user_timeout: None,
            unix: UnixPermissions::default(),
            workers: Vec::new(),
            commands_reach: 0,
        }
    }

    /// The mode that is really used: only TCP sockets of our own can share a port, others fall back to `shared`.
    pub fn effective_mode(&self) -> AcceptMode {
        match (&self.address, self.mode) {
            (Address::Ip(_), mode) => mode,
            // Each worker has connections of its own, which it alone knows.
            (Address::SharedDatagrams(_), _) => AcceptMode::ReusePort,
            (_, AcceptMode::ReusePort) => AcceptMode::Shared,
            (_, mode) => mode,
        }
    }

    /// Those of `workers` workers that accept from it. If none of those that are named exists, all do: better any than none.
    pub(crate) fn eligible(&self, workers: usize) -> impl Iterator<Item = usize> {
        let is_any_there = self.workers.iter().any(|worker| *worker < workers);
        (0..workers).filter(move |worker| !is_any_there || self.workers.contains(worker))
    }

    /// How many sockets this spec needs when there are `workers` workers.
    pub(crate) fn socket_count(&self, workers: usize) -> usize {
        match self.effective_mode() {
            AcceptMode::ReusePort => self.eligible(workers).count().max(1),
            AcceptMode::Shared | AcceptMode::Dispatch => 1,
        }
    }

    /// What makes two sockets interchangeable: everything that cannot be changed once a socket is bound.
    pub(crate) fn identity(&self) -> String {
        let mut text = self.address.to_string();
        if let Some(interface) = &self.interface {
            text.push_str(" interface ");
            text.push_str(interface);
        }
        if let Some(namespace) = &self.namespace {
            text.push_str(" namespace ");
            text.push_str(namespace);
        }
        if self.transparent {
            text.push_str(" transparent");
        }
        match self.v6only {
            Some(true) => text.push_str(" v6only"),
            Some(false) => text.push_str(" v4v6"),
            None => {}
        }
        text
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Ip(SocketAddr),
    /// UDP over IPv4 or IPv6: one socket, which is bound and kept as others are, and read by whoever takes it from
    /// [`Listener::descriptors`](crate::Listener::descriptors). Workers get no share of it.
    Datagrams(SocketAddr),
    /// UDP over IPv4 or IPv6 with a socket for each worker, which all share the port: a worker gets its own by
    /// [`AcceptorSeed::into_datagrams`](crate::AcceptorSeed::into_datagrams).
    SharedDatagrams(SocketAddr),
    /// A unix socket with a file.
    Unix(PathBuf),
    /// A unix socket in the abstract name space (`abns@`); the name without its leading zero byte. Clients connect to
    /// [`abstract_address`].
    Abstract(String),
    /// A listening socket that was inherited under this number (`fd@`).
    Inherited(RawFd),
    /// `sockpair@`: HAProxy's connections over a socket pair. Always refused when bound, with a text that says so.
    SocketPair(RawFd),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Datagrams(address) => write!(formatter, "udp@{address}"),
            Self::SharedDatagrams(address) if address.is_ipv4() => write!(formatter, "quic4@{address}"),
            Self::SharedDatagrams(address) => write!(formatter, "quic6@{address}"),
            Self::Unix(path) => write!(formatter, "unix@{}", path.display()),
            Self::Abstract(name) => write!(formatter, "abns@{name}"),
            Self::Inherited(number) => write!(formatter, "fd@{number}"),
            Self::SocketPair(number) => write!(formatter, "sockpair@{number}"),
        }
    }
}

/// The bytes of an abstract socket's name after the leading zero.
const ABSTRACT_NAME: usize = 107;

/// The address of `abns@NAME`: as HAProxy's, the name is filled up with zero bytes to the longest possible one, which
/// makes it another name than the short one.
pub fn abstract_address(name: &str) -> io::Result<net::SocketAddr> {
    net::SocketAddr::from_abstract_name(abstract_name(name)?)
}

/// The bytes of such a name, behind the zero byte that makes it abstract.
pub fn abstract_name(name: &str) -> io::Result<[u8; ABSTRACT_NAME]> {
    let mut bytes = [0; ABSTRACT_NAME];
    match bytes.get_mut(..name.len()) {
        Some(start) => start.copy_from_slice(name.as_bytes()),
        None => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name is too long")),
    }
    Ok(bytes)
}

/// How connections get to the workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AcceptMode {
    /// A socket with `SO_REUSEPORT` for every worker: the kernel spreads connections by a hash of their addresses.
    #[default]
    ReusePort,
    /// One socket that all workers wait for, one of them being woken for each connection.
    Shared,
    /// One acceptor gives each connection to the worker with the fewest.
    Dispatch,
}

/// Owner and mode of a unix socket's file; `None` leaves what the system gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnixPermissions {
    /// Permission bits, as `mode 660`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}
