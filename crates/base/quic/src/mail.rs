//! How datagrams get to another process that serves their connections still: by a unix socket of its own, whose abstract name says which
//! process it is.
//!
//! ```text
//!  version (1)   socket's address (19)   sender (19)   spoken to (17)   congestion (1)   datagram
//! ```
//!
//! An address is a family (0 for none, 4, 6), sixteen bytes of which IPv4 uses the first four, and a port.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd as _, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
        SocketType, bind, recvmsg, sendto, socket_with, sockopt,
    },
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{ids::Origin, office::PostOffice, socket::Datagram};

/// The version of the form above.
const VERSION: u8 = 1;

/// Bytes before a datagram.
const HEAD_BYTES: usize = 1 + 19 + 19 + 17 + 1;

/// Bytes of the longest letter.
const LETTER_BYTES_MAX: usize = HEAD_BYTES + 65_535;

/// Letters that are taken before others get their turn.
const TURN: usize = 64;

fn address_of(process: u32) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("tidegate-quic-{process:08x}").as_bytes())?)
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

fn write_ip(ip: Option<IpAddr>, into: &mut Vec<u8>) {
    match ip {
        None => into.extend_from_slice(&[0; 17]),
        Some(IpAddr::V4(ip)) => {
            into.push(4);
            into.extend_from_slice(&ip.octets());
            into.extend_from_slice(&[0; 12]);
        }
        Some(IpAddr::V6(ip)) => {
            into.push(6);
            into.extend_from_slice(&ip.octets());
        }
    }
}

fn write_address(address: SocketAddr, into: &mut Vec<u8>) {
    write_ip(Some(address.ip()), into);
    into.extend_from_slice(&address.port().to_be_bytes());
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

fn read_ip(bytes: &mut &[u8]) -> Option<Option<IpAddr>> {
    let [family, ip @ ..] = take::<17>(bytes)?;
    Some(match (family, ip) {
        (0, _) => None,
        (4, [a, b, c, d, ..]) => Some(Ipv4Addr::new(*a, *b, *c, *d).into()),
        (6, _) => Some(Ipv6Addr::from(*ip).into()),
        _ => return None,
    })
}

fn read_address(bytes: &mut &[u8]) -> Option<SocketAddr> {
    let ip = read_ip(bytes)??;
    Some(SocketAddr::new(ip, u16::from_be_bytes(*take(bytes)?)))
}

fn write(address: SocketAddr, datagram: &Datagram<'_>) -> Vec<u8> {
    let mut letter = Vec::with_capacity(HEAD_BYTES + datagram.bytes.len());
    letter.push(VERSION);
    write_address(address, &mut letter);
    write_address(datagram.from, &mut letter);
    write_ip(datagram.to, &mut letter);
    letter.push(datagram.congestion);
    letter.extend_from_slice(datagram.bytes);
    letter
}

/// The socket that a letter is about, and what came to it.
fn read(mut letter: &[u8]) -> Option<(SocketAddr, Datagram<'_>)> {
    let bytes = &mut letter;
    let [VERSION] = take(bytes)? else { return None };
    let (address, from, to) = (read_address(bytes)?, read_address(bytes)?, read_ip(bytes)?);
    let [congestion] = take(bytes)?;
    Some((address, Datagram { bytes, from, to, congestion: *congestion }))
}

/// Sends letters to other processes.
#[derive(Debug)]
pub struct Courier(OwnedFd);

impl Courier {
    /// One with a socket of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        unix_socket().map(Self)
    }

    /// Sends what has come to the socket of this address to the process that serves its connection; whether there is one. One that has too
    /// much to read already does not get it: it is lost, as any datagram may be on its way.
    #[must_use]
    pub fn send(&self, process: u32, address: SocketAddr, datagram: &Datagram<'_>) -> bool {
        let Ok(to) = address_of(process) else { return false };
        let sent = sendto(&self.0, &write(address, datagram), SendFlags::NOSIGNAL, &to);
        sent.is_ok() || matches!(sent, Err(Errno::AGAIN | Errno::NOBUFS))
    }
}

/// Where letters of other processes come.
#[derive(Debug)]
pub struct Mailbox(AsyncFd<OwnedFd>);

impl Mailbox {
    /// That of this process, which has this number in [`Origin::process`].
    ///
    /// # Errors
    /// The system's.
    pub fn open(process: u32) -> io::Result<Self> {
        let socket = unix_socket()?;
        sockopt::set_socket_passcred(&socket, true)?;
        bind(&socket, &address_of(process)?)?;
        runtime::register(socket, Interest::READABLE).map(Self)
    }

    /// Gives what comes to the endpoints it is for, for ever.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn deliver(self, office: &PostOffice) -> io::Result<()> {
        let mut room = vec![0; LETTER_BYTES_MAX];
        loop {
            let mut guard = self.0.readable().await?;
            for _ in 0..TURN {
                match receive(guard.get_inner(), &mut room) {
                    Ok(Some(count)) => hand_out(room.get(..count).unwrap_or_default(), office),
                    // Somebody else's.
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        guard.clear_ready();
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

fn hand_out(letter: &[u8], office: &PostOffice) {
    if let Some((address, datagram)) = read(letter)
        && let Some(origin) = Origin::of_datagram(datagram.bytes)
    {
        // One that nobody takes is lost, as any may be on its way.
        office.hand_on(address, origin.endpoint, &datagram);
    }
}

/// A letter of a process of the same user, or of root; `None` for one of somebody else, who could pretend to be any client.
fn receive(socket: &OwnedFd, room: &mut [u8]) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(room)], &mut control, RecvFlags::empty())?;
    let own = rustix::process::geteuid();
    let is_ours = control.drain().any(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => sender.uid.is_root() || sender.uid == own,
        _ => false,
    });
    Ok(is_ours.then_some(received.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back() {
        for (from, to) in [("127.0.0.1:5", Some("127.0.0.2")), ("[::1]:70", None), ("[fe80::1]:8", Some("::2"))] {
            let address = "0.0.0.0:443".parse().unwrap();
            let datagram = Datagram {
                bytes: b"packet",
                from: from.parse().unwrap(),
                to: to.map(|to| to.parse().unwrap()),
                congestion: 3,
            };
            let letter = write(address, &datagram);
            let (again, read_back) = read(&letter).unwrap();
            assert_eq!((again, read_back), (address, datagram));
            for length in 0..HEAD_BYTES {
                assert_eq!(read(&letter[..length]), None);
            }
        }
        assert_eq!(read(&[9; 100]), None);
    }

    #[tokio::test]
    async fn another_process_gets_what_is_its_own() {
        let process = 0xffff_0000 | std::process::id();
        let office = PostOffice::default();
        let address: SocketAddr = "127.0.0.1:443".parse().unwrap();
        let (endpoint, mut letters) = office.open(address).unwrap();
        let mailbox = Mailbox::open(process).unwrap();
        let courier = Courier::new().unwrap();
        let id = [&process.to_be_bytes()[..], &endpoint.to_be_bytes(), &[7; 10]].concat();
        let packet = [&[0x40][..], &id, b"payload"].concat();
        let datagram = Datagram { bytes: &packet, from: "127.0.0.9:1".parse().unwrap(), to: None, congestion: 0 };
        assert!(courier.send(process, address, &datagram));
        assert!(!courier.send(1, address, &datagram), "there is no such process");
        tokio::select! {
            end = mailbox.deliver(&office) => panic!("{end:?}"),
            letter = letters.recv() => assert_eq!(letter.unwrap().datagram(), datagram),
        }
    }
}
