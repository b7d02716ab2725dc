//! Header blocks: gathered, decoded, judged.

use http::{FieldError, FieldwiseRequest, RequestHead, request_body_length};

use super::{Event, Gathered, Leaving, ServerConnection};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame,
    hpack::{DecodeError, HeaderLimits, Indexing},
    settings::WINDOW_DEFAULT,
    streams::{Closed, Receiving, Sending, Stream, StreamKey},
};

/// CONTINUATION frames of one block.
const CONTINUATIONS_MAX: u32 = 32;

/// Bytes by which a block may be larger than the head that it stands for: changes of the table's size, long integers.
const BLOCK_OVERHEAD: usize = 1_024;

/// What becomes of a header block.
enum Purpose {
    /// It begins a stream.
    Request,
    /// It is one too many, or comes too late: it is decoded and forgotten.
    Nothing(Unwanted),
    /// It ends a request's body.
    Trailers(StreamKey),
}

/// Why nobody wants a header block.
#[derive(Clone, Copy)]
enum Unwanted {
    /// Its stream has been reset here, or is beyond the last one that is served.
    Ignored,
    /// Too many streams.
    Refused,
    /// An error of its stream.
    Error(ErrorCode),
}

impl ServerConnection {
    /// Takes a piece of a block.
    pub(super) fn gather(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let most = self.limits.head_bytes_max + BLOCK_OVERHEAD;
        let Some(block) = &mut self.block else { return Ok(()) };
        if block.bytes.len() + bytes.len() > most {
            return Err(ConnectionError::calm("header block larger than the limit"));
        }
        block.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Counts a CONTINUATION.
    pub(super) fn continues(&mut self) -> Result<(), ConnectionError> {
        self.calm.spend(Cost::Continuation)?;
        if let Some(block) = &mut self.block {
            block.frames += 1;
            if block.frames > CONTINUATIONS_MAX {
                return Err(ConnectionError::calm("too many CONTINUATIONs"));
            }
        }
        Ok(())
    }

    /// The block that was gathered is whole.
    pub(super) fn block_is_whole(&mut self, head: &mut RequestHead) -> Result<Option<Event>, ConnectionError> {
        let Some(Gathered { stream, ends_stream, bytes, .. }) = self.block.take() else { return Ok(None) };
        self.take_block(stream, ends_stream, &bytes, head)
    }

    /// Takes a whole block.
    pub(super) fn take_block(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        match self.purpose(id, ends)? {
            Purpose::Request => self.request(id, ends, block, head),
            Purpose::Trailers(key) => self.take_trailers(key, block),
            Purpose::Nothing(why) => {
                self.decode_unwanted(block)?;
                match why {
                    Unwanted::Ignored => Ok(None),
                    Unwanted::Refused => {
                        frame::write_reset(&mut self.out, id, ErrorCode::REFUSED_STREAM);
                        self.streams.remember(id, Closed::ResetHere);
                        self.calm.spend(Cost::Refused)?;
                        Ok(Some(Event::Refused))
                    }
                    Unwanted::Error(code) => self.stream_error(id, code),
                }
            }
        }
    }

    fn purpose(&mut self, id: u32, ends: bool) -> Result<Purpose, ConnectionError> {
        if let Some(key) = self.streams.find(id) {
            let Some(stream) = self.streams.get(key) else { return Ok(Purpose::Nothing(Unwanted::Ignored)) };
            return Ok(match stream {
                Stream { reset: Some(_), .. } => match self.streams.ending(id) {
                    Some(Closed::ResetHere) => Purpose::Nothing(Unwanted::Ignored),
                    _ => {
                        return Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a stream that is over"));
                    }
                },
                Stream { receiving: Receiving::Ended, .. } => {
                    Purpose::Nothing(Unwanted::Error(ErrorCode::STREAM_CLOSED))
                }
                // RFC 9113 section 8.1: nothing comes behind trailers.
                _ if !ends => Purpose::Nothing(Unwanted::Error(ErrorCode::PROTOCOL_ERROR)),
                _ => Purpose::Trailers(key),
            });
        }
        if id.is_multiple_of(2) {
            return Err(ConnectionError::protocol("stream with an even number"));
        }
        if id <= self.last_stream {
            return match self.streams.ending(id) {
                Some(Closed::ResetHere) => Ok(Purpose::Nothing(Unwanted::Ignored)),
                Some(Closed::Known) => {
                    Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a stream that is over"))
                }
                None => Err(ConnectionError::protocol("stream with a number below those before it")),
            };
        }
        self.last_stream = id;
        if matches!(self.leaving, Leaving::Done { last } if id > last) {
            self.streams.remember(id, Closed::ResetHere);
            return Ok(Purpose::Nothing(Unwanted::Ignored));
        }
        let streams_max = usize::try_from(self.settings.streams_max).unwrap_or(usize::MAX);
        if self.streams.len() >= streams_max {
            return Ok(Purpose::Nothing(Unwanted::Refused));
        }
        Ok(Purpose::Request)
    }

    fn header_limits(&self) -> HeaderLimits {
        // As in HAProxy, crumbs of cookies may be as many as other fields.
        HeaderLimits { fields: self.limits.headers_max * 2, bytes: self.limits.head_bytes_max }
    }

    fn decode_unwanted(&mut self, block: &[u8]) -> Result<(), ConnectionError> {
        let limits = self.header_limits();
        match self.decoder.decode(block, &limits, |_| Ok::<(), ()>(())) {
            Err(DecodeError::Compression(_)) => Err(COMPRESSION),
            _ => Ok(()),
        }
    }

    fn request(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let limits = self.header_limits();
        let mut request = FieldwiseRequest::new(head, &mut self.pseudo, &self.limits);
        let decoded = self.decoder.decode(block, &limits, |field| request.field(field.name, field.value));
        match decoded {
            Ok(()) => {
                if request.finish(!ends).is_err() {
                    self.stream_error(id, ErrorCode::PROTOCOL_ERROR)?;
                    return Ok(Some(Event::Malformed));
                }
            }
            Err(DecodeError::Compression(_)) => return Err(COMPRESSION),
            Err(DecodeError::Refused(_)) => {
                self.stream_error(id, ErrorCode::PROTOCOL_ERROR)?;
                return Ok(Some(Event::Malformed));
            }
            Err(DecodeError::TooLarge(_)) => {
                self.refuse_head(id);
                self.calm.spend(Cost::StreamError)?;
                return Ok(Some(Event::HeadTooLarge));
            }
        }
        let expected = request_body_length(head).announced();
        let key = self.streams.insert(
            id,
            Stream {
                receiving: if ends { Receiving::Ended } else { Receiving::Open },
                sending: Sending::Awaited,
                reset: None,
                is_held: true,
                receive_window: i64::from(if self.is_acknowledged {
                    self.settings.stream_window
                } else {
                    WINDOW_DEFAULT
                }),
                unread: 0,
                untold: 0,
                expected,
                send_window: i64::from(self.peer.stream_window),
                wants_room: false,
                is_queued: false,
            },
        );
        Ok(Some(Event::Request(key)))
    }

    /// Answers 431 (RFC 6585 section 5) and has the client send no body.
    fn refuse_head(&mut self, id: u32) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; frame::HEADER_LEN]);
        self.encoder.begin(&mut self.out);
        self.encoder.field(&mut self.out, b":status", b"431", Indexing::Plain);
        self.encoder.field(&mut self.out, b"content-length", b"0", Indexing::Plain);
        let most = self.peer.frame_bytes_max as usize;
        frame::finish_header_block(&mut self.out, start, id, frame::flag::END_STREAM, most);
        frame::write_reset(&mut self.out, id, ErrorCode::NO_ERROR);
        self.streams.remember(id, Closed::ResetHere);
    }

    fn take_trailers(&mut self, key: StreamKey, block: &[u8]) -> Result<Option<Event>, ConnectionError> {
        let limits = HeaderLimits { bytes: self.limits.trailer_bytes_max, ..self.header_limits() };
        let (lines, judged) = (&mut self.trailers, &self.limits);
        lines.clear();
        let decoded = self.decoder.decode(block, &limits, |field| {
            http::judge_trailer(field.name, field.value, judged)?;
            for part in [field.name, b": ", field.value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
            Ok::<(), FieldError>(())
        });
        match decoded {
            Ok(()) => {}
            Err(DecodeError::Compression(_)) => return Err(COMPRESSION),
            Err(_) => return self.stream_error(key.id(), ErrorCode::PROTOCOL_ERROR),
        }
        if self.streams.get(key).is_some_and(|stream| stream.expected.is_some_and(|left| left > 0)) {
            return self.stream_error(key.id(), ErrorCode::PROTOCOL_ERROR);
        }
        let is_held = self.receiving_ends(key);
        Ok(is_held.then_some(Event::Trailers(key)))
    }

    /// Notes that the client has sent all of a stream; whether anybody wants to know.
    pub(super) fn receiving_ends(&mut self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        stream.receiving = Receiving::Ended;
        let is_held = stream.is_held;
        self.forget_if_over(key);
        is_held
    }
}

const COMPRESSION: ConnectionError =
    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, "header block that cannot be decompressed");
