//! FastCGI with servers, one request at a time.
//!
//! What comes is taken out of its records, and stays within one buffer: an application is not read faster than its answer goes on.

use std::{
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::SystemTime,
};

use fastcgi::{Client, EndStatus, ErrorLines, Event, RequestKey, Settings, write_pair};
use http::{BodyLength, Limits, Method, ResponseHead, ResponseParser, request_body_length};
use live::LiveServer;
use logs::{LogLevel, LogLine, LogTargets, WorkerLog};
use net::{PlainSocket, Stream};

use super::{ProgramAnswer, RequestBody, body::Step};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{HeadEnd, OutgoingHead, ServerCodec},
    wire::Wire,
};

/// Bytes of a body that are put into records before these are sent.
const STEP_BYTES: usize = 64 * 1024;

/// Bytes of an answer that wait before no more is received.
const HERE_BYTES_MAX: usize = 16 * 1024;

/// Counts connections whose application has not said anything: see [`LiveServer::unanswered`].
#[derive(Debug)]
struct Unanswered(Arc<LiveServer>);

impl Unanswered {
    fn new(server: &Arc<LiveServer>) -> Self {
        server.unanswered.increment();
        Self(Arc::clone(server))
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.decrement();
    }
}

/// A connection.
#[derive(Debug)]
pub struct FastCgi {
    wire: Wire,
    client: Client,
    key: Option<RequestKey>,
    /// Put here as HTTP/1 frames it, and not yet put into records.
    waiting: Vec<u8>,
    body: RequestBody,
    /// The variables of a request whose length nobody knows yet.
    held_params: Option<Vec<u8>>,
    answer: ProgramAnswer,
    /// How the application has ended the request.
    end: Option<EndStatus>,
    /// What it was that this side does not ask for: the status of the answer.
    refused: Option<u16>,
    complaints: ErrorLines,
    log: WorkerLog,
    log_targets: Arc<LogTargets>,
    unanswered: Option<Unanswered>,
}

impl FastCgi {
    /// One on a connection that stands. It is fresh if nothing has been asked on it.
    pub fn new(wire: Wire, settings: Settings, server: &Arc<LiveServer>, is_fresh: bool, log: &WorkerLog) -> Self {
        let mut wire = wire;
        let client = Client::new(settings, &mut wire.output);
        Self {
            wire,
            client,
            key: None,
            waiting: Vec::new(),
            body: RequestBody::default(),
            held_params: None,
            answer: ProgramAnswer::new(Method::Get),
            end: None,
            refused: None,
            complaints: ErrorLines::default(),
            log: log.clone(),
            log_targets: Arc::default(),
            unanswered: is_fresh.then(|| Unanswered::new(server)),
        }
    }

