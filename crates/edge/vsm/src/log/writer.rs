//! Writers of the log.

use std::{
    cell::Cell,
    marker::PhantomData,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
};

use telemetry::vsl::VslTag;

use super::{
    BATCH_TAG, END_MARKER, HEADER_WORDS, LENGTH_MASK, LogId, MARKER, OFFSETS, RECORD_WORDS, SEGMENT_NUMBER,
    SEGMENT_WORDS, SEGMENTS, SPACE_MAX, SPACE_MIN, WRAP_MARKER,
};
use crate::{VsmError, memory::Memory};

/// The number of the first segment, so that it soon wraps and what is wrong with that is soon seen. As in Varnish.
const FIRST_SEGMENT: u64 = u32::MAX as u64 - (SEGMENTS as u64 - 1);
/// Segments that may lie between a writer that still copies and the place where another one writes.
const DISTANCE_MAX: u64 = SEGMENTS as u64 - 3;
/// The mark of a writer that copies nothing.
const IDLE: u64 = u64::MAX;

/// The log that this process writes.
#[derive(Debug)]
pub struct Log {
    memory: Memory,
    segment_words: usize,
    place: Mutex<WritePosition>,
    /// A bit for each tag that is not written.
    masked: [AtomicU64; 4],
    flushes: AtomicU64,
    contention: AtomicU64,
}

/// Where the next record goes.
#[derive(Debug)]
struct WritePosition {
    /// A word behind the header.
    at: usize,
    /// Only its lower half is published.
    segment: u64,
    /// Where each writer copies to.
    writers: Vec<Arc<AtomicU64>>,
    figures: LogFigures,
}

/// What happened to a log: Varnish's counters MAIN.shm_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Records.
    pub records: u64,
    /// Batches.
    pub writes: u64,
    /// Batches that went out because their buffer was full.
    pub flushes: u64,
    /// Times that a writer waited for the lock.
    pub contention: u64,
    /// Times that the log went on at its beginning.
    pub cycles: u64,
    /// Batches that were dropped: they would have met a writer that sleeps, or were too large for the log.
    pub lost: u64,
}

impl Log {
    pub(crate) fn check_size(bytes: usize) -> Result<(), VsmError> {
        match (SPACE_MIN..=SPACE_MAX).contains(&bytes) {
            true => Ok(()),
            false => Err(VsmError::LogSize { bytes, least: SPACE_MIN, most: SPACE_MAX }),
        }
    }

    /// Writes an empty log.
    pub(crate) fn prepare(memory: &Memory) {
        let words = memory.words();
        let store = |at: usize, value: u32| {
            if let Some(word) = words.get(at) {
                word.store(value, Ordering::Relaxed);
            }
        };
        store(HEADER_WORDS, END_MARKER);
        let segment_words = Self::segment_words(memory) as u64;
        store(SEGMENT_WORDS, segment_words as u32);
        store(SEGMENT_WORDS + 1, (segment_words >> 32) as u32);
        store(SEGMENT_NUMBER, FIRST_SEGMENT as u32);
        for at in 2..2 * SEGMENTS {
            // -1: nothing there yet.
            store(OFFSETS + at, u32::MAX);
        }
        fence(Ordering::Release);
        let [first, second] =
            [MARKER.first_chunk::<4>(), MARKER.last_chunk::<4>()].map(|half| half.copied().unwrap_or_default());
        store(0, u32::from_ne_bytes(first));
        store(1, u32::from_ne_bytes(second));
    }

    fn segment_words(memory: &Memory) -> usize {
        memory.words().len().saturating_sub(HEADER_WORDS) / SEGMENTS
    }

    pub(crate) fn new(memory: Memory) -> Self {
        let segment_words = Self::segment_words(&memory);
        let place =
            WritePosition { at: 0, segment: FIRST_SEGMENT, writers: Vec::new(), figures: LogFigures::default() };
        Self {
            memory,
            segment_words,
            place: Mutex::new(place),
            masked: Default::default(),
            flushes: AtomicU64::new(0),
            contention: AtomicU64::new(0),
        }
    }

