//! Times as texts.

use basics::{
    Date,
    calendar::{MONTHS, MONTHS_SHORT, WEEKDAYS, WEEKDAYS_SHORT, days_from_1970},
};

use super::{Arguments, Outcome, argument, fail, kept, text};
use crate::run::{Failure, Value, Workspace};

/// Seconds from 1970 that have a year of four digits; what is beyond is shown as the end.
const YEARS: std::ops::RangeInclusive<f64> = -62_135_596_800.0..=253_402_300_799.0;
/// A formatted time is as long as this at most.
const FORMATTED_LEN_MAX: usize = 4_096;

/// A time in its parts, in UTC.
#[derive(Clone, Copy, Debug)]
struct Parts {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// From 0, which is Sunday.
    weekday: i64,
    /// From 0.
    day_of_year: i64,
    unix: i64,
}

impl Parts {
    fn of(time: f64) -> Self {
        let unix = time.clamp(*YEARS.start(), *YEARS.end()).trunc() as i64;
        let Date { year, month, day, hour, minute, second, weekday, day_of_year } = Date::at(unix);
        let [month, day, hour, minute, second, weekday] = [month, day, hour, minute, second, weekday].map(i64::from);
        Self { year, month, day, hour, minute, second, weekday, day_of_year: i64::from(day_of_year), unix }
    }

    fn weekday_name(&self) -> &'static str {
        usize::try_from(self.weekday).ok().and_then(|day| WEEKDAYS.get(day)).copied().unwrap_or_default()
    }

    fn month_name(&self) -> &'static str {
        usize::try_from(self.month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or_default()
    }

    /// The week of ISO 8601, and the year that it belongs to.
    fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.weekday + 6) % 7;
        let thursday = self.day_of_year - weekday + 3;
        let length = |year: i64| days_from_1970(year + 1, 1, 1) - days_from_1970(year, 1, 1);
        if thursday < 0 {
            let before = self.year - 1;
            return (before, (thursday + length(before)) / 7 + 1);
        }
        if thursday >= length(self.year) {
            return (self.year + 1, 1);
        }
        (self.year, thursday / 7 + 1)
    }

    fn hour_of_12(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }

    /// What stands for one letter of a format; `None` for a letter that means nothing.
    fn field(&self, letter: char) -> Option<String> {
        let short = |name: &str| name.get(..3).unwrap_or(name).to_owned();
        let many = |format: &str| self.format(format);
        Some(match letter {
            'a' => short(self.weekday_name()),
            'A' => self.weekday_name().to_owned(),
            'b' | 'h' => short(self.month_name()),
            'B' => self.month_name().to_owned(),
            'c' => many("%a %b %e %H:%M:%S %Y"),
            'C' => format!("{:02}", self.year.div_euclid(100)),
            'd' => format!("{:02}", self.day),
            'D' | 'x' => many("%m/%d/%y"),
            'e' => format!("{:2}", self.day),
            'F' => many("%Y-%m-%d"),
            'g' => format!("{:02}", self.iso_week().0.rem_euclid(100)),
            'G' => self.iso_week().0.to_string(),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{:02}", self.hour_of_12()),
            'j' => format!("{:03}", self.day_of_year + 1),
            'k' => format!("{:2}", self.hour),
            'l' => format!("{:2}", self.hour_of_12()),
            'm' => format!("{:02}", self.month),
            'M' => format!("{:02}", self.minute),
            'n' => "\n".to_owned(),
            'p' => (if self.hour < 12 { "AM" } else { "PM" }).to_owned(),
            'P' => (if self.hour < 12 { "am" } else { "pm" }).to_owned(),
            'r' => many("%I:%M:%S %p"),
            'R' => many("%H:%M"),
            's' => self.unix.to_string(),
            'S' => format!("{:02}", self.second),
            't' => "\t".to_owned(),
            'T' | 'X' => many("%H:%M:%S"),
            'u' => ((self.weekday + 6) % 7 + 1).to_string(),
            'U' => format!("{:02}", (self.day_of_year + 7 - self.weekday) / 7),
            'V' => format!("{:02}", self.iso_week().1),
            'w' => self.weekday.to_string(),
            'W' => format!("{:02}", (self.day_of_year + 7 - (self.weekday + 6) % 7) / 7),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'Y' => self.year.to_string(),
            'z' => "+0000".to_owned(),
            'Z' => "GMT".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }

    /// As strftime(3) does in the locale C.
    fn format(&self, format: &str) -> String {
        let mut out = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            // `%Ey`, `%Oy`: the same in this locale.
            let (modifier, letter) = match letters.next() {
                Some(modifier @ ('E' | 'O')) => (Some(modifier), letters.next()),
                other => (None, other),
            };
            match letter.and_then(|letter| self.field(letter)) {
                Some(field) => out.push_str(&field),
                None => {
                    out.push('%');
                    out.extend(modifier);
                    out.extend(letter);
                }
            }
            if out.len() > FORMATTED_LEN_MAX {
                return String::new();
            }
        }
        out
    }
}

