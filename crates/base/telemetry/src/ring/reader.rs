//! The reading side: follows a ring without stopping its writer. Everything in the ring is treated as untrusted.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc,
        atomic::{
            Ordering::{Acquire, Relaxed},
            fence,
        },
    },
};

use super::{
    RingError, Tag,
    layout::{
        BLOCK_HEADER_BYTES, CLOSED_WORD, COMMITTED_WORD, CREATED_WORD, FLAG_TRUNCATED, HEADER_BYTES, HEADER_WORDS,
        MAGIC, MAGIC_WORD, OWNER_WORD, RECORD_HEADER_BYTES, REFUSED_WORD, RESERVED_WORD, RING_BYTES_MAX,
        RING_BYTES_MIN, SEGMENTS, SEGMENTS_WORD, SIZE_WORD, TRANSACTIONS_WORD, VERSION, VERSION_WORD, WORD,
        block_bytes_max,
    },
    memory::Memory,
};

/// Least number of bytes copied at a time, if there are as many.
const CHUNK_BYTES: usize = 64 * 1024;

/// Follows one ring.
#[derive(Debug)]
pub struct RingReader {
    memory: Arc<Memory>,
    size: usize,
    /// Where the next block begins; the block lies in `chunk` from `offset` on when it has been copied already.
    position: u64,
    chunk: Vec<u8>,
    offset: usize,
    /// The last block, if it held summaries: with what they stand for in their place.
    expanded: Vec<u8>,
}

/// What a reader found.
#[derive(Debug)]
pub enum RingEvent<'a> {
    /// A block of records.
    Block(Block<'a>),
    /// The writer was faster: this many bytes of records were overwritten unread.
    Lost {
        /// Bytes.
        bytes: u64,
    },
    /// Nothing new: ask again later.
    Idle,
    /// Nothing new, and the writer is gone.
    Closed,
}

/// Records that were committed together.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    bytes: &'a [u8],
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of the tag.
    pub number: u16,
    /// Microseconds since 1970.
    pub time_us: u64,
    /// The text.
    pub text: &'a [u8],
}

impl Record<'_> {
    /// The tag, if this version knows it.
    #[must_use]
    pub fn tag(&self) -> Option<Tag> {
        Tag::of(self.number)
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    bytes.as_chunks::<WORD>().0.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl<'a> Block<'a> {
    /// The block at the beginning of `bytes`, if it stands at `position` and is whole.
    fn parse(bytes: &'a [u8], position: u64) -> Option<Self> {
        let length = word(bytes, 0) as u32 as usize;
        if length < BLOCK_HEADER_BYTES || !length.is_multiple_of(WORD) || word(bytes, 1) != position {
            return None;
        }
        bytes.get(..length).map(|bytes| Self { bytes })
    }

    /// A block that was copied out of a ring.
    pub(super) fn of_copy(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn position(&self) -> u64 {
        word(self.bytes, 1)
    }

    /// The transaction that the records belong to.
    #[must_use]
    pub fn id(&self) -> u64 {
        word(self.bytes, 2)
    }

    /// When the block was begun, in microseconds since 1970.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        word(self.bytes, 3)
    }

    /// Whether records of it were cut or left out.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        (word(self.bytes, 0) >> 32) as u16 & FLAG_TRUNCATED != 0
    }

    /// The records in order.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records { bytes: self.bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default(), started_us: self.time_us() }
    }

    /// The text of the first record with a tag.
    #[must_use]
    pub fn first(&self, tag: Tag) -> Option<&'a [u8]> {
        self.records().find(|record| record.number == tag.number()).map(|record| record.text)
    }
}

/// The records of a block.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    started_us: u64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (header, rest) = self.bytes.split_at_checked(RECORD_HEADER_BYTES)?;
        let header = word(header, 0);
        let length = usize::from((header >> 16) as u16);
        let text = rest.get(..length)?;
        self.bytes = rest.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some(Record { number: header as u16, time_us: self.started_us.saturating_add(header >> 32), text })
    }
}

