//! The wall clock, as time since 1970. A clock that stands before 1970 counts as one that stands at its beginning.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970.
#[must_use]
pub fn since_1970() -> Duration {
    of(SystemTime::now())
}

/// Time from 1970 to a moment.
#[must_use]
pub fn of(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Seconds since 1970 with their fraction, as VCL counts time.
#[must_use]
pub fn seconds() -> f64 {
    since_1970().as_secs_f64()
}

/// Milliseconds since 1970.
#[must_use]
pub fn milliseconds() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970.
#[must_use]
pub fn microseconds() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}
