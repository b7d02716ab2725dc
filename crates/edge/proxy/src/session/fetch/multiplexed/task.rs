//! The task that serves the socket of a connection.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use h2::Event;
use http::ResponseHead;
use net::Deadline;

use super::Shared;
use crate::{session::wire::Wire, worker::Worker};

/// How long nothing has come on a connection that may lead nowhere.
const SILENCE_TIME: Duration = Duration::from_secs(1);

/// How long a server may take to answer to a PING, on a connection on which a request got no answer.
const PING_TIME: Duration = Duration::from_secs(5);

/// How often something is received before what came of it is sent.
const RECEIVES_MAX: usize = 8;

/// Serves the connection until it ends.
pub async fn serve(worker: Rc<Worker>, shared: Rc<Shared>, wire: Wire) {
    let mut task = Task {
        received_at: worker.now(),
        worker,
        shared,
        wire,
        head: ResponseHead::new(),
        doubts: Deadline::default(),
        has_told_end: false,
        takes_nothing: false,
    };
    poll_fn(|context| task.poll(context)).await;
    task.shared.ends();
    task.worker.servers.borrow_mut().forget(&*task.shared);
}

struct Task {
    worker: Rc<Worker>,
    shared: Rc<Shared>,
    wire: Wire,
    /// Where the next head goes.
    head: ResponseHead,
    /// When something came last.
    received_at: Instant,
    /// Until when a connection that may lead nowhere has to show that it leads somewhere.
    doubts: Deadline,
    /// The pool knows how many requests the server has taken.
    has_told_end: bool,
    /// The server has closed, or has reset the connection: nothing is sent any more.
    takes_nothing: bool,
}

impl Task {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.carrier.is_served_by(context);
        self.shared.machine().look_at_clock(self.worker.now_ms());
        loop {
            let received = self.receive(context);
            let next = self.shared.machine().next_sendable();
            if let Some(key) = next {
                self.shared.wake(key);
            }
            // What came before the end counts, however much of it waits; what is to be sent does not any more.
            if received.is_err() {
                return Poll::Ready(());
            }
            if self.flush(context).is_err() {
                self.takes_nothing = true;
                self.shared.carrier.leave();
                continue;
            }
            if !received.unwrap_or(false) {
                break;
            }
            if !tokio::task::coop::has_budget_remaining() {
                context.waker().wake_by_ref();
                break;
            }
        }
        if self.poll_doubts(context).is_ready() {
            return Poll::Ready(());
        }
        if self.shared.carrier.exchanges() > 0 {
            return Poll::Pending;
        }
        if !self.shared.is_leaving() && self.worker.servers.borrow_mut().rests(&*self.shared) {
            return Poll::Pending;
        }
        self.shared.machine().leave();
        let _ = self.flush(context);
        let _ = self.wire.stream.poll_shut_write(context);
        Poll::Ready(())
    }

    /// Ready when the connection leads nowhere: a request got no answer, and then a PING got none.
    fn poll_doubts(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.take_unanswered() && self.worker.now() >= self.received_at + SILENCE_TIME {
            self.shared.set_suspect(true);
        }
        if !self.shared.is_suspect() {
            self.doubts.set(None);
            return Poll::Pending;
        }
        if self.doubts.at().is_none() {
            self.doubts.set(Some(self.worker.now() + PING_TIME));
            self.shared.machine().send_ping();
            if self.flush(context).is_err() {
                return Poll::Ready(());
            }
        }
        self.doubts.poll(context)
    }

    /// Tells the pool how many requests a server has taken that has left.
    fn note_end(&mut self) {
        if !self.has_told_end
            && let Some(count) = self.shared.machine().requests_served()
        {
            self.has_told_end = true;
            self.shared.carrier.facts.server_left_after(count);
        }
    }

    /// Receives what there is; whether anything came.
    ///
    /// # Errors
    /// When nothing more can come.
    fn receive(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut moved = false;
        for _ in 0..RECEIVES_MAX {
            if !self.shared.machine().may_receive() {
                return Ok(moved);
            }
            match self.wire.poll_receive(context) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(Ok(_)) => {
                    moved = true;
                    self.received_at = self.worker.now();
                    self.shared.set_suspect(false);
                    self.take_input()?;
                    self.shared.introduce();
                    self.note_end();
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        context.waker().wake_by_ref();
        Ok(moved)
    }

    /// Has the machine read what was received, and tells the exchanges.
    fn take_input(&mut self) -> io::Result<()> {
        let received = std::mem::take(&mut self.wire.received);
        let (mut used, shared) = (0, &self.shared);
        let done = loop {
            let event = shared.machine().next(received.bytes(), &mut used, &mut self.head);
            match event {
                Ok(Some(Event::Response { stream, ends })) => {
                    let head = std::mem::replace(&mut self.head, shared.take_spare_head());
                    shared.answers(stream, head, ends);
                }
                Ok(Some(Event::Data { stream, from, to, ends })) => {
                    shared.receives(stream, received.bytes().get(from..to).unwrap_or_default(), ends.then_some(b""));
                }
                Ok(Some(Event::Trailers(stream))) => {
                    let trailers = shared.machine().trailers().to_vec();
                    shared.receives(stream, b"", Some(&trailers));
                }
                Ok(Some(Event::Reset { stream, code, by_peer })) => shared.breaks(stream, code, by_peer),
                // A server sends no requests.
                Ok(Some(Event::Request(_) | Event::HeadTooLarge | Event::Malformed | Event::Refused)) => {}
                Ok(None) => break Ok(()),
                Err(error) => {
                    shared.machine().fail(error);
                    break Err(io::ErrorKind::InvalidData.into());
                }
            }
        };
        self.wire.received = received;
        self.wire.received.consume(used);
        self.wire.rest();
        done
    }

    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.takes_nothing {
            let mut machine = self.shared.machine();
            self.wire.output.clear();
            machine.take_output(&mut self.wire.output);
            self.wire.output.clear();
            machine.note_unsent(0);
            return Ok(());
        }
        loop {
            if self.wire.is_flushed() {
                let mut machine = self.shared.machine();
                if machine.output_len() == 0 {
                    machine.note_unsent(0);
                    return Ok(());
                }
                self.wire.output.clear();
                machine.take_output(&mut self.wire.output);
            }
            let flushed = self.wire.poll_flush(context);
            let unsent = self.wire.unsent().len();
            self.shared.machine().note_unsent(unsent);
            match flushed {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(()),
            }
            // There is room again.
            let next = self.shared.machine().next_sendable();
            if let Some(key) = next {
                self.shared.wake(key);
            }
        }
    }
}
