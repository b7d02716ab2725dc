//! `std`: from texts and numbers to numbers. Numbers in texts are those of RFC 8941, as Varnish reads them.

use super::{Arguments, Outcome, argument, fail, text, time::parse_date};
use crate::{
    compile::{parse_address_and_port, seconds_of},
    run::{Failure, Value},
};

/// The largest whole number of VCL, and the most that a decimal number may have before its point (RFC 8941, sections 3.3.1 and
/// 3.3.2).
const INTEGER_MAX: f64 = 999_999_999_999_999.0;
const DECIMAL_MAX: f64 = 999_999_999_999.999;
const INTEGER_DIGITS_MAX: usize = 15;
/// Bytes up to which doubles tell all of them apart.
const BYTES_MAX: f64 = 9_007_199_254_740_991.0;

const INVALID: &str = "Invalid number";
const TOO_LONG: &str = "Too many digits";

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// A number at the start of a text, and what is behind it. One that is `strict` has digits on both sides of its point, three behind it
/// at most.
fn parse_number(text: &[u8], strict: bool) -> Result<(f64, &[u8]), &'static str> {
    let mut rest = text.trim_ascii_start();
    let sign = match rest.split_first() {
        Some((b'-', behind)) => {
            rest = behind;
            -1.0
        }
        _ => 1.0,
    };
    let (number, behind) = digits(rest);
    let count = rest.len() - behind.len();
    if count > INTEGER_DIGITS_MAX {
        return Err(TOO_LONG);
    }
    rest = behind;
    let after_blanks = rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len());
    let Some((b'.', fraction)) = rest.split_first() else {
        if count == 0 {
            return Err(INVALID);
        }
        return Ok((number * sign, rest.get(after_blanks..).unwrap_or_default()));
    };
    let has_fraction = fraction.first().is_some_and(u8::is_ascii_digit);
    if count == 0 && (strict || !has_fraction) || strict && !has_fraction {
        return Err(INVALID);
    }
    if number > DECIMAL_MAX {
        return Err(TOO_LONG);
    }
    let behind = fraction.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(fraction.len());
    if strict && behind > 3 {
        return Err(TOO_LONG);
    }
    // More digits than three are there, but do not count.
    let (thousandths, _) = digits(fraction.get(..behind.min(3)).unwrap_or_default());
    let scale = [1.0, 0.1, 0.01, 0.001].get(behind.min(3)).copied().unwrap_or(0.001);
    let rest = fraction.get(behind..).unwrap_or_default().trim_ascii_start();
    Ok(((number + thousandths * scale) * sign, rest))
}

/// The number that the digits at the start are, and what is behind them.
fn digits(text: &[u8]) -> (f64, &[u8]) {
    let count = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(count).unwrap_or((text, &[]));
    (digits.iter().fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0')), rest)
}

/// A text that is a number and nothing else.
fn whole_number(text: &[u8]) -> Result<f64, &'static str> {
    match parse_number(text, false)? {
        (number, []) => Ok(number),
        _ => Err(""),
    }
}

/// How many of the arguments at these places were given: it must be one.
fn one_of(arguments: Arguments<'_, '_>, places: &[usize], function: &str) -> Result<(), Failure> {
    match places.iter().filter(|place| argument(arguments, **place).is_some()).count() {
        1 => Ok(()),
        0 => fail(format!("std.{function}: not enough arguments")),
        _ => fail(format!("std.{function}: too many arguments")),
    }
}

/// The fallback, or why there is no result.
fn otherwise<'w>(arguments: Arguments<'_, 'w>, function: &str, why: &str) -> Outcome<'w> {
    match argument(arguments, 1) {
        Some(fallback) => Ok(fallback),
        None if why.is_empty() => fail(format!("std.{function}: conversion failed")),
        None => fail(format!("std.{function}: conversion failed: {why}")),
    }
}

fn number_at(arguments: Arguments<'_, '_>, place: usize) -> Option<f64> {
    match argument(arguments, place)? {
        Value::Bool(value) => Some(f64::from(u8::from(value))),
        value => value.number(),
    }
}

/// `std.round(r)`
pub(super) fn round<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    number_at(arguments, 0).map(|number| Value::Real(number.round())).ok_or(Failure::NoAnswer)
}

/// `std.real2integer(r, fallback)`, `std.time2integer(t, fallback)`
pub(super) fn rounded<'w>(arguments: Arguments<'_, 'w>) -> Value<'w> {
    let number = number_at(arguments, 0).map(f64::round).filter(|number| number.abs() <= INTEGER_MAX);
    number.map_or(argument(arguments, 1).unwrap_or(Value::Int(0)), |number| Value::Int(number as i64))
}

/// `std.integer(s, fallback, bool, bytes, duration, real, time)`
pub(super) fn integer<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    one_of(arguments, &[0, 2, 3, 4, 5, 6], "integer")?;
    if let Some(Value::Bytes(bytes)) = argument(arguments, 3) {
        return Ok(Value::Int(bytes));
    }
    if argument(arguments, 0).is_some() {
        let Some(text) = text(arguments, 0) else { return otherwise(arguments, "integer", "") };
        return match whole_number(text) {
            Ok(number) if number.fract() == 0.0 => Ok(Value::Int(number as i64)),
            Ok(_) => otherwise(arguments, "integer", ""),
            Err(why) => otherwise(arguments, "integer", why),
        };
    }
    let number = (2..7).find_map(|place| number_at(arguments, place)).map(f64::trunc);
    match number.filter(|number| number.abs() <= INTEGER_MAX) {
        Some(number) => Ok(Value::Int(number as i64)),
        None => otherwise(arguments, "integer", ""),
    }
}

