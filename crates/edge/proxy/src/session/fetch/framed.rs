//! A protocol of servers for tests, which is not HTTP/1: frames of a kind, a length and so many bytes.
//!
//! ```text
//!  'H' length  the head, as text      'D' length  data of the body      'E' 0 0  the end of a body without a length
//! ```
//!
//! After a head that begins a tunnel there is data both ways, until each side has said 'E'.
//!
//! Between a codec and the rest bodies are framed as in HTTP/1, so this one makes chunks of what comes without a length, and takes
//! those apart that go out.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll, ready},
};

use http::{BodyLength, ChunkPart, ChunkedDecoder, Limits, Method, Parsed, ResponseHead, ResponseParser};
use net::{PlainSocket, Stream};

use super::{HeadEnd, OutgoingHead, ServerCodec};
use crate::session::{
    body::{Duplex, Failed, Sink, Source},
    wire::Wire,
};

/// What both sides of a stream say that speak it.
pub const NAME: &str = "framed";

const PAYLOAD_MAX: usize = 1_000;

/// Appends a frame.
pub fn write_frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    out.extend_from_slice(payload);
}

/// Takes a frame off the front, if it is there whole.
pub fn read_frame(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let length = usize::from(u16::from_be_bytes([*bytes.get(1)?, *bytes.get(2)?]));
    Some((bytes[0], bytes.get(3..3 + length)?))
}

/// Its kind and what it brings.
type Frame = (u8, Vec<u8>);

/// How much of a message has gone out.
#[derive(Debug)]
enum Sending {
    /// All of it.
    Nothing,
    /// Its body is so much longer.
    Exact(u64),
    /// Its body comes in chunks.
    Chunks(ChunkedDecoder),
    /// Bytes of a tunnel, to its end.
    Tunnel,
}

/// A connection.
#[derive(Debug)]
pub struct Framed {
    wire: Wire,
    sending: Sending,
    /// Put here as HTTP/1 frames it, and not yet put into frames.
    waiting: Vec<u8>,
    /// Came in frames, and framed as HTTP/1 does.
    here: Vec<u8>,
    is_chunked: bool,
    /// Bytes of the body that are still to come, where its length is known.
    left: u64,
    /// The message that comes is over.
    is_over: bool,
    method: Method,
}

impl Framed {
    /// One on a stream that was just opened.
    pub fn new(wire: Wire) -> Self {
        let (waiting, here) = (Vec::new(), Vec::new());
        Self {
            wire,
            sending: Sending::Nothing,
            waiting,
            here,
            is_chunked: false,
            left: 0,
            is_over: true,
            method: Method::Get,
        }
    }

    /// The stream on which it comes.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.wire.stream
    }

    /// Puts what waits into frames.
    fn frame(&mut self) {
        let mut bytes = &*std::mem::take(&mut self.waiting);
        let out = &mut self.wire.output;
        let (mut has_ended, is_chunked) = (false, matches!(self.sending, Sending::Chunks(_)));
        while !bytes.is_empty() {
            let (data, taken) = match &mut self.sending {
                Sending::Nothing => panic!("bytes behind the end of a request: {bytes:?}"),
                Sending::Exact(left) => {
                    *left = left.checked_sub(bytes.len() as u64).expect("more than was announced");
                    has_ended = *left == 0;
                    (bytes, bytes.len())
                }
                Sending::Tunnel => (bytes, bytes.len()),
                Sending::Chunks(decoder) => match decoder.next_part(bytes).unwrap() {
                    ChunkPart::Data(length) => (&bytes[..length], length),
                    ChunkPart::Framing(length) => (&bytes[..0], length),
                    ChunkPart::End(length) => {
                        has_ended = true;
                        (&bytes[..0], length)
                    }
                },
            };
            data.chunks(PAYLOAD_MAX).for_each(|piece| write_frame(b'D', piece, out));
            bytes = &bytes[taken..];
        }
        if has_ended {
            if is_chunked {
                write_frame(b'E', b"", out);
            }
            self.sending = Sending::Nothing;
        }
    }

    /// Gets a frame.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Frame>>> {
        loop {
            if let Some((kind, payload)) = read_frame(self.wire.received.bytes()) {
                let frame = (kind, payload.to_vec());
                self.wire.received.consume(3 + frame.1.len());
                return Poll::Ready(Ok(Some(frame)));
            }
            if ready!(self.wire.poll_receive(context))? == 0 {
                return Poll::Ready(Ok(None));
            }
        }
    }
}

