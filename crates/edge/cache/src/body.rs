//! A body that one task fills and any number read, on whatever threads they are.
//!
//! Chunks are shared: whoever delivers them copies nothing, and an object that has left the cache stays readable to its readers.
//!
//! A body in transit is for one reader alone: what it has read is gone, and who fills it waits as long as more than a bound waits for
//! the reader (`transit_buffer`). So a slow client holds the server back instead of filling memory.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use slab::Slab;

use crate::storage::disk::{Chunks, Disk, StoredChunk};

/// The body will never be whole: its fetch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fetch of the body failed, or the disk has lost it")]
pub struct Broken;

/// A piece of a body.
#[derive(Clone, Debug)]
enum Chunk {
    Memory(Bytes),
    Disk(StoredChunk),
}

/// All pieces of a body.
#[derive(Debug)]
enum Whole {
    Memory(Box<[Bytes]>),
    Disk(Chunks),
    /// Some pieces could not be written.
    Mixed(Box<[Chunk]>),
}

/// A body, whole or on its way.
#[derive(Debug, Default)]
pub struct Body {
    /// Set once it is whole: readers take no lock then.
    whole: OnceLock<Whole>,
    arriving: Mutex<Lazy>,
    arrived: AtomicU64,
    /// Where pieces are that are not in memory.
    disk: Option<Arc<Disk>>,
    /// Whether a piece was not what had been written.
    is_damaged: AtomicBool,
    /// Bytes that may wait for the one reader of a body in transit.
    transit_bytes_max: Option<u64>,
}

#[derive(Debug, Default)]
struct Arriving {
    chunks: Vec<Chunk>,
    broken: bool,
    /// What waits of a body in transit, of which no chunk stands in `chunks`.
    transit: Transit,
    /// One for each reader that waits; all are woken by each chunk.
    readers: Slab<Waker>,
    round: u64,
}

/// There while it is needed: a body that is whole has none.
#[derive(Debug, Default)]
struct Lazy(Option<Box<Arriving>>);

impl Lazy {
    fn get(&mut self) -> &mut Arriving {
        self.0.get_or_insert_default()
    }
}

/// A body that is gone as soon as it has been read.
#[derive(Debug, Default)]
struct Transit {
    chunks: VecDeque<Bytes>,
    bytes: u64,
    has_ended: bool,
    /// Who fills it, while there is no room.
    filler: Option<Waker>,
}

/// Where a reader is.
#[derive(Debug, Default)]
pub struct Cursor {
    next: usize,
    /// Bytes that it has read.
    bytes: u64,
    /// Its waker's place, and the round that it is of.
    waiting: Option<(u64, usize)>,
}

impl Body {
    /// A body that is whole.
    #[must_use]
    pub fn of(chunks: Vec<Bytes>) -> Self {
        let body = Self::default();
        body.arrived.store(chunks.iter().map(|chunk| chunk.len() as u64).sum(), Relaxed);
        let _ = body.whole.set(Whole::Memory(chunks.into_boxed_slice()));
        body
    }

    /// One that arrives on a disk.
    pub(crate) fn on_disk(disk: Option<&Arc<Disk>>) -> Self {
        Self { disk: disk.cloned(), ..Self::default() }
    }

    /// One in transit, of which at most about so many bytes wait for its reader.
    pub(crate) fn in_transit(bytes_max: u64) -> Self {
        Self { transit_bytes_max: Some(bytes_max), ..Self::default() }
    }

    /// One that a former process has stored.
    pub(crate) fn stored_in(disk: &Arc<Disk>, chunks: Chunks) -> Self {
        let body = Self::on_disk(Some(disk));
        body.arrived.store(chunks.iter().map(|chunk| u64::from(chunk.length)).sum(), Relaxed);
        let _ = body.whole.set(Whole::Disk(chunks));
        body
    }

    /// All pieces, if it is whole and all of them are on the disk.
    pub(crate) fn stored(&self) -> Option<&[StoredChunk]> {
        match self.whole.get() {
            Some(Whole::Disk(chunks)) => Some(chunks),
            _ => None,
        }
    }

