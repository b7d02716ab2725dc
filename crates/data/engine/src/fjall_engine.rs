//! Records on disk, in fjall's log-structured merge tree.
//!
//! It is the tree alone (crate `lsm-tree`), not the database that fjall makes of it. The database has a journal; a shard has
//! its log, from which all that a tree has not written yet can be made again. So the journal would write everything a third
//! time; and once a write to it has failed, as on a full disk, fjall's database must be opened anew. Here it is as follows.
//!
//! # What is where
//!
//! ```text
//!   write -> buffer -> (full, or sync) -> sealed buffers -> table files, level 0 -> levels 1 to 6
//!                                 thread tables-flush ^        threads tables-merge ^
//! ```
//!
//! Readers wait for none of this (`views`).
//!
//! A buffer is sealed between two batches, never within one, and all that is sealed becomes table files at once, by the
//! exchange of a file that lists them. So a crash leaves the state after some batch, with that batch's offset.
//!
//! # When the disk fails
//!
//! A flush that fails leaves the sealed buffers where they are: they are read, and the flush is made again, first after
//! [`RETRY_DELAY`]. Meanwhile writes are refused with the error, so that whoever writes holds on to his batches. What
//! was half written is deleted. The same goes for merges, only that these refuse no writes until level 0 is too deep.
//!
//! Blocks in files have checksums (XXH3, 128 bits) that are verified whenever one is read from the disk. A flipped bit is an
//! [`Error::Damaged`] and never a value.
//!
//! # Memory
//!
//! One buffer is filled while at most two wait to be written, and a fourth share is left for what overshoots: a batch goes into
//! one buffer as a whole. The rest of the bound is the cache of blocks. Filters and indexes of the upper levels stay in memory
//! beside it; [`Engine::memory_bytes`] counts them.
//!
//! A merge has a block of each run that it reads, and a record that is longer than a block is one. So where records are long,
//! level 0 has fewer runs, and they are merged a few at a time; [`Engine::bytes_to_make_files`] says what that takes.
//!
//! # Costs
//!
//! `cargo run --profile quick -p engine --example measure` says. With records of 16 and 100 bytes in any order, on two cores
//! that fifteen other threads wanted as well, in CPU time of all threads with flushes and merges: 3.9 us a record written in
//! batches of 32, 5.3 in batches of 1,000 and of 100,000 (buffers and files are larger by then), 2.8 to 5 for a hot record, 0.4
//! to 0.7 for one that is not there, 0.3 to 0.5 for the next one of a scan. fjall with its journal took 3.6 and 5.7 for the same
//! writes in the same minutes. Opening 1.5 million records takes 30 to 70 ms.

mod disk;
mod frozen;
mod lookup;
mod maintenance;
mod manifest;
mod page_cache;
mod snapshots;
mod sources;
mod views;

#[cfg(test)]
mod tests;

pub use self::frozen::open_frozen;
pub use self::page_cache::PageCache;

use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::config::PartitioningPolicy;
use lsm_tree::{AbstractTree as _, AnyTree, Cache, Config, DescriptorTable, InternalValue, SeqNo};
use lsm_tree::{SequenceNumberCounter, Tree, ValueType};

use self::disk::Disk;
use self::lookup::Finding;
use self::maintenance::Maintenance;
use self::snapshots::{Instant, Snapshots};
use self::views::Views;
use crate::{
    Batch, Bounds, DamagePlace, Direction, Engine, Error, Key, LogOffset, Lookup, RESERVED_PREFIX, Records, Result,
    Scan, Value,
};

/// Where the applied offset lies.
pub(crate) const APPLIED_KEY: [u8; 3] = [RESERVED_PREFIX[0], RESERVED_PREFIX[1], b'a'];
/// Sealed buffers that may wait before writes do.
const SEALED_MAX: usize = 2;
/// Runs of level 0, each of which a read has to look into, before writes wait for merges.
const RUNS_MAX: usize = 24;
/// The same where records are so long that a merge of more would take too much memory.
const RUNS_MIN: usize = 3;
/// From how many files of level 0 on they are merged, as the tree has it by itself.
const MERGED_FROM: u8 = 4;
/// By levels, whether indexes and filters are in blocks of 4 kB rather than in one for each file; the last is that of all further
/// ones. What is in one block stays in memory at level 0. Anywhere else, blocks of 20 to 200 kB would be read once more for every
/// tenth record that no cache has, and drive out what is in the cache; and [`lookup`] does not see into such an index.
const PARTITIONED_INDEXES: [bool; 2] = [false, true];
const PARTITIONED_FILTERS: [bool; 2] = [false, true];
/// How long after a failure the disk is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// How blocks of records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// By LZ4, from level 2 on: what has stayed for a while.
    Lz4,
}

