//! Functions of modules that need nothing but their arguments.

mod blob;
mod conversions;
mod fnmatch;
mod time;

pub use blob::{Case, Encoding, EncodingError, decode, encode};
pub use time::format_date;

use super::{Failure, Value, Workspace};
use crate::modules::FunctionId;

type Arguments<'a, 'w> = &'a [Option<Value<'w>>];
type Outcome<'w> = Result<Value<'w>, Failure>;

fn argument<'w>(arguments: Arguments<'_, 'w>, place: usize) -> Option<Value<'w>> {
    arguments.get(place).copied().flatten()
}

fn text<'w>(arguments: Arguments<'_, 'w>, place: usize) -> Option<&'w [u8]> {
    argument(arguments, place).and_then(Value::text)
}

fn fail<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Host(why.into()))
}

fn kept<'w>(workspace: &'w Workspace, bytes: &[u8]) -> Outcome<'w> {
    workspace.keep(bytes).map(|bytes| Value::String(Some(bytes)))
}

/// The result of a function that needs no host; `None` for those that do.
pub fn call<'w>(function: FunctionId, arguments: Arguments<'_, 'w>, workspace: &'w Workspace) -> Option<Outcome<'w>> {
    Some(match function {
        FunctionId::StdToupper => kept(workspace, &text(arguments, 0).unwrap_or_default().to_ascii_uppercase()),
        FunctionId::StdTolower => kept(workspace, &text(arguments, 0).unwrap_or_default().to_ascii_lowercase()),
        FunctionId::StdStrstr => Ok(Value::String(
            text(arguments, 0)
                .zip(text(arguments, 1))
                .and_then(|(within, wanted)| memchr::memmem::find(within, wanted).and_then(|at| within.get(at..))),
        )),
        FunctionId::StdQuerysort => match text(arguments, 0) {
            Some(url) => match query_sorted(url) {
                Some(sorted) => kept(workspace, &sorted),
                None => Ok(Value::String(Some(url))),
            },
            None => Ok(Value::String(None)),
        },
        FunctionId::StdFnmatch => fnmatch(arguments),
        FunctionId::StdRound => conversions::round(arguments),
        FunctionId::StdPort => match argument(arguments, 0) {
            Some(Value::Ip(Some((_, port)))) => Ok(Value::Int(i64::from(port))),
            _ => Ok(Value::Int(0)),
        },
        FunctionId::StdInteger => conversions::integer(arguments),
        FunctionId::StdReal => conversions::real(arguments),
        FunctionId::StdDuration => conversions::duration(arguments),
        FunctionId::StdBytes => conversions::bytes(arguments),
        FunctionId::StdTime => conversions::time(arguments),
        FunctionId::StdStrftime => time::strftime(arguments, workspace),
        FunctionId::StdReal2integer | FunctionId::StdTime2integer => Ok(conversions::rounded(arguments)),
        FunctionId::StdReal2time => {
            Ok(argument(arguments, 0).and_then(Value::number).map_or(Value::Time(0.0), Value::Time))
        }
        FunctionId::StdTime2real => {
            Ok(argument(arguments, 0).and_then(Value::number).map_or(Value::Real(0.0), Value::Real))
        }
        FunctionId::StdIp => return conversions::ip(arguments),
        FunctionId::CookieFormatDate | FunctionId::CookieFormatRfc1123 => {
            let number = |place| argument(arguments, place).and_then(Value::number).unwrap_or(0.0);
            kept(workspace, format_date(number(0) + number(1)).as_bytes())
        }
        FunctionId::BlobDecode => blob::decode_call(arguments, workspace),
        FunctionId::BlobEncode => blob::encode_call(arguments, workspace),
        FunctionId::BlobTranscode => blob::transcode_call(arguments, workspace),
        FunctionId::BlobSame => Ok(Value::Bool(blob::is_same(arguments))),
        FunctionId::BlobEqual => Ok(Value::Bool(blob::bytes(arguments, 0) == blob::bytes(arguments, 1))),
        FunctionId::BlobLength => Ok(Value::Int(i64::try_from(blob::bytes(arguments, 0).len()).unwrap_or(i64::MAX))),
        FunctionId::BlobSub => blob::sub(arguments),
        FunctionId::VtcNoBackend => Ok(Value::Backend(None)),
        FunctionId::VtcNoStevedore => Ok(Value::Storage(None)),
        FunctionId::VtcNoIp => Ok(Value::Ip(None)),
        FunctionId::VtcTypesize => {
            Ok(Value::Int(conversions::typesize(text(arguments, 0).unwrap_or_default()).unwrap_or(-1)))
        }
        _ => return None,
    })
}

fn fnmatch<'w>(arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let Some(pattern) = text(arguments, 0) else { return fail("std.fnmatch(): pattern is NULL") };
    let Some(subject) = text(arguments, 1) else { return fail("std.fnmatch(): subject is NULL") };
    let flag = |place| argument(arguments, place).is_some_and(Value::is_true);
    let flags = fnmatch::Flags { pathname: flag(2), no_escape: flag(3), period: flag(4) };
    Ok(Value::Bool(fnmatch::matches(pattern, subject, flags)))
}

/// The URL with the parts of its query in order, without empty ones; `None` for one that has no two parts.
fn query_sorted(url: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memchr(b'?', url)?;
    let (path, query) = (url.get(..at + 1)?, url.get(at + 1..)?);
    memchr::memchr(b'&', query)?;
    let mut parts: Vec<&[u8]> = query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).collect();
    parts.sort();
    let mut out = path.to_vec();
    out.extend_from_slice(&parts.join(&b'&'));
    Some(out)
}

#[cfg(test)]
mod tests;
