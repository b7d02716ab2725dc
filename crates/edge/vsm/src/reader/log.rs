//! A reader of the log.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use telemetry::vsl::VslTag;

use super::{Entry, Reader};
use crate::{
    VsmError,
    log::{
        BACKEND_MARKER, BATCH_TAG, CLIENT_MARKER, END_MARKER, HEADER_WORDS, ID_MASK, LENGTH_MASK, MARKER, OFFSETS,
        RECORD_WORDS, SEGMENT_NUMBER, SEGMENT_WORDS, SEGMENTS, WRAP_MARKER,
    },
    memory::Memory,
};

/// Segments that a reader may be behind. Nearer to the writer's next segment it could read what is being written over.
const BEHIND_MAX: u32 = SEGMENTS as u32 - 2;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its tag. One that this version does not know has no [`VslTag`].
    pub tag: u8,
    /// The number of its transaction, 0 for none.
    pub vxid: u32,
    /// Whether it belongs to a client.
    pub is_client: bool,
    /// Whether it belongs to a backend.
    pub is_backend: bool,
    /// The text, without the zero byte at its end.
    pub text: Vec<u8>,
}

impl Record {
    /// Its tag, if this version knows it.
    #[must_use]
    pub fn known_tag(&self) -> Option<VslTag> {
        VslTag::of(self.tag)
    }

    /// One out of its words.
    pub(crate) fn of(first: u32, second: u32, mut text: Vec<u8>) -> Self {
        let tag = (first >> 24) as u8;
        if !VslTag::of(tag).is_some_and(VslTag::is_binary) && text.last() == Some(&0) {
            text.pop();
        }
        Self {
            tag,
            vxid: second & ID_MASK,
            is_client: second & CLIENT_MARKER != 0,
            is_backend: second & BACKEND_MARKER != 0,
            text,
        }
    }

    /// A record without its text, and how many bytes that has, out of the first 8 bytes as they stand in files. `None` if there is no such.
    #[must_use]
    pub fn from_head(head: [u8; 8]) -> Option<(Self, usize)> {
        let (words, _) = head.as_chunks::<4>();
        let [first, second] = words else { return None };
        let (first, second) = (u32::from_ne_bytes(*first), u32::from_ne_bytes(*second));
        let record = Self::of(first, second, Vec::new());
        (record.tag != 0).then_some((record, (first & LENGTH_MASK) as usize))
    }

    /// The same with a text as it stands in files.
    #[must_use]
    pub fn with_text(mut self, mut text: Vec<u8>) -> Self {
        if !self.known_tag().is_some_and(VslTag::is_binary) && text.last() == Some(&0) {
            text.pop();
        }
        self.text = text;
        self
    }

    /// As it stands in the log and in files.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = self.text.clone();
        if !self.known_tag().is_some_and(VslTag::is_binary) {
            text.push(0);
        }
        let side = if self.is_client { CLIENT_MARKER } else { 0 } | if self.is_backend { BACKEND_MARKER } else { 0 };
        let bytes = text.len().min(LENGTH_MASK as usize);
        text.truncate(bytes);
        text.resize(bytes.next_multiple_of(4), 0);
        let first = u32::from(self.tag) << 24 | bytes as u32;
        [&first.to_ne_bytes()[..], &(self.vxid | side).to_ne_bytes(), &text].concat()
    }
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record that is safe.
    Oldest,
    /// With the next one that will be written.
    Tail,
}

/// What a look at the log brings.
#[derive(Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A record.
    Record(Record),
    /// Nothing more yet.
    Nothing,
    /// Records were written over before they were read. The next one is the oldest that is safe.
    Overrun,
    /// The memory has what no log has: there is nothing more to be read.
    Damaged,
}

/// A place in a log.
#[derive(Debug)]
pub struct LogReader {
    memory: Memory,
    entry: Entry,
    first_word: usize,
    segment_words: usize,
    at: usize,
    segment: u32,
}

