//! What the tables will still take of memory for what has changed already.
//!
//! A key or an element that has changed gets a record when a checkpoint takes it, and stands in memory twice until that is written.
//! Whoever lets clients go on until memory is full has it overflow then. So what is to come counts as if it was there: before it,
//! clean keys leave memory, clients are slowed down, and a checkpoint begins.

use keyspace::Untaken;

/// What the record of a key or an element takes, before any was made. A member of a sorted set has two.
const RECORD_BYTES_AT_FIRST: u64 = 400;
/// The least that is reckoned with.
const RECORD_BYTES_MIN: u64 = 150;
/// What the engine takes for a record that it is given, until that is in a file.
const ENGINE_BYTES: u64 = 100;
/// The part of records' own bytes that this is, when they are not made yet.
const ENGINE_SHARE: u64 = 3;

/// How much a record takes.
#[derive(Debug)]
pub struct RecordBytes {
    /// On average, of those that are no long strings.
    mean: u64,
    /// What the checkpoint under way is to take, and what its batch had before.
    taking: (Untaken, u64),
}

impl Default for RecordBytes {
    fn default() -> Self {
        Self { mean: RECORD_BYTES_AT_FIRST, taking: (Untaken::default(), 0) }
    }
}

impl RecordBytes {
    /// A checkpoint begins with a batch of so many bytes.
    pub fn begin(&mut self, untaken: Untaken, batch_bytes: u64) {
        self.taking = (untaken, batch_bytes);
    }

    /// All of it is taken, and the batch has so many bytes. The mean rises at once and falls more slowly.
    pub fn end(&mut self, batch_bytes: u64) {
        let (Untaken { count, long_bytes }, before) = std::mem::take(&mut self.taking);
        let Some(bytes) = batch_bytes.checked_sub(before + long_bytes as u64).filter(|_| count > 0) else { return };
        let mean = (bytes / count as u64).max(RECORD_BYTES_MIN);
        self.mean = if mean >= self.mean { mean } else { self.mean.midpoint(mean) };
    }

    /// About what the records of this will take.
    pub fn of(&self, untaken: Untaken) -> u64 {
        let each = self.mean + self.mean / ENGINE_SHARE;
        (untaken.count as u64).saturating_mul(each).saturating_add(untaken.long_bytes as u64)
    }

    /// About what the engine will take for records that are made.
    pub fn of_made(count: usize) -> u64 {
        count as u64 * ENGINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn untaken(count: usize, long_bytes: usize) -> Untaken {
        Untaken { count, long_bytes }
    }

    #[test]
    fn what_is_owed_is_reckoned_from_what_records_took() {
        let mut bytes = RecordBytes::default();
        let of_record = |mean: u64| mean + mean / ENGINE_SHARE;
        assert_eq!(bytes.of(untaken(10, 5_000)), 10 * of_record(RECORD_BYTES_AT_FIRST) + 5_000);
        for (taken, before, after, mean) in [
            (untaken(10, 0), 0, 10_000, 1_000),
            (untaken(10, 0), 500, 2_500, 600),
            (untaken(1, 1_000_000), 0, 1_000_600, 600),
            (untaken(0, 0), 0, 100, 600),
            (untaken(10, 0), 0, 0, 375),
            (untaken(1, 1_000_000), 0, 10, 375),
        ] {
            bytes.begin(taken, before);
            bytes.end(after);
            assert_eq!(bytes.of(untaken(1, 0)), of_record(mean), "{taken:?} {before} {after}");
        }
    }
}
