//! The log of a store shard: everything that happened to the data, in order, as Redis commands.
//!
//! A log is a stream of bytes, each at an [`Offset`]; it is the very stream that replicas are sent. On disk it is a folder of
//! segments, files of frames; a frame is what one tick of the shard appended, with a checksum. docs/formats/oplog.md has
//! every byte. The bytes between commands mean nothing to this crate; what is appended in one call is never torn apart.
//!
//! # Who does what
//!
//! ```text
//! shard's thread      Log        append -> write (into the page cache) -> rotate, retain
//! sync thread         Syncer     sync: fdatasync of what is written; then it is durable
//! background thread   Maintainer prepares spare segments, removes old ones
//! anyone              Reader     follows the log from an offset, while it grows
//! ```
//!
//! # Why segments are prepared
//!
//! `fdatasync` of a file that grows writes its new length and blocks to the file system's journal too. A spare segment is
//! filled with zeros and synced before it is needed, so that later its data alone is written. Microseconds of a write and
//! its fdatasync, medians on ext4 (virtio disk of two cores, two runs of 400 each):
//!
//! | bytes | growing | fallocate (unwritten extents) | filled with zeros | filled, O_DSYNC | growing, O_DSYNC |
//! |---|---|---|---|---|---|
//! | 100 | 168, 293 | 131, 193 | 111, 180 | 159, 176 | 161, 265 |
//! | 4,096 | 264, 274 | 241, 274 | 139, 180 | 139, 162 | 222, 283 |
//! | 16,384 | 343, 367 | 258, 254 | 147, 151 | 144, 146 | 399, 354 |
//!
//! So O_DSYNC gains nothing over a sync of its own, and would make the shard's thread wait. Segments that retention gives up
//! become spares again; their old frames are told from new ones by generation and offset. Their pages are not in memory any
//! more: a write to a part of a page would have to read it from the disk first (74 us for 300 bytes, 828 us for 2,000 on a
//! busy disk, instead of 14 to 18), so the first write to a page fills all of it.
//!
//! # What a crash can do
//!
//! Writes that were not synced reach the disk in any order, in part, or not at all. So behind the last synced frame there
//! may be a hole and good frames after it. A frame says how far the log was known to be durable when it was written; a bad
//! frame that a later one knows to have been durable is damage, and [`Log::open`] refuses the log; any other is the end of
//! the log. What no frame can tell, since its segment is gone, stands in the note of the log's end. See `recover` and `end_note`.

mod end_note;
mod error;
mod folder;
mod frame;
mod id;
mod log;
mod maintain;
mod options;
mod reader;
mod recover;
mod salvage;
mod scan;
mod segment;
mod shared;
mod truncate;

pub mod disk;

#[cfg(test)]
mod tests;

pub use error::{Corruption, LogError, Reason};
pub use id::{Offset, ReplicationId};
pub use log::{Log, Written};
pub use maintain::Maintainer;
pub use options::Options;
pub use reader::{Entry, Reader};
pub use recover::{Cut, Recovered};
pub use salvage::Damaged;
pub use segment::SegmentInfo;
pub use shared::Syncer;