    /// A writer, for one thread.
    #[must_use]
    pub fn writer(self: &Arc<Self>) -> LogWriter {
        let mark = Arc::new(AtomicU64::new(IDLE));
        self.lock().writers.push(mark.clone());
        LogWriter { log: self.clone(), mark, of_one_thread: PhantomData }
    }

    /// What happened so far.
    #[must_use]
    pub fn figures(&self) -> LogFigures {
        let figures = self.lock().figures;
        LogFigures {
            flushes: self.flushes.load(Ordering::Relaxed),
            contention: self.contention.load(Ordering::Relaxed),
            ..figures
        }
    }

    /// Whether records with that tag are written.
    #[must_use]
    #[inline]
    pub fn writes(&self, tag: VslTag) -> bool {
        let number = usize::from(tag.number());
        let masked = self.masked.get(number / 64).map_or(0, |word| word.load(Ordering::Relaxed));
        masked & (1 << (number % 64)) == 0
    }

    /// From now on records with that tag are written or not: Varnish's parameter vsl_mask.
    pub fn set_written(&self, tag: VslTag, is_written: bool) {
        let number = usize::from(tag.number());
        let Some(word) = self.masked.get(number / 64) else { return };
        match is_written {
            true => word.fetch_and(!(1 << (number % 64)), Ordering::Relaxed),
            false => word.fetch_or(1 << (number % 64), Ordering::Relaxed),
        };
    }

    fn lock(&self) -> MutexGuard<'_, WritePosition> {
        match self.place.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contention.fetch_add(1, Ordering::Relaxed);
                self.place.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    fn word(&self, at: usize) -> Option<&AtomicU32> {
        self.memory.words().get(at)
    }

    fn store(&self, at: usize, value: u32, order: Ordering) {
        if let Some(word) = self.word(at) {
            word.store(value, order);
        }
    }

    fn store_offset(&self, segment: u64, at: usize) {
        let slot = OFFSETS + 2 * (segment % SEGMENTS as u64) as usize;
        // The lower half first: with the upper one still at -1 the offset is negative, which readers take for "nothing there".
        self.store(slot, at as u32, Ordering::Relaxed);
        self.store(slot + 1, 0, Ordering::Release);
    }

    /// Takes the place of `words` words, and puts an end marker behind it. Nothing when it cannot be had.
    fn reserve(&self, place: &mut WritePosition, words: usize) -> Option<usize> {
        let end = self.segment_words * SEGMENTS;
        if words >= self.segment_words {
            return None;
        }
        let segments = SEGMENTS as u64;
        let wraps = place.at + words >= end;
        let (start, base) =
            if wraps { (0, (place.segment / segments + 1) * segments) } else { (place.at, place.segment) };
        let behind = start + words;
        let segment = base + ((behind / self.segment_words) as u64).saturating_sub(base % segments);
        if segment > place.segment {
            // Only those that somebody has besides this list.
            place.writers.retain(|mark| Arc::strong_count(mark) > 1);
            let oldest = place.writers.iter().map(|mark| mark.load(Ordering::Acquire)).min().unwrap_or(IDLE);
            if oldest.saturating_add(DISTANCE_MAX) < segment {
                return None;
            }
        }
        if wraps {
            self.store_offset(base, 0);
            self.store(HEADER_WORDS, END_MARKER, Ordering::Relaxed);
            if place.at != 0 {
                self.store(HEADER_WORDS + place.at, WRAP_MARKER, Ordering::Release);
            }
            place.figures.cycles += 1;
        }
        self.store(HEADER_WORDS + behind, END_MARKER, Ordering::Release);
        let mut current = base;
        while current < segment {
            current += 1;
            self.store_offset(current, behind);
        }
        place.at = behind;
        place.segment = segment;
        self.store(SEGMENT_NUMBER, segment as u32, Ordering::Release);
        Some(start)
    }
}

/// What a thread writes the log with.
#[derive(Debug)]
pub struct LogWriter {
    log: Arc<Log>,
    /// The segment where this writer copies to, or [`IDLE`].
    mark: Arc<AtomicU64>,
    of_one_thread: PhantomData<Cell<()>>,
}

