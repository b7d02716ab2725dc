//! Times as HTTP writes them, in the three forms that must be understood (RFC 9110 section 5.6.7). Letters may be large or small:
//! whoever reads them is asked to be robust, and no other time could be meant.

use basics::calendar::{DAY_SECONDS, MONTHS_SHORT, WEEKDAYS, WEEKDAYS_SHORT, days_from_1970, days_of_month};

/// Seconds since 1970 of a time; `None` for what is none. `now` decides about years of two digits.
#[must_use]
pub fn parse_http_date(text: &[u8], now: i64) -> Option<i64> {
    let comma = text.iter().position(|byte| *byte == b',');
    match comma {
        Some(3) => imf_fixdate(text),
        Some(at) => rfc_850(text, at, now),
        None => asctime(text),
    }
}

/// Whether a time is written in the letters of RFC 9110, where large ones differ from small ones.
#[must_use]
pub fn is_http_date_in_usual_letters(text: &[u8]) -> bool {
    let names = || MONTHS_SHORT.iter().chain(&WEEKDAYS_SHORT).chain(&WEEKDAYS);
    let is_known = |word: &[u8]| word == b"GMT" || names().any(|known| known.as_bytes() == word);
    text.split(|byte| !byte.is_ascii_alphabetic()).filter(|word| !word.is_empty()).all(is_known)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<i64> {
    if text.len() != 29 || !is_one_of(&WEEKDAYS_SHORT, text.get(..3)?) || text.get(3..5)? != b", " {
        return None;
    }
    let separators = text.get(7)? == &b' ' && text.get(11)? == &b' ' && text.get(16)? == &b' ';
    if !separators || !text.get(25..)?.eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    let (day, month, year) = (number(text.get(5..7)?)?, month(text.get(8..11)?)?, number(text.get(12..16)?)?);
    seconds(year, month, day, clock(text.get(17..25)?)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc_850(text: &[u8], comma: usize, now: i64) -> Option<i64> {
    let rest = text.get(comma..)?;
    if !is_one_of(&WEEKDAYS, text.get(..comma)?) || rest.len() != 24 || rest.get(..2)? != b", " {
        return None;
    }
    if rest.get(4)? != &b'-'
        || rest.get(8)? != &b'-'
        || rest.get(11)? != &b' '
        || !rest.get(20..)?.eq_ignore_ascii_case(b" GMT")
    {
        return None;
    }
    let (day, month) = (number(rest.get(2..4)?)?, month(rest.get(5..8)?)?);
    let of_day = clock(rest.get(12..20)?)?;
    let this_year = 1970 + now.div_euclid(31_556_952);
    let year = this_year - this_year.rem_euclid(100) + number(rest.get(9..11)?)?;
    // More than fifty years ahead is the last one with these digits (RFC 9110 section 5.6.7).
    let year = if year > this_year + 50 { year - 100 } else { year };
    seconds(year, month, day, of_day)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<i64> {
    if text.len() != 24 || !is_one_of(&WEEKDAYS_SHORT, text.get(..3)?) || text.get(3)? != &b' ' || text.get(7)? != &b' '
    {
        return None;
    }
    if text.get(10)? != &b' ' || text.get(19)? != &b' ' {
        return None;
    }
    let day = match text.get(8..10)? {
        [b' ', digit] => number(&[*digit])?,
        digits => number(digits)?,
    };
    seconds(number(text.get(20..24)?)?, month(text.get(4..7)?)?, day, clock(text.get(11..19)?)?)
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum: i64, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn month(name: &[u8]) -> Option<i64> {
    let place = MONTHS_SHORT.iter().position(|month| month.as_bytes().eq_ignore_ascii_case(name))?;
    i64::try_from(place + 1).ok()
}

/// Seconds of `08:49:37`; a leap second counts as the one before it.
fn clock(text: &[u8]) -> Option<i64> {
    if text.get(2)? != &b':' || text.get(5)? != &b':' {
        return None;
    }
    let (hour, minute, second) = (number(text.get(..2)?)?, number(text.get(3..5)?)?, number(text.get(6..8)?)?);
    (hour < 24 && minute < 60 && second <= 60).then(|| hour * 3_600 + minute * 60 + second.min(59))
}

/// Seconds since 1970 of a day of the Gregorian calendar and a time of that day.
fn seconds(year: i64, month: i64, day: i64, of_day: i64) -> Option<i64> {
    (1..=days_of_month(year, month)).contains(&day).then(|| days_from_1970(year, month, day) * DAY_SECONDS + of_day)
}

#[cfg(test)]
mod tests {
    use super::parse_http_date as parse;

    #[test]
    fn three_forms_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sUN, 06 nOV 1994 08:49:37 gMT",
            "sunday, 06-nov-94 08:49:37 gmt",
        ] {
            assert_eq!(parse(text.as_bytes(), 1_700_000_000), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"Thu, 01 Jan 1970 00:00:00 GMT", 0), Some(0));
        assert_eq!(parse(b"Thu, 29 Feb 2024 23:59:60 GMT", 0), Some(1_709_251_199));
        assert_eq!(parse(b"Friday, 01-Jan-60 00:00:00 GMT", 1_700_000_000), parse(b"Thu, 01 Jan 2060 00:00:00 GMT", 0));
        assert_eq!(parse(b"Friday, 01-Jan-90 00:00:00 GMT", 1_700_000_000), parse(b"Mon, 01 Jan 1990 00:00:00 GMT", 0));
    }

    #[test]
    fn all_else_is_no_time() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Foo, 06 Nov 1994 08:49:37 GMT",
            "Sun,  06 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun 06-Nov-1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes(), 0), None, "{text}");
        }
    }
}
