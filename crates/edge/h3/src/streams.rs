//! Names of streams.

/// The number of a QUIC stream (RFC 9000 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Whether bytes go both ways.
    #[must_use]
    pub fn is_bidirectional(self) -> bool {
        self.0 & 2 == 0
    }

    /// Whether the client has begun it.
    #[must_use]
    pub fn is_client_initiated(self) -> bool {
        self.0 & 1 == 0
    }
}

/// A request's stream as this side names it: where it stands, and its number, so that a stale name finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    slot: u32,
    id: StreamId,
}

impl StreamKey {
    /// Its number on the wire.
    #[must_use]
    pub fn id(self) -> StreamId {
        self.id
    }

    /// Where it stands: small numbers, which are used again.
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}
