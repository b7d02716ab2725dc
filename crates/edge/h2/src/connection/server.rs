//! The end of a server: clients ask, and get answers.

use http::{FieldwiseRequest, HeaderId, Limits, Method, PseudoFields, RequestHead, ResponseHead, request_body_length};

use super::{Connection, Event, Reading, blocks::COMPRESSION, role::Role};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame::{self, flag},
    hpack::{DecodeError, Indexing},
    settings::{self, Settings, WINDOW_DEFAULT},
    streams::{Closed, Receiving, Sending, Stream, StreamKey},
};

/// A server's end of a connection.
pub type ServerConnection = Connection<Server>;

/// What a server's end has beyond what both have.
#[derive(Debug)]
pub struct Server {
    pseudo: PseudoFields,
    /// The highest stream that the client has begun.
    last_stream: u32,
    leaving: Leaving,
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// It is not.
    No,
    /// The client was told that there will be no more streams than those on their way.
    Announced,
    /// It was told which the last one is.
    Done {
        /// That one.
        last: u32,
    },
}

/// The PING that measures how long a client needs to hear that the connection ends.
const LEAVING_PING: [u8; 8] = *b"tidegate";

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

impl Role for Server {
    type Head = RequestHead;

    const FORGIVES_LATE_FRAMES: bool = false;

    const GETS_PRIORITIES: bool = true;

    fn last_stream(&self) -> u32 {
        self.last_stream
    }

    fn is_idle(&self, id: u32) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    fn note_setting(&mut self, _: u16, _: u32) -> Result<(), ConnectionError> {
        Ok(())
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn release_code(stream: &Stream, code: ErrorCode) -> ErrorCode {
        if stream.sending == Sending::Ended { ErrorCode::NO_ERROR } else { code }
    }

    /// A request that was answered: as much of its body as the client may send without being told of more room.
    fn may_end_late(stream: &Stream) -> bool {
        let room = u64::try_from(stream.receive_window).unwrap_or(0);
        stream.reset.is_none()
            && (stream.sending, stream.receiving) == (Sending::Ended, Receiving::Open)
            && stream.method != Method::Connect
            && room > 0
            && stream.expected.is_none_or(|left| left <= room)
    }

    fn cost_of_reset(stream: &Stream) -> Option<Cost> {
        Some(if stream.sending == Sending::Ended { Cost::Ignored } else { Cost::Reset })
    }

    fn is_acknowledged(connection: &mut Connection<Self>, ping: [u8; 8]) {
        if ping == LEAVING_PING && connection.role.leaving == Leaving::Announced {
            // It has heard it: what comes from now on came after that.
            connection.leave();
        }
    }

    /// A client takes no streams, so it says nothing with the last one.
    fn peer_leaves(_: &mut Connection<Self>, _: u32) {}

    fn indexing(id: HeaderId, _: &[u8]) -> Option<Indexing> {
        Some(match id {
            HeaderId::Te => return None,
            HeaderId::Age
            | HeaderId::ContentLength
            | HeaderId::ContentRange
            | HeaderId::ETag
            | HeaderId::LastModified
            | HeaderId::Location => Indexing::Plain,
            HeaderId::SetCookie | HeaderId::Authorization | HeaderId::ProxyAuthorization => Indexing::Never,
            _ => Indexing::Index,
        })
    }

    fn take_block(
        connection: &mut Connection<Self>,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        match connection.purpose(id, ends)? {
            Purpose::Request => connection.request(id, ends, block, head),
            Purpose::Trailers(key) => connection.take_trailers(key, block),
            Purpose::Nothing(why) => {
                connection.decode_unwanted(block)?;
                match why {
                    Unwanted::Ignored => Ok(None),
                    Unwanted::Refused => {
                        frame::write_reset(&mut connection.out, id, ErrorCode::REFUSED_STREAM);
                        connection.streams.remember(id, Closed::ResetHere);
                        connection.calm.spend(Cost::Refused)?;
                        Ok(Some(Event::Refused))
                    }
                    Unwanted::Error(code) => connection.stream_error(id, code),
                }
            }
        }
    }
}

impl ServerConnection {
    /// One on a connection where nothing has come. Requests and trailers may be no more than `limits`.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits) -> Self {
        let mut said = vec![(settings::name::MAX_CONCURRENT_STREAMS, settings.streams_max)];
        if settings.knows_protocols {
            said.push((settings::name::ENABLE_CONNECT_PROTOCOL, 1));
        }
        settings.said(&limits, &mut said);
        let mut out = Vec::new();
        frame::write_settings(&mut out, &said);
        let role = Server { pseudo: PseudoFields::default(), last_stream: 0, leaving: Leaving::No };
        Self::begin(role, Reading::Preface(0), settings, limits, out)
    }

