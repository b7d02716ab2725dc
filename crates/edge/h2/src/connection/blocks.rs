//! Header blocks: gathered, decoded, judged.

use http::FieldError;

use super::{Connection, Event, Gathered, role::Role};
use crate::{
    calm::Cost,
    error::{ConnectionError, ErrorCode},
    hpack::{DecodeError, HeaderLimits},
    streams::{Receiving, StreamKey},
};

/// CONTINUATION frames of one block.
const CONTINUATIONS_MAX: u32 = 32;

/// Bytes by which a block may be larger than the head that it stands for: changes of the table's size, long integers.
const BLOCK_OVERHEAD: usize = 1_024;

impl<R: Role> Connection<R> {
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
    pub(super) fn block_is_whole(&mut self, head: &mut R::Head) -> Result<Option<Event>, ConnectionError> {
        let Some(Gathered { stream, ends_stream, bytes, .. }) = self.block.take() else { return Ok(None) };
        R::take_block(self, stream, ends_stream, &bytes, head)
    }

    pub(super) fn header_limits(&self) -> HeaderLimits {
        // As in HAProxy, crumbs of cookies may be as many as other fields.
        HeaderLimits { fields: self.limits.headers_max * 2, bytes: self.limits.head_bytes_max }
    }

    /// Decodes a block that is nobody's: the table goes on with it.
    pub(super) fn decode_unwanted(&mut self, block: &[u8]) -> Result<(), ConnectionError> {
        let limits = self.header_limits();
        match self.decoder.decode(block, &limits, |_| Ok::<(), ()>(())) {
            Err(DecodeError::Compression(_)) => Err(COMPRESSION),
            _ => Ok(()),
        }
    }

    /// Takes the fields that end a message.
    pub(super) fn take_trailers(&mut self, key: StreamKey, block: &[u8]) -> Result<Option<Event>, ConnectionError> {
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

    /// Notes that the peer has sent all of a stream; whether anybody wants to know.
    pub(super) fn receiving_ends(&mut self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        stream.receiving = Receiving::Ended;
        let is_held = stream.is_held;
        self.forget_if_over(key);
        is_held
    }
}

/// What a block is worth that cannot be decompressed.
pub(super) const COMPRESSION: ConnectionError =
    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, "header block that cannot be decompressed");
