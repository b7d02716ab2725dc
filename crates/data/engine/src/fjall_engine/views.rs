//! The tree as readers see it, without waiting for it.
//!
//! The tree has the list of its files and buffers under one lock, and keeps that while it writes a new list and syncs it. On a disk
//! that is busy this takes hundreds of milliseconds, in which nobody could look anything up, not even what is in a buffer. So what
//! readers need of the list lies here as well, and is exchanged for a newer one by whoever has changed the tree.
//!
//! One that is not the newest shows the same records: buffers that have become files since, and files that have been merged.
//! Only a new buffer must be seen by all before anything comes into it; see [`Views::seal`].

use std::collections::VecDeque;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{AbstractTree as _, InternalValue, Memtable, SeqNo, Table, Tree};

use super::disk::Disk;
use super::snapshots::Range;
use super::sources::Sources;
use crate::{Bounds, Direction, Error, Key, Result, Value};

type Buffered = dyn Fn(&[u8]) -> Option<Option<Value>> + Send + Sync;
type Find = dyn Fn(&[u8]) -> Result<Option<Value>> + Send + Sync;
type Locate = dyn Fn(&Bounds, Direction) -> Option<PathBuf> + Send + Sync;
type Walk = dyn Fn(&Bounds, SeqNo) -> Range + Send + Sync;

/// In so many files damage is searched for...
const SEARCHED_FILES_MAX: usize = 64;
/// ... and among so many records of each.
const SEARCHED_RECORDS_MAX: usize = 1_000;

/// The buffers and files of a moment.
pub(super) struct View {
    // NOTE: the tree has no names for the types of what these hold.
    buffered: Arc<Buffered>,
    find: Box<Find>,
    walk: Box<Walk>,
    locate: Box<Locate>,
    sources: Sources,
}

/// The newest view.
pub(super) struct Views {
    current: RwLock<Arc<View>>,
    /// Buffers that are sealed and perhaps in no file yet, the oldest first. Whoever has this lock is the one who makes views.
    sealed: Mutex<VecDeque<Arc<Memtable>>>,
    /// Former views: somebody may still look at one.
    former: Mutex<Vec<Weak<View>>>,
    disk: Arc<Disk>,
}

impl View {
    /// What a tree has now. `sealed` are those of its buffers that are sealed, the oldest first. Its files are looked into without
    /// waiting if there is a disk to do it with; what the former view knows of them is not read again.
    pub(super) fn of(tree: &Tree, sealed: &VecDeque<Arc<Memtable>>, disk: Option<(&Arc<Disk>, Option<&Self>)>) -> Self {
        // In this order: what leaves the buffers in between is in the files then.
        let state = tree.get_version_history_lock().latest_version();
        let files = tree.current_version();
        let all = files.clone();
        let mut buffers = vec![Arc::clone(&state.active_memtable)];
        buffers.extend(sealed.iter().rev().cloned());
        let buffered: Arc<Buffered> =
            Arc::new(move |key| buffers.iter().find_map(|buffer| buffer.get(key, SeqNo::MAX)).map(value_of));
        let memory = Arc::clone(&buffered);
        let find = move |key: &[u8]| {
            if let Some(value) = memory(key) {
                return Ok(value);
            }
            let hash = Builder::get_hash(key);
            for file in files.iter_levels().flat_map(|level| level.iter()).filter_map(|run| run.get_for_key(key)) {
                let found = file.get(key, SeqNo::MAX, hash);
                if let Some(record) =
                    found.map_err(|error| Error::from(error).in_file(|| Some((*file.path).clone())))?
                {
                    return Ok(value_of(record));
                }
            }
            Ok(None)
        };
        let walk = move |bounds: &Bounds, seqno: SeqNo| -> Range {
            let keys = (bounds.from.clone(), bounds.to.clone());
            Box::new(Tree::create_internal_range::<Key, _>(state.clone(), &keys, seqno, None))
        };
        let locate = move |bounds: &Bounds, direction: Direction| {
            let tables = all.iter_levels().flat_map(|level| level.iter()).flat_map(|run| run.iter());
            let mut some = tables.filter(|table| overlaps(table, bounds)).take(SEARCHED_FILES_MAX);
            some.find(|table| is_damaged(table, bounds, direction)).map(|table| (*table.path).clone())
        };
        let none = Sources::default();
        let sources =
            disk.map(|(disk, former)| Sources::of(tree, disk, former.map_or(&none, |former| &former.sources)));
        let sources = sources.unwrap_or_default();
        Self { buffered, find: Box::new(find), walk: Box::new(walk), locate: Box::new(locate), sources }
    }

