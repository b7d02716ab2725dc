//! Elements to registers.

use super::{INDEX_BITS, REGISTERS, VALUE_MAX};

const SEED: u64 = 0xadc8_3b19;

/// Austin Appleby's MurmurHash64A.
fn murmur(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = SEED ^ (key.len() as u64).wrapping_mul(M);
    let (blocks, rest) = key.as_chunks::<8>();
    for block in blocks {
        let mut block = u64::from_le_bytes(*block).wrapping_mul(M);
        block ^= block >> R;
        hash ^= block.wrapping_mul(M);
        hash = hash.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u64::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

/// The register of an element, and the value that it has at least: the zeros at the end of what is left of the hash, and one.
pub(super) fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let rest = hash >> INDEX_BITS | 1 << (VALUE_MAX - 1);
    ((hash as usize) & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}
