//! Listening sockets: TCP and unix.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, ToSocketAddrs},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd},
        unix::fs::PermissionsExt as _,
    },
    path::PathBuf,
    sync::Arc,
};

use mio::{
    Interest, Registry, Token,
    event::Source,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use socket2::SockRef;

use commands::config::Settings;

use tls::Connection;

use crate::{
    StoreError, messages,
    secure::{CurrentSecurity, Handshake, Secure},
};

/// A socket that clients come through.
#[derive(Debug)]
pub enum Listener {
    /// An address, and whether TLS is spoken there.
    Tcp(TcpListener, Transport),
    /// A path, which goes with the listener.
    Unix(UnixListener, PathBuf),
}

/// What is spoken below Redis' protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS.
    Secure,
}

/// An address that is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub address: SocketAddr,
    /// What is spoken there.
    pub transport: Transport,
}

/// A client that has come.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub stream: Stream,
    /// Its address, as commands show it.
    pub address: String,
    /// The address that it came to.
    pub local_address: String,
    /// Whether it is of this machine.
    pub is_local: bool,
}

/// A client's socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
    /// With TLS over TCP.
    Secure(Box<SecureClient>),
}

/// A client that speaks TLS, or is to.
#[derive(Debug)]
pub struct SecureClient {
    secure: Secure<TcpStream>,
    /// What it is told when it can be told something, before it is closed.
    refusal: Option<&'static str>,
}

impl SecureClient {
    /// Has it be told this, and be closed.
    pub fn refuse(&mut self, text: &'static str) {
        self.refusal = Some(text);
    }

    /// Goes on with the handshake, if it is not done.
    fn negotiate(&mut self) -> io::Result<()> {
        if !self.secure.is_handshaking() {
            return Ok(());
        }
        match self.secure.handshake() {
            Ok(Handshake::Pending) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(Handshake::Done) => match self.refusal {
                None => Ok(()),
                Some(text) => {
                    // What does not fit into the socket's buffer is of no use to anybody.
                    let _ = self.secure.write(text.as_bytes());
                    Err(io::ErrorKind::ConnectionRefused.into())
                }
            },
            Err(failure) => {
                self.tell_failure(&failure);
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn tell_failure(&self, failure: &dyn std::fmt::Display) {
        tell_failure(self.secure.socket(), failure);
    }
}

/// Tells of a client that cannot be spoken with, in Redis' words.
fn tell_failure(socket: &TcpStream, failure: &dyn std::fmt::Display) {
    let name = |address: io::Result<SocketAddr>| address.map_or_else(|_| "?".into(), |address| address.to_string());
    let (peer, own) = (name(socket.peer_addr()), name(socket.local_addr()));
    messages::warn(&format!("Error accepting a client connection: {failure} (addr={peer} laddr={own})"));
}

impl Stream {
    /// The number of the socket.
    pub fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Secure(client) => client.secure.socket().as_raw_fd(),
        }
    }

    /// The connection of TCP, if it is one.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
            Self::Secure(client) => Some(client.secure.socket()),
        }
    }

    /// Whether a read gets somewhere, though nothing more comes on the socket: nobody tells of that again.
    #[inline]
    pub fn may_read(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Secure(client) => client.secure.may_read(),
        }
    }

    /// Whether there is something to send that nobody writes again: it goes out with the next read.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Secure(client) => client.secure.is_handshaking() && client.secure.has_unsent(),
        }
    }

    /// Whether the first bytes of a client are a greeting of TLS where none is spoken: it would wait for an answer for ever.
    pub fn is_strange(&self, first: &[u8]) -> bool {
        match (self, first) {
            (Self::Tcp(stream), [22, 3, 0..=4, ..]) => {
                tell_failure(stream, &"it speaks TLS, and this port does not: `tls-port` is the one that does");
                true
            }
            _ => false,
        }
    }

    /// Gives the client up, if it has not agreed on TLS yet. Whether that is so.
    pub fn gives_up_handshake(&self) -> bool {
        match self {
            Self::Secure(client) if client.secure.is_handshaking() => {
                client.tell_failure(&"the TLS handshake took too long");
                true
            }
            Self::Tcp(_) | Self::Unix(_) | Self::Secure(_) => false,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Secure(client) => client.secure.as_fd(),
        }
    }
}

