//! Arguments that several groups of commands have: counts, timeouts, ends of a scan.

use keyspace::{Failure, Millis, glob, long_double::LongDouble, number};

use crate::words::Words;

/// A number that is not negative.
///
/// # Errors
///
/// The text that is given, or Redis' general one, for numbers out of range as for what is no number.
pub fn positive(text: &[u8], message: Option<&'static str>) -> Result<usize, Failure> {
    number::parse_integer(text)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or(Failure::text(message.unwrap_or("ERR value is out of range, must be positive")))
}

/// A number that is at least 1.
///
/// # Errors
///
/// The text that is given.
pub fn at_least_one(text: &[u8], message: &'static str) -> Result<usize, Failure> {
    number::parse_integer(text)
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or(Failure::text(message))
}

/// How many random elements are wanted: a negative number stands for as many draws, which may give the same one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draws {
    /// So many different ones.
    Distinct(usize),
    /// So many, any. How long a reply may become is up to whoever writes it.
    Any(usize),
}

impl Draws {
    /// Reads it.
    pub fn parse(text: &[u8]) -> Result<Self, Failure> {
        let number = number::integer(text)?;
        if number == i64::MIN {
            let text = "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
            return Err(Failure::text(text));
        }
        let count = usize::try_from(number.unsigned_abs()).map_err(|_| Failure::NotInteger)?;
        Ok(if number >= 0 { Self::Distinct(count) } else { Self::Any(count) })
    }
}

/// When a command that waits gives up: seconds, maybe with a fraction, from now on. Nothing for 0, which is never.
pub fn deadline(text: &[u8], now: Millis) -> Result<Option<Millis>, Failure> {
    let seconds = LongDouble::parse(text).ok_or(Failure::text("ERR timeout is not a float or out of range"))?;
    let millis = (seconds.to_f64() * 1000.0).ceil();
    // What does not fit is negative to Redis too.
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    let millis = millis as Millis;
    Ok((millis > 0).then(|| now.saturating_add(millis)))
}

/// A cursor of the `SCAN` family: a number of 64 bits, with a sign if somebody likes that.
pub fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let number: u64 = if text.is_empty() {
        0
    } else {
        number.and_then(|digits| digits.parse().ok()).ok_or(Failure::text("ERR invalid cursor"))?
    };
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// What a scan gives, as its options say.
#[derive(Debug, Clone, Copy)]
pub struct ScanOptions<'a> {
    /// About how many a call looks at.
    pub count: usize,
    /// Which are given; without it all are.
    pub pattern: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads them from the words from one on.
    pub fn parse(words: Words<'a>, from: usize) -> Result<Self, Failure> {
        let mut options = Self { count: 10, pattern: None };
        let mut at = from;
        while at < words.len() {
            if at + 1 < words.len() && words.is(at, "COUNT") {
                let count = words.integer(at + 1)?;
                options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
            } else if at + 1 < words.len() && words.is(at, "MATCH") {
                options.pattern = Some(words.at(at + 1)).filter(|pattern| *pattern != b"*");
            } else {
                return Err(Failure::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }

    /// Whether a name is one of those that are given.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_time_or_never() {
        for (text, expected) in [
            ("0", Ok(None)),
            ("1", Ok(Some(2000))),
            ("0.0001", Ok(Some(1001))),
            ("1.5", Ok(Some(2500))),
            ("-1", Err("ERR timeout is negative")),
            ("-0.001", Err("ERR timeout is negative")),
            ("inf", Err("ERR timeout is negative")),
            ("1e30", Err("ERR timeout is negative")),
            ("0x7FFFFFFFFFFFFFFFFFFF", Err("ERR timeout is negative")),
            ("0x1p-3", Ok(Some(1125))),
            ("1e5000", Err("ERR timeout is not a float or out of range")),
            ("x", Err("ERR timeout is not a float or out of range")),
            ("", Err("ERR timeout is not a float or out of range")),
        ] {
            let deadline = deadline(text.as_bytes(), 1000).map_err(|failure| failure.to_string());
            assert_eq!(deadline, expected.map_err(str::to_owned), "{text}");
        }
    }
}
