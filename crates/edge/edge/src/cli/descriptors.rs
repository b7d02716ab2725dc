//! `show fd`: what the process has open.

use std::{
    fmt::Write as _,
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

/// Lists what is open, or one of them. It asks the system for each, so call it where waiting harms nobody.
#[must_use]
pub fn list(only: Option<i32>) -> String {
    let Ok(process) = pidfd_open(getpid(), PidfdFlags::empty()) else { return String::new() };
    let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    let numbers = match only {
        Some(number) => number..number.saturating_add(1),
        None => 0..i32::try_from(most).unwrap_or(i32::MAX),
    };
    let mut out = String::new();
    for number in numbers.filter(|number| *number >= 0) {
        if let Ok(descriptor) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            let _ = writeln!(out, "{number:>7} : {}", describe(&descriptor));
        }
    }
    out
}

fn describe(descriptor: &OwnedFd) -> String {
    let kind = fstat(descriptor).map(|status| FileType::from_raw_mode(status.st_mode));
    match kind {
        Ok(FileType::Socket) => socket(descriptor),
        Ok(FileType::Fifo) => "pipe".to_owned(),
        Ok(FileType::RegularFile) => "file".to_owned(),
        Ok(FileType::CharacterDevice) => "device".to_owned(),
        // What has no name in any file system: epoll, eventfd, pidfd.
        _ => "anonymous".to_owned(),
    }
}

fn socket(descriptor: &OwnedFd) -> String {
    let socket = SockRef::from(descriptor);
    let listens = matches!(socket_acceptconn(descriptor.as_fd()), Ok(true));
    let mut out = if listens { "l.st=RDY".to_owned() } else { "socket".to_owned() };
    let place = |address: &SockAddr| match address.as_socket() {
        Some(address) => address.to_string(),
        None => address.as_pathname().map_or_else(|| "-".to_owned(), |path| path.display().to_string()),
    };
    if let Ok(local) = socket.local_addr() {
        let family = match local.as_socket() {
            Some(address) if address.is_ipv4() => "ipv4",
            Some(_) => "ipv6",
            None => "unix",
        };
        let _ = write!(out, " fam={family} laddr={}", place(&local));
    }
    if !listens && let Ok(peer) = socket.peer_addr() {
        let _ = write!(out, " raddr={}", place(&peer));
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
        let client = std::net::TcpStream::connect(address).unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let one = |number: i32| list(Some(number));
        assert_eq!(
            one(listener.as_raw_fd()),
            format!("{:>7} : l.st=RDY fam=ipv4 laddr={address}\n", listener.as_raw_fd())
        );
        let client_line = one(client.as_raw_fd());
        assert!(client_line.contains(&format!(" raddr={address}\n")), "{client_line}");
        assert!(one(reader.as_raw_fd()).ends_with(" : pipe\n"));
        assert_eq!((one(-5), one(1_000_000)), (String::new(), String::new()));
        assert!(list(None).contains(&format!("laddr={address}\n")));
    }
}
