//! Eight bytes at a time as one number: for each kind of byte, a mask with the top bit of each byte that is of it.
//!
//! Sums are made of seven bits a byte, so that none carries into the next byte and every bit of a mask is exact.

/// Bytes in a block.
pub(super) const BLOCK: usize = 8;

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;
const LOWER_BITS: u64 = !TOPS;

#[derive(Clone, Copy)]
pub(super) struct Block(u64);

impl Block {
    #[inline(always)]
    pub(super) fn new(bytes: &[u8; BLOCK]) -> Self {
        Block(u64::from_le_bytes(*bytes))
    }

    /// Bytes below 0x20, HTAB among them, and DEL.
    #[inline(always)]
    pub(super) fn controls(self) -> Hits {
        let sevens = self.0 & LOWER_BITS;
        let from_space = sevens + ONES * (0x80 - 0x20);
        let delete = sevens + ONES;
        Hits((delete | !from_space) & !self.0 & TOPS)
    }

    /// Bytes that may not stand in a request target: up to space, number sign, and DEL and beyond.
    #[inline(always)]
    pub(super) fn outside_target(self) -> Hits {
        let sevens = self.0 & LOWER_BITS;
        let above_space = sevens + ONES * (0x80 - 0x21);
        let delete = sevens + ONES;
        Hits((self.0 | delete | !above_space | self.equal(b'#')) & TOPS)
    }

    #[inline(always)]
    pub(super) fn colons(self) -> Hits {
        Hits(self.equal(b':') & TOPS)
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        let differing = self.0 ^ (ONES * byte as u64);
        !(((differing & LOWER_BITS) + LOWER_BITS) | differing)
    }
}

/// Which bytes of a block are of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hits(u64);

impl Hits {
    /// The first one.
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize / 8)
    }

    /// Those after the first `count` bytes of the block (fewer than all), counted from there.
    #[inline(always)]
    pub(super) fn after(self, count: usize) -> Hits {
        Hits(self.0.checked_shr(8 * count as u32).unwrap_or(0))
    }
}
