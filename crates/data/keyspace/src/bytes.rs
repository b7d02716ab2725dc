//! Strings of keys, fields, members and values.

use smallvec::SmallVec;

/// A binary-safe string; up to 16 bytes live where it lives, without an allocation.
pub type Bytes = SmallVec<[u8; 16]>;

/// The bytes that a string has on the heap, for accounts of memory.
pub fn heap_bytes(bytes: &Bytes) -> usize {
    if bytes.spilled() { bytes.capacity() } else { 0 }
}
