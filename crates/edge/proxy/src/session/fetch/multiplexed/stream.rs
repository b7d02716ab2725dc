//! One exchange on a connection that carries several: a codec.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use h2::{RequestOptions, StreamKey};
use http::{BodyLength, HeaderId, Limits, Method, RequestHead, ResponseHead, ResponseParser, request_body_length};
use net::PlainSocket;

use super::shared::{Broken, Shared};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{HeadEnd, OutgoingHead, ServerCodec},
    incoming::Taken,
    outgoing::Outgoing,
    websocket,
};

/// A WebSocket that is asked for.
#[derive(Debug)]
struct Handshake {
    /// What proves to a client of HTTP/1 that the server has understood.
    accept: String,
    /// The request, as long as it is not known whether the server understands it.
    waits: Option<(RequestHead, bool)>,
}

/// An exchange's part of a connection.
#[derive(Debug)]
pub struct Stream {
    connection: Rc<Shared>,
    /// Its stream, once it has one.
    key: Option<StreamKey>,
    method: Method,
    /// What has come and was not consumed.
    here: Taken,
    outgoing: Outgoing,
    has_ended: bool,
    /// Bytes go both ways, and each half ends on its own.
    is_tunnel: bool,
    /// A request was sent, and no answer has begun.
    is_unanswered: bool,
    /// The handshake of a WebSocket.
    websocket: Option<Box<Handshake>>,
}

impl Stream {
    /// A place on a connection, where nothing has been asked yet.
    pub fn new(connection: &Rc<Shared>) -> Self {
        connection.carrier.enter();
        Self {
            connection: Rc::clone(connection),
            key: None,
            method: Method::Get,
            here: Taken::default(),
            outgoing: Outgoing::default(),
            has_ended: false,
            is_tunnel: false,
            is_unanswered: false,
            websocket: None,
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Rc<Shared> {
        &self.connection
    }

    fn gone() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }

    /// Whether nothing that is sent gets anywhere.
    fn is_deaf(&self) -> bool {
        self.key.is_none_or(|key| self.connection.broken(key).is_some())
    }

    /// Nothing can go: the task is woken when something can.
    fn poll_room<T>(&self, context: &Context<'_>) -> Poll<io::Result<T>> {
        if let Some(key) = self.key {
            self.connection.listen(key, context);
        }
        if self.is_deaf() { Poll::Ready(Err(Self::gone())) } else { Poll::Pending }
    }

    /// Takes what has come; how much that was.
    fn take_body(&mut self, key: StreamKey) -> usize {
        self.here.add(|into| self.connection.take_body(key, into))
    }

    /// Sends the handshake of a WebSocket once the server has said whether it understands that; whether there is nothing to wait for.
    fn poll_handshake(&mut self, context: &Context<'_>) -> Poll<Result<(), HeadEnd>> {
        let Some(handshake) = self.websocket.as_mut().filter(|handshake| handshake.waits.is_some()) else {
            return Poll::Ready(Ok(()));
        };
        if !std::task::ready!(self.connection.poll_understands_protocols(context)) {
            return Poll::Ready(Err(HeadEnd::Junk));
        }
        if let Some((head, is_secure)) = handshake.waits.take() {
            let options = RequestOptions { is_secure, protocol: Some(b"websocket"), ..RequestOptions::default() };
            self.key = self.connection.send_request(&head, &options);
        }
        Poll::Ready(Ok(()))
    }

    fn forget(&mut self) {
        if std::mem::take(&mut self.is_unanswered) && !self.is_deaf() {
            self.connection.is_unanswered();
        }
        if let Some(key) = self.key.take() {
            self.connection.release(key);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.forget();
        self.connection.carrier.exit();
    }
}

impl Source for Stream {
    #[inline]
    fn received(&self) -> &[u8] {
        self.here.bytes()
    }

    fn consume(&mut self, count: usize) {
        let told = self.here.consume(count);
        if told > 0
            && let Some(key) = self.key
        {
            self.connection.with_machine(|machine| machine.consumed(key, told));
        }
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let Some(key) = self.key else { return Poll::Ready(Err(Self::gone())) };
        let count = self.take_body(key);
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        if self.connection.has_ended(key).0 {
            self.has_ended = true;
            return Poll::Ready(Ok(0));
        }
        if self.connection.broken(key).is_some() {
            self.has_ended = true;
            return Poll::Ready(Err(Self::gone()));
        }
        self.connection.listen(key, context);
        Poll::Pending
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }

    fn may_trail(&self) -> bool {
        self.key.is_some_and(|key| self.connection.may_trail(key))
    }

    fn poll_trailers(&mut self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        let Some(key) = self.key else { return Poll::Ready(Vec::new()) };
        match self.connection.take_trailers(key) {
            Some(lines) => Poll::Ready(lines),
            // NOTE: the body is whole all the same.
            None if self.connection.broken(key).is_some() => Poll::Ready(Vec::new()),
            None => {
                self.connection.listen(key, context);
                Poll::Pending
            }
        }
    }
}

impl Sink for Stream {
    fn waiting(&mut self) -> &mut Vec<u8> {
        self.outgoing.waiting()
    }

    fn unsent_len(&self) -> usize {
        self.outgoing.unsent_len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Err(_refused) = std::task::ready!(self.poll_handshake(context)) {
            return Poll::Ready(Err(Self::gone()));
        }
        let Some(key) = self.key.filter(|_| !self.is_deaf()) else { return Poll::Ready(Err(Self::gone())) };
        let outgoing = &mut self.outgoing;
        if self.connection.with_machine(|machine| outgoing.flush(machine, key))? {
            return Poll::Ready(Ok(()));
        }
        self.poll_room(context)
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_flush(context))?;
        let Some(key) = self.key else { return Poll::Ready(Err(Self::gone())) };
        let outgoing = &mut self.outgoing;
        let pushed = self.connection.with_machine(|machine| outgoing.push(machine, key, bytes))?;
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
        if let Some(key) = self.key {
            let outgoing = &mut self.outgoing;
            self.connection.with_machine(|machine| outgoing.put_trailers(machine, key, lines));
        }
    }

    fn may_refuse(&self) -> bool {
        true
    }
}

impl Duplex for Stream {
    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn is_full(&self) -> bool {
        self.here.bytes().len() >= self.connection.buffer_bytes
    }

