//! Records on disk, in fjall's log-structured merge tree.

use std::path::Path;
use std::sync::Arc;

use fjall::{AbstractTree as _, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _};

use crate::{Batch, Bounds, Direction, Engine, Error, Offset, Place, RESERVED_PREFIX, Records, Result, Scan, Value};

/// Where the applied offset lies.
const APPLIED_KEY: [u8; 3] = [RESERVED_PREFIX[0], RESERVED_PREFIX[1], b'a'];
/// Name of the keyspace.
const KEYSPACE: &str = "records";

/// How blocks of records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// By LZ4, those that have stayed for a while.
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
}

impl Default for FjallOptions {
    fn default() -> Self {
        Self { memory_bytes_max: 128 << 20, compression: Compression::Lz4, threads: 1, files_max: 512 }
    }
}

/// An engine on disk.
pub struct FjallEngine {
    database: Database,
    records: Keyspace,
}

impl FjallEngine {
    /// Opens the records in a folder, which is made if it is not there.
    pub fn open(folder: &Path, options: &FjallOptions) -> Result<Self> {
        // One write buffer is filled while up to three wait to be written.
        let buffer_bytes = (options.memory_bytes_max / 8).clamp(1 << 20, 64 << 20);
        let cache_bytes = options.memory_bytes_max.saturating_sub(buffer_bytes * 4).max(1 << 20);
        let database = Database::builder(folder)
            .cache_size(cache_bytes)
            .worker_threads(options.threads.max(1))
            .max_cached_files(Some(options.files_max.max(16)))
            .max_journaling_size(64 << 20)
            .manual_journal_persist(true)
            .open()?;
        let records = database.keyspace(KEYSPACE, || {
            let create = KeyspaceCreateOptions::default().max_memtable_size(buffer_bytes).manual_journal_persist(true);
            match options.compression {
                Compression::Lz4 => create,
                Compression::None => create.data_block_compression_policy(fjall::config::CompressionPolicy::disabled()),
            }
        })?;
        Ok(Self { database, records })
    }
}

impl Records for FjallEngine {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.records.get(key).map_err(|error| Error::from(error).at(|| Place::At(key.to_vec())))
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(self.records.range::<&[u8], _>(bounds.public().as_range()), bounds, direction)
    }

    fn applied(&self) -> Result<Option<Offset>> {
        decode_applied(self.records.get(APPLIED_KEY)?)
    }
}

impl Engine for FjallEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        batch.check()?;
        let mut write = self.database.batch().durability(Some(PersistMode::Buffer));
        for (key, change) in batch.iter() {
            match change {
                Some(value) => write.insert(&self.records, key.clone(), value.clone()),
                None => write.remove(&self.records, key.clone()),
            }
        }
        if let Some(Offset(offset)) = batch.applied() {
            write.insert(&self.records, APPLIED_KEY, offset.to_be_bytes());
        }
        Ok(write.commit()?)
    }

    fn snapshot(&self) -> Arc<dyn Records> {
        Arc::new(Snapshot { snapshot: self.database.snapshot(), records: self.records.clone() })
    }

    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.records.rotate_memtable_and_wait()?)
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        Ok(self.records.major_compact()?)
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or_default()
    }

    fn memory_bytes(&self) -> u64 {
        let pinned = self.records.tree.pinned_filter_size() + self.records.tree.pinned_block_index_size();
        self.database.cache_size() + self.database.write_buffer_size() + pinned as u64
    }
}

struct Snapshot {
    snapshot: fjall::Snapshot,
    records: Keyspace,
}

impl Records for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.snapshot.get(&self.records, key).map_err(|error| Error::from(error).at(|| Place::At(key.to_vec())))
    }

    fn scan(&self, bounds: &Bounds, direction: Direction) -> Scan {
        scan(self.snapshot.range::<&[u8], _>(&self.records, bounds.public().as_range()), bounds, direction)
    }

    fn applied(&self) -> Result<Option<Offset>> {
        decode_applied(self.snapshot.get(&self.records, APPLIED_KEY)?)
    }
}

fn scan(mut iter: fjall::Iter, bounds: &Bounds, direction: Direction) -> Scan {
    let mut ended = bounds.public().is_empty();
    let mut last = match direction {
        Direction::Forward => bounds.as_range().0,
        Direction::Backward => bounds.as_range().1,
    }
    .map(<[u8]>::to_vec);
    Box::new(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let guard = match direction {
            Direction::Forward => iter.next(),
            Direction::Backward => iter.next_back(),
        }?;
        let pair = guard.into_inner().map_err(Error::from);
        let _ = &mut last;
        ended = pair.is_err();
        Some(pair)
    }))
}

fn decode_applied(value: Option<Value>) -> Result<Option<Offset>> {
    let Some(value) = value else { return Ok(None) };
    match <[u8; 8]>::try_from(value.as_ref()) {
        Ok(bytes) => Ok(Some(Offset(u64::from_be_bytes(bytes)))),
        Err(error) => Err(Error::Damaged { place: Place::At(APPLIED_KEY.to_vec()), source: Box::new(error) }),
    }
}

impl From<fjall::Error> for Error {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => Self::Io(error),
            error => Self::Engine(Box::new(error)),
        }
    }
}
