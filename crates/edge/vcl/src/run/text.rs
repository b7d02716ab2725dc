//! Values as text.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HTTP_DATE_LEN, http_date};

use super::{
    host::{Failure, Host},
    value::Value,
};
use crate::program::Program;

/// What the numbers of a header may be (RFC 8941 sections 3.3.1 and 3.3.2), and with them those of a text.
const INT_MAX: i64 = 999_999_999_999_999;
const REAL_MAX: f64 = 999_999_999_999.999;

/// The first second of the year that the form of a date has no room for.
const YEAR_10000: f64 = 253_402_300_800.0;

/// Puts a value's text behind `out`.
///
/// # Errors
/// It is a number or a time that has no text.
pub fn write_value(out: &mut Vec<u8>, value: Value<'_>, program: &Program, host: &impl Host) -> Result<(), Failure> {
    check(value)?;
    // Writing to memory cannot fail.
    let _ = match value {
        Value::Void | Value::Message(_) | Value::Regex(_) | Value::Routine(_) => Ok(()),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Real(value) | Value::Duration(value) => write!(out, "{value:.3}"),
        Value::Bytes(value) => write!(out, "{value}"),
        Value::Time(value) => {
            out.extend_from_slice(&format_time(value));
            Ok(())
        }
        Value::String(text) => {
            out.extend_from_slice(text.unwrap_or_default());
            Ok(())
        }
        Value::Blob(bytes) => {
            out.push(b':');
            out.extend_from_slice(STANDARD.encode(bytes.unwrap_or_default()).as_bytes());
            out.push(b':');
            Ok(())
        }
        Value::Ip(address) => match address {
            Some((address, _)) => write!(out, "{address}"),
            None => Ok(()),
        },
        Value::Backend(backend) => {
            out.extend_from_slice(backend_name(backend, program, host).as_bytes());
            Ok(())
        }
        Value::Acl(index) => {
            let name = program.acls.get(index.0 as usize).map(|acl| acl.name.as_str());
            out.extend_from_slice(name.unwrap_or_default().as_bytes());
            Ok(())
        }
        Value::Probe(index) => {
            let probe = index.and_then(|index| program.probes.get(index.0 as usize));
            let name = probe.and_then(|probe| probe.name.as_deref());
            out.extend_from_slice(name.unwrap_or_default().as_bytes());
            Ok(())
        }
        Value::Storage(index) => {
            let name = index.and_then(|index| program.storages.get(index.0 as usize));
            name.map_or(Ok(()), |name| write!(out, "storage.{name}"))
        }
        Value::Enum(word) => {
            out.extend_from_slice(word.as_bytes());
            Ok(())
        }
        Value::Header(header) => {
            out.extend_from_slice(header.name.text.as_bytes());
            Ok(())
        }
    };
    Ok(())
}

/// Whether a value has a text.
fn check(value: Value<'_>) -> Result<(), Failure> {
    let is_too_large = |number: f64| number.is_nan() || number.abs() > REAL_MAX;
    let why = match value {
        Value::Int(value) | Value::Bytes(value) if !(-INT_MAX..=INT_MAX).contains(&value) => {
            format!("INT overflow converting to string (0x{value:x})")
        }
        Value::Real(value) | Value::Duration(value) if is_too_large(value) => {
            format!("REAL overflow converting to string ({value:e})")
        }
        Value::Time(value) if !(0.0..YEAR_10000).contains(&value) => "Unformatable VCL_TIME".to_owned(),
        _ => return Ok(()),
    };
    Err(Failure::Host(why))
}

fn backend_name<'a>(backend: Option<super::Backend>, program: &'a Program, host: &'a impl Host) -> &'a str {
    use super::Backend;
    match backend {
        None => "",
        Some(Backend::Declared(index)) => {
            program.backends.get(index.0 as usize).map(|backend| backend.name.as_str()).unwrap_or_default()
        }
        Some(Backend::Director(index)) => {
            program.directors.get(index as usize).map(|director| director.name.as_str()).unwrap_or_default()
        }
        Some(Backend::Object(index)) => {
            program.objects.get(index.0 as usize).map(|object| object.name.as_str()).unwrap_or_default()
        }
        Some(other) => host.backend_name(other).unwrap_or_default(),
    }
}

/// A time as HTTP writes it (RFC 9110 section 5.6.7): `Tue, 20 Feb 2018 09:30:31 GMT`. Times before 1970 are its first second.
#[must_use]
pub fn format_time(seconds: f64) -> [u8; HTTP_DATE_LEN] {
    // Year 9999 is the last one that the form has room for.
    http_date(seconds.clamp(0.0, 253_402_300_799.0) as u64)
}