/// How much a [`FjallEngine`] may take.
#[derive(Debug, Clone)]
pub struct FjallOptions {
    /// Memory in bytes: cache of blocks and write buffers together.
    pub memory_bytes_max: u64,
    /// Compression of blocks.
    pub compression: Compression,
    /// Threads that merge files.
    pub threads: usize,
    /// How many files are kept open.
    pub files_max: usize,
    /// Whether [`Engine::lookup`] reads through the machine's page cache.
    pub page_cache: PageCache,
}

impl Default for FjallOptions {
    fn default() -> Self {
        Self {
            memory_bytes_max: 128 << 20,
            compression: Compression::Lz4,
            threads: 1,
            files_max: 512,
            page_cache: PageCache::Auto,
        }
    }
}

impl FjallOptions {
    fn buffer_bytes(&self) -> u64 {
        (self.memory_bytes_max / 8).clamp(1 << 20, 64 << 20)
    }

    fn cache_bytes(&self) -> u64 {
        self.memory_bytes_max.saturating_sub(self.buffer_bytes() * 4).max(1 << 20)
    }

    fn table_bytes(&self) -> u64 {
        (self.buffer_bytes() * 4).clamp(8 << 20, 64 << 20)
    }
}

/// An engine on disk. Dropping it loses what was not synced: the log has it.
pub struct FjallEngine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    tree: Tree,
    folder: PathBuf,
    cache: Arc<Cache>,
    seqno: SequenceNumberCounter,
    snapshots: Snapshots,
    views: Views,
    /// Held while a batch goes into the buffer, and while a buffer is sealed.
    writing: Mutex<()>,
    /// The offset of the last batch that had one.
    applied: Mutex<Option<LogOffset>>,
    buffer_bytes: u64,
    table_bytes: u64,
    maintenance: Maintenance,
    /// Read by whoever makes files, written by whoever deletes what was half written.
    files: RwLock<()>,
    /// Keeps other processes away.
    _lock: File,
}

impl FjallEngine {
    /// Opens the records in a folder, which is made if it is not there.
    pub fn open(folder: &Path, options: &FjallOptions) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("lock"))?;
        if let Err(error) = lock.try_lock() {
            return Err(match error {
                std::fs::TryLockError::Error(error) => Error::Io(error),
                std::fs::TryLockError::WouldBlock => Error::Io(std::io::Error::other("another process has the folder")),
            });
        }
        manifest::verify(&folder.join("tree"))?;
        let seqno = SequenceNumberCounter::default();
        let cache = Arc::new(Cache::with_capacity_bytes(options.cache_bytes()));
        // Half of them for reads through the page cache, half for those past it.
        let files_max = (options.files_max / 2).max(16);
        let descriptors = Arc::new(DescriptorTable::new(files_max));
        let config = Config::new(folder.join("tree"), seqno.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::clone(&cache))
            .use_descriptor_table(Some(Arc::clone(&descriptors)))
            .data_block_compression_policy(compression(options.compression))
            .index_block_partitioning_policy(PartitioningPolicy::new(PARTITIONED_INDEXES))
            .filter_block_partitioning_policy(PartitioningPolicy::new(PARTITIONED_FILTERS));
        let tree = open_tree(config)?;
        seqno.fetch_max(tree.get_highest_seqno().map_or(1, |highest| highest + 1));
        let applied = decode_applied(tree.get(APPLIED_KEY, SeqNo::MAX)?)?;
        let disk = Arc::new(Disk::new(tree.id(), Arc::clone(&cache), descriptors, files_max, options.page_cache));
        let shared = Arc::new(Shared {
            snapshots: Snapshots::new(seqno.get()),
            views: Views::new(&tree, disk),
            maintenance: Maintenance::default(),
            buffer_bytes: options.buffer_bytes(),
            table_bytes: options.table_bytes(),
            writing: Mutex::new(()),
            applied: Mutex::new(applied),
            files: RwLock::new(()),
            folder: folder.to_owned(),
            _lock: lock,
            tree,
            cache,
            seqno,
        });
        shared.maintenance.set_durable(applied);
        let threads = maintenance::start(&shared, options.threads.max(1))?;
        Ok(Self { shared, threads })
    }
}

