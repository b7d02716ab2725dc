//! Points of a log as people name them, and times as text.

use std::fmt;

use basics::{Date, calendar};
use oplog::Offset;

const DAY_MS: i64 = 86_400_000;

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before the command at this offset.
    Offset(Offset),
    /// Behind all that was appended up to this time, in milliseconds since 1970.
    Time(u64),
}

impl Point {
    /// Reads an offset, a time, or how long ago it was: `1234`, `2026-03-01T12:00:00Z`, `@1772366400`, `-10m`.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn parse(text: &str, now_ms: u64) -> Result<Self, NoPoint> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(|offset| Self::Offset(Offset(offset))).map_err(|_| NoPoint(text.to_owned()));
        }
        let time = match (text.strip_prefix('@'), text.strip_prefix('-')) {
            (Some(seconds), _) => millis_of_seconds(seconds),
            (_, Some(ago)) => span_ms(ago).and_then(|span| now_ms.checked_sub(span)),
            _ => millis_of_date(text),
        };
        time.map(Self::Time).ok_or_else(|| NoPoint(text.to_owned()))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(formatter, "offset {offset}"),
            Self::Time(ms) => formatter.write_str(&time_text(*ms)),
        }
    }
}

/// A text that is no point of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no point of a log: it is an offset (1234), a time in UTC (2026-03-01T12:00:00Z, or @1772366400) or how long ago it was \
     (-30s, -10m, -2h, -1d)"
)]
pub struct NoPoint(String);

/// `1772366400`, `1772366400.5`
fn millis_of_seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    digits(whole)?.checked_mul(1000)?.checked_add(fraction_ms(part)?)
}

/// The milliseconds of what stands behind a point.
fn fraction_ms(part: &str) -> Option<u64> {
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(part.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// `30s`, `10m`, `2h`, `1d`
fn span_ms(text: &str) -> Option<u64> {
    let factor = match text.bytes().last()? {
        b's' => 1000,
        b'm' => 60_000,
        b'h' => 3_600_000,
        b'd' => DAY_MS.unsigned_abs(),
        _ => return None,
    };
    digits(text.get(..text.len() - 1)?)?.checked_mul(factor)
}

/// `2026-03-01T12:00:00.250Z`; the seconds may be left out, or all of the time; `T` may be a space, and instead of `Z` there
/// may be nothing, or how far the clock is from UTC, as `+02:00`.
fn millis_of_date(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let (time, zone_ms) = match time.strip_suffix('Z') {
        Some(time) => (time, 0),
        None => match time.rfind(['+', '-']) {
            Some(at) => {
                let (time, zone) = time.split_at(at);
                let span = clock_ms(zone.get(1..)?)?;
                (time, if zone.starts_with('-') { -span } else { span })
            }
            None => (time, 0),
        },
    };
    let (year, month, day) = (year as i64, month as i64, day as i64);
    if !(1..=calendar::days_of_month(year, month)).contains(&day) {
        return None;
    }
    let days = calendar::days_from_1970(year, month, day);
    u64::try_from(days * DAY_MS + clock_ms(time)? - zone_ms).ok()
}

/// `12:00`, `12:00:30`, `12:00:30.25`
fn clock_ms(text: &str) -> Option<i64> {
    let (clock, part) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(digits);
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    i64::try_from((hour * 3600 + minute * 60 + second) * 1000 + fraction_ms(part)?).ok()
}

/// A time as RFC 3339 has it, in UTC, with milliseconds.
#[must_use]
pub fn time_text(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let Date { year, month, day, hour, minute, second, .. } = Date::at(ms / 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read() {
        const NOW: u64 = 1_772_366_400_000;
        for (text, expected) in [
            ("0", Some(Point::Offset(Offset(0)))),
            ("12345678901234", Some(Point::Offset(Offset(12_345_678_901_234)))),
            ("99999999999999999999", None),
            ("@1772366400", Some(Point::Time(NOW))),
            ("@1772366400.0625", Some(Point::Time(NOW + 62))),
            ("2026-03-01T12:00:00Z", Some(Point::Time(NOW))),
            ("2026-03-01 12:00", Some(Point::Time(NOW))),
            ("2026-03-01T12:00:00.5", Some(Point::Time(NOW + 500))),
            ("2026-03-01T14:00:00+02:00", Some(Point::Time(NOW))),
            ("2026-03-01T05:30:00-06:30", Some(Point::Time(NOW))),
            ("2026-03-01", Some(Point::Time(NOW - 43_200_000))),
            ("-30s", Some(Point::Time(NOW - 30_000))),
            ("-2h", Some(Point::Time(NOW - 7_200_000))),
            ("-99999999d", None),
            ("", None),
            ("-", None),
            ("-5", None),
            ("@", None),
            ("yesterday", None),
            ("2026-02-29", None),
            ("2026-13-01", None),
            ("2026-03-01T25:00", None),
            ("2026-03-01T12", None),
            ("2026-03-01T12:00:00+", None),
            ("1969-12-31", None),
        ] {
            assert_eq!(Point::parse(text, NOW).ok(), expected, "{text}");
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_772_366_399_999, "2026-03-01T11:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(time_text(ms), expected);
            assert_eq!(Point::parse(expected, 0), Ok(Point::Time(ms)));
        }
    }
}
