//! A connection that carries one request at a time.
//!
//! What comes is taken out of its records, and stays within one buffer: an application is not read faster than its answer goes on.

use std::{
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use fastcgi::{Client, EndStatus, Event, Settings};
use http::{Limits, ResponseHead, ResponseParser};
use live::LiveServer;
use logs::WorkerLog;
use net::{PlainSocket, Stream};

use super::{Unanswered, exchange::Exchange};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{HeadEnd, OutgoingHead, ServerCodec},
    wire::Wire,
};

/// A connection.
#[derive(Debug)]
pub struct FastCgi {
    wire: Wire,
    client: Client,
    exchange: Exchange,
    unanswered: Option<Unanswered>,
}

impl FastCgi {
    /// One on a connection that stands. It is fresh if nothing has been asked on it.
    pub fn new(wire: Wire, settings: Settings, server: &Arc<LiveServer>, is_fresh: bool, log: &WorkerLog) -> Self {
        Self {
            wire,
            client: Client::new(settings),
            exchange: Exchange::new(log),
            unanswered: is_fresh.then(|| Unanswered::new(server)),
        }
    }

    /// The stream on which it comes.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.wire.stream
    }

    /// Reads what was received; an error if it makes no sense.
    fn take_input(&mut self) -> io::Result<()> {
        let received = std::mem::take(&mut self.wire.received);
        let (bytes, mut used) = (received.bytes(), 0);
        let exchange = &mut self.exchange;
        let done = loop {
            match self.client.next(bytes, &mut used) {
                Ok(Some(Event::Stdout { from, to, .. })) => {
                    exchange.answer.push(bytes.get(from..to).unwrap_or_default());
                }
                Ok(Some(Event::Stderr { from, to, .. })) => exchange.complain(bytes.get(from..to).unwrap_or_default()),
                Ok(Some(Event::StdoutEnd(_))) => exchange.answer.end(),
                Ok(Some(Event::End { status, .. })) => exchange.end(status),
                // Nobody has asked for them here.
                Ok(Some(Event::Values(_))) => {}
                Ok(None) => break Ok(()),
                Err(_) => break Err(io::ErrorKind::InvalidData.into()),
            }
        };
        self.wire.received = received;
        self.wire.received.consume(used);
        self.wire.rest();
        done
    }

    /// Looks whether the end of the request has come as well, behind an answer that is complete: then the connection can be used
    /// again.
    fn look_for_end(&mut self) {
        let exchange = &self.exchange;
        let is_over = exchange.ended().is_some() || exchange.key.is_none();
        if exchange.answer.is_complete() && exchange.answer.received().is_empty() && !is_over {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(1..)) = self.wire.poll_receive(&mut context) {
                // What makes no sense has not ended, and the connection is not used again.
                let _ = self.take_input();
            }
        }
    }
}

impl Drop for FastCgi {
    fn drop(&mut self) {
        if let Some(key) = self.exchange.key.filter(|key| self.client.is_open(*key) && self.wire.is_flushed()) {
            let mut out = Vec::new();
            self.client.abort(key, &mut out);
            // Closing says the same.
            let _ = self.wire.stream.try_write(&out);
        }
    }
}

impl Source for FastCgi {
    #[inline]
    fn received(&self) -> &[u8] {
        self.exchange.answer.received()
    }

    fn consume(&mut self, count: usize) {
        self.exchange.answer.consume(count);
        self.look_for_end();
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let before = self.exchange.answer.received().len();
        loop {
            let came = self.exchange.answer.received().len() - before;
            if came > 0 {
                return Poll::Ready(Ok(came));
            }
            if self.exchange.answer.has_ended() || self.exchange.answer.is_complete() {
                return Poll::Ready(Ok(0));
            }
            if ready!(self.wire.poll_receive(context))? == 0 {
                return Poll::Ready(Ok(0));
            }
            self.take_input()?;
        }
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for FastCgi {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.exchange.waiting
    }

    fn unsent_len(&self) -> usize {
        self.exchange.waiting.len() + self.wire.unsent().len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.exchange.frame_waiting((&mut self.client, &mut self.wire.output))?;
        self.wire.poll_flush(context)
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        if self.exchange.ended().is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = self.exchange.frame(bytes, (&mut self.client, &mut self.wire.output))?;
        // NOTE: what the socket does not take now waits here: the next flush is asked for it.
        let _ = self.wire.poll_flush(context)?;
        Poll::Ready(Ok(taken))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for FastCgi {
    fn has_ended(&self) -> bool {
        self.wire.ended || self.exchange.ended().is_some()
    }

    fn is_full(&self) -> bool {
        self.exchange.is_full()
    }

    fn rest(&mut self) {
        self.wire.rest();
        self.exchange.answer.rest();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        self.wire.failed()
    }

    fn break_off(&mut self) {
        self.wire.break_off();
    }
}

impl ServerCodec for FastCgi {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        self.exchange.start(request, (&mut self.client, &mut self.wire.output));
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        loop {
            if let Some(taken) = self.exchange.take_head(parser, limits, head) {
                self.look_for_end();
                return Poll::Ready(taken);
            }
            match ready!(self.wire.poll_receive(context)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(self.exchange.cut_off())),
                Ok(_) => {
                    self.unanswered = None;
                    if self.take_input().is_err() {
                        return Poll::Ready(Err(HeadEnd::Junk));
                    }
                }
            }
        }
    }

    fn is_clean(&self) -> bool {
        self.exchange.ended() == Some(EndStatus::Complete)
            && self.client.is_idle()
            && self.client.has_finished()
            && self.client.has_ids()
            && self.client.keeps_connection()
            && self.unsent_len() == 0
            && self.received().is_empty()
            && self.wire.received.is_empty()
            && !self.wire.ended
    }

    fn is_stale(&self) -> bool {
        ServerCodec::is_stale(&self.wire)
    }

    fn leave(&mut self) {
        self.exchange.answer.rest();
        self.exchange.waiting = Vec::new();
        ServerCodec::leave(&mut self.wire);
    }

    fn shut(&self) {
        ServerCodec::shut(&self.wire);
    }
}
