//! How fast slots move: as fast as an operator allows, and slower while servers answer late because of it.

use serde::{Deserialize, Serialize};

/// What an operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveBounds {
    /// Bytes a second of all copies together; nothing: no bound.
    pub rate: Option<u64>,
    /// Copies at once, each between two other groups.
    pub parallel: u16,
    /// Copies become slower when a source or target takes longer to answer, in milliseconds; 0: they do not.
    pub latency_ms: u64,
}

impl MoveBounds {
    /// The most copies at once.
    pub const PARALLEL_MAX: u16 = 64;
    /// The lowest rate.
    pub const RATE_MIN: u64 = 64 << 10;
}

impl Default for MoveBounds {
    fn default() -> Self {
        Self { rate: None, parallel: 4, latency_ms: 50 }
    }
}

/// Why a copy is not as fast as it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Slowed {
    /// An operator wants that.
    Rate,
    /// A server answers late.
    Latency,
}

/// What was seen of a copy since it was decided on last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Seen {
    /// Bytes that it copied in a second.
    pub bytes_per_second: u64,
    /// The longest that its source or target took to answer, in microseconds.
    pub latency_us: u64,
}

/// From one decision to the next, in milliseconds.
const EACH_MS: u64 = 500;
/// However late servers answer, a copy goes on with so many bytes a second: it must come to its end.
const LEAST: u64 = 1 << 20;
/// A bound above so many bytes a second is none.
const FREE: u64 = 4 << 30;

/// The pace of a copy: halved when servers answer late, a quarter more while they do not.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    bound: Option<u64>,
    decided_at: Option<u64>,
}

impl Pacer {
    /// Whether it is time to decide.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        self.decided_at.is_none_or(|at| now >= at + EACH_MS)
    }

    /// Decides by what was seen.
    pub fn decide(&mut self, now: u64, seen: Seen, bounds: &MoveBounds) {
        self.decided_at = Some(now);
        let is_late = bounds.latency_ms > 0 && seen.latency_us > bounds.latency_ms * 1_000;
        self.bound = if is_late {
            let present = self.bound.map_or(seen.bytes_per_second, |bound| bound.min(seen.bytes_per_second.max(LEAST)));
            Some((present / 2).max(LEAST))
        } else {
            // A half of the bound leaves room; between the two all stays as it is.
            let has_room = bounds.latency_ms == 0 || seen.latency_us * 2 <= bounds.latency_ms * 1_000;
            let grown = |bound: u64| if has_room { bound + bound / 4 } else { bound };
            self.bound.map(grown).filter(|bound| *bound < FREE)
        };
    }

    /// What a copy may do, of which so many run, and what it is bound by.
    #[must_use]
    pub fn rate(&self, bounds: &MoveBounds, copies: usize) -> (Option<u64>, Option<Slowed>) {
        let share = bounds.rate.map(|rate| (rate / copies.max(1) as u64).max(1));
        match (share, self.bound) {
            (None, None) => (None, None),
            (Some(share), None) => (Some(share), Some(Slowed::Rate)),
            (None, Some(bound)) => (Some(bound), Some(Slowed::Latency)),
            (Some(share), Some(bound)) if share <= bound => (Some(share), Some(Slowed::Rate)),
            (Some(_), Some(bound)) => (Some(bound), Some(Slowed::Latency)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_answers_slow_a_copy_and_quick_ones_let_it_go() {
        let bounds = MoveBounds::default();
        let mut pacer = Pacer::default();
        let mut decide = |at: u64, mb: u64, latency_ms: u64| {
            pacer.decide(at, Seen { bytes_per_second: mb << 20, latency_us: latency_ms * 1_000 }, &bounds);
            pacer.rate(&bounds, 1).0.map(|rate| rate >> 20)
        };
        for (step, (mb, latency_ms, expected)) in (0..).zip([
            (100, 5, None),
            (100, 51, Some(50)),
            // Near the bound it stays.
            (50, 40, Some(50)),
            (50, 51, Some(25)),
            (20, 5, Some(31)),
            (30, 500, Some(15)),
            (1, 500, Some(1)),
            // It never stands still.
            (0, 500, Some(1)),
            (0, 500, Some(1)),
        ]) {
            assert_eq!(decide(step * 500, mb, latency_ms), expected, "step {step}");
        }
        // Without a bound for the latency nothing slows it.
        let mut pacer = Pacer::default();
        pacer.decide(
            0,
            Seen { bytes_per_second: 9, latency_us: u64::MAX / 4 },
            &MoveBounds { latency_ms: 0, ..bounds },
        );
        assert_eq!(pacer.rate(&bounds, 1), (None, None));
        assert!(!pacer.is_due(499) && pacer.is_due(500));
    }

    #[test]
    fn what_is_allowed_is_shared() {
        let bounds = MoveBounds { rate: Some(9_000_000), ..MoveBounds::default() };
        let mut pacer = Pacer::default();
        assert_eq!(pacer.rate(&bounds, 3), (Some(3_000_000), Some(Slowed::Rate)));
        pacer.decide(0, Seen { bytes_per_second: 3_000_000, latency_us: 90_000 }, &bounds);
        assert_eq!(pacer.rate(&bounds, 3), (Some(1_500_000), Some(Slowed::Latency)));
        // A bound that has grown beyond all that a server can do is forgotten.
        for step in 1..60 {
            pacer.decide(step * 500, Seen::default(), &bounds);
        }
        assert_eq!(pacer.rate(&bounds, 3), (Some(3_000_000), Some(Slowed::Rate)));
    }
}
