//! Short texts on their way into the log, without memory of their own.
//!
//! Every hit makes some twenty of them, so numbers are made into digits here, two at a time, and not by `core::fmt`.

use std::{fmt, net::IpAddr};

/// Two digits for each number below a hundred.
const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;
/// Microseconds of a second.
const SECOND_US: u64 = 1_000_000;

/// A short text on its way into the log. What does not fit is cut.
pub(super) struct Line<const BYTES_MAX: usize = 256> {
    pub(super) text: [u8; BYTES_MAX],
    len: usize,
}

/// A line with a few numbers.
pub(super) type ShortLine = Line<96>;

impl<const BYTES_MAX: usize> Default for Line<BYTES_MAX> {
    #[inline]
    fn default() -> Self {
        Self { text: [0; BYTES_MAX], len: 0 }
    }
}

impl<const BYTES_MAX: usize> Line<BYTES_MAX> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }

    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let room = self.text.get_mut(self.len..).unwrap_or_default();
        let count = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), text.get(..count)) {
            to.copy_from_slice(from);
            self.len += count;
        }
    }

    #[inline]
    pub(super) fn push_number(&mut self, number: u64) {
        let mut digits = [0; DIGITS_MAX];
        let start = put_digits(&mut digits, DIGITS_MAX, number, 1);
        self.push(digits.get(start..).unwrap_or_default());
    }

    /// Seconds with six digits behind the point.
    #[inline]
    pub(super) fn push_seconds(&mut self, seconds: f64) {
        // Rounded; none is negative.
        let us = (seconds * 1e6 + 0.5) as u64;
        let mut digits = [b'.'; DIGITS_MAX + 7];
        put_digits(&mut digits, DIGITS_MAX + 7, us % SECOND_US, 6);
        let start = put_digits(&mut digits, DIGITS_MAX, us / SECOND_US, 1);
        self.push(digits.get(start..).unwrap_or_default());
    }

    /// An address as people write it.
    pub(super) fn push_address(&mut self, address: IpAddr) {
        use fmt::Write as _;
        match address {
            IpAddr::V4(address) => {
                for (place, octet) in address.octets().into_iter().enumerate() {
                    self.push(if place == 0 { b"" } else { b"." });
                    self.push_number(u64::from(octet));
                }
            }
            // A line takes what fits.
            IpAddr::V6(address) => drop(write!(self, "{address}")),
        }
    }
}

/// Writes a number that ends before `end`, with at least so many digits; where it begins.
#[inline]
fn put_digits(into: &mut [u8], end: usize, number: u64, least: usize) -> usize {
    let (mut at, mut left) = (end, number);
    while left > 0 || end - at < least {
        let pair = PAIRS.get((left % 100) as usize * 2..).unwrap_or_default();
        if let (Some(to), Some(from)) = (at.checked_sub(2).and_then(|from| into.get_mut(from..at)), pair.get(..2)) {
            to.copy_from_slice(from);
        } else {
            break;
        }
        (at, left) = (at - 2, left / 100);
    }
    // One digit too many, as they come in pairs.
    let has_too_many = end - at > least && into.get(at) == Some(&b'0');
    if has_too_many { at + 1 } else { at }
}

impl<const BYTES_MAX: usize> fmt::Write for Line<BYTES_MAX> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_six_digits() {
        for (seconds, text) in [
            (0.0, "0.000000"),
            (0.000_012, "0.000012"),
            (12.5, "12.500000"),
            (1_795_450_853.793_648, "1795450853.793648"),
        ] {
            let mut line = ShortLine::default();
            line.push_seconds(seconds);
            assert_eq!(std::str::from_utf8(line.bytes()).unwrap(), text);
        }
    }

    #[test]
    fn numbers_and_addresses_are_as_they_are_written() {
        for number in [0, 1, 9, 10, 99, 100, 101, 1_000, 65_535, 1_073_741_823, u64::MAX] {
            let mut line = ShortLine::default();
            line.push_number(number);
            assert_eq!(std::str::from_utf8(line.bytes()).unwrap(), number.to_string());
        }
        for text in ["0.0.0.0", "127.0.0.1", "192.0.2.255", "::1", "2001:db8::7"] {
            let mut line = ShortLine::default();
            line.push_address(text.parse().unwrap());
            assert_eq!(std::str::from_utf8(line.bytes()).unwrap(), text);
        }
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let mut line = Line::<4>::default();
        line.push(b"ab");
        line.push_number(12_345);
        assert_eq!(line.bytes(), b"ab12");
    }
}
