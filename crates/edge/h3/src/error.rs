//! Error codes of HTTP/3 and QPACK, and what an error costs: a stream, or the connection.

/// An error code (RFC 9114 section 8.1, RFC 9204 section 6): what RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE of an application say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0x100);
    /// The other side breaks the protocol in a way that has no code of its own.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// Something went wrong on this side.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream that the other side may not begin.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream that the connection needs was closed.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that may not be there, or not on this stream.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame that is not as it has to be.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The other side makes more work than it is allowed to.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// A number of a stream or push that it cannot have.
    pub const ID_ERROR: Self = Self(0x108);
    /// A setting that it cannot have.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// No SETTINGS at the beginning of the control stream.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not begun.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request, or its answer, is not wanted any more.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The request's stream ended within it.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The message is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// The connection of a CONNECT failed.
    pub const CONNECT_ERROR: Self = Self(0x10f);
    /// This is to be asked for by HTTP/1.1.
    pub const VERSION_FALLBACK: Self = Self(0x110);
    /// A field section that cannot be decompressed.
    pub const QPACK_DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An instruction on the encoder stream that means nothing.
    pub const QPACK_ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An instruction on the decoder stream that means nothing.
    pub const QPACK_DECODER_STREAM_ERROR: Self = Self(0x202);

    /// The name of the code, for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        const QPACK_NAMES: [&str; 3] =
            ["QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"];
        let at = |names: &[&'static str], first: u64| {
            self.0
                .checked_sub(first)
                .and_then(|index| usize::try_from(index).ok())
                .and_then(|index| names.get(index))
                .copied()
        };
        at(&NAMES, 0x100).or_else(|| at(&QPACK_NAMES, 0x200)).unwrap_or("unknown")
    }
}

/// Why a connection is over: the QUIC connection is to be closed with this code, as an error of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ({why})", .code.name())]
pub struct ConnectionError {
    /// What the other side is told.
    pub code: ErrorCode,
    /// What it did.
    pub why: &'static str,
}

impl ConnectionError {
    /// An error of this code.
    #[must_use]
    pub const fn new(code: ErrorCode, why: &'static str) -> Self {
        Self { code, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        for (code, name) in [
            (ErrorCode::NO_ERROR, "H3_NO_ERROR"),
            (ErrorCode::VERSION_FALLBACK, "H3_VERSION_FALLBACK"),
            (ErrorCode::QPACK_DECOMPRESSION_FAILED, "QPACK_DECOMPRESSION_FAILED"),
            (ErrorCode::QPACK_DECODER_STREAM_ERROR, "QPACK_DECODER_STREAM_ERROR"),
            (ErrorCode(0), "unknown"),
            (ErrorCode(0x111), "unknown"),
            (ErrorCode(0x203), "unknown"),
        ] {
            assert_eq!(code.name(), name);
        }
    }
}
