//! Records on disk, in RocksDB: for those who know it, its tools and its tuning (cargo feature `rocksdb`).
//!
//! As with [`FjallEngine`](crate::FjallEngine) there is no journal: the log of the shard is one. A batch goes into one buffer
//! as a whole, and buffers become files one after another, so a crash leaves the state after some batch, with its offset.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType, ErrorKind, LogLevel,
    Options, ReadOptions, WriteBatch, WriteOptions, properties,
};
use self_cell::self_cell;

use crate::fjall_engine::{APPLIED_KEY, bytes_below, decode_applied};
use crate::{Batch, Bounds, DamagePlace, Direction, Engine, Error, Key, LogOffset, Records, Result, Scan, Value};

/// Bits of the filters for each record: one in a hundred that are not there is looked for on the disk.
const FILTER_BITS: f64 = 10.0;
/// Buffers that may wait before writes do, with the one that is being filled.
const BUFFERS_MAX: i32 = 3;
/// How many records a scan fetches at a time.
const SCAN_CHUNK: usize = 256;

/// How much a [`RocksEngine`] may take.
#[derive(Debug, Clone)]
pub struct RocksOptions {
    /// Memory in bytes: cache of blocks and write buffers together.
    pub memory_bytes_max: u64,
    /// Threads that write and merge files.
    pub threads: u16,
    /// How many files are kept open.
    pub files_max: u16,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self { memory_bytes_max: 128 << 20, threads: 2, files_max: 512 }
    }
}

/// An engine on disk. Dropping it loses what was not synced: the log has it.
pub struct RocksEngine {
    db: Arc<DB>,
    cache: Cache,
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    /// Has what was written so far made a file.
    flush: Option<mpsc::SyncSender<()>>,
    flusher: Option<JoinHandle<()>>,
    flush_bytes: usize,
}

/// Up to where the records are true.
struct State {
    /// Now.
    applied: Option<LogOffset>,
    /// After a crash.
    durable: Option<LogOffset>,
    /// Bytes that were written since files were asked for.
    written: usize,
}

self_cell!(
    /// A snapshot together with what it is of.
    struct Instant {
        owner: Arc<DB>,
        #[covariant]
        dependent: Borrowed,
    }
);

type Borrowed<'a> = rocksdb::Snapshot<'a>;

impl RocksEngine {
    /// Opens the records in a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// Another process has it, or what is there is damaged.
    pub fn open(folder: &Path, options: &RocksOptions) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let buffers = (options.memory_bytes_max / 2).max(4 << 20);
        let cache = Cache::new_lru_cache(as_size(options.memory_bytes_max.saturating_sub(buffers).max(1 << 20)));
        let db = DB::open(&database_options(options, buffers, &cache), folder)?;
        let db = Arc::new(db);
        let applied = decode_applied(db.get(APPLIED_KEY)?.map(Value::from))?;
        let state = Arc::new(Mutex::new(State { applied, durable: applied, written: 0 }));
        let (flush, wanted) = mpsc::sync_channel(1);
        let flusher = std::thread::Builder::new().name("flush".into()).spawn({
            let (db, state) = (Arc::clone(&db), Arc::clone(&state));
            move || {
                while wanted.recv().is_ok() {
                    // What goes wrong fails the next write.
                    let _ = flush_to_disk(&db, &state);
                }
            }
        })?;
        Ok(Self {
            db,
            cache,
            folder: folder.to_owned(),
            state,
            flush: Some(flush),
            flusher: Some(flusher),
            flush_bytes: buffer_bytes(buffers) / 2,
        })
    }

    fn instant(&self) -> Arc<Instant> {
        Arc::new(Instant::new(Arc::clone(&self.db), |db| db.snapshot()))
    }

    fn figure(&self, name: &properties::PropName) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        drop(self.flush.take());
        if let Some(flusher) = self.flusher.take() {
            let _ = flusher.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has all that was written so far be in files. RocksDB does so by itself too, but does not say up to which batch.
fn flush_to_disk(db: &DB, state: &Mutex<State>) -> Result<()> {
    let applied = lock(state).applied;
    db.flush()?;
    let mut state = lock(state);
    state.durable = state.durable.max(applied);
    Ok(())
}

/// The size of a buffer.
fn buffer_bytes(buffers: u64) -> usize {
    as_size(buffers / BUFFERS_MAX.unsigned_abs() as u64)
}

fn database_options(wanted: &RocksOptions, buffers: u64, cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_bloom_filter(FILTER_BITS, false);
    // Filters and indexes count for the bound, too.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(buffer_bytes(buffers));
    options.set_max_write_buffer_number(BUFFERS_MAX);
    options.set_max_background_jobs(wanted.threads.max(2).into());
    options.set_max_open_files(wanted.files_max.max(16).into());
    options.set_compression_per_level(&[
        DBCompressionType::None,
        DBCompressionType::None,
        DBCompressionType::Lz4,
        DBCompressionType::Lz4,
        DBCompressionType::Lz4,
        DBCompressionType::Lz4,
        DBCompressionType::Lz4,
    ]);
    // Its own log of what it does is no place that anybody here looks at.
    options.set_log_level(LogLevel::Error);
    options.set_keep_log_file_num(1);
    options
}

/// Sizes are those of this machine's memory.
fn as_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Records for RocksEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let found = self.db.get_pinned(key).map_err(|error| Error::from(error).at(|| DamagePlace::At(key.to_vec())))?;
        Ok(found.map(|value| Value::from(&*value)))
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(self.instant(), bounds, direction)
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        Ok(lock(&self.state).applied)
    }
}

