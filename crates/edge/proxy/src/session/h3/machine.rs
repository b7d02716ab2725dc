//! HTTP/3 over QUIC as the streams of a connection know it.

use h3::{ConnectionError, ErrorCode, Event, Order, OwnStream, SendHalf, ServerConnection, StreamId, StreamKey};
use http::{PseudoFields, RequestHead, ResponseHead};
use quic::ReadOutcome;
use rustc_hash::FxHashMap;

use crate::session::{
    outgoing::Framer,
    streams::{Machine, Release, Shared},
};

/// A connection of HTTP/3, down to its packets.
pub struct Http3 {
    /// What is said on streams.
    pub codec: ServerConnection,
    /// What carries them.
    pub quic: quic::Connection,
    /// Requests that are held, by the numbers of their streams.
    keys: FxHashMap<u64, StreamKey>,
    /// Streams of this side's that the client does not allow yet.
    unopened: Vec<OwnStream>,
    /// How many streams of this side's there are.
    own_streams: usize,
    /// How many streams for requests the client has opened, those among them on which nothing has come.
    opened: u64,
    /// Memory for what is read.
    input: Vec<u8>,
    /// Why the connection is to end.
    failure: Option<ConnectionError>,
}

/// The sending half of a stream.
struct Half<'q> {
    quic: &'q mut quic::Connection,
    stream: StreamId,
}

impl SendHalf for Half<'_> {
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.quic.write(self.stream.0, bytes)
    }

    fn finish(&mut self) {
        self.quic.finish(self.stream.0);
    }
}

/// Whether there may be more on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing now.
    Nothing,
    /// There was no room for more.
    Maybe,
}

impl Http3 {
    /// A connection that has shaken hands.
    pub fn new(codec: ServerConnection, quic: quic::Connection) -> Self {
        Self {
            codec,
            quic,
            keys: FxHashMap::default(),
            unopened: Vec::new(),
            own_streams: 0,
            opened: 0,
            input: Vec::new(),
            failure: None,
        }
    }

    /// The request on a stream.
    pub fn key(&self, stream: u64) -> Option<StreamKey> {
        self.keys.get(&stream).copied()
    }

    /// Notes that there is a request on its stream.
    pub fn hold(&mut self, key: StreamKey) {
        self.keys.insert(key.id().0, key);
        self.prioritize(key);
    }

    /// Has a stream get its turn as the client wishes.
    pub fn prioritize(&mut self, key: StreamKey) {
        let urgency = i32::from(self.codec.priority(key).urgency);
        self.quic.set_priority(key.id().0, -urgency);
    }

    /// Why the connection is to end, if it is; that is said once.
    pub fn take_failure(&mut self) -> Option<ConnectionError> {
        self.failure.take()
    }

    /// Has the transport do what the protocol wants of it; whether there was anything.
    pub fn obey(&mut self) -> bool {
        let mut moved = false;
        while let Some(order) = self.codec.poll_order() {
            moved = true;
            match order {
                Order::Open(own) => self.open(own),
                Order::Flush(stream) => {
                    self.flush(stream);
                }
                Order::Stop { stream, code } => self.quic.stop(stream.0, code.0),
                Order::Reset { stream, code } => self.quic.reset(stream.0, code.0),
            }
        }
        moved
    }

    fn open(&mut self, own: OwnStream) {
        /// Before answers, which are 0 at most.
        const FIRST: i32 = 1;
        let Some(stream) = self.quic.open() else { return self.unopened.push(own) };
        self.quic.set_priority(stream, FIRST);
        self.own_streams += 1;
        self.codec.opened(own, StreamId(stream));
        self.flush(StreamId(stream));
    }

    /// Begins the streams that the client did not allow before.
    pub fn open_more(&mut self) {
        for own in std::mem::take(&mut self.unopened) {
            self.open(own);
        }
    }

    /// Sends what waits on a stream, as far as it may go.
    pub fn flush(&mut self, stream: StreamId) {
        let mut half = Half { quic: &mut self.quic, stream };
        self.codec.flush(stream, &mut half);
    }

    /// Notes that the client has opened a stream. QUIC tells of them in their order.
    pub fn note_opened(&mut self, stream: u64) {
        if StreamId(stream).is_bidirectional() {
            self.opened = self.opened.max((stream >> 2) + 1);
        }
    }

    /// How many streams are open only because the client has opened a later one: nothing has come on them, and perhaps never will.
    pub fn silent_streams(&self) -> u64 {
        self.opened.saturating_sub(self.codec.begun())
    }

    /// Whether part of an answer has not been acknowledged, if no request is being answered.
    pub fn has_unacknowledged(&mut self) -> bool {
        let silent = usize::try_from(self.silent_streams()).unwrap_or(usize::MAX);
        let without_answers = self.own_streams + self.codec.awaited() + silent;
        self.quic.open_streams() > without_answers
    }

    /// The client does not want what is sent on a stream.
    pub fn stopped(&mut self, stream: u64, code: u64) -> Option<Event> {
        let event = self.codec.stopped_by_peer(StreamId(stream), ErrorCode(code));
        self.judge(event)
    }

    /// Answers a head that has been on its way since then or before.
    pub fn refuse_late_head(&mut self, last_ms: u64) -> Option<Event> {
        let event = self.codec.refuse_late_head(last_ms);
        self.judge(event)
    }

