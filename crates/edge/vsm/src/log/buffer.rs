//! Records of a transaction before they go out.

use telemetry::vsl::VslTag;

use super::{BACKEND_MARKER, CLIENT_MARKER, ID_MASK, LENGTH_MASK, LogWriter, RECORD_WORDS};

/// Bytes of a record's text, with the zero behind it, unless set otherwise: Varnish's parameter vsl_reclen.
const RECORD_BYTES_DEFAULT: usize = 255;
const BUFFER_BYTES_MIN: usize = 267;

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
    words: Vec<u32>,
    records: u32,
    words_max: usize,
    record_bytes_max: usize,
}

impl LogBuffer {
    /// An empty one that takes `bytes` (Varnish's parameter vsl_buffer) before it is written.
    #[must_use]
    pub fn new(id: LogId, bytes: usize) -> Self {
        let words_max = bytes.max(BUFFER_BYTES_MIN).div_ceil(4);
        Self { id, words: Vec::new(), records: 0, words_max, record_bytes_max: RECORD_BYTES_DEFAULT }
    }

    /// Texts are cut so that they take at most `bytes` with the zero behind them (Varnish's parameter vsl_reclen).
    #[must_use]
    pub fn with_record_bytes(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes.clamp(16, (self.words_max - RECORD_WORDS) * 4).min(LENGTH_MASK as usize);
        self
    }

    /// The transaction.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Adds a record, unless its tag is masked.
    pub fn record(&mut self, writer: &LogWriter, tag: VslTag, text: &[u8]) {
        self.pieces(writer, tag, &[text]);
    }

    /// Adds a record whose text is in several pieces: name, `: `, value.
    pub fn pieces(&mut self, writer: &LogWriter, tag: VslTag, pieces: &[&[u8]]) {
        if !writer.log().writes(tag) {
            return;
        }
        // Texts end with a zero, bytes of frames do not.
        let zero = usize::from(!tag.is_binary());
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let text = total.min(self.record_bytes_max - zero);
        let bytes = text + zero;
        if self.words.len() + RECORD_WORDS + bytes.div_ceil(4) > self.words_max {
            writer.flush(&mut self.words, &mut self.records, true);
        }
        // The length is below LENGTH_MASK: `with_record_bytes`.
        self.words.extend([u32::from(tag.number()) << 24 | bytes as u32, self.id.word()]);
        self.push_text(pieces, text, bytes);
        self.records += 1;
    }

    /// The first `text` bytes of the pieces, with zeros up to `bytes` and to a whole word.
    fn push_text(&mut self, pieces: &[&[u8]], text: usize, bytes: usize) {
        if let [piece] = pieces {
            let piece = piece.get(..text).unwrap_or_default();
            let (whole, rest) = piece.as_chunks::<4>();
            self.words.extend(whole.iter().map(|chunk| u32::from_ne_bytes(*chunk)));
            if bytes.div_ceil(4) > whole.len() {
                let mut last = [0; 4];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                self.words.push(u32::from_ne_bytes(last));
            }
            return;
        }
        let mut left = pieces.iter().flat_map(|piece| piece.iter().copied()).take(text);
        for _ in 0..bytes.div_ceil(4) {
            let word: [u8; 4] = std::array::from_fn(|_| left.next().unwrap_or(0));
            self.words.push(u32::from_ne_bytes(word));
        }
    }

    /// Writes the records so far, so that readers see them before the transaction ends.
    pub fn flush(&mut self, writer: &LogWriter) {
        writer.flush(&mut self.words, &mut self.records, false);
    }

    /// The transaction is over: its last record, and all of them go out.
    pub fn end(&mut self, writer: &LogWriter) {
        self.record(writer, VslTag::End, b"");
        self.flush(writer);
    }

    /// Begins another transaction with the same memory. Records that were not written are lost.
    pub fn reuse(&mut self, id: LogId) {
        self.words.clear();
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
