//! Values as text.

use std::io::Write as _;

use super::{host::Host, value::Value};
use crate::program::Program;

/// Puts a value's text behind `out`.
pub fn write_value(out: &mut Vec<u8>, value: Value<'_>, program: &Program, host: &impl Host) {
    // Writing to memory cannot fail.
    let _ = match value {
        Value::Void | Value::Message(_) | Value::Regex(_) | Value::Routine(_) => Ok(()),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Real(value) | Value::Duration(value) => write!(out, "{value:.3}"),
        Value::Bytes(value) => write!(out, "{:.3}", value as f64),
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
            crate::base64::encode(out, bytes.unwrap_or_default());
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
            out.extend_from_slice(name.map(String::as_str).unwrap_or_default().as_bytes());
            Ok(())
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

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time as HTTP writes it (RFC 9110 section 5.6.7): `Tue, 20 Feb 2018 09:30:31 GMT`.
#[must_use]
pub fn format_time(seconds: f64) -> Vec<u8> {
    // Year 9999 is the last one that the form has room for.
    let whole = seconds.floor().clamp(-62_135_596_800.0, 253_402_300_799.0) as i64;
    let (days, of_day) = (whole.div_euclid(86_400), whole.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let weekday = DAYS.get(days.rem_euclid(7) as usize).copied().unwrap_or_default();
    let name = MONTHS.get((month - 1) as usize).copied().unwrap_or_default();
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{weekday}, {day:02} {name} {year:04} {hour:02}:{minute:02}:{second:02} GMT").into_bytes()
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years begin in March here, so that the day that a leap year
/// has more is the last one.
const fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}
