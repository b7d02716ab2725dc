//! What each side says of itself: RFC 9114 section 7.2.4.

use h2h3::CalmLimits;
use http::Limits;

use crate::{
    error::{ConnectionError, ErrorCode},
    frame::{read_number, write_number},
};

/// Numbers of settings.
pub mod name {
    /// Most bytes of the table that the other side's encoder uses (RFC 9204 section 5).
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    /// Most bytes of a head.
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    /// Whether CONNECT with a protocol is understood (RFC 9220).
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    /// One that means nothing, so that clients keep to ignoring those (RFC 9114 section 7.2.4.1).
    pub const RESERVED: u64 = 0x1f * 0x539 + 0x21;

    /// Whether it was one of HTTP/2's, and must not be sent (RFC 9114 section 7.2.4.1).
    pub fn is_of_http2(name: u64) -> bool {
        matches!(name, 0x2..=0x5)
    }
}

/// What this side says of itself, and what it bears. What of a head and of trailers is too large says [`http::Limits`]; how many requests there
/// are at a time, and how much of their bodies comes, says QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of QPACK's table that a client may fill (`SETTINGS_QPACK_MAX_TABLE_CAPACITY`). 0, the default: fields come without it.
    /// No stream ever waits for the table: `SETTINGS_QPACK_BLOCKED_STREAMS` is 0.
    pub table_bytes_max: u32,
    /// Whether clients may have CONNECT name a protocol (RFC 9220).
    pub knows_protocols: bool,
    /// Bytes of a frame that nobody knows.
    pub unknown_bytes_max: u64,
    /// Bytes of a frame of the control stream.
    pub control_bytes_max: u32,
    /// Unidirectional streams of the client's at a time. QUIC should allow no more.
    pub unidirectional_streams_max: u32,
    /// Requests of which the priority has come before they have begun (RFC 9218 section 7).
    pub early_priorities_max: u32,
    /// How much a client may do that is no use.
    pub calm: CalmLimits,
    /// Bytes of an answer's heads and frames that a stream may owe before no more data are taken.
    pub output_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            table_bytes_max: 0,
            knows_protocols: false,
            unknown_bytes_max: 16 * 1024,
            control_bytes_max: 4 * 1024,
            unidirectional_streams_max: 8,
            early_priorities_max: 32,
            calm: CalmLimits::default(),
            output_bytes_max: 16 * 1024,
        }
    }
}

impl Settings {
    /// Appends the payload of SETTINGS.
    pub(crate) fn write(&self, limits: &Limits, out: &mut Vec<u8>) {
        let all = [
            (name::MAX_FIELD_SECTION_SIZE, limits.head_bytes_max as u64),
            (name::QPACK_MAX_TABLE_CAPACITY, u64::from(self.table_bytes_max)),
            (name::ENABLE_CONNECT_PROTOCOL, u64::from(self.knows_protocols)),
        ];
        // Those that are 0 are so anyway.
        for (name, value) in all.into_iter().filter(|(_, value)| *value > 0).chain([(name::RESERVED, 0)]) {
            write_number(out, name);
            write_number(out, value);
        }
    }
}

/// Judges the payload of a client's SETTINGS. None of what it says matters to one that uses no table and pushes nothing.
///
/// # Errors
/// When it is not whole, or has what it must not have.
pub(crate) fn judge(payload: &[u8]) -> Result<(), ConnectionError> {
    let mut rest = payload;
    let mut seen = 0_u16;
    while !rest.is_empty() {
        let number = |rest: &mut &[u8]| {
            let (number, after) =
                read_number(rest).ok_or(ConnectionError::new(ErrorCode::FRAME_ERROR, "SETTINGS that are not whole"))?;
            *rest = after;
            Ok(number)
        };
        let (name, value) = (number(&mut rest)?, number(&mut rest)?);
        if name::is_of_http2(name) {
            return Err(ConnectionError::new(ErrorCode::SETTINGS_ERROR, "setting of HTTP/2"));
        }
        if name == name::ENABLE_CONNECT_PROTOCOL && value > 1 {
            return Err(ConnectionError::new(ErrorCode::SETTINGS_ERROR, "setting that is neither 0 nor 1"));
        }
        // RFC 9114 section 7.2.4: none may be there twice. Those are told apart that are known.
        let bit = if name < 16 { 1 << name } else { 0 };
        if seen & bit != 0 {
            return Err(ConnectionError::new(ErrorCode::SETTINGS_ERROR, "setting that is there twice"));
        }
        seen |= bit;
    }
    Ok(())
}
