//! Which HTTP a connection speaks.

/// The framing of the messages on a connection, of a client or of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1, or bytes that are no HTTP at all.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3: of clients alone.
    Http3,
}

impl Protocol {
    /// Its major version.
    #[must_use]
    pub fn major(self) -> u8 {
        match self {
            Self::Http1 => 1,
            Self::Http2 => 2,
            Self::Http3 => 3,
        }
    }
}
