//! Records of a transaction before they go out.
//!
//! A hit makes some forty of them, so each is written once, where it stays: the text goes straight into the buffer, behind a head that
//! is written last. What the buffer has behind its records may be anything; only the last word of a record is made zero.

use telemetry::vsl::VslTag;

use super::{
    BACKEND_MARKER, CLIENT_MARKER, ID_MASK, LENGTH_MASK, LogWriter, RECORD_WORDS,
    record::{Record, first_word_first, write_short},
};

/// Bytes of a record's text, with the zero behind it, unless set otherwise: Varnish's parameter vsl_reclen.
const RECORD_BYTES_DEFAULT: usize = 255;
const BUFFER_BYTES_MIN: usize = 267;
/// Bytes of a record before its text.
pub(super) const HEAD_BYTES: usize = RECORD_WORDS * 4;
/// Bytes behind the text of a record that may be written with it.
pub(super) const SLACK_BYTES: usize = 8;
/// Bytes of a text that is written without a call.
const SHORT_BYTES_MAX: usize = 64;
/// Room for a record of some numbers and short words.
pub const SHORT_ROOM: usize = HEAD_BYTES + 80 + SLACK_BYTES;
/// Room for one with names and addresses.
pub const LONG_ROOM: usize = HEAD_BYTES + 256 + SLACK_BYTES;
/// Bytes of memory that the first record takes: what most transactions need.
const MEMORY_BYTES_FIRST: usize = 2 << 10;

/// The number of a transaction (its vxid), and whose side it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId(u32);

impl LogId {
    /// Of nobody's transaction, as for probes.
    pub const NONE: Self = Self(0);

    /// A session or a client's request.
    #[must_use]
    pub const fn client(vxid: u32) -> Self {
        Self(vxid & ID_MASK | CLIENT_MARKER)
    }

    /// A fetch.
    #[must_use]
    pub const fn backend(vxid: u32) -> Self {
        Self(vxid & ID_MASK | BACKEND_MARKER)
    }

    /// The number alone.
    #[must_use]
    pub const fn vxid(self) -> u32 {
        self.0 & ID_MASK
    }

    pub(crate) const fn word(self) -> u32 {
        self.0
    }
}

/// The records of a transaction that has not ended. They go out as one batch, or as several where there are many.
#[derive(Debug)]
pub struct LogBuffer {
    id: LogId,
    /// Memory, which grows up to what may be gathered.
    memory: Vec<u8>,
    /// Bytes of it that are records, in whole words.
    filled: usize,
    records: u32,
    bytes_max: usize,
    record_bytes_max: usize,
}

impl LogBuffer {
    /// An empty one that takes `bytes` (Varnish's parameter vsl_buffer) before it is written.
    #[must_use]
    pub fn new(id: LogId, bytes: usize) -> Self {
        let bytes_max = bytes.max(BUFFER_BYTES_MIN).next_multiple_of(4);
        Self { id, memory: Vec::new(), filled: 0, records: 0, bytes_max, record_bytes_max: RECORD_BYTES_DEFAULT }
    }

    /// Texts are cut so that they take at most `bytes` with the zero behind them (Varnish's parameter vsl_reclen).
    #[must_use]
    pub fn with_record_bytes(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes.clamp(16, self.bytes_max - HEAD_BYTES).min(LENGTH_MASK as usize);
        self
    }

    /// The transaction.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Adds a record, unless its tag is masked.
    pub fn record(&mut self, writer: &LogWriter, tag: VslTag, text: &[u8]) {
        if !writer.log().writes(tag) {
            return;
        }
        // Most texts are short, need no cut, and there is room for them.
        if text.len() <= SHORT_BYTES_MAX
            && text.len() < self.record_bytes_max
            && !tag.is_binary()
            && let Some(room) = room(&mut self.memory, self.filled)
        {
            self.filled += write_short::<SHORT_ROOM>(room, head(self.id, tag), text);
            self.records += 1;
            return;
        }
        self.record_any(writer, tag, &[text]);
    }

