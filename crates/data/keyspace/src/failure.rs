//! Why a command failed, in Redis' words.

use std::borrow::Cow;

/// An error reply. `Display` gives the text with its code, without the leading `-`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The key holds a value of another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// The arguments do not fit together.
    #[error("ERR syntax error")]
    Syntax,
    /// Not an integer of 64 bits.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// Not a number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// Not a bound of a range of scores.
    #[error("ERR min or max is not a float")]
    NotScoreRange,
    /// An index outside of the list.
    #[error("ERR index out of range")]
    IndexRange,
    /// A key that must be there is not.
    #[error("ERR no such key")]
    NoSuchKey,
    /// A string would become too long.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// A database's number is not below `databases`.
    #[error("ERR DB index is out of range")]
    DatabaseRange,
    /// Any other, with its code.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// Any other that repeats what a client sent, whatever its bytes are.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Vec<u8>),
}

impl Failure {
    /// An error of the general kind; the text begins with its code (`ERR ...`).
    pub const fn text(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// One that repeats what a client sent: pieces of text and words of the client in turns. As in Redis, a word ends where it has a
    /// zero byte.
    pub fn quoting(pieces: &[&[u8]]) -> Self {
        Self::Bytes(pieces.iter().map(|piece| until_zero(piece)).collect::<Vec<_>>().concat())
    }

    /// The text as it is sent.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(text) => Cow::Borrowed(text.as_bytes()),
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            other => Cow::Owned(other.to_string().into_bytes()),
        }
    }

    /// The same with a text that was made.
    pub fn owned(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// What comes before the first zero byte.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
