//! Numbers of 80 bits: what C's `long double` is where Redis usually runs, and so what `INCRBYFLOAT` counts in.
//!
//! A number is a mantissa of 64 bits and an exponent of two. Only what Redis does with them is here, and that exactly:
//! reading decimal text (as `strtold`), addition, printing with 17 decimals (as `%.17Lf`), all rounded to the nearest, ties
//! to even.

use std::cmp::Ordering;

use crate::{Bytes, Failure};

/// The text of a number may be this long.
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;
/// No finite number is as large as two to this power.
const EXPONENT_MAX: i32 = 16384;
/// A number below two to this power is zero.
const EXPONENT_MIN: i32 = -16446;
/// Decimal digits beyond the point that are printed.
const DECIMALS: usize = 17;
const DECIMALS_POWER: u128 = 10u128.pow(DECIMALS as u32);

/// A number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongDouble {
    /// `mantissa * 2^exponent`; the mantissa's top bit is set, unless it is zero.
    Finite {
        /// Whether it is below zero.
        negative: bool,
        /// The digits.
        mantissa: u64,
        /// The power of two that they are multiplied with.
        exponent: i32,
    },
    /// Too large.
    Infinite {
        /// Which of the two.
        negative: bool,
    },
}

impl LongDouble {
    /// Zero.
    pub const ZERO: Self = Self::Finite { negative: false, mantissa: 0, exponent: 0 };

    /// An argument of a command, or the value that a command adds to.
    pub fn argument(text: &[u8]) -> Result<Self, Failure> {
        Self::parse(text).ok_or(Failure::NotFloat)
    }

    /// Reads a text, all of it. Neither what is no number is one, nor what is too large or too small for one.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > TEXT_LEN_MAX {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        let (digits, base) = match unsigned {
            [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
            rest => (rest, 10),
        };
        let (number, exponent) = digits_of(digits, base)?;
        if number.is_zero() {
            return Some(Self::Finite { negative, mantissa: 0, exponent: 0 });
        }
        let finite = if base == 16 { binary(&number, exponent) } else { decimal(&number, exponent) };
        let (mantissa, exponent) = finite?;
        Some(Self::Finite { negative, mantissa, exponent })
    }

    /// Whether it is a number that can be printed.
    pub fn is_finite(self) -> bool {
        matches!(self, Self::Finite { .. })
    }

    /// The nearest double, or nearly: where the last bit does not matter.
    pub fn to_f64(self) -> f64 {
        let (negative, magnitude) = match self {
            Self::Infinite { negative } => (negative, f64::INFINITY),
            Self::Finite { negative, mantissa, exponent } => (negative, mantissa as f64 * f64::from(exponent).exp2()),
        };
        if negative { -magnitude } else { magnitude }
    }

    /// The sum of two; nothing for infinities of both signs.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (one, other) = match (self, other) {
            (Self::Infinite { negative: one }, Self::Infinite { negative: other }) => {
                return (one == other).then_some(self);
            }
            (Self::Infinite { .. }, _) => return Some(self),
            (_, Self::Infinite { .. }) => return Some(other),
            (
                Self::Finite { negative, mantissa, exponent },
                Self::Finite { negative: negative2, mantissa: mantissa2, exponent: exponent2 },
            ) => ((negative, mantissa, exponent), (negative2, mantissa2, exponent2)),
        };
        if one.1 == 0 || other.1 == 0 {
            let (negative, mantissa, exponent) = if one.1 == 0 { other } else { one };
            return Some(Self::Finite { negative: negative && mantissa != 0, mantissa, exponent });
        }
        let (large, small) = if (one.2, one.1) >= (other.2, other.1) { (one, other) } else { (other, one) };
        // Room for the carry above, and below for what rounding has to know of the smaller one.
        const SHIFT: u32 = 62;
        let distance = large.2.abs_diff(small.2);
        let shifted = u128::from(small.1) << SHIFT;
        let moved = if distance > 126 { 1 } else { shifted >> distance | u128::from(lost(shifted, distance)) };
        let first = u128::from(large.1) << SHIFT;
        let sum = if large.0 == small.0 { first + moved } else { first - moved };
        if sum == 0 {
            return Some(Self::ZERO);
        }
        let (mantissa, exponent) = rounded(sum, false, large.2 - SHIFT as i32);
        Some(if exponent + 64 > EXPONENT_MAX {
            Self::Infinite { negative: large.0 }
        } else {
            Self::Finite { negative: large.0, mantissa, exponent }
        })
    }

    /// Its text with up to 17 decimals, as `INCRBYFLOAT` and `HINCRBYFLOAT` keep it.
    pub fn text(self) -> Bytes {
        let (negative, mantissa, exponent) = match self {
            Self::Infinite { negative } => return Bytes::from_slice(if negative { b"-inf" } else { b"inf" }),
            Self::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
        };
        let (whole, decimals) = if exponent >= 0 {
            (Natural::from(mantissa).shifted_left(exponent.unsigned_abs()).decimal(), 0)
        } else {
            let scaled = u128::from(mantissa) * DECIMALS_POWER;
            let shift = exponent.unsigned_abs();
            let scaled = if shift > 127 { 0 } else { halves_to_even(scaled, shift) };
            ((scaled / DECIMALS_POWER).to_string().into_bytes(), scaled % DECIMALS_POWER)
        };
        let mut text = Bytes::new();
        if negative && (decimals != 0 || whole != b"0") {
            text.push(b'-');
        }
        text.extend_from_slice(&whole);
        if decimals != 0 {
            text.push(b'.');
            let digits = format!("{decimals:0DECIMALS$}");
            text.extend_from_slice(digits.trim_end_matches('0').as_bytes());
        }
        text
    }
}

