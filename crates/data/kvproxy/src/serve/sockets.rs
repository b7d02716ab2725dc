//! Sockets: listeners, clients and servers.

use std::{
    fs,
    io::{self, Read, Write},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use mio::{
    Interest, Registry, Token,
    event::Source,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, SockRef, Socket, Type};

/// What a unix socket's file may be used by unless the configuration says otherwise.
const MODE: u32 = 0o600;

/// A socket that clients come through. Several threads may have one at the same address of TCP, or share one of a path.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Listens at an address of TCP; with `shared` others may do so too, and the kernel spreads clients over them.
pub fn listen_tcp(address: SocketAddr, backlog: i32, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Listens at a path. A socket that nobody listens on any more is replaced.
pub fn listen_unix(path: &Path, mode: Option<u32>) -> io::Result<std::os::unix::net::UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| {
        use std::os::unix::fs::FileTypeExt as _;
        metadata.file_type().is_socket()
    });
    if is_socket {
        fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode.unwrap_or(MODE)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Listener {
    /// Takes the next client.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

impl Source for Listener {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.register(registry, token, interests),
            Self::Unix(listener) => listener.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.reregister(registry, token, interests),
            Self::Unix(listener) => listener.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.deregister(registry),
            Self::Unix(listener) => listener.deregister(registry),
        }
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Begins to connect to a server.
    pub fn connect(target: &Target, keep_alive: bool) -> io::Result<Self> {
        match target {
            Target::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                stream.set_nodelay(true)?;
                if keep_alive {
                    SockRef::from(&stream).set_keepalive(true)?;
                }
                Ok(Self::Tcp(stream))
            }
            Target::Unix(path) => Ok(Self::Unix(UnixStream::connect(path)?)),
        }
    }

    /// Whether the connection that was begun stands; an error if there will be none.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = SockRef::from(self).take_error()? {
            return Err(error);
        }
        match self {
            Self::Unix(_) => Ok(true),
            Self::Tcp(stream) => match stream.peer_addr() {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
                Err(error) => Err(error),
            },
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

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
        }
    }
}

/// A system's error without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
