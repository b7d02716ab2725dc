//! The end of a client: it asks, and gets answers of a server.

use std::collections::VecDeque;

use http::{FieldwiseResponse, HeaderId, Limits, Method, RequestHead, ResponseHead, response_body_length};

use super::{Connection, Event, Reading, blocks::COMPRESSION, role::Role};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    frame::{self, PREFACE, flag},
    hpack::{DecodeError, Indexing},
    settings::{self, Settings, WINDOW_DEFAULT, WINDOW_MAX},
    streams::{Closed, Receiving, Sending, Stream, StreamKey},
};

/// A client's end of a connection.
pub type ClientConnection = Connection<Client>;

/// What a client's end has beyond what both have.
#[derive(Debug)]
pub struct Client {
    /// The number of the next stream.
    next_stream: u32,
    /// Streams that the server allows at a time, if it has said so.
    streams_allowed: Option<u32>,
    /// Whether it understands CONNECT with a protocol (RFC 8441).
    understands_protocols: bool,
    /// Streams that the server has left behind when it left.
    left_behind: VecDeque<StreamKey>,
    /// The last stream that it goes on with, once it has left.
    last_served: Option<u32>,
}

/// What is said of a request beside its head.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestOptions<'a> {
    /// More fields, behind those of the head.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// Whether it is asked for by `https`, rather than by `http`.
    pub is_secure: bool,
    /// Whether no body follows.
    pub ends: bool,
    /// The protocol that CONNECT is to begin (RFC 8441).
    pub protocol: Option<&'a [u8]>,
}

/// What a header block of a server's belongs to.
enum Purpose {
    /// To the answer on a stream, as an interim head or the one that counts.
    Head(StreamKey, Method),
    /// To the end of a body.
    Trailers(StreamKey),
    /// To nobody: the stream is over.
    Nobody,
    /// To a stream that is reset for it.
    Wrong(ErrorCode),
}

impl Role for Client {
    type Head = ResponseHead;

    const FORGIVES_LATE_FRAMES: bool = true;

    const GETS_PRIORITIES: bool = false;

    /// A server begins none.
    fn last_stream(&self) -> u32 {
        0
    }

    fn is_idle(&self, id: u32) -> bool {
        id >= self.next_stream || id.is_multiple_of(2)
    }

    fn note_setting(&mut self, name: u16, value: u32) -> Result<(), ConnectionError> {
        match name {
            // RFC 9113 section 6.5.2.
            settings::name::ENABLE_PUSH if value != 0 => {
                return Err(ConnectionError::protocol("a server that wants to be pushed to"));
            }
            settings::name::MAX_CONCURRENT_STREAMS => self.streams_allowed = Some(value),
            settings::name::ENABLE_CONNECT_PROTOCOL => self.understands_protocols = value == 1,
            _ => {}
        }
        Ok(())
    }

    fn poll_event(&mut self) -> Option<Event> {
        let stream = self.left_behind.pop_front()?;
        Some(Event::Reset { stream, code: ErrorCode::REFUSED_STREAM, by_peer: true })
    }

    fn release_code(_: &Stream, code: ErrorCode) -> ErrorCode {
        code
    }

    /// A server resets no more streams than this side begins.
    fn may_end_late(_: &Stream) -> bool {
        false
    }

    fn cost_of_reset(_: &Stream) -> Option<Cost> {
        None
    }

    fn is_acknowledged(_: &mut Connection<Self>, _: [u8; 8]) {}

    /// RFC 9113 section 6.8: what is beyond the last stream has not been begun, and may be asked elsewhere.
    fn peer_leaves(connection: &mut Connection<Self>, last: u32) {
        let Connection { streams, role, .. } = connection;
        role.last_served = Some(last);
        for (key, stream) in streams.iter_mut().filter(|(key, _)| key.id() > last) {
            if !stream.is_closed() && stream.reset.replace(ErrorCode::REFUSED_STREAM).is_none() && stream.is_held {
                role.left_behind.push_back(key);
            }
        }
    }

