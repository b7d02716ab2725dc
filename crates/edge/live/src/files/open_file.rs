//! A file that is open, and one version of it.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::fs::{FileType, Stat};
use web::FileFacts;

/// What the system says of a file: whether two looks saw the same version of the same file follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub kind: FileType,
    /// The device that it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Bytes.
    pub length: u64,
    /// Last modification: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    /// Last change of anything: seconds since 1970, and nanoseconds.
    pub changed: (i64, u32),
}

#[expect(clippy::useless_conversion, reason = "types of these fields differ between architectures")]
impl From<&Stat> for Facts {
    fn from(stat: &Stat) -> Self {
        let nanoseconds = |value: u64| u32::try_from(value).unwrap_or(0);
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            device: stat.st_dev.into(),
            inode: stat.st_ino.into(),
            length: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime.into(), nanoseconds(stat.st_mtime_nsec.into())),
            changed: (stat.st_ctime.into(), nanoseconds(stat.st_ctime_nsec.into())),
        }
    }
}

impl Facts {
    /// What tags and conditions are made of.
    #[must_use]
    pub fn for_web(&self) -> FileFacts {
        let (modified, nanoseconds) = self.modified;
        FileFacts { length: self.length, modified, nanoseconds, inode: self.inode }
    }

    /// Whether what was read at its first length is still a part of it: it has not changed, or it has grown. NOTE: what grows may have
    /// been written anew as well, which nobody can tell.
    #[must_use]
    pub fn still_holds(&self, later: &Self) -> bool {
        later.length > self.length || later.length == self.length && later.modified == self.modified
    }
}

/// Where the bytes of a file are.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory, whole and of one version.
    Memory(Arc<[u8]>),
    /// In the file.
    Descriptor(Arc<OwnedFd>),
}

/// A version of a file.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// What the system says of it.
    pub facts: Facts,
    /// Its bytes.
    pub content: Content,
    /// Whether another version would have other facts: one that was written in the same moment might not.
    pub is_settled: bool,
}

impl OpenFile {
    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::Descriptor(_) => 0,
        }
    }
}
