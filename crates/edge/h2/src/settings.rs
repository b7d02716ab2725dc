//! What each side says of itself: RFC 9113 section 6.5.

use http::Limits;

use crate::{
    error::{ConnectionError, ErrorCode},
    frame::FRAME_BYTES_MIN,
};

/// Numbers of settings.
pub mod name {
    /// Most bytes of the table that the other side's encoder uses.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether the other side may push.
    pub const ENABLE_PUSH: u16 = 2;
    /// Most streams at a time.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// The window of each stream at its beginning.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// The largest frame that is taken.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Most bytes of a head.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether CONNECT with a protocol is understood (RFC 8441).
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// Whether priorities of RFC 7540 are not used (RFC 9218 section 2.1).
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// The largest window.
pub const WINDOW_MAX: u32 = 0x7fff_ffff;

/// The window that a connection begins with, and streams as long as no setting says otherwise.
pub const WINDOW_DEFAULT: u32 = 65_535;

/// The size of HPACK's table as long as no setting says otherwise.
pub const HEADER_TABLE_DEFAULT: u32 = 4_096;

/// What this side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the table of the decoder.
    pub header_table_size: u32,
    /// Window of a stream: bytes that come before this side has taken any.
    pub stream_window: u32,
    /// The same for all streams of a connection together.
    pub connection_window: u32,
    /// Streams at a time.
    pub streams_max: u32,
    /// Bytes of a frame.
    pub frame_bytes_max: u32,
    /// Bytes that wait to be sent before no more data are taken.
    pub output_bytes_max: usize,
    /// Of a server: whether clients may have CONNECT name a protocol (RFC 8441).
    pub knows_protocols: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_size: HEADER_TABLE_DEFAULT,
            stream_window: WINDOW_DEFAULT,
            connection_window: 8 * WINDOW_DEFAULT,
            streams_max: 100,
            frame_bytes_max: FRAME_BYTES_MIN,
            output_bytes_max: 64 * 1024,
            knows_protocols: false,
        }
    }
}

impl Settings {
    /// What is to be said of both roles, where it is not what everybody takes for granted.
    pub(crate) fn said(&self, limits: &Limits, said: &mut Vec<(u16, u32)>) {
        let header_list = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
        let all = [
            (name::HEADER_TABLE_SIZE, self.header_table_size, HEADER_TABLE_DEFAULT),
            (name::INITIAL_WINDOW_SIZE, self.stream_window, WINDOW_DEFAULT),
            (name::MAX_FRAME_SIZE, self.frame_bytes_max, FRAME_BYTES_MIN),
            (name::MAX_HEADER_LIST_SIZE, header_list, u32::MAX),
        ];
        said.extend(all.iter().filter(|(_, value, default)| value != default).map(|(name, value, _)| (*name, *value)));
    }
}

/// What the other side has said of itself, as far as it matters to one that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes of the table of its decoder.
    pub header_table_size: u32,
    /// Window of a stream at its beginning.
    pub stream_window: u32,
    /// Bytes of a frame.
    pub frame_bytes_max: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_size: HEADER_TABLE_DEFAULT,
            stream_window: WINDOW_DEFAULT,
            frame_bytes_max: FRAME_BYTES_MIN,
        }
    }
}

impl PeerSettings {
    /// Takes one setting over.
    ///
    /// # Errors
    /// When its value is none that it can have.
    pub fn apply(&mut self, name: u16, value: u32) -> Result<(), ConnectionError> {
        match name {
            name::HEADER_TABLE_SIZE => self.header_table_size = value,
            name::ENABLE_PUSH | name::ENABLE_CONNECT_PROTOCOL | name::NO_RFC7540_PRIORITIES if value > 1 => {
                return Err(ConnectionError::protocol("setting that is neither 0 nor 1"));
            }
            name::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "window larger than 2^31-1"));
            }
            name::INITIAL_WINDOW_SIZE => self.stream_window = value,
            name::MAX_FRAME_SIZE if !(FRAME_BYTES_MIN..1 << 24).contains(&value) => {
                return Err(ConnectionError::protocol("bound of frames out of range"));
            }
            name::MAX_FRAME_SIZE => self.frame_bytes_max = value,
            _ => {}
        }
        Ok(())
    }
}
