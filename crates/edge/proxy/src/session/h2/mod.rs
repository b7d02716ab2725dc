//! HTTP/2: the life of a client connection that carries several exchanges at a time.
//!
//! ```text
//!  socket ──▶ machine (crate h2) ──▶ Event::Request ──▶ a place in Slots: exchange::serve ──▶ Exchange::answer
//!     ▲                                                      │ Stream: pulls the body, puts the answer
//!     └──────────── output ◀── machine ◀─────────────────────┘
//! ```
//!
//! One task serves the connection: it owns the socket, gives the machine what comes, polls those streams for which something
//! has happened, and sends what the machine has made of their answers. Nothing of a stream is polled while the machine is
//! borrowed.

mod machine;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use h2::{ConnectionError, Event, ServerConnection, Settings};
use haproxycfg::model::Tune;

use super::{
    ending::{Ending, Stage},
    http::{LAST_REQUEST_TIME, Session},
    streams::{self, Shared, Slots},
};
use crate::registry::Order;

/// How long a connection without streams keeps the memory of the last ones.
const SILENCE_TIME: Duration = Duration::from_secs(1);

/// How often something is received before what came of it is sent.
const RECEIVES_MAX: usize = 8;

/// What is said of itself to clients.
fn settings(tune: &Tune) -> Settings {
    let settings = Settings {
        header_table_size: tune.h2.header_table_size,
        // Without any, no body would ever come.
        stream_window: tune.h2.initial_window_size.max(1),
        streams_max: tune.h2.max_concurrent_streams,
        frame_bytes_max: tune.h2.max_frame_size,
        knows_protocols: !tune.h2.is_without_websockets,
        ..Settings::default()
    };
    Settings { connection_window: settings.stream_window.saturating_mul(8).min(h2::WINDOW_MAX), ..settings }
}

