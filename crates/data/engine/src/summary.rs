//! What records come to: whether two sets of them are the same.
//!
//! The digest is a sum over records and does not depend on their order, so the digests of several shards add up to that of the
//! whole, however many shards there are. docs/formats/backup.md has it byte by byte.

use twox_hash::XxHash3_128;

use crate::{Bounds, Direction, Records, Result};

/// What all records of an engine or a snapshot come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// How many there are.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Sum of their hashes. Two sets of records with the same digest are the same, but for a chance of one in 2^128.
    pub digest: u128,
}

impl Summary {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = XxHash3_128::new();
        hasher.write(&(key.len() as u64).to_le_bytes());
        hasher.write(key);
        hasher.write(value);
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.digest = self.digest.wrapping_add(hasher.finish_128());
    }

    /// What two disjoint sets of records come to.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            records: self.records + other.records,
            bytes: self.bytes + other.bytes,
            digest: self.digest.wrapping_add(other.digest),
        }
    }
}

/// Reads all records and sums them up.
pub fn summary(records: &dyn Records) -> Result<Summary> {
    let mut summary = Summary::default();
    for record in records.scan(&Bounds::all(), Direction::Forward) {
        let (key, value) = record?;
        summary.add(&key, &value);
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Engine as _, MemoryEngine};

    fn summary_of(records: &[(&[u8], &[u8])]) -> Summary {
        let engine = MemoryEngine::new();
        let mut batch = Batch::new();
        for (key, value) in records {
            batch.put(*key, *value);
        }
        engine.write(&batch).unwrap();
        summary(&engine).unwrap()
    }

    #[test]
    fn sums_of_parts_are_the_sum_of_the_whole() {
        let whole = summary_of(&[(b"a", b"1"), (b"b", b""), (b"c", b"333")]);
        assert_eq!((whole.records, whole.bytes), (3, 7));
        assert_eq!(summary_of(&[(b"c", b"333")]).and(summary_of(&[(b"a", b"1"), (b"b", b"")])), whole);
    }

    #[test]
    fn other_records_have_another_digest() {
        let digest = |records: &[(&[u8], &[u8])]| summary_of(records).digest;
        let some = digest(&[(b"a", b"1")]);
        for other in
            [&[(&b"a"[..], &b"2"[..])][..], &[(b"b", b"1")], &[(b"a1", b"")], &[], &[(b"a", b"1"), (b"b", b"")]]
        {
            assert_ne!(digest(other), some);
        }
        assert_eq!(digest(&[]), 0);
    }
}
