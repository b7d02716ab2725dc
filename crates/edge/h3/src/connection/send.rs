//! What this side sends.

use h2h3::{Indexing, is_about_connection, lowered, trailer_fields};
use http::{HeaderId, ResponseHead};

use super::{Order, OwnStream, SendHalf, ServerConnection};
use crate::{
    frame::{FrameHeader, kind, write_number},
    qpack,
    streams::{Sending, Stream, StreamId, StreamKey},
};

/// A piece of a body that is so small goes along with the header of its frame; larger ones are not copied.
const SMALL_PIECE: usize = 1_024;

/// Points that data give back which a client takes: a piece that ends because there is no more, and a whole message.
const EARNED_BY_LAST_PIECE: u32 = 2;
const EARNED_BY_MESSAGE: u32 = 5;

/// How a field of an answer is sent.
fn indexing(id: HeaderId) -> Option<Indexing> {
    match id {
        HeaderId::Te => None,
        id if is_about_connection(id) => None,
        HeaderId::SetCookie | HeaderId::Authorization | HeaderId::ProxyAuthorization => Some(Indexing::Never),
        _ => Some(Indexing::Plain),
    }
}

/// Appends a HEADERS frame with what `write` appends to a section.
pub(super) fn write_section(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    /// The length of nearly all sections is a number of two bytes.
    const LENGTH_BYTES: usize = 2;
    out.push(kind::HEADERS as u8);
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    qpack::begin(out);
    write(out);
    let length = out.len() - at - LENGTH_BYTES;
    match (u16::try_from(length), out.get_mut(at..at + LENGTH_BYTES)) {
        (Ok(length @ ..0x4000), Some(place)) => place.copy_from_slice(&(length | 0x4000).to_be_bytes()),
        _ => {
            let mut number = Vec::new();
            write_number(&mut number, length as u64);
            out.splice(at..at + LENGTH_BYTES, number);
        }
    }
}

fn write_field(section: &mut Vec<u8>, id: HeaderId, name: &[u8], value: &[u8]) {
    if let Some(how) = indexing(id) {
        let mut memory = Vec::new();
        qpack::field(section, lowered(name, &mut memory), value, how);
    }
}

/// Sends what waits; whether nothing waits any more.
fn flush_stream(stream: &mut Stream, half: &mut impl SendHalf) -> bool {
    stream.is_flush_ordered = false;
    if !flush_bytes(&mut stream.pending, half) {
        return false;
    }
    if stream.sending == Sending::Ended {
        half.finish();
        stream.sending = Sending::Over;
    }
    true
}

fn flush_bytes(pending: &mut Vec<u8>, half: &mut impl SendHalf) -> bool {
    if !pending.is_empty() {
        let written = half.write(pending).min(pending.len());
        if written < pending.len() {
            pending.drain(..written);
            return false;
        }
        *pending = Vec::new();
    }
    true
}

impl ServerConnection {
    /// A stream of this side's has been opened, under this number. What waits for it is to be sent by [`ServerConnection::flush`].
    pub fn opened(&mut self, own: OwnStream, stream: StreamId) {
        match own {
            OwnStream::Control => self.control = Some(stream),
            OwnStream::Decoder => self.decoder_stream = Some(stream),
        }
        self.orders.push_back(Order::Flush(stream));
    }

    /// Sends what waits on a stream, as far as it may go; whether nothing waits any more.
    pub fn flush(&mut self, stream: StreamId, half: &mut impl SendHalf) -> bool {
        if self.control == Some(stream) {
            return flush_bytes(&mut self.control_pending, half);
        }
        if self.decoder_stream == Some(stream) {
            return flush_bytes(self.decoder.said(), half);
        }
        let Some(key) = self.streams.find(stream) else { return true };
        let Some(stream) = self.streams.get_mut(key) else { return true };
        let is_flushed = flush_stream(stream, half);
        if is_flushed && stream.sending == Sending::Over && !stream.is_held {
            self.streams.remove(key);
        }
        is_flushed
    }

    /// A stream on which something may be put still.
    fn open(&mut self, key: StreamKey, sending: Sending) -> Option<&mut Stream> {
        self.streams.get_mut(key).filter(|stream| stream.reset.is_none() && stream.sending == sending)
    }

