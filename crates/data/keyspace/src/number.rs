//! Numbers in text, as Redis reads and writes them.

use crate::{Bytes, Failure, long_double::LongDouble};

pub use resp::parse_integer;

/// An integer as an argument of a command.
pub fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(Failure::NotInteger)
}

/// Reads a number with a fraction as C's `strtod` does, all of the text; `nan` is none.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let (value, is_in_range) = parse_any_float(text)?;
    is_in_range.then_some(value)
}

/// The same where a number that is too large is infinity, and one that is too small is 0.
pub fn parse_float_bound(text: &[u8]) -> Option<f64> {
    parse_any_float(text).map(|(value, _)| value)
}

/// A number, and whether it is not too large or too small for one: infinity has to be said in letters.
fn parse_any_float(text: &[u8]) -> Option<(f64, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with(|first: char| first.is_ascii_whitespace()) {
        return None;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value: f64 = if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        LongDouble::parse(text.as_bytes())?.to_f64()
    } else {
        text.parse().ok()?
    };
    let letters = unsigned.starts_with(['i', 'I']);
    let vanished =
        value == 0.0 && unsigned.split(['e', 'E', 'p', 'P']).next()?.contains(|digit| ('1'..='9').contains(&digit));
    (!value.is_nan()).then_some((value, (value.is_finite() || letters) && !vanished))
}

/// The same as an argument of a command.
pub fn float(text: &[u8]) -> Result<f64, Failure> {
    parse_float(text).ok_or(Failure::NotFloat)
}

/// An integer as text.
pub fn integer_bytes(value: i64) -> Bytes {
    Bytes::from_slice(itoa::Buffer::new().format(value).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", None),
            ("-1", Some(-1)),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("", None),
            ("-", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn bounds_may_be_beyond_all_numbers() {
        for (text, expected) in
            [("1e400", Some(f64::INFINITY)), ("-1e400", Some(f64::NEG_INFINITY)), ("1e-400", Some(0.0)), ("nan", None)]
        {
            assert_eq!(parse_float_bound(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn floats_are_those_of_strtod() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+inf", Some(f64::INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("nan", None),
            ("1e400", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("1e3", Some(1000.0)),
            ("0x10", Some(16.0)),
            ("0x1p3", Some(8.0)),
            ("-0X1.8P-1", Some(-0.75)),
            ("0xfffffffffffffffff", Some(295147905179352825855.0)),
            ("0x", None),
            ("0x1p", None),
            ("1e-320", Some(1e-320)),
            ("1e-400", None),
            ("-0.0e-400", Some(-0.0)),
            (".5", Some(0.5)),
        ] {
            assert_eq!(parse_float(text.as_bytes()), expected, "{text}");
        }
    }
}