    fn indexing(id: HeaderId, value: &[u8]) -> Option<Indexing> {
        Some(match id {
            HeaderId::Host => return None,
            HeaderId::Te if !value.eq_ignore_ascii_case(b"trailers") => return None,
            HeaderId::ContentLength => Indexing::Plain,
            // NOTE: clients share the connection, and none is to find out by sizes what another one has sent.
            HeaderId::Cookie | HeaderId::Authorization | HeaderId::ProxyAuthorization => Indexing::Never,
            _ => Indexing::Index,
        })
    }

    fn take_block(
        connection: &mut Connection<Self>,
        id: u32,
        ends: bool,
        block: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Option<Event>, ConnectionError> {
        match connection.purpose(id, ends)? {
            Purpose::Head(key, method) => connection.response(key, (method, ends), block, head),
            Purpose::Trailers(key) => connection.take_trailers(key, block),
            Purpose::Nobody => {
                connection.decode_unwanted(block)?;
                connection.calm.spend(Cost::Ignored)?;
                Ok(None)
            }
            Purpose::Wrong(code) => {
                connection.decode_unwanted(block)?;
                connection.stream_error(id, code)
            }
        }
    }
}

impl ClientConnection {
    /// One on a connection where nothing has been sent. Responses and trailers may be no more than `limits`.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits) -> Self {
        let mut said = vec![(settings::name::ENABLE_PUSH, 0)];
        settings.said(&limits, &mut said);
        let mut out = PREFACE.to_vec();
        frame::write_settings(&mut out, &said);
        let role = Client {
            next_stream: 1,
            streams_allowed: None,
            understands_protocols: false,
            left_behind: VecDeque::new(),
            last_served: None,
        };
        Self::begin(role, Reading::Header, settings, limits, out)
    }

    /// How many streams may be held at a time: none on a connection that ends.
    #[must_use]
    pub fn streams_max(&self) -> usize {
        if self.has_peer_left || self.role.next_stream > WINDOW_MAX {
            return 0;
        }
        let allowed = self.role.streams_allowed.unwrap_or(u32::MAX).min(self.settings.streams_max);
        usize::try_from(allowed).unwrap_or(usize::MAX)
    }

    /// Whether the server has said what it is.
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// Whether the server has said that it understands CONNECT with a protocol (RFC 8441).
    #[must_use]
    pub fn understands_protocols(&self) -> bool {
        self.role.understands_protocols
    }

    /// Whether the server has said that it takes no more streams.
    #[must_use]
    pub fn has_server_left(&self) -> bool {
        self.has_peer_left
    }

    /// How many requests the server has taken, once it has left and said so.
    #[must_use]
    pub fn requests_served(&self) -> Option<u32> {
        self.role.last_served.filter(|last| *last < self.role.next_stream).map(|last| last.div_ceil(2))
    }

    /// Asks the server for a sign of life.
    pub fn send_ping(&mut self) {
        frame::write_ping(&mut self.out, 0, *b"tidegate");
    }

    /// Begins a stream with a request; `None` when no more may be begun now. Fields about the connection are left out.
    pub fn send_request(&mut self, head: &RequestHead, options: &RequestOptions<'_>) -> Option<StreamKey> {
        if self.streams.len() >= self.streams_max() {
            return None;
        }
        let id = self.role.next_stream;
        self.role.next_stream += 2;
        let method = head.method_kind();
        let key = self.streams.insert(
            id,
            Stream {
                receiving: Receiving::Awaited,
                sending: Sending::Body,
                method: if options.protocol.is_some() { Method::Connect } else { method },
                reset: None,
                is_held: true,
                receive_window: i64::from(if self.is_acknowledged {
                    self.settings.stream_window
                } else {
                    WINDOW_DEFAULT
                }),
                unread: 0,
                untold: 0,
                expected: None,
                send_window: i64::from(self.peer.stream_window),
                wants_room: false,
                is_queued: false,
            },
        );
        let start = self.begin_block();
        self.encode_pseudo_fields(head, options);
        for (id, name, value) in head.headers.iter_known() {
            // RFC 8441 section 5: CONNECT does without it.
            if options.protocol.is_none() || id != HeaderId::SecWebSocketKey {
                self.encode_field(id, name, value);
            }
        }
        for (name, value) in options.fields {
            self.encode_field(HeaderId::of(name), name, value);
        }
        self.finish_block(start, id, if options.ends { flag::END_STREAM } else { 0 });
        if options.ends {
            if let Some(stream) = self.streams.get_mut(key) {
                stream.sending = Sending::Ended;
            }
            self.sending_ends(key);
        }
        Some(key)
    }

