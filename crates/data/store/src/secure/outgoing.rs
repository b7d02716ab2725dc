//! Connections to other servers, with TLS or without.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tls::{Connection, Connector};

use super::stream::{Handshake, Secure};

/// How TLS is spoken with a server.
#[derive(Debug, Clone)]
pub struct Peer {
    /// What connections begin with.
    pub connector: Arc<Connector>,
    /// The name that it is asked for, and that its certificate must have; none: neither is.
    pub name: Option<String>,
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.connector, &other.connector) && self.name == other.name
    }
}

impl Eq for Peer {}

/// A connection to another server.
#[derive(Debug)]
pub enum Outgoing {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Secure(Box<Secure<TcpStream>>),
}

impl Outgoing {
    /// Connects, and negotiates if it is to be with TLS. The socket waits for so long with each read and write from then on.
    ///
    /// # Errors
    ///
    /// Nobody listens there, it takes too long, or both ends do not agree on TLS.
    pub fn connect(address: &SocketAddr, timeout: Duration, peer: Option<&Peer>) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(address, timeout)?, timeout, peer)
    }

    /// The same over a connection that is there.
    ///
    /// # Errors
    ///
    /// Those of [`Outgoing::connect`].
    pub fn over(stream: TcpStream, timeout: Duration, peer: Option<&Peer>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let Some(peer) = peer else { return Ok(Self::Plain(stream)) };
        let name = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
        let refused = |failure: tls::Failure| {
            let hint = match failure {
                tls::Failure::Closed | tls::Failure::NotTls => ": does it speak TLS at this port?",
                _ => "",
            };
            io::Error::new(io::ErrorKind::InvalidData, format!("no TLS with {name}: {failure}{hint}"))
        };
        let connection = Connection::client(&peer.connector, peer.name.as_deref(), None).map_err(refused)?;
        let begun = Instant::now();
        let mut secure = Secure::new(stream, connection);
        loop {
            match secure.handshake() {
                Ok(Handshake::Done) => return Ok(Self::Secure(Box::new(secure))),
                Ok(Handshake::Pending) if begun.elapsed() < timeout => {}
                Ok(Handshake::Pending) => {
                    let text = format!("no TLS with {name}: it says nothing: does it speak TLS at this port?");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(failure) => return Err(refused(failure)),
            }
        }
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secure(secure) => secure.socket(),
        }
    }

    /// Whether a read gets somewhere though nothing more comes on the socket.
    pub fn may_read(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Secure(secure) => secure.may_read(),
        }
    }
}

impl AsFd for Outgoing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Read for Outgoing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Secure(secure) => secure.read(into),
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secure(secure) => secure.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that one thread reads and another one writes. Neither holds it while it waits.
#[derive(Debug, Clone)]
pub struct Shared {
    inner: Arc<Both>,
}

#[derive(Debug)]
struct Both {
    /// The same socket, to wait for it.
    socket: TcpStream,
    stream: Mutex<Outgoing>,
    patience: Duration,
}

impl Shared {
    /// Shares a connection; each read and write waits for so long.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(stream: Outgoing, patience: Duration) -> io::Result<Self> {
        stream.socket().set_nonblocking(true)?;
        let socket = stream.socket().try_clone()?;
        Ok(Self { inner: Arc::new(Both { socket, stream: Mutex::new(stream), patience }) })
    }

    /// Ends both directions.
    pub fn shutdown(&self) {
        let _ = self.inner.socket.shutdown(Shutdown::Both);
    }

    fn stream(&self) -> MutexGuard<'_, Outgoing> {
        // A connection of a thread that panicked is told by its next read.
        self.inner.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, wanted: PollFlags) -> io::Result<()> {
        let patience = self.inner.patience;
        let seconds = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
        let patience = Timespec { tv_sec: seconds, tv_nsec: patience.subsec_nanos().into() };
        let mut ready = [PollFd::new(&self.inner.socket, wanted)];
        match poll(&mut ready, Some(&patience)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn patiently(
        &self,
        wanted: PollFlags,
        mut what: impl FnMut(&mut Outgoing) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let outcome = what(&mut self.stream());
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(wanted)?,
                other => return other,
            }
        }
    }
}

impl Read for Shared {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(PollFlags::IN, |stream| stream.read(into))
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(PollFlags::OUT, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
