//! The machine of a server's end of a connection.
//!
//! ```text
//!  bytes of a stream ──▶ next ──▶ Event::Request, Data, Trailers, Reset ──▶ whoever has the stream
//!                          │                                                  │
//!                     poll_order ──▶ Order::Open, Flush, Stop, Reset          │
//!                                                                             │
//!  sending half of a stream ◀── send_head, send_data, send_trailers, end ◀────┤
//!                           ◀── flush                                         │
//!                     poll_order ◀── release ◀────────────────────────────────┘
//! ```
//!
//! # What a caller does
//! At the beginning, and after each of the methods that take something from the peer ([`ServerConnection::next`],
//! [`ServerConnection::reset_by_peer`], [`ServerConnection::stopped_by_peer`]) and after [`ServerConnection::release`],
//! [`ServerConnection::begin_leaving`] and [`ServerConnection::leave`]: ask [`ServerConnection::poll_order`] until there is
//! none, and carry each [`Order`] out.
//!
//! When bytes of a stream that the client has begun may be read (of either kind): read as many as there is room for, and call `next`
//! with them until there is no event. It uses all of them, so that nothing is to be kept, but for the pieces of bodies that events
//! name. Whoever reads no more from QUIC than an exchange can take holds back the client by the stream's own window. Streams that
//! were stopped ([`Order::Stop`]) are not read any more.
//!
//! When QUIC says that a stream is writable: call [`ServerConnection::flush`], then have its exchange go on.
//!
//! An `Err` of any method ends the connection: it is closed with [`ConnectionError::code`] and, if one likes, its reason.
//!
//! Each stream that an [`Event::Request`] began is held until [`ServerConnection::release`], however it ends. Its head, the pieces of
//! its body and its trailers are those of HTTP/2; so `:authority`, cookies, `content-length` and the rest stand in the head as
//! [`http::FieldwiseRequest`] makes it.
//!
//! # What bounds memory
//! Of what has come, the machine keeps heads and trailers that are not whole: limits, times the number of streams that QUIC
//! allows. Bodies are never kept here. Of what is to be sent, it keeps heads, and what was taken of a body to go along with one: no more
//! than [`Settings::output_bytes_max`] and a head for each stream.

mod receive;
mod sections;
mod send;
#[cfg(test)]
mod tests;
mod unidirectional;

use std::collections::VecDeque;

use h2h3::Priority;
use http::{Limits, PseudoFields};

use self::unidirectional::{PushIds, Unidirectional};
use crate::{
    calm::{Calm, Cost},
    error::{ConnectionError, ErrorCode},
    frame::{self, FrameHeader, kind},
    qpack::Decoder,
    settings::Settings,
    streams::{Begun, Receiving, Sending, StreamId, StreamKey, Streams},
};

/// What a client has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has begun a request: its head stands where `next` was told to put it. What is known of its body says
    /// [`http::request_body_length`].
    Request(StreamKey),
    /// A piece of a body: these bytes of the input.
    Data {
        /// Of which.
        stream: StreamKey,
        /// Where it begins in the input.
        from: usize,
        /// Where it ends there.
        to: usize,
        /// Whether that was all.
        ends: bool,
    },
    /// Trailers, which stand in [`ServerConnection::trailers`]. That was all.
    Trailers(StreamKey),
    /// A stream is over, and nothing goes any more.
    Reset {
        /// Which.
        stream: StreamKey,
        /// Why.
        code: ErrorCode,
        /// Whether the client has said so, rather than done something that made this side do it.
        by_peer: bool,
    },
    /// A request whose head is larger than it may be is being answered with 431.
    HeadTooLarge,
    /// A request whose head was too long on its way is being answered with 408.
    HeadTooLate,
    /// A request was malformed, and its stream was reset.
    Malformed,
    /// A request came behind the last one that is served, and was rejected.
    Refused,
    /// The client has changed the priority of a request ([`ServerConnection::priority`]).
    Priority(StreamKey),
}

/// A unidirectional stream of this side's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnStream {
    /// SETTINGS and GOAWAY.
    Control,
    /// What the decoder of fields acknowledges. There is one only if the client may use a table.
    Decoder,
}

/// What the transport is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A unidirectional stream is to be opened, as soon as the client allows it, and named by [`ServerConnection::opened`]. The control
    /// stream is to be of the highest priority.
    Open(OwnStream),
    /// Something waits to be sent on this stream: [`ServerConnection::flush`].
    Flush(StreamId),
    /// Nothing more is to be read from this stream: STOP_SENDING.
    Stop {
        /// Which.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// Nothing more is to be sent on this stream: RESET_STREAM.
    Reset {
        /// Which.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
    },
}

