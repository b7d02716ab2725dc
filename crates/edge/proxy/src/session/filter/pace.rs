//! How fast bytes may go: a limit for each period, spread evenly over it.

use std::time::{Duration, Instant};

use super::shared::SharedLimiter;

/// Bytes that are let through at a time at least, as a share of a second: a stream is not woken for every byte.
const STEPS_PER_SECOND: u64 = 100;

const NANOS: u128 = 1_000_000_000;

/// A limit that is on.
#[derive(Debug)]
pub enum BandwidthLimiter {
    /// For one stream.
    Own(StreamLimiter),
    /// For all streams with the same key.
    Shared(SharedLimiter),
}

impl BandwidthLimiter {
    /// How many of `waiting` bytes may go now; 0 when it has to be waited until [`BandwidthLimiter::ready_at`].
    pub fn allowance(&mut self, waiting: usize, now: Instant) -> usize {
        match self {
            Self::Own(pace) => pace.allowance(waiting, now),
            Self::Shared(pace) => pace.allowance(waiting, now),
        }
    }

    /// Takes bytes that went into account.
    pub fn spend(&mut self, bytes: usize) {
        match self {
            Self::Own(pace) => pace.spend(bytes),
            Self::Shared(pace) => pace.spend(bytes),
        }
    }

    /// When `waiting` bytes, or as many as go together, may go, if not now.
    #[must_use]
    pub fn ready_at(&self, waiting: usize) -> Option<Instant> {
        match self {
            Self::Own(pace) => Some(pace.ready_at(waiting)),
            Self::Shared(pace) => pace.ready_at(),
        }
    }
}

/// A limit of so many bytes a period for one stream.
///
/// Credit grows with time and is spent by bytes. It grows no larger than one step, so that a stream that paused gets no
/// burst.
#[derive(Debug)]
pub struct StreamLimiter {
    limit: u64,
    period: Duration,
    /// Bytes that go together, unless fewer are there.
    step: u64,
    credit: u64,
    since: Instant,
}

impl StreamLimiter {
    /// `limit` bytes a `period` from `now` on, at least `min_size` at a time.
    #[must_use]
    pub fn new(limit: u64, period: Duration, min_size: u64, now: Instant) -> Self {
        let (limit, period) = (limit.max(1), period.max(Duration::from_millis(1)));
        let per_second = u128::from(limit) * NANOS / period.as_nanos();
        let share = u64::try_from(per_second).unwrap_or(u64::MAX) / STEPS_PER_SECOND;
        let step = share.max(min_size).max(1);
        // The first step may go at once.
        Self { limit, period, step, credit: step, since: now }
    }

    fn earn(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.since);
        let earned = elapsed.as_nanos() * u128::from(self.limit) / self.period.as_nanos();
        if earned == 0 {
            return;
        }
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        self.credit = self.credit.saturating_add(earned).min(self.step);
        // What was rounded off stays to be earned.
        self.since = if self.credit == self.step { now } else { self.since + self.time_for(earned) };
    }

    fn time_for(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * self.period.as_nanos() / u128::from(self.limit);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many of `waiting` bytes may go now; 0 when it has to be waited until [`StreamLimiter::ready_at`].
    pub fn allowance(&mut self, waiting: usize, now: Instant) -> usize {
        self.earn(now);
        let waiting = waiting as u64;
        if self.credit < self.step.min(waiting) {
            return 0;
        }
        usize::try_from(waiting.min(self.credit)).unwrap_or(usize::MAX)
    }

    /// Takes bytes that went into account.
    pub fn spend(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes as u64);
    }

    /// When `waiting` bytes, or as many as go together, may go.
    #[must_use]
    pub fn ready_at(&self, waiting: usize) -> Instant {
        let missing = self.step.min(waiting as u64).saturating_sub(self.credit);
        // Rounded up, or it would be looked at a moment too early.
        self.since + self.time_for(missing) + Duration::from_micros(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long `bytes` take, looked at whenever they may go, and in how many steps.
    fn takes(pace: &mut StreamLimiter, bytes: usize, start: Instant) -> (Duration, usize) {
        let (mut left, mut now, mut steps) = (bytes, start, 0);
        while left > 0 {
            let allowed = pace.allowance(left, now);
            if allowed == 0 {
                let ready = pace.ready_at(left);
                assert!(ready > now, "time goes on");
                now = ready;
                continue;
            }
            pace.spend(allowed);
            left -= allowed;
            steps += 1;
        }
        (now - start, steps)
    }

    #[test]
    fn keeps_its_limit() {
        let start = Instant::now();
        for (limit, period_ms, min_size, bytes, expected_ms) in [
            (100_000, 1_000, 0, 100_000, 990..=1_001),
            (100_000, 1_000, 0, 1_000, 0..=0),
            (1_000, 100, 0, 10_000, 980..=1_001),
            (1_000, 1_000, 500, 2_000, 1_400..=1_600),
            (1 << 40, 1, 0, 1 << 30, 0..=1),
            (10, 1_000, 0, 30, 2_800..=3_001),
        ] {
            let mut pace = StreamLimiter::new(limit, Duration::from_millis(period_ms), min_size, start);
            let (took, steps) = takes(&mut pace, bytes, start);
            assert!(expected_ms.contains(&took.as_millis()), "{limit} a {period_ms} ms: {took:?}");
            assert!(steps <= 400, "{limit} a {period_ms} ms: {steps} steps");
        }
    }

    #[test]
    fn a_pause_saves_up_no_burst() {
        let start = Instant::now();
        let mut pace = StreamLimiter::new(100_000, Duration::from_secs(1), 0, start);
        takes(&mut pace, 5_000, start);
        let later = start + Duration::from_secs(60);
        let (took, _) = takes(&mut pace, 50_000, later);
        assert!((480..=500).contains(&took.as_millis()), "{took:?}");
    }

    #[test]
    fn small_steps_are_gathered() {
        let start = Instant::now();
        let mut pace = StreamLimiter::new(100_000, Duration::from_secs(1), 4_000, start);
        pace.spend(pace.credit as usize);
        assert_eq!(pace.allowance(10_000, start + Duration::from_millis(39)), 0);
        assert_eq!(pace.allowance(10_000, start + Duration::from_millis(40)), 4_000);
        pace.spend(4_000);
        assert_eq!(pace.allowance(7, start + Duration::from_millis(41)), 7, "the rest need not fill a step");
    }
}
