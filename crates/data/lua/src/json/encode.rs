//! Tables as JSON.

use mlua::{Lua, Table, Value};

use super::{DEPTH_MAX, Settings};
use crate::{
    library::{MEMORY_MAX, raised, room_to_grow, type_name},
    number_text,
};

/// The text of a value.
pub(super) fn encode(lua: &Lua, value: &Value, settings: &Settings) -> mlua::Result<Vec<u8>> {
    let mut text = Vec::new();
    write(lua, value, &mut text, settings, 0)?;
    Ok(text)
}

fn refused(value: &Value, reason: &str) -> mlua::Error {
    raised(format!("Cannot serialise {}: {reason}", type_name(value)))
}

fn write(lua: &Lua, value: &Value, out: &mut Vec<u8>, settings: &Settings, depth: i32) -> mlua::Result<()> {
    room_to_grow(lua, out.len())?;
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        value if value.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Integer(number) => write_number(*number as f64, out, settings)?,
        Value::Number(number) => write_number(*number, out, settings)?,
        Value::String(text) => {
            room_to_grow(lua, out.len() + text.as_bytes().len())?;
            write_string(&text.as_bytes(), out);
        }
        Value::Table(table) => write_table(lua, table, out, settings, depth + 1)?,
        other => return Err(refused(other, "type not supported")),
    }
    Ok(())
}

fn write_number(number: f64, out: &mut Vec<u8>, settings: &Settings) -> mlua::Result<()> {
    if !number.is_finite() {
        match settings.encode_invalid {
            0 => return Err(refused(&Value::Number(number), "must not be NaN or Inf")),
            1 if number.is_nan() => out.extend_from_slice(b"nan"),
            1 => out.extend_from_slice(number_text::general(number, 14).as_bytes()),
            _ => out.extend_from_slice(b"null"),
        }
        return Ok(());
    }
    let precision = usize::try_from(settings.precision).unwrap_or(14);
    out.extend_from_slice(number_text::general(number, precision).as_bytes());
    Ok(())
}

/// Bytes go out as they are: cjson does not ask for UTF-8.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// How long a table is as an array; nothing if it is none.
fn array_len(table: &Table, settings: &Settings) -> mlua::Result<Option<i64>> {
    let (mut last, mut count) = (0_i64, 0_i64);
    for pair in table.pairs::<Value, Value>() {
        let place = match pair?.0 {
            Value::Integer(place) if place >= 1 => place,
            Value::Number(place) if place >= 1.0 && place.fract() == 0.0 => place as i64,
            _ => return Ok(None),
        };
        last = last.max(place);
        count += 1;
    }
    let ratio = i64::from(settings.sparse_ratio);
    if ratio > 0 && last > count.saturating_mul(ratio) && last > i64::from(settings.sparse_safe) {
        if !settings.sparse_convert {
            return Err(raised("Cannot serialise table: excessively sparse array"));
        }
        return Ok(None);
    }
    // A table of nothing is an object, as cjson has it.
    Ok(Some(last).filter(|last| *last > 0))
}

fn write_table(lua: &Lua, table: &Table, out: &mut Vec<u8>, settings: &Settings, depth: i32) -> mlua::Result<()> {
    if depth > settings.encode_depth.min(DEPTH_MAX) {
        return Err(raised(format!("Cannot serialise, excessive nesting ({depth})")));
    }
    if let Some(last) = array_len(table, settings)? {
        // Each element takes two bytes at least.
        if usize::try_from(last).is_ok_and(|last| last > MEMORY_MAX / 2) {
            return Err(raised("not enough memory"));
        }
        out.push(b'[');
        for place in 1..=last {
            if place > 1 {
                out.push(b',');
            }
            write(lua, &table.raw_get::<Value>(place)?, out, settings, depth)?;
        }
        out.push(b']');
        return Ok(());
    }
    out.push(b'{');
    let start = out.len();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        if out.len() > start {
            out.push(b',');
        }
        match &name {
            Value::String(text) => write_string(&text.as_bytes(), out),
            Value::Integer(_) | Value::Number(_) => {
                out.push(b'"');
                write(lua, &name, out, settings, depth)?;
                out.push(b'"');
            }
            other => return Err(refused(other, "table key must be a number or string")),
        }
        out.push(b':');
        write(lua, &value, out, settings, depth)?;
    }
    out.push(b'}');
    Ok(())
}
