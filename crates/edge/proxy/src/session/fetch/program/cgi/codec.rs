//! A program's pipes as the connection to a server.

use std::{
    cell::RefCell,
    future::Future,
    io,
    os::fd::{AsFd as _, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Limits, Method, ResponseHead, ResponseParser, request_body_length};
use logs::{LogTargets, WorkerLog};
use net::{Deadline, PlainSocket};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::oneshot,
};

use super::process::{ProgramEnd, Started};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    fetch::{
        HeadEnd, OutgoingHead, ServerCodec,
        program::{Complaints, ProgramAnswer, RequestBody},
    },
};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of a body that are put into the pipe's way before they are sent.
const STEP_BYTES: usize = 64 * 1024;

/// Bytes of complaints that are still taken at the end: what a pipe holds.
const LAST_COMPLAINTS_BYTES_MAX: usize = 64 * 1024;

/// Reads of complaints before the answer is looked at again: a program that complains without end holds up nobody.
const COMPLAINT_READS_MAX: usize = 8;

/// How long the end of a program is waited for that has closed its output, to learn whether it had come to its end.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A program that answers one request.
#[derive(Debug)]
pub struct Cgi {
    /// None when nothing more goes there.
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Option<Receiver>,
    has_closed_stdout: bool,
    /// Until when the end of the program is waited for.
    patience: Deadline,
    ending: oneshot::Receiver<ProgramEnd>,
    end: Option<ProgramEnd>,
    /// The program is ended when this is dropped.
    leash: RefCell<Option<oneshot::Sender<()>>>,
    /// Put here as HTTP/1 frames it.
    waiting: Vec<u8>,
    body: RequestBody,
    /// On its way into the pipe, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    answer: ProgramAnswer,
    /// Bytes that the program may still say.
    output_left: u64,
    buffer: Box<[u8]>,
    complaints: Complaints,
}

impl Cgi {
    /// One that has been started.
    pub fn new(
        started: Started,
        output_bytes_max: Option<u64>,
        (log, log_targets): (&WorkerLog, &Arc<LogTargets>),
    ) -> io::Result<Self> {
        Ok(Self {
            stdin: Some(Sender::from_owned_fd(started.stdin)?),
            stdout: receiver(started.stdout)?,
            stderr: Some(receiver(started.stderr)?),
            has_closed_stdout: false,
            patience: Deadline::default(),
            ending: started.end,
            end: None,
            leash: RefCell::new(Some(started.leash)),
            waiting: Vec::new(),
            body: RequestBody::default(),
            output: Vec::new(),
            sent: 0,
            answer: ProgramAnswer::new(Method::Get),
            output_left: output_bytes_max.unwrap_or(u64::MAX),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            complaints: Complaints::new(log, log_targets),
        })
    }

    /// Whether all that it says is another path, which is to be answered with.
    pub fn is_local_redirect(&self) -> bool {
        self.answer.is_local_redirect()
    }

    /// Takes what the program complains about.
    fn poll_complaints(&mut self, context: &mut Context<'_>) {
        for _ in 0..COMPLAINT_READS_MAX {
            let Some(stderr) = &self.stderr else { return };
            match stderr.try_read(&mut self.buffer) {
                Ok(count @ 1..) => self.complain(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if stderr.poll_read_ready(context).is_pending() {
                        return;
                    }
                }
                Ok(_) | Err(_) => self.stderr = None,
            }
        }
        context.waker().wake_by_ref();
    }

    /// Logs so many bytes of complaints, which have been read.
    fn complain(&mut self, count: usize) {
        self.complaints.push(self.buffer.get(..count).unwrap_or_default());
    }

    /// Takes the complaints that are in the pipe, of which the runtime may not know yet.
    fn take_last_complaints(&mut self) {
        let mut left = LAST_COMPLAINTS_BYTES_MAX;
        while let Some(stderr) = self.stderr.as_ref().filter(|_| left > 0)
            && let Ok(count @ 1..) = rustix::io::read(stderr.as_fd(), &mut *self.buffer)
        {
            self.complain(count);
            left = left.saturating_sub(count);
        }
    }

    /// Learns of the program's end.
    fn poll_end(&mut self, context: &mut Context<'_>) {
        if self.end.is_none()
            && let Poll::Ready(end) = Pin::new(&mut self.ending).poll(context)
        {
            self.end = Some(end.unwrap_or(ProgramEnd::Killed));
        }
    }