/// `std.real(s, fallback, integer, bool, bytes, duration, time)`
pub(super) fn real<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    one_of(arguments, &[0, 2, 3, 4, 5, 6], "real")?;
    if argument(arguments, 0).is_some() {
        let Some(text) = text(arguments, 0) else { return otherwise(arguments, "real", "") };
        return match whole_number(text) {
            Ok(number) if number.abs() <= DECIMAL_MAX => Ok(Value::Real(number)),
            Ok(_) => otherwise(arguments, "real", TOO_LONG),
            Err(why) => otherwise(arguments, "real", why),
        };
    }
    (2..7).find_map(|place| number_at(arguments, place)).map(Value::Real).ok_or(Failure::NoAnswer)
}

/// `std.duration(s, fallback, real, integer)`
pub(super) fn duration<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    one_of(arguments, &[0, 2, 3], "duration")?;
    if argument(arguments, 0).is_none() {
        return (2..4).find_map(|place| number_at(arguments, place)).map(Value::Duration).ok_or(Failure::NoAnswer);
    }
    let seconds = text(arguments, 0).and_then(|text| {
        let (number, rest) = parse_number(text, false).ok()?;
        let unit = std::str::from_utf8(rest.trim_ascii()).ok()?;
        Some(number * seconds_of(unit)?)
    });
    seconds.map_or_else(|| otherwise(arguments, "duration", ""), |seconds| Ok(Value::Duration(seconds)))
}

/// `std.bytes(s, fallback, real, integer)`
pub(super) fn bytes<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    one_of(arguments, &[0, 2, 3], "bytes")?;
    if let Some(Value::Int(integer)) = argument(arguments, 3) {
        return if integer >= 0 { Ok(Value::Bytes(integer)) } else { otherwise(arguments, "bytes", "") };
    }
    let bytes = match argument(arguments, 0) {
        Some(_) => text(arguments, 0).and_then(bytes_of_text),
        None => number_at(arguments, 2).filter(|number| *number >= 0.0).map(f64::trunc),
    };
    match bytes.filter(|bytes| *bytes <= BYTES_MAX) {
        Some(bytes) => Ok(Value::Bytes(bytes as i64)),
        None => otherwise(arguments, "bytes", ""),
    }
}

/// `10k`, `1.5 MB`, `300`
fn bytes_of_text(text: &[u8]) -> Option<f64> {
    let (number, rest) = parse_number(text, true).ok()?;
    let unit = rest.trim_ascii().to_ascii_lowercase();
    let shift = match unit.as_slice() {
        b"" | b"b" if number.fract() != 0.0 => return None,
        b"" | b"b" | b"bb" => 0,
        b"k" | b"kb" => 10,
        b"m" | b"mb" => 20,
        b"g" | b"gb" => 30,
        b"t" | b"tb" => 40,
        b"p" | b"pb" => 50,
        _ => return None,
    };
    Some((number * (1_u64 << shift) as f64).trunc()).filter(|bytes| *bytes >= 0.0)
}

/// `std.time(s, fallback, real, integer)`
pub(super) fn time<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    one_of(arguments, &[0, 2, 3], "time")?;
    if argument(arguments, 0).is_none() {
        return (2..4).find_map(|place| number_at(arguments, place)).map(Value::Time).ok_or(Failure::NoAnswer);
    }
    let said = text(arguments, 0).and_then(|text| {
        parse_date(text).filter(|time| *time != 0.0).or_else(|| whole_number(text).ok().filter(|time| *time > 0.0))
    });
    said.map_or_else(|| otherwise(arguments, "time", ""), |time| Ok(Value::Time(time)))
}

/// `std.ip(s, fallback, resolve, p)` of an address in numbers; `None` for a name, which the host may know.
pub(super) fn ip<'w>(arguments: Arguments<'_, 'w>) -> Option<Outcome<'w>> {
    if let Some(Value::Ip(None)) = argument(arguments, 1) {
        return Some(fail("std.ip: invalid fallback"));
    }
    let standard = text(arguments, 3).unwrap_or(b"80");
    let port = std::str::from_utf8(standard).ok().and_then(port_of);
    let said = text(arguments, 0).and_then(|text| std::str::from_utf8(text).ok());
    match (said.and_then(|said| parse_address_and_port(said, port)), said) {
        (Some(address), _) => Some(Ok(Value::Ip(Some(address)))),
        // An address in numbers alone is wanted, or nothing at all was said.
        (None, None) => Some(otherwise(arguments, "ip", "")),
        (None, Some(_)) if !argument(arguments, 2).is_none_or(Value::is_true) => Some(otherwise(arguments, "ip", "")),
        (None, Some(_)) => None,
    }
}

/// A port, by its number or the name of its service.
fn port_of(text: &str) -> Option<u16> {
    const SERVICES: [(&str, u16); 4] = [("http", 80), ("https", 443), ("http-alt", 8080), ("domain", 53)];
    text.parse().ok().or_else(|| SERVICES.iter().find(|(name, _)| *name == text).map(|(_, port)| *port))
}

/// `vtc.typesize(s)`: the size of a structure of these types of C on a 64-bit machine, aligned.
pub(super) fn typesize(types: &[u8]) -> Option<i64> {
    let (mut size, mut widest) = (0_i64, 0_i64);
    for kind in types {
        let width = match kind {
            b'c' => 1,
            b's' => 2,
            b'f' | b'i' | b'u' => 4,
            b'd' | b'j' | b'l' | b'o' | b'p' | b'z' => 8,
            _ => return None,
        };
        widest = widest.max(width);
        size += (width - size % width) % width + width;
    }
    (widest > 0).then(|| size + (widest - size % widest) % widest)
}
