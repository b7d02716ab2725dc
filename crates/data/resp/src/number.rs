//! Numbers as Redis reads and writes them.

/// Longest text of an `i64`.
const TEXT_LEN_MAX: usize = 20;

/// A decimal number with nothing around it, as Redis takes it: no plus sign, no leading zeros, no minus zero.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    if text.len() > TEXT_LEN_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends `prefix`, the number and the end of the line. Short numbers are copies of a fixed size, which are a few
/// instructions where others are calls.
#[inline]
pub(crate) fn write_prefixed(out: &mut Vec<u8>, prefix: u8, number: i64) {
    let digit = |power: i64| b'0' + (number / power % 10) as u8;
    match number {
        0..=9 => out.extend_from_slice(&[prefix, digit(1), b'\r', b'\n']),
        10..=99 => out.extend_from_slice(&[prefix, digit(10), digit(1), b'\r', b'\n']),
        100..=999 => out.extend_from_slice(&[prefix, digit(100), digit(10), digit(1), b'\r', b'\n']),
        _ => write_long(out, prefix, number),
    }
}

fn write_long(out: &mut Vec<u8>, prefix: u8, number: i64) {
    let mut text = itoa::Buffer::new();
    let text = text.format(number).as_bytes();
    out.reserve(text.len() + 3);
    out.push(prefix);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// A length as the number that the protocol has for it. No slice is longer than `i64::MAX`.
#[inline]
pub(crate) fn length(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
