//! Storages (Varnish: stevedores): what objects may take together, and which of them leave when there is no room.
//!
//! Everything that an object takes is counted before it is taken, and given back when its last reader lets go of it: an object that has
//! left the index counts as long as somebody delivers it. So what is counted never passes the bound.

pub mod disk;
mod eviction;
mod pool;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::{index::Cache, object::Object};
use bytes::{Bytes, BytesMut};
use disk::{Disk, Extent};
use eviction::Queues;
pub(crate) use eviction::{FREQUENCY_MAX, QueueSlot};
use pool::Pool;

/// What a piece of a body is at most (`fetch_maxchunksize`).
pub(crate) const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Of its bound, a storage keeps this part of what has left for what comes, and no more bytes than that.
const POOL_SHARE: u64 = 32;
const POOL_BYTES_MAX: usize = 16 << 20;

/// Bytes that may be in memory because a disk did not take them, where nothing else is said.
const UNWRITTEN_BYTES_MAX: u64 = 64 << 20;

/// Objects that leave at most for one piece of a body.
const EVICTED_AT_ONCE_MAX: usize = 50;

/// A storage has no room, and none could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "storage {storage} has no room for {wanted} bytes: {used} of {limit} bytes are in use; give it more (-s {storage}=malloc,SIZE)"
)]
pub struct StorageFull {
    /// Its name.
    pub storage: String,
    /// What was asked for.
    pub wanted: u64,
    /// What is in use.
    pub used: u64,
    /// What there is.
    pub limit: u64,
}

/// What a storage counts (`SMA.*` of varnishstat).
#[derive(Debug, Default)]
pub struct StorageCounters {
    /// Requests for room (`c_req`).
    pub requests: AtomicU64,
    /// Those that failed (`c_fail`).
    pub failures: AtomicU64,
    /// Bytes given so far (`c_bytes`).
    pub bytes_given: AtomicU64,
    /// Bytes given back so far (`c_freed`).
    pub bytes_freed: AtomicU64,
    /// Pieces in use (`g_alloc`).
    pub pieces: AtomicU64,
    /// Objects that left to make room.
    pub evicted: AtomicU64,
}

/// A storage, in memory or in files.
#[derive(Debug)]
pub struct Stevedore {
    name: String,
    limit: u64,
    used: AtomicU64,
    queues: Mutex<Queues>,
    pool: Pool,
    disk: Option<Arc<Disk>>,
    /// What is used where the disk takes nothing.
    fallback: Mutex<Option<Arc<Stevedore>>>,
    /// Bytes of objects that are in memory because the disk did not take them.
    unwritten: AtomicU64,
    /// Objects that leave at most for one object.
    nuke_limit: AtomicU64,
    /// What it counts.
    pub counters: StorageCounters,
}

impl Stevedore {
    /// Memory of at most `limit` bytes (`-s NAME=malloc,SIZE`).
    #[must_use]
    pub fn malloc(name: &str, limit: u64) -> Self {
        Self::new(name, limit, None)
    }

    /// A disk tier of the size of its data file.
    fn on_disk(name: &str, disk: &Arc<Disk>) -> Self {
        Self::new(name, disk.size(), Some(Arc::clone(disk)))
    }

    fn new(name: &str, limit: u64, disk: Option<Arc<Disk>>) -> Self {
        Self {
            name: name.to_owned(),
            limit,
            used: AtomicU64::new(0),
            queues: Mutex::new(Queues::default()),
            pool: Pool::default(),
            disk,
            fallback: Mutex::default(),
            unwritten: AtomicU64::new(0),
            nuke_limit: AtomicU64::new(u64::MAX),
            counters: StorageCounters::default(),
        }
    }

    /// Says how many objects may leave for one (`nuke_limit`); any number if it is never said.
    pub fn limit_nukes(&self, objects: u64) {
        self.nuke_limit.store(objects, Relaxed);
    }

