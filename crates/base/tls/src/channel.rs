//! A [`Connection`] over a stream of bytes that may have to wait: [`io::Read`] and [`io::Write`] of whoever owns the socket.
//!
//! ```text
//!  handshake ──Done──▶ read, write ──close──▶ read
//! ```
//!
//! The wire answers `WouldBlock` where it would have to wait; so does the channel, which goes on where it was when it is called again.
//!
//! IMPORTANT: a write that has been told to wait has been sealed already, up to a record. Whoever writes comes back with the same
//! bytes first: what was sealed is then counted as written once the wire has taken all of it. So nothing that was said to be
//! written waits here, and a peer that does not read costs a record.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use crate::{
    connection::{Connection, Handshaken, ReadOutcome},
    failure::Failure,
};

/// A connection with what is on its way between it and its wire.
#[derive(Debug)]
pub struct Channel {
    connection: Connection,
    /// Bytes of the next writes that are sealed and sent already.
    credit: usize,
    /// Nothing is said at the end any more.
    is_silent: bool,
}

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done, and what it had to say is sent.
    Done,
    /// The wire has to be readable first.
    AwaitsRead,
    /// The wire has to be writable first.
    AwaitsWrite,
}

/// A failure as one of reading and writing.
fn broken(failure: Failure) -> io::Error {
    let kind = match failure {
        Failure::Truncated | Failure::Closed => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, failure)
}

/// Does something until no signal comes between.
fn uninterrupted(mut what: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match what() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Channel {
    /// One whose handshake is to come; `received` is what has been read from the wire already.
    #[must_use]
    pub fn new(mut connection: Connection, received: &[u8]) -> Self {
        // What has been received is less than a block of the connection.
        if let Some(room) = connection.room().get_mut(..received.len()) {
            room.copy_from_slice(received);
            connection.fill(received.len());
        }
        Self { connection, credit: 0, is_silent: false }
    }

    /// What the handshake has agreed on, once it is done.
    #[must_use]
    pub fn handshaken(&self) -> Option<&Arc<Handshaken>> {
        self.connection.handshaken()
    }

    /// Whether the handshake is not done.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether a read gets somewhere without the wire.
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.connection.may_read()
    }

    /// Whether something waits for the wire to take it.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.connection.outgoing().is_empty()
    }

    /// Says nothing at the end: the connection is to vanish, or to be reset.
    pub fn silence(&mut self) {
        self.is_silent = true;
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    /// Why it failed, or that the wire did.
    pub fn handshake(&mut self, wire: &mut (impl Read + Write)) -> Result<Progress, Failure> {
        loop {
            let done = self.connection.handshake();
            let sent = self.flush(wire);
            match (done, sent) {
                (Err(failure), _) => {
                    self.is_silent = true;
                    return Err(failure);
                }
                (Ok(_), Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::AwaitsWrite),
                (Ok(_), Err(_)) => return Err(Failure::Closed),
                (Ok(true), Ok(())) => {
                    self.connection.rest();
                    return Ok(Progress::Done);
                }
                (Ok(false), Ok(())) => {}
            }
            match self.receive(wire) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.connection.rest();
                    return Ok(Progress::AwaitsRead);
                }
                Err(_) => return Err(Failure::Closed),
            }
        }
    }

    /// Receives what there is.
    fn receive(&mut self, wire: &mut impl Read) -> io::Result<()> {
        let room = self.connection.room();
        match uninterrupted(|| wire.read(room))? {
            0 => self.connection.cut_off(),
            count => self.connection.fill(count),
        }
        Ok(())
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// The wire's.
    pub fn flush(&mut self, wire: &mut impl Write) -> io::Result<()> {
        while self.has_unsent() {
            match uninterrupted(|| wire.write(self.connection.outgoing()))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.connection.sent(count),
            }
        }
        Ok(())
    }

    /// Reads into `room`. `Ok(0)` is the end, which the other end has said.
    ///
    /// # Errors
    /// The wire's, and those of the connection.
    pub fn read(&mut self, wire: &mut (impl Read + Write), room: &mut [u8]) -> io::Result<usize> {
        loop {
            let outcome = self.connection.read(room);
            // NOTE: what reading has to say (an alert, mostly) goes out as far as it can; the rest goes before the next write.
            let _ = self.flush(wire);
            match outcome {
                Ok(ReadOutcome::Data(count)) => {
                    self.connection.rest();
                    return Ok(count);
                }
                Ok(ReadOutcome::End) => return Ok(0),
                Ok(ReadOutcome::More) => {}
                Err(failure) => {
                    self.is_silent = true;
                    return Err(broken(failure));
                }
            }
            if let Err(error) = self.receive(wire) {
                self.connection.rest();
                return Err(error);
            }
        }
    }

    /// Writes both pieces, as far as the wire takes them.
    ///
    /// # Errors
    /// The wire's, and those of the connection.
    pub fn write(&mut self, wire: &mut impl Write, first: &[u8], second: &[u8]) -> io::Result<usize> {
        loop {
            self.flush(wire)?;
            if self.credit > 0 {
                let count = self.credit.min(first.len() + second.len());
                self.credit -= count;
                return Ok(count);
            }
            if first.is_empty() && second.is_empty() {
                return Ok(0);
            }
            self.credit = self.connection.write(first, second).map_err(broken)?;
            if self.credit == 0 {
                // Before the handshake is done.
                return Err(io::ErrorKind::NotConnected.into());
            }
        }
    }

    /// Says that no more will be written, as far as the wire takes it.
    ///
    /// # Errors
    /// The wire's.
    pub fn close(&mut self, wire: &mut impl Write) -> io::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        self.connection.close();
        self.flush(wire)
    }
}
