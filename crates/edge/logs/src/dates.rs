//! The dates at the front of lines, made once a second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use basics::{Date, calendar::MONTHS_SHORT};
use telemetry::{LocalTime, local_time};

/// When something was accepted, as it stands in lines: `21/Nov/2026:03:47:31.123`.
#[must_use]
pub fn accept_date(since_epoch: Duration) -> String {
    let LocalTime { year, month, day, hour, minute, second, .. } =
        local_time(i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX));
    let name = MONTHS_SHORT.get(month).copied().unwrap_or("Jan");
    format!("{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02}.{:03}", since_epoch.subsec_millis())
}

/// The month that three letters name, from 0.
pub(super) fn month_number(name: &[u8]) -> Option<usize> {
    MONTHS_SHORT.iter().position(|month| month.as_bytes() == name)
}

/// The name of a month, from 0.
pub(super) fn month_name(month: usize) -> Option<&'static str> {
    MONTHS_SHORT.get(month).copied()
}

/// A date in the head of a mail (RFC 5322, 3.3): `Sat, 21 Nov 2026 03:47:31 +0100`.
#[must_use]
pub fn mail_date(unix_seconds: i64) -> String {
    let LocalTime { year, month, day, hour, minute, second, offset } = local_time(unix_seconds);
    let name = Date::at(unix_seconds.saturating_add(i64::from(offset))).weekday_short();
    let month = MONTHS_SHORT.get(month).copied().unwrap_or("Jan");
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    format!(
        "{name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} {sign}{:02}{:02}",
        minutes / 60,
        minutes % 60
    )
}

/// The current second, written down.
#[derive(Debug, Default)]
pub(super) struct Dates {
    second: Option<i64>,
    legacy: String,
    iso: String,
    iso_offset: String,
    year: i32,
    month: usize,
    microsecond: u32,
}

impl Dates {
    /// Sets the time that the dates are of.
    pub(super) fn set(&mut self, now: SystemTime) {
        let (second, microsecond) = match now.duration_since(UNIX_EPOCH) {
            Ok(time) => (i64::try_from(time.as_secs()).unwrap_or(i64::MAX), time.subsec_micros()),
            Err(_) => (0, 0),
        };
        self.microsecond = microsecond;
        if self.second != Some(second) {
            self.second = Some(second);
            self.write_second(local_time(second));
        }
    }

    fn write_second(&mut self, time: LocalTime) {
        let LocalTime { year, month, day, hour, minute, second, offset } = time;
        let name = MONTHS_SHORT.get(month).copied().unwrap_or("Jan");
        (self.year, self.month) = (year, month);
        self.legacy = format!("{name} {day:>2} {hour:02}:{minute:02}:{second:02} ");
        self.iso = format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.", month + 1);
        let minutes = offset.unsigned_abs() / 60;
        let sign = if offset < 0 { '-' } else { '+' };
        self.iso_offset = format!("{sign}{:02}:{:02} ", minutes / 60, minutes % 60);
    }

    /// The year of a date without one: this year's, or last year's if that month is still to come.
    pub(super) fn year_of_month(&self, month: usize) -> i32 {
        if self.month < month { self.year - 1 } else { self.year }
    }

    /// `Nov 21 03:47:31 `: what RFC 3164 wants.
    pub(super) fn write_legacy(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.legacy.as_bytes());
    }

    /// `2026-11-21T03:47:31.123456+00:00 `: what RFC 5424 wants.
    pub(super) fn write_iso(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.iso.as_bytes());
        let mut digits = [b'0'; 6];
        let mut rest = self.microsecond;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&digits);
        out.extend_from_slice(self.iso_offset.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(time: LocalTime, microsecond: u32, legacy: &str, iso: &str) {
        let mut dates = Dates { microsecond, ..Dates::default() };
        dates.write_second(time);
        let mut out = Vec::new();
        dates.write_legacy(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), legacy);
        let mut out = Vec::new();
        dates.write_iso(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), iso);
    }

    #[test]
    fn dates_in_both_forms() {
        let time = LocalTime { year: 2026, month: 10, day: 1, hour: 3, minute: 4, second: 5, offset: 0 };
        check(time, 7, "Nov  1 03:04:05 ", "2026-11-01T03:04:05.000007+00:00 ");
        let time = LocalTime { year: 2027, month: 0, day: 31, hour: 23, minute: 59, second: 60, offset: -12_600 };
        check(time, 999_999, "Jan 31 23:59:60 ", "2027-01-31T23:59:60.999999-03:30 ");
    }

    #[test]
    fn local_time_agrees_with_its_offset() {
        let now = 1_700_000_000;
        let time = local_time(now);
        let local = now + i64::from(telemetry::local_offset(now));
        assert_eq!(i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second), local % 86_400);
        assert_eq!(time.year, 2023);
    }

    #[test]
    fn the_second_is_written_anew_when_it_changes() {
        let mut dates = Dates::default();
        let mut written = Vec::new();
        for milliseconds in [0, 500, 1_000] {
            dates.set(UNIX_EPOCH + Duration::from_secs(86_400) + Duration::from_millis(milliseconds));
            let mut out = Vec::new();
            dates.write_iso(&mut out);
            written.push(String::from_utf8(out).unwrap().get(17..26).unwrap().to_owned());
        }
        assert_eq!(written, ["00.000000", "00.500000", "01.000000"]);
        dates.set(UNIX_EPOCH - Duration::from_secs(5));
    }
}
