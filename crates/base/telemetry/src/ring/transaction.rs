//! The buffer in which the records of a transaction gather before they go into the ring.

use std::fmt::{self, Write as _};

use super::{
    Tag,
    layout::{BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES, WORD},
};

/// Records of one transaction, or of a part of a long one. Made by [`super::RingWriter::transaction`] and used again and
/// again.
///
/// Its bytes are bounded: when they run out, the record that does not fit is cut, later ones are left out, and readers see
/// that something is missing.
#[derive(Debug)]
pub struct Transaction {
    /// Room for the block header, then records; always whole words.
    bytes: Vec<u8>,
    bytes_max: usize,
    id: u64,
    started_us: u64,
    offset_us: u32,
    records: u16,
    truncated: bool,
}

const PADDING: [u8; WORD] = [0; WORD];

impl Transaction {
    pub(super) fn new(bytes_max: usize) -> Self {
        let mut transaction =
            Self { bytes: Vec::new(), bytes_max, id: 0, started_us: 0, offset_us: 0, records: 0, truncated: false };
        transaction.begin(0, 0);
        transaction
    }

    /// Forgets the records and begins transaction `id` at a time in microseconds since 1970.
    pub fn begin(&mut self, id: u64, now_us: u64) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; BLOCK_HEADER_BYTES]);
        self.id = id;
        self.started_us = now_us;
        self.offset_us = 0;
        self.records = 0;
        self.truncated = false;
    }

    /// Forgets the records and goes on with the same transaction: for one that is committed in parts.
    pub fn continue_at(&mut self, now_us: u64) {
        self.begin(self.id, now_us);
    }

    /// The time of the records that follow, in microseconds since 1970.
    pub fn at(&mut self, now_us: u64) {
        self.offset_us = u32::try_from(now_us.saturating_sub(self.started_us)).unwrap_or(u32::MAX);
    }

    /// The transaction's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether records were cut or left out.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Adds a record.
    #[inline]
    pub fn record(&mut self, tag: Tag, text: &[u8]) {
        let start = self.bytes.len();
        let length = text.len();
        let padding = length.wrapping_neg() % WORD;
        let fits = start + RECORD_HEADER_BYTES + length + padding <= self.bytes_max && length <= usize::from(u16::MAX);
        if !fits || self.records == u16::MAX {
            return self.record_parts(tag, &[text]);
        }
        // NOTE: nearly every record comes this way, so it makes room once and copies three times.
        let header = u64::from(tag.number()) | ((length as u64) << 16) | (u64::from(self.offset_us) << 32);
        self.bytes.reserve(RECORD_HEADER_BYTES + length + padding);
        self.bytes.extend_from_slice(&header.to_le_bytes());
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(PADDING.get(..padding).unwrap_or_default());
        self.records += 1;
    }

    /// Adds a record whose text comes in parts.
    #[inline]
    pub fn record_parts(&mut self, tag: Tag, parts: &[&[u8]]) {
        let start = self.open();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.close(tag, start);
    }

    /// Bytes of text that fit behind the records so far and `fixed` bytes of one more.
    pub(super) fn text_room(&self, fixed: usize) -> usize {
        // Whole words, so that the padding fits too.
        self.bytes_max.saturating_sub(self.bytes.len() + RECORD_HEADER_BYTES + fixed) / WORD * WORD
    }

    /// Adds a record made of numbers and then texts, which the caller has cut to fit. The first number is the record's header, which
    /// is put in here.
    pub(super) fn record_words<const WORDS: usize>(
        &mut self,
        tag: Tag,
        mut words: [u64; WORDS],
        texts: &[&[u8]],
        truncated: bool,
    ) {
        let length = (WORDS - 1) * WORD + texts.iter().map(|text| text.len()).sum::<usize>();
        let padded = length.next_multiple_of(WORD);
        if self.bytes.len() + RECORD_HEADER_BYTES + padded > self.bytes_max || self.records == u16::MAX {
            self.truncated = true;
            return;
        }
        if let Some(header) = words.first_mut() {
            *header = u64::from(tag.number()) | ((length as u64) << 16) | (u64::from(self.offset_us) << 32);
        }
        // NOTE: each request writes one: room is made once, numbers are copied in one piece, and padding as a whole word.
        let end = self.bytes.len() + RECORD_HEADER_BYTES + padded;
        self.bytes.reserve(RECORD_HEADER_BYTES + padded + WORD);
        let mut bytes = [[0; WORD]; WORDS];
        for (bytes, word) in bytes.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        self.bytes.extend_from_slice(bytes.as_flattened());
        for text in texts {
            self.bytes.extend_from_slice(text);
        }
        self.bytes.extend_from_slice(&PADDING);
        self.bytes.truncate(end);
        self.truncated |= truncated;
        self.records += 1;
    }

    pub(super) fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Adds a header field: name, colon, space, value.
    pub fn record_field(&mut self, tag: Tag, name: &[u8], value: &[u8]) {
        self.record_parts(tag, &[name, b": ", value]);
    }

    /// Adds a record of formatted text.
    pub fn record_fmt(&mut self, tag: Tag, text: fmt::Arguments<'_>) {
        let start = self.open();
        let _ = Appender(&mut self.bytes).write_fmt(text);
        self.close(tag, start);
    }

    #[inline]
    fn open(&mut self) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&PADDING);
        start
    }

    /// Fills in the header of the record that began at `start`, and pads it.
    #[inline]
    fn close(&mut self, tag: Tag, start: usize) {
        let mut length = self.bytes.len() - start - RECORD_HEADER_BYTES;
        let room = self.bytes_max.saturating_sub(start + RECORD_HEADER_BYTES).min(usize::from(u16::MAX));
        if length > room || self.records == u16::MAX {
            self.truncated = true;
            if room < WORD || self.records == u16::MAX {
                self.bytes.truncate(start);
                return;
            }
            // Whole words, so that the padding fits too.
            length = room / WORD * WORD;
            self.bytes.truncate(start + RECORD_HEADER_BYTES + length);
        } else if start + RECORD_HEADER_BYTES > self.bytes_max {
            self.truncated = true;
            self.bytes.truncate(start);
            return;
        }
        let header = u64::from(tag.number()) | ((length as u64 & 0xffff) << 16) | (u64::from(self.offset_us) << 32);
        if let Some(place) = self.bytes.get_mut(start..start + RECORD_HEADER_BYTES) {
            place.copy_from_slice(&header.to_le_bytes());
        }
        let padding = self.bytes.len().wrapping_neg() % WORD;
        self.bytes.extend_from_slice(PADDING.get(..padding).unwrap_or_default());
        self.records += 1;
    }

    /// The block for the ring position `position`: header and records.
    pub(super) fn block(&mut self, position: u64) -> &[u8] {
        let flags = if self.truncated { super::layout::FLAG_TRUNCATED } else { 0 };
        let first = self.bytes.len() as u64 & 0xffff_ffff | (u64::from(flags) << 32) | (u64::from(self.records) << 48);
        for (place, word) in self.bytes.chunks_exact_mut(WORD).zip([first, position, self.id, self.started_us]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        &self.bytes
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.bytes.len()
    }
}

struct Appender<'a>(&'a mut Vec<u8>);

impl fmt::Write for Appender<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
