//! The bytes of the embedded coordinator's file ([format](../../../../docs/formats/coordinator.md)): a head, then frames.

use serde::{Deserialize, Serialize};

use crate::transaction::{Revision, Write};

/// How a file begins: its name and the version of its format.
pub const HEAD: &[u8; 8] = b"TGCOORD1";
/// Length and checksum of a frame.
const FRAME_HEAD: usize = 8;
/// Bytes of the largest frame.
const FRAME_MAX: usize = 64 << 20;

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// All values at a revision: name, value, version. The first frame of a file.
    Values {
        /// The revision.
        revision: Revision,
        /// The values.
        values: Vec<(String, String, Revision)>,
    },
    /// A transaction that has happened.
    Writes {
        /// Its revision.
        revision: Revision,
        /// What it wrote; `null` is what has no value any more.
        writes: Vec<(String, Option<String>)>,
    },
}

impl Record {
    /// A transaction; what goes with a lease is not kept, as its holder does not outlive the process.
    #[must_use]
    pub fn of_writes(revision: Revision, writes: &[Write]) -> Self {
        let lasting = writes.iter().map(|write| match write {
            Write::Put { key, value, lease: None } => (key.clone(), Some(text(value))),
            // It may have had a lasting value before.
            Write::Put { key, lease: Some(_), .. } | Write::Delete { key } => (key.clone(), None),
        });
        Self::Writes { revision, writes: lasting.collect() }
    }

    /// The frame's bytes.
    ///
    /// # Errors
    ///
    /// It is larger than a frame may be.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let payload = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        if payload.len() > FRAME_MAX {
            return Err(format!("a record of {} bytes; the most is {FRAME_MAX}", payload.len()));
        }
        let mut bytes = Vec::with_capacity(FRAME_HEAD + payload.len());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        Ok(bytes)
    }
}

/// Values are text, mostly JSON; what is none is written with a mark before its hexadecimal digits.
#[must_use]
pub fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.starts_with('\0') => text.to_owned(),
        _ => std::iter::once('\0')
            .chain(value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).map(char::from))
            .collect(),
    }
}

/// The value that text stands for.
///
/// # Errors
///
/// The digits are none.
pub fn value(text: &str) -> Result<Vec<u8>, String> {
    let Some(digits) = text.strip_prefix('\0') else { return Ok(text.as_bytes().to_vec()) };
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).map_err(|_| "digits of a value are none".to_owned())?;
        u8::from_str_radix(pair, 16).map_err(|_| format!("'{pair}' is no byte"))
    });
    pairs.collect()
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame, and where it ends.
    Frame(Record, usize),
    /// The end; nothing but whole frames before.
    End,
    /// A frame that was not written whole: the process ended while it was.
    Torn,
    /// A frame that says something else than was written.
    Damaged(String),
}

/// The frame that begins at a place.
///
/// One is torn only if nothing follows it: a whole frame behind a bad one means that the disk has lost something that was safe.
#[must_use]
pub fn next(bytes: &[u8], at: usize) -> Next {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Next::End;
    }
    let Some((len, checksum)) = frame_head(rest) else { return Next::Torn };
    let Some(payload) = rest.get(FRAME_HEAD..FRAME_HEAD + len).filter(|_| len <= FRAME_MAX) else {
        return if whole_frame_follows(rest) { Next::Damaged("a length is wrong".into()) } else { Next::Torn };
    };
    if crc32c::crc32c(payload) != checksum {
        let follows = whole_frame_follows(rest);
        return if follows { Next::Damaged("a checksum does not match".into()) } else { Next::Torn };
    }
    match serde_json::from_slice(payload) {
        Ok(record) => Next::Frame(record, at + FRAME_HEAD + len),
        Err(error) => Next::Damaged(format!("a record cannot be read: {error}")),
    }
}

fn frame_head(rest: &[u8]) -> Option<(usize, u32)> {
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (checksum, _) = rest.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*len) as usize, u32::from_le_bytes(*checksum)))
}

/// Whether a whole frame begins anywhere behind the first byte.
fn whole_frame_follows(rest: &[u8]) -> bool {
    (1..rest.len()).any(|at| {
        let Some((len, checksum)) = rest.get(at..).and_then(frame_head) else { return false };
        let payload =
            (1..=FRAME_MAX).contains(&len).then(|| rest.get(at + FRAME_HEAD..at + FRAME_HEAD + len)).flatten();
        payload.is_some_and(|payload| crc32c::crc32c(payload) == checksum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let record = Record::of_writes(
            7,
            &[
                Write::Put { key: "a".into(), value: vec![0xff, 0, 1], lease: None },
                Write::Put { key: "b".into(), value: b"{}".to_vec(), lease: Some(3) },
                Write::Delete { key: "c".into() },
            ],
        );
        let bytes = record.encode().unwrap();
        assert_eq!(next(&bytes, 0), Next::Frame(record.clone(), bytes.len()));
        assert_eq!(next(&bytes, bytes.len()), Next::End);
        let Record::Writes { writes, .. } = record else { panic!() };
        assert_eq!(value(writes[0].1.as_ref().unwrap()).unwrap(), [0xff, 0, 1]);
        assert_eq!(writes[1], ("b".into(), None));
    }

    #[test]
    fn a_torn_end_and_damage_are_told_apart() {
        let frame = Record::Writes { revision: 1, writes: vec![("a".into(), None)] }.encode().unwrap();
        for len in 1..frame.len() {
            assert_eq!(next(&frame[..len], 0), Next::Torn, "{len}");
        }
        let mut two = [frame.clone(), frame.clone()].concat();
        two[12] ^= 1;
        assert!(matches!(next(&two, 0), Next::Damaged(_)));
        let mut last = [frame.clone(), frame.clone()].concat();
        last[frame.len() + 12] ^= 1;
        assert_eq!(next(&last, frame.len()), Next::Torn);
    }
}
