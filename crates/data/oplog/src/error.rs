//! What can go wrong with a log.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use crate::Offset;

/// Why a log cannot be opened, written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What was written once is not what is there.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// There are no segments, and there were some.
    #[error(
        "the log in {} has no files any more, and was durable up to offset {durable}: put them back as they were, or restore a \
         backup", folder.display()
    )]
    NoSegments {
        /// Where they were.
        folder: PathBuf,
        /// Up to where the log was durable.
        durable: u64,
    },
    /// What is noted of the log's end cannot be used.
    #[error(
        "{} {reason}; it says up to where the log was durable: put it back as it was, or restore a backup; or remove it, and it is \
         not found out whether the newest files of the log are missing", path.display()
    )]
    EndNote {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A sync has failed before. What has reached the disk since the last good one, nobody knows: Linux may have dropped it.
    /// The log has to be opened again.
    #[error("an earlier sync of the log failed; restart to read what has reached the disk")]
    SyncFailed,
    /// Older than what retention has left.
    #[error("offset {asked} is not kept any more: the log begins at {first}")]
    Removed {
        /// What was asked for.
        asked: Offset,
        /// Where the log begins.
        first: Offset,
    },
    /// Behind the end.
    #[error("offset {asked} is behind the end of the log at {end}")]
    Beyond {
        /// What was asked for.
        asked: Offset,
        /// Where it ends.
        end: Offset,
    },
    /// More in one piece than a frame can hold.
    #[error("{len} bytes in one piece are more than a frame can hold")]
    TooLong {
        /// How many they are.
        len: usize,
    },
}

impl LogError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(path: &Path, position: u64, offset: Offset, reason: Reason) -> Self {
        Self::Corrupt(Box::new(Corruption { segment: path.to_owned(), position, offset, reason }))
    }

    /// Whether there is no room: it can be tried again when there is.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { source, .. } if full.contains(&source.kind()))
    }
}

/// Where a log is damaged. Nothing was changed, nothing skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The file.
    pub segment: PathBuf,
    /// The byte in it where the bad frame begins.
    pub position: u64,
    /// The offset up to which the log is good.
    pub offset: Offset,
    /// What is wrong.
    pub reason: Reason,
}

impl std::error::Error for Corruption {}

impl fmt::Display for Corruption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, position, offset, reason } = self;
        write!(
            formatter,
            "the log is damaged in {} at byte {position}, offset {offset}: {reason}. Put the log's files back as they were, or \
             restore a backup; or, to give up all that came later, start the store with --until {offset}",
            segment.display()
        )
    }
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The first bytes of a segment are not a header.
    #[error("the segment's header is not one")]
    Header,
    /// A header or frame of a version that this program does not know.
    #[error("it was written by a newer version of the program")]
    Version,
    /// A checksum does not match.
    #[error("a frame's checksum does not match")]
    Checksum,
    /// A frame of another segment.
    #[error("a frame is of another segment")]
    Generation,
    /// A frame of another place.
    #[error("a frame does not continue the one before it")]
    Offset,
    /// A frame that reaches beyond its segment.
    #[error("a frame is longer than its segment")]
    Length,
    /// The file is not there, and was there durably.
    #[error("the file is missing")]
    Gone,
    /// What is there ends before what was durable.
    #[error("the log ends there, and was durable up to offset {durable}")]
    Short {
        /// Up to where it was durable.
        durable: u64,
    },
    /// The segment ends, and the next one begins later.
    #[error("what came next is missing")]
    Missing,
}