/// Serves a client that speaks HTTP/2 until its connection ends.
pub async fn serve(session: Box<Session>) {
    let mut connection = Connection::new(session);
    let end = poll_fn(|context| connection.poll(context)).await;
    if let End::Told = end {
        connection.session.linger().await;
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There is nobody to be told.
    Gone,
    /// The client was told, and is to read it.
    Told,
}

/// A client's connection.
struct Connection {
    session: Box<Session>,
    shared: Rc<Shared<ServerConnection>>,
    slots: Slots,
    /// When the last stream ended, or the connection began.
    idle_since: Instant,
    /// When the client was told that the connection is to end.
    leaving_since: Option<Instant>,
    /// When the client last took something of what waits for it.
    sent_at: Instant,
    /// Since when a header block is not whole.
    expecting_since: Option<Instant>,
    /// What came with the preface, before this connection was one of HTTP/2, has not been looked at.
    is_fresh: bool,
    /// Whether the client has been told that all is over.
    is_closing: bool,
    /// Whether there is memory of streams to be given back.
    is_warm: bool,
}

impl Connection {
    fn new(session: Box<Session>) -> Self {
        let machine = ServerConnection::new(settings(&session.instance.config.global.tune), session.limits());
        let (shared, now) = (Rc::new(Shared::new(Rc::clone(&session.worker), machine)), session.worker.now());
        Self {
            idle_since: session.idle_since,
            session,
            shared,
            slots: Slots::default(),
            leaving_since: None,
            sent_at: now,
            expecting_since: None,
            is_fresh: true,
            is_closing: false,
            is_warm: true,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        let now = self.session.worker.now();
        self.shared.machine.borrow_mut().look_at_clock(self.session.worker.now_ms());
        self.session.registered.handle.listen(context);
        if self.session.registered.handle.order() == Order::Abort {
            self.shared.goes();
        }
        if !self.shared.has_gone() {
            self.leave_in_time(now);
            loop {
                let mut moved = self.slots.poll_ready(context);
                moved |= self.receive(context);
                self.send_in_turn(context);
                if self.shared.take_rejection() {
                    // As in HAProxy.
                    let calm = h2::ErrorCode::ENHANCE_YOUR_CALM;
                    self.close(ConnectionError::new(calm, "rejected by a rule"));
                }
                if self.shared.has_gone() {
                    break;
                }
                if self.flush(context).is_err() {
                    self.shared.goes();
                    break;
                }
                if !moved || self.shared.has_gone() {
                    break;
                }
                if !tokio::task::coop::has_budget_remaining() {
                    context.waker().wake_by_ref();
                    break;
                }
            }
        }
        if self.shared.has_gone() {
            return self.poll_gone(context);
        }
        self.poll_end(now, context)
    }

    /// Tells the client that the connection is to end, if it is.
    fn leave_in_time(&mut self, now: Instant) {
        let mut machine = self.shared.machine.borrow_mut();
        if !machine.is_leaving() && self.session.is_leaving() {
            machine.begin_leaving();
            self.leaving_since = Some(now);
        }
        if self.leaving_since.is_some_and(|since| now >= since + LAST_REQUEST_TIME) {
            machine.leave();
        }
    }

    /// Receives what there is; whether anything came.
    fn receive(&mut self, context: &mut Context<'_>) -> bool {
        let mut moved = false;
        if std::mem::take(&mut self.is_fresh) && !self.session.client.received.bytes().is_empty() {
            moved = true;
            self.take_input();
        }
        for _ in 0..RECEIVES_MAX {
            if self.is_closing || self.shared.has_ended() || !self.shared.machine.borrow().may_receive() {
                return moved;
            }
            match self.session.client.poll_receive(context) {
                Poll::Pending => return moved,
                Poll::Ready(Ok(0)) => {
                    self.shared.ends();
                    self.slots.poll_all();
                    return true;
                }
                Poll::Ready(Ok(_)) => {
                    moved = true;
                    self.take_input();
                }
                Poll::Ready(Err(_)) => {
                    self.shared.goes();
                    return true;
                }
            }
        }
        context.waker().wake_by_ref();
        moved
    }

    /// Has the machine read what was received, and does what comes of it.
    fn take_input(&mut self) {
        let received = std::mem::take(&mut self.session.client.received);
        let mut used = 0;
        loop {
            let mut head = self.shared.take_head();
            let event = self.shared.machine.borrow_mut().next(received.bytes(), &mut used, &mut head);
            match event {
                Ok(Some(Event::Request(key))) => self.begin(key, head),
                Ok(Some(event)) => {
                    self.shared.give_head(head);
                    self.take_event(event, received.bytes());
                }
                Ok(None) => {
                    self.shared.give_head(head);
                    break;
                }
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.session.client.received = received;
        self.session.client.received.consume(used);
        self.session.client.rest();
        let is_expecting = self.shared.machine.borrow().is_expecting();
        let now = self.session.worker.now();
        self.expecting_since = is_expecting.then(|| self.expecting_since.unwrap_or(now));
    }

    fn take_event(&mut self, event: Event, input: &[u8]) {
        match event {
            // A client sends no responses.
            Event::Request(_) | Event::Response { .. } => {}
            Event::Data { stream, from, to, ends } => {
                self.shared.receives(stream, input.get(from..to).unwrap_or_default(), ends.then_some(b""));
                self.slots.poll(stream.slot());
            }
            Event::Trailers(stream) => {
                let trailers = self.shared.machine.borrow().trailers().to_vec();
                self.shared.receives(stream, b"", Some(&trailers));
                self.slots.poll(stream.slot());
            }
            Event::Reset { stream, .. } => self.slots.poll(stream.slot()),
            Event::Malformed | Event::HeadTooLarge => {
                streams::log_unreadable(&mut self.session, Ending::RequestMalformed(Stage::Request));
            }
            Event::Refused => {
                let (side, worker) = (&self.session.side, self.session.worker.index);
                side.count(worker, |traffic| &traffic.request_errors);
            }
        }
    }

    /// Gives a request to the exchange that has its place.
    fn begin(&mut self, key: h2::StreamKey, head: http::RequestHead) {
        self.is_warm = true;
        streams::begin(&mut self.session, &self.shared, &mut self.slots, (key, head));
    }

    /// Ends the connection for what the client has done.
    fn fail(&mut self, error: ConnectionError) {
        let (side, worker) = (&self.session.side, self.session.worker.index);
        side.count(worker, |traffic| &traffic.request_errors);
        self.close(error);
    }

    /// Ends the connection and all that is on it.
    fn close(&mut self, error: ConnectionError) {
        self.shared.machine.borrow_mut().fail(error);
        self.is_closing = true;
    }

    /// Has those send who could not send all, one after the other.
    fn send_in_turn(&mut self, context: &Context<'_>) {
        loop {
            if !tokio::task::coop::has_budget_remaining() {
                context.waker().wake_by_ref();
                return;
            }
            let next = self.shared.machine.borrow_mut().next_sendable();
            match next {
                Some(key) => self.slots.poll(key.slot()),
                None => return,
            }
        }
    }

    /// Sends what waits, as far as the socket takes it.
    fn flush(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        loop {
            let client = &mut self.session.client;
            let before = client.unsent().len();
            if client.is_flushed() {
                let mut machine = self.shared.machine.borrow_mut();
                if machine.output_len() == 0 {
                    machine.note_unsent(0);
                    return Ok(());
                }
                client.output.clear();
                machine.take_output(&mut client.output);
                self.sent_at = self.session.worker.now();
            }
            let flushed = client.poll_flush(context);
            let unsent = client.unsent().len();
            self.shared.machine.borrow_mut().note_unsent(unsent);
            if unsent < before {
                self.sent_at = self.session.worker.now();
            }
            match flushed {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(()),
            }
            // There is room again.
            self.send_in_turn(context);
        }
    }

    /// Nobody reads anything any more: exchanges come to their ends.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.shared.vanishes() {
            self.session.client.stream.vanish();
        }
        self.slots.poll_all();
        while self.slots.poll_ready(context) && tokio::task::coop::has_budget_remaining() {}
        if self.shared.running() == 0 {
            return Poll::Ready(if self.is_closing { End::Told } else { End::Gone });
        }
        self.slots.listen(context);
        Poll::Pending
    }

    fn is_flushed(&self) -> bool {
        self.session.client.is_flushed() && self.shared.machine.borrow().output_len() == 0
    }

    /// Whether the connection is over, and otherwise until when it may be as it is.
    fn poll_end(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<End> {
        let running = self.shared.running();
        if running > 0 {
            self.idle_since = now;
        }
        if self.is_closing && self.is_flushed() {
            self.shared.goes();
            return self.poll_gone(context);
        }
        let is_over = self.shared.machine.borrow().is_over();
        if running == 0 && self.is_flushed() && (self.shared.has_ended() || is_over) {
            return Poll::Ready(End::Told);
        }
        loop {
            let until = self.until(now, running);
            self.session.deadline.set(until.map(|(at, _)| at));
            if self.session.deadline.poll_at(now, context).is_pending() {
                self.slots.listen(context);
                return Poll::Pending;
            }
            let Some((_, why)) = until else { return Poll::Pending };
            match why {
                Until::Leaves => {
                    self.shared.machine.borrow_mut().leave();
                    self.leaving_since = None;
                    if self.flush(context).is_err() {
                        self.shared.goes();
                        return self.poll_gone(context);
                    }
                    if running == 0 && self.is_flushed() {
                        return Poll::Ready(End::Told);
                    }
                }
                Until::EndsLate => {
                    self.shared.machine.borrow_mut().look_at_clock(self.session.worker.now_ms());
                    if self.flush(context).is_err() {
                        self.shared.goes();
                        return self.poll_gone(context);
                    }
                }
                Until::Rests => {
                    self.is_warm = false;
                    self.slots.clear();
                    self.shared.rest();
                    self.session.worker.heads.reclaim_output(&mut self.session.client.output);
                }
                // As in HAProxy, a connection that has been silent for too long is told so.
                Until::Idle | Until::Expects => {
                    self.shared.machine.borrow_mut().leave();
                    self.is_closing = true;
                    let _ = self.flush(context);
                    if running == 0 && self.is_flushed() {
                        // It may read still what the system has taken.
                        return Poll::Ready(End::Told);
                    }
                    self.shared.goes();
                    return self.poll_gone(context);
                }
                Until::Stalls => {
                    self.shared.goes();
                    return self.poll_gone(context);
                }
            }
        }
    }

    /// When something is to be done if nothing happens.
    fn until(&self, now: Instant, running: usize) -> Option<(Instant, Until)> {
        let timeouts = &self.session.side.frontend.settings().timeouts;
        let head = timeouts.http_request.or(timeouts.client);
        let mut until: Option<(Instant, Until)> = None;
        let mut add = |at: Option<Instant>, why| {
            if let Some(at) = at
                && until.is_none_or(|(sooner, _)| at < sooner)
            {
                until = Some((at, why));
            }
        };
        add(self.leaving_since.map(|since| since + LAST_REQUEST_TIME), Until::Leaves);
        if !self.is_flushed() {
            add(timeouts.client.map(|limit| self.sent_at + limit), Until::Stalls);
        }
        if let Some(since) = self.expecting_since {
            add(head.map(|limit| since + limit), Until::Expects);
        }
        if let Some(late_ms) = self.shared.machine.borrow().late_end_ms() {
            let left = late_ms.saturating_sub(self.session.worker.now_ms());
            add(Some(now + Duration::from_millis(left)), Until::EndsLate);
        }
        if running == 0 {
            let limit = if self.session.first { head } else { timeouts.http_keep_alive.or(head) };
            add(limit.map(|limit| self.idle_since + limit), Until::Idle);
            if self.is_warm {
                add(Some((self.idle_since + SILENCE_TIME).max(now)), Until::Rests);
            }
        }
        until
    }
}

/// What is done when the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The client is told which stream is the last.
    Leaves,
    /// The rest of a request that was answered has not come.
    EndsLate,
    /// Memory is given back.
    Rests,
    /// The connection has been idle for too long.
    Idle,
    /// The client is too slow with a head.
    Expects,
    /// The client takes nothing of what waits for it.
    Stalls,
}
