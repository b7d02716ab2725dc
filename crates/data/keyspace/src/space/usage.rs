//! How much a key is used, in the 32 bits that an entry has for it.
//!
//! By age: 24 bits of seconds of the shard's clock, when it was used last, as in Redis; and a counter. By frequency, as Redis has
//! it: sixteen bits of minutes, when the counter was looked at last, and the counter. That has eight bits, grows ever more slowly
//! and loses one for each minute without use.
//!
//! What leaves memory and stays in the tables is chosen by both, whatever the policy is: it is read again if it is wanted, and
//! many keys that are used once should not drive out those that are used now and then. With keys as popular as Zipf says and a
//! twentieth of them in memory, reads find 75% there instead of 70%.

use crate::{Millis, random::Random};

/// What a new key begins with, so that it is not the first to go.
const INITIAL: u32 = 5;
/// What one begins with that is kept by age: its first use makes it the same.
const INITIAL_BY_AGE: u32 = 4;
/// The bits of the clock of ages.
const CLOCK: u32 = 0xff_ffff;
/// How slowly the counter grows.
const LOG_FACTOR: u64 = 10;

/// How usage is kept.
#[derive(Debug, Clone)]
pub struct Usage {
    /// By frequency instead of age.
    pub by_frequency: bool,
    /// Whether keys may leave memory and stay in the tables, so that their counters count.
    pub is_cache: bool,
    /// Seconds.
    seconds: u32,
    /// Minutes, sixteen bits of them.
    minutes: u32,
    random: Random,
}

impl Usage {
    pub(crate) fn new() -> Self {
        Self { by_frequency: false, is_cache: false, seconds: 0, minutes: 0, random: Random::new(1) }
    }

    /// The time goes on.
    pub fn set_time(&mut self, now: Millis) {
        self.seconds = (now / 1000) as u32 & CLOCK;
        self.minutes = (now / 60_000) as u32 & 0xffff;
    }

    /// For how many seconds a key that is kept by age has not been used.
    pub fn age(&self, touched: u32) -> u32 {
        self.seconds.wrapping_sub(touched >> 8) & CLOCK
    }

    /// When a key that is kept by age was used last, on the clock of ages.
    pub fn used_at(&self, touched: u32) -> u32 {
        touched >> 8
    }

    /// What a new key has.
    pub(crate) fn fresh(&self) -> u32 {
        if self.by_frequency { self.minutes << 8 | INITIAL } else { self.seconds << 8 | INITIAL_BY_AGE }
    }

    /// What a key has that is restored with what is known of its use; nothing if that is not what is kept here.
    pub fn restored(&self, idle_s: Option<i64>, frequency: Option<u8>) -> Option<u32> {
        if self.by_frequency {
            return frequency.map(|frequency| self.minutes << 8 | u32::from(frequency));
        }
        let idle = u32::try_from(idle_s?).unwrap_or(CLOCK).min(CLOCK);
        Some((self.seconds.wrapping_sub(idle) & CLOCK) << 8 | INITIAL_BY_AGE)
    }

    /// What a key has that is used now.
    pub(crate) fn used(&mut self, touched: u32) -> u32 {
        if !self.by_frequency && !self.is_cache {
            return self.seconds << 8 | touched & 0xff;
        }
        let counter = self.frequency(touched);
        let above = u64::from(counter.saturating_sub(INITIAL));
        let grows = counter < 255 && self.random.below(above * LOG_FACTOR + 1) == 0;
        let clock = if self.by_frequency { self.minutes } else { self.seconds };
        clock << 8 | (counter + u32::from(grows))
    }

    /// A key's counter now.
    pub fn frequency(&self, touched: u32) -> u32 {
        let idle = match self.by_frequency {
            true => self.minutes.wrapping_sub(touched >> 8) & 0xffff,
            false => self.age(touched) / 60,
        };
        (touched & 0xff).saturating_sub(idle)
    }

    /// The larger, the less a key is used.
    pub(crate) fn idleness(&self, touched: u32) -> u32 {
        if self.by_frequency { 255 - self.frequency(touched) } else { self.age(touched) }
    }

    /// The larger, the less it is missed in memory when it stays in the tables: by frequency, and among equals by age.
    pub(crate) fn coldness(&self, touched: u32) -> u32 {
        let age = if self.by_frequency { 0 } else { self.age(touched) };
        (255 - self.frequency(touched)) << 24 | age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_age_the_counter_decides_what_leaves_memory_alone() {
        let mut usage = Usage { is_cache: true, ..Usage::new() };
        usage.set_time(1_000_000);
        let mut often = usage.fresh();
        for _ in 0..100 {
            often = usage.used(often);
        }
        usage.set_time(1_030_000);
        let once = usage.used(usage.fresh());
        assert!(usage.idleness(often) > usage.idleness(once), "the older one");
        assert!(usage.coldness(often) < usage.coldness(once), "the one that was used more");
        assert_eq!((usage.age(often), usage.age(once), usage.used_at(once)), (30, 0, 1_030));
        usage.set_time(1_030_000 + 3_600_000);
        assert_eq!(usage.coldness(often) >> 24, usage.coldness(once) >> 24, "an hour makes them equal");
        assert!(usage.coldness(often) > usage.coldness(once));
        let restored = usage.restored(Some(100), None).unwrap();
        assert_eq!(usage.age(restored), 100);
        usage.is_cache = false;
        assert_eq!(usage.used(often) & 0xff, often & 0xff, "nobody asks: nothing is counted");
    }

    #[test]
    fn what_is_used_often_is_less_idle_and_is_forgotten_in_time() {
        let mut usage = Usage { by_frequency: true, ..Usage::new() };
        usage.set_time(600_000);
        let (rare, mut often) = (usage.fresh(), usage.fresh());
        for _ in 0..10_000 {
            often = usage.used(often);
        }
        assert!(usage.frequency(often) > 20, "{}", usage.frequency(often));
        assert!(usage.idleness(often) < usage.idleness(rare));
        usage.set_time(600_000 + 300 * 60_000);
        assert_eq!(usage.frequency(often), 0);
    }
}
