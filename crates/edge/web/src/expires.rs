//! How long clients and caches may keep a file, in the words of nginx' `expires`.

use basics::{Date, calendar::DAY_SECONDS};

/// What `expires` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expires {
    /// Nothing is said.
    #[default]
    Off,
    /// Nobody keeps it: `Expires` is in 1970.
    Epoch,
    /// Whoever has it keeps it for good.
    Max,
    /// So many seconds from now; less than none if it is not kept.
    After(i64),
    /// So many seconds from the file's last modification.
    AfterModified(i64),
    /// Up to the next time of day, in seconds since midnight by the local clock.
    TimeOfDay(i64),
}

/// Why `expires` says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpiresError {
    /// There is no word.
    #[error("expires wants a time, such as '30d', 'modified 1h', '@3h', 'epoch', 'max' or 'off'")]
    Missing,
    /// It is not a time.
    #[error(
        "'{0}' is no time: digits with ms, s, m, h, d, w, M or y behind them, such as '1h30m'; 'epoch', 'max' or 'off'"
    )]
    Time(String),
    /// A time of day that no day has.
    #[error("'@{0}' is no time of day: it is less than 24h, such as '@3h' or '@15h30m'")]
    TimeOfDay(String),
    /// More words than it takes.
    #[error("nothing is expected behind '{0}'")]
    TooMany(String),
}

/// What goes into the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The moment of `Expires`.
    pub at: i64,
    /// `Cache-Control`.
    pub control: CacheControl,
}

/// `Cache-Control` as `expires` makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheControl {
    /// `no-cache`
    NoCache,
    /// `max-age`, in seconds.
    MaxAge(u64),
}

impl CacheControl {
    /// The value of the field.
    #[must_use]
    pub fn value(self) -> Vec<u8> {
        match self {
            Self::NoCache => b"no-cache".to_vec(),
            Self::MaxAge(seconds) => format!("max-age={seconds}").into_bytes(),
        }
    }
}

/// `Thu, 31 Dec 2037 23:55:55 GMT`: the last day that clocks of 32 bits know, as nginx says it.
const MAX_AT: i64 = 2_145_916_555;
/// Ten years.
const MAX_AGE: u64 = 315_360_000;
/// `Thu, 01 Jan 1970 00:00:01 GMT`
const EPOCH_AT: i64 = 1;

impl Expires {
    /// Reads the words behind `expires`.
    ///
    /// # Errors
    /// Which word says nothing.
    pub fn parse(words: &[&str]) -> Result<Self, ExpiresError> {
        let (parsed, rest) = match words {
            [] => return Err(ExpiresError::Missing),
            ["modified"] => return Err(ExpiresError::Missing),
            ["modified", time, rest @ ..] => (Self::AfterModified(signed(time)?), rest),
            ["off", rest @ ..] => (Self::Off, rest),
            ["epoch", rest @ ..] => (Self::Epoch, rest),
            ["max", rest @ ..] => (Self::Max, rest),
            [word, rest @ ..] => match word.strip_prefix('@') {
                Some(time) => {
                    let wrong = || ExpiresError::TimeOfDay(time.to_owned());
                    let seconds = seconds(time).ok_or_else(wrong)?;
                    ((seconds < DAY_SECONDS).then_some(Self::TimeOfDay(seconds)).ok_or_else(wrong)?, rest)
                }
                None => (Self::After(signed(word)?), rest),
            },
        };
        match rest.first() {
            Some(word) => {
                Err(ExpiresError::TooMany(words.get(words.len() - rest.len() - 1).unwrap_or(word).to_string()))
            }
            None => Ok(parsed),
        }
    }

    /// What goes into the head. `offset_seconds` is what local time is ahead of UTC.
    #[must_use]
    pub fn expiry(self, now: i64, modified: i64, offset_seconds: i64) -> Option<Expiry> {
        let until = |at: i64| {
            let age = u64::try_from(at.saturating_sub(now));
            Expiry { at, control: age.map_or(CacheControl::NoCache, CacheControl::MaxAge) }
        };
        Some(match self {
            Self::Off => return None,
            Self::Epoch => Expiry { at: EPOCH_AT, control: CacheControl::NoCache },
            Self::Max => Expiry { at: MAX_AT, control: CacheControl::MaxAge(MAX_AGE) },
            Self::After(seconds) => until(now.saturating_add(seconds)),
            Self::AfterModified(seconds) => until(modified.saturating_add(seconds)),
            Self::TimeOfDay(seconds) => {
                let local = Date::at(now.saturating_add(offset_seconds));
                let of_day = i64::from(local.hour) * 3_600 + i64::from(local.minute) * 60 + i64::from(local.second);
                let ahead = (seconds - of_day).rem_euclid(DAY_SECONDS);
                until(now.saturating_add(if ahead == 0 { DAY_SECONDS } else { ahead }))
            }
        })
    }
}

/// A time with or without a sign.
fn signed(text: &str) -> Result<i64, ExpiresError> {
    let (digits, sign) = match text.as_bytes().first() {
        Some(b'-') => (text.get(1..).unwrap_or_default(), -1),
        Some(b'+') => (text.get(1..).unwrap_or_default(), 1),
        _ => (text, 1),
    };
    seconds(digits).map(|seconds| seconds * sign).ok_or_else(|| ExpiresError::Time(text.to_owned()))
}

