//! What a connection's task and the exchanges on it have in common.

use std::{
    cell::{Cell, RefCell, RefMut},
    collections::VecDeque,
    rc::Rc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use fastcgi::{Client, EndStatus, RequestKey, Settings};
use haproxycfg::model::FcgiApp;
use logs::WorkerLog;

use super::{Stream, Unanswered};
use crate::{
    pool::ConnectionFacts,
    session::{
        fetch::{
            Codec,
            multiplexed::{Carrier, SharedConnection},
        },
        wire::Wire,
    },
};

/// Bytes that wait to be sent before exchanges wait with theirs.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Bytes that wait to be sent before no other request is begun: an application that reads nothing gets no more of them.
const UNREAD_BYTES_MAX: usize = 4 * OUTPUT_BYTES_MAX;

/// Bytes of complaints about one request that nobody has taken; what is more is left out, as the log would.
const COMPLAINTS_BYTES_MAX: usize = 64 * 1024;

/// What one answer may cost the others on its connection.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes that have come and were not taken, before no more is received.
    pub bytes_max: usize,
    /// How long others wait for one of these bytes to be taken, before the answer is given up.
    pub patience: Duration,
}

impl Bounds {
    /// As an application's section says. The others' own time must not be over before.
    pub fn of(app: &FcgiApp, server_timeout: Option<Duration>) -> Self {
        let patience = server_timeout.map_or(app.answer_patience, |limit| app.answer_patience.min(limit / 2));
        Self { bytes_max: app.answer_bytes_max, patience }
    }
}

/// What came of one request.
#[derive(Debug, Default)]
struct Part {
    key: Option<RequestKey>,
    stdout: Vec<u8>,
    complaints: Vec<u8>,
    has_ended_stdout: bool,
    end: Option<EndStatus>,
    /// Nothing more comes of it: it has kept others waiting, or was told to end.
    is_broken: bool,
    /// Since when so much of it waits that nothing more is received.
    full_since: Option<Instant>,
    waker: Option<Waker>,
}

impl Part {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What has come for an exchange.
#[derive(Debug, Default)]
pub struct Came {
    /// Bytes of the answer.
    pub stdout: Vec<u8>,
    /// Bytes for the log.
    pub complaints: Vec<u8>,
    /// No more of the answer comes.
    pub has_ended_stdout: bool,
    /// How the application has ended the request.
    pub end: Option<EndStatus>,
}

/// A connection to an application that carries several requests.
pub struct Shared {
    /// What it has in common with those that speak something else.
    pub carrier: Carrier,
    /// The log of this worker.
    pub log: WorkerLog,
    /// What one answer may cost the others.
    pub bounds: Bounds,
    client: RefCell<Client>,
    /// What exchanges have put here; the task sends it.
    output: RefCell<Vec<u8>>,
    /// Bytes that the task has taken of it, and the socket has not.
    unsent: Cell<usize>,
    /// By the place of a request.
    parts: RefCell<Vec<Part>>,
    /// Those that nobody waits for any more, and the application has not ended.
    left: RefCell<Vec<RequestKey>>,
    /// Exchanges that wait to send, the one that has waited longest first.
    senders: RefCell<VecDeque<Waker>>,
    unanswered: RefCell<Option<Unanswered>>,
    /// A request got no answer.
    is_unanswered: Cell<bool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("carrier", &self.carrier).finish_non_exhaustive()
    }
}

impl SharedConnection for Shared {
    fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    fn has_room(&self) -> bool {
        let is_unread = self.unsent_len() >= UNREAD_BYTES_MAX;
        if !self.client.borrow().has_ids() {
            self.carrier.leave();
        }
        if !self.carrier.goes_on() || self.is_unanswered.get() || is_unread || self.is_full() {
            return false;
        }
        let client = self.client.borrow();
        let mut left = self.left.borrow_mut();
        left.retain(|key| client.is_open(*key));
        self.carrier.exchanges() + left.len() < client.requests_max()
    }

    fn rest(&self) {
        self.parts.take();
        self.left.take();
        self.output.take();
    }