    /// Reads more of the answer; ready with whether there is more to come.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            self.poll_complaints(context);
            self.poll_end(context);
            if self.has_closed_stdout {
                return self.poll_last_word(context).map(Ok);
            }
            let had_ended = self.end.is_some();
            match self.stdout.try_read(&mut self.buffer) {
                Ok(0) => self.has_closed_stdout = true,
                Ok(count) => return Poll::Ready(self.take(count).map(|()| true)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && had_ended => {
                    // What the program has left in the pipe still counts; whoever else has the pipe is not waited for. The runtime may
                    // not know yet what there is.
                    match rustix::io::read(self.stdout.as_fd(), &mut *self.buffer) {
                        Ok(count @ 1..) => return Poll::Ready(self.take(count).map(|()| true)),
                        Ok(_) | Err(_) => self.has_closed_stdout = true,
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stdout.poll_read_ready(context))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// The program has closed its output: whether what it has said is all that it had to say.
    fn poll_last_word(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.end.is_none() {
            if self.patience.at().is_none() {
                self.patience.set(Some(tokio::time::Instant::now().into_std() + END_PATIENCE));
            }
            ready!(self.patience.poll(context));
        }
        if matches!(self.end, None | Some(ProgramEnd::Exited)) {
            self.answer.end();
        }
        Poll::Ready(false)
    }

    fn take(&mut self, count: usize) -> io::Result<()> {
        match self.output_left.checked_sub(count as u64) {
            Some(left) => self.output_left = left,
            None => {
                self.leash.take();
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        self.answer.push(self.buffer.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Moves what has been taken out of its framing into the pipe. A program need not read it.
    fn poll_pipe(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(stdin) = self.stdin.as_ref().filter(|_| self.sent < self.output.len()) {
            match stdin.try_write(self.output.get(self.sent..).unwrap_or_default()) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if ready!(stdin.poll_write_ready(context)).is_err() {
                        self.stdin = None;
                    }
                }
                Err(_) => self.stdin = None,
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.body.is_whole() && self.waiting.is_empty() {
            self.stdin = None;
        }
        Poll::Ready(())
    }
}

/// What is read of a pipe.
fn receiver(pipe: OwnedFd) -> io::Result<Receiver> {
    Receiver::from_owned_fd(pipe)
}

impl Drop for Cgi {
    fn drop(&mut self) {
        if self.answer.is_complete()
            && let Some(leash) = self.leash.take()
        {
            let _ = leash.send(());
        }
        self.take_last_complaints();
    }
}

impl Source for Cgi {
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
            if self.answer.is_complete() || self.answer.has_ended() {
                return Poll::Ready(Ok(0));
            }
            if !ready!(self.poll_more(context))? && self.answer.received().len() == before {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for Cgi {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    fn unsent_len(&self) -> usize {
        self.waiting.len() + self.output.len() - self.sent
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pipe(context));
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut taken = 0;
        while taken < waiting.len() {
            taken += self.body.pass(waiting.get(taken..).unwrap_or_default(), STEP_BYTES, &mut self.output)?;
        }
        waiting.clear();
        self.waiting = waiting;
        ready!(self.poll_pipe(context));
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        let taken = self.body.pass(bytes, STEP_BYTES, &mut self.output)?;
        // NOTE: what the pipe does not take now waits here: the next flush is asked for it.
        let _ = self.poll_pipe(context);
        Poll::Ready(Ok(taken))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for Cgi {
    fn has_ended(&self) -> bool {
        self.has_closed_stdout
    }

    fn is_full(&self) -> bool {
        self.answer.received().len() >= READ_BYTES
    }

    fn rest(&mut self) {
        self.answer.rest();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        Box::pin(std::future::pending())
    }

    fn break_off(&mut self) {}
}

impl ServerCodec for Cgi {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        self.answer = ProgramAnswer::new(request.head.method_kind());
        self.body = RequestBody::new(request_body_length(request.head));
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        loop {
            if let Some(taken) = self.answer.take_head(parser, limits, head) {
                return Poll::Ready(taken);
            }
            let has_more = match ready!(self.poll_more(context)) {
                Ok(has_more) => has_more,
                Err(_) => return Poll::Ready(Err(HeadEnd::Junk)),
            };
            if has_more {
                continue;
            }
            if let Some(taken) = self.answer.take_head(parser, limits, head) {
                return Poll::Ready(taken);
            }
            return Poll::Ready(Err(match self.end {
                Some(ProgramEnd::TimedOut) => HeadEnd::Timeout,
                Some(ProgramEnd::Killed) => HeadEnd::Broken,
                _ => HeadEnd::Junk,
            }));
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
        self.leash.take();
    }
}
