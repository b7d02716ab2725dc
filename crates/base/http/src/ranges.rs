//! `Range` (RFC 9110 section 14.2): ranges of bytes, as a request asks for them.

use std::num::NonZeroU64;

/// A range that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedRange {
    /// `first-last` or `first-`, both counted from 0.
    From {
        /// The first byte.
        first: u64,
        /// The last byte; none is the last one that there is.
        last: Option<u64>,
    },
    /// `-count`: as many bytes at the end. `-0` is one that nothing satisfies.
    Last(Option<NonZeroU64>),
}

impl AskedRange {
    /// From which byte up to which one, not including it, that is within so many bytes; none if it is not satisfiable.
    #[must_use]
    pub fn within(self, length: u64) -> Option<(u64, u64)> {
        match self {
            Self::From { first, last } => {
                let end = last.map_or(length, |last| last.saturating_add(1).min(length));
                (first < length).then_some((first, end))
            }
            Self::Last(count) => {
                let count = count?;
                (length > 0).then(|| (length.saturating_sub(count.get()), length))
            }
        }
    }

    /// `None` for what is no range.
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (text.get(..dash)?.trim_ascii(), text.get(dash + 1..)?.trim_ascii());
        if first.is_empty() {
            return number(last).map(|count| Self::Last(NonZeroU64::new(count)));
        }
        let first = number(first)?;
        let last = if last.is_empty() { None } else { Some(number(last)?) };
        last.is_none_or(|last| first <= last).then_some(Self::From { first, last })
    }
}

/// The ranges of a `Range` value, each one or nothing where it is malformed; `None` when the unit is another one than `bytes`. Empty
/// elements of the list are left out.
pub fn byte_ranges(value: &[u8]) -> Option<impl Iterator<Item = Option<AskedRange>>> {
    let equals = value.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (value.get(..equals)?, value.get(equals + 1..)?);
    let ranges = set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|range| !range.is_empty());
    unit.trim_ascii().eq_ignore_ascii_case(b"bytes").then(|| ranges.map(AskedRange::parse))
}

/// Digits as a number; the largest one for what is larger.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, length: u64, expected: &[Option<Option<(u64, u64)>>]) {
        let found: Vec<_> = byte_ranges(value.as_bytes())
            .expect("a range of bytes")
            .map(|range| range.map(|range| range.within(length)))
            .collect();
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn ranges() {
        let part = |start, end| Some(Some((start, end)));
        check("bytes=0-0", 10, &[part(0, 1)]);
        check("bytes=2-", 10, &[part(2, 10)]);
        check("bytes=-3", 10, &[part(7, 10)]);
        check("bytes=-30", 10, &[part(0, 10)]);
        check("Bytes = 0-4 , 6-99,,", 10, &[part(0, 5), part(6, 10)]);
        check("bytes=0-18446744073709551615", 10, &[part(0, 10)]);
        check("bytes=99999999999999999999999-", 10, &[Some(None)]);
        check("bytes=10-", 10, &[Some(None)]);
        check("bytes=-0", 10, &[Some(None)]);
        check("bytes=0-,-1", 0, &[Some(None), Some(None)]);
        check("bytes=5-4,-,a-b,1,--1,1--2,+1-2", 10, &[None; 7]);
        check("bytes=", 10, &[]);
    }

    #[test]
    fn other_units() {
        for value in ["", "bytes", "items=0-1", "0-1", "=0-1"] {
            assert!(byte_ranges(value.as_bytes()).is_none(), "{value}");
        }
    }
}
