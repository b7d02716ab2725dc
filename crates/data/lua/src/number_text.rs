//! Numbers as C's `printf` and `strtod` have them: what libraries of Lua print and read.

/// A number as `%.{precision}g` prints it.
pub fn general(number: f64, precision: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let precision = precision.max(1);
    if number.fract() == 0.0 && number.abs() < 1e14 && precision >= 14 {
        // `-0` keeps its sign.
        return if number == 0.0 && number.is_sign_negative() { "-0".into() } else { (number as i64).to_string() };
    }
    let scientific = format!("{number:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(precision as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// Without zeros at the end of the fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The number that some bytes begin with, and how many of them it takes, as `strtod` reads it.
pub fn leading(text: &[u8]) -> Option<(f64, usize)> {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let signed = usize::from(matches!(byte(0), b'+' | b'-'));
    let negative = byte(0) == b'-';
    let with_sign = |number: f64| if negative { -number } else { number };
    let begins =
        |word: &[u8]| text.get(signed..signed + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word));
    if begins(b"infinity") {
        return Some((with_sign(f64::INFINITY), signed + 8));
    }
    if begins(b"inf") {
        return Some((with_sign(f64::INFINITY), signed + 3));
    }
    if begins(b"nan") {
        return Some((with_sign(f64::NAN), signed + 3));
    }
    if begins(b"0x")
        && let Some((number, end)) = hexadecimal(text, signed + 2)
    {
        return Some((with_sign(number), end));
    }
    let digits = |from: usize| (from..).take_while(|at| byte(*at).is_ascii_digit()).count();
    let whole = digits(signed);
    let mut end = signed + whole;
    let mut fraction = 0;
    if byte(end) == b'.' {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(byte(end), b'e' | b'E') {
        let sign = usize::from(matches!(byte(end + 1), b'+' | b'-'));
        let count = digits(end + 1 + sign);
        if count > 0 {
            end += 1 + sign + count;
        }
    }
    let number = std::str::from_utf8(text.get(..end)?).ok()?.parse().ok()?;
    Some((number, end))
}

/// A hexadecimal number behind its `0x`; nothing if there are no digits.
fn hexadecimal(text: &[u8], from: usize) -> Option<(f64, usize)> {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let (mut number, mut exponent, mut at, mut any, mut point) = (0.0_f64, 0_i32, from, false, false);
    loop {
        match byte(at) {
            b'.' if !point => point = true,
            digit => match char::from(digit).to_digit(16) {
                Some(digit) => {
                    any = true;
                    number = number * 16.0 + f64::from(digit);
                    exponent -= if point { 4 } else { 0 };
                }
                None => break,
            },
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if matches!(byte(at), b'p' | b'P') {
        let sign = usize::from(matches!(byte(at + 1), b'+' | b'-'));
        let count = (at + 1 + sign..).take_while(|at| byte(*at).is_ascii_digit()).count();
        if count > 0 {
            let end = at + 1 + sign + count;
            let power: i64 = std::str::from_utf8(text.get(at + 1..end)?).ok()?.parse().unwrap_or(i64::from(i32::MAX));
            exponent = exponent.saturating_add(power.clamp(-100_000, 100_000) as i32);
            at = end;
        }
    }
    Some((number * f64::from(exponent).exp2(), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (number, precision, expected) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e14, 14, "1e+14"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (1.5e300, 14, "1.5e+300"),
            (1234.5, 3, "1.23e+03"),
            (0.1, 17, "0.10000000000000001"),
            (1e17, 17, "1e+17"),
            (12_345_678_901_234_567.0, 17, "12345678901234568"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(general(number, precision), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, expected) in [
            ("12,", Some((12.0, 2))),
            ("-1.5e2x", Some((-150.0, 6))),
            ("1e+", Some((1.0, 1))),
            (".5", Some((0.5, 2))),
            ("5.", Some((5.0, 2))),
            ("0x1F]", Some((31.0, 4))),
            ("0x1.8p1", Some((3.0, 7))),
            ("0x", Some((0.0, 1))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("inf", Some((f64::INFINITY, 3))),
            ("-", None),
            (".", None),
            ("+x", None),
        ] {
            assert_eq!(leading(text.as_bytes()), expected, "{text}");
        }
    }
}