    /// The client has given a stream up, though nobody has read it to there.
    pub fn look_for_reset(&mut self, stream: u64) -> Option<Event> {
        let code = self.quic.received_reset(stream)?;
        let event = self.codec.reset_by_peer(StreamId(stream), ErrorCode(code));
        self.judge(event)
    }

    fn judge(&mut self, event: Result<Option<Event>, ConnectionError>) -> Option<Event> {
        event.unwrap_or_else(|error| {
            self.failure = Some(error);
            None
        })
    }
}

/// Reads so many bytes of a stream at most, and tells what they were: each event with the input in which its body stands.
pub fn read(shared: &Shared<Http3>, stream: u64, most: usize, mut tell: impl FnMut(Event, &[u8], RequestHead)) -> Rest {
    let mut input = {
        let mut machine = shared.machine.borrow_mut();
        std::mem::take(&mut machine.input)
    };
    input.clear();
    let outcome = shared.machine.borrow_mut().quic.read(stream, most, &mut input);
    let (count, fin) = match outcome {
        ReadOutcome::More(count) => (count, false),
        ReadOutcome::End(count) => (count, true),
        ReadOutcome::Reset(code) => {
            let mut machine = shared.machine.borrow_mut();
            let event = machine.codec.reset_by_peer(StreamId(stream), ErrorCode(code));
            let event = machine.judge(event);
            machine.input = input;
            drop(machine);
            if let Some(event) = event {
                tell(event, b"", shared.take_head());
            }
            return Rest::Nothing;
        }
        ReadOutcome::Closed => (0, false),
    };
    if count > 0 || fin {
        tell_all(shared, stream, (&input, fin), tell);
    }
    shared.machine.borrow_mut().input = input;
    if !fin && count == most { Rest::Maybe } else { Rest::Nothing }
}

/// Tells what this input of a stream means, of which `fin` is the end.
fn tell_all(
    shared: &Shared<Http3>,
    stream: u64,
    (input, fin): (&[u8], bool),
    mut tell: impl FnMut(Event, &[u8], RequestHead),
) {
    let mut used = 0;
    loop {
        let mut head = shared.take_head();
        let mut machine = shared.machine.borrow_mut();
        let event = machine.codec.next(StreamId(stream), input, fin, &mut used, &mut head);
        let event = machine.judge(event);
        drop(machine);
        let Some(event) = event else { return shared.give_head(head) };
        tell(event, input, head);
    }
}

impl Framer for Http3 {
    type Key = StreamKey;

    fn send_data(&mut self, key: StreamKey, bytes: &[u8], ends: bool) -> usize {
        let mut half = Half { quic: &mut self.quic, stream: key.id() };
        self.codec.send_data(key, bytes, ends, &mut half)
    }

    fn send_trailers(&mut self, key: StreamKey, lines: &[u8]) {
        let mut half = Half { quic: &mut self.quic, stream: key.id() };
        self.codec.send_trailers(key, lines, &mut half);
    }

    fn end(&mut self, key: StreamKey) {
        let mut half = Half { quic: &mut self.quic, stream: key.id() };
        self.codec.end(key, &mut half);
    }
}

impl Machine for Http3 {
    const VERSION: &'static [u8] = b"HTTP/3.0";

    fn slot(key: StreamKey) -> usize {
        key.slot()
    }

    fn is_reset(&self, key: StreamKey) -> bool {
        self.codec.is_reset(key)
    }

    fn consumed(&mut self, _: StreamKey, _: usize) {
        // What was read from the transport may come again.
    }

    fn receive(shared: &Shared<Self>, key: StreamKey, room: usize) {
        let mut room = room.min(shared.room(key));
        while room > 0 {
            let rest = read(shared, key.id().0, room, |event, input, head| {
                shared.give_head(head);
                take_piece(shared, event, input);
            });
            if rest == Rest::Nothing {
                return;
            }
            room = room.min(shared.room(key));
        }
    }

    fn release(&mut self, key: StreamKey, why: Release) {
        let code = match why {
            Release::Failed => ErrorCode::INTERNAL_ERROR,
            Release::NotBegun => ErrorCode::REQUEST_REJECTED,
        };
        self.codec.release(key, code);
        self.keys.remove(&key.id().0);
    }

    fn has_room(&self) -> bool {
        // QUIC's windows bound what waits.
        true
    }

    fn send_head(&mut self, key: StreamKey, head: &ResponseHead) -> usize {
        self.codec.send_head(key, head, false)
    }

    fn pseudo_fields(&self) -> &PseudoFields {
        self.codec.pseudo_fields()
    }

    fn rest(&mut self) {
        self.codec.rest();
        self.input = Vec::new();
        self.keys.shrink_to_fit();
    }
}

/// Puts a piece of a body where its exchange finds it.
pub fn take_piece(shared: &Shared<Http3>, event: Event, input: &[u8]) {
    match event {
        Event::Data { stream, from, to, ends } => {
            shared.receives(stream, input.get(from..to).unwrap_or_default(), ends.then_some(b""));
        }
        Event::Trailers(stream) => {
            let trailers = shared.machine.borrow().codec.trailers().to_vec();
            shared.receives(stream, b"", Some(&trailers));
        }
        _ => {}
    }
}
