//! A file that is open, and one version of it.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

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
    Descriptor(Arc<Descriptor>),
}

/// A file that is open, and when its stretches were seen to be in the kernel's memory.
#[derive(Debug)]
pub struct Descriptor {
    file: OwnedFd,
    /// For each stretch of [`STRETCH_BYTES`], in milliseconds since the start of the process, of which the lowest bits are kept; 0 for
    /// never.
    in_memory_ms: Box<[AtomicU32]>,
}

/// Bytes of a file that are looked for in memory, and loaded, together.
pub const STRETCH_BYTES: u64 = 1 << 20;

/// Of how many stretches it is noted when they were in memory. Those behind them are looked for each time.
const STRETCHES_MAX: u64 = 1_024;

/// How long what was in the kernel's memory is taken for being there still: what was asked for so lately goes last. Were it gone, a worker
/// would wait for the disk once.
const IN_MEMORY_MS: u32 = 1_000;

impl Descriptor {
    /// A file of this length that has just been opened.
    #[must_use]
    pub fn new(file: OwnedFd, length: u64) -> Self {
        let stretches = length.div_ceil(STRETCH_BYTES).min(STRETCHES_MAX);
        Self { file, in_memory_ms: (0..stretches).map(|_| AtomicU32::new(0)).collect() }
    }

    fn in_memory_ms(&self, stretch: u64) -> Option<&AtomicU32> {
        self.in_memory_ms.get(usize::try_from(stretch).ok()?)
    }

    /// Whether the bytes of a stretch were seen in the kernel's memory a moment ago.
    #[must_use]
    pub fn was_in_memory(&self, stretch: u64, now_ms: u64) -> bool {
        let seen = self.in_memory_ms(stretch).map_or(0, |seen| seen.load(Relaxed));
        seen != 0 && low_bits(now_ms).wrapping_sub(seen) < IN_MEMORY_MS
    }

    /// Notes that the bytes of a stretch are in the kernel's memory.
    pub fn note_in_memory(&self, stretch: u64, now_ms: u64) {
        if let Some(seen) = self.in_memory_ms(stretch) {
            seen.store(low_bits(now_ms), Relaxed);
        }
    }
}

/// The lowest bits of a time; never 0.
fn low_bits(now_ms: u64) -> u32 {
    u32::try_from(now_ms & u64::from(u32::MAX)).unwrap_or(1).max(1)
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
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
    /// Whether what is kept is still what the file says, as far as that can be told for nothing.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            Content::Descriptor(file) => {
                rustix::fs::fstat(file.as_fd()).is_ok_and(|stat| Facts::from(&stat) == self.facts)
            }
        }
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::Descriptor(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_was_in_memory_for_a_while() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let descriptor = Descriptor::new(file(), STRETCH_BYTES + 1);
        // The process has just started, and it runs for longer than 32 bits of milliseconds.
        for now_ms in [0, 5_000, (1 << 32) - 500, (1 << 40) + 5_000] {
            assert!(!descriptor.was_in_memory(1, now_ms));
            descriptor.note_in_memory(1, now_ms);
            assert!(descriptor.was_in_memory(1, now_ms) && descriptor.was_in_memory(1, now_ms + 900), "{now_ms}");
            assert!(!descriptor.was_in_memory(1, now_ms + 1_100), "{now_ms}");
        }
        assert!(!descriptor.was_in_memory(0, 1 << 40));
        // Behind the end, and too far behind: nothing is noted.
        let longest = Descriptor::new(file(), u64::MAX);
        for (descriptor, stretch) in [(&descriptor, 2), (&longest, STRETCHES_MAX)] {
            descriptor.note_in_memory(stretch, 7);
            assert!(!descriptor.was_in_memory(stretch, 7));
        }
    }
}
