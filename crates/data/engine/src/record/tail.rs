//! The end of a record's key: a Redis key or an element, which may be longer than an engine's keys.

use sha2::{Digest as _, Sha256};

use super::NotARecord;

/// The longest that stands in a record's key as it is.
pub const WHOLE_LEN_MAX: usize = 8_191;
/// What is longer takes exactly this: its first bytes and its SHA-256. No whole one is as long, so the two never meet.
pub const CUT_LEN: usize = WHOLE_LEN_MAX + 1;
/// Bytes of a SHA-256.
const DIGEST_LEN: usize = 32;

/// A Redis key or an element, as it stands at the end of a record's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Cut: its first bytes and its digest. The record's value has the whole ([`with_whole`], or the header's key).
    Cut(&'a [u8]),
}

impl<'a> Tail<'a> {
    /// The tail that these bytes are.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NotARecord> {
        match bytes.len() {
            0..=WHOLE_LEN_MAX => Ok(Self::Whole(bytes)),
            CUT_LEN => Ok(Self::Cut(bytes)),
            _ => Err(NotARecord("its key is too long")),
        }
    }

    /// The bytes, as they stand in the record's key.
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) => bytes,
        }
    }

    /// Whether this stands for `whole`.
    pub fn is_of(&self, whole: &[u8]) -> bool {
        match self {
            Self::Whole(bytes) => *bytes == whole,
            Self::Cut(bytes) => is_long(whole) && *bytes == cut(whole).as_slice(),
        }
    }
}

/// Whether a Redis key or an element is cut in a record's key.
pub(super) fn is_long(whole: &[u8]) -> bool {
    whole.len() > WHOLE_LEN_MAX
}

/// Puts the tail of a Redis key or an element behind what is there.
pub(super) fn encode(whole: &[u8], out: &mut Vec<u8>) {
    if is_long(whole) {
        out.extend_from_slice(&cut(whole));
    } else {
        out.extend_from_slice(whole);
    }
}

fn cut(whole: &[u8]) -> Vec<u8> {
    let mut tail = whole.get(..CUT_LEN - DIGEST_LEN).unwrap_or(whole).to_vec();
    tail.extend_from_slice(&Sha256::digest(whole));
    tail
}

/// An element's value that begins with the whole element, if it is cut in the record's key; otherwise the value as it is.
pub fn with_whole(element: &[u8], value: &[u8]) -> Vec<u8> {
    if !is_long(element) {
        return value.to_vec();
    }
    let mut out = Vec::with_capacity(8 + element.len() + value.len());
    out.extend_from_slice(&(element.len() as u64).to_be_bytes());
    out.extend_from_slice(element);
    out.extend_from_slice(value);
    out
}

/// The element and its value, out of a record's tail and value.
pub fn split_whole<'a>(tail: Tail<'a>, value: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), NotARecord> {
    match tail {
        Tail::Whole(element) => Ok((element, value)),
        Tail::Cut(_) => {
            let (len, rest) = value.split_first_chunk::<8>().ok_or(NotARecord("the whole element is missing"))?;
            let len = usize::try_from(u64::from_be_bytes(*len)).map_err(|_| NotARecord("an element is too long"))?;
            let (element, value) = rest.split_at_checked(len).ok_or(NotARecord("the whole element is cut off"))?;
            if !tail.is_of(element) {
                return Err(NotARecord("the whole element is another one"));
            }
            Ok((element, value))
        }
    }
}
