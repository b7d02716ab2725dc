//! Latency histograms: fixed size, one writer, a relative error of one eighth.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Eight buckets for each power of two, up to 2^32 - 1.
const STEPS: u32 = 8;
const STEP_BITS: u32 = 3;
const BUCKETS: usize = 240;

/// Counts of values (microseconds, by custom) in buckets whose width grows with the value.
#[derive(Debug)]
pub struct Histogram(Box<[AtomicU32]>);

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU32::new(0)).collect())
    }
}

fn bucket(value: u32) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let exponent = 31 - value.leading_zeros();
    let step = (value >> (exponent - STEP_BITS)) - STEPS;
    ((exponent - STEP_BITS + 1) * STEPS + step) as usize
}

/// The greatest value that falls into a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let steps = u64::from(STEPS);
    if bucket < steps {
        return bucket;
    }
    let exponent = bucket / steps - 1;
    ((steps + bucket % steps + 1) << exponent) - 1
}

impl Histogram {
    /// Counts a value; larger ones than fit count as the largest.
    pub fn record(&self, value: u64) {
        let index = bucket(u32::try_from(value).unwrap_or(u32::MAX));
        if let Some(cell) = self.0.get(index) {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Adds this histogram's counts to a snapshot.
    pub fn add_to(&self, snapshot: &mut HistogramSnapshot) {
        for (sum, cell) in snapshot.counts.iter_mut().zip(&self.0) {
            *sum += u64::from(cell.load(Relaxed));
        }
    }
}

/// A sum of histograms to ask for quantiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: Vec<u64>,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl HistogramSnapshot {
    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value that `per_mille` thousandths of all values do not exceed; `None` without values.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = (total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(index, count)| {
            seen += count;
            (seen >= rank).then(|| upper_bound(index))
        })
    }

    /// Adds what another one counted.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// What was counted since an `earlier` snapshot of the same histograms; all of it, if they were begun anew since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.counts.iter().zip(&earlier.counts).any(|(now, then)| now < then) {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.wrapping_sub(*then)).collect();
        Self { counts }
    }

    /// Upper bound and count of each bucket that holds values.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (upper_bound(index), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_below_its_bucket_and_above_the_one_before() {
        for value in (0..5_000).chain([65_535, 65_536, 1 << 20, u32::MAX - 1, u32::MAX]) {
            let index = bucket(value);
            assert!(index < BUCKETS, "{value}");
            assert!(upper_bound(index) >= u64::from(value), "{value}");
            assert!(index == 0 || upper_bound(index - 1) < u64::from(value), "{value}");
        }
    }

    #[test]
    fn quantiles() {
        let histogram = Histogram::default();
        let mut snapshot = HistogramSnapshot::default();
        assert_eq!(snapshot.quantile(500), None);
        for value in 1..=1000 {
            histogram.record(value);
        }
        histogram.add_to(&mut snapshot);
        let median = snapshot.quantile(500).unwrap();
        assert!((500..=575).contains(&median), "{median}");
        assert!((990..=1100).contains(&snapshot.quantile(990).unwrap()));
        assert_eq!(snapshot.since(&snapshot).count(), 0);
        let mut twice = snapshot.clone();
        twice.add(&snapshot);
        assert_eq!((twice.count(), twice.quantile(500)), (2000, Some(median)));
        assert_eq!(snapshot.since(&twice), snapshot, "they were begun anew");
    }
}
