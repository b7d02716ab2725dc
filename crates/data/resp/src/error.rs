//! What a request may be at most, and what is said about one that cannot be read.

/// What a request may be at most. The defaults are those of Redis 7.0 for a client that needs no password, or has given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument: `proto-max-bulk-len`. A master's stream has no limit but this type's.
    pub bulk_len_max: u64,
    /// Most arguments.
    pub arguments_max: u32,
    /// Longest line: an inline command, or a line with a length.
    pub line_len_max: usize,
    /// The client has still to authenticate, and until then may send no more than an `AUTH` or `HELLO` needs.
    pub unauthenticated: bool,
}

impl Limits {
    /// Most arguments of a client that has yet to authenticate.
    pub const UNAUTHENTICATED_ARGUMENTS_MAX: u32 = 10;
    /// Longest argument of a client that has yet to authenticate.
    pub const UNAUTHENTICATED_BULK_LEN_MAX: u64 = 16_384;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_len_max: 512 * 1024 * 1024,
            arguments_max: i32::MAX.unsigned_abs(),
            line_len_max: 64 * 1024,
            unauthenticated: false,
        }
    }
}

/// A request that cannot be read. The connection is lost: nobody knows where the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// An inline command without an end.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// The quotes of an inline command do not match.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The line with the number of arguments has no end.
    #[error("Protocol error: too big mbulk count string")]
    CountLineTooLong,
    /// The number of arguments is none, or too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More arguments than a client may send before it has authenticated.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// The line with the length of an argument has no end.
    #[error("Protocol error: too big bulk count string")]
    LengthLineTooLong,
    /// Something else where an argument begins.
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    ExpectedBulk(u8),
    /// The length of an argument is none, or too large.
    #[error("Protocol error: invalid bulk length")]
    InvalidLength,
    /// A longer argument than a client may send before it has authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
}

impl ProtocolError {
    /// What Redis' log calls it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::InlineTooLong => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in inline request",
            Self::CountLineTooLong => "too big mbulk count string",
            Self::InvalidCount => "invalid mbulk count",
            Self::UnauthenticatedCount => "unauth mbulk count",
            Self::LengthLineTooLong => "too big bulk count string",
            Self::ExpectedBulk(_) => "expected $ but got something else",
            Self::InvalidLength => "invalid bulk length",
            Self::UnauthenticatedLength => "unauth bulk length",
        }
    }

    /// Appends the reply that the client gets before it is closed. Not all of it need be UTF-8: it may quote the client.
    pub fn write_reply(self, out: &mut Vec<u8>) {
        if let Self::ExpectedBulk(byte) = self {
            out.extend_from_slice(b"-ERR Protocol error: expected '$', got '");
            out.push(if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
            out.extend_from_slice(b"'\r\n");
        } else {
            out.extend_from_slice(b"-ERR ");
            out.extend_from_slice(self.to_string().as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn printable(byte: u8) -> char {
    if matches!(byte, b'\r' | b'\n') { ' ' } else { char::from(byte) }
}

/// Whether an error says that a command, or a word of it, is none that the server knows: it is of another version, or another program. Others have a
/// code of their own for what they refuse now (`BUSY`, `LOADING`, `NOPERM`): what was asked may be known, and is not done.
#[must_use]
pub fn is_unknown(error: &[u8]) -> bool {
    error.strip_prefix(b"ERR").is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b' '))
}
