//! Doubles as Redis prints them: C's `%.17g`, enough digits to come back the same, and no trailing zeros.

use std::io::Write;

/// Longest text of a double: sign, 17 digits, point, and five zeros in front or an exponent.
pub const DOUBLE_LEN_MAX: usize = 32;

/// Numbers below it are printed without an exponent, and all their digits are before the point if they are whole.
const WHOLE_MAX: f64 = 1e17;

/// Appends a double as `%.17g` prints it, but infinities as Redis does (`inf`, `-inf`).
pub fn format_double(out: &mut Vec<u8>, number: f64) {
    if number.is_nan() {
        out.extend_from_slice(if number.is_sign_negative() { b"-nan" } else { b"nan" });
    } else if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    } else if number.abs() < WHOLE_MAX && number.trunc() == number {
        if number == 0.0 && number.is_sign_negative() {
            out.push(b'-');
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and smaller than 10 to the 17th")]
        let whole = number as i64;
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    } else {
        format_general(out, number);
    }
}

/// Of a number that is finite and not zero.
fn format_general(out: &mut Vec<u8>, number: f64) {
    // "d.dddddddddddddddde-308": the exponent that it has after rounding decides about the form, as in C.
    let mut text = [0; DOUBLE_LEN_MAX];
    let mut rest = &mut text[..];
    let written = write!(rest, "{:.16e}", number.abs());
    debug_assert!(written.is_ok(), "it is never that long");
    let unused = rest.len();
    let text = text.get(..DOUBLE_LEN_MAX - unused).unwrap_or_default();
    let (mantissa, exponent) = match memchr::memchr(b'e', text) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => (text, &b"0"[..]),
    };
    let exponent = crate::parse_integer(exponent).unwrap_or(0);
    let (first, fraction) = match mantissa {
        [first, b'.', fraction @ ..] => (*first, fraction),
        _ => (b'0', &b""[..]),
    };
    let significant = fraction.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
    let fraction = fraction.get(..significant).unwrap_or_default();

    if number.is_sign_negative() {
        out.push(b'-');
    }
    match usize::try_from(exponent) {
        Ok(whole @ 0..=16) => {
            out.push(first);
            let split = whole.min(fraction.len());
            let (before, after) = fraction.split_at(split);
            out.extend_from_slice(before);
            out.extend(std::iter::repeat_n(b'0', whole - split));
            if !after.is_empty() {
                out.push(b'.');
                out.extend_from_slice(after);
            }
        }
        Err(_) if exponent >= -4 => {
            out.extend_from_slice(b"0.");
            out.extend((exponent + 1..0).map(|_| b'0'));
            out.push(first);
            out.extend_from_slice(fraction);
        }
        _ => {
            out.push(first);
            if !fraction.is_empty() {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            if exponent.unsigned_abs() < 10 {
                out.push(b'0');
            }
            out.extend_from_slice(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
        }
    }
}
