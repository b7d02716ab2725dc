//! Integers as the protocol has them: one byte below 240, then four bits and seven at a time, the lowest first.

/// The first byte of a longer one has at least this.
const LONG: u64 = 0xf0;
/// Bytes after the first have this if another one follows.
const FOLLOWED: u64 = 0x80;
/// What the last byte of the longest one is shifted by.
const SHIFT_MAX: u32 = 60;

/// Appends an integer.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    if value < LONG {
        out.push(value as u8);
        return;
    }
    out.push((value | LONG) as u8);
    value = (value - LONG) >> 4;
    while value >= FOLLOWED {
        out.push((value | FOLLOWED) as u8);
        value = (value - FOLLOWED) >> 7;
    }
    out.push(value as u8);
}

/// Bytes that are read from the front. `None` means that they ended too early or make no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(u64::from(*first))
    }

    /// An integer.
    pub(crate) fn integer(&mut self) -> Option<u64> {
        let mut value = self.byte()?;
        if value < LONG {
            return Some(value);
        }
        let mut shift = 4;
        loop {
            let byte = self.byte()?;
            value = value.wrapping_add(byte << shift);
            if byte < FOLLOWED {
                return Some(value);
            }
            shift += 7;
            if shift > SHIFT_MAX {
                return None;
            }
        }
    }

    /// 32 bits in network order.
    pub(crate) fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (value, expected) in [
            (0, &[0_u8][..]),
            (239, &[239]),
            (240, &[0xf0, 0]),
            (241, &[0xf1, 0]),
            (2_287, &[0xff, 0x7f]),
            (2_288, &[0xf0, 0x80, 0]),
            (264_431, &[0xff, 0xff, 0x7f]),
            (264_432, &[0xf0, 0x80, 0x80, 0]),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn all_come_back(value: u64) {
            let mut out = Vec::new();
            put(&mut out, value);
            let mut reader = Reader::new(&out);
            proptest::prop_assert_eq!(reader.integer(), Some(value));
            proptest::prop_assert!(reader.is_empty() && out.len() <= 10);
            for len in 0..out.len() {
                proptest::prop_assert_eq!(Reader::new(&out[..len]).integer(), None);
            }
        }
    }

    #[test]
    fn endless_ones_are_refused() {
        assert_eq!(Reader::new(&[0xff; 40]).integer(), None);
    }
}