/// Files are never dropped as a whole: RocksDB would take them from snapshots as well.
impl Engine for RocksEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        let mut changes = WriteBatch::default();
        for (key, change) in batch.iter() {
            match change {
                Some(value) => changes.put(key, value),
                None => changes.delete(key),
            }
        }
        if let Some(LogOffset(offset)) = batch.applied() {
            changes.put(APPLIED_KEY, offset.to_be_bytes());
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let bytes = changes.size_in_bytes();
        // Held meanwhile, so that offsets do not go back when two write at once.
        let mut state = lock(&self.state);
        self.db.write_opt(changes, &options)?;
        state.applied = batch.applied().or(state.applied);
        state.written += bytes;
        if state.written >= self.flush_bytes {
            state.written = 0;
            // One that is asked for already takes this along.
            let _ = self.flush.as_ref().map(|flush| flush.try_send(()));
        }
        Ok(())
    }

    fn snapshot(&self) -> Arc<dyn Records> {
        Arc::new(Snapshot(self.instant()))
    }

    fn sync(&self) -> Result<()> {
        flush_to_disk(&self.db, &self.state)
    }

    fn durable(&self) -> Option<LogOffset> {
        lock(&self.state).durable
    }

    fn compact(&self) -> Result<()> {
        self.sync()?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        bytes_below(&self.folder)
    }

    fn memory_bytes(&self) -> u64 {
        let buffers = self.figure(properties::CUR_SIZE_ALL_MEM_TABLES);
        self.cache.get_usage() as u64 + buffers + self.figure(properties::ESTIMATE_TABLE_READERS_MEM)
    }
}

struct Snapshot(Arc<Instant>);

impl Records for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let found = self.0.borrow_dependent().get(key);
        Ok(found.map_err(|error| Error::from(error).at(|| DamagePlace::At(key.to_vec())))?.map(Value::from))
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(Arc::clone(&self.0), bounds, direction)
    }

    fn applied(&self) -> Result<Option<LogOffset>> {
        decode_applied(self.get(&APPLIED_KEY)?)
    }
}

/// Goes by chunks: an iterator of RocksDB borrows its snapshot, and each one is opened where the last one ended.
fn scan(instant: Arc<Instant>, bounds: &Bounds, direction: Direction) -> Scan {
    let mut rest = bounds.public();
    let mut ended = false;
    Box::new(
        std::iter::from_fn(move || {
            if ended || rest.is_empty() {
                return None;
            }
            let (chunk, error) = read(instant.borrow_dependent(), &rest, direction);
            ended = error.is_some() || chunk.len() < SCAN_CHUNK;
            if let Some((last, _)) = chunk.last() {
                rest = rest.behind(last, direction);
            }
            let error = error.map(|error| {
                error.at(|| chunk.last().map_or(DamagePlace::Unknown, |(key, _)| DamagePlace::Behind(key.to_vec())))
            });
            let records: Vec<Result<(Key, Value)>> = chunk.into_iter().map(Ok).chain(error.map(Err)).collect();
            Some(records)
        })
        .flatten(),
    )
}

fn read(snapshot: &Borrowed<'_>, bounds: &Bounds, direction: Direction) -> (Vec<(Key, Value)>, Option<Error>) {
    let mut options = ReadOptions::default();
    if let Some(from) = first(bounds) {
        options.set_iterate_lower_bound(from);
    }
    if let Some(to) = end(bounds) {
        options.set_iterate_upper_bound(to);
    }
    let mut records = snapshot.raw_iterator_opt(options);
    match direction {
        Direction::Forward => records.seek_to_first(),
        Direction::Backward => records.seek_to_last(),
    }
    let mut chunk = Vec::new();
    while chunk.len() < SCAN_CHUNK
        && let Some((key, value)) = records.item()
    {
        chunk.push((Key::from(key), Value::from(value)));
        match direction {
            Direction::Forward => records.next(),
            Direction::Backward => records.prev(),
        }
    }
    (chunk, records.status().err().map(Error::from))
}

/// The first key that may lie within bounds.
fn first(bounds: &Bounds) -> Option<Vec<u8>> {
    match &bounds.from {
        Bound::Included(key) => Some(key.to_vec()),
        Bound::Excluded(key) => Some(next_key(key)),
        Bound::Unbounded => None,
    }
}

/// The first key behind them.
fn end(bounds: &Bounds) -> Option<Vec<u8>> {
    match &bounds.to {
        Bound::Included(key) => Some(next_key(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    }
}

/// The least key that is larger.
fn next_key(key: &Key) -> Vec<u8> {
    [key.as_ref(), &[0]].concat()
}

impl From<rocksdb::Error> for Error {
    fn from(error: rocksdb::Error) -> Self {
        match error.kind() {
            ErrorKind::Corruption => Self::damaged(error),
            // It tells what went wrong in words alone.
            ErrorKind::IOError if error.to_string().contains("No space left") => {
                Self::Io(std::io::Error::new(std::io::ErrorKind::StorageFull, error))
            }
            ErrorKind::IOError => Self::Io(std::io::Error::other(error)),
            _ => Self::Engine(Box::new(error)),
        }
    }
}
