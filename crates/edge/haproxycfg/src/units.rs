//! Times and sizes as the configuration writes them (chapter 2.5 of HAProxy's manual).

use std::time::Duration;

/// Largest time in its default unit: HAProxy keeps times in 31 bits.
pub const TIME_MAX: u64 = 0x7fff_ffff;

/// The unit of a time written without one, which is also the finest that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Millisecond,
    /// Seconds.
    Second,
}

impl Unit {
    fn micros(self) -> u128 {
        match self {
            Self::Millisecond => 1_000,
            Self::Second => 1_000_000,
        }
    }
}

/// Why a time cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// Larger than 31 bits of the unit.
    Overflow,
    /// An unexpected character at this byte.
    Unexpected(usize),
}

/// A time, and the byte from which what follows its unit was ignored (HAProxy warns of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The time.
    pub value: Duration,
    /// Where ignored characters begin.
    pub ignored_from: Option<usize>,
}

/// Reads a time: digits and `us`, `ms`, `s`, `m`, `h`, `d` or nothing for `unit`. Fractions of `unit` are rounded up.
///
/// # Errors
/// See [`TimeError`].
pub fn time(text: &str, unit: Unit) -> Result<Time, TimeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(TimeError::Unexpected(0));
    }
    let (number, suffix) = text.split_at(digits);
    // More digits than a 64-bit number has can only be an overflow, whatever the unit.
    let number: u128 = number.parse::<u64>().map_err(|_| TimeError::Overflow)?.into();
    let (micros, length): (u128, usize) = match suffix.as_bytes() {
        [] => (unit.micros(), 0),
        [b'u', b's', ..] => (1, 2),
        [b'm', b's', ..] => (1_000, 2),
        [b's', ..] => (1_000_000, 1),
        [b'm', ..] => (60_000_000, 1),
        [b'h', ..] => (3_600_000_000, 1),
        [b'd', ..] => (86_400_000_000, 1),
        _ => return Err(TimeError::Unexpected(digits)),
    };
    let ignored_from = (suffix.len() > length).then_some(digits + length);
    let total = number * micros;
    let kept = total.div_ceil(unit.micros());
    let kept = u64::try_from(kept).ok().filter(|kept| *kept <= TIME_MAX).ok_or(TimeError::Overflow)?;
    let value = match unit {
        Unit::Millisecond => Duration::from_millis(kept),
        Unit::Second => Duration::from_secs(kept),
    };
    Ok(Time { value, ignored_from })
}

/// Reads a size in bytes: digits and `k`, `m`, `g` (powers of 1024, either case) or nothing. At most 32 bits.
///
/// # Errors
/// The byte at which reading stopped.
pub fn size(text: &str) -> Result<u64, usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(0);
    }
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| digits)?;
    let shift = match suffix.as_bytes() {
        [] => 0,
        [b'k' | b'K', ..] => 10,
        [b'm' | b'M', ..] => 20,
        [b'g' | b'G', ..] => 30,
        _ => return Err(digits),
    };
    if suffix.len() > 1 {
        return Err(digits + 1);
    }
    number.checked_mul(1 << shift).filter(|size| *size <= u32::MAX.into()).ok_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let ms = |text: &str| time(text, Unit::Millisecond).map(|time| time.value.as_millis());
        for (text, expected) in [
            ("0", Ok(0)),
            ("5000", Ok(5_000)),
            ("5s", Ok(5_000)),
            ("1500us", Ok(2)),
            ("1us", Ok(1)),
            ("3m", Ok(180_000)),
            ("24d", Ok(2_073_600_000)),
            ("25d", Err(TimeError::Overflow)),
            ("2147483647", Ok(2_147_483_647)),
            ("2147483648", Err(TimeError::Overflow)),
            ("99999999999999999999999", Err(TimeError::Overflow)),
            ("5x", Err(TimeError::Unexpected(1))),
            ("5u", Err(TimeError::Unexpected(1))),
            ("x", Err(TimeError::Unexpected(0))),
            ("-1", Err(TimeError::Unexpected(0))),
            ("", Err(TimeError::Unexpected(0))),
        ] {
            assert_eq!(ms(text), expected, "{text}");
        }
        assert_eq!(time("1500", Unit::Second).unwrap().value, Duration::from_secs(1500));
        assert_eq!(time("1500ms", Unit::Second).unwrap().value, Duration::from_secs(2));
        assert_eq!(time("5sec", Unit::Second).unwrap().ignored_from, Some(2));
        assert_eq!(time("5s", Unit::Second).unwrap().ignored_from, None);
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("16384", Ok(16_384)),
            ("16k", Ok(16_384)),
            ("1M", Ok(1 << 20)),
            ("3g", Ok(3 << 30)),
            ("4g", Err(1)),
            ("4294967295", Ok(4_294_967_295)),
            ("4294967296", Err(10)),
            ("1kb", Err(2)),
            ("1x", Err(1)),
            ("k", Err(0)),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
