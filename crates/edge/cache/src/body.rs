//! A body that one task fills and any number read, on whatever threads they are.
//!
//! Chunks are shared: whoever delivers them copies nothing, and an object that has left the cache stays readable to its readers.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use slab::Slab;

/// The body will never be whole: its fetch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fetch of the body failed")]
pub struct Broken;

/// A body, whole or on its way.
#[derive(Debug, Default)]
pub struct Body {
    /// Set once it is whole: readers take no lock then.
    whole: OnceLock<Box<[Bytes]>>,
    arriving: Mutex<Arriving>,
    arrived: AtomicU64,
}

#[derive(Debug, Default)]
struct Arriving {
    chunks: Vec<Bytes>,
    broken: bool,
    /// One for each reader that waits; all are woken by each chunk.
    readers: Slab<Waker>,
    round: u64,
}

/// Where a reader is.
#[derive(Debug, Default)]
pub struct Cursor {
    next: usize,
    /// Its waker's place, and the round that it is of.
    waiting: Option<(u64, usize)>,
}

impl Body {
    /// A body that is whole.
    #[must_use]
    pub fn of(chunks: Vec<Bytes>) -> Self {
        let body = Self::default();
        body.arrived.store(chunks.iter().map(|chunk| chunk.len() as u64).sum(), Relaxed);
        let _ = body.whole.set(chunks.into_boxed_slice());
        body
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

    /// All chunks, once it is whole.
    #[must_use]
    pub fn whole(&self) -> Option<&[Bytes]> {
        self.whole.get().map(|chunks| &chunks[..])
    }

    /// Whether its fetch failed.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.whole.get().is_none() && self.lock().broken
    }

    /// The next chunk, `None` after the last one. Where it has not arrived yet, the reader is woken when it has.
    ///
    /// # Errors
    /// The fetch failed.
    pub fn poll_next(&self, cursor: &mut Cursor, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        if let Some(whole) = self.whole.get() {
            return Poll::Ready(Ok(cursor.take(whole)));
        }
        let mut arriving = self.lock();
        if let Some(chunk) = cursor.take(&arriving.chunks) {
            return Poll::Ready(Ok(Some(chunk)));
        }
        // It may have become whole before the lock was had.
        if let Some(whole) = self.whole.get() {
            return Poll::Ready(Ok(cursor.take(whole)));
        }
        if arriving.broken {
            return Poll::Ready(Err(Broken));
        }
        let round = arriving.round;
        let place = cursor.waiting.filter(|(of, _)| *of == round).map(|(_, place)| place);
        match place.and_then(|place| arriving.readers.get_mut(place)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => cursor.waiting = Some((round, arriving.readers.insert(context.waker().clone()))),
        }
        Poll::Pending
    }

    pub(crate) fn push(&self, chunk: Bytes) {
        let mut arriving = self.lock();
        self.arrived.fetch_add(chunk.len() as u64, Relaxed);
        arriving.chunks.push(chunk);
        wake(arriving);
    }

    pub(crate) fn finish(&self) {
        let mut arriving = self.lock();
        let chunks = std::mem::take(&mut arriving.chunks).into_boxed_slice();
        let _ = self.whole.set(chunks);
        wake(arriving);
    }

    pub(crate) fn fail(&self) {
        let mut arriving = self.lock();
        arriving.broken = true;
        wake(arriving);
    }

    fn lock(&self) -> MutexGuard<'_, Arriving> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cursor {
    fn take(&mut self, chunks: &[Bytes]) -> Option<Bytes> {
        let chunk = chunks.get(self.next).cloned();
        self.next += usize::from(chunk.is_some());
        chunk
    }
}

/// Readers are woken when nobody holds the lock: they ask at once.
fn wake(mut arriving: MutexGuard<'_, Arriving>) {
    let readers = std::mem::take(&mut arriving.readers);
    arriving.round += 1;
    drop(arriving);
    readers.into_iter().for_each(|(_, reader)| reader.wake());
}
