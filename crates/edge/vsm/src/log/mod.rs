//! The log (VSL): a ring of records in shared memory.
//!
//! ```text
//! header: "VSLHEAD1", words of a segment (i64), number of the current segment (u32), padding, 8 offsets (i64)
//! then words of 4 bytes, 8 segments of them:
//!   record: tag << 24 | bytes of text, number | marker, text with a zero byte, up to a whole word
//!   batch:  0xff000000, bytes of what follows, records
//! ```
//!
//! The word behind the last record is the end marker; the wrap marker says that the log goes on at its beginning. Offsets say where the
//! first record of a segment is. The number of the current segment grows without end: a reader whose place is 6 segments
//! behind it has been overtaken.
//!
//! # How writers and readers agree
//!
//! A writer takes a place under a lock that is held for some stores: it puts the end marker *behind* the place first. Then, without the
//! lock, it copies its records, and stores the first word last. The place began with an end marker, so a reader stops there until
//! the whole batch can be read.
//!
//! A writer that sleeps between the two while others go round the whole log would write over their records. So each writer has a mark of
//! the segment where it writes; who would come to within [`SEGMENTS`] - 3 of such a mark drops its records instead, and that is counted. It takes
//! a thread that sleeps while most of the log (80 MB by default) is written.

mod buffer;
mod layout;
mod record;
mod writer;

pub use buffer::{LONG_ROOM, LogBuffer, LogId, SHORT_ROOM};
pub(crate) use layout::{
    BACKEND_MARKER, BATCH_TAG, CLIENT_MARKER, END_MARKER, HEADER_WORDS, ID_MASK, LENGTH_MASK, MARKER, OFFSETS,
    RECORD_WORDS, SEGMENT_NUMBER, SEGMENT_WORDS, WRAP_MARKER,
};
pub use layout::{SEGMENTS, SPACE_MAX, SPACE_MIN};
pub use record::{Record, microseconds};
pub use writer::{Log, LogFigures, LogWriter};