// NOTE: by rustix, as the C library's functions take two more calls each where there are threads: one could be cancelled in them.
impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Self::Secure(client) = self {
            client.negotiate()?;
            return client.secure.fill(into);
        }
        Ok(rustix::net::recv(&*self, into, RecvFlags::empty())?.0)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Self::Secure(client) = self {
            return client.secure.write(bytes);
        }
        Ok(rustix::net::send(&*self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is kept back.
        Ok(())
    }
}

impl Listener {
    /// The address, if it is one of TCP.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Tcp(listener, transport) => {
                listener.local_addr().ok().map(|address| Place { address, transport: *transport })
            }
            Self::Unix(..) => None,
        }
    }

    /// Has clients of an address speak this from now on.
    pub fn speak(&mut self, wanted: Transport) {
        if let Self::Tcp(_, transport) = self {
            *transport = wanted;
        }
    }

    /// Takes the next client. One that speaks TLS begins with this; there is none where nobody does.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be taken.
    pub fn accept(&self, security: &CurrentSecurity) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener, transport) => {
                let (stream, address) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                let local_address = stream.local_addr().map(|local| local.to_string()).unwrap_or_default();
                let stream = match transport {
                    Transport::Plain => Stream::Tcp(stream),
                    Transport::Secure => {
                        // NOTE: nobody is ever let in without TLS where there is to be some.
                        let security = security.get().ok_or(io::ErrorKind::Unsupported)?;
                        let connection = Connection::server(Arc::clone(&security.acceptor));
                        let secure = Secure::new(stream, connection);
                        Stream::Secure(Box::new(SecureClient { secure, refusal: None }))
                    }
                };
                Ok(Accepted {
                    local_address,
                    stream,
                    address: address.to_string(),
                    is_local: address.ip().to_canonical().is_loopback(),
                })
            }
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                let address = format!("{}:0", path.display());
                Ok(Accepted { stream: Stream::Unix(stream), local_address: address.clone(), address, is_local: true })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

macro_rules! sources {
    ($($kind:ident: $($pattern:pat => $inner:expr),*;)*) => {$(
        impl Source for $kind {
            fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
                match self { $($pattern => $inner.register(registry, token, interests),)* }
            }
            fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
                match self { $($pattern => $inner.reregister(registry, token, interests),)* }
            }
            fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
                match self { $($pattern => $inner.deregister(registry),)* }
            }
        }
    )*};
}

sources! {
    Listener: Self::Tcp(inner, _) => inner, Self::Unix(inner, _) => inner;
    Stream: Self::Tcp(inner) => inner, Self::Unix(inner) => inner, Self::Secure(client) => client.secure.socket_mut();
}

/// Opens all addresses of the settings, and the path. An address that begins with `-` may fail, as in Redis.
///
/// # Errors
///
/// One cannot be listened on.
pub fn open(settings: &Settings) -> Result<Vec<Listener>, StoreError> {
    let (mut listeners, _) = open_addresses(settings, &[])?;
    if !settings.unixsocket.0.is_empty() {
        listeners.push(listen_on_path(settings)?);
    }
    Ok(listeners)
}

/// Opens the addresses of the settings that are not open yet. Returns these, and all that are wanted.
///
/// # Errors
///
/// One cannot be listened on.
pub fn open_addresses(settings: &Settings, already: &[Place]) -> Result<(Vec<Listener>, Vec<Place>), StoreError> {
    let mut opening = Opening { settings, already, listeners: Vec::new(), wanted: Vec::new() };
    for (port, transport) in [(settings.port.0, Transport::Plain), (settings.tls_port.0, Transport::Secure)] {
        if port != 0 {
            opening.open(port as u16, transport)?;
        }
    }
    Ok((opening.listeners, opening.wanted))
}

/// Addresses that are opened.
struct Opening<'a> {
    settings: &'a Settings,
    already: &'a [Place],
    listeners: Vec<Listener>,
    wanted: Vec<Place>,
}

