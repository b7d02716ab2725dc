//! The machine of one end of a connection.
//!
//! Both ends share frames, windows, settings and what bounds them. What is different follows from the [`Role`]: a
//! [`ServerConnection`] gets requests and sends answers, a [`ClientConnection`] the other way round.
//!
//! Bytes go in by [`Connection::next`], which gives one event after the other. Messages go in by `send_*`; what is to be sent to
//! the peer comes out by [`Connection::take_output`].
//!
//! ```text
//!            bytes ──▶ next ──▶ Event::Request or Response, Data, Trailers, Reset ──▶ whoever has the stream
//!                                                                                        │
//!  peer ◀── take_output ◀── send_head or send_request, send_data, send_trailers, end ◀───┤
//!                                                                                        │
//!          WINDOW_UPDATE  ◀── consumed, release ◀────────────────────────────────────────┘
//! ```
//!
//! The order in which a caller does things: it gives bytes to `next` until there is no event, has those send who can, asks
//! [`Connection::next_sendable`] whose turn it is as long as there is one, and sends the output. Each stream that an
//! [`Event::Request`] or [`ClientConnection::send_request`] began is held until [`Connection::release`], however it ends.
//!
//! # What bounds memory
//! What has come and is not consumed, on all streams together: the connection's window. What waits to be sent: data are taken
//! while less than [`Settings::output_bytes_max`] waits, and nothing is to be received while more waits
//! ([`Connection::may_receive`]), so that what frames make this side send is bounded too. Heads: limits, times the
//! number of streams that are held. Streams that were reset count among those as long as somebody works for them.

mod blocks;
mod client;
mod receive;
mod role;
mod send;
mod server;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use http::Limits;

use self::role::Role;
pub use self::{
    client::{ClientConnection, RequestOptions},
    server::ServerConnection,
};
use crate::{
    calm::{Calm, Cost},
    error::{ConnectionError, ErrorCode},
    frame,
    hpack::{Decoder, Encoder},
    settings::{HEADER_TABLE_DEFAULT, PeerSettings, Settings, WINDOW_DEFAULT},
    streams::{Closed, Receiving, StreamKey, Streams},
};

/// What a peer has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has begun a request: its head stands where `next` was told to put it. What is known of its body says
    /// [`http::request_body_length`].
    Request(StreamKey),
    /// A server has answered: the head of an interim response or of the one that counts, which its status tells, stands where `next`
    /// was told to put it.
    Response {
        /// To which request.
        stream: StreamKey,
        /// Whether that was all.
        ends: bool,
    },
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
    /// Trailers, which stand in [`Connection::trailers`]. That was all.
    Trailers(StreamKey),
    /// A stream is over, and nothing goes any more.
    Reset {
        /// Which.
        stream: StreamKey,
        /// Why. `REFUSED_STREAM` of a server: it has done nothing of what was asked.
        code: ErrorCode,
        /// Whether the peer has said so, rather than done something that made this side do it.
        by_peer: bool,
    },
    /// A request whose head is larger than it may be has been answered with 431.
    HeadTooLarge,
    /// A request was malformed, and its stream was reset.
    Malformed,
    /// A request was one too many at a time, and was refused.
    Refused,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// The rest of the preface, of which so many bytes have come.
    Preface(usize),
    /// A frame's header.
    Header,
    /// Data of a stream.
    Data { stream: Option<StreamKey>, left: u32, padding: u32, ends: bool },
    /// A piece of a header block.
    Block { left: u32, padding: u32, ends_block: bool },
    /// Settings.
    Settings { left: u32 },
    /// What nobody wants.
    Skip { left: u32 },
}

/// A header block that is not whole.
#[derive(Debug)]
struct Gathered {
    stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    frames: u32,
}

/// Where the frame of a stream stands in the output that was written last: it can still be given the mark of the stream's end.
#[derive(Clone, Copy, Debug)]
struct LastFrame {
    stream: u32,
    start: usize,
    end: usize,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection<R> {
    role: R,
    settings: Settings,
    limits: Limits,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Box<Encoder>,
    streams: Streams,
    reading: Reading,
    has_settings: bool,
    /// Whether the peer goes by this side's settings.
    is_acknowledged: bool,
    block: Option<Gathered>,
    trailers: Vec<u8>,
    out: Vec<u8>,
    last_frame: Option<LastFrame>,
    /// Bytes of what was taken of `out` that have not been sent.
    unsent: usize,
    /// What the peer may send on all streams together.
    receive_window: u32,
    /// Bytes that were consumed, of which it has not been told.
    untold: u32,
    send_window: i64,
    /// The peer has said that it begins, or takes, no more streams.
    has_peer_left: bool,
    /// Those that wait for room in the connection's window or in the output.
    waiting: VecDeque<StreamKey>,
    /// Whose turn it is, and how much it may still send in it.
    turn: Option<(StreamKey, usize)>,
    calm: Calm,
    /// The time, in milliseconds.
    now_ms: u64,
    /// Streams that nobody holds and of which the peer may still send what is on its way, and since when.
    ending_late: VecDeque<(StreamKey, u64)>,
}

/// How long the rest of a request that was answered may be on its way, in milliseconds.
const LATE_END_MS_MAX: u64 = 1_000;

impl<R: Role> Connection<R> {
    /// One on a connection where nothing has come, and which says in `out` what this side is. Messages may be no more than `limits`.
    fn begin(role: R, reading: Reading, settings: Settings, limits: Limits, out: Vec<u8>) -> Self {
        // NOTE: it never gets smaller than what every peer begins with, as a window cannot be taken back. What it is more than
        // that is told with the first data: most clients never send any.
        let connection_window = settings.connection_window.max(WINDOW_DEFAULT);
        Self {
            role,
            settings: Settings { connection_window, ..settings },
            limits,
            peer: PeerSettings::default(),
            // A smaller table, and smaller windows, hold from when the peer says that it knows of them.
            decoder: Decoder::new(settings.header_table_size.max(HEADER_TABLE_DEFAULT) as usize),
            is_acknowledged: false,
            encoder: Box::new(Encoder::new()),
            streams: Streams::default(),
            reading,
            has_settings: false,
            block: None,
            trailers: Vec::new(),
            out,
            last_frame: None,
            unsent: 0,
            receive_window: WINDOW_DEFAULT,
            untold: connection_window - WINDOW_DEFAULT,
            send_window: i64::from(WINDOW_DEFAULT),
            has_peer_left: false,
            waiting: VecDeque::new(),
            turn: None,
            calm: Calm::default(),
            now_ms: 0,
            ending_late: VecDeque::new(),
        }
    }

