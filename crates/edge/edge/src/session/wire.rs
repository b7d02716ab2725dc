//! One end of a connection as the session sees it: the socket, what it has received and what it has still to send.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use crate::net::{Buffer, BufferPool, Stream};

/// A socket with what was received from it and what waits to be sent to it.
#[derive(Debug)]
pub struct Wire {
    /// The socket.
    pub stream: Rc<Stream>,
    /// Received and not consumed.
    pub received: Buffer,
    /// Something is there to be received, as far as was seen: the next look at the socket can be left out.
    pub readable: bool,
    /// The other end has sent its last byte.
    pub ended: bool,
    /// To be sent, from `sent` on.
    pub output: Vec<u8>,
    sent: usize,
    pool: BufferPool,
}

impl Wire {
    /// A wire on a connected socket.
    #[must_use]
    pub fn new(stream: Rc<Stream>, pool: BufferPool) -> Self {
        Self { stream, received: Buffer::default(), readable: false, ended: false, output: Vec::new(), sent: 0, pool }
    }

    /// Receives what there is, once something is. `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// The socket's. A full buffer stays pending: something must be consumed first.
    pub fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if self.received.is_full() && self.received.has_block() {
                return Poll::Pending;
            }
            if !std::mem::take(&mut self.readable) {
                ready!(self.stream.poll_readable(context))?;
            }
            self.pool.lend(&mut self.received);
            match self.stream.try_fill(&mut self.received) {
                Ok(0) => {
                    self.ended = true;
                    self.rest();
                    return Poll::Ready(Ok(0));
                }
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.rest(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        self.output.get(self.sent..).unwrap_or_default()
    }

    /// Whether everything has been sent.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.sent >= self.output.len()
    }

    /// Sends what waits, as far as the socket takes it; ready once nothing waits.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_flushed() {
            // NOTE: tried before asked: a socket nearly always takes what a response is.
            match self.stream.try_write(self.unsent()) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.poll_writable(context))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends what waits and then `body`, in one call if the socket takes both; ready with the bytes of `body` that went.
    ///
    /// # Errors
    /// The socket's.
    pub fn poll_send(&mut self, body: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            let waiting = self.output.len() - self.sent.min(self.output.len());
            match self.stream.try_write_both(self.output.get(self.sent..).unwrap_or_default(), body) {
                Ok(count) if count < waiting => self.sent += count,
                Ok(count) => {
                    self.output.clear();
                    self.sent = 0;
                    return Poll::Ready(Ok(count - waiting));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.stream.poll_writable(context))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Gives the receive block back if it is empty.
    pub fn rest(&mut self) {
        self.pool.reclaim(&mut self.received);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.pool.discard(&mut self.received);
    }
}
