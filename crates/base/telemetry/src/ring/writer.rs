//! The writing side: one a worker.

use std::{
    cell::Cell,
    fs::OpenOptions,
    io,
    os::{fd::AsFd, fd::BorrowedFd, unix::fs::OpenOptionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, Release},
            fence,
        },
    },
};

use super::{
    RingError, RingReader, Transaction,
    layout::{
        CLOSED_WORD, COMMITTED_WORD, CREATED_WORD, HEADER_BYTES, HEADER_WORDS, MAGIC, MAGIC_WORD, NO_BLOCK, OWNER_WORD,
        REFUSED_WORD, RESERVED_WORD, SEGMENTS, SEGMENTS_WORD, SIZE_WORD, TRANSACTIONS_WORD, VERSION, VERSION_WORD,
        WORD, block_bytes_max, ring_bytes,
    },
    memory::Memory,
};

/// Name of the memory files, before the worker's number.
pub(super) const NAME_PREFIX: &str = "tidegate-ring-";

/// Writes the ring of one worker. It can be moved to the worker's thread but not shared.
#[derive(Debug)]
pub struct RingWriter {
    memory: Arc<Memory>,
    size: usize,
    position: Cell<u64>,
    segment: Cell<u64>,
}

impl RingWriter {
    /// A ring in anonymous memory, found by other processes with [`super::discover`]. It is gone with the process.
    ///
    /// # Errors
    /// When the system has no memory or no file descriptors left.
    pub fn anonymous(worker: u32, bytes: usize, created_us: u64) -> Result<Self, RingError> {
        let size = ring_bytes(bytes);
        let memory = Memory::anonymous(&format!("{NAME_PREFIX}{worker}"), HEADER_BYTES + size)?;
        Ok(Self::new(memory, size, worker, created_us))
    }

    /// A ring in a file, which replaces one that is there. It outlives the process, so the last moments before a crash
    /// can be read.
    ///
    /// The folder must be writable by nobody else: whoever shrinks the file ends this process.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn in_file(path: &Path, worker: u32, bytes: usize, created_us: u64) -> Result<Self, RingError> {
        let size = ring_bytes(bytes);
        // A reader may still have the old file mapped, so it is unlinked and not truncated.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o640).open(path)?;
        let memory = Memory::of_new_file(file.into(), HEADER_BYTES + size)?;
        Ok(Self::new(memory, size, worker, created_us))
    }

    fn new(memory: Memory, size: usize, worker: u32, created_us: u64) -> Self {
        let writer = Self { memory: Arc::new(memory), size, position: Cell::new(0), segment: Cell::new(0) };
        writer.set(VERSION_WORD, u64::from(VERSION) | (HEADER_BYTES as u64) << 32);
        writer.set(SIZE_WORD, size as u64);
        writer.set(OWNER_WORD, u64::from(worker) | u64::from(std::process::id()) << 32);
        writer.set(CREATED_WORD, created_us);
        for segment in 1..SEGMENTS {
            writer.set(SEGMENTS_WORD + segment, NO_BLOCK);
        }
        fence(Release);
        writer.set(MAGIC_WORD, MAGIC);
        writer
    }

    /// A buffer for transactions of this ring.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction::new(block_bytes_max(self.size))
    }

    /// A reader in this process that begins with what is written next.
    ///
    /// # Errors
    /// Never for a ring that this process made.
    pub fn reader(&self) -> Result<RingReader, RingError> {
        RingReader::of(Arc::clone(&self.memory))
    }

    /// Bytes of the ring.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Puts a transaction's records into the ring, over the oldest ones. An empty transaction leaves no trace.
    pub fn commit(&self, transaction: &mut Transaction) {
        let bytes = transaction.block_bytes();
        if transaction.is_empty() {
            return;
        }
        if bytes > block_bytes_max(self.size) {
            // Made for a larger ring.
            self.increment(REFUSED_WORD);
            return;
        }
        let position = self.position.get();
        let end = position + bytes as u64;
        let segment = position / block_bytes_max(self.size) as u64;
        self.set(RESERVED_WORD, end);
        fence(Release);
        if segment != self.segment.get() {
            self.segment.set(segment);
            self.set(SEGMENTS_WORD + (segment % SEGMENTS as u64) as usize, position);
        }
        let block = transaction.block(position);
        let data = self.memory.words().get(HEADER_WORDS..).unwrap_or_default();
        let start = (position as usize / WORD) & (self.size / WORD - 1);
        let (before, after) = data.split_at_checked(start).unwrap_or_default();
        let at_end = block.len().min(after.len() * WORD);
        let (first, second) = block.split_at_checked(at_end).unwrap_or_default();
        store(after, first);
        store(before, second);
        self.increment(TRANSACTIONS_WORD);
        if let Some(word) = self.memory.words().get(COMMITTED_WORD) {
            word.store(end, Release);
        }
        self.position.set(end);
    }

    fn set(&self, word: usize, value: u64) {
        if let Some(word) = self.memory.words().get(word) {
            word.store(value, Relaxed);
        }
    }

    fn increment(&self, word: usize) {
        if let Some(word) = self.memory.words().get(word) {
            word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }
}

#[inline]
fn store(words: &[AtomicU64], bytes: &[u8]) {
    for (word, bytes) in words.iter().zip(bytes.as_chunks::<WORD>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

impl AsFd for RingWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        if let Some(word) = self.memory.words().get(CLOSED_WORD) {
            word.store(1, Release);
        }
    }
}
