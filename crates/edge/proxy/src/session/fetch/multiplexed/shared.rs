//! What a connection's task and the exchanges on it have in common.

use std::{
    cell::{Cell, RefCell, RefMut},
    collections::VecDeque,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use h2::{ClientConnection, ErrorCode, RequestOptions, Settings, StreamKey};
use http::{BodyLength, Limits, Method, RequestHead, ResponseHead, response_body_length};

use super::{Carrier, SharedConnection, stream::Stream};
use crate::{
    pool::ConnectionFacts,
    session::{fetch::Codec, incoming::Incoming, wire::Wire},
};

/// Interim responses of one exchange that nobody has taken.
const HEADS_MAX: usize = 16;

/// Memory of heads that is kept.
const SPARE_HEADS_MAX: usize = 32;

/// What came of one stream.
#[derive(Debug, Default)]
struct Part {
    id: u32,
    heads: VecDeque<ResponseHead>,
    incoming: Incoming,
    broken: Option<Broken>,
    waker: Option<Waker>,
}

impl Part {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Why nothing more comes on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server has not begun with it: it may be asked again, whatever was asked.
    NotProcessed,
    /// What the server sent makes no sense.
    Malformed,
    /// The server has reset it.
    Reset,
    /// The connection has ended.
    Closed,
}

/// A connection to a server that carries several exchanges.
pub struct Shared {
    /// What it has in common with those that speak something else.
    pub carrier: Carrier,
    /// How much of a body is received before something of it is consumed.
    pub buffer_bytes: usize,
    machine: RefCell<ClientConnection>,
    /// By the place of a stream.
    parts: RefCell<Vec<Part>>,
    spare_heads: RefCell<Vec<ResponseHead>>,
    /// Those that wait to be told what the server is.
    strangers: RefCell<Vec<Waker>>,
    /// A request got no answer.
    is_unanswered: Cell<bool>,
    /// Nothing has come for a while, and a request got no answer: it may lead nowhere.
    is_suspect: Cell<bool>,
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
        // NOTE: what the task has not looked at may turn out to lead nowhere.
        if self.is_suspect.get() || self.is_unanswered.get() || !self.carrier.goes_on() {
            return false;
        }
        // Heads know no windows: a server that reads nothing gets no more of them.
        let machine = self.machine.borrow();
        self.carrier.exchanges() < machine.streams_max() && machine.may_receive()
    }

    fn rest(&self) {
        self.parts.take();
        self.spare_heads.take();
        self.machine.borrow_mut().rest();
    }

    fn part(self: Rc<Self>) -> Codec {
        Codec::Http2(Stream::new(&self))
    }
}

impl Shared {
    /// One on a connection that has just come to stand.
    pub fn new(
        buffer_bytes: usize,
        wire: &Wire,
        (settings, limits): (Settings, Limits),
        facts: ConnectionFacts,
    ) -> Self {
        Self {
            carrier: Carrier::new(facts, Rc::clone(&wire.stream)),
            buffer_bytes,
            machine: RefCell::new(ClientConnection::new(settings, limits)),
            parts: RefCell::default(),
            spare_heads: RefCell::default(),
            strangers: RefCell::default(),
            is_unanswered: Cell::new(false),
            is_suspect: Cell::new(false),
        }
    }

