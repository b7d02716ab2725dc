//! Local time, which only the C library knows how to tell.

use std::cell::Cell;

/// A date and time of day where the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Of our calendar.
    pub year: i32,
    /// From 0.
    pub month: usize,
    /// From 1.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 60: there are leap seconds.
    pub second: u8,
    /// Seconds ahead of UTC.
    pub offset: i32,
}

/// The date and time of day at a time in seconds since 1970.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "each field of `tm` is in the range of its unit, and offsets are below a day"
)]
#[must_use]
pub fn local_time(unix_seconds: i64) -> LocalTime {
    #[expect(unsafe_code, reason = "the time zone rules are the C library's, which has no safe form")]
    // SAFETY: `tm` is plain numbers and a pointer that may be null, so zero bytes are a value of it. `localtime_r` reads
    // the one argument and writes the other, both of which live here; it takes the library's own lock for the time zone.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const unix_seconds, &raw mut tm);
        tm
    };
    LocalTime {
        year: tm.tm_year.saturating_add(1900),
        month: tm.tm_mon as usize,
        day: tm.tm_mday as u8,
        hour: tm.tm_hour as u8,
        minute: tm.tm_min as u8,
        second: tm.tm_sec as u8,
        offset: tm.tm_gmtoff as i32,
    }
}

/// No time zone changes its offset but at a multiple of this.
const STEP_SECONDS: i64 = 900;

/// Seconds by which local time is ahead of UTC at a time in seconds since 1970. Cheap: remembers the last answer.
#[must_use]
pub fn local_offset(unix_seconds: i64) -> i32 {
    thread_local! {
        static LAST: Cell<(i64, i32)> = const { Cell::new((i64::MIN, 0)) };
    }
    let step = unix_seconds.div_euclid(STEP_SECONDS);
    let (last_step, last_offset) = LAST.get();
    if step == last_step {
        return last_offset;
    }
    let offset = local_time(unix_seconds).offset;
    LAST.set((step, offset));
    offset
}