impl LogReader {
    /// The log of an instance's worker. Nothing while there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is no log.
    pub fn open(reader: &Reader, start: Start) -> Result<Option<Self>, VsmError> {
        let Some(entry) = reader.entries().find(|entry| entry.class == "Log") else { return Ok(None) };
        let memory = reader.map(entry)?;
        let log = Self::of_memory(memory, entry.clone(), start);
        log.map(Some).map_err(|what| VsmError::Damaged { path: reader.path().to_owned(), what })
    }

    fn of_memory(memory: Memory, entry: Entry, start: Start) -> Result<Self, &'static str> {
        let first_word = entry.offset / 4;
        let mut log = Self { memory, entry, first_word, segment_words: 0, at: 0, segment: 0 };
        let marker = [log.word(0), log.word(1)].map(u32::to_ne_bytes).concat();
        if marker != MARKER {
            return Err("the log is none, or of another version");
        }
        let words = u64::from(log.word(SEGMENT_WORDS)) | u64::from(log.word(SEGMENT_WORDS + 1)) << 32;
        log.segment_words = usize::try_from(words).unwrap_or(0);
        let room = (log.entry.bytes / 4).saturating_sub(HEADER_WORDS);
        if log.segment_words == 0 || log.segment_words.checked_mul(SEGMENTS).is_none_or(|words| words > room) {
            return Err("the log is larger than its memory");
        }
        log.reset();
        if start == Start::Tail {
            log.skip_to_end();
        }
        Ok(log)
    }

    /// Whether the log is still the one of the instance.
    #[must_use]
    pub fn is_current(&self, reader: &Reader) -> bool {
        reader.entries().any(|entry| *entry == self.entry)
    }

    fn atomic(&self, at: usize) -> Option<&AtomicU32> {
        self.memory.words().get(self.first_word + at)
    }

    fn word(&self, at: usize) -> u32 {
        self.atomic(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The first record of a segment, if it was written to.
    fn offset(&self, segment: u32) -> Option<usize> {
        let slot = OFFSETS + 2 * (segment as usize % SEGMENTS);
        match self.word(slot + 1) {
            0 => usize::try_from(self.word(slot)).ok().filter(|at| *at < self.segment_words * SEGMENTS),
            _ => None,
        }
    }

    /// Begins with the oldest record that is safe for a while.
    fn reset(&mut self) {
        let current = self.word(SEGMENT_NUMBER);
        let oldest = (0..=BEHIND_MAX - 1).rev().map(|behind| current.wrapping_sub(behind));
        let found = oldest.filter_map(|segment| Some((segment, self.offset(segment)?))).next();
        (self.segment, self.at) = found.unwrap_or((current, 0));
    }

    fn skip_to_end(&mut self) {
        self.segment = self.word(SEGMENT_NUMBER);
        self.at = self.offset(self.segment).unwrap_or(0);
        // A writer that is faster than this ends it: what follows is new in any case.
        let bound = self.segment_words;
        for _ in 0..bound {
            if !matches!(self.next(), LogEvent::Record(_)) {
                return;
            }
        }
    }

    fn is_overrun(&self) -> bool {
        self.word(SEGMENT_NUMBER).wrapping_sub(self.segment) >= BEHIND_MAX
    }

    /// The next record.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> LogEvent {
        // A batch and a wrap bring no record of their own, and follow each other at most so.
        for _ in 0..4 {
            if self.is_overrun() {
                self.reset();
                return LogEvent::Overrun;
            }
            let end = self.segment_words * SEGMENTS;
            let first = self.word(HEADER_WORDS + self.at);
            match first {
                END_MARKER => return LogEvent::Nothing,
                WRAP_MARKER => {
                    self.at = 0;
                    self.segment = (self.segment / SEGMENTS as u32).wrapping_add(1).wrapping_mul(SEGMENTS as u32);
                    continue;
                }
                _ if first >> 24 == u32::from(BATCH_TAG) => {
                    self.at += RECORD_WORDS;
                    self.follow_segment();
                    continue;
                }
                _ => {}
            }
            let bytes = (first & LENGTH_MASK) as usize;
            let next = self.at + RECORD_WORDS + bytes.div_ceil(4);
            let record = (next < end && first >> 24 != 0).then(|| self.copy(self.at, first, bytes));
            // What was copied counts only if nobody can have written over it meanwhile.
            fence(Ordering::Acquire);
            if self.is_overrun() {
                continue;
            }
            let Some(record) = record else { return LogEvent::Damaged };
            self.at = next;
            self.follow_segment();
            return LogEvent::Record(record);
        }
        LogEvent::Nothing
    }

    fn copy(&self, at: usize, first: u32, bytes: usize) -> Record {
        let start = self.first_word + HEADER_WORDS + at;
        let second = self.word(HEADER_WORDS + at + 1);
        let from = start + RECORD_WORDS;
        let words = self.memory.words().get(from..from + bytes.div_ceil(4)).unwrap_or_default();
        let mut text: Vec<u8> = Vec::with_capacity(words.len() * 4);
        for word in words {
            text.extend(word.load(Ordering::Relaxed).to_ne_bytes());
        }
        text.truncate(bytes);
        Record::of(first, second, text)
    }

    fn follow_segment(&mut self) {
        let in_cycle = (self.at / self.segment_words) as u32;
        self.segment = self.segment.wrapping_add(in_cycle.saturating_sub(self.segment % SEGMENTS as u32));
    }
}

