//! The body of a page whose includes are replaced while it is delivered, as a source for a client.

use std::{
    io,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use net::PlainSocket;
use tokio::{sync::mpsc::Receiver, task::JoinHandle};

use crate::session::body::Source;

/// What a task puts together. It waits as long as the client has not taken what there is, and ends when the client leaves.
#[derive(Debug)]
pub struct PageBody {
    pieces: Receiver<io::Result<Bytes>>,
    assembler: JoinHandle<()>,
    /// What has come and was not consumed.
    current: Bytes,
    has_ended: bool,
}

impl PageBody {
    /// The pieces that a task gives, framed in chunks.
    #[must_use]
    pub fn new(pieces: Receiver<io::Result<Bytes>>, assembler: JoinHandle<()>) -> Self {
        Self { pieces, assembler, current: Bytes::new(), has_ended: false }
    }
}

impl Drop for PageBody {
    fn drop(&mut self) {
        self.assembler.abort();
    }
}

impl Source for PageBody {
    fn received(&self) -> &[u8] {
        &self.current
    }

    fn consume(&mut self, count: usize) {
        self.current.advance(count.min(self.current.len()));
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.current.is_empty() {
            return Poll::Pending;
        }
        if self.has_ended {
            return Poll::Ready(Ok(0));
        }
        let mut framed = Vec::new();
        match ready!(self.pieces.poll_recv(context)) {
            Some(Ok(piece)) => {
                framed.reserve(piece.len() + 24);
                http::write_chunk(&piece, &mut framed);
            }
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => {
                self.has_ended = true;
                http::write_last_chunk(&mut framed);
            }
        }
        self.current = framed.into();
        Poll::Ready(Ok(self.current.len()))
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}
