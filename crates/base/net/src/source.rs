//! Where connections to servers come from: `source`.
//!
//! The system lets several sockets have the same port as long as none of them listens, and says so only when one of them is
//! to lead where another leads already, or has led a moment ago (TIME-WAIT). So of a range each attempt tries several ports,
//! and each begins behind the one before, so that ports rest before they are used again.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use socket2::Socket;

/// Ports of a range that one attempt tries.
const TRIES_MAX: u32 = 32;

/// Where in its range the next attempt begins.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Address and port to bind before connecting; port 0 is any.
    pub address: SocketAddr,
    /// Of these ports, from the first to the last.
    pub ports: Option<(u16, u16)>,
    /// The interface that it goes through.
    pub interface: Option<&'a str>,
    /// The address of someone else that it is to come from, in place of `address` (`usesrc`).
    pub foreign: Option<SocketAddr>,
}

/// The ports that an attempt tries one after the other: one that means nothing where there is no range.
pub fn ports(source: Option<Source<'_>>) -> impl Iterator<Item = u16> + use<> {
    let range = source.filter(|source| source.foreign.is_none()).and_then(|source| source.ports);
    let (low, count) = range.map_or((0, 1), |(low, high)| (low, u32::from(high.saturating_sub(low)) + 1));
    let first = range.map_or(0, |_| NEXT.fetch_add(1, Relaxed) % count);
    let places = (first..count).chain(0..first).take(TRIES_MAX as usize);
    places.map(move |place| low.saturating_add(u16::try_from(place).unwrap_or(0)))
}

/// Whether another port may do.
#[must_use]
pub fn is_port_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Binds a socket to where it is to connect from; of a range to `port`.
///
/// # Errors
/// The system's: the port is taken, the address is not one of this machine, or the right to use it is missing.
pub fn bind(socket: &Socket, source: Source<'_>, port: u16) -> io::Result<()> {
    if let Some(interface) = source.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(address) = source.foreign {
        match address {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
        socket.set_reuse_address(true)?;
        return socket.bind(&address.into());
    }
    let port = if source.ports.is_some() { port } else { source.address.port() };
    if port != 0 {
        socket.set_reuse_address(true)?;
    }
    if source.address.ip().is_unspecified() && port == 0 {
        return Ok(());
    }
    socket.bind(&SocketAddr::new(source.address.ip(), port).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(ports: Option<(u16, u16)>) -> Source<'static> {
        Source { address: "127.0.0.1:0".parse().unwrap(), ports, interface: None, foreign: None }
    }

    #[test]
    fn every_port_of_a_range_is_tried_and_the_next_attempt_begins_elsewhere() {
        let source = range(Some((100, 104)));
        let tried: Vec<u16> = ports(Some(source)).collect();
        let again: Vec<u16> = ports(Some(source)).collect();
        assert_ne!(tried.first(), again.first());
        for mut tried in [tried, again] {
            tried.sort_unstable();
            assert_eq!(tried, [100, 101, 102, 103, 104]);
        }
        assert_eq!(ports(Some(range(Some((1024, 65535))))).count(), 32);
        assert_eq!(ports(Some(range(None))).count(), 1);
        assert_eq!(ports(None).count(), 1);
    }
}
