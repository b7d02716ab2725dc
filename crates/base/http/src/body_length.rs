//! How the end of a body is known.

use crate::error::ParseErrorKind;

/// What the head, as it was received, says about the body.
///
/// The parser keeps it in the head apart from the fields: rules may edit Content-Length, but the bytes on the connection
/// end where the sender said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Framing {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body: the message ends with its head.
    None,
    /// This many bytes.
    Exact(u64),
    /// Chunks up to one of size zero, and trailers.
    Chunked,
    /// Everything up to the end of the connection. Only responses.
    UntilClose,
}

impl BodyLength {
    /// Whether no byte belongs to the body.
    #[must_use]
    pub fn is_empty(self) -> bool {
        matches!(self, BodyLength::None | BodyLength::Exact(0))
    }

    /// How many bytes it announces, if it says a number.
    #[must_use]
    pub fn announced(self) -> Option<u64> {
        if let BodyLength::Exact(length) = self { Some(length) } else { None }
    }
}

/// The number that a Content-Length value says: only digits, no list, no sign.
///
/// At most 18 digits: the largest number that no receiver can overflow, however it stores it.
pub(crate) fn parse_content_length(value: &[u8]) -> Result<u64, ParseErrorKind> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(ParseErrorKind::InvalidLength);
    }
    if value.len() > 18 {
        return Err(ParseErrorKind::LengthTooLarge);
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
