//! A body that one task fills and any number read, on whatever threads they are.
//!
//! Chunks are shared: whoever delivers them copies nothing, and an object that has left the cache stays readable to its readers.
//!
//! A body in transit is for one reader alone: what it has read is gone, and who fills it waits as long as more than a bound waits for
//! the reader (`transit_buffer`). So a slow client holds the server back instead of filling memory.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use slab::Slab;

use crate::storage::{
    CHUNK_BYTES_MAX, Stevedore,
    disk::{Chunks, Disk, StoredChunk},
};

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

/// Bodies up to this length are kept as they are, and copied for each reader: what shares one among many would take more than it.
pub(crate) const TINY_BYTES_MAX: usize = 256;

/// Chunks that are on average smaller than this are put together when the body is whole: each takes some forty bytes.
const CHUNK_BYTES_AVERAGE_MIN: u64 = 1 << 10;

/// All pieces of a body.
#[derive(Debug)]
enum Whole {
    Tiny(Box<[u8]>),
    Memory(Box<[Bytes]>),
    Disk(Box<Chunks>),
    /// Some pieces could not be written.
    Mixed(Box<[Chunk]>),
}

/// A body, whole or on its way.
#[derive(Debug, Default)]
pub struct Body {
    /// Set once it is whole: readers take no lock then.
    whole: OnceLock<Whole>,
    arriving: Mutex<Lazy>,
    /// Whether a piece was not what had been written.
    is_damaged: AtomicBool,
    is_in_transit: bool,
}

#[derive(Debug, Default)]
struct Arriving {
    chunks: Vec<Chunk>,
    bytes: u64,
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
    /// Bytes that may wait for the reader.
    bytes_max: u64,
    has_ended: bool,
    /// Who fills it, while there is no room.
    filler: Option<Waker>,
}

/// Where a reader is.
#[derive(Debug, Default)]
pub struct Cursor {
    next: usize,
    /// Whether `next` counts pieces of the whole body: they are others than those that it had while it arrived.
    is_placed: bool,
    /// Bytes that it has read.
    bytes: u64,
    /// Its waker's place, and the round that it is of.
    waiting: Option<(u64, usize)>,
}

impl Body {
    /// One in transit, of which at most about so many bytes wait for its reader.
    pub(crate) fn in_transit(bytes_max: u64) -> Self {
        let transit = Transit { bytes_max, ..Transit::default() };
        let arriving = Lazy(Some(Box::new(Arriving { transit, ..Arriving::default() })));
        Self { is_in_transit: true, arriving: Mutex::new(arriving), ..Self::default() }
    }

    /// One that a former process has stored.
    pub(crate) fn stored_in(chunks: Chunks) -> Self {
        let body = Self::default();
        let _ = body.whole.set(Whole::Disk(Box::new(chunks)));
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
        let whole = || self.whole.get().map(Whole::length);
        // NOTE: it may become whole while the lock is waited for.
        whole().unwrap_or_else(|| {
            let mut arriving = self.lock();
            whole().unwrap_or_else(|| arriving.0.as_mut().map_or(0, |arriving| arriving.bytes))
        })
    }

