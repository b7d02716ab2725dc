//! The agent's clock: milliseconds since it began. It goes on while the host sleeps, so that what has lasted for too long is over when
//! the host wakes up.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock that never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Duration,
}

fn reading() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl Clock {
    /// One that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: reading() }
    }

    /// A time of this clock in milliseconds since the machine was started: other programs on it know the same time by that, whenever
    /// this is asked.
    #[must_use]
    pub fn machine_ms_at(&self, time: u64) -> u64 {
        u64::try_from(self.start.as_millis()).unwrap_or(u64::MAX).saturating_add(time)
    }

    /// Milliseconds since it began.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(reading().saturating_sub(self.start).as_millis()).unwrap_or(u64::MAX)
    }
}