    /// The machine, for the task.
    pub fn machine(&self) -> RefMut<'_, ClientConnection> {
        self.machine.borrow_mut()
    }

    /// Does something with the machine, and has the task send what comes of it.
    pub fn with_machine<T>(&self, work: impl FnOnce(&mut ClientConnection) -> T) -> T {
        let mut machine = self.machine.borrow_mut();
        let done = work(&mut machine);
        if machine.output_len() > 0 {
            self.carrier.wake_task();
        }
        done
    }

    /// Whether the server understands CONNECT with a protocol (RFC 8441), once it has said what it is.
    pub fn poll_understands_protocols(&self, context: &Context<'_>) -> Poll<bool> {
        let machine = self.machine.borrow();
        if machine.has_settings() || self.carrier.is_over() {
            return Poll::Ready(machine.understands_protocols());
        }
        self.strangers.borrow_mut().push(context.waker().clone());
        Poll::Pending
    }

    /// Wakes those that wait to be told what the server is, if it has said so.
    pub fn introduce(&self) {
        if self.machine.borrow().has_settings() || self.carrier.is_over() {
            self.strangers.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Whether it takes no more exchanges.
    pub fn is_leaving(&self) -> bool {
        self.carrier.is_leaving() || self.machine.borrow().has_server_left()
    }

    /// A request got no answer.
    pub fn is_unanswered(&self) {
        self.is_unanswered.set(true);
        self.carrier.wake_task();
    }

    /// Whether a request got no answer; that is said once.
    pub fn take_unanswered(&self) -> bool {
        self.is_unanswered.take()
    }

    /// It may lead nowhere, or has shown that it does not.
    pub fn set_suspect(&self, is_suspect: bool) {
        self.is_suspect.set(is_suspect);
    }

    /// Whether it may lead nowhere.
    pub fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    /// Sends a request; `None` when the server takes none.
    pub fn send_request(&self, head: &RequestHead, options: &RequestOptions<'_>) -> Option<StreamKey> {
        if self.carrier.is_over() {
            return None;
        }
        self.carrier.note_request();
        let key = self.with_machine(|machine| machine.send_request(head, options))?;
        let mut parts = self.parts.borrow_mut();
        if parts.len() <= key.slot() {
            parts.resize_with(key.slot() + 1, Part::default);
        }
        if let Some(part) = parts.get_mut(key.slot()) {
            part.id = key.id();
        }
        Some(key)
    }

    fn with_part<T>(&self, key: StreamKey, work: impl FnOnce(&mut Part) -> T) -> Option<T> {
        let mut parts = self.parts.borrow_mut();
        parts.get_mut(key.slot()).filter(|part| part.id == key.id()).map(work)
    }

    /// Memory for a head.
    pub fn take_spare_head(&self) -> ResponseHead {
        self.spare_heads.borrow_mut().pop().unwrap_or_default()
    }

    fn give_spare_head(&self, head: ResponseHead) {
        let mut spare = self.spare_heads.borrow_mut();
        if spare.len() < SPARE_HEADS_MAX {
            spare.push(head);
        }
    }

    /// A head has come.
    pub fn answers(&self, key: StreamKey, head: ResponseHead, ends: bool) {
        let is_final = head.status() >= 200;
        if is_final {
            self.carrier.note_answer();
        }
        let mut head = Some(head);
        self.with_part(key, |part| {
            if part.heads.len() >= HEADS_MAX {
                part.broken = Some(Broken::Malformed);
            } else if let Some(head) = head.take() {
                if is_final {
                    part.incoming.begin(response_body_length(&head, Method::Get) == BodyLength::Chunked && !ends);
                }
                part.heads.push_back(head);
            }
            if ends {
                part.incoming.receive(b"", Some(b""));
            }
            part.wake();
        });
        if let Some(head) = head {
            self.give_spare_head(head);
        }
    }

    /// A piece of a body has come; it may be the last one, behind which trailers may stand.
    pub fn receives(&self, key: StreamKey, data: &[u8], end: Option<&[u8]>) {
        self.with_part(key, |part| {
            part.incoming.receive(data, end);
            part.wake();
        });
    }

    /// Nothing more comes on a stream.
    pub fn breaks(&self, key: StreamKey, code: ErrorCode, by_peer: bool) {
        let broken = match (by_peer, code) {
            (true, ErrorCode::REFUSED_STREAM) => Broken::NotProcessed,
            (true, _) => Broken::Reset,
            (false, _) => Broken::Malformed,
        };
        self.with_part(key, |part| {
            part.broken.get_or_insert(broken);
            part.wake();
        });
    }

    /// A stream may send.
    pub fn wake(&self, key: StreamKey) {
        self.with_part(key, Part::wake);
    }

    /// Nothing goes any more.
    pub fn ends(&self) {
        self.carrier.note_end();
        self.introduce();
        self.parts.borrow_mut().iter_mut().for_each(Part::wake);
    }

    /// Why nothing more comes on a stream, if that is so.
    pub fn broken(&self, key: StreamKey) -> Option<Broken> {
        let broken = self.with_part(key, |part| part.broken).unwrap_or(Some(Broken::Closed));
        broken.or_else(|| self.carrier.is_over().then_some(Broken::Closed))
    }

    /// The next head of a stream, in exchange for memory of another one.
    pub fn take_head(&self, key: StreamKey, into: &mut ResponseHead) -> bool {
        let Some(mut head) = self.with_part(key, |part| part.heads.pop_front()).flatten() else { return false };
        std::mem::swap(into, &mut head);
        self.give_spare_head(head);
        true
    }

    /// Moves what has come of a body behind `into`; how many bytes these were, and how many of them data.
    pub fn take_body(&self, key: StreamKey, into: &mut Vec<u8>) -> (usize, usize) {
        self.with_part(key, |part| part.incoming.take(into)).unwrap_or_default()
    }

    /// Whether trailers may stand behind a body whose length was announced.
    pub fn may_trail(&self, key: StreamKey) -> bool {
        self.with_part(key, |part| part.incoming.may_trail()).unwrap_or(false)
    }

    /// Those trailers, once the end has come.
    pub fn take_trailers(&self, key: StreamKey) -> Option<Vec<u8>> {
        self.with_part(key, |part| part.incoming.take_trailers()).flatten()
    }

    /// Whether the server has sent its last byte on a stream, and whether all of that was taken.
    pub fn has_ended(&self, key: StreamKey) -> (bool, bool) {
        let ended = |part: &mut Part| (part.incoming.has_ended(), part.incoming.is_empty() && part.heads.is_empty());
        self.with_part(key, ended).unwrap_or((true, true))
    }

    /// Has this task be woken by what happens on a stream.
    pub fn listen(&self, key: StreamKey, context: &Context<'_>) {
        self.with_part(key, |part| {
            if !part.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                part.waker = Some(context.waker().clone());
            }
        });
    }

    /// Forgets a stream, which is reset if it is not over.
    pub fn release(&self, key: StreamKey) {
        self.with_part(key, |part| {
            part.id = 0;
            part.incoming = Incoming::default();
            part.heads.clear();
            (part.broken, part.waker) = (None, None);
        });
        self.with_machine(|machine| machine.release(key, ErrorCode::CANCEL));
    }
}