/// Units from the longest to the shortest, as they may follow each other.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * DAY_SECONDS),
    ("M", 30 * DAY_SECONDS),
    ("w", 7 * DAY_SECONDS),
    ("d", DAY_SECONDS),
    ("h", 3_600),
    ("m", 60),
    ("s", 1),
];

/// Seconds of `1h30m`; digits without a unit are seconds. Units come once each, the longer ones first.
fn seconds(text: &str) -> Option<i64> {
    let (mut rest, mut sum, mut units) = (text, 0_i64, UNITS.as_slice());
    loop {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, behind) = rest.split_at_checked(end)?;
        let number: i64 = digits.parse().ok()?;
        let letters = behind.find(|letter: char| letter.is_ascii_digit() || letter == ' ').unwrap_or(behind.len());
        let (unit, after) = behind.split_at_checked(letters)?;
        let unit = if unit.is_empty() { "s" } else { unit };
        let place = units.iter().position(|(name, _)| *name == unit)?;
        let (_, length) = units.get(place)?;
        units = units.get(place + 1..)?;
        // A thousand years are enough, and no sum of times overflows.
        sum = sum.checked_add(number.checked_mul(*length)?).filter(|sum| *sum <= 1_000 * 365 * DAY_SECONDS)?;
        rest = after.trim_start_matches(' ');
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<Expires, &str>) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let found = Expires::parse(&words);
        match expected {
            Ok(expected) => assert_eq!(found, Ok(expected), "{text}"),
            Err(part) => {
                let error = found.expect_err(text).to_string();
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn words() {
        check("off", Ok(Expires::Off));
        check("epoch", Ok(Expires::Epoch));
        check("max", Ok(Expires::Max));
        check("0", Ok(Expires::After(0)));
        check("24h", Ok(Expires::After(86_400)));
        check("-1", Ok(Expires::After(-1)));
        check("-1h", Ok(Expires::After(-3_600)));
        check("+30d", Ok(Expires::After(30 * DAY_SECONDS)));
        check("1h30m", Ok(Expires::After(5_400)));
        check("1y2M3w4d5h6m7s", Ok(Expires::After(365 * 86_400 + 60 * 86_400 + 21 * 86_400 + 4 * 86_400 + 18_367)));
        check("1h30", Ok(Expires::After(3_630)));
        check("modified 24h", Ok(Expires::AfterModified(86_400)));
        check("modified +24h", Ok(Expires::AfterModified(86_400)));
        check("@15h30m", Ok(Expires::TimeOfDay(55_800)));
        check("@0", Ok(Expires::TimeOfDay(0)));
        check("", Err("wants a time"));
        check("modified", Err("wants a time"));
        for wrong in ["h", "1x", "1m1h", "1h1h", "--1", "1001y", "99999999999999999999", "maximum", "1.5h"] {
            check(wrong, Err("is no time"));
        }
        for wrong in ["@24h", "@-1h", "@", "@noon"] {
            check(wrong, Err("no time of day"));
        }
        check("off now", Err("nothing is expected behind 'off'"));
        check("modified 1h 2h", Err("nothing is expected behind '1h'"));
    }

    #[test]
    fn heads() {
        // Tuesday, 14 November 2023, 22:13:20 UTC.
        let now = 1_700_000_000;
        let check = |expires: Expires, offset: i64, expected: Option<(i64, &str)>| {
            let found = expires.expiry(now, now - 1_000, offset);
            let found = found.map(|found| (found.at, String::from_utf8(found.control.value()).unwrap()));
            assert_eq!(found, expected.map(|(at, control)| (at, control.to_owned())), "{expires:?}");
        };
        check(Expires::Off, 0, None);
        check(Expires::Epoch, 0, Some((1, "no-cache")));
        check(Expires::Max, 0, Some((2_145_916_555, "max-age=315360000")));
        check(Expires::After(60), 0, Some((now + 60, "max-age=60")));
        check(Expires::After(0), 0, Some((now, "max-age=0")));
        check(Expires::After(-1), 0, Some((now - 1, "no-cache")));
        check(Expires::AfterModified(1_060), 0, Some((now + 60, "max-age=60")));
        check(Expires::AfterModified(999), 0, Some((now - 1, "no-cache")));
        check(Expires::TimeOfDay(22 * 3_600 + 14 * 60), 0, Some((now + 40, "max-age=40")));
        check(Expires::TimeOfDay(22 * 3_600), 0, Some((now + 85_600, "max-age=85600")));
        check(Expires::TimeOfDay(23 * 3_600 + 14 * 60), 3_600, Some((now + 40, "max-age=40")));
        check(Expires::TimeOfDay(22 * 3_600 + 13 * 60 + 20), 0, Some((now + 86_400, "max-age=86400")));
        assert_eq!(http::http_date(MAX_AT.cast_unsigned()), *b"Thu, 31 Dec 2037 23:55:55 GMT");
    }
}