/// The sending half of a QUIC stream.
pub trait SendHalf {
    /// Takes as many of these bytes as may go now; how many that were. Whoever takes fewer sees to it that
    /// [`ServerConnection::flush`] is called when more may go (of quinn: writes until that fails with `Blocked`). A stream that the client has
    /// stopped takes none.
    fn write(&mut self, bytes: &[u8]) -> usize;

    /// Nothing follows what was written.
    fn finish(&mut self);
}

/// What tests and measurements send to.
impl SendHalf for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.extend_from_slice(bytes);
        bytes.len()
    }

    fn finish(&mut self) {}
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It is not.
    No,
    /// The client was told that there will be no more requests than those on their way.
    Announced,
    /// It was told which requests are served: those of streams below this one.
    Done {
        /// That one.
        end: StreamId,
    },
}

/// A server's end of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    settings: Settings,
    limits: Limits,
    decoder: Decoder,
    pseudo: PseudoFields,
    trailers: Vec<u8>,
    streams: Streams,
    /// Streams whose head has not come.
    awaited: usize,
    requests: Begun,
    unidirectional: Unidirectional,
    pushes: PushIds,
    /// Priorities of requests that have not begun.
    early_priorities: VecDeque<(StreamId, Priority)>,
    orders: VecDeque<Order>,
    /// This side's control stream, and what waits to be sent there.
    control: Option<StreamId>,
    control_pending: Vec<u8>,
    /// This side's decoder stream.
    decoder_stream: Option<StreamId>,
    leaving: Leaving,
    calm: Calm,
    now_ms: u64,
}

/// The last number that a stream of a client's requests can have.
const LAST_STREAM: u64 = frame::NUMBER_MAX & !3;