/// Whether a shift to the right loses a bit that is set.
fn lost(number: u128, shift: u32) -> bool {
    shift > 0 && number << (128 - shift.min(127)) != 0
}

/// A number shifted to the right, to the nearest; below 128.
fn halves_to_even(number: u128, shift: u32) -> u128 {
    if shift == 0 {
        return number;
    }
    let kept = number >> shift;
    let rest = number & ((1 << shift) - 1);
    match rest.cmp(&(1 << (shift - 1))) {
        Ordering::Less => kept,
        Ordering::Greater => kept + 1,
        Ordering::Equal => kept + (kept & 1),
    }
}

/// The 64 leading bits of a number that is not zero, to the nearest; `more` says that it is a little larger than it looks.
fn rounded(number: u128, more: bool, exponent: i32) -> (u64, i32) {
    let bits = 128 - number.leading_zeros();
    if bits <= 64 {
        let shift = 64 - bits;
        return ((number as u64) << shift, exponent - shift as i32);
    }
    let shift = bits - 64;
    // A last bit that is set breaks a tie, and does nothing else: there is a bit below the one that decides.
    let number = if more { number | 1 } else { number };
    let kept = halves_to_even(number, shift);
    match u64::try_from(kept) {
        Ok(mantissa) => (mantissa, exponent + shift as i32),
        Err(_) => (1 << 63, exponent + shift as i32 + 1),
    }
}

/// A number in place of digits and its power: ten's for decimal digits, two's for others.
fn digits_of(text: &[u8], base: u8) -> Option<(Natural, i32)> {
    let mut number = Natural::default();
    let mut exponent: i32 = 0;
    let mut any = false;
    let mut point = false;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte == b'.' && !point {
            point = true;
        } else if let Some(digit) = char::from(*byte).to_digit(u32::from(base)) {
            number.multiply_add(u32::from(base), digit);
            any = true;
            if point {
                exponent -= if base == 16 { 4 } else { 1 };
            }
        } else {
            break;
        }
        at += 1;
    }
    if !any {
        return None;
    }
    let (marks, rest) = match text.get(at..)? {
        [] => return Some((number, exponent)),
        [mark, rest @ ..] => (*mark, rest),
    };
    if marks.to_ascii_lowercase() != if base == 16 { b'p' } else { b'e' } {
        return None;
    }
    let (negative, digits) = match rest {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power = digits.iter().fold(0i32, |power, digit| {
        // Beyond this it only matters that it is large.
        (power * 10 + i32::from(digit - b'0')).min(1_000_000)
    });
    Some((number, exponent + if negative { -power } else { power }))
}

