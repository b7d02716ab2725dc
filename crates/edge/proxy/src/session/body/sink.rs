//! The sending half of a body: where its bytes go.

use std::{
    io,
    task::{Context, Poll},
};

use net::PlainSocket;

use crate::session::wire::Wire;

/// Where the bytes of a message go. What is put there waits until it can be sent: whoever puts more there looks at how much waits.
pub trait Sink {
    /// What waits to be sent, and perhaps what has been sent before it: more is put at the end.
    fn waiting(&mut self) -> &mut Vec<u8>;

    /// How many bytes wait to be sent.
    fn unsent_len(&self) -> usize;

    /// Sends what waits, as far as that is possible; ready once nothing waits.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether what waits can go in one packet with bytes that the system moves there behind it.
    fn joins_what_follows(&self) -> bool {
        false
    }

    /// Like [`Sink::poll_flush`], where such bytes follow at once.
    fn poll_flush_before(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }

    /// Sends what waits and then `bytes`, which are not put behind it; ready with how many of `bytes` went.
    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// The socket to which the system may move bytes without the process seeing them; `None` where they must be copied. To be
    /// asked only while nothing waits.
    fn plain_socket(&self) -> Option<PlainSocket<'_>>;

    /// Trailers may follow a body whose length was announced, so that its last byte does not end the message; whether that is
    /// possible here.
    fn await_trailers(&mut self) -> bool {
        false
    }

    /// Those trailers, or none: there are no more bytes of the body, and none of them waits.
    fn put_trailers(&mut self, _lines: &[u8]) {}

    /// Whether the receiver may say that it has not begun with the message, whatever of it has been sent.
    fn may_refuse(&self) -> bool {
        false
    }

    /// The system could not move bytes to that socket.
    fn note_failure(&mut self, error: io::Error) -> io::Error {
        error
    }
}

impl Sink for Wire {
    #[inline]
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    #[inline]
    fn unsent_len(&self) -> usize {
        self.unsent().len()
    }

    #[inline]
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Wire::poll_flush(self, context)
    }

    #[inline]
    fn joins_what_follows(&self) -> bool {
        self.stream.plain().is_some()
    }

    fn poll_flush_before(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Wire::poll_flush_before(self, context)
    }

    #[inline]
    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        Wire::poll_send(self, bytes, context)
    }

    #[inline]
    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        self.stream.plain()
    }

    fn note_failure(&mut self, error: io::Error) -> io::Error {
        Wire::note_failure(self, error)
    }
}