    /// Takes the time, in milliseconds from some fixed moment on: to be told whenever something is done.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        self.calm.look_at_clock(now_ms);
        self.now_ms = now_ms;
        while let Some((key, since)) = self.ending_late.front().copied()
            && (now_ms >= since + LATE_END_MS_MAX || self.streams.get(key).is_none())
        {
            self.ending_late.pop_front();
            self.end_late_stream(key);
        }
    }

    /// When [`Connection::look_at_clock`] is to be called though nothing else happens, in milliseconds.
    #[must_use]
    pub fn late_end_ms(&self) -> Option<u64> {
        self.ending_late.front().map(|(_, since)| since + LATE_END_MS_MAX)
    }

    /// Resets a stream whose end has not come in time.
    fn end_late_stream(&mut self, key: StreamKey) {
        if self.streams.get(key).is_some_and(|stream| !stream.is_held && !stream.is_closed()) {
            frame::write_reset(&mut self.out, key.id(), ErrorCode::NO_ERROR);
            self.streams.remove(key, Closed::ResetHere);
        }
    }

    /// The trailers of the last [`Event::Trailers`], as lines of HTTP/1.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// How many streams are held or not over.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// What this side says of itself.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the peer is in the middle of something that is no stream yet: the preface, or a header block.
    #[must_use]
    pub fn is_expecting(&self) -> bool {
        !self.has_settings || self.block.is_some() || matches!(self.reading, Reading::Block { .. })
    }

    /// Whether a stream was reset, or is forgotten: the peer gets nothing any more of what is sent.
    #[must_use]
    pub fn is_reset(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|stream| stream.reset.is_some())
    }

    /// Whether so little waits to be sent that more may be received.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        self.out.len() + self.unsent < 2 * self.settings.output_bytes_max
    }

    /// Says that so many bytes of the body of a stream have been taken: as many more may come.
    pub fn consumed(&mut self, key: StreamKey, count: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(stream.unread);
        stream.unread -= count;
        if stream.receiving == Receiving::Open && stream.reset.is_none() {
            stream.untold += count;
            if stream.untold > 0 && stream.untold >= self.settings.stream_window.div_ceil(2) {
                stream.receive_window += i64::from(stream.untold);
                frame::write_window_update(&mut self.out, key.id(), std::mem::take(&mut stream.untold));
            }
        }
        self.credit(count);
    }

    /// Gives the connection's window back what a stream has used of it.
    fn credit(&mut self, count: u32) {
        self.untold += count;
        if self.untold > 0 && self.untold >= self.settings.connection_window.div_ceil(2) {
            self.receive_window += self.untold;
            frame::write_window_update(&mut self.out, 0, std::mem::take(&mut self.untold));
        }
    }

    /// Lets go of a stream. One that is not over is reset: with `code`, but for a server's whose answer is whole: that is no error,
    /// as the client need not send the rest of its body (RFC 9113 section 8.1). Before that, what may be on its way already gets a moment to
    /// come: some clients take the reset for a failure, though the answer was there before it.
    pub fn release(&mut self, key: StreamKey, code: ErrorCode) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.is_held = false;
        let unread = std::mem::take(&mut stream.unread);
        if R::may_end_late(stream) {
            self.ending_late.push_back((key, self.now_ms));
        } else if !stream.is_closed() {
            let code = R::release_code(stream, code);
            stream.reset = Some(code);
            frame::write_reset(&mut self.out, key.id(), code);
            self.streams.remove(key, Closed::ResetHere);
        } else {
            self.forget_if_over(key);
        }
        self.credit(unread);
    }

    /// Removes a stream that is over and that nobody holds.
    fn forget_if_over(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(key) else { return };
        if !stream.is_held && stream.is_closed() {
            // What this side has reset for an error of the peer's was remembered then.
            self.streams.remove(key, Closed::Known);
        }
    }

    /// Resets a stream for what the peer has sent on it.
    fn stream_error(&mut self, id: u32, code: ErrorCode) -> Result<Option<Event>, ConnectionError> {
        frame::write_reset(&mut self.out, id, code);
        self.streams.remember(id, Closed::ResetHere);
        self.calm.spend(Cost::StreamError)?;
        let Some(key) = self.streams.find(id) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.reset = Some(code);
        let is_held = stream.is_held;
        self.forget_if_over(key);
        Ok(is_held.then_some(Event::Reset { stream: key, code, by_peer: false }))
    }

    /// Tells the peer why the connection ends.
    pub fn fail(&mut self, error: ConnectionError) {
        let last = self.role.last_stream();
        frame::write_goaway(&mut self.out, last, error.code);
    }

    /// Gives memory back that a connection without streams does not need.
    pub fn rest(&mut self) {
        self.streams.rest();
        if self.out.is_empty() {
            self.out = Vec::new();
        }
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        self.ending_late.shrink_to_fit();
        self.trailers = Vec::new();
    }
}
