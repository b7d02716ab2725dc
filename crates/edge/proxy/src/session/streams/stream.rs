//! A stream as what its exchange knows of it.
//!
//! Between source and sink bodies are framed as in HTTP/1: what comes of a body without a length is made into chunks, and chunks
//! of an answer are taken apart.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use http::{HeaderId, ResponseHead};
use net::PlainSocket;

use super::{Machine, Release, Shared};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    exchange::ClientStream,
    incoming::Taken,
    outgoing::Outgoing,
    transaction::Transaction,
};

/// The client's side of one exchange.
#[derive(Debug)]
pub struct Stream<M: Machine> {
    connection: Rc<Shared<M>>,
    key: M::Key,
    /// What has come and was not consumed.
    here: Taken,
    has_given_up: bool,
    outgoing: Outgoing,
    /// Bytes go both ways, and each half ends on its own.
    is_tunnel: bool,
    /// The client has asked for a protocol by CONNECT (RFC 8441).
    begins_protocol: bool,
    /// What was sent is not to look whole.
    breaks_off: bool,
    /// The answer is none that the client may get: its stream is to be reset.
    is_refused: bool,
    /// What the client is told where its stream ends without an answer.
    ends_by: Release,
}

impl<M: Machine> Stream<M> {
    /// The stream of this key.
    pub fn new(connection: Rc<Shared<M>>, key: M::Key, begins_protocol: bool) -> Self {
        Self {
            connection,
            key,
            here: Taken::default(),
            has_given_up: false,
            outgoing: Outgoing::default(),
            is_tunnel: false,
            begins_protocol,
            breaks_off: false,
            is_refused: false,
            ends_by: Release::Failed,
        }
    }

    fn gone() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }

    /// Nothing can go: the stream is polled when something can.
    fn poll_room<T>(&self, _: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.is_gone() { Poll::Ready(Err(Self::gone())) } else { Poll::Pending }
    }
}

impl<M: Machine> Drop for Stream<M> {
    fn drop(&mut self) {
        let connection = &self.connection;
        let mut machine = connection.machine.borrow_mut();
        machine.release(self.key, self.ends_by);
        connection.forget(self.key);
    }
}

impl<M: Machine> Source for Stream<M> {
    fn received(&self) -> &[u8] {
        self.here.bytes()
    }

    fn consume(&mut self, count: usize) {
        let told = self.here.consume(count);
        if told > 0 {
            self.connection.machine.borrow_mut().consumed(self.key, told);
        }
    }

    fn poll_receive(&mut self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let room = self.connection.buffer_bytes.saturating_sub(self.here.bytes().len());
        M::receive(&self.connection, self.key, room);
        let count = self.here.add(|into| self.connection.take_body(self.key, into));
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        if self.is_gone() {
            return Poll::Ready(Err(Self::gone()));
        }
        if self.connection.has_ended() || self.is_tunnel && self.connection.has_body_ended(self.key) {
            self.has_given_up = true;
            return Poll::Ready(Ok(0));
        }
        // It is polled when something comes.
        Poll::Pending
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }

    fn may_trail(&self) -> bool {
        self.connection.may_trail(self.key)
    }

    fn poll_trailers(&mut self, _: &mut Context<'_>) -> Poll<Vec<u8>> {
        M::receive(&self.connection, self.key, 1);
        match self.connection.take_trailers(self.key) {
            Some(lines) => Poll::Ready(lines),
            None if self.is_gone() || self.connection.has_ended() => Poll::Ready(Vec::new()),
            // It is polled when something comes.
            None => Poll::Pending,
        }
    }
}

impl<M: Machine> Sink for Stream<M> {
    fn waiting(&mut self) -> &mut Vec<u8> {
        self.outgoing.waiting()
    }