impl Opening<'_> {
    /// Opens a port at all hosts.
    fn open(&mut self, port: u16, transport: Transport) -> Result<(), StoreError> {
        let before = self.wanted.len();
        let mut last = None;
        for host in self.settings.bind.0.split_ascii_whitespace() {
            let (host, optional) = host.strip_prefix('-').map_or((host, false), |host| (host, true));
            let host = match host {
                "*" => "0.0.0.0",
                "::*" => "::",
                host => host,
            };
            let failed = |source| StoreError::Listen { address: name(host, port), source };
            let resolved: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
                Ok(resolved) => resolved.collect(),
                Err(_) if optional => continue,
                Err(error) => return Err(failed(error)),
            };
            for address in resolved {
                match self.open_address(address) {
                    Ok(Some(listener)) => self.listeners.push(Listener::Tcp(listener, transport)),
                    // It is open, and speaks something else from now on if it is to.
                    Ok(None) => {}
                    // What the machine does not have is left out; an address that is taken is an error all the same.
                    Err(error) if optional && error.kind() != io::ErrorKind::AddrInUse => {
                        last = Some(failed(error));
                        continue;
                    }
                    Err(error) => return Err(failed(error)),
                }
                self.wanted.push(Place { address, transport });
            }
        }
        match last {
            Some(error) if self.wanted.len() == before => Err(error),
            _ => Ok(()),
        }
    }

    fn open_address(&self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        if self.wanted.iter().any(|place| place.address == address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if self.already.iter().any(|place| place.address == address) {
            return Ok(None);
        }
        let settings = self.settings;
        let backlog = i32::try_from(settings.tcp_backlog.0).unwrap_or(i32::MAX);
        listen(address, backlog, settings.socket_mark_id.0).map(Some)
    }
}

fn name(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn listen(address: SocketAddr, backlog: i32, mark: i64) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // IPv4 has addresses of its own.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if mark != 0 {
        // Connections that are accepted have it from here.
        let marked = SockRef::from(&socket).set_mark(u32::try_from(mark).unwrap_or_default());
        marked.map_err(|error| io::Error::new(error.kind(), format!("socket-mark-id {mark}: {error}")))?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(TcpListener::from_std(std::net::TcpListener::from(socket)))
}

fn listen_on_path(settings: &Settings) -> Result<Listener, StoreError> {
    let path = PathBuf::from(&settings.unixsocket.0);
    let failed = |source| StoreError::ListenOnPath { path: path.clone(), source };
    // What a process left that did not end well is in the way; a file that is no socket is not ours.
    if fs::symlink_metadata(&path).is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())) {
        fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let mode = settings.unixsocketperm.0;
    if mode != 0 {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(Listener::Unix(listener, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::config::{Integer, Octal, Text};

    fn settings(bind: &str, port: u16) -> Settings {
        Settings { bind: Text(bind.into()), port: Integer(i64::from(port)), ..Settings::default() }
    }

    #[test]
    fn several_addresses_and_a_path() {
        let path = std::env::temp_dir().join(format!("tidegate-listener-{}.sock", std::process::id()));
        let with_path = Settings {
            unixsocket: Text(path.display().to_string()),
            unixsocketperm: Octal(0o700),
            ..settings("127.0.0.1", 0)
        };
        // One that is left of another process is taken over.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listeners = open(&with_path).unwrap();
        assert_eq!(listeners.len(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(listeners);
        assert!(!path.exists());

        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        assert!(matches!(open(&settings("127.0.0.1", port)), Err(StoreError::Listen { .. })));
        drop(free);
        // The second address is not this machine's.
        assert_eq!(open(&settings("127.0.0.1 -192.0.2.1 127.0.0.2", port)).unwrap().len(), 2);
        assert!(open(&settings("127.0.0.1 192.0.2.1", port)).is_err());
        // All addresses of both kinds, as Redis writes it; a machine may have no IPv6.
        let all = open(&settings("* -::*", port)).unwrap();
        let addresses: Vec<String> =
            all.iter().filter_map(Listener::place).map(|place| place.address.ip().to_string()).collect();
        let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
        assert_eq!(addresses, if has_ipv6 { &["0.0.0.0", "::"][..] } else { &["0.0.0.0"] });
        drop(all);
        assert!(open(&settings("-192.0.2.1", port)).is_err(), "a store that nobody can reach does not start");
    }
}
