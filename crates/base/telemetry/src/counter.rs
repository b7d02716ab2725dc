//! Counters that cost a plain addition.
//!
//! Each worker writes only its own cells, so an increment is a load and a store without a locked instruction. Readers sum
//! over the workers and may see one worker's increment a moment before another's, which no statistic minds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows, written by one worker.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The number.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Back to zero (`clear counters`).
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A number that grows and shrinks, written by one worker.
#[derive(Debug, Default)]
pub struct WorkerGauge(Counter);

impl WorkerGauge {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.0.increment();
    }

    /// Takes one away.
    #[inline]
    pub fn decrement(&self) {
        self.0.add(u64::MAX);
    }

    /// The number.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value()
    }
}

/// A number that grows and shrinks and remembers its greatest value; written by any thread.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    max: AtomicU64,
}

impl Gauge {
    /// Adds one and returns the new value.
    pub fn increment(&self) -> u64 {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        if now > self.max.load(Relaxed) {
            self.max.fetch_max(now, Relaxed);
        }
        now
    }

    /// Adds one unless the value has reached `limit` (0: no limit); whether it did.
    pub fn increment_below(&self, limit: u64) -> bool {
        if limit != 0 && self.now.load(Relaxed) >= limit {
            return false;
        }
        if self.increment() > limit && limit != 0 {
            self.decrement();
            return false;
        }
        true
    }

    /// Takes one away.
    pub fn decrement(&self) {
        self.now.fetch_sub(1, Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// The greatest value so far.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Forgets the greatest value.
    pub fn reset_max(&self) {
        self.max.store(self.now.load(Relaxed), Relaxed);
    }
}

/// The mean of about the last [`SlidingAverage::WINDOW`] values, written by one worker.
///
/// Each value takes its place of one part in `WINDOW` of the sum, as HAProxy's `qtime`, `ctime`, `rtime` and `ttime` do.
/// The greatest value is remembered beside it.
#[derive(Debug, Default)]
pub struct SlidingAverage(AtomicU64, AtomicU64);

impl SlidingAverage {
    /// Values that count.
    pub const WINDOW: u64 = 1024;

    /// Takes a value in.
    pub fn record(&self, value: u64) {
        let sum = self.0.load(Relaxed);
        self.0.store(sum.wrapping_sub(sum.div_ceil(Self::WINDOW)).wrapping_add(value), Relaxed);
        if value > self.1.load(Relaxed) {
            self.1.store(value, Relaxed);
        }
    }

    /// The greatest value so far.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.1.load(Relaxed)
    }

    /// Forgets the greatest value.
    pub fn reset_max(&self) {
        self.1.store(0, Relaxed);
    }

    /// Forgets everything (`clear counters all`).
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
        self.reset_max();
    }

    /// The mean of the values, of which there were `count` so far.
    #[must_use]
    pub fn mean(&self, count: u64) -> u64 {
        self.0.load(Relaxed).div_ceil(count.clamp(1, Self::WINDOW))
    }

    /// The running sum, to be added over workers.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One `T` a worker, each on cache lines of its own.
#[derive(Debug)]
pub struct PerWorker<T>(Box<[Padded<T>]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Padded<T>(T);

impl<T: Default> PerWorker<T> {
    /// For `workers` workers; at least one.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self((0..workers.max(1)).map(|_| Padded::default()).collect())
    }

    /// The part of a worker. A worker beyond the count shares the last one's, which loses counts but nothing else.
    #[inline]
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "`new` makes at least one, and the index is bounded by it")]
    pub fn of(&self, worker: usize) -> &T {
        &self.0[worker.min(self.0.len() - 1)].0
    }

    /// Every worker's part.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }

    /// The sum of a number over workers.
    pub fn sum(&self, number: impl Fn(&T) -> u64) -> u64 {
        self.iter().map(number).fold(0, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_workers() {
        let cells: PerWorker<Counter> = PerWorker::new(3);
        cells.of(0).increment();
        cells.of(2).add(5);
        cells.of(7).increment();
        assert_eq!(cells.sum(Counter::value), 7);
    }

    #[test]
    fn gauge_keeps_its_limit_and_its_peak() {
        let gauge = Gauge::default();
        assert!(gauge.increment_below(2));
        assert!(gauge.increment_below(2));
        assert!(!gauge.increment_below(2));
        gauge.decrement();
        assert_eq!((gauge.value(), gauge.max()), (1, 2));
        gauge.reset_max();
        assert_eq!(gauge.max(), 1);
    }

    #[test]
    fn average_follows_its_values() {
        let average = SlidingAverage::default();
        for _ in 0..5_000 {
            average.record(40);
        }
        assert_eq!((average.mean(5_000), average.max()), (40, 40));
        average.reset();
        assert_eq!((average.mean(1), average.max()), (0, 0));
        let few = SlidingAverage::default();
        few.record(10);
        few.record(20);
        assert_eq!(few.mean(2), 15);
    }
}
