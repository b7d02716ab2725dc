//! TLS over another stream.
//!
//! ```text
//!  Plain ──begin──▶ handshake ──▶ open ──▶ ended or failed
//! ```
//!
//! Until [`SecureStream::begin`] its bytes are those of the stream below: so headers of the PROXY protocol come before TLS. Reading
//! and writing take `&self`, as with sockets, so the state is behind a cell; nothing of it is borrowed across a call to others.
//!
//! IMPORTANT: a write that has been told to wait has been sealed already, up to a record. Whoever writes comes back with the same
//! bytes first: what was sealed is then counted as written once the stream below has taken all of it. So nothing that was said to be
//! written waits here, and a peer that does not read costs a record.

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tls::{Connection, Failure, Handshaken, ReadOutcome};

use super::Stream;

/// A stream over which TLS may be spoken.
pub struct SecureStream {
    below: Stream,
    connection: RefCell<Option<Connection>>,
    handshaken: RefCell<Option<Arc<Handshaken>>>,
    /// Bytes of the next writes that are sealed and sent already.
    credit: Cell<usize>,
    /// Nothing is said at the end any more.
    is_silent: Cell<bool>,
}

impl fmt::Debug for SecureStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SecureStream").field("below", &self.below).finish_non_exhaustive()
    }
}

/// A failure as one of reading and writing.
fn broken(failure: Failure) -> io::Error {
    let kind = match failure {
        Failure::Truncated | Failure::Closed => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, failure)
}

impl SecureStream {
    /// A stream over which no TLS is spoken yet.
    #[must_use]
    pub fn new(below: Stream) -> Self {
        Self {
            below,
            connection: RefCell::default(),
            handshaken: RefCell::default(),
            credit: Cell::new(0),
            is_silent: Cell::new(false),
        }
    }

    /// The stream below.
    #[must_use]
    pub fn below(&self) -> &Stream {
        &self.below
    }

    /// Begins to speak TLS; `received` is what of it has been read from the stream already.
    pub fn begin(&self, mut connection: Connection, received: &[u8]) {
        // What has been received is less than a block of the connection.
        if let Some(room) = connection.room().get_mut(..received.len()) {
            room.copy_from_slice(received);
            connection.fill(received.len());
        }
        self.connection.replace(Some(connection));
    }

    /// Whether TLS is spoken.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.connection.borrow().is_some()
    }

    /// What the handshake has agreed on, once it is done.
    #[must_use]
    pub fn handshaken(&self) -> Option<Arc<Handshaken>> {
        self.handshaken.borrow().clone()
    }

    /// Goes on with the handshake; ready when it is done and what it had to say is sent.
    pub fn poll_handshake(&self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut() else { return Poll::Ready(Ok(())) };
        loop {
            let done = connection.handshake();
            let sent = self.send(connection);
            match (done, sent) {
                (Err(failure), _) => {
                    self.is_silent.set(true);
                    return Poll::Ready(Err(failure));
                }
                (Ok(_), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.below.poll_writable(context)).map_err(|_| Failure::Closed)?;
                    continue;
                }
                (Ok(_), Err(_)) => return Poll::Ready(Err(Failure::Closed)),
                (Ok(true), Ok(())) => {
                    self.handshaken.replace(connection.handshaken().cloned());
                    connection.rest();
                    return Poll::Ready(Ok(()));
                }
                (Ok(false), Ok(())) => {}
            }
            match self.receive(connection) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.below.poll_readable(context)).map_err(|_| Failure::Closed)?;
                }
                Err(_) => return Poll::Ready(Err(Failure::Closed)),
            }
        }
    }

    /// Receives what there is.
    fn receive(&self, connection: &mut Connection) -> io::Result<()> {
        match self.below.try_receive(connection.room()) {
            Ok(0) => connection.cut_off(),
            Ok(count) => connection.fill(count),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends what waits.
    fn send(&self, connection: &mut Connection) -> io::Result<()> {
        while !connection.outgoing().is_empty() {
            let count = self.below.try_write(connection.outgoing())?;
            connection.sent(count);
        }
        Ok(())
    }

    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.holds_something() { Poll::Ready(Ok(())) } else { self.below.poll_readable(context) }
    }

    pub(crate) fn may_read(&self) -> bool {
        self.holds_something() || self.below.may_read()
    }

    fn holds_something(&self) -> bool {
        self.connection.borrow().as_ref().is_some_and(Connection::may_read)
    }

    pub(crate) fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut() else { return self.below.try_read(room) };
        loop {
            let outcome = connection.read(room);
            // NOTE: what reading has to say (an alert, mostly) goes out as far as it can; the rest goes before the next write.
            let _ = self.send(connection);
            match outcome {
                Ok(ReadOutcome::Data(count)) => {
                    connection.rest();
                    return Ok(count);
                }
                Ok(ReadOutcome::End) => return Ok(0),
                Ok(ReadOutcome::More) => {}
                Err(failure) => {
                    self.is_silent.set(true);
                    return Err(broken(failure));
                }
            }
            if let Err(error) = self.receive(connection) {
                connection.rest();
                return Err(error);
            }
        }
    }

    pub(crate) fn try_write(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut() else { return self.below.try_write_both(first, second) };
        loop {
            self.send(connection)?;
            let credit = self.credit.get();
            if credit > 0 {
                let count = credit.min(first.len() + second.len());
                self.credit.set(credit - count);
                return Ok(count);
            }
            if first.is_empty() && second.is_empty() {
                return Ok(0);
            }
            let count = connection.write(first, second).map_err(broken)?;
            if count == 0 {
                // Before the handshake is done.
                return Err(io::ErrorKind::NotConnected.into());
            }
            self.credit.set(count);
        }
    }

    /// Says that no more will be written, as far as the stream below takes it.
    pub(crate) fn close(&self) {
        if let Ok(mut connection) = self.connection.try_borrow_mut()
            && let Some(connection) = connection.as_mut()
            && !self.is_silent.get()
        {
            connection.close();
            let _ = self.send(connection);
        }
    }

    /// Says that no more will be written; ready once that is on its way.
    pub(crate) fn poll_close(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut().filter(|_| !self.is_silent.get()) else {
            return Poll::Ready(Ok(()));
        };
        connection.close();
        loop {
            match self.send(connection) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.below.poll_writable(context))?,
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Says nothing at the end: the connection is to vanish, or to be reset.
    pub(crate) fn silence(&self) {
        self.is_silent.set(true);
    }
}

impl Drop for SecureStream {
    fn drop(&mut self) {
        self.close();
    }
}
