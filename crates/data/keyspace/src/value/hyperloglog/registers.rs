//! Registers of six bits in bytes.

const BITS: usize = 6;
const MASK: u16 = (1 << BITS) - 1;

/// All registers, one behind the other.
pub(super) struct Dense<'a>(pub(super) &'a mut [u8]);

fn pair(bytes: &[u8], at: usize) -> u16 {
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    byte(at) | byte(at + 1) << 8
}

/// A register's value.
pub(super) fn value(bytes: &[u8], index: usize) -> u8 {
    let bit = index * BITS;
    (pair(bytes, bit / 8) >> (bit % 8) & MASK) as u8
}

impl Dense<'_> {
    pub(super) fn get(&self, index: usize) -> u8 {
        value(self.0, index)
    }

    pub(super) fn set(&mut self, index: usize, value: u8) {
        let bit = index * BITS;
        let (at, shift) = (bit / 8, bit % 8);
        let changed = pair(self.0, at) & !(MASK << shift) | (u16::from(value) & MASK) << shift;
        for (offset, byte) in changed.to_le_bytes().into_iter().enumerate() {
            if let Some(place) = self.0.get_mut(at + offset) {
                *place = byte;
            }
        }
    }
}
