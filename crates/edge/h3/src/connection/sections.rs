//! Field sections: decoded, judged.

use h2h3::{DecodeError, HeaderLimits, Indexing, Priority};
use http::{FieldError, FieldwiseRequest, Method, RequestHead, request_body_length};

use super::{Event, Order, ServerConnection, send::write_section};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    qpack,
    streams::{Receiving, Sending, StreamKey},
};

/// Bytes by which a section may be larger than the head that it stands for: long numbers.
const SECTION_OVERHEAD: usize = 1_024;

/// What a section is worth that cannot be decompressed (RFC 9204 section 2.2).
const COMPRESSION: ConnectionError =
    ConnectionError::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, "field section that cannot be decompressed");

impl ServerConnection {
    fn header_limits(&self) -> HeaderLimits {
        // As in HAProxy, crumbs of cookies may be as many as other fields.
        HeaderLimits { fields: self.limits.headers_max * 2, bytes: self.limits.head_bytes_max }
    }

    /// Bytes of the section that comes next on a stream.
    pub(super) fn section_bytes_max(&self, key: StreamKey) -> u64 {
        let is_head = self.streams.get(key).is_some_and(|stream| stream.receiving == Receiving::Awaited);
        let most = if is_head { self.limits.head_bytes_max } else { self.limits.trailer_bytes_max };
        (most + SECTION_OVERHEAD) as u64
    }

    /// A section is too large to be taken.
    pub(super) fn section_too_large(&mut self, key: StreamKey) -> Result<Option<Event>, ConnectionError> {
        self.decoder.cancel(key.id().0);
        if self.streams.get(key).is_some_and(|stream| stream.receiving == Receiving::Awaited) {
            self.refuse_head(key)
        } else {
            self.stream_error(key, ErrorCode::MESSAGE_ERROR)
        }
    }

    /// Takes a whole section; `ends` says that nothing follows.
    pub(super) fn take_section(
        &mut self,
        key: StreamKey,
        section: &[u8],
        ends: bool,
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let event = match self.streams.get(key).map(|stream| stream.receiving) {
            Some(Receiving::Awaited) => self.take_head(key, section, ends, head),
            _ => self.take_trailers(key, section, ends),
        }?;
        self.acknowledge_table()?;
        Ok(event)
    }

    fn take_head(
        &mut self,
        key: StreamKey,
        section: &[u8],
        ends: bool,
        head: &mut RequestHead,
    ) -> Result<Option<Event>, ConnectionError> {
        let limits = self.header_limits();
        let mut request = FieldwiseRequest::new(head, &mut self.pseudo, &self.limits)
            .knowing_protocols(self.settings.knows_protocols);
        let mut priority = None;
        let decoded = self.decoder.decode(key.id().0, section, &limits, |field| {
            if field.name == b"priority" {
                priority = Priority::parse(field.value);
            }
            request.field(field.name, field.value)
        });
        match decoded {
            Ok(()) => {
                if request.finish(!ends).is_err() {
                    return self.malformed(key);
                }
            }
            Err(DecodeError::Compression(_)) => return Err(COMPRESSION),
            Err(DecodeError::Refused(_)) => return self.malformed(key),
            Err(DecodeError::TooLarge(_)) => return self.refuse_head(key),
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        self.awaited -= 1;
        let is_tunnel = head.method_kind() == Method::Connect || !self.pseudo.protocol().is_empty();
        stream.receiving = match (ends, is_tunnel) {
            (true, _) => Receiving::Ended,
            (false, true) => Receiving::Tunnel,
            (false, false) => Receiving::Body,
        };
        stream.expected = request_body_length(head).announced();
        stream.is_held = true;
        if !stream.is_priority_updated {
            stream.priority = priority.unwrap_or_default();
        }
        Ok(Some(Event::Request(key)))
    }

    fn malformed(&mut self, key: StreamKey) -> Result<Option<Event>, ConnectionError> {
        self.stream_error(key, ErrorCode::MESSAGE_ERROR)?;
        Ok(Some(Event::Malformed))
    }

    /// Answers 431 (RFC 6585 section 5).
    fn refuse_head(&mut self, key: StreamKey) -> Result<Option<Event>, ConnectionError> {
        self.answer_without_request(key, b"431")?;
        Ok(Some(Event::HeadTooLarge))
    }

    /// Answers where no head has been taken, and has the client send nothing more.
    pub(super) fn answer_without_request(&mut self, key: StreamKey, status: &[u8]) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        write_section(&mut stream.pending, |section| {
            qpack::field(section, b":status", status, Indexing::Plain);
            qpack::field(section, b"content-length", b"0", Indexing::Plain);
        });
        (stream.sending, stream.receiving) = (Sending::Ended, Receiving::Ended);
        stream.section = Vec::new();
        self.awaited -= 1;
        self.orders.push_back(Order::Stop { stream: key.id(), code: ErrorCode::NO_ERROR });
        self.order_flush(key);
        self.calm.spend(Cost::StreamError)
    }

    /// Takes the fields that end a message.
    fn take_trailers(&mut self, key: StreamKey, section: &[u8], ends: bool) -> Result<Option<Event>, ConnectionError> {
        let limits = HeaderLimits { bytes: self.limits.trailer_bytes_max, ..self.header_limits() };
        let (lines, judged) = (&mut self.trailers, &self.limits);
        lines.clear();
        let decoded = self.decoder.decode(key.id().0, section, &limits, |field| {
            http::judge_trailer(field.name, field.value, judged)?;
            for part in [field.name, b": ", field.value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
            Ok::<(), FieldError>(())
        });
        match decoded {
            Ok(()) => {}
            Err(DecodeError::Compression(_)) => return Err(COMPRESSION),
            Err(_) => return self.stream_error(key, ErrorCode::MESSAGE_ERROR),
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if stream.expected.is_some_and(|left| left > 0) {
            return self.stream_error(key, ErrorCode::MESSAGE_ERROR);
        }
        stream.receiving = if ends { Receiving::Ended } else { Receiving::Trailed };
        Ok(Some(Event::Trailers(key)))
    }
}
