//! Dates as text.

use super::integer;
use crate::arguments::{Argument, ArgumentType};
use crate::date::offset_text;
use crate::keyword::{Call, Converter};
use crate::value::{Type, Value};
use basics::Date;

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("http_date", Type::Sint, Type::Str, http_date)
        .takes(&[ArgumentType::Sint, ArgumentType::Str], 0)
        .checked(|arguments, _| match arguments.get(1) {
            Some(Argument::Str(unit)) if !matches!(&**unit, b"s" | b"ms" | b"us") => {
                Err(format!("expects 's', 'ms' or 'us', got '{}'", String::from_utf8_lossy(unit)))
            }
            _ => Ok(()),
        })
        .doc(
            "A date as HTTP writes it, plus an offset, from s, ms or us.",
            "http-response set-header Expires %[date(3600),http_date]",
        ),
    Converter::new("ltime", Type::Sint, Type::Str, |value, call| {
        let seconds = moment(&value, call)?;
        let offset = call.context.local_offset(seconds);
        Some(Value::str(strftime(call.text(0)?, seconds, offset, false)))
    })
    .takes(&[ArgumentType::Str, ArgumentType::Sint], 1)
    .doc("A local date in a format of strftime, plus an offset.", "log-format %[date,ltime(%Y%m%d)]"),
    Converter::new("utime", Type::Sint, Type::Str, |value, call| {
        Some(Value::str(strftime(call.text(0)?, moment(&value, call)?, 0, true)))
    })
    .takes(&[ArgumentType::Str, ArgumentType::Sint], 1)
    .doc("A date in UTC in a format of strftime, plus an offset.", "log-format %[date,utime(%H:%M:%S)]"),
];

/// Of dates only 55 bits count, so that none is negative.
const DATE_MASK: i64 = 0x007f_ffff_ffff_ffff;

fn moment(value: &Value<'_>, call: &Call<'_>) -> Option<i64> {
    Some((integer(value)? & DATE_MASK).saturating_add(call.integer(1).unwrap_or(0)))
}

fn http_date<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let time = integer(&value)?.wrapping_add(call.integer(0).unwrap_or(0));
    let per_second = match call.text(1) {
        Some(b"ms") => 1000,
        Some(b"us") => 1_000_000,
        _ => 1,
    };
    let civil = Date::at((time / per_second) & DATE_MASK);
    let mut text = format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02}",
        civil.weekday_short(),
        civil.day,
        civil.month_short(),
        civil.year,
        civil.hour,
        civil.minute,
        civil.second
    );
    if per_second > 1 {
        text.push_str(&format!(".{}", time % per_second));
    }
    text.push_str(" GMT");
    Some(Value::str(text))
}

/// The most bytes that a date may be formatted to.
const FORMATTED_BYTES_MAX: usize = 4096;

/// Formats like C's strftime in the C locale.
fn strftime(format: &[u8], seconds: i64, offset: i32, utc: bool) -> Vec<u8> {
    let civil = Date::at(seconds.saturating_add(i64::from(offset)));
    let mut output = Vec::with_capacity(format.len() * 2);
    expand(format, &civil, seconds, offset, utc, &mut output);
    output
}

fn expand(format: &[u8], civil: &Date, seconds: i64, offset: i32, utc: bool, output: &mut Vec<u8>) {
    let mut rest = format;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if output.len() > FORMATTED_BYTES_MAX {
            return;
        }
        if *byte != b'%' {
            output.push(*byte);
            continue;
        }
        // E and O ask for alternative digits, which the C locale does not have.
        while let Some((b'E' | b'O', tail)) = rest.split_first() {
            rest = tail;
        }
        let Some((conversion, tail)) = rest.split_first() else {
            output.push(b'%');
            return;
        };
        rest = tail;
        // Some conversions stand for several others.
        let composite: Option<&[u8]> = match conversion {
            b'c' => Some(b"%a %b %e %H:%M:%S %Y"),
            b'D' | b'x' => Some(b"%m/%d/%y"),
            b'F' => Some(b"%Y-%m-%d"),
            b'r' => Some(b"%I:%M:%S %p"),
            b'R' => Some(b"%H:%M"),
            b'T' | b'X' => Some(b"%H:%M:%S"),
            _ => None,
        };
        if let Some(composite) = composite {
            expand(composite, civil, seconds, offset, utc, output);
            continue;
        }
        let hour12 = match civil.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let (iso_year, iso_week) = iso_week(civil);
        let text = match conversion {
            b'a' => civil.weekday_short().to_owned(),
            b'A' => civil.weekday_name().to_owned(),
            b'b' | b'h' => civil.month_short().to_owned(),
            b'B' => civil.month_name().to_owned(),
            b'C' => format!("{:02}", civil.year.div_euclid(100)),
            b'd' => format!("{:02}", civil.day),
            b'e' => format!("{:2}", civil.day),
            b'g' => format!("{:02}", iso_year.rem_euclid(100)),
            b'G' => iso_year.to_string(),
            b'H' => format!("{:02}", civil.hour),
            b'I' => format!("{hour12:02}"),
            b'j' => format!("{:03}", civil.day_of_year + 1),
            b'k' => format!("{:2}", civil.hour),
            b'l' => format!("{hour12:2}"),
            b'm' => format!("{:02}", civil.month),
            b'M' => format!("{:02}", civil.minute),
            b'n' => "\n".to_owned(),
            b'p' => if civil.hour < 12 { "AM" } else { "PM" }.to_owned(),
            b'P' => if civil.hour < 12 { "am" } else { "pm" }.to_owned(),
            b's' => seconds.to_string(),
            b'S' => format!("{:02}", civil.second),
            b't' => "\t".to_owned(),
            b'u' => match civil.weekday {
                0 => "7".to_owned(),
                day => day.to_string(),
            },
            b'U' => format!("{:02}", (civil.day_of_year + 7 - u16::from(civil.weekday)) / 7),
            b'V' => format!("{iso_week:02}"),
            b'w' => civil.weekday.to_string(),
            b'W' => format!("{:02}", (civil.day_of_year + 7 - u16::from((civil.weekday + 6) % 7)) / 7),
            b'y' => format!("{:02}", civil.year.rem_euclid(100)),
            b'Y' => civil.year.to_string(),
            b'z' => offset_text(offset),
            b'Z' if utc => "GMT".to_owned(),
            b'Z' if offset == 0 => "UTC".to_owned(),
            b'Z' => offset_text(offset),
            b'%' => "%".to_owned(),
            // What is unknown is written as it is.
            other => {
                output.extend_from_slice(&[b'%', *other]);
                continue;
            }
        };
        output.extend_from_slice(text.as_bytes());
    }
}

/// The week of ISO 8601 and the year that it belongs to: weeks start on Monday, the first has the year's first Thursday.
fn iso_week(civil: &Date) -> (i64, i64) {
    let days_of = |year: i64| if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 366 } else { 365 };
    let day = i64::from(civil.day_of_year);
    let weekday = (i64::from(civil.weekday) + 6) % 7;
    let thursday = day - weekday + 3;
    if thursday < 0 {
        let year = civil.year - 1;
        return (year, (thursday + days_of(year)) / 7 + 1);
    }
    if thursday >= days_of(civil.year) {
        return (civil.year + 1, 1);
    }
    (civil.year, thursday / 7 + 1)
}
