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
};

use mio::{
    Interest, Registry, Token,
    event::Source,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use socket2::SockRef;

use commands::config::Settings;

use crate::StoreError;

/// A socket that clients come through.
#[derive(Debug)]
pub enum Listener {
    /// An address.
    Tcp(TcpListener),
    /// A path, which goes with the listener.
    Unix(UnixListener, PathBuf),
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
}

impl Stream {
    /// The number of the socket.
    pub fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

// NOTE: by rustix, as the C library's functions take two more calls each where there are threads: one could be cancelled in them.
impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&*self, into, RecvFlags::empty())?.0)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&*self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is kept back.
        Ok(())
    }
}

impl Listener {
    /// The address, if it is one of TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Takes the next client.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be taken.
    pub fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                Ok(Accepted {
                    local_address: stream.local_addr().map(|local| local.to_string()).unwrap_or_default(),
                    stream: Stream::Tcp(stream),
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
    ($($kind:ident: $($pattern:pat => $inner:ident),*;)*) => {$(
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
    Listener: Self::Tcp(inner) => inner, Self::Unix(inner, _) => inner;
    Stream: Self::Tcp(inner) => inner, Self::Unix(inner) => inner;
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
pub fn open_addresses(
    settings: &Settings,
    already: &[SocketAddr],
) -> Result<(Vec<Listener>, Vec<SocketAddr>), StoreError> {
    let mut listeners = Vec::new();
    let mut wanted = Vec::new();
    let port = settings.port.0 as u16;
    let backlog = i32::try_from(settings.tcp_backlog.0).unwrap_or(i32::MAX);
    let (mut opened, mut last) = (0, None);
    for host in settings.bind.0.split_ascii_whitespace().filter(|_| port != 0) {
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
            if already.contains(&address) {
                opened += 1;
                wanted.push(address);
                continue;
            }
            match listen(address, backlog, settings.socket_mark_id.0) {
                Ok(listener) => {
                    opened += 1;
                    wanted.push(address);
                    listeners.push(Listener::Tcp(listener));
                }
                // What the machine does not have is left out; an address that is taken is an error all the same.
                Err(error) if optional && error.kind() != io::ErrorKind::AddrInUse => last = Some(failed(error)),
                Err(error) => return Err(failed(error)),
            }
        }
    }
    if let (0, Some(error)) = (opened, last) {
        return Err(error);
    }
    Ok((listeners, wanted))
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
            all.iter().filter_map(Listener::address).map(|address| address.ip().to_string()).collect();
        let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
        assert_eq!(addresses, if has_ipv6 { &["0.0.0.0", "::"][..] } else { &["0.0.0.0"] });
        drop(all);
        assert!(open(&settings("-192.0.2.1", port)).is_err(), "a store that nobody can reach does not start");
    }
}
