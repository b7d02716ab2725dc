//! Dates as ACME writes them (RFC 3339), as HTTP does, and as HAProxy shows them.

use basics::calendar::{Date, MONTHS_SHORT, days_from_1970};

/// Seconds since 1970 of a date of RFC 3339, as `2026-11-28T17:00:00.5Z` or `...+01:00`.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at_checked(zone_at)?;
    let clock = clock.split('.').next()?;
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let offset = match zone.as_bytes().first()? {
        b'Z' | b'z' => 0,
        sign => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    Some(((days_from_1970(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second)
}

/// Seconds since 1970 of a date of HTTP, as `Sat, 28 Nov 2026 17:00:00 GMT`.
#[must_use]
pub fn from_http(text: &str) -> Option<i64> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let day = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = i64::try_from(MONTHS_SHORT.iter().position(|name| *name == month)?).ok()? + 1;
    let year = words.next()?.parse().ok()?;
    let mut clock = words.next()?.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    Some(((days_from_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// `2026-11-28T17:00:00Z`.
#[must_use]
pub fn to_iso8601(seconds: i64) -> String {
    let Date { year, month, day, hour, minute, second, .. } = Date::at(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `89d 23h01m13s`, as HAProxy shows how long something lasts; nothing is left of what is over.
#[must_use]
pub fn lasting(seconds: i64) -> String {
    let seconds = seconds.max(0);
    format!("{}d {}h{:02}m{:02}s", seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-02-29T12:00:00Z", Some(1_709_208_000)),
            ("2024-02-29T12:00:00.123456Z", Some(1_709_208_000)),
            ("2024-02-29T13:30:00+01:30", Some(1_709_208_000)),
            ("2024-02-29T07:00:00-05:00", Some(1_709_208_000)),
            ("2024-13-01T00:00:00Z", None),
            ("2024-02-29", None),
            ("", None),
        ] {
            assert_eq!(from_rfc3339(text), expected, "{text}");
        }
        assert_eq!(from_http("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(from_http("soon"), None);
        for seconds in [0, 951_782_400, 1_709_208_000, 4_107_542_399, 86_399] {
            assert_eq!(from_rfc3339(&to_iso8601(seconds)), Some(seconds));
        }
        assert_eq!(to_iso8601(1_709_208_000), "2024-02-29T12:00:00Z");
        assert_eq!(lasting(7_772_473), "89d 23h01m13s");
        assert_eq!(lasting(-5), "0d 0h00m00s");
    }
}
