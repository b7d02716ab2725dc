//! Numbers and strings in records: a number has seven bits in a byte, the lowest first; a string stands behind its length.

use thiserror::Error;

/// A record that is none, and what of it cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the record of a queue is damaged: {0}")]
pub struct Malformed(pub &'static str);

const NUMBER: Malformed = Malformed("a number");
const CUT_OFF: Malformed = Malformed("it is cut off");

/// Appends a number.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a string behind its length.
pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_number(out, string.len() as u64);
    out.extend_from_slice(string);
}

/// Takes a record apart. Nothing is trusted: a string is not longer than what is there.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// A byte.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.0.split_first().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*byte)
    }

    /// A number, which takes as few bytes as it can.
    ///
    /// # Errors
    ///
    /// There is none, or it has more than 64 bits, or it is longer than it must be.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(NUMBER);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 { Err(NUMBER) } else { Ok(number) };
            }
        }
        Err(NUMBER)
    }

    /// A number of things, which can be added to others without an overflow.
    ///
    /// # Errors
    ///
    /// As of [`number`](Self::number), or it is so large that nobody has counted so far.
    pub fn count(&mut self) -> Result<u64, Malformed> {
        const MOST: u64 = 1 << 56;
        self.number().and_then(|count| if count <= MOST { Ok(count) } else { Err(NUMBER) })
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    ///
    /// As of [`number`](Self::number).
    pub fn number_32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| NUMBER)
    }

    /// A string of at most so many bytes.
    ///
    /// # Errors
    ///
    /// It is cut off, or longer.
    pub fn string(&mut self, len_max: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| CUT_OFF)?;
        if len > len_max {
            return Err(Malformed("a string is too long"));
        }
        let (string, rest) = self.0.split_at_checked(len).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(string)
    }

    /// Everything was read.
    ///
    /// # Errors
    ///
    /// There is more.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("there is more than belongs to it")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_have_one_form() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader(&bytes);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.end(), Ok(()));
            let mut longer = bytes.clone();
            *longer.last_mut().unwrap() |= 0x80;
            longer.push(0);
            assert!(Reader(&longer).number().is_err(), "{number}: another form");
            bytes.pop();
            assert!(Reader(&bytes).number().is_err(), "{number}: cut off");
        }
        assert!(Reader(&[0xff; 11]).number().is_err());
        assert!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).number().is_err(), "65 bits");
    }

    #[test]
    fn a_string_is_not_longer_than_what_is_there_or_what_is_allowed() {
        let mut bytes = Vec::new();
        put_string(&mut bytes, b"four");
        assert_eq!(Reader(&bytes).string(4), Ok(&b"four"[..]));
        assert!(Reader(&bytes).string(3).is_err());
        assert!(Reader(&bytes[..4]).string(4).is_err());
        assert!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).string(usize::MAX).is_err());
    }
}