/// A log of these words.
fn reader_of(words: &[u32]) -> Result<LogReader, &'static str> {
    let file = rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC).map_err(|_| "no memory")?;
    let memory = Memory::create(&file.into(), 4 * (words.len() + 8)).map_err(|_| "no memory")?;
    memory.words().iter().zip(words).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    let entry = Entry {
        folder: "",
        file: String::new(),
        offset: 0,
        bytes: memory.words().len() * 4,
        class: String::new(),
        ident: String::new(),
    };
    LogReader::of_memory(memory, entry, Start::Oldest)
}

/// Reads a log whose first words are those of a real one, and all others the data.
pub(super) fn survives(data: &[u8]) {
    let (words, _) = data.as_chunks::<4>();
    let size = words.len().saturating_sub(HEADER_WORDS) / SEGMENTS;
    let mut all = vec![u32::from_ne_bytes(*b"VSLH"), u32::from_ne_bytes(*b"EAD1"), size as u32, 0];
    all.extend(words.iter().map(|word| u32::from_ne_bytes(*word)));
    let Ok(mut log) = reader_of(&all) else { return };
    for _ in 0..=2 * all.len() {
        if let LogEvent::Record(record) = log.next() {
            assert!(record.text.len() <= LENGTH_MASK as usize);
            // What is written to a file is what was read.
            let bytes = record.to_bytes();
            let (words, _) = bytes.as_chunks::<4>();
            let word = |at: usize| words.get(at).map_or(0, |word| u32::from_ne_bytes(*word));
            let length = (word(0) & LENGTH_MASK) as usize;
            let text = bytes.get(8..8 + length).unwrap_or_default().to_vec();
            let again = Record::of(word(0), word(1), text);
            assert_eq!((again.tag, again.vxid, again.is_client), (record.tag, record.vxid, record.is_client));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// Whatever is in the memory, reading it ends, and no record is longer than its length says.
        #[test]
        fn any_memory_is_survived(data in vec(any::<u8>(), 0..1000)) {
            super::survives(&data);
        }

        /// Words that a log may have.
        #[test]
        fn likely_memory_is_survived(words in vec(prop_oneof![
            Just(0_u32), Just(END_MARKER), Just(WRAP_MARKER), Just(u32::from(BATCH_TAG) << 24), 1_u32..40, (1_u32..97, 0_u32..20).prop_map(|(tag, bytes)| tag << 24 | bytes)
        ], 0..300)) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            super::survives(&bytes);
        }

        #[test]
        fn any_index_is_survived(text in "[-+# a-z0-9_.\n/]{0,200}") {
            let _ = super::super::index::parse(&text, "");
        }
    }
}
