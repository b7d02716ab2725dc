//! Error codes of HTTP/2, and what an error costs: a stream, or the connection.

/// An error code (RFC 9113 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0);
    /// The other side breaks the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// Something went wrong on this side.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More came than the window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Settings were not acknowledged.
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// A frame for a stream that is over on that side.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of a length that it cannot have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not begun.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is not wanted any more.
    pub const CANCEL: Self = Self(8);
    /// A header block that cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The connection of a CONNECT failed.
    pub const CONNECT_ERROR: Self = Self(10);
    /// The other side makes more work than it is allowed to.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);

    /// The name of the code, for logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        usize::try_from(self.0).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or("unknown")
    }
}

/// Why a connection is over.
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

    pub(crate) const fn protocol(why: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, why)
    }

    pub(crate) const fn size(why: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, why)
    }

    pub(crate) const fn calm(why: &'static str) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, why)
    }
}
