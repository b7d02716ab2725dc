//! How fast a copy may be.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::Shared;

/// It is looked so often whether the rate has changed, or the copy is to end.
const STEP: Duration = Duration::from_millis(20);

/// Bytes and time since the rate was set.
pub struct CopySpeed {
    rate: u64,
    since: Instant,
    bytes: u64,
}

impl CopySpeed {
    pub fn new() -> Self {
        Self { rate: 0, since: Instant::now(), bytes: 0 }
    }

    /// How long is to be waited after so many more bytes, at a rate (0: as fast as it goes) and a time.
    fn wait(&mut self, bytes: u64, rate: u64, now: Instant) -> Duration {
        if rate != self.rate {
            (self.rate, self.since, self.bytes) = (rate, now, 0);
        }
        self.bytes += bytes;
        if rate == 0 {
            return Duration::ZERO;
        }
        let due = Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        let passed = now.saturating_duration_since(self.since);
        if passed > due + Duration::from_secs(1) {
            // What was not used long ago is not made up for.
            (self.since, self.bytes) = (now, 0);
        }
        due.saturating_sub(passed)
    }

    /// Says that so many bytes more have been copied, and how long is to be waited.
    pub fn after(&mut self, bytes: u64, shared: &Shared) -> Duration {
        self.wait(bytes, shared.rate.load(Ordering::Relaxed), Instant::now())
    }

    /// Whether the rate is the one that waits were reckoned by.
    pub fn is_still(&self, shared: &Shared) -> bool {
        shared.rate.load(Ordering::Relaxed) == self.rate
    }

    /// Waits. Ends early when the rate changes, or the copy is to end.
    pub fn sleep(&mut self, mut wait: Duration, shared: &Shared) {
        while !wait.is_zero() && !shared.stops.load(Ordering::Relaxed) && self.is_still(shared) {
            thread::sleep(wait.min(STEP));
            wait = wait.saturating_sub(STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_may_change() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut pace = CopySpeed { rate: 0, since: began, bytes: 0 };
        assert_eq!(pace.wait(5_000_000, 0, at(0)), Duration::ZERO);
        assert_eq!(pace.wait(1_000, 1_000, at(0)), Duration::from_secs(1));
        assert_eq!(pace.wait(500, 1_000, at(1_000)), Duration::from_millis(500));
        assert_eq!(pace.wait(500, 10_000, at(1_500)), Duration::from_millis(50));
        // A pause of the source gives no right to a burst.
        pace.wait(500, 10_000, at(9_000));
        assert_eq!(pace.wait(10_000, 10_000, at(9_000)), Duration::from_secs(1));
    }
}
