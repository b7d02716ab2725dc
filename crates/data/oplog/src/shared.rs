//! What the threads of a log share, and the one that syncs.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{
    LogError, Offset, Options,
    disk::{Disk, DiskFile},
    end_note::{EndNote, KnownEnd},
    segment::Segment,
};

/// How long the first segment is that stands in for a prepared one. It is filled at once, by the shard's thread: about half a
/// millisecond.
pub(crate) const BRIDGE_LEN_MIN: u64 = 1024 * 1024;

/// Known to all threads of a log.
#[derive(Debug)]
pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    /// How far frames are in files, synced or not: readers go no further.
    pub(crate) written: AtomicU64,
    /// How far they are synced.
    pub(crate) durable: AtomicU64,
    /// A sync has failed: nothing is done any more.
    pub(crate) failed: AtomicBool,
    lists: Mutex<Lists<D::File>>,
    /// Held while files are synced.
    syncing: Mutex<()>,
    /// What is noted of the end; nothing while the log is made or cut.
    end_note: Mutex<Option<EndNote<D::File>>>,
}

/// What changes with segments, not with frames. The lock is never held over a call of the disk.
#[derive(Debug)]
pub(crate) struct Lists<F> {
    /// In order; the last one is written to.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    /// Those with something that may not be synced; the last one is written to.
    pub(crate) unsynced: Vec<Arc<SegmentFile<F>>>,
    /// Names have changed since the folder was synced.
    pub(crate) folder_changed: bool,
    /// Files that are ready to become segments.
    pub(crate) spares: Vec<PathBuf>,
    /// How long a segment becomes that no file is ready for.
    pub(crate) bridge_len: u64,
    /// Segments that are not part of the log any more, the oldest first.
    pub(crate) garbage: VecDeque<Arc<Segment>>,
    /// For names of new files.
    pub(crate) next_number: u64,
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct SegmentFile<F> {
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: F,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(disk: D, folder: PathBuf, options: Options, segments: VecDeque<Arc<Segment>>) -> Self {
        Self {
            disk,
            folder,
            options,
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            lists: Mutex::new(Lists {
                segments,
                unsynced: Vec::new(),
                folder_changed: false,
                spares: Vec::new(),
                bridge_len: BRIDGE_LEN_MIN,
                garbage: VecDeque::new(),
                next_number: 0,
            }),
            syncing: Mutex::new(()),
            end_note: Mutex::new(None),
        }
    }

    pub(crate) fn lists(&self) -> MutexGuard<'_, Lists<D::File>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the end noted from now on, or not any more.
    pub(crate) fn set_end_note(&self, note: Option<EndNote<D::File>>) {
        *self.end_note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    /// Notes that all of a segment is durable up to an offset.
    fn note_end(&self, segment: &Segment, durable: u64) -> Result<(), LogError> {
        let mut note = self.end_note.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(note) = note.as_mut() else { return Ok(()) };
        note.record(KnownEnd { salt: segment.header.salt, segment: segment.first(), durable })
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        if self.failed.load(Ordering::Acquire) { Err(LogError::SyncFailed) } else { Ok(()) }
    }

    /// A name for a file that is being made.
    pub(crate) fn new_number(&self) -> u64 {
        let mut lists = self.lists();
        lists.next_number += 1;
        lists.next_number
    }

    /// The segment that has an offset in it, or begins there.
    pub(crate) fn segment_of(&self, offset: u64) -> Option<Arc<Segment>> {
        let lists = self.lists();
        let behind = lists.segments.partition_point(|segment| segment.first() <= offset);
        lists.segments.get(behind.checked_sub(1)?).map(Arc::clone)
    }

    /// The segment after one; and whether that one is still part of the log.
    pub(crate) fn segment_after(&self, segment: &Arc<Segment>) -> (bool, Option<Arc<Segment>>) {
        let lists = self.lists();
        let place = lists.segments.iter().position(|other| Arc::ptr_eq(other, segment));
        (place.is_some(), place.and_then(|place| lists.segments.get(place + 1)).map(Arc::clone))
    }

    /// Where the log begins.
    pub(crate) fn first(&self) -> u64 {
        self.lists().segments.front().map_or(0, |segment| segment.first())
    }

    pub(crate) fn sync(&self) -> Result<Offset, LogError> {
        // IMPORTANT: one at a time. Two that have the same list would each take the files off it that the other one has taken off already,
        // so the segment that is written to would be on it no more, and never be synced.
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let (files, folder_changed, written) = {
            let mut lists = self.lists();
            // Read under the lock that segments change under: what was written up to here is in these files.
            let written = self.written.load(Ordering::Acquire);
            (lists.unsynced.clone(), std::mem::take(&mut lists.folder_changed), written)
        };
        if self.durable.load(Ordering::Acquire) >= written && !folder_changed {
            return Ok(Offset(self.durable.load(Ordering::Acquire)));
        }
        let result = self.sync_files(&files, folder_changed).and_then(|()| match files.last() {
            Some(file) => self.note_end(&file.segment, written),
            None => Ok(()),
        });
        if result.is_err() {
            // IMPORTANT: never tried again. The pages that could not be written may count as clean now, and a second sync
            // would succeed without them.
            self.failed.store(true, Ordering::Release);
        }
        result?;
        let mut lists = self.lists();
        let keep = files.len().saturating_sub(1).min(lists.unsynced.len());
        lists.unsynced.drain(..keep);
        drop(lists);
        Ok(Offset(self.durable.fetch_max(written, Ordering::AcqRel).max(written)))
    }

    fn sync_files(&self, files: &[Arc<SegmentFile<D::File>>], folder_changed: bool) -> Result<(), LogError> {
        // NOTE: in order, so that whatever is durable has all before it durable too.
        for file in files {
            file.file.sync().map_err(LogError::io("sync", &file.segment.path))?;
        }
        if folder_changed {
            self.disk.sync_folder(&self.folder).map_err(LogError::io("sync", &self.folder))?;
        }
        Ok(())
    }
}

/// Makes what was written durable, from a thread of its own: `fdatasync` takes as long as it takes. There may be several.
#[derive(Debug)]
pub struct Syncer<D: Disk> {
    pub(crate) shared: Arc<Shared<D>>,
}

impl<D: Disk> Syncer<D> {
    /// Syncs what has been written so far; up to where the log is durable then.
    ///
    /// # Errors
    ///
    /// The disk's. The log can neither be written nor synced after that.
    pub fn sync(&mut self) -> Result<Offset, LogError> {
        self.shared.sync()
    }

    /// Up to where the log is durable.
    #[must_use]
    pub fn durable(&self) -> Offset {
        Offset(self.shared.durable.load(Ordering::Acquire))
    }

    /// Whether something was written that is not durable.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.shared.written.load(Ordering::Acquire) > self.shared.durable.load(Ordering::Acquire)
    }
}
