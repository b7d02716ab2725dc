//! What each side says of itself: RFC 9114 section 7.2.4.

/// What this side says of itself, and what it bears. What of a head and of trailers is too large says [`http::Limits`]; how many requests there
/// are at a time, and how much of their bodies comes, says QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of QPACK's table that a client may fill (`SETTINGS_QPACK_MAX_TABLE_CAPACITY`). 0, the default: fields come without it.
    /// No stream ever waits for the table: `SETTINGS_QPACK_BLOCKED_STREAMS` is 0.
    pub table_bytes_max: u32,
    /// Whether clients may have CONNECT name a protocol (RFC 9220).
    pub knows_protocols: bool,
    /// Bytes of a frame, or of the whole of a unidirectional stream, that nobody knows.
    pub unknown_bytes_max: u64,
    /// Unidirectional streams of the client's at a time. QUIC is to allow no more.
    pub unidirectional_streams_max: u32,
    /// Bytes of an answer's heads and frames that a stream may owe before no more data are taken.
    pub output_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table_bytes_max: 0,
            knows_protocols: false,
            unknown_bytes_max: 16 * 1024,
            unidirectional_streams_max: 8,
            output_bytes_max: 16 * 1024,
        }
    }
}