impl ServerConnection {
    /// One on a connection where nothing has come. Requests and trailers may be no more than `limits`.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits) -> Self {
        let mut said = Vec::new();
        settings.write(&limits, &mut said);
        let mut control_pending = vec![frame::stream_kind::CONTROL as u8];
        FrameHeader { kind: kind::SETTINGS, length: said.len() as u64 }.write(&mut control_pending);
        control_pending.extend_from_slice(&said);
        let mut decoder = Decoder::new(settings.table_bytes_max as usize);
        let mut orders = VecDeque::from([Order::Open(OwnStream::Control)]);
        if settings.table_bytes_max > 0 {
            orders.push_back(Order::Open(OwnStream::Decoder));
            decoder.said().push(frame::stream_kind::DECODER as u8);
        }
        Self {
            settings,
            limits,
            decoder,
            pseudo: PseudoFields::default(),
            trailers: Vec::new(),
            streams: Streams::default(),
            awaited: 0,
            requests: Begun::default(),
            unidirectional: Unidirectional::default(),
            pushes: PushIds::default(),
            early_priorities: VecDeque::new(),
            orders,
            control: None,
            control_pending,
            decoder_stream: None,
            leaving: Leaving::No,
            calm: Calm::new(settings.calm),
            now_ms: 0,
        }
    }

    /// Takes the time, in milliseconds from some fixed moment on: to be told whenever something is done.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.calm.look_at_clock(now_ms);
    }

    /// What the transport is to do next.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The pseudo-fields of the request of the last [`Event::Request`].
    #[must_use]
    pub fn pseudo_fields(&self) -> &PseudoFields {
        &self.pseudo
    }

    /// The trailers of the last [`Event::Trailers`], as lines of HTTP/1.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// How urgent the answer of a request is: what the client has said in a frame (PRIORITY_UPDATE), or else in a field of the request.
    #[must_use]
    pub fn priority(&self, key: StreamKey) -> Priority {
        self.streams.get(key).map_or_else(Priority::default, |stream| stream.priority)
    }

    /// What this side says of itself.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many streams of requests there are: those that are held, those whose head has not come, those of which something
    /// waits to be sent.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// How many streams there are whose heads are not whole.
    #[must_use]
    pub fn awaited(&self) -> usize {
        self.awaited
    }

    /// When the oldest of them has begun. It may not be older than some limit: see [`ServerConnection::refuse_late_head`].
    #[must_use]
    pub fn awaited_since_ms(&self) -> Option<u64> {
        if self.awaited == 0 {
            return None;
        }
        self.late_heads(u64::MAX).map(|(_, since_ms)| since_ms).min()
    }

    fn late_heads(&self, last_ms: u64) -> impl Iterator<Item = (StreamKey, u64)> {
        let awaited = self.streams.iter().filter(|(_, stream)| stream.receiving == Receiving::Awaited);
        awaited.map(|(key, stream)| (key, stream.since_ms)).filter(move |(_, since_ms)| *since_ms <= last_ms)
    }

    /// Answers 408 on a stream that has begun at `last_ms` or before, and whose head is not whole. To be called until there is no event.
    ///
    /// # Errors
    /// When there were too many of them.
    pub fn refuse_late_head(&mut self, last_ms: u64) -> Result<Option<Event>, ConnectionError> {
        if self.awaited == 0 {
            return Ok(None);
        }
        let Some((key, _)) = self.late_heads(last_ms).next() else { return Ok(None) };
        if self.streams.get(key).is_some_and(|stream| !stream.section.is_empty()) {
            self.decoder.cancel(key.id().0);
        }
        self.answer_without_request(key, b"408")?;
        Ok(Some(Event::HeadTooLate))
    }

    /// On how many streams requests something has come. QUIC opens the streams before one, too: of those nothing may ever come.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.requests.count()
    }

    /// Whether a stream was reset by either side, or is forgotten: the client gets nothing any more of what is sent.
    #[must_use]
    pub fn is_reset(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|stream| stream.reset.is_some())
    }

    /// Lets go of a stream. If its answer is not whole, it is reset with `code`. If it is and the request is not, the client need not send the
    /// rest (RFC 9114 section 4.1: STOP_SENDING with `H3_NO_ERROR`). What waits to be sent goes still.
    pub fn release(&mut self, key: StreamKey, code: ErrorCode) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.is_held = false;
        let code = match stream.sending {
            Sending::Awaited | Sending::Body => {
                self.orders.push_back(Order::Reset { stream: key.id(), code });
                stream.sending = Sending::Over;
                code
            }
            Sending::Ended | Sending::Over => ErrorCode::NO_ERROR,
        };
        if stream.receiving != Receiving::Ended {
            stream.receiving = Receiving::Ended;
            self.orders.push_back(Order::Stop { stream: key.id(), code });
        }
        if stream.sending == Sending::Ended {
            self.order_flush(key);
        } else {
            self.streams.remove(key);
        }
    }

    /// Tells the client that the connection is to end. Requests that it begins before it knows are served.
    pub fn begin_leaving(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            self.goaway(LAST_STREAM);
        }
    }

    /// Tells the client which request is the last one that is served: some time after [`ServerConnection::begin_leaving`], as HTTP/3
    /// has no answer to that.
    pub fn leave(&mut self) {
        if !matches!(self.leaving, Leaving::Done { .. }) {
            let end = StreamId((self.requests.next() << 2).min(LAST_STREAM));
            self.leaving = Leaving::Done { end };
            self.goaway(end.0);
        }
    }

    /// RFC 9114 section 5.2.
    fn goaway(&mut self, end: u64) {
        let mut payload = Vec::new();
        frame::write_number(&mut payload, end);
        FrameHeader { kind: kind::GOAWAY, length: payload.len() as u64 }.write(&mut self.control_pending);
        self.control_pending.extend_from_slice(&payload);
        self.orders.extend(self.control.map(Order::Flush));
    }

    /// Whether the client was told that the connection is to end.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// Whether nothing is left to be done but to send what waits: then the connection may be closed with `H3_NO_ERROR`, once QUIC has
    /// sent it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.leaving, Leaving::Done { .. }) && self.streams.len() == 0
    }

    /// Gives memory back that a connection without requests does not need.
    pub fn rest(&mut self) {
        self.streams.rest();
        self.orders.shrink_to_fit();
        self.trailers = Vec::new();
    }

    /// Resets a stream for what the client has sent on it.
    fn stream_error(&mut self, key: StreamKey, code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        let is_held = self.cut(key, code, code);
        self.calm.spend(Cost::StreamError)?;
        Ok(is_held.then_some(Event::Reset { stream: key, code, by_peer: false }))
    }

    /// Has nothing go any more either way, as far as it would: what this side sends is reset with `sending`, what the client sends is
    /// stopped with `receiving`. Whether somebody holds the stream; if nobody does, it is forgotten.
    fn cut(&mut self, key: StreamKey, sending: ErrorCode, receiving: ErrorCode) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        if stream.sending != Sending::Over {
            stream.sending = Sending::Over;
            self.orders.push_back(Order::Reset { stream: key.id(), code: sending });
        }
        if stream.receiving == Receiving::Awaited {
            self.awaited -= 1;
        }
        if stream.receiving != Receiving::Ended {
            stream.receiving = Receiving::Ended;
            self.orders.push_back(Order::Stop { stream: key.id(), code: receiving });
            if !stream.section.is_empty() {
                self.decoder.cancel(key.id().0);
            }
        }
        stream.section = Vec::new();
        stream.pending = Vec::new();
        stream.owed = 0;
        stream.reset.get_or_insert(receiving);
        let is_held = stream.is_held;
        if !is_held {
            self.streams.remove(key);
        }
        is_held
    }

    /// Tells the transport that something waits on a stream, once.
    fn order_flush(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !std::mem::replace(&mut stream.is_flush_ordered, true) {
            self.orders.push_back(Order::Flush(key.id()));
        }
    }
}