    /// Adds a record about a field of a message: `name: value`.
    pub fn field(&mut self, writer: &LogWriter, tag: VslTag, name: &[u8], value: &[u8]) {
        if name.len() + 2 + value.len() > SHORT_BYTES_MAX {
            return self.pieces(writer, tag, &[name, b": ", value]);
        }
        if let Some(mut record) = self.compose::<SHORT_ROOM>(writer, tag) {
            record.push(name);
            record.push(b": ");
            record.push(value);
            record.end();
        }
    }

    /// Adds a record whose text is in several pieces.
    pub fn pieces(&mut self, writer: &LogWriter, tag: VslTag, pieces: &[&[u8]]) {
        if writer.log().writes(tag) {
            self.record_any(writer, tag, pieces);
        }
    }

    /// Adds a record of any tag and length.
    #[inline(never)]
    fn record_any(&mut self, writer: &LogWriter, tag: VslTag, pieces: &[&[u8]]) {
        // Texts end with a zero, bytes of frames do not.
        let zero = usize::from(!tag.is_binary());
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut left = total.min(self.record_bytes_max - zero);
        // The length is below LENGTH_MASK: `with_record_bytes`.
        let bytes = left + zero;
        let record = HEAD_BYTES + bytes.next_multiple_of(4);
        self.make_room(writer, record);
        let rest = self.memory.get_mut(self.filled..self.filled + record).unwrap_or_default();
        let Some((start, mut text)) = rest.split_first_chunk_mut() else { return };
        *start = first_word_first(head(self.id, tag) | bytes as u64);
        for piece in pieces {
            let piece = piece.get(..left).unwrap_or(piece);
            left -= piece.len();
            let Some((to, behind)) = text.split_at_mut_checked(piece.len()) else { return };
            to.copy_from_slice(piece);
            text = behind;
        }
        text.fill(0);
        self.filled += record;
        self.records += 1;
    }

    /// Begins a record in so much room: [`SHORT_ROOM`] or [`LONG_ROOM`]. A longer text is cut. Nothing if its tag, which is one for texts,
    /// is masked.
    #[inline]
    pub fn compose<const ROOM: usize>(&mut self, writer: &LogWriter, tag: VslTag) -> Option<Record<'_, ROOM>> {
        if !writer.log().writes(tag) {
            return None;
        }
        if self.filled + ROOM > self.memory.len() {
            // No more than the longest record, for which there is room in any buffer.
            self.make_room(writer, (ROOM - SLACK_BYTES).min(HEAD_BYTES + self.record_bytes_max));
            let needed = self.filled + ROOM;
            if needed > self.memory.len() {
                self.memory.resize(needed, 0);
            }
        }
        let most = self.record_bytes_max - 1;
        let room = room(&mut self.memory, self.filled)?;
        Some(Record::new(room, (&mut self.filled, &mut self.records), head(self.id, tag), most))
    }

    /// Makes room for a record of so many bytes: there is more memory, or what is gathered goes out.
    #[inline(never)]
    fn make_room(&mut self, writer: &LogWriter, record: usize) {
        if self.filled + record > self.bytes_max {
            self.write_out(writer, true);
        }
        let needed = self.filled + record;
        if needed > self.memory.len() {
            let grown = (self.memory.len() * 2).max(MEMORY_BYTES_FIRST).min(self.bytes_max);
            self.memory.resize(grown.max(needed), 0);
        }
    }

    fn write_out(&mut self, writer: &LogWriter, because_full: bool) {
        writer.write_batch(self.memory.get(..self.filled).unwrap_or_default(), self.records, because_full);
        (self.filled, self.records) = (0, 0);
    }

    /// Writes the records so far, so that readers see them before the transaction ends.
    pub fn flush(&mut self, writer: &LogWriter) {
        self.write_out(writer, false);
    }

    /// Writes the records so far one by one, not as a batch: for what belongs to a transaction that lasts, such as a session.
    pub fn flush_singly(&mut self, writer: &LogWriter) {
        let mut rest = self.memory.get(..self.filled).unwrap_or_default();
        while let Some((record, behind)) = split_record(rest) {
            writer.write_record(record);
            rest = behind;
        }
        (self.filled, self.records) = (0, 0);
    }

    /// The transaction is over: its last record, and all of them go out.
    pub fn end(&mut self, writer: &LogWriter) {
        self.record(writer, VslTag::End, b"");
        self.flush(writer);
    }

    /// Begins another transaction with the same memory. Records that were not written are lost.
    pub fn reuse(&mut self, id: LogId) {
        (self.filled, self.records) = (0, 0);
        self.id = id;
    }

    /// Goes on as another transaction, as after a restart: this one ends with a link to `id`, and that begins with one back.
    pub fn change_id(&mut self, writer: &LogWriter, id: LogId, kind: &str, reason: &str) {
        let former = self.id;
        self.record(writer, VslTag::Link, format!("{kind} {} {reason}", id.vxid()).as_bytes());
        self.end(writer);
        self.id = id;
        self.record(writer, VslTag::Begin, format!("{kind} {} {reason}", former.vxid()).as_bytes());
    }
}