impl LogWriter {
    /// The log.
    #[must_use]
    #[inline]
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Writes a record on its own, for what belongs to no transaction, such as a probe's result.
    pub fn write(&self, tag: VslTag, id: LogId, text: &[u8]) {
        if !self.log.writes(tag) {
            return;
        }
        let text = text.get(..text.len().min(LENGTH_MASK as usize - 1)).unwrap_or_default();
        let mut padded = text.to_vec();
        padded.push(0);
        let bytes = padded.len();
        padded.resize(bytes.next_multiple_of(4), 0);
        self.put([u32::from(tag.number()) << 24 | bytes as u32, id.word()], &padded, 1);
    }

    /// Writes records as one batch, if there are any.
    pub(super) fn write_batch(&self, bytes: &[u8], records: u32, because_full: bool) {
        if bytes.is_empty() {
            return;
        }
        if because_full {
            self.log.flushes.fetch_add(1, Ordering::Relaxed);
        }
        self.put([u32::from(BATCH_TAG) << 24, bytes.len() as u32], bytes, u64::from(records));
    }

    /// Writes a record, with its head.
    pub(super) fn write_record(&self, bytes: &[u8]) {
        let Some((first, rest)) = bytes.split_first_chunk() else { return };
        let Some((second, text)) = rest.split_first_chunk() else { return };
        self.put([*first, *second].map(u32::from_ne_bytes), text, 1);
    }

    /// Writes whole words behind a head.
    fn put(&self, head: [u32; RECORD_WORDS], bytes: &[u8], records: u64) {
        let log = &*self.log;
        let start = {
            let mut place = log.lock();
            let start = log.reserve(&mut place, RECORD_WORDS + bytes.len() / 4);
            match start {
                Some(_) => {
                    // The lowest segment that the place touches: it may begin in the one before.
                    self.mark.store(place.segment.saturating_sub(1), Ordering::Relaxed);
                    place.figures.writes += 1;
                    place.figures.records += records;
                }
                None => place.figures.lost += 1,
            }
            start
        };
        let Some(start) = start.map(|start| HEADER_WORDS + start) else { return };
        let [first, second] = head;
        log.memory.copy_in(start + RECORD_WORDS, bytes);
        log.store(start + 1, second, Ordering::Relaxed);
        // IMPORTANT: the first word is what readers wait for; it is stored when all else is there.
        log.store(start, first, Ordering::Release);
        self.mark.store(IDLE, Ordering::Release);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn log(bytes: usize) -> Arc<Log> {
        let file = tempfile::tempfile().unwrap();
        let memory = Memory::create(&file, bytes).unwrap();
        Log::prepare(&memory);
        Arc::new(Log::new(memory))
    }

    #[test]
    fn a_writer_that_sleeps_is_never_overtaken() {
        let log = log(SPACE_MIN);
        let (sleeper, writer) = (log.writer(), log.writer());
        writer.write(VslTag::Debug, LogId::NONE, b"first");
        // As if it had its place and did not copy yet.
        sleeper.mark.store(FIRST_SEGMENT, Ordering::Relaxed);
        let text = [b'x'; 4000];
        for _ in 0..SPACE_MIN / 4000 * 2 {
            writer.write(VslTag::Debug, LogId::NONE, &text);
        }
        let place = log.lock().segment;
        assert_eq!(place, FIRST_SEGMENT + DISTANCE_MAX);
        assert!(log.figures().lost > 0);
        sleeper.mark.store(IDLE, Ordering::Relaxed);
        writer.write(VslTag::Debug, LogId::NONE, &text);
        for _ in 0..SPACE_MIN / 4000 {
            writer.write(VslTag::Debug, LogId::NONE, &text);
        }
        assert!(log.lock().segment > place + DISTANCE_MAX);
        assert_eq!(log.figures().cycles, 1);
    }

    #[test]
    fn masked_tags_are_not_written() {
        let log = log(SPACE_MIN);
        let writer = log.writer();
        log.set_written(VslTag::VdpAcct, false);
        writer.write(VslTag::VdpAcct, LogId::NONE, b"x");
        assert_eq!(log.figures().records, 0);
        log.set_written(VslTag::VdpAcct, true);
        writer.write(VslTag::VdpAcct, LogId::NONE, b"x");
        assert_eq!(log.figures().records, 1);
    }
}