/// Opens the tree in a folder.
fn open_tree(config: Config) -> Result<Tree> {
    // A damaged file may be more than the tree expects.
    let tree = crate::writer::guarded(|| Ok(config.open()?)).map_err(|error| match error {
        Error::Broken(text) => Error::damaged(text),
        error => error,
    })?;
    match tree {
        AnyTree::Standard(tree) => Ok(tree),
        AnyTree::Blob(_) => Err(Error::Engine("the folder holds a tree of another kind".into())),
    }
}

impl Drop for FjallEngine {
    fn drop(&mut self) {
        self.shared.maintenance.stop();
        for thread in self.threads.drain(..) {
            // What its panic was about stands in the log of errors already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn applied(&self) -> Option<LogOffset> {
        *self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_writing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of blocks a merge is to have in memory at most: half of all.
    fn merge_bytes_max(&self) -> u64 {
        self.buffer_bytes * 4
    }

    /// Seals the buffer if it holds anything. The caller holds `writing`.
    fn seal(&self) {
        if self.views.seal(&self.tree) {
            self.maintenance.sealed(self.applied());
        }
    }
}

impl Records for FjallEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.shared.views.current().get(key).map_err(|error| error.at(|| DamagePlace::At(key.to_vec())))
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(self.shared.snapshots.open(&self.shared.views), bounds, direction)
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        Ok(self.shared.applied())
    }
}

impl Engine for FjallEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        let shared = &self.shared;
        // Before the lock: without it, flushes cannot let go of what they have written.
        shared.maintenance.wait_for_room(&shared.tree, shared.merge_bytes_max())?;
        let _writing = shared.lock_writing();
        let seqno = shared.seqno.next();
        // One buffer for all of it: nobody seals it meanwhile.
        let buffer = shared.tree.active_memtable();
        for (key, change) in batch.iter() {
            let _ = buffer.insert(match change {
                Some(value) => InternalValue::from_components(key.clone(), value.clone(), seqno, ValueType::Value),
                None => InternalValue::new_tombstone(key.clone(), seqno),
            });
        }
        if let Some(LogOffset(offset)) = batch.applied() {
            let offset = offset.to_be_bytes();
            let _ = buffer.insert(InternalValue::from_components(APPLIED_KEY, offset, seqno, ValueType::Value));
            *shared.applied.lock().unwrap_or_else(PoisonError::into_inner) = batch.applied();
        }
        shared.snapshots.publish(seqno + 1);
        if buffer.size() >= shared.buffer_bytes {
            shared.seal();
        }
        Ok(())
    }

    fn lookup(&self, key: &Key, keeps: bool) -> Option<Box<dyn Lookup>> {
        let views = &self.shared.views;
        Some(Box::new(Finding::new(Arc::clone(views.disk()), views.current(), key.clone(), keeps)))
    }

    fn get_cached(&self, key: &Key) -> Option<Option<Value>> {
        let views = &self.shared.views;
        Finding::new(Arc::clone(views.disk()), views.current(), key.clone(), false).in_memory()
    }

    fn snapshot(&self) -> Arc<dyn Records> {
        Arc::new(Snapshot(self.shared.snapshots.open(&self.shared.views)))
    }

    fn sync(&self) -> Result<()> {
        {
            let _writing = self.shared.lock_writing();
            self.shared.seal();
        }
        maintenance::flush(&self.shared)
    }

    fn durable(&self) -> Option<LogOffset> {
        self.shared.maintenance.durable()
    }

    fn drop_files(&self, bounds: &Bounds) -> Result<()> {
        maintenance::drop_files(&self.shared, bounds)
    }

    fn compact(&self) -> Result<()> {
        self.sync()?;
        maintenance::merge_all(&self.shared)
    }

    fn disk_bytes(&self) -> u64 {
        bytes_below(&self.shared.folder)
    }

    fn is_making_files(&self) -> bool {
        self.shared.maintenance.is_making_files()
    }

    fn bytes_to_make_files(&self) -> u64 {
        self.shared.maintenance.bytes_of_a_merge()
    }

    fn memory_bytes(&self) -> u64 {
        let tree = &self.shared.tree;
        let pinned = tree.pinned_filter_size() + tree.pinned_block_index_size();
        let tops = self.shared.views.current().sources().bytes();
        self.shared.cache.size() + tree.version_memtable_size_sum() + pinned as u64 + tops
    }
}