impl RingReader {
    /// Opens a ring by its file and begins with what is written next.
    ///
    /// # Errors
    /// When there is no such file, or it is no ring that this version can read.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        Self::from_file(File::open(path)?.into())
    }

    /// Opens a ring by a descriptor that can be read and begins with what is written next.
    ///
    /// # Errors
    /// When it is no ring that this version can read.
    pub fn from_file(file: OwnedFd) -> Result<Self, RingError> {
        Self::of(Arc::new(Memory::open(file)?))
    }

    pub(super) fn of(memory: Arc<Memory>) -> Result<Self, RingError> {
        let mut reader = Self { memory, size: 0, position: 0, chunk: Vec::new(), offset: 0, expanded: Vec::new() };
        if reader.load(MAGIC_WORD) != MAGIC {
            return Err(RingError::NotARing);
        }
        fence(Acquire);
        let version = reader.load(VERSION_WORD);
        if version as u32 != VERSION {
            return Err(RingError::Version(version as u32));
        }
        let size = usize::try_from(reader.load(SIZE_WORD)).unwrap_or(0);
        let sane = (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&size)
            && size.is_power_of_two()
            && version >> 32 == HEADER_BYTES as u64
            && reader.memory.words().len() == (HEADER_BYTES + size) / WORD;
        if !sane {
            return Err(RingError::Damaged);
        }
        reader.size = size;
        reader.to_end();
        Ok(reader)
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.words().get(word).map_or(0, |word| word.load(Relaxed))
    }

    /// Begins again with the oldest records that are still there.
    pub fn to_start(&mut self) {
        let position = self.oldest_block(0);
        self.go_to(position);
    }

    /// Skips to the end: what is written next comes first.
    pub fn to_end(&mut self) {
        let position = self.load(COMMITTED_WORD);
        self.go_to(position);
    }

    fn go_to(&mut self, position: u64) {
        self.position = position;
        self.chunk.clear();
        self.offset = 0;
    }

    /// The first block that the writer will not overwrite within the next `distance` bytes.
    fn oldest_block(&self, distance: u64) -> u64 {
        let committed = self.load(COMMITTED_WORD);
        fence(Acquire);
        let kept_from = self.load(RESERVED_WORD).saturating_add(distance).saturating_sub(self.size as u64);
        (0..SEGMENTS)
            .map(|segment| self.load(SEGMENTS_WORD + segment))
            .filter(|position| (kept_from..=committed).contains(position))
            .min()
            .unwrap_or(committed)
    }

    /// The worker that writes the ring, and its process.
    #[must_use]
    pub fn owner(&self) -> (u32, u32) {
        let owner = self.load(OWNER_WORD);
        (owner as u32, (owner >> 32) as u32)
    }

    /// When the ring was made, in microseconds since 1970.
    #[must_use]
    pub fn created_us(&self) -> u64 {
        self.load(CREATED_WORD)
    }

    /// Blocks committed so far, and blocks that were too large for the ring.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.load(TRANSACTIONS_WORD), self.load(REFUSED_WORD))
    }

    /// The next thing to tell. Never waits.
    pub fn poll(&mut self) -> RingEvent<'_> {
        if self.next_block().is_none() {
            // The chunk is used up; what is left of it is a block that reaches beyond its end.
            match self.fill() {
                Fill::Some => {}
                Fill::Nothing => return if self.load(CLOSED_WORD) == 0 { RingEvent::Idle } else { RingEvent::Closed },
                Fill::Overrun => return self.resynchronize(),
            }
        }
        // Without a block even now, this is not what a writer of this version leaves behind.
        let Some(length) = self.next_block().map(|block| block.bytes.len()) else { return self.skip_damage() };
        let start = self.offset;
        self.offset += length;
        self.position += length as u64;
        let block = Block { bytes: self.chunk.get(start..self.offset).unwrap_or_default() };
        match super::summary::expand(&block) {
            None => RingEvent::Block(block),
            Some(bytes) => {
                self.expanded = bytes;
                RingEvent::Block(Block { bytes: &self.expanded })
            }
        }
    }

    fn next_block(&self) -> Option<Block<'_>> {
        Block::parse(self.chunk.get(self.offset..)?, self.position)
    }

    fn resynchronize(&mut self) -> RingEvent<'static> {
        let committed = self.load(COMMITTED_WORD);
        if self.position > committed {
            // Only a damaged header says so.
            self.go_to(committed);
            return RingEvent::Lost { bytes: 0 };
        }
        // A quarter of the ring is given up on purpose: a reader set back to the very oldest block is overrun at once.
        match self.oldest_block(self.size as u64 / 4) {
            position if position > self.position => self.lose_until(position),
            _ => self.skip_damage(),
        }
    }

    fn skip_damage(&mut self) -> RingEvent<'static> {
        let committed = self.load(COMMITTED_WORD);
        self.lose_until(committed)
    }

    fn lose_until(&mut self, position: u64) -> RingEvent<'static> {
        let bytes = position.saturating_sub(self.position);
        self.go_to(position);
        RingEvent::Lost { bytes }
    }

    /// Copies what follows the position, a whole number of words that hold at least one block.
    fn fill(&mut self) -> Fill {
        self.chunk.clear();
        self.offset = 0;
        let committed = self.load(COMMITTED_WORD);
        fence(Acquire);
        let available = match usize::try_from(committed.wrapping_sub(self.position)) {
            Ok(0) => return Fill::Nothing,
            Ok(available) if available <= self.size => available,
            _ => return Fill::Overrun,
        };
        let length = available.min(CHUNK_BYTES.max(block_bytes_max(self.size)));
        let data = self.memory.words().get(HEADER_WORDS..).unwrap_or_default();
        let start = (self.position as usize / WORD) & (self.size / WORD - 1);
        let (before, after) = data.split_at_checked(start).unwrap_or_default();
        for word in after.iter().chain(before).take(length / WORD) {
            self.chunk.extend_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        fence(Acquire);
        if self.load(RESERVED_WORD).wrapping_sub(self.position) > self.size as u64 {
            self.chunk.clear();
            return Fill::Overrun;
        }
        Fill::Some
    }
}

enum Fill {
    Some,
    Nothing,
    Overrun,
}