    fn rest(&mut self) {
        self.here.rest();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.set_whole(true);
        self.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        let (connection, key) = (Rc::clone(&self.connection), self.key);
        Box::pin(poll_fn(move |context| {
            let Some(key) = key.filter(|key| connection.broken(*key).is_none()) else {
                return Poll::Ready(Self::gone());
            };
            connection.listen(key, context);
            Poll::Pending
        }))
    }

    /// Without an end its stream is reset.
    fn break_off(&mut self) {
        self.outgoing.set_whole(false);
    }
}

impl ServerCodec for Stream {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        self.forget();
        self.outgoing = Outgoing::default();
        (self.has_ended, self.is_tunnel, self.websocket) = (false, false, None);
        self.method = request.head.method_kind();
        self.is_unanswered = true;
        if http::wants_upgrade(request.head) && http::is_websocket(&request.head.headers) {
            let key = request.head.headers.first_known(HeaderId::SecWebSocketKey).unwrap_or_default();
            let waits = Some((request.head.clone(), request.is_secure));
            self.websocket = Some(Box::new(Handshake { accept: websocket::accept_of(key), waits }));
            return;
        }
        let length = request_body_length(request.head);
        match length {
            BodyLength::Chunked => self.outgoing.expect_chunks(&Limits::default(), true),
            BodyLength::Exact(length) => self.outgoing.expect_bytes(length),
            BodyLength::None | BodyLength::UntilClose => {}
        }
        let options = RequestOptions {
            fields: request.fields,
            is_secure: request.is_secure,
            ends: length.is_empty() && self.method != Method::Connect,
            protocol: None,
        };
        self.key = self.connection.send_request(request.head, &options);
    }

    fn poll_head(
        &mut self,
        _: &mut ResponseParser,
        _: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        std::task::ready!(self.poll_handshake(context))?;
        let Some(key) = self.key else { return Poll::Ready(Err(HeadEnd::NotProcessed)) };
        if self.connection.take_head(key, head) {
            self.is_unanswered = false;
            if head.status() >= 200 {
                if let Some(handshake) = self.websocket.as_ref().filter(|_| (200..300).contains(&head.status())) {
                    websocket::agree(head, &handshake.accept);
                }
                self.is_tunnel = http::begins_tunnel(head.status(), self.method);
                // What has come already goes with the head.
                self.take_body(key);
            }
            return Poll::Ready(Ok(()));
        }
        match self.connection.broken(key) {
            None => {
                self.connection.listen(key, context);
                Poll::Pending
            }
            Some(Broken::NotProcessed) => Poll::Ready(Err(HeadEnd::NotProcessed)),
            Some(Broken::Malformed) => Poll::Ready(Err(HeadEnd::Junk)),
            Some(Broken::Reset) => Poll::Ready(Err(HeadEnd::Broken)),
            Some(Broken::Closed) => Poll::Ready(Err(HeadEnd::Empty)),
        }
    }

    fn is_clean(&self) -> bool {
        let ended = self.key.is_none_or(|key| self.connection.has_ended(key) == (true, true));
        ended && !self.is_tunnel && self.outgoing.unsent_len() == 0 && self.received().is_empty()
    }

    fn is_stale(&self) -> bool {
        self.connection.is_leaving()
    }

    fn leave(&mut self) {
        self.forget();
        self.rest();
    }

    fn shut(&self) {
        if let Some(key) = self.key {
            self.connection.breaks(key, h2::ErrorCode::CANCEL, true);
        }
    }
}
