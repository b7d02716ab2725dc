//! HAProxy's frequency counters: how many events there were over the last period, from three words.
//!
//! The first word is when the current period began, the second what was counted in it, the third what was counted in the
//! one before. A reading takes all of the current period and that part of the one before that still lies within a period
//! from now, as if its events had been spread evenly. So it needs no history and never jumps.

/// The words of a counter, and the period that it is read and written with.
pub(crate) struct Frequency<'a> {
    words: &'a mut [u32; 3],
    period: u32,
}

/// Milliseconds as counters keep them: 32 bits that wrap around. Far from 0, which is where counters begin that were never
/// used, so that the first event begins a period.
pub(crate) fn tick(now_ms: u64) -> u32 {
    (now_ms as u32).wrapping_add(1 << 31)
}

impl<'a> Frequency<'a> {
    pub(crate) fn new(words: &'a mut [u32; 3], period: u32) -> Self {
        Self { words, period }
    }

    /// Counts events; how many the current period has.
    pub(crate) fn add(&mut self, now: u32, events: u32) -> u32 {
        let [begun, current, previous] = self.words;
        if now.wrapping_sub(*begun) < self.period {
            *current = current.wrapping_add(events);
            return *current;
        }
        *previous = std::mem::replace(current, events);
        let mut begins = begun.wrapping_add(self.period);
        if now.wrapping_sub(begins) >= self.period {
            // At least one whole period went by without an event.
            *previous = 0;
            begins = now;
        }
        // The lowest bit is HAProxy's lock; without it the same counts give the same rates.
        *begun = begins & !1;
        events
    }

    /// Events over the last period.
    pub(crate) fn read(&self, now: u32) -> u32 {
        let [begun, current, previous] = *self.words;
        let (mut current, mut previous) = (u64::from(current), u64::from(previous));
        let period = i64::from(self.period);
        let mut remaining = i64::from(begun.wrapping_add(self.period).wrapping_sub(now).cast_signed());
        if remaining < 0 {
            remaining += period;
            previous = if remaining >= 0 { current } else { 0 };
            current = 0;
        }
        // At very low rates the reading would flap between 0 and 1 while the next event is waited for.
        if current == 0 && previous <= 1 {
            return previous as u32;
        }
        let total = previous
            .wrapping_mul(remaining.max(0).cast_unsigned())
            .wrapping_add(current.wrapping_mul(u64::from(self.period)));
        total.checked_div(u64::from(self.period)).unwrap_or(0) as u32
    }

    /// How long the current period has lasted, and events in it.
    pub(crate) fn current(&self, now: u32) -> (u32, u32) {
        let [begun, current, _] = *self.words;
        match now.wrapping_sub(begun) {
            elapsed if elapsed < self.period => (elapsed, current),
            elapsed if elapsed - self.period < self.period => (elapsed - self.period, 0),
            _ => (0, 0),
        }
    }

    /// Makes it read `events` for the rest of a period, after which it fades.
    pub(crate) fn set(&mut self, now: u32, events: u32) {
        *self.words = [now & !1, events, 0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events at these times, then readings at those.
    fn check(period: u32, events: &[(u64, u32)], readings: &[(u64, u32)]) {
        let mut words = [0; 3];
        let mut counter = Frequency::new(&mut words, period);
        for (at, count) in events {
            counter.add(tick(*at), *count);
        }
        for (at, expected) in readings {
            assert_eq!(counter.read(tick(*at)), *expected, "at {at}");
        }
    }

    #[test]
    fn rates_fade_over_a_period() {
        check(10_000, &[(0, 1)], &[(0, 1), (9_999, 1), (10_001, 1), (19_999, 1), (20_001, 0)]);
        check(10_000, &[(0, 10)], &[(0, 10), (10_000, 10), (12_000, 8), (15_000, 5), (19_999, 0), (25_000, 0)]);
        check(1_000, &[(0, 4), (1_200, 6)], &[(1_200, 9), (1_500, 8), (2_000, 6), (2_500, 3), (3_100, 0)]);
        // A gap of more than a period forgets what was before.
        check(1_000, &[(0, 4), (2_500, 1)], &[(2_500, 1), (3_600, 1), (4_600, 0)]);
    }

    #[test]
    fn the_clock_may_wrap() {
        let at = u64::from(u32::MAX) - (1 << 31) - 101;
        check(1_000, &[(at, 5), (at + 300, 5)], &[(at + 300, 10), (at + 999, 10), (at + 1_500, 5), (at + 5_000, 0)]);
    }

    #[test]
    fn a_rate_that_was_set_stays_for_a_period() {
        let mut words = [0; 3];
        let mut counter = Frequency::new(&mut words, 1_000);
        counter.set(tick(500), 50);
        for (at, expected) in [(500, 50), (1_499, 50), (2_000, 25), (2_499, 0)] {
            assert_eq!(counter.read(tick(at)), expected, "at {at}");
        }
    }

    #[test]
    fn a_period_of_nothing_counts_nothing() {
        check(0, &[(5, 3), (6, 3)], &[(6, 0), (7, 0)]);
    }
}
