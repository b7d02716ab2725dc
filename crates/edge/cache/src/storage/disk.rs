//! The disk tier (`-s file,PATH,SIZE`): objects in a file, there again after a restart and after `kill -9`.
//!
//! The index stays in memory. The data file has heads and bodies, in extents of any place; each piece of at most 256 kB has a checksum,
//! and nothing is delivered that does not match it. The journal has what the index must know: a record for each object that is whole,
//! for each that has left (evicted, purged, banned, expired), for times that were shortened, and for each ban. It is written when
//! these things happen, before a purge or a ban returns. A start reads the journal in one go and no data at all, so a cache of a million
//! objects answers at once.
//!
//! What is lost when:
//!
//! - The process is killed: objects that were not whole.
//! - Power is lost: what was not [`Disk::sync`]ed; call that after purges and bans that must not come back. A journal with anything
//!   but whole records in it has perhaps lost a ban, so nothing of it is used, and the cache starts empty.
//! - A piece of data is damaged: its object.
//!
//! A disk that is full, or takes nothing for another reason, is *failing* until [`Disk::probe`] finds that it takes something again. Objects
//! that begin meanwhile are kept in the memory that stands beside it (`Stevedore::falls_back_to`). Pieces of those that were on their way
//! stay in memory, too, bounded by the same size. A journal that could not be written is written anew afterwards.
//!
//! The journal is written anew ([`Compaction`]) when most of it is of the past.
//!
//! NOTE: bodies are read by whoever delivers them, a piece at a time, as Varnish's `file` does with its mapped pages: a piece that the
//! system does not have in memory makes that thread wait for the disk.

mod chunk;
mod compaction;
mod files;
mod memory;
mod records;
mod recovery;
mod space;

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http::ResponseHead;

pub(crate) use chunk::{DiskShare, StoredChunk};
pub use compaction::Compaction;
pub use files::{Files, JournalFile, RealFiles};
pub use memory::MemoryFiles;
pub(crate) use records::Chunks;
pub use recovery::{Recovered, StartedEmpty};
pub(crate) use space::Extent;

use crate::Time;
use space::Space;

/// Journals shorter than this are not written anew.
const COMPACTED_BYTES_MIN: u64 = 4 << 20;

/// What a disk must take before a tier that has failed is used again: one that is full to the brim would fail with the next object.
const PROBE_BYTES_MAX: u64 = 16 << 20;

/// What a disk tier counts.
#[derive(Debug, Default)]
pub struct DiskCounters {
    /// Pieces that were not what was written, or could not be read.
    pub damaged: AtomicU64,
    /// Pieces that could not be written; they are kept in memory.
    pub write_errors: AtomicU64,
    /// Whether the journal could not be written (1): nothing of this tier survives the process then.
    pub journal_failed: AtomicU64,
}

/// What has happened to a disk, for who tells people.
#[derive(Debug)]
pub enum DiskNews {
    /// It takes nothing any more.
    Failing(io::Error),
    /// It takes what it is given again.
    Works,
}

/// Whether a disk takes what it is given.
#[derive(Debug, Default)]
struct Health {
    is_failing: AtomicBool,
    /// What nobody has been told yet.
    news: Mutex<Option<DiskNews>>,
}

/// A disk tier's files.
#[derive(Debug)]
pub struct Disk {
    files: Box<dyn Files>,
    size: u64,
    space: Mutex<Space>,
    journal: Mutex<Journal>,
    health: Health,
    /// What it counts.
    pub counters: DiskCounters,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    bytes: u64,
    /// Those of records of objects that are still there.
    live_bytes: u64,
    has_next: bool,
    next_bytes: u64,
    has_failed: bool,
}

