//! Sixteen bytes at a time: for each kind of byte, a mask with a bit for each byte that is of it.

use wide::u8x16;

/// Bytes in a block.
pub(super) const BLOCK: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Block(u8x16);

impl Block {
    #[inline(always)]
    pub(super) fn new(bytes: &[u8; BLOCK]) -> Self {
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