    /// Puts a head behind what waits to be sent on a stream; the number of its bytes. Fields about the connection are left out. `ends`
    /// says that no body follows. Nothing happens on a stream that has had its final head, or is over; and an interim response is left out
    /// where more waits than may. It goes with what is sent next, or by [`ServerConnection::flush`].
    pub fn send_head(&mut self, key: StreamKey, head: &ResponseHead, ends: bool) -> usize {
        let most = self.settings.output_bytes_max;
        let status = head.status();
        let is_final = status >= 200;
        let Some(stream) = self.open(key, Sending::Awaited) else { return 0 };
        // RFC 9114 section 4.5: there is no 101.
        if status == 101 || !is_final && stream.pending.len() >= most {
            return 0;
        }
        let before = stream.pending.len();
        write_section(&mut stream.pending, |section| {
            let digit = |number: u16| b'0' + u8::try_from(number % 10).unwrap_or(0);
            let status = [digit(status / 100), digit(status / 10), digit(status)];
            qpack::field(section, b":status", &status, Indexing::Plain);
            for (id, name, value) in head.headers.iter_known() {
                write_field(section, id, name, value);
            }
        });
        let written = stream.pending.len() - before;
        match (is_final, ends) {
            (true, true) => self.sending_ends(key),
            (true, false) => stream.sending = Sending::Body,
            (false, _) => {}
        }
        self.order_flush(key);
        written
    }

    /// Sends as much of a body as may go; how much that was. `ends` says that no more follows, which is sent with the last of it. Whoever could
    /// not send all tries again with the rest, and with nothing less than that, when QUIC says that the stream is writable: the client
    /// has been told of a frame of all these bytes.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], ends: bool, half: &mut impl SendHalf) -> usize {
        let most = self.settings.output_bytes_max;
        let Some(stream) = self.open(key, Sending::Body) else { return 0 };
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = bytes.get(sent..).unwrap_or_default();
            if stream.owed == 0 && rest.len() <= SMALL_PIECE && stream.pending.len() + rest.len() <= most {
                FrameHeader { kind: kind::DATA, length: rest.len() as u64 }.write(&mut stream.pending);
                stream.pending.extend_from_slice(rest);
                sent += rest.len();
                break;
            }
            if stream.owed == 0 {
                // NOTE: no frame is begun that would only wait.
                if !flush_stream(stream, half) {
                    break;
                }
                FrameHeader { kind: kind::DATA, length: rest.len() as u64 }.write(&mut stream.pending);
                stream.owed = rest.len();
            }
            if !flush_stream(stream, half) {
                break;
            }
            let piece = rest.get(..stream.owed).unwrap_or(rest);
            let written = half.write(piece).min(piece.len());
            stream.owed -= written;
            sent += written;
            if written < piece.len() {
                break;
            }
        }
        let is_all = sent == bytes.len();
        if is_all && ends && stream.owed == 0 {
            self.sending_ends(key);
        }
        if let Some(stream) = self.streams.get_mut(key) {
            flush_stream(stream, half);
        }
        if is_all && sent > 0 {
            self.calm.earn(EARNED_BY_LAST_PIECE);
        }
        self.calm.earn_by(sent);
        sent
    }

    /// Ends a message with trailers: lines of HTTP/1 without the empty one. Those that may not be there are left out.
    pub fn send_trailers(&mut self, key: StreamKey, lines: &[u8], half: &mut impl SendHalf) {
        let Some(stream) = self.open(key, Sending::Body) else { return };
        if stream.owed == 0 && trailer_fields(lines).next().is_some() {
            write_section(&mut stream.pending, |section| {
                for (name, value) in trailer_fields(lines) {
                    write_field(section, HeaderId::of(name), name, value);
                }
            });
        }
        self.end(key, half);
    }

    /// Ends a message, unless it has ended. One that ends within a piece of its body is reset.
    pub fn end(&mut self, key: StreamKey, half: &mut impl SendHalf) {
        let Some(stream) = self.open(key, Sending::Body) else { return };
        if stream.owed > 0 {
            let code = crate::ErrorCode::INTERNAL_ERROR;
            self.cut(key, code, code);
            return;
        }
        self.sending_ends(key);
        if let Some(stream) = self.streams.get_mut(key) {
            flush_stream(stream, half);
        }
    }

    /// Whether nothing more is to be put on a stream. Some of it may still wait for [`ServerConnection::flush`].
    #[must_use]
    pub fn has_sent_all(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|stream| matches!(stream.sending, Sending::Ended | Sending::Over))
    }

    fn sending_ends(&mut self, key: StreamKey) {
        self.calm.earn(EARNED_BY_MESSAGE);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.sending = Sending::Ended;
        }
    }
}
