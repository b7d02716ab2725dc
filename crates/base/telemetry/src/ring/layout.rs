//! Offsets and sizes of the memory layout, in words of eight bytes, least significant byte first.

/// Version of the layout.
pub const VERSION: u32 = 1;
/// Smallest ring.
pub const RING_BYTES_MIN: usize = 16 * 1024;
/// Largest ring.
pub const RING_BYTES_MAX: usize = 1 << 30;

pub(super) const WORD: usize = 8;
pub(super) const HEADER_BYTES: usize = 4096;
pub(super) const HEADER_WORDS: usize = HEADER_BYTES / WORD;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"TIDERING");

pub(super) const MAGIC_WORD: usize = 0;
pub(super) const VERSION_WORD: usize = 1;
pub(super) const SIZE_WORD: usize = 2;
pub(super) const OWNER_WORD: usize = 3;
pub(super) const CREATED_WORD: usize = 4;
pub(super) const CLOSED_WORD: usize = 5;
pub(super) const RESERVED_WORD: usize = 8;
pub(super) const COMMITTED_WORD: usize = 16;
pub(super) const TRANSACTIONS_WORD: usize = 17;
pub(super) const REFUSED_WORD: usize = 18;
pub(super) const SEGMENTS_WORD: usize = 32;
/// Parts of the ring whose first block the header knows.
pub(super) const SEGMENTS: usize = 16;
/// Stands in for the first block of a segment that has none yet.
pub(super) const NO_BLOCK: u64 = u64::MAX;

/// Bytes of a block before its records.
pub(super) const BLOCK_HEADER_BYTES: usize = 32;
/// Bytes of a record before its text.
pub(super) const RECORD_HEADER_BYTES: usize = 8;
/// Set in a block when records of it were cut or left out for lack of space.
pub(super) const FLAG_TRUNCATED: u16 = 1;

/// Greatest size of a block in a ring of `size` bytes. It is one segment, so that every segment has a block that begins in
/// it.
pub(super) const fn block_bytes_max(size: usize) -> usize {
    size / SEGMENTS
}

const _: () = {
    assert!(RING_BYTES_MIN.is_power_of_two() && RING_BYTES_MAX.is_power_of_two());
    assert!(SEGMENTS.is_power_of_two());
    assert!(SEGMENTS_WORD + SEGMENTS <= HEADER_WORDS);
    assert!(block_bytes_max(RING_BYTES_MIN) > BLOCK_HEADER_BYTES + RECORD_HEADER_BYTES);
    assert!(BLOCK_HEADER_BYTES.is_multiple_of(WORD) && RECORD_HEADER_BYTES == WORD);
};

/// The size of a ring for a wish of `bytes`: the next power of two within the bounds.
pub(super) fn ring_bytes(bytes: usize) -> usize {
    bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two()
}
