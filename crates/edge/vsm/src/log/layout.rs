//! Places and marks of the log.

/// Segments of a log.
pub const SEGMENTS: usize = 8;
/// Bytes of a log, at least, as of Varnish's parameter vsl_space.
pub const SPACE_MIN: usize = 1 << 20;
/// Bytes of a log, at most.
pub const SPACE_MAX: usize = 4 << 30;

/// The first bytes.
pub(crate) const MARKER: [u8; 8] = *b"VSLHEAD1";
/// Where the words of a segment stand: two words of 4 bytes.
pub(crate) const SEGMENT_WORDS: usize = 2;
/// Where the number of the current segment stands.
pub(crate) const SEGMENT_NUMBER: usize = 4;
/// Where the offsets stand: two words each.
pub(crate) const OFFSETS: usize = 6;
/// Words before the first record.
pub(crate) const HEADER_WORDS: usize = OFFSETS + 2 * SEGMENTS;

/// Words of a record before its text.
pub(crate) const RECORD_WORDS: usize = 2;
pub(crate) const LENGTH_MASK: u32 = 0xffff;
pub(crate) const CLIENT_MARKER: u32 = 1 << 30;
pub(crate) const BACKEND_MARKER: u32 = 1 << 31;
pub(crate) const ID_MASK: u32 = CLIENT_MARKER - 1;

/// The tag of a batch.
pub(crate) const BATCH_TAG: u8 = 255;
const RESERVED: u32 = 254 << 24;
pub(crate) const END_MARKER: u32 = RESERVED | 0x45_4545;
pub(crate) const WRAP_MARKER: u32 = RESERVED | 0x57_5757;
