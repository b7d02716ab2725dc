//! How fast clients may go on while the tables cannot keep up: because memory is short, or because too much of the log is not
//! in them yet.
//!
//! Without a pace they would be stopped when memory is full and released when a batch has been written: seconds of silence.
//! So what they may add to the log in a millisecond is bound to what the tables take in a millisecond, the tighter the
//! less room is left. Nothing is read from clients once that is used up, until the next millisecond. When no room is left at all,
//! there is no pace: commands that write wait, and others go on.

use keyspace::Millis;

/// Bytes a millisecond, before any batch has been written.
const DRAINED_AT_FIRST: u64 = 10_000;
/// Bytes that may come in a turn in any case: until its end they are in memory twice.
const TURN_MAX: u64 = 8 << 20;
/// What a slow turn of the loop may make up for at most.
const ELAPSED_MAX_MS: Millis = 20;

/// What clients may add to the log.
#[derive(Debug)]
pub struct LogAllowance {
    /// Bytes of the log that the tables take in a millisecond, smoothed.
    drained: u64,
    /// Bytes that may still come in this millisecond; nothing if any number may.
    allowance: Option<u64>,
    at: Millis,
}

impl LogAllowance {
    /// Without a limit.
    pub fn new(now: Millis) -> Self {
        Self { drained: DRAINED_AT_FIRST, allowance: None, at: now }
    }

    /// A batch was written, for so many bytes of the log, in that time.
    pub fn drained(&mut self, bytes: u64, elapsed: Millis) {
        let rate = bytes / elapsed.max(1).unsigned_abs();
        self.drained = ((self.drained * 3 + rate) / 4).max(1);
    }

    /// The clock was set: nothing has become of the time meanwhile.
    pub fn clock_was_set(&mut self, now: Millis) {
        self.at = now;
    }

    /// Says what may come from now on, by the part of the room that is left, if it is short at all. At the beginning that is
    /// twice what the tables take, in the middle half of it, at the end nothing.
    #[inline]
    pub fn refill(&mut self, now: Millis, left: Option<f64>) {
        let Some(left) = left else {
            self.allowance = None;
            self.at = now;
            return;
        };
        let elapsed = (now - self.at).clamp(0, ELAPSED_MAX_MS).unsigned_abs();
        if elapsed == 0 && self.allowance.is_some() {
            return;
        }
        self.at = now;
        self.allowance = Some((self.drained as f64 * elapsed.max(1) as f64 * left * left * 2.0) as u64);
    }

    /// The part that is left of the room from where on it is short; nothing if it is not short, or has no bound.
    pub fn left(used: u64, short: u64, bound: u64) -> Option<f64> {
        let left = || bound.saturating_sub(used) as f64 / bound.saturating_sub(short).max(1) as f64;
        (bound > 0 && used > short).then(left)
    }

    /// So much was added to the log.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        if let Some(allowance) = &mut self.allowance {
            *allowance = allowance.saturating_sub(bytes);
        }
    }

    /// Whether clients have to wait for the next millisecond, if so much is on its way to the log already.
    #[inline]
    pub fn is_spent(&self, pending: u64) -> bool {
        pending >= self.allowance.unwrap_or(TURN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn while_there_is_memory_any_number_may_come() {
        let mut pace = LogAllowance::new(0);
        for (used, bound) in [(MB, 0), (MB, 2 * MB), (MB, MB)] {
            pace.refill(1, LogAllowance::left(used, bound, bound * 2));
            assert!(!pace.is_spent(TURN_MAX - 1) && pace.is_spent(TURN_MAX), "{used} of {bound}");
        }
    }

    #[test]
    fn less_may_come_the_fuller_memory_is() {
        for (used, allowed) in [(101, 1843), (112, 540), (113, 460), (124, 3), (125, 0), (200, 0)] {
            let mut pace = LogAllowance::new(0);
            for _ in 0..100 {
                pace.drained(1000, 1);
            }
            pace.refill(1, LogAllowance::left(used * MB, 100 * MB, 125 * MB));
            let found = pace.allowance.unwrap();
            let drained = pace.drained;
            assert!((995..=1005).contains(&drained), "{drained}");
            assert!(found.abs_diff(allowed) <= 15, "{used}: {found} instead of {allowed}");
        }
    }

    #[test]
    fn each_millisecond_brings_as_much() {
        let mut pace = LogAllowance::new(0);
        pace.refill(1, LogAllowance::left(101 * MB, 100 * MB, 125 * MB));
        let first = pace.allowance.unwrap();
        assert!(!pace.is_spent(first - 1) && pace.is_spent(first));
        pace.spend(first - 1);
        pace.refill(1, LogAllowance::left(101 * MB, 100 * MB, 125 * MB));
        assert_eq!(pace.allowance, Some(1), "the same millisecond");
        pace.refill(3, LogAllowance::left(101 * MB, 100 * MB, 125 * MB));
        assert!(pace.allowance.unwrap().abs_diff(2 * first) < 3);
        pace.refill(1_000_000, LogAllowance::left(101 * MB, 100 * MB, 125 * MB));
        assert!(pace.allowance.unwrap() < 21 * first, "a long pause does not add up");
    }
}