impl Disk {
    /// Waits until bans, purges and objects that have been noted are on the disk. Not to be called by a thread that must not wait.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.files.sync()
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the data file that are free.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.space().free()
    }

    /// Bytes of the journal.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        self.journal().bytes
    }

    /// Whether most of the journal is of the past.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        let journal = self.journal();
        let is_due = journal.has_failed || journal.bytes > COMPACTED_BYTES_MIN.max(2 * journal.live_bytes);
        is_due && !self.is_failing()
    }

    /// Whether it takes nothing, as far as is known.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.health.is_failing.load(Relaxed)
    }

    /// What has happened to it since this was asked last.
    pub fn take_news(&self) -> Option<DiskNews> {
        self.health.news.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tries whether a disk that is failing takes something again. Not to be called by a thread that must not wait.
    pub fn probe(&self) {
        if self.is_failing() && self.files.probe(PROBE_BYTES_MAX.min(self.size / 8)).is_ok() {
            self.health.is_failing.store(false, Relaxed);
            *self.health.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(DiskNews::Works);
        }
    }

    fn note_failure(&self, error: io::Error) {
        if !self.health.is_failing.swap(true, Relaxed) {
            *self.health.news.lock().unwrap_or_else(PoisonError::into_inner) = Some(DiskNews::Failing(error));
        }
    }

    /// A piece; `None` if it is not what was written.
    pub(crate) fn read(&self, chunk: StoredChunk) -> Option<Bytes> {
        let mut bytes = vec![0; chunk.length as usize];
        let read = self.files.read_data(chunk.at, &mut bytes);
        if read.is_ok() && crc32c::crc32c(&bytes) == chunk.sum {
            return Some(bytes.into());
        }
        self.counters.damaged.fetch_add(1, Relaxed);
        None
    }

    pub(crate) fn read_head(&self, chunk: StoredChunk) -> Option<ResponseHead> {
        records::read_head(&self.read(chunk)?)
    }

    #[expect(clippy::unused_self, reason = "the counterpart of `read_head`")]
    pub(crate) fn head_bytes(&self, head: &ResponseHead) -> Vec<u8> {
        records::head(head)
    }

    /// Writes a piece; `None` if that fails.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Option<StoredChunk> {
        let length = u32::try_from(bytes.len()).ok()?;
        if let Err(error) = self.files.write_data(at, bytes) {
            self.counters.write_errors.fetch_add(1, Relaxed);
            self.note_failure(error);
            return None;
        }
        Some(StoredChunk { at, length, sum: crc32c::crc32c(bytes) })
    }

    pub(crate) fn note_ban(&self, number: u64, time: Time, words: &[String]) {
        let mut journal = self.journal();
        match records::ban(number, time, words) {
            Some(record) => self.append(&mut journal, &record),
            // Without the ban, its objects would come back.
            None => self.fail(&mut journal),
        }
    }

    pub(crate) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, journal: &mut Journal, record: &[u8]) {
        if !journal.has_failed {
            if let Err(error) = self.files.append(JournalFile::Current, record) {
                self.note_failure(error);
                self.fail(journal);
                return;
            }
            journal.bytes += record.len() as u64;
        }
        self.append_next(journal, record);
    }

    /// NOTE: a next journal that cannot be written is given up; the current one goes on.
    fn append_next(&self, journal: &mut Journal, record: &[u8]) {
        if journal.has_next {
            if let Err(error) = self.files.append(JournalFile::Next, record) {
                self.note_failure(error);
                journal.has_next = false;
            }
            journal.next_bytes += record.len() as u64;
        }
    }

    /// What a journal lacks must not come back with it.
    fn fail(&self, journal: &mut Journal) {
        journal.has_failed = true;
        journal.has_next = false;
        self.counters.journal_failed.store(1, Relaxed);
        // NOTE: where this fails as well, the disk gives nothing back either, or a record that ends in the middle.
        let _ = self.files.cut_journal(0);
    }
}

/// Smallest part that a large body is divided into.
pub(crate) const PART_BYTES_MIN: u64 = 4 << 10;

/// A new, empty tier.
fn empty(files: Box<dyn Files>, size: u64) -> Arc<Disk> {
    let space = Space::without(size, std::iter::empty());
    Arc::new(Disk {
        files,
        size,
        space: Mutex::new(space),
        journal: Mutex::default(),
        health: Health::default(),
        counters: DiskCounters::default(),
    })
}
