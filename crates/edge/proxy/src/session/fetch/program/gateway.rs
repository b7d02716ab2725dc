//! SCGI and uwsgi with servers: a connection for each request, a head of variables in front of the body, and an answer as of CGI.
//!
//! The end of the connection is the end of the answer. So an answer that breaks off can be told from a whole one only if it says how long it
//! is, as with HTTP/1.0.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use fastcgi::{PairError, Pairs, write_scgi, write_uwsgi};
use haproxycfg::model::ServerProtocol;
use http::{Limits, Method, ResponseHead, ResponseParser, request_body_length};
use net::{PlainSocket, Stream};

use super::{ProgramAnswer, RequestBody, body::Step};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{HeadEnd, OutgoingHead, ServerCodec},
    wire::Wire,
};

/// Bytes of a body that are put behind each other before these are sent.
const STEP_BYTES: usize = 64 * 1024;

/// Bytes of an answer that wait before no more is received.
const HERE_BYTES_MAX: usize = 16 * 1024;

/// How the variables of a request are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// SCGI.
    Scgi,
    /// uwsgi.
    Uwsgi,
}

impl Gateway {
    /// The one that a server speaks, if it speaks one of them.
    pub fn of(protocol: Option<ServerProtocol>) -> Option<Self> {
        match protocol? {
            ServerProtocol::Scgi => Some(Self::Scgi),
            ServerProtocol::Uwsgi => Some(Self::Uwsgi),
            _ => None,
        }
    }

    /// Appends the head of a request with these variables, and a body of this length.
    fn write(self, params: &[u8], length: u64, out: &mut Vec<u8>) -> Result<(), PairError> {
        // They were written by this process.
        let pairs = Pairs::new(params).filter_map(Result::ok);
        if self == Self::Scgi {
            return write_scgi(length, pairs, out);
        }
        let length = length.to_string();
        let pairs = pairs.filter(|(name, _)| *name != b"CONTENT_LENGTH");
        write_uwsgi(pairs.chain([(&b"CONTENT_LENGTH"[..], length.as_bytes())]), out)
    }
}

/// A connection for one request.
#[derive(Debug)]
pub struct GatewayConnection {
    wire: Wire,
    gateway: Gateway,
    /// Put here as HTTP/1 frames it.
    waiting: Vec<u8>,
    body: RequestBody,
    /// The variables of a request whose length nobody knows yet.
    held_params: Option<Vec<u8>>,
    answer: ProgramAnswer,
    /// What it was that this side does not ask for: the status of the answer.
    refused: Option<u16>,
}

impl GatewayConnection {
    /// One that stands.
    pub fn new(wire: Wire, gateway: Gateway) -> Self {
        Self {
            wire,
            gateway,
            waiting: Vec::new(),
            body: RequestBody::default(),
            held_params: None,
            answer: ProgramAnswer::new(Method::Get),
            refused: None,
        }
    }

    /// The stream on which it comes.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.wire.stream
    }

    fn begin(&mut self, params: &[u8], length: u64) {
        let before = self.wire.output.len();
        let Err(why) = self.gateway.write(params, length, &mut self.wire.output) else { return };
        self.wire.output.truncate(before);
        self.refused = Some(match why {
            PairError::Nul => 400,
            PairError::TooLong(_) => 431,
        });
    }

    /// Puts bytes of the body behind the head; how many of them were taken.
    fn frame(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // NOTE: without a head in front, the application would take a client's body for one.
        if self.refused.is_some() {
            return Ok(bytes.len());
        }
        match self.body.take(bytes, STEP_BYTES)? {
            Step::Bytes { count, is_last } => {
                self.wire.output.extend_from_slice(bytes.get(..count).unwrap_or_default());
                return Ok(if is_last { bytes.len() } else { count });
            }
            Step::Kept => {}
            Step::Whole(body) => {
                if let Some(params) = self.held_params.take() {
                    self.begin(&params, body.len() as u64);
                }
                if self.refused.is_none() {
                    self.wire.output.extend_from_slice(&body);
                }
            }
            Step::TooLong => self.refused = Some(413),
        }
        Ok(bytes.len())
    }

    /// Receives more of the answer, or its end.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if ready!(self.wire.poll_receive(context))? == 0 {
            self.answer.end();
            return Poll::Ready(Ok(()));
        }
        self.answer.push(self.wire.received.bytes());
        let count = self.wire.received.bytes().len();
        self.wire.received.consume(count);
        self.wire.rest();
        Poll::Ready(Ok(()))
    }
}

impl Source for GatewayConnection {
    #[inline]
    fn received(&self) -> &[u8] {
        self.answer.received()
    }

    fn consume(&mut self, count: usize) {
        self.answer.consume(count);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let before = self.answer.received().len();
        loop {
            let came = self.answer.received().len() - before;
            if came > 0 {
                return Poll::Ready(Ok(came));
            }
            if self.answer.has_ended() || self.answer.is_complete() {
                return Poll::Ready(Ok(0));
            }
            ready!(self.poll_more(context))?;
        }
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for GatewayConnection {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    fn unsent_len(&self) -> usize {
        self.waiting.len() + self.wire.unsent().len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut taken = 0;
        while taken < waiting.len() {
            taken += self.frame(waiting.get(taken..).unwrap_or_default())?;
        }
        waiting.clear();
        self.waiting = waiting;
        self.wire.poll_flush(context)
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        let taken = self.frame(bytes)?;
        // NOTE: what the socket does not take now waits here: the next flush is asked for it.
        let _ = self.wire.poll_flush(context)?;
        Poll::Ready(Ok(taken))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for GatewayConnection {
    fn has_ended(&self) -> bool {
        self.wire.ended
    }

    fn is_full(&self) -> bool {
        self.answer.received().len() >= HERE_BYTES_MAX
    }

    fn rest(&mut self) {
        self.wire.rest();
        self.answer.rest();
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

impl ServerCodec for GatewayConnection {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        self.answer = ProgramAnswer::new(request.head.method_kind());
        (self.refused, self.held_params) = (None, None);
        let length = request_body_length(request.head);
        self.body = RequestBody::new(length);
        match &request.program {
            Some(Ok(program)) if self.body.is_unannounced() => self.held_params = Some(program.params.clone()),
            Some(Ok(program)) => self.begin(&program.params, length.announced().unwrap_or(0)),
            Some(Err(status)) => self.refused = Some(*status),
            None => self.refused = Some(500),
        }
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        loop {
            if let Some(status) = self.refused {
                return Poll::Ready(Err(HeadEnd::Refused(status)));
            }
            if let Some(taken) = self.answer.take_head(parser, limits, head) {
                return Poll::Ready(taken);
            }
            let is_over = self.answer.has_ended();
            if is_over || ready!(self.poll_more(context)).is_err() {
                let end = if self.answer.is_empty() { HeadEnd::Empty } else { HeadEnd::Broken };
                return Poll::Ready(Err(end));
            }
        }
    }

    fn is_clean(&self) -> bool {
        false
    }

    fn is_stale(&self) -> bool {
        true
    }

    fn leave(&mut self) {}

    fn shut(&self) {
        ServerCodec::shut(&self.wire);
    }
}
