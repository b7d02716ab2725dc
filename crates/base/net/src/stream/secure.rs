//! TLS over another stream.
//!
//! ```text
//!  Plain ──begin──▶ handshake ──▶ open ──▶ ended or failed
//! ```
//!
//! Until [`SecureStream::begin`] its bytes are those of the stream below: so headers of the PROXY protocol come before TLS. Reading
//! and writing take `&self`, as with sockets, so the state is behind a cell; nothing of it is borrowed across a call to others.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    io::{self, Read, Write},
    sync::Arc,
    task::{Context, Poll, ready},
};

use tls::{Channel, Connection, Failure, Handshaken, Progress};

use super::Stream;

/// A stream over which TLS may be spoken.
pub struct SecureStream {
    below: Stream,
    channel: RefCell<Option<Channel>>,
    /// Whatever is to be dropped with it.
    guard: Cell<Option<Box<dyn Any + Send>>>,
}

/// The stream below as a channel reads and writes it.
struct Wire<'a>(&'a Stream);

impl Read for Wire<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.try_receive(room)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for SecureStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SecureStream").field("below", &self.below).finish_non_exhaustive()
    }
}

impl SecureStream {
    /// A stream over which no TLS is spoken yet.
    #[must_use]
    pub fn new(below: Stream) -> Self {
        Self { below, channel: RefCell::default(), guard: Cell::default() }
    }

    /// The stream below.
    #[must_use]
    pub fn below(&self) -> &Stream {
        &self.below
    }

    /// Begins to speak TLS; `received` is what of it has been read from the stream already.
    pub fn begin(&self, connection: Connection, received: &[u8]) {
        self.channel.replace(Some(Channel::new(connection, received)));
    }

    /// Keeps a caller's guard, which is dropped when the stream is.
    pub fn hold(&self, guard: impl Any + Send) {
        self.guard.set(Some(Box::new(guard)));
    }

    /// Whether TLS is spoken.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.channel.borrow().is_some()
    }

    /// What the handshake has agreed on, once it is done.
    #[must_use]
    pub fn handshaken(&self) -> Option<Arc<Handshaken>> {
        self.channel.borrow().as_ref()?.handshaken().cloned()
    }

    /// Goes on with the handshake; ready when it is done and what it had to say is sent.
    pub fn poll_handshake(&self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut channel = self.channel.borrow_mut();
        let Some(channel) = channel.as_mut() else { return Poll::Ready(Ok(())) };
        loop {
            match channel.handshake(&mut Wire(&self.below))? {
                Progress::Done => return Poll::Ready(Ok(())),
                Progress::AwaitsWrite => {
                    ready!(self.below.poll_writable(context)).map_err(|_| Failure::Closed)?;
                }
                Progress::AwaitsRead => {
                    ready!(self.below.poll_readable(context)).map_err(|_| Failure::Closed)?;
                }
            }
        }
    }

    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_something() { Poll::Ready(Ok(())) } else { self.below.poll_readable(context) }
    }

    pub(crate) fn may_read(&self) -> bool {
        self.holds_something() || self.below.may_read()
    }

    fn holds_something(&self) -> bool {
        self.channel.borrow().as_ref().is_some_and(Channel::may_read)
    }

    pub(crate) fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self.channel.borrow_mut().as_mut() {
            Some(channel) => channel.read(&mut Wire(&self.below), room),
            None => self.below.try_read(room),
        }
    }

    pub(crate) fn try_write(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self.channel.borrow_mut().as_mut() {
            Some(channel) => channel.write(&mut Wire(&self.below), first, second),
            None => self.below.try_write_both(first, second),
        }
    }

    /// Says that no more will be written, as far as the stream below takes it.
    pub(crate) fn close(&self) {
        if let Ok(mut channel) = self.channel.try_borrow_mut()
            && let Some(channel) = channel.as_mut()
        {
            let _ = channel.close(&mut Wire(&self.below));
        }
    }

    /// Says that no more will be written; ready once that is on its way.
    pub(crate) fn poll_close(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut channel = self.channel.borrow_mut();
        let Some(channel) = channel.as_mut() else { return Poll::Ready(Ok(())) };
        loop {
            match channel.close(&mut Wire(&self.below)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.below.poll_writable(context))?,
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Says nothing at the end: the connection is to vanish, or to be reset.
    pub(crate) fn silence(&self) {
        if let Some(channel) = self.channel.borrow_mut().as_mut() {
            channel.silence();
        }
    }
}

impl Drop for SecureStream {
    fn drop(&mut self) {
        self.close();
    }
}
