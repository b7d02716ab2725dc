//! Limits that several share: so many events a period by a rate of an entry, spread evenly over the period.
//!
//! What is due grows with the time since the rate's period began, and what was counted in it is taken off. Whoever asks
//! gets all that is left, in steps, so nobody is woken for single events. With others at the same entry it then leaves them
//! their turns: it comes back when each of them had time for a step.

use crate::{
    data::DataType,
    entry::Entry,
    frequency::{Frequency, tick},
};

/// Steps of a limit a second.
const STEPS_PER_SECOND: u64 = 100;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rate that it is for.
    pub data: DataType,
    /// Events a period of that rate.
    pub events: u64,
    /// Events that go together, unless fewer are left.
    pub together: u64,
}

/// How many of the events that someone has may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many now.
    pub now: u64,
    /// Milliseconds until it should be asked for more.
    pub wait_ms: u64,
}

impl Entry<'_> {
    /// What one of those who refer to the entry may have of `wanted` events. All of them, when the rate is not stored.
    pub fn share(&mut self, limit: &Limit, wanted: u64) -> Share {
        let (now, users) = (tick(self.now), u64::from(self.references.max(1)));
        let Some(field) = self.field(limit.data) else { return Share { now: wanted, wait_ms: 0 } };
        let period = u64::from(field.period.max(1));
        let (elapsed, used) = self.frequency(field).map_or((0, 0), |frequency: Frequency<'_>| frequency.current(now));
        let (elapsed, used, events) = (u64::from(elapsed), u64::from(used), limit.events.max(1));
        let per_step = events.saturating_mul(1_000) / (period * STEPS_PER_SECOND);
        let step = per_step.max(limit.together).clamp(1, events);
        // The first step of a period may go at once.
        let due = (events.saturating_mul(elapsed) / period).saturating_add(step);
        let time_for = |events_more: u64| events_more.saturating_mul(period).div_ceil(events).max(1);
        let (least, left) = (step.min(wanted), due.saturating_sub(used));
        if left < least {
            // Nothing is held against it once a new period begins.
            let wait_ms = time_for(used + least - due).min(period - elapsed);
            return Share { now: 0, wait_ms };
        }
        let wait_ms = if users > 1 { time_for(step) * users } else { 0 };
        Share { now: wanted.min(left), wait_ms }
    }

    /// Counts events that happened.
    pub fn spend(&mut self, limit: &Limit, events: u64) {
        let now = tick(self.now);
        if let Some(field) = self.field(limit.data)
            && let Some(mut frequency) = self.frequency(field)
        {
            frequency.add(now, u32::try_from(events).unwrap_or(u32::MAX));
        }
    }
}
