//! Heads of responses, field by field.

use super::{FieldError, judge_field};
use crate::{
    body_length::{BodyLength, Framing, parse_content_length},
    error::ParseErrorKind as Kind,
    framing::{begins_tunnel, response_body_length},
    header_id::HeaderId,
    limits::Limits,
    method::Method,
    response::ResponseHead,
    version::Version,
};

/// Builds a response's head of the fields that [`FieldwiseResponse::field`] is given, in the order received.
#[derive(Debug)]
pub struct FieldwiseResponse<'r> {
    head: &'r mut ResponseHead,
    name_bytes_max: usize,
    status: Option<u16>,
    has_fields: bool,
    length: Option<u64>,
}

impl<'r> FieldwiseResponse<'r> {
    /// Begins a head in the memory of another one.
    pub fn new(head: &'r mut ResponseHead, limits: &Limits) -> Self {
        head.clear();
        Self { head, name_bytes_max: limits.name_bytes_max, status: None, has_fields: false, length: None }
    }

    /// Takes the next field.
    ///
    /// # Errors
    /// When no response may have it, in this place.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldError> {
        if name.starts_with(b":") {
            return self.pseudo_field(name, value);
        }
        self.has_fields = true;
        let id = judge_field(name, value, self.name_bytes_max)?;
        if id == HeaderId::ContentLength {
            if self.length.is_some() {
                return Err(Kind::RepeatedLength.into());
            }
            self.length = Some(parse_content_length(value)?);
        }
        self.head.headers.lay_received(name, value, id);
        Ok(())
    }

    /// RFC 9113 section 8.3.2: the status, and nothing else.
    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldError> {
        if self.has_fields || self.status.is_some() || name != b":status" {
            return Err(FieldError::PseudoField);
        }
        match value {
            [first @ b'1'..=b'9', second @ b'0'..=b'9', third @ b'0'..=b'9'] => {
                let number = |digit: &u8| u16::from(digit - b'0');
                self.status = Some(number(first) * 100 + number(second) * 10 + number(third));
                Ok(())
            }
            _ => Err(Kind::InvalidStatus.into()),
        }
    }

    /// The fields are all there; whether nothing follows, and what was asked. How long the body is stands in the head from now on.
    ///
    /// # Errors
    /// When they do not make a response.
    pub fn finish(self, method: Method, ends: bool) -> Result<(), FieldError> {
        let Self { head, status, length, .. } = self;
        let status = status.ok_or(FieldError::PseudoField)?;
        // RFC 9113 section 8.6: HTTP/2 does not know 101. An interim response has another one behind it.
        if status == 101 || status < 200 && ends {
            return Err(Kind::InvalidStatus.into());
        }
        head.version = Version::Http11;
        head.set_status(status);
        head.framing = Framing { length, chunked: false };
        let length_here = response_body_length(head, method);
        if length_here == BodyLength::None {
            return Ok(());
        }
        match (length, ends) {
            // RFC 9113 section 8.1.1: what is announced has to come.
            (Some(1..), true) => return Err(Kind::InvalidLength.into()),
            (Some(_), _) => {}
            (None, true) => {
                // It has to be said where connections go on behind a message (HTTP/1).
                head.framing.length = Some(0);
                head.headers.lay_received(b"content-length", b"0", HeaderId::ContentLength);
            }
            (None, false) => {
                head.framing.chunked = true;
                head.headers.lay_received(b"transfer-encoding", b"chunked", HeaderId::TransferEncoding);
            }
        }
        debug_assert!(!begins_tunnel(status, method), "a tunnel has no body");
        Ok(())
    }
}