    fn unsent_len(&self) -> usize {
        self.outgoing.unsent_len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_gone() {
            return Poll::Ready(Err(Self::gone()));
        }
        if self.outgoing.flush(&mut *self.connection.machine.borrow_mut(), self.key)? {
            return Poll::Ready(Ok(()));
        }
        self.poll_room(context)
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_flush(context))?;
        let pushed = self.outgoing.push(&mut *self.connection.machine.borrow_mut(), self.key, bytes)?;
        if pushed == 0 && !bytes.is_empty() { self.poll_room(context) } else { Poll::Ready(Ok(pushed)) }
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }

    fn await_trailers(&mut self) -> bool {
        self.outgoing.await_trailers();
        true
    }

    fn put_trailers(&mut self, lines: &[u8]) {
        self.outgoing.put_trailers(&mut *self.connection.machine.borrow_mut(), self.key, lines);
    }
}

impl<M: Machine> Duplex for Stream<M> {
    fn has_ended(&self) -> bool {
        self.has_given_up
    }

    fn is_full(&self) -> bool {
        self.here.bytes().len() >= self.connection.buffer_bytes
    }

    fn rest(&mut self) {
        self.here.rest();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.set_whole(!self.breaks_off);
        self.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        let (connection, key) = (Rc::clone(&self.connection), self.key);
        // It is polled when that happens.
        Box::pin(poll_fn(move |_| if connection.is_gone(key) { Poll::Ready(Self::gone()) } else { Poll::Pending }))
    }

    fn break_off(&mut self) {
        self.breaks_off = true;
        self.outgoing.set_whole(false);
    }
}

impl<M: Machine> ClientStream for Stream<M> {
    fn give_up_receiving(&mut self) {
        self.has_given_up = true;
    }

    fn is_gone(&self) -> bool {
        self.is_refused || self.connection.is_gone(self.key)
    }

    fn write_interim(&mut self, head: &ResponseHead) {
        let mut machine = self.connection.machine.borrow_mut();
        // NOTE: RFC 9113 section 8.6: HTTP/2 does not know 101. Where more waits for the client than it may owe, an interim response is
        // left out: it could not be on time, and none waits for windows, so that nothing else bounds them.
        if matches!(head.status(), 100 | 102..=199) && machine.has_room() {
            machine.send_head(self.key, head);
        }
    }

    fn write_head(&mut self, transaction: &mut Transaction, _: bool) -> usize {
        let head = &transaction.response;
        if self.begins_protocol && (200..300).contains(&head.status()) {
            // NOTE: the client would take that for the protocol, which the server has not begun. As in HAProxy, its stream is reset.
            self.is_refused = true;
            return 0;
        }
        if head.headers.contains_known(HeaderId::TransferEncoding) && !transaction.is_head() {
            let limits = transaction.response_limits(transaction.backend_settings());
            self.outgoing.expect_chunks(&limits, false);
        }
        self.connection.machine.borrow_mut().send_head(self.key, head)
    }

    fn write_tunnel_head(&mut self, head: &ResponseHead) {
        self.is_tunnel = true;
        let mut machine = self.connection.machine.borrow_mut();
        if head.status() != 101 {
            machine.send_head(self.key, head);
        } else if self.begins_protocol {
            // RFC 8441 section 5: what HTTP/1 says by 101 is 200 here, and needs no proof.
            let mut agreed = head.clone();
            agreed.set_status(200);
            agreed.headers.remove_known(HeaderId::SecWebSocketAccept);
            machine.send_head(self.key, &agreed);
        }
        // Otherwise: RFC 9113 section 8.6, HTTP/2 does not know 101, and nobody is asked to switch.
    }

    fn end(&mut self) {
        self.outgoing.set_whole(true);
        if self.outgoing.unsent_len() == 0 {
            self.connection.machine.borrow_mut().end(self.key);
        }
    }

    fn refuse(&mut self) -> bool {
        self.ends_by = Release::NotBegun;
        true
    }

    fn vanish(&mut self) {
        self.connection.vanish();
    }

    fn reject(&mut self) {
        self.connection.reject();
    }
}
