//! How much a key is used, in the 32 bits that an entry has for it.
//!
//! By age: the second of the shard's clock in which it was used last. By frequency, as Redis has it: sixteen bits of minutes,
//! when the counter was looked at last, and eight bits of a counter that grows ever more slowly and loses one for each minute
//! without use.

use crate::{Millis, random::Random};

/// What a new key begins with, so that it is not the first to go.
const INITIAL: u32 = 5;
/// How slowly the counter grows.
const LOG_FACTOR: u64 = 10;

/// How usage is kept.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    /// By frequency instead of age.
    pub(crate) by_frequency: bool,
    /// Seconds.
    seconds: u32,
    /// Minutes, sixteen bits of them.
    minutes: u32,
    random: Random,
}

impl Usage {
    pub(crate) fn new() -> Self {
        Self { by_frequency: false, seconds: 0, minutes: 0, random: Random::new(1) }
    }

    /// The time goes on.
    pub(crate) fn set_time(&mut self, now: Millis) {
        self.seconds = (now / 1000) as u32;
        self.minutes = (now / 60_000) as u32 & 0xffff;
    }

    /// The clock of ages.
    pub(crate) fn seconds(&self) -> u32 {
        self.seconds
    }

    /// What a new key has.
    pub(crate) fn fresh(&self) -> u32 {
        if self.by_frequency { self.minutes << 8 | INITIAL } else { self.seconds }
    }

    /// What a key has that is restored with what is known of its use; nothing if that is not what is kept here.
    pub(crate) fn restored(&self, idle_s: Option<i64>, frequency: Option<u8>) -> Option<u32> {
        if self.by_frequency {
            return frequency.map(|frequency| self.minutes << 8 | u32::from(frequency));
        }
        let idle = u32::try_from(idle_s?).unwrap_or(u32::MAX);
        Some(self.seconds.saturating_sub(idle))
    }

    /// What a key has that is used now.
    pub(crate) fn used(&mut self, touched: u32) -> u32 {
        if !self.by_frequency {
            return self.seconds;
        }
        let counter = self.frequency(touched);
        let above = u64::from(counter.saturating_sub(INITIAL));
        let grows = counter < 255 && self.random.below(above * LOG_FACTOR + 1) == 0;
        self.minutes << 8 | (counter + u32::from(grows))
    }

    /// A key's counter now.
    pub(crate) fn frequency(&self, touched: u32) -> u32 {
        let idle = self.minutes.wrapping_sub(touched >> 8) & 0xffff;
        (touched & 0xff).saturating_sub(idle)
    }

    /// The larger, the less a key is used.
    pub(crate) fn idleness(&self, touched: u32) -> u32 {
        if self.by_frequency { 255 - self.frequency(touched) } else { self.seconds.wrapping_sub(touched) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