    fn part(self: Rc<Self>) -> Codec {
        Codec::FastCgiShared(Box::new(Stream::new(&self)))
    }
}

impl Shared {
    /// One on a connection that has just come to stand.
    pub fn new(wire: &Wire, settings: Settings, bounds: Bounds, facts: ConnectionFacts, log: &WorkerLog) -> Self {
        let unanswered = Unanswered::new(&facts.server);
        Self {
            carrier: Carrier::new(facts, Rc::clone(&wire.stream)),
            log: log.clone(),
            bounds,
            client: RefCell::new(Client::new(settings)),
            output: RefCell::default(),
            unsent: Cell::new(0),
            parts: RefCell::default(),
            left: RefCell::default(),
            senders: RefCell::default(),
            unanswered: RefCell::new(Some(unanswered)),
            is_unanswered: Cell::new(false),
        }
    }

    /// The client, for the task.
    pub fn client(&self) -> RefMut<'_, Client> {
        self.client.borrow_mut()
    }

    /// Writes records, and has the task send them.
    pub fn write<T>(&self, work: impl FnOnce(&mut Client, &mut Vec<u8>) -> T) -> T {
        let mut output = self.output.borrow_mut();
        let done = work(&mut self.client.borrow_mut(), &mut output);
        if !output.is_empty() {
            self.carrier.wake_task();
        }
        done
    }

    /// Moves what waits to be sent behind `into`; whether there was anything.
    pub fn take_output(&self, into: &mut Vec<u8>) -> bool {
        let mut output = self.output.borrow_mut();
        let is_any = !output.is_empty();
        into.append(&mut output);
        is_any
    }

    /// Notes how much of what was taken has not been sent.
    pub fn note_unsent(&self, unsent: usize) {
        self.unsent.set(unsent);
        if self.has_output_room() {
            self.senders.take().into_iter().for_each(Waker::wake);
        }
    }

    fn unsent_len(&self) -> usize {
        self.output.borrow().len() + self.unsent.get()
    }

    /// Whether there is room for what is to be sent.
    pub fn has_output_room(&self) -> bool {
        self.unsent_len() < OUTPUT_BYTES_MAX
    }

    /// Has this task be woken when there is.
    pub fn await_output_room(&self, context: &Context<'_>) {
        let mut senders = self.senders.borrow_mut();
        if !senders.iter().any(|waker| waker.will_wake(context.waker())) {
            senders.push_back(context.waker().clone());
        }
    }

    /// A request has begun.
    pub fn begins(&self, key: RequestKey) {
        let mut parts = self.parts.borrow_mut();
        if parts.len() <= key.slot() {
            parts.resize_with(key.slot() + 1, Part::default);
        }
        if let Some(part) = parts.get_mut(key.slot()) {
            *part = Part { key: Some(key), ..Part::default() };
        }
    }

    fn with_part<T>(&self, key: RequestKey, work: impl FnOnce(&mut Part) -> T) -> Option<T> {
        let mut parts = self.parts.borrow_mut();
        parts.get_mut(key.slot()).filter(|part| part.key == Some(key)).map(work)
    }

    /// The application has said something on this connection.
    pub fn hears(&self) {
        self.unanswered.take();
    }

    /// Bytes of an answer have come.
    pub fn answers(&self, key: RequestKey, bytes: &[u8]) {
        self.carrier.note_answer();
        self.with_part(key, |part| {
            part.stdout.extend_from_slice(bytes);
            part.wake();
        });
    }

    /// Bytes for the log have come.
    pub fn complains(&self, key: RequestKey, bytes: &[u8]) {
        self.with_part(key, |part| {
            let room = COMPLAINTS_BYTES_MAX.saturating_sub(part.complaints.len());
            part.complaints.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
            part.wake();
        });
    }

    /// No more of an answer comes; the application may have ended the request, too.
    pub fn ends(&self, key: RequestKey, end: Option<EndStatus>) {
        if end == Some(EndStatus::CannotMultiplex) {
            // It is believed: what is opened from now on carries one request at a time.
            self.carrier.facts.server.fcgi_requests_max.store(1, std::sync::atomic::Ordering::Relaxed);
            self.carrier.leave();
        }
        self.with_part(key, |part| {
            part.has_ended_stdout = true;
            part.end = end.or(part.end);
            part.wake();
        });
    }

    /// Nothing more comes of a request.
    pub fn breaks(&self, key: RequestKey) {
        self.with_part(key, |part| {
            part.is_broken = true;
            part.wake();
        });
    }

    /// Nothing goes any more.
    pub fn is_over(&self) {
        self.carrier.note_end();
        self.parts.borrow_mut().iter_mut().for_each(Part::wake);
        self.senders.take().into_iter().for_each(Waker::wake);
    }

    /// Whether nothing more comes of a request, or on the connection.
    pub fn is_broken(&self, key: Option<RequestKey>) -> bool {
        let is_broken = |key| self.with_part(key, |part| part.is_broken).unwrap_or(true);
        self.carrier.is_over() || key.is_some_and(is_broken)
    }

    /// Moves what has come for a request into `came`; false if that is nothing.
    pub fn take(&self, key: RequestKey, came: &mut Came) -> bool {
        let bytes_max = self.bounds.bytes_max;
        let taken = self.with_part(key, |part| {
            let was_full = part.stdout.len() >= bytes_max;
            std::mem::swap(&mut part.stdout, &mut came.stdout);
            std::mem::swap(&mut part.complaints, &mut came.complaints);
            (came.has_ended_stdout, came.end) = (part.has_ended_stdout, part.end);
            was_full
        });
        if taken == Some(true) {
            self.carrier.wake_task();
        }
        taken.is_some()
    }

    /// Has this task be woken by what happens to a request.
    pub fn listen(&self, key: RequestKey, context: &Context<'_>) {
        self.with_part(key, |part| {
            if !part.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                part.waker = Some(context.waker().clone());
            }
        });
    }

    /// Forgets a request. One of which there is no whole answer is given up.
    pub fn release(&self, key: RequestKey, is_answered: bool) {
        self.with_part(key, |part| *part = Part::default());
        let is_open = self.write(|client, out| {
            // An application that still waits for the body would wait for ever.
            if !is_answered || !client.has_ended_stdin(key) {
                client.abort(key, out);
            }
            client.is_open(key)
        });
        if is_open {
            self.left.borrow_mut().push(key);
        }
    }

    /// A request got no answer: the connection may lead nowhere, and is not used for others.
    pub fn note_unanswered(&self) {
        self.is_unanswered.set(true);
        self.carrier.wake_task();
    }

    /// Whether a request got no answer; that is said once.
    pub fn take_unanswered(&self) -> bool {
        self.is_unanswered.take()
    }

    /// Whether so much of an answer waits that nothing more is received.
    pub fn is_full(&self) -> bool {
        self.parts.borrow().iter().any(|part| self.fills(part))
    }

    fn fills(&self, part: &Part) -> bool {
        part.stdout.len() >= self.bounds.bytes_max && !part.is_broken && !part.has_ended_stdout
    }

    /// Notes which answers keep others waiting, and gives when the time of the first of them is over.
    pub fn note_full(&self, now: Instant) -> Option<Instant> {
        let mut parts = self.parts.borrow_mut();
        let mut first: Option<Instant> = None;
        for part in parts.iter_mut() {
            part.full_since = if self.fills(part) { part.full_since.or(Some(now)) } else { None };
            let over = part.full_since.map(|since| since + self.bounds.patience);
            first = [first, over].into_iter().flatten().min();
        }
        first
    }

    /// Gives up the answers that have kept others waiting for too long.
    pub fn break_full(&self, now: Instant) {
        let is_over = |part: &&Part| part.full_since.is_some_and(|since| since + self.bounds.patience <= now);
        let full: Vec<RequestKey> = self.parts.borrow().iter().filter(is_over).filter_map(|part| part.key).collect();
        for key in full {
            self.breaks(key);
            self.write(|client, out| client.abort(key, out));
        }
    }
}
