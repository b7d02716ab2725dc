//! Segments: their names, their headers, and what is known of each.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{
    Offset, Reason, ReplicationId,
    frame::{put, u32_at, u64_at},
};

/// Bytes of a segment's header: where its first frame begins.
pub(crate) const HEADER_LEN: usize = 128;
const MAGIC: &[u8; 8] = b"TIDEOLOG";
const VERSION: u32 = 1;
const CRC_AT: usize = HEADER_LEN - 4;
const ID_AT: usize = 40;
const FORMER_ID_AT: usize = ID_AT + ReplicationId::LEN;
/// Digits of a name: those of the largest offset.
const NAME_DIGITS: usize = 20;
const NAME_SUFFIX: &str = ".oplog";
/// How far apart frames are that a segment remembers the places of.
const MARK_DISTANCE: u64 = 256 * 1024;
/// Spares begin with it, those that are not ready yet with [`UNREADY_PREFIX`].
pub(crate) const SPARE_PREFIX: &str = "spare-";
/// What is being made; what is left of it after a crash is removed.
pub(crate) const UNREADY_PREFIX: &str = "new-";

/// What the first bytes of a segment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first_offset: u64,
    pub(crate) created_ms: u64,
    /// One more than that of the segment made before it: frames that an earlier life of the file has left have a lower one.
    pub(crate) generation: u32,
    /// What checksums of frames begin with; the same in all segments.
    pub(crate) salt: u32,
    pub(crate) replication_id: ReplicationId,
    /// The history that the log told up to here, if no segment says so: the one that did had nothing else to say, and this one took
    /// its place.
    pub(crate) former_id: Option<ReplicationId>,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &(HEADER_LEN as u32).to_le_bytes());
        put(&mut bytes, 16, &self.first_offset.to_le_bytes());
        put(&mut bytes, 24, &self.created_ms.to_le_bytes());
        put(&mut bytes, 32, &self.generation.to_le_bytes());
        put(&mut bytes, 36, &self.salt.to_le_bytes());
        put(&mut bytes, ID_AT, self.replication_id.as_bytes());
        if let Some(former) = &self.former_id {
            put(&mut bytes, FORMER_ID_AT, former.as_bytes());
        }
        let crc = crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default());
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, Reason> {
        if !bytes.starts_with(MAGIC) || crc32c::crc32c(bytes.get(..CRC_AT).unwrap_or_default()) != u32_at(bytes, CRC_AT)
        {
            return Err(Reason::Header);
        }
        if u32_at(bytes, 8) != VERSION {
            return Err(Reason::Version);
        }
        let id = bytes.get(ID_AT..ID_AT + ReplicationId::LEN).and_then(ReplicationId::parse);
        Ok(Self {
            first_offset: u64_at(bytes, 16),
            created_ms: u64_at(bytes, 24),
            generation: u32_at(bytes, 32),
            salt: u32_at(bytes, 36),
            replication_id: id.ok_or(Reason::Header)?,
            // Zeros if there is none.
            former_id: bytes.get(FORMER_ID_AT..FORMER_ID_AT + ReplicationId::LEN).and_then(ReplicationId::parse),
        })
    }
}

/// The name of the segment that begins at an offset: sorted by name, segments are in order.
pub(crate) fn name(first_offset: u64) -> String {
    format!("{first_offset:0width$}{NAME_SUFFIX}", width = NAME_DIGITS)
}

/// The offset of a segment's name; `None` for other files.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(NAME_SUFFIX)?;
    (digits.len() == NAME_DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// A segment of an open log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    /// Where some of its frames are: enough of them that nobody has to read much to find another.
    marks: Mutex<Vec<Mark>>,
}

/// Where a frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: u64,
    pub(crate) position: u64,
}

impl Segment {
    pub(crate) fn new(folder: &Path, header: SegmentHeader) -> Self {
        Self { path: folder.join(name(header.first_offset)), header, marks: Mutex::default() }
    }

    /// Remembers where a frame is, unless that is close to the last one remembered.
    pub(crate) fn mark(&self, mark: Mark) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let last = marks.last().map_or(0, |last| last.position);
        if mark.position >= last + MARK_DISTANCE {
            marks.push(mark);
        }
    }

    /// The last known frame that begins at an offset or before it.
    pub(crate) fn find(&self, offset: u64) -> Mark {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = marks.partition_point(|mark| mark.offset <= offset);
        let first = Mark { offset: self.header.first_offset, position: HEADER_LEN as u64 };
        behind.checked_sub(1).and_then(|last| marks.get(last)).copied().unwrap_or(first)
    }

    pub(crate) fn first(&self) -> u64 {
        self.header.first_offset
    }

    pub(crate) fn info(&self) -> SegmentInfo {
        SegmentInfo {
            path: self.path.clone(),
            first_offset: Offset(self.header.first_offset),
            created_ms: self.header.created_ms,
            replication_id: self.header.replication_id,
            former_id: self.header.former_id,
        }
    }
}

/// A segment, for whoever wants to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its file.
    pub path: PathBuf,
    /// The offset of its first byte.
    pub first_offset: Offset,
    /// When it was begun.
    pub created_ms: u64,
    /// Which history it is part of.
    pub replication_id: ReplicationId,
    /// The history that was told up to its beginning, if the segment before it is not to be asked.
    pub former_id: Option<ReplicationId>,
}
