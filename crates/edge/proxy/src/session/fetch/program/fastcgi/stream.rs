//! One exchange on a connection that carries several: a codec.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use http::{Limits, ResponseHead, ResponseParser};
use net::PlainSocket;

use super::{
    exchange::Exchange,
    shared::{Came, Shared},
};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{HeadEnd, OutgoingHead, ServerCodec},
};

/// An exchange's part of a connection.
#[derive(Debug)]
pub struct Stream {
    connection: Rc<Shared>,
    exchange: Exchange,
    came: Came,
    has_ended: bool,
    /// A request was sent, and no answer has begun.
    is_unanswered: bool,
}

impl Stream {
    /// A place on a connection, where nothing has been asked yet.
    pub fn new(connection: &Rc<Shared>) -> Self {
        connection.carrier.enter();
        Self {
            connection: Rc::clone(connection),
            exchange: Exchange::new(&connection.log),
            came: Came::default(),
            has_ended: false,
            is_unanswered: false,
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Rc<Shared> {
        &self.connection
    }

    fn gone() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }

    /// Writes records of this exchange.
    fn write<T>(&mut self, work: impl FnOnce(&mut Exchange, (&mut fastcgi::Client, &mut Vec<u8>)) -> T) -> T {
        let before = self.exchange.key;
        let exchange = &mut self.exchange;
        let done = self.connection.write(|client, out| work(exchange, (client, out)));
        if let Some(key) = self.exchange.key.filter(|key| before != Some(*key)) {
            self.connection.begins(key);
        }
        done
    }

    /// Takes what has come.
    fn take(&mut self) {
        let Some(key) = self.exchange.key else { return };
        let (exchange, came) = (&mut self.exchange, &mut self.came);
        if !self.connection.take(key, came) {
            return;
        }
        exchange.complain(&came.complaints);
        exchange.answer.push(&came.stdout);
        came.complaints.clear();
        came.stdout.clear();
        if came.has_ended_stdout {
            exchange.answer.end();
        }
        if let Some(status) = came.end.filter(|_| exchange.ended().is_none()) {
            exchange.end(status);
        }
        self.is_unanswered &= exchange.answer.is_empty() && exchange.ended().is_none();
    }

    fn is_broken(&self) -> bool {
        self.connection.is_broken(self.exchange.key)
    }

    fn listen(&self, context: &Context<'_>) {
        if let Some(key) = self.exchange.key {
            self.connection.listen(key, context);
        }
    }

    fn forget(&mut self) {
        if std::mem::take(&mut self.is_unanswered) && !self.is_broken() {
            self.connection.note_unanswered();
        }
        if let Some(key) = self.exchange.key.take() {
            self.connection.release(key, self.exchange.answer.is_complete());
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
        self.exchange.answer.received()
    }

    fn consume(&mut self, count: usize) {
        self.exchange.answer.consume(count);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let before = self.received().len();
        self.take();
        let came = self.received().len() - before;
        if came > 0 {
            return Poll::Ready(Ok(came));
        }
        if self.exchange.answer.has_ended() || self.exchange.answer.is_complete() {
            return Poll::Ready(Ok(0));
        }
        if self.is_broken() {
            self.has_ended = true;
            return Poll::Ready(Err(Self::gone()));
        }
        self.listen(context);
        Poll::Pending
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for Stream {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.exchange.waiting
    }

    fn unsent_len(&self) -> usize {
        self.exchange.waiting.len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_broken() {
            return Poll::Ready(Err(Self::gone()));
        }
        if self.exchange.waiting.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !self.connection.has_output_room() {
            self.connection.await_output_room(context);
            return Poll::Pending;
        }
        Poll::Ready(self.write(|exchange, out| exchange.frame_waiting(out)))
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_flush(context))?;
        if self.exchange.ended().is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !self.connection.has_output_room() {
            self.connection.await_output_room(context);
            return Poll::Pending;
        }
        Poll::Ready(self.write(|exchange, out| exchange.frame(bytes, out)))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for Stream {
    fn has_ended(&self) -> bool {
        self.has_ended || self.exchange.ended().is_some()
    }

    fn is_full(&self) -> bool {
        self.exchange.is_full()
    }

    fn rest(&mut self) {
        self.exchange.answer.rest();
        self.came = Came::default();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        let (connection, key) = (Rc::clone(&self.connection), self.exchange.key);
        Box::pin(poll_fn(move |context| {
            let Some(key) = key.filter(|key| !connection.is_broken(Some(*key))) else {
                return Poll::Ready(Self::gone());
            };
            connection.listen(key, context);
            Poll::Pending
        }))
    }

    fn break_off(&mut self) {}
}

impl ServerCodec for Stream {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        self.forget();
        (self.has_ended, self.is_unanswered) = (false, true);
        self.connection.carrier.note_request();
        self.write(|exchange, out| exchange.start(request, out));
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        self.take();
        if let Some(taken) = self.exchange.take_head(parser, limits, head) {
            self.is_unanswered = false;
            return Poll::Ready(taken);
        }
        if self.is_broken() {
            return Poll::Ready(Err(self.exchange.cut_off()));
        }
        self.listen(context);
        Poll::Pending
    }

    fn is_clean(&self) -> bool {
        self.exchange.answer.is_complete() && self.unsent_len() == 0 && self.received().is_empty()
    }

    fn is_stale(&self) -> bool {
        self.connection.carrier.is_leaving()
    }

    fn leave(&mut self) {
        self.forget();
        self.rest();
    }

    fn shut(&self) {
        if let Some(key) = self.exchange.key {
            self.connection.breaks(key);
        }
    }
}