    /// The pseudo-fields of the request of the last [`Event::Request`].
    #[must_use]
    pub fn pseudo_fields(&self) -> &PseudoFields {
        &self.role.pseudo
    }

    /// Whether any stream has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.role.last_stream > 0
    }

    /// Tells the client that the connection is to end. Streams that it begins before it knows are served.
    pub fn begin_leaving(&mut self) {
        if self.role.leaving == Leaving::No {
            self.role.leaving = Leaving::Announced;
            frame::write_goaway(&mut self.out, settings::WINDOW_MAX, ErrorCode::NO_ERROR);
            frame::write_ping(&mut self.out, 0, LEAVING_PING);
        }
    }

    /// Tells the client which stream is the last one that is served. It happens by itself once the client has answered to
    /// [`ServerConnection::begin_leaving`].
    pub fn leave(&mut self) {
        if !matches!(self.role.leaving, Leaving::Done { .. }) {
            self.role.leaving = Leaving::Done { last: self.role.last_stream };
            frame::write_goaway(&mut self.out, self.role.last_stream, ErrorCode::NO_ERROR);
        }
    }

    /// Whether the client was told that the connection is to end.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.role.leaving != Leaving::No
    }

    /// Whether nothing is left to be done but to send what waits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        (matches!(self.role.leaving, Leaving::Done { .. }) || self.has_peer_left)
            && self.streams.iter().all(|stream| !stream.is_held)
    }

    /// Puts a head behind what waits to be sent; the number of its bytes. Fields about the connection are left out. `ends` says
    /// that no body follows. Nothing happens on a stream that has had its final head, or is over.
    pub fn send_head(&mut self, key: StreamKey, head: &ResponseHead, ends: bool) -> usize {
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        if stream.reset.is_some() || stream.sending != Sending::Awaited {
            return 0;
        }
        let is_final = head.status() >= 200;
        let ends = ends && is_final;
        if is_final {
            stream.sending = if ends { Sending::Ended } else { Sending::Body };
        }
        let start = self.begin_block();
        let status = head.status();
        let digit = |number: u16| b'0' + u8::try_from(number % 10).unwrap_or(0);
        let status = [digit(status / 100), digit(status / 10), digit(status)];
        self.encoder.field(&mut self.out, b":status", &status, Indexing::Index);
        for (id, name, value) in head.headers.iter_known() {
            self.encode_field(id, name, value);
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        self.finish_block(start, key.id(), flags);
        if ends {
            self.sending_ends(key);
        }
        self.out.len() - start
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
        if id <= self.role.last_stream {
            return match self.streams.ending(id) {
                Some(Closed::ResetHere) => Ok(Purpose::Nothing(Unwanted::Ignored)),
                Some(Closed::Known) => {
                    Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a stream that is over"))
                }
                None => Err(ConnectionError::protocol("stream with a number below those before it")),
            };
        }
        self.role.last_stream = id;
        if matches!(self.role.leaving, Leaving::Done { last } if id > last) {
            self.streams.remember(id, Closed::ResetHere);
            return Ok(Purpose::Nothing(Unwanted::Ignored));
        }
        let streams_max = usize::try_from(self.settings.streams_max).unwrap_or(usize::MAX);
        // A new request goes before the rest of one that was answered.
        while self.streams.len() >= streams_max
            && let Some((key, _)) = self.ending_late.pop_front()
        {
            self.end_late_stream(key);
        }
        if self.streams.len() >= streams_max {
            return Ok(Purpose::Nothing(Unwanted::Refused));
        }
        Ok(Purpose::Request)
    }

    fn request(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let limits = self.header_limits();
        let mut request = FieldwiseRequest::new(head, &mut self.role.pseudo, &self.limits)
            .knowing_protocols(self.settings.knows_protocols);
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
                method: if self.role.pseudo.protocol().is_empty() { head.method_kind() } else { Method::Connect },
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
}