/// `std.strftime(time, format)`
pub(super) fn strftime<'w>(arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Outcome<'w> {
    let time = argument(arguments, 0).and_then(Value::number).ok_or(Failure::NoAnswer)?;
    let Some(format) = text(arguments, 1) else { return fail("std.strftime(): format is NULL") };
    kept(workspace, Parts::of(time).format(&String::from_utf8_lossy(format)).as_bytes())
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
#[must_use]
pub fn format_date(time: f64) -> String {
    Parts::of(time).format("%a, %d %b %Y %H:%M:%S GMT")
}

/// A reader of a date's parts.
struct Reader<'t>(&'t [u8]);

impl<'t> Reader<'t> {
    fn take(&mut self, count: usize) -> Option<&'t [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text.as_bytes())?;
        Some(())
    }

    fn number(&mut self, count: usize) -> Option<i64> {
        let taken = self.take(count)?;
        taken.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
    }

    fn month(&mut self) -> Option<i64> {
        let taken = self.take(3)?;
        let place = MONTHS_SHORT.iter().position(|month| month.as_bytes() == taken)?;
        i64::try_from(place + 1).ok()
    }

    /// Seconds of `08:49:37`; a leap second is the one before it.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.expect(":")?;
        let minute = self.number(2)?;
        self.expect(":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then(|| hour * 3_600 + minute * 60 + second.min(59))
    }
}

/// Seconds from 1970 of a time in one of the forms of HTTP or as `1994-11-06T08:49:37`.
pub(super) fn parse_date(text: &[u8]) -> Option<f64> {
    let mut reader = Reader(text.trim_ascii_start());
    let first = *reader.0.first()?;
    if first.is_ascii_digit() {
        let year = reader.number(4)?;
        reader.expect("-")?;
        let month = reader.number(2)?;
        reader.expect("-")?;
        let day = reader.number(2)?;
        reader.expect("T")?;
        let clock = reader.clock()?;
        return finish(&reader, (year, month, day), clock, None);
    }
    let short = reader.take(3)?;
    let weekday = WEEKDAYS_SHORT.iter().position(|day| day.as_bytes() == short)?;
    if reader.expect(", ").is_some() {
        let day = reader.number(2)?;
        reader.expect(" ")?;
        let month = reader.month()?;
        reader.expect(" ")?;
        let year = reader.number(4)?;
        reader.expect(" ")?;
        let clock = reader.clock()?;
        reader.expect(" GMT")?;
        return finish(&reader, (year, month, day), clock, Some(weekday));
    }
    if reader.expect(" ").is_some() {
        let month = reader.month()?;
        reader.expect(" ")?;
        let day = if reader.expect(" ").is_some() { reader.number(1)? } else { reader.number(2)? };
        reader.expect(" ")?;
        let clock = reader.clock()?;
        reader.expect(" ")?;
        let year = reader.number(4)?;
        return finish(&reader, (year, month, day), clock, Some(weekday));
    }
    reader.expect(WEEKDAYS.get(weekday)?.get(3..)?)?;
    reader.expect(", ")?;
    let day = reader.number(2)?;
    reader.expect("-")?;
    let month = reader.month()?;
    reader.expect("-")?;
    let year = reader.number(2)? + 1900;
    let year = if year < 1969 { year + 100 } else { year };
    reader.expect(" ")?;
    let clock = reader.clock()?;
    reader.expect(" GMT")?;
    finish(&reader, (year, month, day), clock, Some(weekday))
}

fn finish(reader: &Reader<'_>, date: (i64, i64, i64), clock: i64, weekday: Option<usize>) -> Option<f64> {
    let (year, month, day) = date;
    let is_valid = (1..=12).contains(&month) && year >= 1899 && reader.0.iter().all(|byte| *byte == b' ');
    if !is_valid || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_1970(year, month, day);
    let parts = Parts::of(days as f64 * 86_400.0);
    let is_in_calendar = parts.month == month && parts.day == day;
    let agrees = weekday.is_none_or(|weekday| usize::try_from(parts.weekday) == Ok(weekday));
    (is_in_calendar && agrees).then(|| (days * 86_400 + clock) as f64)
}