    /// The last value of a key if a buffer knows it: that may be none.
    pub(super) fn buffered(&self, key: &[u8]) -> Option<Option<Value>> {
        (self.buffered)(key)
    }

    /// The files.
    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The last value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        (self.find)(key)
    }

    /// The records within bounds as they were before a number was given.
    pub(super) fn range(&self, bounds: &Bounds, seqno: SeqNo) -> Range {
        (self.walk)(bounds, seqno)
    }

    /// The file in which reading records within bounds met damage: those in which it may have been are read again.
    pub(super) fn damaged_file(&self, bounds: &Bounds, direction: Direction) -> Option<PathBuf> {
        (self.locate)(bounds, direction)
    }
}

fn overlaps(table: &Table, bounds: &Bounds) -> bool {
    let (first, last) = (&**table.metadata.key_range.min(), &**table.metadata.key_range.max());
    let begins = match &bounds.from {
        Bound::Included(from) | Bound::Excluded(from) => last >= &**from,
        Bound::Unbounded => true,
    };
    begins
        && match &bounds.to {
            Bound::Included(to) | Bound::Excluded(to) => first <= &**to,
            Bound::Unbounded => true,
        }
}

/// Whether one of the first records within bounds cannot be read.
fn is_damaged(table: &Table, bounds: &Bounds, direction: Direction) -> bool {
    let mut records = table.range::<(Bound<Key>, Bound<Key>)>((bounds.from.clone(), bounds.to.clone()));
    let next = || if direction == Direction::Forward { records.next() } else { records.next_back() };
    std::iter::from_fn(next).take(SEARCHED_RECORDS_MAX).any(|record| record.is_err())
}

pub(super) fn value_of(record: InternalValue) -> Option<Value> {
    (!record.is_tombstone()).then_some(record.value)
}

impl Views {
    pub(super) fn new(tree: &Tree, disk: Arc<Disk>) -> Self {
        let sealed = VecDeque::new();
        let view = View::of(tree, &sealed, Some((&disk, None)));
        Self { current: RwLock::new(Arc::new(view)), sealed: Mutex::new(sealed), former: Mutex::default(), disk }
    }

    /// What the files are read with.
    pub(super) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    fn sealed(&self) -> MutexGuard<'_, VecDeque<Arc<Memtable>>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn former(&self) -> MutexGuard<'_, Vec<Weak<View>>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody looks at a view that is not the newest, and may have files that the tree has no more.
    pub(super) fn is_former_in_use(&self) -> bool {
        self.former().iter().any(|view| view.strong_count() > 0)
    }

    /// The newest one.
    pub(super) fn current(&self) -> Arc<View> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn exchange(&self, tree: &Tree, sealed: &VecDeque<Arc<Memtable>>) {
        let former = self.current();
        let next = Arc::new(View::of(tree, sealed, Some((&self.disk, Some(&former)))));
        drop(former);
        let former = std::mem::replace(&mut *self.current.write().unwrap_or_else(PoisonError::into_inner), next);
        let mut all = self.former();
        all.retain(|view| view.strong_count() > 0);
        all.push(Arc::downgrade(&former));
        drop(all);
        // Freed without the lock: it may be the last one to have files that are to be deleted.
        drop(former);
    }

    /// Seals the buffer, if it holds anything. Returns whether it did. The caller sees to it that nobody writes meanwhile: what comes
    /// into the new one is seen by everybody who looks from now on.
    pub(super) fn seal(&self, tree: &Tree) -> bool {
        let mut sealed = self.sealed();
        let Some(buffer) = tree.rotate_memtable() else { return false };
        sealed.push_back(buffer);
        self.exchange(tree, &sealed);
        true
    }

    /// How many buffers are sealed.
    pub(super) fn sealed_len(&self) -> usize {
        self.sealed().len()
    }

    /// The tree has changed its files, and so many of the sealed buffers, the oldest ones, have become some.
    pub(super) fn renew(&self, tree: &Tree, flushed: usize) {
        let mut sealed = self.sealed();
        let flushed = flushed.min(sealed.len());
        sealed.drain(..flushed);
        self.exchange(tree, &sealed);
    }
}