struct Snapshot(Instant);

impl Records for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let key = Key::from(key);
        let bounds = Bounds { from: Bound::Included(key.clone()), to: Bound::Included(key.clone()) };
        match self.0.range(&bounds).next() {
            None => Ok(None),
            Some(Ok(record)) => Ok(Some(record.value)),
            Some(Err(error)) => {
                let error = Error::from(error).at(|| DamagePlace::At(key.to_vec()));
                Err(error.in_file(|| self.0.damaged_file(&bounds, Direction::Forward)))
            }
        }
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(self.0.clone(), bounds, direction)
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        decode_applied(self.get(&APPLIED_KEY)?)
    }
}

fn scan(instant: Instant, bounds: &Bounds, direction: Direction) -> Scan {
    let bounds = bounds.public();
    if bounds.is_empty() {
        return Box::new(std::iter::empty());
    }
    let mut range = instant.range(&bounds);
    let mut last: Option<Key> = None;
    let mut ended = false;
    Box::new(std::iter::from_fn(move || {
        // Its files are kept for as long as the scan lives.
        let _instant = &instant;
        if ended {
            return None;
        }
        let next = match direction {
            Direction::Forward => range.next(),
            Direction::Backward => range.next_back(),
        };
        match next? {
            Ok(record) => {
                last = Some(record.key.user_key.clone());
                Some(Ok((record.key.user_key, record.value)))
            }
            Err(error) => {
                ended = true;
                let error = Error::from(error).at(|| behind(last.as_ref(), &bounds, direction));
                let rest = || rest(last.as_ref(), &bounds, direction);
                Some(Err(error.in_file(|| instant.damaged_file(&rest(), direction))))
            }
        }
    }))
}

/// What was left of a scan when it found damage.
fn rest(last: Option<&Key>, bounds: &Bounds, direction: Direction) -> Bounds {
    let Some(last) = last.map(|last| Bound::Excluded(last.clone())) else { return bounds.clone() };
    match direction {
        Direction::Forward => Bounds { from: last, to: bounds.to.clone() },
        Direction::Backward => Bounds { from: bounds.from.clone(), to: last },
    }
}

/// Where a scan was when it found damage.
fn behind(last: Option<&Key>, bounds: &Bounds, direction: Direction) -> DamagePlace {
    let begin = match direction {
        Direction::Forward => &bounds.from,
        Direction::Backward => &bounds.to,
    };
    match (last, begin) {
        (Some(key), _) | (None, Bound::Included(key) | Bound::Excluded(key)) => DamagePlace::Behind(key.to_vec()),
        (None, Bound::Unbounded) => DamagePlace::Unknown,
    }
}

fn compression(compression: Compression) -> lsm_tree::config::CompressionPolicy {
    use lsm_tree::CompressionType::{Lz4, None};
    match compression {
        Compression::None => lsm_tree::config::CompressionPolicy::disabled(),
        Compression::Lz4 => lsm_tree::config::CompressionPolicy::new([None, None, Lz4]),
    }
}

pub(crate) fn decode_applied(value: Option<Value>) -> Result<Option<LogOffset>> {
    let Some(value) = value else { return Ok(None) };
    match <[u8; 8]>::try_from(value.as_ref()) {
        Ok(bytes) => Ok(Some(LogOffset(u64::from_be_bytes(bytes)))),
        Err(error) => Err(Error::damaged(error).at(|| DamagePlace::At(APPLIED_KEY.to_vec()))),
    }
}

/// What the files below a folder take of the disk.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            // Blocks of 512 bytes, whatever the file system's are.
            Ok(meta) => meta.blocks() * 512,
            // It was there a moment ago.
            Err(_) => 0,
        })
        .sum()
}

impl From<lsm_tree::Error> for Error {
    fn from(error: lsm_tree::Error) -> Self {
        match error {
            lsm_tree::Error::Io(error) => Self::Io(error),
            lsm_tree::Error::InvalidVersion(_) => Self::Engine(Box::new(error)),
            damage => Self::damaged(damage),
        }
    }
}