/// Room behind what is filled, if there is so much.
#[inline(always)]
fn room<const ROOM: usize>(memory: &mut [u8], filled: usize) -> Option<&mut [u8; ROOM]> {
    memory.get_mut(filled..)?.first_chunk_mut()
}

/// The head of a record, but for the length, which is below LENGTH_MASK: [`LogBuffer::with_record_bytes`].
#[inline]
fn head(id: LogId, tag: VslTag) -> u64 {
    u64::from(u32::from(tag.number()) << 24) | u64::from(id.word()) << 32
}

/// The first record, and those behind it.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = u32::from_ne_bytes(*bytes.first_chunk()?);
    bytes.split_at_checked(HEAD_BYTES + ((word & LENGTH_MASK) as usize).next_multiple_of(4))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::log::writer::tests::log;

    /// Tag and text of each record in a buffer.
    fn records(buffer: &LogBuffer) -> Vec<(u8, String)> {
        let (mut found, mut rest) = (Vec::new(), &buffer.memory[..buffer.filled]);
        while let Some((record, behind)) = split_record(rest) {
            let word = u32::from_ne_bytes(*record.first_chunk().unwrap());
            let text = &record[HEAD_BYTES..][..(word & LENGTH_MASK) as usize];
            found.push(((word >> 24) as u8, String::from_utf8(text.strip_suffix(b"\0").unwrap().to_vec()).unwrap()));
            rest = behind;
        }
        found
    }

    #[test]
    fn texts_of_all_kinds_are_cut_at_the_same_length() {
        let log = log(crate::log::SPACE_MIN);
        let writer = log.writer();
        let letters = "x".repeat(1_000);
        for limit in [16, 40, 100, 255, 1_000] {
            let mut buffer = LogBuffer::new(LogId::client(7), 8 << 10).with_record_bytes(limit);
            buffer.record(&writer, VslTag::Debug, letters.as_bytes());
            buffer.field(&writer, VslTag::ReqHeader, b"name", letters.as_bytes());
            buffer.pieces(&writer, VslTag::ReqHeader, &[b"name", b": ", letters.as_bytes()]);
            let mut record = buffer.compose::<LONG_ROOM>(&writer, VslTag::Debug).unwrap();
            write!(record, "{letters}").unwrap();
            record.end();
            let most = |text: usize| text.min(limit - 1);
            let lengths: Vec<_> = records(&buffer).iter().map(|(_, text)| text.len()).collect();
            assert_eq!(lengths, [most(1_000), most(1_006), most(1_006), most(256)]);
        }
    }

    #[test]
    fn what_is_full_goes_out() {
        let log = log(crate::log::SPACE_MIN);
        let writer = log.writer();
        for bytes in [0, 300, 1_000, 16 << 10] {
            let before = log.figures();
            let mut buffer = LogBuffer::new(LogId::client(7), bytes);
            for number in 0..1_000 {
                buffer.record(&writer, VslTag::Debug, &[b'x'; 200][..number % 200]);
                let mut record = buffer.compose::<SHORT_ROOM>(&writer, VslTag::Debug).unwrap();
                record.push_number(number as u64);
                record.end();
                assert!(buffer.filled <= bytes.max(BUFFER_BYTES_MIN).next_multiple_of(4));
            }
            buffer.end(&writer);
            let after = log.figures();
            assert_eq!(after.records - before.records, 2_001);
            assert!(after.flushes > before.flushes);
        }
    }
}
