//! What a log may be told.

use crate::{Offset, ReplicationId, frame::COMMANDS_LEN_MAX};

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a segment. A frame that is longer gets a segment of its own.
    pub segment_len: u64,
    /// Prepared segments to have in store.
    pub spare_segments: usize,
    /// A frame that has this many bytes is closed, though its tick goes on.
    pub frame_len_target: usize,
    /// Most bytes of commands in a frame, 4 GiB at the most: longer pieces are refused.
    pub frame_len_max: usize,
    /// How much memory the buffer of a log keeps between ticks.
    pub buffer_kept: usize,
    /// More than this of the stream is not kept: the oldest segments go.
    pub retention_bytes: Option<u64>,
    /// Segments whose last entry is older than this go.
    pub retention_ms: Option<u64>,
    /// The id of a log that is made.
    pub replication_id: ReplicationId,
    /// Where a log that is made begins.
    pub first_offset: Offset,
    /// A random number for a log that is made: clients must not be able to guess it, so that nothing that they send looks
    /// like a frame.
    pub salt: u32,
}

impl Options {
    /// The defaults, and for a log that has to be made, its id and a random number.
    #[must_use]
    pub fn new(replication_id: ReplicationId, salt: u32) -> Self {
        Self {
            segment_len: 64 * 1024 * 1024,
            spare_segments: 1,
            frame_len_target: 1024 * 1024,
            frame_len_max: COMMANDS_LEN_MAX,
            buffer_kept: 4 * 1024 * 1024,
            retention_bytes: Some(1024 * 1024 * 1024),
            retention_ms: None,
            replication_id,
            first_offset: Offset(0),
            salt,
        }
    }

    pub(crate) fn frame_len_max(&self) -> usize {
        self.frame_len_max.min(COMMANDS_LEN_MAX)
    }
}
