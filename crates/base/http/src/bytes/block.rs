//! Sixteen bytes at a time: for each kind of byte, a mask with a bit for each byte that is of it.

use wide::u8x16;

/// Bytes in a block.
pub(crate) const BLOCK: usize = 16;

#[derive(Clone, Copy)]
pub(crate) struct Block(u8x16);

impl Block {
    #[inline(always)]
    pub(crate) fn new(bytes: &[u8; BLOCK]) -> Self {
        Block(u8x16::new(*bytes))
    }

    /// Bytes below 0x20, HTAB among them, and DEL.
    #[inline(always)]
    pub(super) fn controls(self) -> Hits {
        Hits::of(self.at_most(0x1f) | self.equal(0x7f))
    }

    /// Bytes that may not stand in a request target: up to space, number sign, and DEL and beyond.
    #[inline(always)]
    pub(super) fn outside_target(self) -> Hits {
        let beyond = self.0.max(u8x16::splat(0x7f)).simd_eq(self.0);
        Hits::of(self.at_most(b' ') | beyond | self.equal(b'#'))
    }

    #[inline(always)]
    pub(super) fn colons(self) -> Hits {
        Hits::of(self.equal(b':'))
    }

    /// The bytes with the letters among the first `count` in lower case.
    #[inline(always)]
    pub(crate) fn with_lower_case(self, count: usize) -> [u8; BLOCK] {
        const PLACES: [u8; BLOCK] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        // Seen from 'A' on, letters are the bytes up to 25, whatever wraps around.
        let from_a = self.0 - u8x16::splat(b'A');
        let capital = from_a.min(u8x16::splat(25)).simd_eq(from_a);
        let places = u8x16::new(PLACES);
        let counted = places.min(u8x16::splat(count.min(BLOCK) as u8)).simd_eq(places);
        (self.0 | (capital & counted & u8x16::splat(0x20))).to_array()
    }

    #[inline(always)]
    fn at_most(self, byte: u8) -> u8x16 {
        self.0.min(u8x16::splat(byte)).simd_eq(self.0)
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u8x16 {
        self.0.simd_eq(u8x16::splat(byte))
    }
}

/// Which bytes of a block are of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hits(u32);

impl Hits {
    #[inline(always)]
    fn of(mask: u8x16) -> Self {
        Hits(mask.to_bitmask())
    }

    /// The first one.
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Those after the first `count` bytes of the block (fewer than all), counted from there.
    #[inline(always)]
    pub(super) fn after(self, count: usize) -> Hits {
        Hits(self.0.checked_shr(count as u32).unwrap_or(0))
    }
}