    /// Says where objects go while its disk takes nothing. As many bytes as that has may be in memory of those whose way was interrupted.
    pub fn falls_back_to(&self, memory: &Arc<Self>) {
        *self.fallback.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(memory));
    }

    /// The storage for an object that begins now: another one while the disk takes nothing.
    #[must_use]
    pub fn usable(self: &Arc<Self>) -> Arc<Self> {
        let is_failing = self.disk.as_ref().is_some_and(|disk| disk.is_failing());
        let fallback = || self.fallback.lock().unwrap_or_else(PoisonError::into_inner).clone();
        is_failing.then(fallback).flatten().unwrap_or_else(|| Arc::clone(self))
    }

    /// Bytes of objects that are in memory because the disk did not take them.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    /// Bytes that may be in memory because the disk did not take them.
    fn unwritten_max(&self) -> u64 {
        let fallback = self.fallback.lock().unwrap_or_else(PoisonError::into_inner);
        fallback.as_ref().map_or(UNWRITTEN_BYTES_MAX, |memory| memory.limit())
    }

    /// Counts a piece that stays in memory because the disk did not take it.
    pub(crate) fn keep_unwritten(&self, bytes: u64) -> Result<(), StorageFull> {
        let most = self.unwritten_max();
        let kept = self.unwritten.fetch_update(Relaxed, Relaxed, |kept| Some(kept + bytes).filter(|sum| *sum <= most));
        kept.map(|_| ()).map_err(|_| self.full(bytes))
    }

    /// Whether so many of these bytes are there that an object with some is to leave when it has been delivered.
    pub(crate) fn has_much_unwritten(&self) -> bool {
        self.unwritten() > self.unwritten_max() / 2
    }

    pub(crate) fn forget_unwritten(&self, bytes: u64) {
        self.unwritten.fetch_sub(bytes, Relaxed);
    }

    /// Its files, if it has any.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.as_ref()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes at most.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in use (`g_bytes`).
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes that are free (`g_space`).
    #[must_use]
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    /// Takes room for an object, for which others may have to leave.
    pub(crate) fn reserve(self: &Arc<Self>, cache: &Cache, bytes: usize) -> Result<Reservation, StorageFull> {
        let reservation = Reservation { storage: Arc::clone(self), bytes: AtomicU64::new(0), nuked: AtomicU32::new(0) };
        reservation.grow(cache, bytes)?;
        self.counters.pieces.fetch_add(1, Relaxed);
        Ok(reservation)
    }

    pub(crate) fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object is in the index now, and may be chosen to leave.
    pub(crate) fn admit(&self, object: &Arc<Object>) {
        self.queues().admit(object);
    }

    /// An object has left the index.
    pub(crate) fn dismiss(&self, object: &Object) {
        self.queues().remove(object);
    }

    /// Memory for a piece of a body.
    pub(crate) fn piece(&self, bytes: usize) -> BytesMut {
        let kept = if bytes >= pool::PIECE_BYTES_MIN { self.pool.take(bytes) } else { None };
        kept.unwrap_or_else(|| BytesMut::with_capacity(bytes))
    }

    /// Takes the memory of a body that has left.
    pub(crate) fn give_back(&self, chunks: impl Iterator<Item = Bytes>) {
        let share = usize::try_from(self.limit / POOL_SHARE).unwrap_or(usize::MAX);
        self.pool.give(chunks, share.min(POOL_BYTES_MAX));
    }

    /// Takes bytes for an object, for which so many have left already.
    fn take(&self, cache: &Cache, bytes: u64, nuked: &AtomicU32) -> Result<(), StorageFull> {
        self.counters.requests.fetch_add(1, Relaxed);
        let mut evicted = 0;
        loop {
            let taken = self
                .used
                .fetch_update(Relaxed, Relaxed, |used| used.checked_add(bytes).filter(|sum| *sum <= self.limit));
            if taken.is_ok() {
                self.counters.bytes_given.fetch_add(bytes, Relaxed);
                return Ok(());
            }
            if bytes <= self.limit && u64::from(nuked.load(Relaxed)) >= self.nuke_limit.load(Relaxed) {
                // NOTE: who asks again is told the same, and counts once.
                if nuked.swap(u32::MAX, Relaxed) != u32::MAX {
                    cache.counters.lru_limited.fetch_add(1, Relaxed);
                }
                return Err(self.full(bytes));
            }
            let may_evict = bytes <= self.limit && evicted < EVICTED_AT_ONCE_MAX;
            if !may_evict || !self.evict_one(cache) {
                return Err(self.full(bytes));
            }
            evicted += 1;
            nuked.store(nuked.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// A part of the data file for `bytes` or fewer, for which others may have to leave.
    pub(crate) fn allocate(&self, cache: &Cache, bytes: u64) -> Result<Extent, StorageFull> {
        let disk = self.disk.as_ref().ok_or_else(|| self.full(bytes))?;
        for _ in 0..EVICTED_AT_ONCE_MAX {
            let extent = disk.space().take(bytes, bytes.min(disk::PART_BYTES_MIN));
            if let Some(extent) = extent {
                return Ok(extent);
            }
            if !self.evict_one(cache) {
                break;
            }
        }
        Err(self.full(bytes))
    }

    /// NOTE: what leaves gives its room back when its last reader is done with it.
    fn evict_one(&self, cache: &Cache) -> bool {
        let Some(victim) = self.queues().choose() else { return false };
        self.counters.evicted.fetch_add(1, Relaxed);
        cache.counters.lru_nuked.fetch_add(1, Relaxed);
        cache.remove(&victim);
        true
    }

    fn full(&self, wanted: u64) -> StorageFull {
        self.counters.failures.fetch_add(1, Relaxed);
        StorageFull { storage: self.name.clone(), wanted, used: self.used(), limit: self.limit }
    }
}

/// What an object has of its storage; given back when the object goes.
#[derive(Debug)]
pub(crate) struct Reservation {
    storage: Arc<Stevedore>,
    bytes: AtomicU64,
    /// Objects that have left for this one.
    nuked: AtomicU32,
}

impl Reservation {
    pub(crate) fn storage(&self) -> &Arc<Stevedore> {
        &self.storage
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn grow(&self, cache: &Cache, bytes: usize) -> Result<(), StorageFull> {
        self.storage.take(cache, bytes as u64, &self.nuked)?;
        self.bytes.fetch_add(bytes as u64, Relaxed);
        Ok(())
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        let bytes = (bytes as u64).min(self.bytes());
        self.bytes.fetch_sub(bytes, Relaxed);
        self.give_back(bytes);
    }

    fn give_back(&self, bytes: u64) {
        self.storage.used.fetch_sub(bytes, Relaxed);
        self.storage.counters.bytes_freed.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.bytes());
        self.storage.counters.pieces.fetch_sub(1, Relaxed);
    }
}