/// `number * 2^exponent`, rounded. Nothing if that is too large, or as good as zero.
fn binary(number: &Natural, exponent: i32) -> Option<(u64, i32)> {
    let (leading, sticky, shift) = number.leading();
    in_range(rounded(leading, sticky, exponent + shift))
}

/// `number * 10^exponent`, rounded. Nothing if that is too large, or as good as zero.
fn decimal(number: &Natural, exponent: i32) -> Option<(u64, i32)> {
    // Ten is more than 2^3, and no number has more digits than its text.
    if exponent > EXPONENT_MAX / 3 || exponent < -(TEXT_LEN_MAX as i32) + EXPONENT_MIN / 3 {
        return None;
    }
    let power = Natural::ten_to(exponent.unsigned_abs());
    if exponent >= 0 {
        return binary(&number.times(&power), 0);
    }
    // As many bits that the quotient has 66 or 67.
    let shift = (power.bits() as i32 - number.bits() as i32 + 66).max(0);
    let mut rest = number.shifted_left(shift.unsigned_abs());
    let mut quotient: u128 = 0;
    let mut divisor = power;
    let steps = (rest.bits() as i32 - divisor.bits() as i32).max(0).unsigned_abs();
    if steps > 120 {
        // The digits alone are far more than a mantissa holds: the quotient is found from the leading ones.
        let spare = steps - 66;
        divisor = divisor.shifted_left(spare);
        let (value, power) = divide(&mut rest, divisor, 67, &mut quotient);
        return in_range(rounded(value, power, spare as i32 - shift));
    }
    let (value, sticky) = divide(&mut rest, divisor, steps, &mut quotient);
    in_range(rounded(value, sticky, -shift))
}

/// The quotient of at most `steps + 1` bits, and whether there is a rest.
fn divide(rest: &mut Natural, divisor: Natural, steps: u32, quotient: &mut u128) -> (u128, bool) {
    let mut part = divisor.shifted_left(steps);
    for _ in 0..=steps {
        *quotient <<= 1;
        if *rest >= part {
            rest.subtract(&part);
            *quotient |= 1;
        }
        part.halve();
    }
    (*quotient, !rest.is_zero())
}

fn in_range((mantissa, exponent): (u64, i32)) -> Option<(u64, i32)> {
    let top = exponent + 64;
    (top <= EXPONENT_MAX && top > EXPONENT_MIN).then_some((mantissa, exponent))
}