    /// Bytes that have arrived.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Relaxed)
    }

    /// Its length, once it is whole.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.whole.get().map(|_| self.arrived())
    }

    /// All chunks, once it is whole, of a body in memory. One on a disk is read piece by piece.
    #[must_use]
    pub fn whole(&self) -> Option<&[Bytes]> {
        match self.whole.get() {
            Some(Whole::Memory(chunks)) => Some(chunks),
            _ => None,
        }
    }

    /// Whether its fetch failed, or the disk did.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_damaged.load(Relaxed) || (self.whole.get().is_none() && self.lock().get().broken)
    }

    pub(crate) fn damage(&self) {
        self.is_damaged.store(true, Relaxed);
    }

    /// Whether it is gone as soon as it has been read.
    #[must_use]
    pub fn is_in_transit(&self) -> bool {
        self.transit_bytes_max.is_some()
    }

    /// Ready as long as there is room for more; one that is not in transit always has room.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(bytes_max) = self.transit_bytes_max else { return Poll::Ready(()) };
        let mut arriving = self.lock();
        if arriving.get().transit.bytes < bytes_max {
            return Poll::Ready(());
        }
        arriving.get().transit.filler = Some(context.waker().clone());
        Poll::Pending
    }

    /// Wakes who waits for room: its reader has left.
    pub fn leave(&self) {
        if self.is_in_transit() {
            let filler = self.lock().get().transit.filler.take();
            filler.into_iter().for_each(Waker::wake);
        }
    }

    /// The next chunk, `None` after the last one. Where it has not arrived yet, the reader is woken when it has.
    ///
    /// # Errors
    /// The fetch failed, or the disk has something else than was written.
    pub(crate) fn poll_next(
        &self,
        cursor: &mut Cursor,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        if let Some(whole) = self.whole.get() {
            return Poll::Ready(self.load(cursor.take_of(whole)));
        }
        let mut arriving = self.lock();
        if let Some(chunk) = arriving.get().transit.chunks.pop_front() {
            arriving.get().transit.bytes -= chunk.len() as u64;
            let filler = arriving.get().transit.filler.take();
            drop(arriving);
            filler.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(Some(chunk)));
        }
        if arriving.get().transit.has_ended {
            return Poll::Ready(Ok(None));
        }
        if let Some(chunk) = cursor.take(&arriving.get().chunks) {
            // NOTE: a disk is not waited for with the lock.
            drop(arriving);
            return Poll::Ready(self.load(Some(chunk)));
        }
        // It may have become whole before the lock was had.
        if let Some(whole) = self.whole.get() {
            drop(arriving);
            return Poll::Ready(self.load(cursor.take_of(whole)));
        }
        if arriving.get().broken {
            return Poll::Ready(Err(Broken));
        }
        let round = arriving.get().round;
        let place = cursor.waiting.filter(|(of, _)| *of == round).map(|(_, place)| place);
        match place.and_then(|place| arriving.get().readers.get_mut(place)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => cursor.waiting = Some((round, arriving.get().readers.insert(context.waker().clone()))),
        }
        Poll::Pending
    }

    fn load(&self, chunk: Option<Chunk>) -> Result<Option<Bytes>, Broken> {
        match (chunk, &self.disk) {
            (None, _) => Ok(None),
            (Some(Chunk::Memory(bytes)), _) => Ok(Some(bytes)),
            (Some(Chunk::Disk(stored)), Some(disk)) => match disk.read(stored) {
                Some(bytes) => Ok(Some(bytes)),
                None => {
                    self.damage();
                    Err(Broken)
                }
            },
            (Some(Chunk::Disk(_)), None) => Err(Broken),
        }
    }

    /// What it has in memory, when nobody has the body any more.
    pub(crate) fn take_memory(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        let arriving = self.arriving.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = std::mem::take(&mut arriving.get().chunks);
        let whole = match self.whole.take() {
            Some(Whole::Memory(chunks)) => chunks.into_vec(),
            Some(Whole::Disk(_) | Whole::Mixed(_)) | None => Vec::new(),
        };
        let memory = |chunk| if let Chunk::Memory(bytes) = chunk { Some(bytes) } else { None };
        whole.into_iter().chain(left.into_iter().filter_map(memory))
    }

    pub(crate) fn push(&self, chunk: Bytes) {
        let bytes = chunk.len() as u64;
        self.add(Chunk::Memory(chunk), bytes);
    }

    pub(crate) fn push_stored(&self, chunk: StoredChunk) {
        self.add(Chunk::Disk(chunk), u64::from(chunk.length));
    }

    fn add(&self, chunk: Chunk, bytes: u64) {
        let mut arriving = self.lock();
        self.arrived.fetch_add(bytes, Relaxed);
        match chunk {
            Chunk::Memory(chunk) if self.is_in_transit() => {
                arriving.get().transit.chunks.push_back(chunk);
                arriving.get().transit.bytes += bytes;
            }
            chunk => arriving.get().chunks.push(chunk),
        }
        wake(arriving);
    }

    pub(crate) fn finish(&self) {
        let mut arriving = self.lock();
        if self.is_in_transit() {
            arriving.get().transit.has_ended = true;
            return wake(arriving);
        }
        let chunks = std::mem::take(&mut arriving.get().chunks);
        let _ = self.whole.set(Whole::of(chunks, self.disk.is_some()));
        let woken = arriving.0.take();
        drop(arriving);
        woken.into_iter().flat_map(|woken| woken.readers).for_each(|(_, reader)| reader.wake());
    }

    /// Puts the last chunks into memory of their own, of which they fill all. Their number stays the same for those who read them.
    pub(crate) fn repack(&self, chunks: usize) {
        let mut arriving = self.lock();
        let all = &mut arriving.get().chunks;
        let first = all.len().saturating_sub(chunks);
        let last = all.get_mut(first..).unwrap_or_default();
        let lengths = last.iter().map(|chunk| if let Chunk::Memory(bytes) = chunk { bytes.len() } else { 0 });
        let mut packed = BytesMut::with_capacity(lengths.sum());
        for chunk in &*last {
            if let Chunk::Memory(bytes) = chunk {
                packed.extend_from_slice(bytes);
            }
        }
        let mut packed = packed.freeze();
        for chunk in last {
            if let Chunk::Memory(bytes) = chunk {
                *bytes = packed.split_to(bytes.len());
            }
        }
    }

    pub(crate) fn fail(&self) {
        let mut arriving = self.lock();
        arriving.get().broken = true;
        wake(arriving);
    }

    fn lock(&self) -> MutexGuard<'_, Lazy> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Whole {
    fn of(chunks: Vec<Chunk>, is_on_disk: bool) -> Self {
        let memory = |chunk: &Chunk| if let Chunk::Memory(bytes) = chunk { Some(bytes.clone()) } else { None };
        let stored = |chunk: &Chunk| if let Chunk::Disk(stored) = chunk { Some(*stored) } else { None };
        if is_on_disk && let Some(all) = chunks.iter().map(stored).collect() {
            return Self::Disk(all);
        }
        match chunks.iter().map(memory).collect() {
            Some(all) => Self::Memory(all),
            None => Self::Mixed(chunks.into_boxed_slice()),
        }
    }
}

impl Cursor {
    /// Notes a chunk that has been read.
    pub(crate) fn note(&mut self, chunk: &Bytes) {
        self.bytes += chunk.len() as u64;
    }

    fn take_of(&mut self, whole: &Whole) -> Option<Chunk> {
        match whole {
            Whole::Memory(chunks) => self.take(chunks).map(Chunk::Memory),
            Whole::Disk(chunks) => self.take(chunks).map(Chunk::Disk),
            Whole::Mixed(chunks) => self.take(chunks),
        }
    }

    /// Bytes that it has read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.bytes
    }

    fn take<C: Clone>(&mut self, chunks: &[C]) -> Option<C> {
        let chunk = chunks.get(self.next).cloned();
        self.next += usize::from(chunk.is_some());
        chunk
    }
}

/// Readers are woken when nobody holds the lock: they ask at once.
fn wake(mut arriving: MutexGuard<'_, Lazy>) {
    let readers = std::mem::take(&mut arriving.get().readers);
    arriving.get().round += 1;
    drop(arriving);
    readers.into_iter().for_each(|(_, reader)| reader.wake());
}