    /// The stream on which it comes.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.wire.stream
    }

    fn begin(&mut self, params: &[u8]) {
        self.key = self.client.begin(params, &mut self.wire.output);
    }

    /// Puts bytes of the body into records; how many of them were taken.
    fn frame(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.body.take(bytes, STEP_BYTES)? {
            Step::Bytes { count, is_last } => {
                let Some(key) = self.key else { return Ok(bytes.len()) };
                self.client.write_stdin(key, bytes.get(..count).unwrap_or_default(), &mut self.wire.output);
                if is_last {
                    self.client.end_stdin(key, &mut self.wire.output);
                }
                Ok(if is_last { bytes.len() } else { count })
            }
            Step::Kept => Ok(bytes.len()),
            Step::Whole(body) => {
                if let Some(mut params) = self.held_params.take() {
                    write_pair(b"CONTENT_LENGTH", body.len().to_string().as_bytes(), &mut params);
                    self.begin(&params);
                }
                if let Some(key) = self.key {
                    self.client.write_stdin(key, &body, &mut self.wire.output);
                    self.client.end_stdin(key, &mut self.wire.output);
                }
                Ok(bytes.len())
            }
            Step::TooLong => {
                self.refused = Some(413);
                Ok(bytes.len())
            }
        }
    }

    /// Whether the application has ended the request, so that it reads nothing more of it.
    fn is_deaf(&self) -> bool {
        self.end.is_some()
    }

    /// Reads what was received; an error if it makes no sense.
    fn take_input(&mut self) -> io::Result<()> {
        let received = std::mem::take(&mut self.wire.received);
        let (bytes, mut used) = (received.bytes(), 0);
        let done = loop {
            match self.client.next(bytes, &mut used) {
                Ok(Some(Event::Stdout { from, to, .. })) => self.answer.push(bytes.get(from..to).unwrap_or_default()),
                Ok(Some(Event::Stderr { from, to, .. })) => self.complain(bytes.get(from..to).unwrap_or_default()),
                Ok(Some(Event::StdoutEnd(_))) => self.answer.end(),
                Ok(Some(Event::End { status, .. })) => {
                    self.end = Some(status);
                    self.answer.end();
                    self.complaints.finish(say(&self.log, &self.log_targets));
                }
                Ok(Some(Event::Values)) => {}
                Ok(None) => break Ok(()),
                Err(_) => break Err(io::ErrorKind::InvalidData.into()),
            }
        };
        self.wire.received = received;
        self.wire.received.consume(used);
        self.wire.rest();
        done
    }

    fn complain(&mut self, bytes: &[u8]) {
        if !self.log_targets.is_empty() {
            self.complaints.push(bytes, say(&self.log, &self.log_targets));
        }
    }

    /// Looks whether the end of the request has come as well, behind an answer that is complete: then the connection can be used
    /// again.
    fn look_for_end(&mut self) {
        if self.answer.is_complete() && self.answer.received().is_empty() && self.end.is_none() && self.key.is_some() {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(Ok(1..)) = self.wire.poll_receive(&mut context) {
                // What makes no sense has not ended, and the connection is not used again.
                let _ = self.take_input();
            }
        }
    }
}

/// Sends lines to a log.
fn say(log: &WorkerLog, targets: &LogTargets) -> impl FnMut(&str) {
    move |line| log.send(targets, &LogLine::new(LogLevel::Error, line.as_bytes()), SystemTime::now())
}

impl Drop for FastCgi {
    fn drop(&mut self) {
        self.complaints.finish(say(&self.log, &self.log_targets));
        if let Some(key) = self.key.filter(|key| self.client.is_open(*key) && self.wire.is_flushed()) {
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
        self.answer.received()
    }

    fn consume(&mut self, count: usize) {
        self.answer.consume(count);
        self.look_for_end();
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
        if self.is_deaf() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = self.frame(bytes)?;
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
        self.wire.ended || self.end.is_some()
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

impl ServerCodec for FastCgi {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        let method = request.head.method_kind();
        (self.answer, self.end, self.refused) = (ProgramAnswer::new(method), None, None);
        (self.key, self.held_params) = (None, None);
        let length = request_body_length(request.head);
        self.body = RequestBody::new(length);
        let program = match &request.program {
            Some(Ok(program)) => program,
            Some(Err(status)) => return self.refused = Some(*status),
            None => return self.refused = Some(500),
        };
        self.log_targets = Arc::clone(&program.log);
        if self.body.is_unannounced() {
            self.held_params = Some(program.params.clone());
            return;
        }
        self.begin(&program.params);
        if matches!(length, BodyLength::None | BodyLength::Exact(0) | BodyLength::UntilClose)
            && let Some(key) = self.key
        {
            self.client.end_stdin(key, &mut self.wire.output);
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
                self.look_for_end();
                return Poll::Ready(taken);
            }
            let is_empty = self.answer.is_empty();
            match self.end {
                None => {}
                Some(EndStatus::CannotMultiplex | EndStatus::Overloaded) if is_empty => {
                    return Poll::Ready(Err(HeadEnd::NotProcessed));
                }
                Some(EndStatus::Complete) => return Poll::Ready(Err(HeadEnd::Broken)),
                Some(_) => return Poll::Ready(Err(HeadEnd::Junk)),
            }
            match ready!(self.wire.poll_receive(context)) {
                Ok(0) | Err(_) => {
                    let end = if is_empty { HeadEnd::Empty } else { HeadEnd::Broken };
                    return Poll::Ready(Err(end));
                }
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
        self.end == Some(EndStatus::Complete)
            && self.client.is_idle()
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
        self.answer.rest();
        self.waiting = Vec::new();
        ServerCodec::leave(&mut self.wire);
    }

    fn shut(&self) {
        ServerCodec::shut(&self.wire);
    }
}
