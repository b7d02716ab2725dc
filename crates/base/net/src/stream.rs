//! A connection to a client or server: TCP, unix, or within the process.

mod secure;

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

pub use self::secure::SecureStream;
use crate::{
    buffer::Buffer,
    keepalive::{Keepalive, set_keepalive},
    memory::MemoryStream,
};

/// A connected stream that does not block.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
    /// Within the process.
    Memory(MemoryStream),
    /// TLS over another one.
    Secure(Box<SecureStream>),
}

/// A socket that the runtime does not watch.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix.
    Unix(std::os::unix::net::UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

macro_rules! each {
    ($self:expr, $socket:ident => $body:expr, $memory:ident => $other:expr, $secure:ident => $over:expr) => {
        match $self {
            Stream::Tcp($socket) => $body,
            Stream::Unix($socket) => $body,
            Stream::Memory($memory) => $other,
            Stream::Secure($secure) => $over,
        }
    };
}

impl Stream {
    /// Has the runtime watch a socket, which must not block.
    ///
    /// # Errors
    /// The system's, when it has no memory for that.
    pub fn from_socket(socket: Socket) -> io::Result<Self> {
        match socket {
            Socket::Tcp(socket) => TcpStream::from_std(socket).map(Self::Tcp),
            Socket::Unix(socket) => UnixStream::from_std(socket).map(Self::Unix),
        }
    }

    /// Takes the socket from the runtime.
    ///
    /// # Errors
    /// Those of the runtime's shutdown.
    pub fn into_socket(self) -> io::Result<Socket> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(Socket::Tcp),
            Self::Unix(stream) => stream.into_std().map(Socket::Unix),
            Self::Memory(_) | Self::Secure(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The same stream, over which TLS may be spoken; so far its bytes are as they were.
    #[must_use]
    pub fn securable(self) -> Self {
        Self::Secure(Box::new(SecureStream::new(self)))
    }

    /// TLS, if it is spoken here or may be.
    #[must_use]
    #[inline]
    pub fn secure(&self) -> Option<&SecureStream> {
        match self {
            Self::Secure(secure) => Some(secure),
            Self::Tcp(_) | Self::Unix(_) | Self::Memory(_) => None,
        }
    }

    /// Ready when a read may get somewhere.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => socket.poll_read_ready(context), memory => memory.poll_readable(context),
            secure => secure.poll_readable(context))
    }

    /// Whether a read may get somewhere, as far as the runtime knows. Nobody is woken for having asked.
    #[must_use]
    #[inline]
    pub fn may_read(&self) -> bool {
        each!(self, socket => socket.try_io(Interest::READABLE, || Ok(())).is_ok(), memory => memory.may_read(),
            secure => secure.may_read())
    }

    /// Ready when a write may get somewhere.
    #[inline]
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => socket.poll_write_ready(context), memory => memory.poll_writable(context),
            secure => secure.below().poll_writable(context))
    }

    /// Waits until a read may get somewhere.
    ///
    /// # Errors
    /// Those of the runtime's shutdown.
    pub async fn readable(&self) -> io::Result<()> {
        each!(self, socket => socket.readable().await, memory => poll_fn(|context| memory.poll_readable(context)).await,
            _secure => poll_fn(|context| self.poll_readable(context)).await)
    }

    /// Waits until the connection has failed, as by a reset, though nobody reads from it or writes to it any more.
    pub async fn failed(&self) -> io::Error {
        loop {
            let ready = each!(self, socket => socket.ready(Interest::ERROR).await, memory => {
                poll_fn(|context| memory.poll_abandoned(context)).await;
                return io::ErrorKind::ConnectionReset.into();
            }, secure => return Box::pin(secure.below().failed()).await);
            match ready {
                Ok(ready) if ready.is_error() => {
                    let pending = self.socket(|socket| socket.take_error().ok().flatten()).flatten();
                    return pending.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                }
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }

    /// Reads into what room `buffer` has. `Ok(0)` is the end of the stream; a full buffer is `WouldBlock`.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn try_fill(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let room = buffer.room();
        if room.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = room.len();
        let count = self.try_read(room)?;
        buffer.fill(count);
        if 0 < count && count < most {
            self.is_emptied();
        }
        Ok(count)
    }

    /// Notes that a read has left room, which has emptied the socket, so that the next one would only be told to wait. Saying so to
    /// the runtime saves that call. What comes from now on raises a new event (edge-triggered), and the end of the stream is
    /// remembered apart.
    fn is_emptied(&self) {
        let nothing = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
        // A record that was read leaves nothing to be said of the socket below.
        let _ = each!(self, socket => socket.try_io(Interest::READABLE, nothing), _memory => Ok(()), _secure => Ok(()));
    }

    /// Reads into `room`, as [`Stream::try_fill`] does into that of a buffer.
    pub(crate) fn try_receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.try_read(room)?;
        if 0 < count && count < room.len() {
            self.is_emptied();
        }
        Ok(count)
    }

    /// Reads into `room`.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        // NOTE: here and below by rustix: the C library's functions take two more calls each where there are threads, because a
        // thread could be cancelled in them.
        each!(self, socket => socket.try_io(Interest::READABLE, || {
            Ok(rustix::net::recv(socket.as_fd(), room, RecvFlags::empty())?.0)
        }), memory => memory.try_read(room), secure => secure.try_read(room))
    }

    /// Writes what the socket takes of `bytes`.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, socket => socket.try_io(Interest::WRITABLE, || {
            Ok(rustix::net::send(socket.as_fd(), bytes, SendFlags::NOSIGNAL)?)
        }), memory => memory.try_write(bytes), secure => secure.try_write(bytes, &[]))
    }

    /// Like [`Stream::try_write`], where more follows at once: a socket may send these bytes in one packet with those.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn try_write_more(&self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, socket => socket.try_io(Interest::WRITABLE, || {
            Ok(rustix::net::send(socket.as_fd(), bytes, SendFlags::NOSIGNAL | SendFlags::MORE)?)
        }), memory => memory.try_write(bytes), secure => secure.try_write(bytes, &[]))
    }

    /// Writes what the socket takes of both pieces.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn try_write_both(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match (first.is_empty(), second.is_empty()) {
            (_, true) => self.try_write(first),
            (true, false) => self.try_write(second),
            (false, false) => {
                let slices = [IoSlice::new(first), IoSlice::new(second)];
                each!(self, socket => socket.try_io(Interest::WRITABLE, || {
                    let nothing = &mut SendAncillaryBuffer::default();
                    Ok(rustix::net::sendmsg(socket.as_fd(), &slices, nothing, SendFlags::NOSIGNAL)?)
                }), memory => match memory.try_write(first)? {
                    count if count < first.len() => Ok(count),
                    count => Ok(count + memory.try_write(second).unwrap_or(0)),
                }, secure => secure.try_write(first, second))
            }
        }
    }

    /// The socket itself, where its bytes are those of the stream; `None` where they are another form of them, so that
    /// they must pass through the process.
    #[must_use]
    #[inline]
    pub fn plain(&self) -> Option<PlainSocket<'_>> {
        match self {
            Self::Tcp(socket) => Some(PlainSocket(Plain::Tcp(socket))),
            Self::Unix(socket) => Some(PlainSocket(Plain::Unix(socket))),
            Self::Memory(_) | Self::Secure(_) => None,
        }
    }

    /// The number of its socket, as logs name it.
    #[must_use]
    pub fn number(&self) -> Option<RawFd> {
        self.descriptor().map(|descriptor| descriptor.as_raw_fd())
    }

    /// What both sides have agreed to speak, if they have said so; it is HTTP/1 otherwise.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        each!(self, _socket => None, memory => memory.protocol(), secure => {
            match secure.handshaken()?.protocol.as_deref()? {
                b"h2" => Some("h2"),
                b"http/1.1" => Some("http/1.1"),
                _ => None,
            }
        })
    }

    /// The socket, for what is said of it rather than sent on it; `None` where there is none.
    #[inline]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        each!(self, socket => Some(socket.as_fd()), _memory => None, secure => secure.below().descriptor())
    }

    /// Does something to the socket, if there is one.
    fn socket<R>(&self, what: impl FnOnce(&SockRef<'_>) -> R) -> Option<R> {
        self.descriptor().map(|descriptor| what(&SockRef::from(&descriptor)))
    }

    /// Says that no more will be written (FIN).
    pub fn shut_write(&self) {
        match self {
            Self::Memory(memory) => memory.shut_write(),
            Self::Secure(secure) => {
                secure.close();
                return secure.below().shut_write();
            }
            Self::Tcp(_) | Self::Unix(_) => {}
        }
        let _ = self.socket(|socket| socket.shutdown(std::net::Shutdown::Write));
    }

    /// The same; ready once what the protocol has to say of it is on its way. A socket that is full has no room for that before its
    /// other end has read something.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_shut_write(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Secure(secure) = self {
            ready!(secure.poll_close(context))?;
        }
        self.shut_write();
        Poll::Ready(Ok(()))
    }

    /// Ends both directions; what has been received can still be read.
    pub fn shut_both(&self) {
        match self {
            Self::Memory(memory) => memory.shut_both(),
            Self::Secure(secure) => {
                secure.close();
                return secure.below().shut_both();
            }
            Self::Tcp(_) | Self::Unix(_) => {}
        }
        let _ = self.socket(|socket| socket.shutdown(std::net::Shutdown::Both));
    }

    /// `set-tos`. What the system does not allow is left as it is, here and below.
    pub fn set_tos(&self, tos: u8) {
        let _ = self.socket(|socket| socket.set_tos_v4(u32::from(tos)));
    }

    /// `set-mark`.
    pub fn set_mark(&self, mark: u32) {
        let _ = self.socket(|socket| socket.set_mark(mark));
    }

    /// Has the system probe the other end while it is silent.
    pub fn keep_alive(&self, how: Keepalive) {
        let _ = self.socket(|socket| set_keepalive(socket, how));
    }

    /// Sets the sizes of the system's buffers; 0 leaves one as it is.
    pub fn set_buffers(&self, receive: usize, send: usize) {
        self.socket(|socket| {
            if receive > 0 {
                let _ = socket.set_recv_buffer_size(receive);
            }
            if send > 0 {
                let _ = socket.set_send_buffer_size(send);
            }
        });
    }

    /// What the system knows of a TCP connection.
    ///
    /// # Errors
    /// When it is none.
    pub fn tcp_information(&self) -> io::Result<libc::tcp_info> {
        self.descriptor().map_or_else(|| Err(io::ErrorKind::Unsupported.into()), runtime::tcp_information)
    }

    /// Whether the system has not yet been told that all which was sent has come to the other end, after [`Self::poll_shut_write`].
    #[must_use]
    pub fn has_undelivered(&self) -> bool {
        /// States of a connection whose end has been put behind what is to be sent, and has not been acknowledged: TCP_FIN_WAIT1,
        /// TCP_LAST_ACK, TCP_CLOSING.
        const END_IS_ON_ITS_WAY: [u8; 3] = [4, 9, 11];
        self.tcp_information().is_ok_and(|information| END_IS_ON_ITS_WAY.contains(&information.tcpi_state))
    }

    /// Leaves the other end without any answer, not even a reset: the connection vanishes here and stays open there.
    pub fn vanish(&self) {
        if let Self::Secure(secure) = self {
            secure.silence();
        }
        let Some(descriptor) = self.descriptor() else { return };
        if runtime::set_tcp_repair(descriptor).is_ok() {
            return;
        }
        // Where that is not permitted there is a reset, which comes no farther than the next router.
        let _ = rustix::net::sockopt::set_ip_ttl(descriptor, 1);
        self.reset_on_close();
    }

    /// Makes closing send a reset, as for a connection that must leave no TIME-WAIT.
    pub fn reset_on_close(&self) {
        let _ = self.socket(|socket| socket.set_linger(Some(std::time::Duration::ZERO)));
    }

    /// The other end's address, for TCP.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) | Self::Memory(_) => None,
            Self::Secure(secure) => secure.below().peer_address(),
        }
    }

    /// The user and the group of the process at the other end, for a unix socket.
    #[must_use]
    pub fn peer_credentials(&self) -> Option<(u32, u32)> {
        match self {
            Self::Tcp(_) | Self::Memory(_) => None,
            Self::Secure(secure) => secure.below().peer_credentials(),
            Self::Unix(stream) => stream.peer_cred().ok().map(|credentials| (credentials.uid(), credentials.gid())),
        }
    }

    /// The path of this end, for a unix socket.
    #[must_use]
    pub fn local_path(&self) -> Option<String> {
        match self {
            Self::Tcp(_) | Self::Memory(_) => None,
            Self::Secure(secure) => secure.below().local_path(),
            Self::Unix(stream) => {
                let address = stream.local_addr().ok()?;
                Some(address.as_pathname()?.to_string_lossy().into_owned())
            }
        }
    }

    /// This end's address, for TCP.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) | Self::Memory(_) => None,
            Self::Secure(secure) => secure.below().local_address(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.try_read(into.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_readable(context))?,
                read => return Poll::Ready(read.map(|count| into.advance(count))),
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_writable(context))?,
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_write();
        Poll::Ready(Ok(()))
    }
}

/// The socket of a stream whose bytes are those on the socket: the system may move them without the process seeing them,
/// and nothing but the socket need be remembered of a connection that is idle.
#[derive(Clone, Copy, Debug)]
pub struct PlainSocket<'a>(Plain<'a>);

#[derive(Clone, Copy, Debug)]
enum Plain<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
}

macro_rules! either {
    ($self:expr, $socket:ident => $body:expr) => {
        match $self.0 {
            Plain::Tcp($socket) => $body,
            Plain::Unix($socket) => $body,
        }
    };
}

impl PlainSocket<'_> {
    /// Ready when a read may get somewhere.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_read_ready(context))
    }

    /// Ready when a write may get somewhere.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_write_ready(context))
    }

    /// Runs a system call on the socket, telling the runtime when it would block.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        either!(self, socket => socket.try_io(interest, || call(socket.as_fd())))
    }
}

impl AsFd for PlainSocket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, socket => socket.as_fd())
    }
}
