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

use http::{Limits, PseudoFields, RequestHead, ResponseHead};

use crate::{
    error::{ConnectionError, ErrorCode},
    priority::Priority,
    settings::Settings,
    streams::{StreamId, StreamKey},
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
    /// Takes as many of these bytes as may go now; how many that were. A stream that the client has stopped takes none.
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

/// A server's end of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    settings: Settings,
    #[expect(dead_code, reason = "the machine is not there yet")]
    limits: Limits,
    pseudo: PseudoFields,
    trailers: Vec<u8>,
}

impl ServerConnection {
    /// One on a connection where nothing has come. Requests and trailers may be no more than `limits`.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits) -> Self {
        Self { settings, limits, pseudo: PseudoFields::default(), trailers: Vec::new() }
    }

    /// Takes the time, in milliseconds from some fixed moment on: to be told whenever something is done.
    pub fn look_at_clock(&mut self, _now_ms: u64) {}

    /// Goes on with `input`, which has come on a stream behind what was given before, and of which `used` bytes have been used; puts a
    /// head into `head` where [`Event::Request`] says that there is one. `fin`: nothing comes behind `input`. It is to be said as soon as it
    /// is known, and with the last bytes if it can be: a request with neither `content-length` nor a known end gets a body in chunks.
    ///
    /// To be called again, with the same `input` and `fin`, until there is no event: then all of `input` is used.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn next(
        &mut self,
        _stream: StreamId,
        input: &[u8],
        _fin: bool,
        used: &mut usize,
        _head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        *used = input.len();
        Ok(None)
    }

    /// The client has reset its half of a stream (RESET_STREAM), of either kind. What came before is given up.
    ///
    /// # Errors
    /// When the connection is over: without that stream, or because there were too many resets.
    pub fn reset_by_peer(&mut self, _stream: StreamId, _code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        Ok(None)
    }

    /// The client does not want what this side sends on a stream (STOP_SENDING): an answer, or one of this side's own streams.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn stopped_by_peer(&mut self, _stream: StreamId, _code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        Ok(None)
    }

    /// What the transport is to do next.
    pub fn poll_order(&mut self) -> Option<Order> {
        None
    }

    /// A stream of this side's has been opened, under this number. What waits for it is to be sent by [`ServerConnection::flush`].
    pub fn opened(&mut self, _own: OwnStream, _stream: StreamId) {}

    /// Sends what waits on a stream, as far as it may go; whether nothing waits any more.
    pub fn flush(&mut self, _stream: StreamId, _half: &mut impl SendHalf) -> bool {
        true
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
    pub fn priority(&self, _key: StreamKey) -> Priority {
        Priority::default()
    }

    /// What this side says of itself.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many requests are held.
    #[must_use]
    pub fn streams(&self) -> usize {
        0
    }

    /// Whether the client is in the middle of something that is no request yet: it has not said its settings, or a head is not
    /// whole.
    #[must_use]
    pub fn is_expecting(&self) -> bool {
        false
    }

    /// Whether any request has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        false
    }

    /// Whether a stream was reset by either side, or is forgotten: the client gets nothing any more of what is sent.
    #[must_use]
    pub fn is_reset(&self, _key: StreamKey) -> bool {
        true
    }

    /// Puts a head behind what waits to be sent on a stream; the number of its bytes. Fields about the connection are left out. `ends`
    /// says that no body follows. Nothing happens on a stream that has had its final head, or is over. It goes with what is sent next, or by
    /// [`ServerConnection::flush`].
    pub fn send_head(&mut self, _key: StreamKey, _head: &ResponseHead, _ends: bool) -> usize {
        0
    }

    /// Sends as much of a body as may go; how much that was. `ends` says that no more follows, which is sent with the last of it. Whoever could
    /// not send all tries again with the rest, and with nothing less than that, when QUIC says that the stream is writable: the client
    /// has been told of a frame of all these bytes.
    pub fn send_data(&mut self, _key: StreamKey, _bytes: &[u8], _ends: bool, _half: &mut impl SendHalf) -> usize {
        0
    }

    /// Ends a message with trailers: lines of HTTP/1 without the empty one. Those that may not be there are left out.
    pub fn send_trailers(&mut self, _key: StreamKey, _lines: &[u8], _half: &mut impl SendHalf) {}

    /// Ends a message, unless it has ended.
    pub fn end(&mut self, _key: StreamKey, _half: &mut impl SendHalf) {}

    /// Whether nothing more is to be put on a stream. Some of it may still wait for [`ServerConnection::flush`].
    #[must_use]
    pub fn has_sent_all(&self, _key: StreamKey) -> bool {
        true
    }

    /// Lets go of a stream. If its answer is not whole, it is reset with `code`. If it is and the request is not, the client need not send the
    /// rest (RFC 9114 section 4.1: STOP_SENDING with `H3_NO_ERROR`). What waits to be sent goes still.
    pub fn release(&mut self, _key: StreamKey, _code: ErrorCode) {}

    /// Tells the client that the connection is to end. Requests that it begins before it knows are served.
    pub fn begin_leaving(&mut self) {}

    /// Tells the client which request is the last one that is served: some time after [`ServerConnection::begin_leaving`], as HTTP/3
    /// has no answer to that.
    pub fn leave(&mut self) {}

    /// Whether the client was told that the connection is to end.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        false
    }

    /// Whether nothing is left to be done but to send what waits: then the connection may be closed with `H3_NO_ERROR`, once QUIC has
    /// sent it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        false
    }

    /// Gives memory back that a connection without requests does not need.
    pub fn rest(&mut self) {}
}
