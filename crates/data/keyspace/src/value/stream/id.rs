//! Names of entries.

use crate::Bytes;

/// An entry's id: a time and a number within it. Ids grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Id {
    /// Milliseconds since 1970, unless a client chose otherwise.
    pub ms: u64,
    /// The number within the millisecond.
    pub sequence: u64,
}

impl Id {
    /// The lowest one, which no entry has.
    pub const MIN: Self = Self { ms: 0, sequence: 0 };
    /// The greatest one.
    pub const MAX: Self = Self { ms: u64::MAX, sequence: u64::MAX };

    /// The one of its parts.
    pub const fn new(ms: u64, sequence: u64) -> Self {
        Self { ms, sequence }
    }

    /// The next one.
    pub fn next(self) -> Option<Self> {
        match self.sequence.checked_add(1) {
            Some(sequence) => Some(Self { ms: self.ms, sequence }),
            None => Some(Self { ms: self.ms.checked_add(1)?, sequence: 0 }),
        }
    }

    /// The one before.
    pub fn previous(self) -> Option<Self> {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Some(Self { ms: self.ms, sequence }),
            None => Some(Self { ms: self.ms.checked_sub(1)?, sequence: u64::MAX }),
        }
    }

    /// Bytes that sort as ids do.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.sequence)).to_be_bytes()
    }

    /// The id of such bytes.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self { ms: (number >> 64) as u64, sequence: number as u64 }
    }

    /// `ms-sequence`.
    pub fn text(self) -> Bytes {
        let mut text = Bytes::new();
        text.extend_from_slice(itoa::Buffer::new().format(self.ms).as_bytes());
        text.push(b'-');
        text.extend_from_slice(itoa::Buffer::new().format(self.sequence).as_bytes());
        text
    }

    /// Reads `ms-sequence`, or `ms` alone with the sequence that is given for this case.
    pub fn parse(text: &[u8], missing_sequence: u64) -> Option<Self> {
        let (ms, sequence) = match text.iter().position(|byte| *byte == b'-') {
            Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
            None => (text, None),
        };
        let sequence = sequence.map_or(Some(missing_sequence), unsigned)?;
        Some(Self { ms: unsigned(ms)?, sequence })
    }
}

/// A number without a sign, as C's `strtoull` reads it.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}
