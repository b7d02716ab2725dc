//! Records of a transaction before they go out.

use telemetry::vsl::VslTag;

use super::{BACKEND_MARKER, CLIENT_MARKER, ID_MASK, LENGTH_MASK, LogWriter, RECORD_WORDS};

/// Bytes of a record's text, with the zero behind it, unless set otherwise: Varnish's parameter vsl_reclen.
const RECORD_BYTES_DEFAULT: usize = 255;
const BUFFER_BYTES_MIN: usize = 267;
/// Bytes of a record before its text.
const HEAD_BYTES: usize = RECORD_WORDS * 4;

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
    /// Whole words.
    bytes: Vec<u8>,
    records: u32,
    bytes_max: usize,
    record_bytes_max: usize,
}

impl LogBuffer {
    /// An empty one that takes `bytes` (Varnish's parameter vsl_buffer) before it is written.
    #[must_use]
    pub fn new(id: LogId, bytes: usize) -> Self {
        let bytes_max = bytes.max(BUFFER_BYTES_MIN).next_multiple_of(4);
        Self { id, bytes: Vec::new(), records: 0, bytes_max, record_bytes_max: RECORD_BYTES_DEFAULT }
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
        if let Some(room) = self.begin(writer, tag, text.len()) {
            let text = text.get(..room.left).unwrap_or(text);
            room.bytes.extend_from_slice(text);
            room.end();
        }
    }

    /// Adds a record whose text is in several pieces: name, `: `, value.
    pub fn pieces(&mut self, writer: &LogWriter, tag: VslTag, pieces: &[&[u8]]) {
        let total = pieces.iter().map(|piece| piece.len()).sum();
        if let Some(mut room) = self.begin(writer, tag, total) {
            for piece in pieces {
                let piece = piece.get(..room.left).unwrap_or(piece);
                room.bytes.extend_from_slice(piece);
                room.left -= piece.len();
            }
            room.end();
        }
    }

    /// Writes the head of a record whose text has `total` bytes; nothing if its tag is masked.
    #[inline]
    fn begin(&mut self, writer: &LogWriter, tag: VslTag, total: usize) -> Option<Room<'_>> {
        if !writer.log().writes(tag) {
            return None;
        }
        // Texts end with a zero, bytes of frames do not.
        let zero = usize::from(!tag.is_binary());
        let left = total.min(self.record_bytes_max - zero);
        let bytes = left + zero;
        let padded = bytes.next_multiple_of(4);
        if self.bytes.len() + HEAD_BYTES + padded > self.bytes_max {
            writer.flush(&mut self.bytes, &mut self.records, true);
        }
        // The length is below LENGTH_MASK: `with_record_bytes`.
        let head = u64::from(u32::from(tag.number()) << 24 | bytes as u32) | u64::from(self.id.word()) << 32;
        self.bytes.reserve(HEAD_BYTES + padded);
        self.bytes.extend_from_slice(&first_word_first(head));
        let end = self.bytes.len() + padded;
        self.records += 1;
        Some(Room { bytes: &mut self.bytes, left, end })
    }

    /// Writes the records so far, so that readers see them before the transaction ends.
    pub fn flush(&mut self, writer: &LogWriter) {
        writer.flush(&mut self.bytes, &mut self.records, false);
    }

    /// The transaction is over: its last record, and all of them go out.
    pub fn end(&mut self, writer: &LogWriter) {
        self.record(writer, VslTag::End, b"");
        self.flush(writer);
    }

    /// Begins another transaction with the same memory. Records that were not written are lost.
    pub fn reuse(&mut self, id: LogId) {
        self.bytes.clear();
        self.records = 0;
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

/// Room for the text of a record.
struct Room<'b> {
    bytes: &'b mut Vec<u8>,
    /// Bytes of text that still go in.
    left: usize,
    /// Where the record ends.
    end: usize,
}

impl Room<'_> {
    /// Zeros up to the end.
    #[inline]
    fn end(self) {
        // From 0 to 4: the zero behind a text, and what is missing to a whole word.
        const ZEROS: [u8; 4] = [0; 4];
        let missing = self.end.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(ZEROS.get(..missing).unwrap_or(&ZEROS));
    }
}

/// The two words of a head as bytes: the lower half is the first word.
#[inline]
fn first_word_first(head: u64) -> [u8; HEAD_BYTES] {
    if cfg!(target_endian = "little") { head.to_ne_bytes() } else { head.rotate_left(32).to_ne_bytes() }
}
