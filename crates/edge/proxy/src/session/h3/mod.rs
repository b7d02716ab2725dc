//! HTTP/3: the life of a client's connection over QUIC, which carries several exchanges at a time.
//!
//! ```text
//!  datagrams ──▶ quic::Connection ──▶ machine (crate h3) ──▶ Event::Request ──▶ a place in Slots ──▶ Exchange::answer
//!     ▲                 │  ▲                                                       │ streams::Stream: pulls the body, puts the answer
//!     └─────────────────┘  └───────────────────────── machine ◀────────────────────┘
//! ```
//!
//! One task serves the connection, as that of HTTP/2 does. The endpoint of its worker puts what has come for it into an inbox; the
//! task gives it to QUIC, reads streams whose exchanges have room, polls those streams for which something has happened, and sends.
//! What an exchange does not take stays within its stream's window.

mod handshake;
mod machine;

use std::{
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use h3::{ConnectionError, ErrorCode, ServerConnection, Settings, StreamId};
use haproxycfg::model::Tune;
use live::{Instance, LiveProxy};
use quic::Rejected;

pub use self::handshake::Offer;
use self::{
    handshake::Awaited,
    machine::{Http3, Rest},
};
use super::{
    Denied,
    ending::{Ending, Stage},
    handshake::{TlsConnectionCount, TlsRefused, count_key},
    http::{LAST_REQUEST_TIME, Session},
    may_go_on,
    proxy_protocol::Refused,
    refuse,
    streams::{self, Shared, Slots},
};
use crate::{registry::Order, worker::Worker};

/// How long a connection without streams keeps the memory of the last ones.
const SILENCE_TIME: Duration = Duration::from_secs(1);

/// Streams in one direction that a client may have at a time: of the protocol itself, and some that nobody knows.
pub const ONE_WAY_STREAMS: u32 = 8;

/// How often a stream is read before others get their turn.
const READS_MAX: usize = 8;

/// What is said of itself to clients.
fn settings(tune: &Tune) -> Settings {
    Settings {
        knows_protocols: !tune.h2.is_without_websockets,
        unidirectional_streams_max: ONE_WAY_STREAMS,
        ..Settings::default()
    }
}

/// Begins a client's connection; what serves it until it ends.
pub fn begin(
    worker: &Rc<Worker>,
    instance: &Arc<Instance>,
    frontend: &Arc<LiveProxy>,
    listener: usize,
    offer: Offer,
) -> Option<impl Future<Output = ()> + use<>> {
    let Offer { arrival, terms, acceptor, port, counted, guard, running } = offer;
    let awaited = Awaited {
        worker: Rc::clone(worker),
        instance: Arc::clone(instance),
        frontend: Arc::clone(frontend),
        listener,
        source: arrival.from(),
        destination: arrival.to().map(|ip| SocketAddr::new(ip, port)),
        since: worker.now(),
        guards: (counted, guard, running),
    };
    let Some(tls) = TlsConnectionCount::of_client(worker) else {
        arrival.refuse();
        refuse_handshake(awaited, TlsRefused::TooMany);
        return None;
    };
    match arrival.accept(&terms, acceptor, worker.now()) {
        Ok(quic) => Some(worker.clocked(serve(awaited, quic, tls))),
        Err(Rejected::Noise) => None,
        Err(Rejected::Failed) => {
            refuse_handshake(awaited, TlsRefused::Failed);
            None
        }
    }
}

fn refuse_handshake(awaited: Awaited, why: TlsRefused) {
    if let Ok(session) = awaited.begin(None) {
        refuse(&session, Some(Refused::Tls(why)));
    }
}

/// Serves a client until its connection ends.
async fn serve(awaited: Awaited, mut quic: quic::Connection, _tls: TlsConnectionCount) {
    let worker = Rc::clone(&awaited.worker);
    if let Err(why) = awaited.shake_hands(&mut quic).await {
        refuse_handshake(awaited, why);
        return drain(&worker, quic).await;
    }
    count_key(&worker, quic.handshaken().as_deref());
    // NOTE: what rules ask of the address is asked once the client has proven it.
    let silence = awaited.silence_time();
    let session = awaited.begin(quic.handshaken()).and_then(|session| {
        may_go_on(&session).inspect_err(|_| refuse(&session, None))?;
        Ok(session)
    });
    let mut session = match session {
        Ok(session) => session,
        Err(Denied::Silently) => return quic.abandon(worker.now() + silence),
        Err(Denied::Openly) => {
            quic.close(worker.now(), ErrorCode::NO_ERROR.0, "");
            return drain(&worker, quic).await;
        }
    };
    session.traffic().sessions.increment();
    session.side.count_tracked_session();
    session.idle_since = worker.now();
    let mut connection = Connection::new(session, quic);
    poll_fn(|context| connection.poll(context)).await;
    let Connection { shared, slots, session, .. } = connection;
    drop((slots, session));
    let Some(shared) = Rc::into_inner(shared) else { return };
    let is_silent = shared.vanishes();
    let quic = shared.machine.into_inner().quic;
    if is_silent {
        quic.abandon(worker.now() + silence);
    } else {
        drain(&worker, quic).await;
    }
}

/// Answers what still comes on a connection that is closed, until nothing can come any more (RFC 9000 section 10.2).
async fn drain(worker: &Worker, mut quic: quic::Connection) {
    let mut deadline = net::Deadline::default();
    poll_fn(|context| {
        let now = worker.now();
        quic.take_input(now);
        while quic.poll_event().is_some() {}
        quic.flush(now, context);
        if quic.is_drained() || !quic.is_closed() {
            return Poll::Ready(());
        }
        quic.listen(context);
        let Some(at) = quic.timeout() else { return Poll::Ready(()) };
        deadline.set(Some(at));
        if deadline.poll_at(now, context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It is not.
    No,
    /// The client was told then that it is to end. What it asks for meanwhile is answered.
    Announced(Instant),
    /// It was told then which request is the last.
    Told(Instant),
}

impl Leaving {
    /// When the next step is due: to tell which request is the last, or to close.
    fn until(self) -> Option<Instant> {
        match self {
            Self::No => None,
            Self::Announced(since) | Self::Told(since) => Some(since + LAST_REQUEST_TIME),
        }
    }
}

/// A client's connection.
struct Connection {
    session: Box<Session>,
    shared: Rc<Shared<Http3>>,
    slots: Slots,
    /// When the last stream ended, or the connection began.
    idle_since: Instant,
    leaving: Leaving,
    /// When something came last.
    heard_at: Instant,
    /// Whether there is memory of streams to be given back.
    is_warm: bool,
}

impl Connection {
    fn new(session: Box<Session>, quic: quic::Connection) -> Self {
        let codec = ServerConnection::new(settings(&session.instance.config.global.tune), session.limits());
        let now = session.worker.now();
        Self {
            idle_since: session.idle_since,
            shared: Rc::new(Shared::new(Rc::clone(&session.worker), Http3::new(codec, quic))),
            session,
            slots: Slots::default(),
            leaving: Leaving::No,
            heard_at: now,
            is_warm: true,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = self.session.worker.now();
        {
            let mut machine = self.shared.machine.borrow_mut();
            machine.codec.look_at_clock(self.session.worker.now_ms());
            if machine.quic.take_input(now) {
                self.heard_at = now;
            }
        }
        self.session.registered.handle.listen(context);
        if self.session.registered.handle.order() == Order::Abort {
            self.close(ErrorCode::NO_ERROR, "");
        }
        self.leave_in_time(now);
        // NOTE: what has come counts before what is late.
        self.take_events();
        self.refuse_late_heads();
        while !self.shared.has_gone() {
            let mut moved = self.take_events();
            moved |= self.slots.poll_ready(context);
            moved |= self.shared.machine.borrow_mut().obey();
            self.look_at_failures();
            if !moved {
                break;
            }
            if !tokio::task::coop::has_budget_remaining() {
                context.waker().wake_by_ref();
                break;
            }
        }
        if self.shared.has_gone() {
            return self.poll_gone(now, context);
        }
        self.poll_end(now, context)
    }

    /// Tells the client that the connection is to end, if it is.
    fn leave_in_time(&mut self, now: Instant) {
        match self.leaving {
            Leaving::No if self.session.is_leaving() => self.begin_leaving(now),
            Leaving::Announced(since) if now >= since + LAST_REQUEST_TIME => {
                self.shared.machine.borrow_mut().codec.leave();
                self.leaving = Leaving::Told(now);
            }
            Leaving::No | Leaving::Announced(_) | Leaving::Told(_) => {}
        }
    }

    fn begin_leaving(&mut self, now: Instant) {
        self.shared.machine.borrow_mut().codec.begin_leaving();
        self.leaving = Leaving::Announced(now);
    }

    /// How long a head may take.
    fn head_limit(&self) -> Option<Duration> {
        let timeouts = &self.session.side.frontend.settings().timeouts;
        timeouts.http_request.or(timeouts.client)
    }

    /// Answers those who were too slow with their heads. Other requests of the client go on.
    fn refuse_late_heads(&mut self) {
        let Some(limit) = self.head_limit() else { return };
        let last_ms = self.session.worker.now_ms().checked_sub(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        while let Some(last_ms) = last_ms {
            let Some(event) = self.shared.machine.borrow_mut().refuse_late_head(last_ms) else { return };
            self.take_event(event, b"", self.shared.take_head());
        }
    }

    /// Does what comes of what QUIC tells; whether that was anything.
    fn take_events(&mut self) -> bool {
        let mut moved = false;
        loop {
            let event = self.shared.machine.borrow_mut().quic.poll_event();
            let Some(event) = event else { return moved };
            moved = true;
            match event {
                quic::Event::Connected => {}
                quic::Event::Lost(_) => {
                    self.shared.goes();
                    return true;
                }
                quic::Event::Opened(stream) => {
                    self.shared.machine.borrow_mut().note_opened(stream);
                    self.read(stream);
                }
                quic::Event::Readable(stream) => self.read(stream),
                quic::Event::Writable(stream) => {
                    let key = {
                        let mut machine = self.shared.machine.borrow_mut();
                        machine.flush(StreamId(stream));
                        machine.key(stream)
                    };
                    if let Some(key) = key {
                        self.slots.poll(key.slot());
                    }
                }
                quic::Event::Stopped { stream, code } => {
                    let event = self.shared.machine.borrow_mut().stopped(stream, code);
                    self.take_reset(event);
                }
                quic::Event::Available => self.shared.machine.borrow_mut().open_more(),
            }
        }
    }

    /// Reads what there is on a stream, as far as there is room for it.
    fn read(&mut self, stream: u64) {
        for _ in 0..READS_MAX {
            let key = self.shared.machine.borrow().key(stream);
            let room = key.map_or(self.shared.buffer_bytes, |key| self.shared.room(key));
            if room == 0 {
                // Nobody reads to where it would be seen.
                let event = self.shared.machine.borrow_mut().look_for_reset(stream);
                self.take_reset(event);
                break;
            }
            let shared = Rc::clone(&self.shared);
            let rest = machine::read(&shared, stream, room, |event, input, head| self.take_event(event, input, head));
            if rest == Rest::Nothing {
                break;
            }
        }
        let key = self.shared.machine.borrow().key(stream);
        if let Some(key) = key {
            self.slots.poll(key.slot());
        }
    }

    fn take_reset(&mut self, event: Option<h3::Event>) {
        if let Some(h3::Event::Reset { stream, .. }) = event {
            self.slots.poll(stream.slot());
        }
    }

    fn take_event(&mut self, event: h3::Event, input: &[u8], head: http::RequestHead) {
        if let h3::Event::Request(key) = event {
            self.is_warm = true;
            self.shared.machine.borrow_mut().hold(key);
            return streams::begin(&mut self.session, &self.shared, &mut self.slots, (key, head));
        }
        self.shared.give_head(head);
        match event {
            h3::Event::Request(_) => {}
            h3::Event::Data { stream, .. } | h3::Event::Trailers(stream) => {
                machine::take_piece(&self.shared, event, input);
                self.slots.wake(stream.slot());
            }
            h3::Event::Reset { .. } => self.take_reset(Some(event)),
            h3::Event::Malformed | h3::Event::HeadTooLarge => {
                streams::log_unreadable(&mut self.session, Ending::RequestMalformed(Stage::Request));
            }
            h3::Event::HeadTooLate => {
                streams::log_unreadable(&mut self.session, Ending::ClientTimedOut(Stage::Request));
            }
            h3::Event::Refused => self.count_error(),
            h3::Event::Priority(key) => self.shared.machine.borrow_mut().prioritize(key),
        }
    }

    fn count_error(&self) {
        let (side, worker) = (&self.session.side, self.session.worker.index);
        side.count(worker, |traffic| &traffic.request_errors);
    }

    /// Ends the connection if the client has broken the protocol, or a rule does not want it any more.
    fn look_at_failures(&mut self) {
        let failure = self.shared.machine.borrow_mut().take_failure();
        if let Some(ConnectionError { code, why }) = failure {
            self.count_error();
            self.close(code, why);
        }
        if self.shared.take_rejection() {
            self.close(ErrorCode::EXCESSIVE_LOAD, "rejected by a rule");
        }
    }

    /// Ends the connection and all that is on it.
    fn close(&mut self, code: ErrorCode, why: &str) {
        let now = self.session.worker.now();
        self.shared.machine.borrow_mut().quic.close(now, code.0, why);
        self.shared.goes();
    }

    /// Nobody reads anything any more: exchanges come to their ends.
    fn poll_gone(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        if !self.shared.vanishes() {
            self.shared.machine.borrow_mut().quic.flush(now, context);
        }
        self.slots.poll_all();
        while self.slots.poll_ready(context) && tokio::task::coop::has_budget_remaining() {}
        if self.shared.running() == 0 {
            return Poll::Ready(());
        }
        self.slots.listen(context);
        Poll::Pending
    }

    /// Whether the connection is over, and otherwise until when it may be as it is.
    fn poll_end(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let running = self.shared.running();
        if running > 0 {
            self.idle_since = now;
        }
        let is_over = {
            let mut machine = self.shared.machine.borrow_mut();
            machine.quic.flush(now, context);
            // NOTE: what comes late on a stream that others have overtaken was promised an answer.
            let may_come = self.leaving.until().is_some_and(|at| now < at) && machine.silent_streams() > 0;
            running == 0 && machine.codec.is_over() && !may_come && !machine.has_unacknowledged()
        };
        if is_over {
            self.close(ErrorCode::NO_ERROR, "");
            return self.poll_gone(now, context);
        }
        let until = self.until(now, running);
        if let Some((at, why)) = until
            && at <= now
        {
            match why {
                Until::Transport | Until::Leaves | Until::HeadLate => {}
                // NOTE: a request that crosses this is answered still.
                Until::Idle => self.begin_leaving(now),
                Until::Rests => {
                    self.is_warm = false;
                    self.slots.clear();
                    self.shared.rest();
                }
                Until::Stalls => {
                    self.close(ErrorCode::NO_ERROR, "");
                    return self.poll_gone(now, context);
                }
            }
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.slots.listen(context);
        self.shared.machine.borrow().quic.listen(context);
        self.session.deadline.set(until.map(|(at, _)| at));
        if self.session.deadline.poll_at(now, context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// When something is to be done if nothing happens.
    fn until(&mut self, now: Instant, running: usize) -> Option<(Instant, Until)> {
        let head = self.head_limit();
        let timeouts = &self.session.side.frontend.settings().timeouts;
        let mut until: Option<(Instant, Until)> = None;
        let mut add = |at: Option<Instant>, why| {
            if let Some(at) = at
                && until.is_none_or(|(sooner, _)| at < sooner)
            {
                until = Some((at, why));
            }
        };
        let mut machine = self.shared.machine.borrow_mut();
        add(machine.quic.timeout(), Until::Transport);
        add(self.leaving.until().filter(|at| *at > now), Until::Leaves);
        let awaited = machine.codec.awaited_since_ms();
        if let (Some(since_ms), Some(limit)) = (awaited, head) {
            let waited = Duration::from_millis(self.session.worker.now_ms().saturating_sub(since_ms));
            add(Some(now + limit.saturating_sub(waited)), Until::HeadLate);
        }
        if running > 0 {
            return until;
        }
        if machine.has_unacknowledged() {
            add(timeouts.client.map(|limit| self.heard_at.max(self.idle_since) + limit), Until::Stalls);
        } else if awaited.is_none() && self.leaving == Leaving::No {
            let limit = if self.session.first { head } else { timeouts.http_keep_alive.or(head) };
            add(limit.map(|limit| self.idle_since + limit), Until::Idle);
        }
        if self.is_warm {
            add(Some((self.idle_since + SILENCE_TIME).max(now)), Until::Rests);
        }
        until
    }
}

/// What is done when the time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// QUIC has something to do.
    Transport,
    /// The client is told which request is the last.
    Leaves,
    /// Memory is given back.
    Rests,
    /// A head has been on its way for too long.
    HeadLate,
    /// The connection has been idle for too long: the client is told that it is to end.
    Idle,
    /// The client takes nothing of what waits for it.
    Stalls,
}
