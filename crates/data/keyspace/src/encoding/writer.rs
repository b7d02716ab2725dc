//! RDB's lengths, strings and numbers, written.

use super::lzf;

/// Strings that are not longer are never compressed.
const COMPRESS_LEN_MIN: usize = 21;
/// The longest text of an integer that is written as one.
const INTEGER_LEN_MAX: usize = 11;

/// Appends to bytes.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    compress: bool,
}

impl<'a> Writer<'a> {
    /// Appends to `out`; long strings are compressed if that is wanted.
    pub fn new(out: &'a mut Vec<u8>, compress: bool) -> Self {
        Self { out, compress }
    }

    /// A byte.
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A number of eight bytes.
    pub fn fixed(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    /// A number of the kind that lengths are.
    pub fn number(&mut self, number: u64) {
        if let Ok(short) = u8::try_from(number)
            && short < 1 << 6
        {
            self.byte(short);
        } else if let Ok(middle) = u16::try_from(number)
            && middle < 1 << 14
        {
            self.raw(&(middle | 1 << 14).to_be_bytes());
        } else if let Ok(long) = u32::try_from(number) {
            self.byte(0x80);
            self.raw(&long.to_be_bytes());
        } else {
            self.byte(0x81);
            self.raw(&number.to_be_bytes());
        }
    }

    /// A length.
    pub fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// A string, in the form that takes the fewest bytes.
    pub fn string(&mut self, bytes: &[u8]) {
        if bytes.len() <= INTEGER_LEN_MAX
            && let Some(number) = crate::number::parse_integer(bytes).and_then(|number| i32::try_from(number).ok())
        {
            self.integer(number);
            return;
        }
        if self.compress
            && bytes.len() >= COMPRESS_LEN_MIN
            && let Some(block) = lzf::compress(bytes)
        {
            self.byte(0xc3);
            self.count(block.len());
            self.count(bytes.len());
            self.raw(&block);
            return;
        }
        self.count(bytes.len());
        self.raw(bytes);
    }

    fn integer(&mut self, number: i32) {
        if let Ok(short) = i8::try_from(number) {
            self.byte(0xc0);
            self.raw(&short.to_le_bytes());
        } else if let Ok(middle) = i16::try_from(number) {
            self.byte(0xc1);
            self.raw(&middle.to_le_bytes());
        } else {
            self.byte(0xc2);
            self.raw(&number.to_le_bytes());
        }
    }

    /// A double.
    pub fn double(&mut self, number: f64) {
        self.raw(&number.to_le_bytes());
    }
}
