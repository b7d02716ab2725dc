//! What a key's record begins with.

use super::NotARecord;

const HAS_EXPIRY: u8 = 1;
const HAS_ELEMENTS: u8 = 1 << 1;
const HAS_KEY: u8 = 1 << 2;
const KNOWN: u8 = HAS_EXPIRY | HAS_ELEMENTS | HAS_KEY;

/// What a key's record says before what its type keeps inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header<'a> {
    /// The type and its encoding, as the commands number them.
    pub kind: u8,
    /// When the key expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// Where the elements are, if they are not inline.
    pub elements: Option<Elements>,
    /// The whole key, if it is too long for the record's key.
    pub key: Option<&'a [u8]>,
}

/// A collection whose elements are records of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elements {
    /// What their keys carry. Never used for another collection.
    pub version: u64,
    /// How many there are.
    pub count: u64,
}

impl<'a> Header<'a> {
    /// Names the whole key, if the record's key cannot hold it.
    #[must_use]
    pub fn with_key(mut self, key: &'a [u8]) -> Self {
        self.key = super::tail::is_long(key).then_some(key);
        self
    }

    /// Puts the header behind what is there; what is inline goes behind it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        let mut flags = 0;
        flags |= if self.expire_at_ms.is_some() { HAS_EXPIRY } else { 0 };
        flags |= if self.elements.is_some() { HAS_ELEMENTS } else { 0 };
        flags |= if self.key.is_some() { HAS_KEY } else { 0 };
        out.push(flags);
        if let Some(at_ms) = self.expire_at_ms {
            encode_varint(at_ms, out);
        }
        if let Some(elements) = self.elements {
            encode_varint(elements.version, out);
            encode_varint(elements.count, out);
        }
        if let Some(key) = self.key {
            encode_varint(key.len() as u64, out);
            out.extend_from_slice(key);
        }
    }

    /// The header, and what is inline behind it.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), NotARecord> {
        let (&[kind, flags], mut rest) = bytes.split_first_chunk::<2>().ok_or(NotARecord("its header is cut off"))?;
        if flags & !KNOWN != 0 {
            return Err(NotARecord("its header is of a later version"));
        }
        let mut header = Self { kind, ..Self::default() };
        if flags & HAS_EXPIRY != 0 {
            header.expire_at_ms = Some(decode_varint(&mut rest)?);
        }
        if flags & HAS_ELEMENTS != 0 {
            header.elements = Some(Elements { version: decode_varint(&mut rest)?, count: decode_varint(&mut rest)? });
        }
        if flags & HAS_KEY != 0 {
            let len = usize::try_from(decode_varint(&mut rest)?).map_err(|_| NotARecord("its key is too long"))?;
            let (key, inline) = rest.split_at_checked(len).ok_or(NotARecord("its key is cut off"))?;
            header.key = Some(key);
            rest = inline;
        }
        Ok((header, rest))
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more come.
pub fn encode_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number of [`encode_varint`] away. Each number has one form alone.
pub fn decode_varint(bytes: &mut &[u8]) -> Result<u64, NotARecord> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(NotARecord("a number is cut off"))?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            if *byte == 0 && shift > 0 {
                return Err(NotARecord("a number is longer than it has to be"));
            }
            return Ok(number);
        }
    }
    Err(NotARecord("a number is too large"))
}
