//! Functions of modules that need nothing but their arguments.

use super::FunctionId;
use crate::{
    compile::{bytes_of, parse_address, seconds_of},
    run::{Failure, Value, Workspace},
};

type Arguments<'a, 'w> = &'a [Option<Value<'w>>];

/// The result of a function that needs no host; `None` for those that do.
pub fn call<'w>(
    function: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Result<Value<'w>, Failure>> {
    let argument = |place: usize| arguments.get(place).copied().flatten();
    let text = |place: usize| argument(place).and_then(Value::text);
    let kept = |bytes: Vec<u8>| workspace.keep(&bytes).map(|bytes| Value::String(Some(bytes)));
    Some(match function {
        FunctionId::StdToupper => text(0).map_or(Ok(Value::String(None)), |text| kept(text.to_ascii_uppercase())),
        FunctionId::StdTolower => text(0).map_or(Ok(Value::String(None)), |text| kept(text.to_ascii_lowercase())),
        FunctionId::StdStrstr => Ok(Value::String(
            text(0)
                .zip(text(1))
                .and_then(|(within, wanted)| memchr::memmem::find(within, wanted).and_then(|at| within.get(at..))),
        )),
        FunctionId::StdQuerysort => text(0).map_or(Ok(Value::String(None)), |url| kept(query_sorted(url))),
        FunctionId::StdRound => number(argument(0), Value::Real, f64::round),
        FunctionId::StdPort => match argument(0) {
            Some(Value::Ip(Some((_, port)))) => Ok(Value::Int(i64::from(port))),
            _ => Ok(Value::Int(-1)),
        },
        FunctionId::StdInteger => Ok(integer(arguments)),
        FunctionId::StdReal => Ok(real(arguments)),
        FunctionId::StdDuration => Ok(duration(arguments)),
        FunctionId::StdBytes => Ok(bytes(arguments)),
        FunctionId::StdReal2integer | FunctionId::StdTime2integer => Ok(argument(0)
            .and_then(Value::number)
            .and_then(whole)
            .map_or(argument(1).unwrap_or(Value::Int(0)), Value::Int)),
        FunctionId::StdReal2time => Ok(argument(0).and_then(Value::number).map_or(Value::Time(0.0), Value::Time)),
        FunctionId::StdTime2real => Ok(argument(0).and_then(Value::number).map_or(Value::Real(0.0), Value::Real)),
        FunctionId::StdIp => {
            let address = text(0).and_then(|text| std::str::from_utf8(text).ok()).and_then(parse_address)?;
            Ok(Value::Ip(Some(address)))
        }
        FunctionId::BlobSame | FunctionId::BlobEqual => match (argument(0), argument(1)) {
            (Some(Value::Blob(left)), Some(Value::Blob(right))) => Ok(Value::Bool(left == right)),
            _ => Ok(Value::Bool(false)),
        },
        FunctionId::BlobLength => match argument(0) {
            Some(Value::Blob(bytes)) => Ok(Value::Int(bytes.map_or(0, |bytes| bytes.len() as i64))),
            _ => Ok(Value::Int(0)),
        },
        _ => return None,
    })
}

fn number<'w>(
    value: Option<Value<'w>>,
    make: fn(f64) -> Value<'w>,
    change: impl FnOnce(f64) -> f64,
) -> Result<Value<'w>, Failure> {
    value.and_then(Value::number).map(|number| make(change(number))).ok_or(Failure::NoAnswer)
}

fn whole(number: f64) -> Option<i64> {
    (number.abs() < 9.2e18).then(|| number.round() as i64)
}

/// Text without the blanks around it.
fn trimmed<'w>(value: Option<Value<'w>>) -> Option<&'w str> {
    value.and_then(Value::text).and_then(|text| std::str::from_utf8(text).ok()).map(str::trim)
}

/// The first of the arguments from `first` on that was given, as a number.
fn given(arguments: Arguments<'_, '_>, first: usize) -> Option<f64> {
    arguments.iter().skip(first).flatten().find_map(|value| match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.number(),
    })
}

/// `std.integer(text, fallback, ...)`: a text is a whole number, or it is the fallback.
fn integer<'w>(arguments: Arguments<'_, 'w>) -> Value<'w> {
    let fallback = arguments.get(1).copied().flatten().unwrap_or(Value::Int(0));
    if let Some(text) = trimmed(arguments.first().copied().flatten()) {
        return text.parse().map_or(fallback, Value::Int);
    }
    given(arguments, 2)
        .filter(|number| number.abs() < 9.2e18)
        .map_or(fallback, |number| Value::Int(number.trunc() as i64))
}

fn real<'w>(arguments: Arguments<'_, 'w>) -> Value<'w> {
    let fallback = arguments.get(1).copied().flatten().unwrap_or(Value::Real(0.0));
    if let Some(text) = trimmed(arguments.first().copied().flatten()) {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b".-+".contains(&byte));
        return text.parse().ok().filter(|_| plain).map_or(fallback, Value::Real);
    }
    given(arguments, 2).map_or(fallback, Value::Real)
}

/// `std.duration("1.5h", fallback)`
fn duration<'w>(arguments: Arguments<'_, 'w>) -> Value<'w> {
    let fallback = arguments.get(1).copied().flatten().unwrap_or(Value::Duration(0.0));
    if let Some(text) = trimmed(arguments.first().copied().flatten()) {
        let digits =
            text.len() - text.trim_start_matches(|sign: char| sign.is_ascii_digit() || ".-".contains(sign)).len();
        let parts = text.split_at_checked(digits);
        let seconds = parts.and_then(|(number, unit)| Some(number.parse::<f64>().ok()? * seconds_of(unit.trim())?));
        return seconds.map_or(fallback, Value::Duration);
    }
    given(arguments, 2).map_or(fallback, Value::Duration)
}

fn bytes<'w>(arguments: Arguments<'_, 'w>) -> Value<'w> {
    let fallback = arguments.get(1).copied().flatten().unwrap_or(Value::Bytes(0));
    if let Some(text) = trimmed(arguments.first().copied().flatten()) {
        return bytes_of(text).map_or(fallback, Value::Bytes);
    }
    given(arguments, 2)
        .filter(|number| (0.0..9.2e18).contains(number))
        .map_or(fallback, |number| Value::Bytes(number as i64))
}

/// The URL with the parts of its query in order, without empty ones.
fn query_sorted(url: &[u8]) -> Vec<u8> {
    let Some(at) = memchr::memchr(b'?', url) else { return url.to_vec() };
    let (path, query) = (url.get(..at).unwrap_or_default(), url.get(at + 1..).unwrap_or_default());
    let mut parts: Vec<&[u8]> = query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    let mut out = path.to_vec();
    if !parts.is_empty() {
        out.push(b'?');
        out.extend_from_slice(&parts.join(&b'&'));
    }
    out
}
