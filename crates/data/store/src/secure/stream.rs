//! A socket over which TLS is spoken.

use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::{RecvFlags, SendFlags};
use tls::{Channel, Connection, Failure, Progress};

/// How far a socket's handshake has come by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// It is done.
    Done,
    /// More has to come, or has to go.
    Pending,
}

/// A socket with TLS. It reads and writes as the socket below does: what would have to wait says so.
#[derive(Debug)]
pub struct Secure<S: AsFd> {
    socket: S,
    channel: Channel,
}

/// The socket below.
struct Wire<'a> {
    socket: BorrowedFd<'a>,
    /// What a read leaves room for was all that had come: the next one would have to wait, and the kernel need not say so. A socket that is
    /// to wait is asked.
    trusts_gaps: bool,
    is_emptied: bool,
}

impl Read for Wire<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.is_emptied {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = room.len();
        let count = rustix::net::recv(self.socket, room, RecvFlags::empty())?.0;
        self.is_emptied = self.trusts_gaps && 0 < count && count < most;
        Ok(count)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.socket, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

macro_rules! wire {
    ($self:ident) => {
        Wire { socket: $self.socket.as_fd(), trusts_gaps: true, is_emptied: false }
    };
}

impl<S: AsFd> Secure<S> {
    /// One whose handshake is to come.
    pub fn new(socket: S, connection: Connection) -> Self {
        Self { socket, channel: Channel::new(connection, &[]) }
    }

    /// The socket below.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// The same, for whoever watches it.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether the handshake is not done.
    pub fn is_handshaking(&self) -> bool {
        self.channel.is_handshaking()
    }

    /// Whether a read gets somewhere though nothing more comes on the socket.
    pub fn may_read(&self) -> bool {
        self.channel.may_read()
    }

    /// Whether something waits for the socket that nobody writes again.
    pub fn has_unsent(&self) -> bool {
        self.channel.has_unsent()
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn handshake(&mut self) -> Result<Handshake, Failure> {
        // Each flight may be the answer to one that was sent a moment ago: the kernel is asked again.
        match self.channel.handshake(&mut wire!(self))? {
            Progress::Done => Ok(Handshake::Done),
            Progress::AwaitsRead | Progress::AwaitsWrite => Ok(Handshake::Pending),
        }
    }

    /// Reads as much as there is room for: it stops before where nothing more has come.
    ///
    /// # Errors
    ///
    /// The socket's, and those of the connection.
    pub fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut wire = wire!(self);
        let mut count = 0;
        while let Some(room) = into.get_mut(count..).filter(|room| !room.is_empty()) {
            match self.channel.read(&mut wire, room) {
                // The end and errors are met again by the next read.
                Ok(0) => break,
                Err(_) if count > 0 => break,
                Ok(len) => count += len,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }
}

impl<S: AsFd> AsFd for Secure<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: AsFd> Read for Secure<S> {
    /// Reads a record, or what has come of several.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut wire = Wire { trusts_gaps: false, ..wire!(self) };
        let mut count = self.channel.read(&mut wire, into)?;
        while count > 0
            && self.channel.may_read()
            && let Some(room) = into.get_mut(count..).filter(|room| !room.is_empty())
        {
            match self.channel.read(&mut wire, room) {
                Ok(0) | Err(_) => break,
                Ok(len) => count += len,
            }
        }
        Ok(count)
    }
}

impl<S: AsFd> Write for Secure<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.write(&mut wire!(self), bytes, &[])
    }

    fn flush(&mut self) -> io::Result<()> {
        // What is said to be written is sent.
        Ok(())
    }
}

impl<S: AsFd> Drop for Secure<S> {
    /// Says that it is the end, if the socket takes that at once.
    fn drop(&mut self) {
        let wire = &mut wire!(self);
        let _ = self.channel.close(wire);
    }
}