    /// Its length, once it is whole.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.whole.get().map(Whole::length)
    }

    /// Whether its fetch failed, or the disk did.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_damaged.load(Relaxed) || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.whole.get().is_none() && self.lock().0.as_ref().is_some_and(|arriving| arriving.broken)
    }

    pub(crate) fn damage(&self) {
        self.is_damaged.store(true, Relaxed);
    }

    /// Whether it is gone as soon as it has been read.
    #[must_use]
    pub fn is_in_transit(&self) -> bool {
        self.is_in_transit
    }

    /// Ready as long as there is room for more; one that is not in transit always has room.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_in_transit {
            return Poll::Ready(());
        }
        let mut arriving = self.lock();
        let transit = &mut arriving.get().transit;
        if transit.bytes < transit.bytes_max {
            return Poll::Ready(());
        }
        transit.filler = Some(context.waker().clone());
        Poll::Pending
    }

    /// Wakes who waits for room: its reader has left.
    pub fn leave(&self) {
        if self.is_in_transit() {
            let filler = self.lock().get().transit.filler.take();
            filler.into_iter().for_each(Waker::wake);
        }
    }

    /// The next chunk, `None` after the last one. Where it has not arrived yet, the reader is woken when it has. What is not in memory
    /// is on the disk.
    ///
    /// # Errors
    /// The fetch failed, or the disk has something else than was written.
    pub(crate) fn poll_next(
        &self,
        disk: Option<&Disk>,
        cursor: &mut Cursor,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Broken>> {
        if let Some(whole) = self.whole.get() {
            return Poll::Ready(self.load(cursor.take_of(whole), disk));
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
            return Poll::Ready(self.load(Some(chunk), disk));
        }
        // It may have become whole before the lock was had.
        if let Some(whole) = self.whole.get() {
            drop(arriving);
            return Poll::Ready(self.load(cursor.take_of(whole), disk));
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

    fn load(&self, chunk: Option<Chunk>, disk: Option<&Disk>) -> Result<Option<Bytes>, Broken> {
        match (chunk, disk) {
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

    /// Gives what it has in memory to its storage, when nobody has the body any more.
    pub(crate) fn give_memory_to(&mut self, storage: &Stevedore) {
        let memory = |chunk| if let Chunk::Memory(bytes) = chunk { Some(bytes) } else { None };
        if let Some(Whole::Memory(chunks)) = self.whole.take() {
            storage.give_back(chunks.into_vec().into_iter());
        }
        if let Some(arriving) = self.arriving.get_mut().unwrap_or_else(PoisonError::into_inner).0.take() {
            storage.give_back(arriving.chunks.into_iter().filter_map(memory));
        }
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
        arriving.get().bytes += bytes;
        match chunk {
            Chunk::Memory(chunk) if self.is_in_transit() => {
                arriving.get().transit.chunks.push_back(chunk);
                arriving.get().transit.bytes += bytes;
            }
            chunk => arriving.get().chunks.push(chunk),
        }
        wake(arriving);
    }

    pub(crate) fn finish(&self, is_on_disk: bool) {
        let mut arriving = self.lock();
        if self.is_in_transit() {
            arriving.get().transit.has_ended = true;
            return wake(arriving);
        }
        let (chunks, bytes) = (std::mem::take(&mut arriving.get().chunks), arriving.get().bytes);
        let _ = self.whole.set(Whole::of(chunks, bytes, is_on_disk));
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
    fn of(chunks: Vec<Chunk>, bytes: u64, is_on_disk: bool) -> Self {
        let memory = |chunk: &Chunk| if let Chunk::Memory(bytes) = chunk { Some(bytes.clone()) } else { None };
        let stored = |chunk: &Chunk| if let Chunk::Disk(stored) = chunk { Some(*stored) } else { None };
        if is_on_disk && let Some(all) = chunks.iter().map(stored).collect() {
            return Self::Disk(Box::new(all));
        }
        match chunks.iter().map(memory).collect::<Option<Vec<Bytes>>>() {
            Some(all) if bytes <= TINY_BYTES_MAX as u64 => Self::Tiny(all.concat().into_boxed_slice()),
            Some(all) if all.len() as u64 * CHUNK_BYTES_AVERAGE_MIN > bytes.max(CHUNK_BYTES_AVERAGE_MIN) => {
                Self::Memory(together(all, bytes))
            }
            Some(all) => Self::Memory(all.into_boxed_slice()),
            None => Self::Mixed(chunks.into_boxed_slice()),
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Tiny(bytes) => bytes.len() as u64,
            Self::Memory(chunks) => chunks.iter().map(|chunk| chunk.len() as u64).sum(),
            Self::Disk(chunks) => chunks.iter().map(|chunk| u64::from(chunk.length)).sum(),
            Self::Mixed(chunks) => chunks.iter().map(Chunk::length).sum(),
        }
    }
}

/// The same bytes in chunks as large as they may be.
fn together(chunks: Vec<Bytes>, bytes: u64) -> Box<[Bytes]> {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut all = Vec::with_capacity(left.div_ceil(CHUNK_BYTES_MAX));
    let mut piece = Vec::new();
    for mut chunk in chunks {
        while !chunk.is_empty() {
            if piece.capacity() == 0 {
                piece.reserve_exact(left.min(CHUNK_BYTES_MAX));
            }
            let part = chunk.split_to(chunk.len().min(piece.capacity() - piece.len()));
            piece.extend_from_slice(&part);
            left -= part.len();
            if piece.len() == piece.capacity() {
                all.push(std::mem::take(&mut piece).into());
            }
        }
    }
    if !piece.is_empty() {
        all.push(piece.into());
    }
    all.into_boxed_slice()
}

impl Chunk {
    fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(stored) => u64::from(stored.length),
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
            Whole::Tiny(bytes) => {
                let left = bytes.get(usize::try_from(self.bytes).ok()?..).filter(|left| !left.is_empty())?;
                Some(Chunk::Memory(Bytes::copy_from_slice(left)))
            }
            Whole::Memory(chunks) => self.take_placed(chunks).map(Chunk::Memory),
            Whole::Disk(chunks) => self.take(chunks).map(Chunk::Disk),
            Whole::Mixed(chunks) => self.take(chunks),
        }
    }

    /// Bytes that it has read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.bytes
    }

    /// The next of a whole body's chunks, of which some may have been put together.
    fn take_placed(&mut self, chunks: &[Bytes]) -> Option<Bytes> {
        if std::mem::replace(&mut self.is_placed, true) || self.bytes == 0 {
            return self.take(chunks);
        }
        let mut before = usize::try_from(self.bytes).ok()?;
        self.next = 0;
        loop {
            let chunk = self.take(chunks)?;
            match before.checked_sub(chunk.len()) {
                Some(rest) => before = rest,
                None => return Some(chunk.slice(before..)),
            }
        }
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