    /// RFC 9113 sections 8.3.1 and 8.5.
    fn encode_pseudo_fields(&mut self, head: &RequestHead, options: &RequestOptions<'_>) {
        let (encoder, out) = (&mut self.encoder, &mut self.out);
        let is_connect = head.method_kind() == Method::Connect && options.protocol.is_none();
        let method = if options.protocol.is_some() { b"CONNECT" } else { head.method() };
        encoder.field(out, b":method", method, Indexing::Index);
        if let Some(protocol) = options.protocol {
            encoder.field(out, b":protocol", protocol, Indexing::Index);
        }
        if !is_connect {
            let scheme: &[u8] = if options.is_secure { b"https" } else { b"http" };
            encoder.field(out, b":scheme", scheme, Indexing::Index);
        }
        let host = head.headers.first_known(HeaderId::Host);
        let authority = if is_connect { Some(head.target()) } else { host };
        if let Some(authority) = authority.filter(|authority| !authority.is_empty()) {
            encoder.field(out, b":authority", authority, Indexing::Index);
        }
        if !is_connect {
            // RFC 9113 section 8.3.1: it is never empty.
            let path = match head.path_and_query() {
                b"" if head.method_kind() == Method::Options => b"*",
                b"" => b"/",
                path => path,
            };
            encoder.field(out, b":path", path, Indexing::Plain);
        }
    }

    fn purpose(&mut self, id: u32, ends: bool) -> Result<Purpose, ConnectionError> {
        if self.role.is_idle(id) {
            return Err(ConnectionError::protocol("HEADERS on a stream that has not begun"));
        }
        let over = || ConnectionError::new(ErrorCode::STREAM_CLOSED, "HEADERS on a stream that is over");
        let Some(stream) = self.streams.find(id).and_then(|key| self.streams.get(key).map(|stream| (key, stream)))
        else {
            return match self.streams.ending(id) {
                Some(Closed::Known) => Err(over()),
                _ => Ok(Purpose::Nobody),
            };
        };
        Ok(match stream {
            // NOTE: what the server has left behind may still have been on its way.
            (_, Stream { reset: Some(_), .. }) => Purpose::Nobody,
            (_, Stream { receiving: Receiving::Ended, .. }) => Purpose::Wrong(ErrorCode::STREAM_CLOSED),
            (key, Stream { receiving: Receiving::Awaited, method, .. }) => Purpose::Head(key, *method),
            // RFC 9113 section 8.1: nothing comes behind trailers.
            _ if !ends => Purpose::Wrong(ErrorCode::PROTOCOL_ERROR),
            (key, _) => Purpose::Trailers(key),
        })
    }

    fn response(
        &mut self,
        key: StreamKey,
        (method, ends): (Method, bool),
        block: &[u8],
        head: &mut ResponseHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let limits = self.header_limits();
        let mut response = FieldwiseResponse::new(head, &self.limits);
        match self.decoder.decode(block, &limits, |field| response.field(field.name, field.value)) {
            Ok(()) if response.finish(method, ends).is_ok() => {}
            Err(DecodeError::Compression(_)) => return Err(COMPRESSION),
            _ => return self.stream_error(key.id(), ErrorCode::PROTOCOL_ERROR),
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let is_held = stream.is_held;
        let is_final = head.status() >= 200;
        if is_final {
            let length = response_body_length(head, method);
            let is_tunnel = http::begins_tunnel(head.status(), method);
            stream.expected = if length == http::BodyLength::None && !is_tunnel { Some(0) } else { length.announced() };
            stream.receiving = Receiving::Open;
            self.calm.earn(1);
        } else {
            self.calm.spend(Cost::Ignored)?;
        }
        if ends {
            self.receiving_ends(key);
        }
        Ok(is_held.then_some(Event::Response { stream: key, ends }))
    }

    /// Tells the server that this side begins no more streams, and takes none.
    pub fn leave(&mut self) {
        if !self.has_peer_left {
            self.has_peer_left = true;
            frame::write_goaway(&mut self.out, 0, ErrorCode::NO_ERROR);
        }
    }
}

#[cfg(test)]
mod tests;