impl Source for Framed {
    fn received(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !self.here.is_empty() {
            return Poll::Pending;
        }
        if self.is_over {
            return Poll::Ready(Ok(0));
        }
        match ready!(self.poll_frame(context))? {
            Some((b'D', data)) if self.is_chunked => http::write_chunk(&data, &mut self.here),
            Some((b'D', data)) => {
                self.left -= data.len() as u64;
                self.is_over = self.left == 0;
                self.here.extend_from_slice(&data);
            }
            Some((b'E', _)) if matches!(self.sending, Sending::Tunnel) => self.is_over = true,
            Some((b'E', _)) if self.is_chunked => {
                self.is_over = true;
                http::write_last_chunk(&mut self.here);
            }
            Some(_) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            None => {}
        }
        Poll::Ready(Ok(self.here.len()))
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Sink for Framed {
    fn waiting(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    fn unsent_len(&self) -> usize {
        self.waiting.len() + self.wire.unsent().len()
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.frame();
        self.wire.poll_flush(context)
    }

    fn poll_send(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.waiting.extend_from_slice(bytes);
        self.frame();
        // NOTE: what the stream does not take now waits here: the next flush is asked for it.
        let _ = self.wire.poll_flush(context)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn plain_socket(&self) -> Option<PlainSocket<'_>> {
        None
    }
}

impl Duplex for Framed {
    fn has_ended(&self) -> bool {
        self.wire.ended
    }

    fn is_full(&self) -> bool {
        !self.here.is_empty()
    }

    fn rest(&mut self) {
        self.wire.rest();
    }

    fn poll_shut(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.sending, Sending::Tunnel) {
            self.frame();
            write_frame(b'E', b"", &mut self.wire.output);
            self.sending = Sending::Nothing;
        }
        self.wire.poll_flush(context)
    }

    fn failed(&self) -> Failed {
        self.wire.failed()
    }

    fn break_off(&mut self) {}
}

impl ServerCodec for Framed {
    fn write_request(&mut self, request: &OutgoingHead<'_>) {
        let OutgoingHead { head, fields, .. } = request.clone();
        assert!(self.is_clean(), "a connection is lent once at a time");
        let mut text = Vec::new();
        head.write_with(&mut text, fields);
        write_frame(b'H', &text, &mut self.wire.output);
        self.is_over = false;
        self.method = head.method_kind();
        self.sending = match http::request_body_length(head) {
            BodyLength::Exact(length @ 1..) => Sending::Exact(length),
            BodyLength::Chunked => Sending::Chunks(ChunkedDecoder::new(&Limits::default())),
            _ => Sending::Nothing,
        };
    }

    fn poll_head(
        &mut self,
        parser: &mut ResponseParser,
        limits: &Limits,
        head: &mut ResponseHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HeadEnd>> {
        match ready!(self.poll_frame(context)) {
            Ok(Some((b'H', mut text))) => {
                // NOTE: a head says how its body is framed between here and the rest.
                self.is_chunked = !String::from_utf8_lossy(&text).contains("content-length");
                if self.is_chunked {
                    text.truncate(text.len() - 2);
                    text.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
                }
                match parser.parse(&text, limits, head) {
                    Ok(Parsed::Complete { .. }) if http::begins_tunnel(head.status(), self.method) => {
                        self.sending = Sending::Tunnel;
                        (self.is_chunked, self.left) = (false, u64::MAX);
                        Poll::Ready(Ok(()))
                    }
                    Ok(Parsed::Complete { .. }) => {
                        let length = http::response_body_length(head, Method::Get);
                        self.left = length.announced().unwrap_or(0);
                        self.is_over = head.status() >= 200 && !self.is_chunked && self.left == 0;
                        Poll::Ready(Ok(()))
                    }
                    _ => Poll::Ready(Err(HeadEnd::Junk)),
                }
            }
            Ok(Some(_)) => Poll::Ready(Err(HeadEnd::Junk)),
            Ok(None) | Err(_) => Poll::Ready(Err(HeadEnd::Empty)),
        }
    }

    fn is_clean(&self) -> bool {
        self.is_over && self.here.is_empty() && self.unsent_len() == 0 && matches!(self.sending, Sending::Nothing)
    }

    fn is_stale(&self) -> bool {
        ServerCodec::is_stale(&self.wire)
    }

    fn leave(&mut self) {
        ServerCodec::leave(&mut self.wire);
    }

    fn shut(&self) {
        ServerCodec::shut(&self.wire);
    }
}
