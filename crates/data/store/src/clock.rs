//! The clocks of the operating system, read in one place.

use keyspace::Millis;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis)
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A clock of microseconds that only measures durations.
pub fn stopwatch() -> impl Fn() -> u64 {
    let start = Instant::now();
    move || start.elapsed().as_micros() as u64
}
