//! `show fd`: what the process has open.

use std::{
    collections::HashMap,
    fmt::Write as _,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{FileType, fstat},
    net::sockopt::socket_acceptconn,
    process::{PidfdFlags, PidfdGetfdFlags, Resource, getpid, getrlimit, pidfd_getfd, pidfd_open},
};
use socket2::{SockAddr, SockRef};

/// Descriptors that are looked at: whoever has more looks at them one by one.
const DESCRIPTORS_MAX: u64 = 1 << 16;

/// Whose addresses these are.
#[derive(Debug, Default)]
pub struct Owners {
    /// Frontends by where they listen.
    pub frontends: Vec<(SocketAddr, String)>,
    /// Servers with their backends by where they are.
    pub servers: HashMap<SocketAddr, String>,
}

impl Owners {
    fn frontend(&self, local: SocketAddr) -> Option<&str> {
        let is_it = |bound: &SocketAddr| {
            bound.port() == local.port() && (bound.ip() == local.ip() || bound.ip().is_unspecified())
        };
        self.frontends.iter().find(|(bound, _)| is_it(bound)).map(|(_, name)| &**name)
    }
}

/// Lists what is open, or one of them. It asks the system for each, so call it where waiting harms nobody.
#[must_use]
pub fn list(only: Option<i32>, owners: &Owners) -> String {
    let Ok(process) = pidfd_open(getpid(), PidfdFlags::empty()) else { return String::new() };
    let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    let numbers = match only {
        Some(number) => number..number.saturating_add(1),
        None => 0..i32::try_from(most).unwrap_or(i32::MAX),
    };
    let mut out = String::new();
    for number in numbers.filter(|number| *number >= 0) {
        if let Ok(descriptor) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            let _ = writeln!(out, "{number:>7} : {}", describe(&descriptor, owners));
        }
    }
    out
}

fn describe(descriptor: &OwnedFd, owners: &Owners) -> String {
    let kind = fstat(descriptor).map(|status| FileType::from_raw_mode(status.st_mode));
    match kind {
        Ok(FileType::Socket) => socket(descriptor, owners),
        Ok(FileType::Fifo) => "pipe".to_owned(),
        Ok(FileType::RegularFile) => "file".to_owned(),
        Ok(FileType::CharacterDevice) => "device".to_owned(),
        // What has no name in any file system: epoll, eventfd, pidfd.
        _ => "anonymous".to_owned(),
    }
}

/// A socket in HAProxy's words (`l.st`, `back`, `fam`, `lport`, `rport`, `fe`, `sv`), and its addresses.
fn socket(descriptor: &OwnedFd, owners: &Owners) -> String {
    let socket = SockRef::from(descriptor);
    let listens = matches!(socket_acceptconn(descriptor.as_fd()), Ok(true));
    let (local, peer) = (socket.local_addr().ok(), socket.peer_addr().ok().filter(|_| !listens));
    let inet = |address: &Option<SockAddr>| address.as_ref().and_then(SockAddr::as_socket);
    let frontend = inet(&local).and_then(|local| owners.frontend(local));
    let server = inet(&peer).and_then(|peer| owners.servers.get(&peer)).filter(|_| frontend.is_none());
    let mut out = match (listens, frontend, server) {
        (true, ..) => "l.st=RDY".to_owned(),
        (_, Some(_), _) => "back=0".to_owned(),
        (_, _, Some(_)) => "back=1".to_owned(),
        _ => "socket".to_owned(),
    };
    let place = |address: &SockAddr| match address.as_socket() {
        Some(address) => address.to_string(),
        None => address.as_pathname().map_or_else(|| "-".to_owned(), |path| path.display().to_string()),
    };
    if let Some(local) = &local {
        let family = match local.as_socket() {
            Some(address) if address.is_ipv4() => "ipv4",
            Some(_) => "ipv6",
            None => "unix",
        };
        let _ = write!(out, " fam={family}");
    }
    for (name, address) in [("lport", inet(&local)), ("rport", inet(&peer))] {
        if let Some(address) = address {
            let _ = write!(out, " {name}={}", address.port());
        }
    }
    for (name, owner) in [("fe", frontend), ("sv", server.map(String::as_str))] {
        if let Some(owner) = owner {
            let _ = write!(out, " {name}={owner}");
        }
    }
    for (name, address) in [("laddr", local), ("raddr", peer)] {
        if let Some(address) = address {
            let _ = write!(out, " {name}={}", place(&address));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_is_open_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let port = address.port();
        let client = std::net::TcpStream::connect(address).unwrap();
        let from = client.local_addr().unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let nobody = Owners::default();
        let one = |number: i32, owners: &Owners| list(Some(number), owners);
        let line = |number: i32, text: &str| format!("{number:>7} : {text}\n");
        let (listening, client) = (listener.as_raw_fd(), client.as_raw_fd());
        assert_eq!(
            one(listening, &nobody),
            line(listening, &format!("l.st=RDY fam=ipv4 lport={port} laddr={address}"))
        );
        let ends = |one: SocketAddr, other: SocketAddr| format!("laddr={one} raddr={other}");
        let there = format!("socket fam=ipv4 lport={} rport={port} {}", from.port(), ends(from, address));
        assert_eq!(one(client, &nobody), line(client, &there));
        let server = Owners { servers: HashMap::from([(address, "b/s1".to_owned())]), ..Owners::default() };
        let there = format!("back=1 fam=ipv4 lport={} rport={port} sv=b/s1 {}", from.port(), ends(from, address));
        assert_eq!(one(client, &server), line(client, &there));
        let any = SocketAddr::new("0.0.0.0".parse().unwrap(), port);
        let site = Owners { frontends: vec![(any, "site".to_owned())], ..Owners::default() };
        let here = format!("back=0 fam=ipv4 lport={port} rport={} fe=site {}", from.port(), ends(address, from));
        assert_eq!(one(accepted.as_raw_fd(), &site), line(accepted.as_raw_fd(), &here));
        assert!(one(listening, &site).contains(" fe=site "));
        assert!(one(reader.as_raw_fd(), &nobody).ends_with(" : pipe\n"));
        assert_eq!((one(-5, &nobody), one(1_000_000, &nobody)), (String::new(), String::new()));
        assert!(list(None, &nobody).contains(&format!("laddr={address}\n")));
    }
}
