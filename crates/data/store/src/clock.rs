//! The clocks of the operating system, read in one place.

use keyspace::Millis;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A clock of microseconds that only measures durations. It goes on while the machine sleeps: a lease that was given before is over when
/// the machine wakes up.
pub fn stopwatch() -> impl Fn() -> u64 {
    let start = since_boot();
    move || since_boot().saturating_sub(start).as_micros() as u64
}

fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec.max(0) as u32)
}
