//! Protocol versions.

/// The version by whose rules a message is read and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0: the connection ends with the response unless both sides say keep-alive.
    Http10,
    /// HTTP/1.1, and any later HTTP/1.x (RFC 9110 section 2.5).
    #[default]
    Http11,
}

impl Version {
    /// As on the wire.
    #[inline]
    #[must_use]
    pub fn as_bytes(self) -> &'static [u8] {
        match self {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
        }
    }
}
