//! Listpacks: rows of strings and integers in one piece, the form of small collections since Redis 7 and of streams.
//!
//! Six bytes in front (size, number of elements), then the elements, then `0xff`. An element is its encoding, its bytes and,
//! for those who read backwards, its length in groups of seven bits.

use crate::encoding::RdbError;
use std::borrow::Cow;

const BROKEN: RdbError = RdbError::Format("listpack");
const HEADER_LEN: usize = 6;
const END: u8 = 0xff;
/// What stands in place of a number of elements that does not fit.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// An element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A number.
    Integer(i64),
}

impl<'a> Element<'a> {
    /// Its text.
    pub fn text(self) -> Cow<'a, [u8]> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Integer(number) => Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()),
        }
    }

    /// Its number, if it is one.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Text(text) => crate::number::parse_integer(text),
            Self::Integer(number) => Some(number),
        }
    }
}

/// The elements of a listpack; an error ends them.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: Option<u16>,
}

/// The elements of a listpack.
pub fn elements(listpack: &[u8]) -> Result<Elements<'_>, RdbError> {
    let (header, rest) = listpack.split_first_chunk::<HEADER_LEN>().ok_or(BROKEN)?;
    let [a, b, c, d, low, high] = *header;
    if u32::from_le_bytes([a, b, c, d]) as usize != listpack.len() {
        return Err(BROKEN);
    }
    let count = u16::from_le_bytes([low, high]);
    Ok(Elements { rest, left: (count != COUNT_UNKNOWN).then_some(count) })
}

impl<'a> Elements<'a> {
    fn element(&mut self) -> Result<Option<Element<'a>>, RdbError> {
        let (&first, after) = self.rest.split_first().ok_or(BROKEN)?;
        if first == END {
            // What the header says has to be true.
            let right = after.is_empty() && self.left.is_none_or(|left| left == 0);
            return if right { Ok(None) } else { Err(BROKEN) };
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(BROKEN)?;
        }
        let (element, len) = match first {
            0x00..=0x7f => (Element::Integer(i64::from(first)), 1),
            0x80..=0xbf => string(after, usize::from(first & 0x3f), 1)?,
            0xc0..=0xdf => {
                let low = *after.first().ok_or(BROKEN)?;
                let number = i64::from(first & 0x1f) << 8 | i64::from(low);
                (Element::Integer(if number >= 1 << 12 { number - (1 << 13) } else { number }), 2)
            }
            0xe0..=0xef => {
                let (&low, after) = after.split_first().ok_or(BROKEN)?;
                string(after, usize::from(first & 0x0f) << 8 | usize::from(low), 2)?
            }
            0xf0 => {
                let (len, after) = after.split_first_chunk::<4>().ok_or(BROKEN)?;
                string(after, u32::from_le_bytes(*len) as usize, 5)?
            }
            0xf1 => integer::<2>(after)?,
            0xf2 => integer::<3>(after)?,
            0xf3 => integer::<4>(after)?,
            0xf4 => integer::<8>(after)?,
            _ => return Err(BROKEN),
        };
        let rest = self.rest.get(len..).ok_or(BROKEN)?;
        let mut back = [0; BACK_LEN_MAX];
        let back = back_length(len, &mut back);
        self.rest = rest.strip_prefix(back).ok_or(BROKEN)?;
        Ok(Some(element))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, RdbError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.element().transpose()
    }
}

/// A string behind `header` bytes, with the length of both.
fn string(bytes: &[u8], len: usize, header: usize) -> Result<(Element<'_>, usize), RdbError> {
    Ok((Element::Text(bytes.get(..len).ok_or(BROKEN)?), header + len))
}

/// A number of so many bytes behind one, with the length of both.
fn integer<const LEN: usize>(bytes: &[u8]) -> Result<(Element<'_>, usize), RdbError> {
    let bytes = bytes.first_chunk::<LEN>().ok_or(BROKEN)?;
    Ok((Element::Integer(signed(bytes)), 1 + LEN))
}

/// A number of up to eight bytes, the lowest first.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let shift = 64 - 8 * bytes.len() as u32;
    let number = bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    (number << shift) as i64 >> shift
}

const BACK_LEN_MAX: usize = 5;