/// A natural number of any size; the lowest digit comes first, the last one is not zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        let mut natural = Self(vec![number as u32, (number >> 32) as u32]);
        natural.trim();
        natural
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> u32 {
        self.0.last().map_or(0, |top| self.0.len() as u32 * 32 - top.leading_zeros())
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for digit in &mut self.0 {
            let product = u64::from(*digit) * u64::from(factor) + carry;
            *digit = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn ten_to(power: u32) -> Self {
        let mut number = Self(vec![1]);
        for _ in 0..power / 9 {
            number.multiply_add(1_000_000_000, 0);
        }
        number.multiply_add(10u32.pow(power % 9), 0);
        number
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = vec![0u32; self.0.len() + other.0.len()];
        for (place, factor) in self.0.iter().enumerate() {
            let mut carry = 0;
            let mut digits = product.iter_mut().skip(place);
            for digit in &other.0 {
                let Some(slot) = digits.next() else { break };
                let sum = u64::from(*factor) * u64::from(*digit) + u64::from(*slot) + carry;
                *slot = sum as u32;
                carry = sum >> 32;
            }
            if let Some(slot) = digits.next() {
                *slot = carry as u32;
            }
        }
        let mut product = Self(product);
        product.trim();
        product
    }

    fn shifted_left(&self, bits: u32) -> Self {
        let mut shifted = vec![0; (bits / 32) as usize];
        let within = bits % 32;
        let mut carry = 0u64;
        for digit in &self.0 {
            let wide = u64::from(*digit) << within | carry;
            shifted.push(wide as u32);
            carry = wide >> 32;
        }
        shifted.push(carry as u32);
        let mut shifted = Self(shifted);
        shifted.trim();
        shifted
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for digit in self.0.iter_mut().rev() {
            let next = *digit << 31;
            *digit = *digit >> 1 | carry;
            carry = next;
        }
        self.trim();
    }

    /// Takes away a number that is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        let mut others = other.0.iter();
        for digit in &mut self.0 {
            let (value, first) = digit.overflowing_sub(others.next().copied().unwrap_or(0));
            let (value, second) = value.overflowing_sub(u32::from(borrow));
            *digit = value;
            borrow = first || second;
        }
        self.trim();
    }

    /// The leading bits, whether any below them is set, and how many there are below.
    fn leading(&self) -> (u128, bool, i32) {
        let top: Vec<u32> = self.0.iter().rev().take(4).copied().collect();
        let below = self.0.len() - top.len();
        let value = top.iter().fold(0u128, |value, digit| value << 32 | u128::from(*digit));
        let sticky = self.0.iter().take(below).any(|digit| *digit != 0);
        (value, sticky, below as i32 * 32)
    }

    fn decimal(mut self) -> Vec<u8> {
        const GROUP: u32 = 1_000_000_000;
        let mut groups = Vec::new();
        while !self.is_zero() {
            let mut rest = 0u64;
            for digit in self.0.iter_mut().rev() {
                let value = rest << 32 | u64::from(*digit);
                *digit = (value / u64::from(GROUP)) as u32;
                rest = value % u64::from(GROUP);
            }
            self.trim();
            groups.push(rest);
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            text += &format!("{group:09}");
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> String {
        let one = LongDouble::parse(one.as_bytes()).unwrap();
        let other = LongDouble::parse(other.as_bytes()).unwrap();
        String::from_utf8_lossy(&one.plus(other).unwrap().text()).into_owned()
    }

    /// Sums of INCRBYFLOAT of Redis 7.0 on x86-64.
    #[test]
    fn sums_are_those_of_redis() {
        for (one, other, expected) in [
            ("1", "0.25", "1.25"),
            ("0.1", "0.2", "0.3"),
            ("3.0", "1.1", "4.1"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1", "-1.1", "-0.1"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.50", "0.1", "10.6"),
            ("1e20", "1", "100000000000000000000"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("18446744073709551616", "3", "18446744073709551620"),
            ("1e-17", "0", "0.00000000000000001"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("0x10", "0x.8p1", "17"),
            ("123456789.123456789", "0.000000000000000001", "123456789.12345678899873747"),
        ] {
            assert_eq!(sum(one, other), expected, "{one} + {other}");
        }
        assert_eq!(sum("1e4932", "1").len(), 4933);
    }

    #[test]
    fn texts_are_those_of_strtold() {
        for text in ["", " 1", "1 ", "abc", "nan", "1e", "1e+", ".", "1.1.1", "0x", "--1", "1e5000", "1e-5000", "1_0"] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["1.", ".5", "+1", "1e5", "1E-5", "inf", "-Infinity", "0e9999999999", "0x1p-3"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text:?}");
        }
        // Digits beyond all that a mantissa holds.
        let long = format!("0.{}1e5000", "0".repeat(4999));
        assert_eq!(LongDouble::parse(long.as_bytes()).unwrap().text().as_slice(), b"1");
        let long = format!("{}e-4000", "1".repeat(4001));
        assert_eq!(LongDouble::parse(long.as_bytes()).unwrap().text().as_slice(), b"1.11111111111111111");
    }

    #[test]
    fn infinities_do_not_cancel() {
        let plus = LongDouble::parse(b"inf").unwrap();
        let minus = LongDouble::parse(b"-inf").unwrap();
        assert_eq!(plus.plus(minus), None);
        assert_eq!(plus.plus(LongDouble::ZERO), Some(plus));
        let large = LongDouble::parse(b"1.1e4932").unwrap();
        assert!(!large.plus(large).unwrap().is_finite());
    }

    /// Sums that a program in C made on x86-64, with `strtold` and `printf`.
    #[test]
    fn many_sums_are_those_of_x86() {
        for line in include_str!("long_double/sums.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(sum(words[0], words[1]), words[2], "{line}");
            assert_eq!(sum(words[1], words[0]), words[2], "{line}");
        }
    }
}
