//! The task that serves the socket of a connection.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use fastcgi::{Client, Event};
use net::Deadline;

use super::Shared;
use crate::{session::wire::Wire, worker::Worker};

/// How often something is received before what came of it is sent.
const RECEIVES_MAX: usize = 8;

/// How long nothing has come on a connection that may lead nowhere, as a request on it got no answer.
const SILENCE_TIME: Duration = Duration::from_secs(1);

/// How long the application has to end requests that nobody waits for any more, before the connection ends without.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Serves the connection until it ends.
pub async fn serve(worker: Rc<Worker>, shared: Rc<Shared>, wire: Wire) {
    let mut task =
        Task { received_at: worker.now(), worker, shared, wire, patience: Deadline::default(), takes_nothing: false };
    poll_fn(|context| task.poll(context)).await;
    task.shared.is_over();
    task.worker.servers.borrow_mut().forget(&*task.shared);
}

struct Task {
    worker: Rc<Worker>,
    shared: Rc<Shared>,
    wire: Wire,
    /// When something came last.
    received_at: Instant,
    /// Until when an answer may keep others waiting, or the end of a request may be waited for.
    patience: Deadline,
    /// The application has closed: nothing is sent any more.
    takes_nothing: bool,
}

impl Task {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.carrier.is_served_by(context);
        // What was taken since the last turn keeps nobody waiting any more.
        self.shared.note_full(self.worker.now());
        loop {
            let Ok(has_received) = self.receive(context) else { return Poll::Ready(()) };
            if self.flush(context).is_err() {
                // What came before the end counts.
                self.takes_nothing = true;
                self.shared.carrier.leave();
                continue;
            }
            if !has_received {
                break;
            }
            if !tokio::task::coop::has_budget_remaining() {
                context.waker().wake_by_ref();
                break;
            }
        }
        if self.shared.take_unanswered() && self.worker.now() >= self.received_at + SILENCE_TIME {
            self.shared.carrier.leave();
        }
        if self.shared.carrier.exchanges() > 0 {
            self.bound_waiting(context);
            return Poll::Pending;
        }
        if !self.shared.client().is_idle() {
            return self.poll_patience(END_PATIENCE, context);
        }
        self.patience.set(None);
        if !self.shared.carrier.is_leaving() && self.worker.servers.borrow_mut().rests(&*self.shared) {
            return Poll::Pending;
        }
        let _ = self.wire.stream.poll_shut_write(context);
        Poll::Ready(())
    }

    /// Ready when so much time has gone since it was first asked.
    fn poll_patience(&mut self, patience: Duration, context: &mut Context<'_>) -> Poll<()> {
        if self.patience.at().is_none() {
            self.patience.set(Some(self.worker.now() + patience));
        }
        self.patience.poll(context)
    }

    /// Gives up an answer that has kept others waiting for too long.
    fn bound_waiting(&mut self, context: &mut Context<'_>) {
        let over = self.shared.note_full(self.worker.now()).filter(|_| self.shared.carrier.exchanges() > 1);
        self.patience.set(over);
        if over.is_some() && self.patience.poll(context).is_ready() {
            self.patience.set(None);
            self.shared.break_full(self.worker.now());
            context.waker().wake_by_ref();
        }
    }

    /// Receives what there is, unless an answer is not taken; whether anything came.
    ///
    /// # Errors
    /// When nothing more can come.
    fn receive(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut has_received = false;
        for _ in 0..RECEIVES_MAX {
            if self.shared.is_full() {
                return Ok(has_received);
            }
            match self.wire.poll_receive(context) {
                Poll::Pending => return Ok(has_received),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(Ok(_)) => {
                    has_received = true;
                    self.received_at = self.worker.now();
                    self.shared.hears();
                    self.take_input()?;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        context.waker().wake_by_ref();
        Ok(has_received)
    }

    /// Reads what was received, and tells the exchanges.
    fn take_input(&mut self) -> io::Result<()> {
        let received = std::mem::take(&mut self.wire.received);
        let (bytes, mut used, shared) = (received.bytes(), 0, &self.shared);
        let done = loop {
            let event = shared.client().next(bytes, &mut used);
            match event {
                Ok(Some(Event::Stdout { key, from, to })) => {
                    shared.answers(key, bytes.get(from..to).unwrap_or_default());
                }
                Ok(Some(Event::Stderr { key, from, to })) => {
                    shared.complains(key, bytes.get(from..to).unwrap_or_default());
                }
                Ok(Some(Event::StdoutEnd(key))) => shared.ends(key, None),
                Ok(Some(Event::End { key, status })) => shared.ends(key, Some(status)),
                // Nobody has asked for them here.
                Ok(Some(Event::Values(_))) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        };
        self.wire.received = received;
        self.wire.received.consume(used);
        self.wire.rest();
        shared.write(Client::finish);
        done
    }

    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.takes_nothing {
            self.wire.output.clear();
            self.shared.take_output(&mut self.wire.output);
            self.wire.output.clear();
            self.shared.note_unsent(0);
            return Ok(());
        }
        loop {
            if self.wire.is_flushed() && !self.shared.take_output(&mut self.wire.output) {
                self.shared.note_unsent(0);
                return Ok(());
            }
            let flushed = self.wire.poll_flush(context);
            self.shared.note_unsent(self.wire.unsent().len());
            match flushed {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(()),
            }
        }
    }
}
