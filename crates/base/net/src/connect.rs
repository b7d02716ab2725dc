//! Opening connections to servers.

use std::{io, net::SocketAddr, os::fd::AsFd, pin::Pin, time::Duration};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use crate::{
    abstract_address,
    keepalive::{Keepalive, set_keepalive},
    namespace::Namespaces,
    socks4,
    source::{self, Source},
    stream::Stream,
};

/// Where the other end of a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Not known: the name has not resolved.
    Unresolved,
    /// TCP; port 0 stands for the port rules of the configuration.
    Inet(SocketAddr),
    /// Unix socket by path.
    Unix(String),
    /// Abstract unix socket.
    Abstract(String),
}

/// What a connection to a server is opened with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions<'a> {
    /// `source`: where from.
    pub source: Option<Source<'a>>,
    /// `option srvtcpka`, and how it probes.
    pub keepalive: Option<Keepalive>,
    /// `option nolinger`.
    pub no_linger: bool,
    /// `tcp-ut`.
    pub user_timeout: Option<Duration>,
    /// `tune.rcvbuf.server`; 0 is the system's.
    pub receive_buffer: usize,
    /// `tune.sndbuf.server`; 0 is the system's.
    pub send_buffer: usize,
    /// `socks4`: through this proxy.
    pub socks4: Option<SocketAddr>,
    /// `namespace`, and where it is found.
    pub namespace: Option<(&'a str, &'a Namespaces)>,
    /// `tfo`: the caller writes at once, and what it writes may go with the first packet.
    pub fast_open: bool,
    /// `set-tos`.
    pub tos: Option<u8>,
    /// `set-mark`.
    pub mark: Option<u32>,
}

/// A connection that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Stream>> + 'a>>;

/// What connections are opened through.
pub trait Network {
    /// Opens one; ready when it stands, or with why it does not. The caller bounds the time.
    fn connect<'a>(&'a self, target: &'a Target, options: ConnectOptions<'a>) -> Connecting<'a>;
}

/// The system's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Network for System {
    fn connect<'a>(&'a self, target: &'a Target, options: ConnectOptions<'a>) -> Connecting<'a> {
        Box::pin(connect(target, options))
    }
}

/// Opens a connection through the system's network, and waits until it stands. The caller bounds the time.
///
/// # Errors
/// The system's reason for the refusal, `ConnectionRefused` foremost.
pub async fn connect(target: &Target, options: ConnectOptions<'_>) -> io::Result<Stream> {
    match target {
        Target::Unresolved => {
            Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the server's host name has no address"))
        }
        Target::Inet(address) => match options.socks4 {
            None => connect_tcp(*address, options).await,
            Some(proxy) => {
                let stream = connect_tcp(proxy, options).await?;
                Box::pin(socks4::ask(&stream, *address)).await?;
                Ok(stream)
            }
        },
        Target::Unix(path) => connect_unix(&SockAddr::unix(path)?).await,
        Target::Abstract(name) => connect_unix(&abstract_address(name)?).await,
    }
}

async fn connect_tcp(address: SocketAddr, options: ConnectOptions<'_>) -> io::Result<Stream> {
    let mut ports = source::ports(options.source).peekable();
    let socket = loop {
        let started = start_tcp(address, options, ports.next().unwrap_or_default()).await;
        match started {
            Err(error) if ports.peek().is_some() && source::is_port_taken(&error) => {}
            started => break started?,
        }
    };
    let stream = TcpStream::from_std(socket.into())?;
    if let Some(error) = settle(&stream, || stream.peer_addr().is_ok(), stream.writable()).await? {
        return Err(error);
    }
    Ok(Stream::Tcp(stream))
}

/// A socket that connects, from this port if the source is a range of them.
async fn start_tcp(address: SocketAddr, options: ConnectOptions<'_>, port: u16) -> io::Result<Socket> {
    let socket = tcp_socket(address, options.namespace).await?;
    socket.set_tcp_nodelay(true)?;
    apply(&socket, options)?;
    if let Some(from) = options.source {
        source::bind(&socket, from, port)?;
    }
    begin(&socket, &address.into())?;
    Ok(socket)
}

/// A TCP socket, in another network namespace if one is named.
///
/// # Errors
/// The system's, or that of [`Namespaces::socket`].
pub async fn tcp_socket(address: SocketAddr, namespace: Option<(&str, &Namespaces)>) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    match namespace {
        None => Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP)),
        Some((name, namespaces)) => Box::pin(namespaces.socket(name, domain)).await,
    }
}

async fn connect_unix(address: &SockAddr) -> io::Result<Stream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    // NOTE: a unix connect never stays in progress: a full backlog is EAGAIN at once, which the caller may retry.
    socket.connect(address)?;
    Ok(Stream::Unix(UnixStream::from_std(socket.into())?))
}

fn begin(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => Ok(()),
        result => result,
    }
}

/// Waits until the connection stands. On loopback it does at once, which asking for the peer tells without a turn of the
/// event loop.
async fn settle(
    socket: &impl AsFd,
    connected: impl Fn() -> bool,
    writable: impl Future<Output = io::Result<()>>,
) -> io::Result<Option<io::Error>> {
    if connected() {
        return Ok(None);
    }
    writable.await?;
    SockRef::from(socket).take_error()
}

/// Sets on a socket what is asked for, before it connects.
///
/// # Errors
/// The system's, for the first option that it refuses.
pub fn apply(socket: &Socket, options: ConnectOptions<'_>) -> io::Result<()> {
    if let Some(keepalive) = options.keepalive {
        set_keepalive(socket, keepalive)?;
    }
    if options.no_linger {
        socket.set_linger(Some(Duration::ZERO))?;
    }
    if let Some(timeout) = options.user_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if options.receive_buffer > 0 {
        socket.set_recv_buffer_size(options.receive_buffer)?;
    }
    if options.send_buffer > 0 {
        socket.set_send_buffer_size(options.send_buffer)?;
    }
    if options.fast_open {
        // Without it, a connection takes a round trip more.
        let _ = runtime::set_tcp_fast_open_connect(socket.as_fd());
    }
    if let Some(tos) = options.tos {
        socket.set_tos_v4(u32::from(tos))?;
    }
    if let Some(mark) = options.mark {
        socket.set_mark(mark)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_prepared_as_configured() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let (idle, interval) = (Some(Duration::from_secs(70)), Some(Duration::from_secs(11)));
        let keepalive = Keepalive { count: Some(7), idle, interval };
        let options = ConnectOptions { keepalive: Some(keepalive), no_linger: true, ..ConnectOptions::default() };
        apply(&socket, options).unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO));
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(70));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(11));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 7);
    }
}
