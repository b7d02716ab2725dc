//! RDB's lengths, strings and numbers, read.

use std::borrow::Cow;

use super::{RdbError, lzf};

/// What is still to be read. Every length that is read is checked against it before anything is allocated.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// What the first byte of a length says.
enum Length {
    Plain(u64),
    /// A string in a special form.
    Special(u8),
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of some bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], RdbError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(RdbError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// As many bytes as an array has.
    pub fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], RdbError> {
        let (taken, rest) = self.rest.split_first_chunk::<LEN>().ok_or(RdbError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// A number of eight bytes, as times and ids have them.
    pub fn fixed(&mut self) -> Result<u64, RdbError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn any_length(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Ok(match first {
            0x00..=0x3f => Length::Plain(low),
            0x40..=0x7f => Length::Plain(low << 8 | u64::from(self.byte()?)),
            0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            0xc0.. => Length::Special(first & 0x3f),
            _ => return Err(RdbError::Format("length")),
        })
    }

    /// A number of the kind that lengths are.
    pub fn number(&mut self) -> Result<u64, RdbError> {
        match self.any_length()? {
            Length::Plain(number) => Ok(number),
            Length::Special(_) => Err(RdbError::Format("length")),
        }
    }

    /// How many elements follow, each of which takes a byte at least.
    pub fn count(&mut self) -> Result<usize, RdbError> {
        let count = usize::try_from(self.number()?).map_err(|_| RdbError::Truncated)?;
        if count > self.len() { Err(RdbError::Truncated) } else { Ok(count) }
    }

    /// The same, where none is an error: an empty collection is no value.
    pub fn count_of_some(&mut self) -> Result<usize, RdbError> {
        match self.count()? {
            0 => Err(RdbError::Empty),
            count => Ok(count),
        }
    }

    /// A string in any of its forms.
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, RdbError> {
        let special = match self.any_length()? {
            Length::Plain(len) => {
                let len = usize::try_from(len).map_err(|_| RdbError::Truncated)?;
                return self.take(len).map(Cow::Borrowed);
            }
            Length::Special(special) => special,
        };
        let number = match special {
            0 => i32::from(i8::from_le_bytes(self.array()?)),
            1 => i32::from(i16::from_le_bytes(self.array()?)),
            2 => i32::from_le_bytes(self.array()?),
            3 => {
                let len = usize::try_from(self.number()?).map_err(|_| RdbError::Truncated)?;
                let expanded = usize::try_from(self.number()?).map_err(|_| RdbError::Format("compressed string"))?;
                let block = self.take(len)?;
                return lzf::decompress(block, expanded).map(Cow::Owned);
            }
            _ => return Err(RdbError::Format("form of a string")),
        };
        Ok(Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()))
    }

    /// A double as eight bytes.
    pub fn double(&mut self) -> Result<f64, RdbError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A double as the text that old versions wrote.
    pub fn double_text(&mut self) -> Result<f64, RdbError> {
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Ok(f64::NAN),
            len => {
                let text = self.take(usize::from(len))?;
                crate::number::parse_float(text).ok_or(RdbError::Format("double"))
            }
        }
    }
}