/// The length of an element as it stands behind it.
fn back_length(len: usize, bytes: &mut [u8; BACK_LEN_MAX]) -> &[u8] {
    let mut groups = 1;
    while groups < BACK_LEN_MAX && len >> (7 * groups) != 0 {
        groups += 1;
    }
    for (place, byte) in bytes.iter_mut().take(groups).enumerate() {
        let group = (len >> (7 * (groups - 1 - place))) as u8 & 0x7f;
        // All but the first, which is the last that is read, say that more follow.
        *byte = if place == 0 { group } else { group | 0x80 };
    }
    bytes.get(..groups).unwrap_or_default()
}

/// Makes a listpack.
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self { bytes: vec![0; HEADER_LEN], count: 0 }
    }
}

impl Builder {
    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes it will have.
    pub fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Adds a string, as a number if it is one.
    pub fn push(&mut self, text: &[u8]) {
        match crate::number::parse_integer(text) {
            Some(number) => self.push_integer(number),
            None => self.push_text(text),
        }
    }

    fn push_text(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        let len = text.len();
        match len {
            0..=0x3f => self.bytes.push(0x80 | len as u8),
            0x40..=0xfff => self.bytes.extend([0xe0 | (len >> 8) as u8, len as u8]),
            _ => {
                self.bytes.push(0xf0);
                self.bytes.extend((len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(start);
    }

    /// Adds a number.
    pub fn push_integer(&mut self, number: i64) {
        let start = self.bytes.len();
        let bytes = number.to_le_bytes();
        let (mark, len) = match number {
            0..=0x7f => (bytes[0], 0),
            -0x1000..=0xfff => {
                self.bytes.extend([0xc0 | bytes[1] & 0x1f, bytes[0]]);
                return self.end(start);
            }
            -0x8000..=0x7fff => (0xf1, 2),
            -0x80_0000..=0x7f_ffff => (0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
            _ => (0xf4, 8),
        };
        self.bytes.push(mark);
        self.bytes.extend(bytes.iter().take(len));
        self.end(start);
    }

    fn end(&mut self, start: usize) {
        let mut back = [0; BACK_LEN_MAX];
        let back = back_length(self.bytes.len() - start, &mut back);
        self.bytes.extend_from_slice(back);
        self.count += 1;
    }

    /// The listpack.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN).to_le_bytes();
        for (slot, byte) in self.bytes.iter_mut().zip(size.into_iter().chain(count)) {
            *slot = byte;
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let mut texts: Vec<Vec<u8>> = vec![b"".to_vec(), b"a".to_vec(), b"-".to_vec(), b"007".to_vec()];
        for len in [63, 64, 126, 127, 128, 4095, 4096, 16382, 16383, 70_000] {
            texts.push(vec![b'x'; len]);
        }
        for shift in 0..63 {
            for number in [1i64 << shift, (1 << shift) - 1, -(1 << shift), -(1 << shift) - 1] {
                texts.push(number.to_string().into_bytes());
            }
        }
        let mut builder = Builder::default();
        texts.iter().for_each(|text| builder.push(text));
        let size = builder.size();
        let listpack = builder.finish();
        assert_eq!(listpack.len(), size);
        let read: Vec<Vec<u8>> =
            elements(&listpack).unwrap().map(|element| element.unwrap().text().into_owned()).collect();
        assert_eq!(read, texts);
        assert!(elements(&listpack[..listpack.len() - 1]).is_err());
    }

    #[test]
    fn broken_ones_are_refused() {
        for listpack in [
            &b""[..],
            b"\x07\x00\x00\x00\x01\x00\xff",
            b"\x08\x00\x00\x00\x00\x00\xff",
            b"\x08\x00\x00\x00\x00\x00\xff\xff",
            b"\x09\x00\x00\x00\x00\x00\x01\x01\xff",
            b"\x09\x00\x00\x00\x01\x00\x01\x02\xff",
            b"\x09\x00\x00\x00\x01\x00\x85\x01\xff",
            b"\x0b\x00\x00\x00\x01\x00\xf0\xff\xff\xff\xff",
        ] {
            let all = elements(listpack).and_then(|elements| elements.collect::<Result<Vec<_>, _>>());
            assert!(all.is_err(), "{listpack:?}");
        }
        assert_eq!(elements(b"\x09\x00\x00\x00\x01\x00\x05\x01\xff").unwrap().count(), 1);
    }
}
