//! The library `cjson`: `encode` and `decode`, with `null`.

use mlua::{Lua, LuaString, Table, Value};
use serde_json::{Map, Number};

/// How deep tables may be.
const DEPTH_MAX: usize = 1000;

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("null", Value::NULL)?;
    table.set("_NAME", "cjson")?;
    let encode = |_: &Lua, value: Value| {
        let mut text = Vec::new();
        write(&value, &mut text, 0)?;
        Ok(LuaBytes(text))
    };
    table.set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: LuaString| {
        let value: serde_json::Value = serde_json::from_slice(&text.as_bytes())
            .map_err(|error| mlua::Error::runtime(format!("Expected value but found invalid token: {error}")))?;
        read(lua, &value)
    };
    table.set("decode", lua.create_function(decode)?)?;
    // What these change in cjson is as cjson has it by default; scripts that set that are let go on.
    for name in
        ["encode_sparse_array", "encode_max_depth", "decode_max_depth", "encode_number_precision", "encode_keep_buffer"]
    {
        table.set(name, lua.create_function(|_, _: mlua::MultiValue| Ok(()))?)?;
    }
    Ok(table)
}

/// Bytes that become a string of Lua.
pub struct LuaBytes(pub Vec<u8>);

impl mlua::IntoLua for LuaBytes {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        lua.create_string(&self.0).map(Value::String)
    }
}

fn read(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::Null => Value::NULL,
        Json::Bool(truth) => Value::Boolean(*truth),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, read(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => read_object(lua, fields)?,
    })
}

fn read_object(lua: &Lua, fields: &Map<String, serde_json::Value>) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, fields.len())?;
    for (name, value) in fields {
        table.raw_set(lua.create_string(name)?, read(lua, value)?)?;
    }
    Ok(Value::Table(table))
}

fn write(value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    if depth > DEPTH_MAX {
        return Err(mlua::Error::runtime("Cannot serialise, excessive depth"));
    }
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        value if value.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Number(number) => write_number(*number, out)?,
        Value::String(text) => write_string(&text.as_bytes(), out),
        Value::Table(table) => write_table(table, out, depth)?,
        other => {
            return Err(mlua::Error::runtime(format!("Cannot serialise {}: type not supported", other.type_name())));
        }
    }
    Ok(())
}

/// Fourteen digits, as cjson has by default.
fn write_number(number: f64, out: &mut Vec<u8>) -> mlua::Result<()> {
    const DIGITS: i32 = 14;
    if !number.is_finite() {
        return Err(mlua::Error::runtime("Cannot serialise number: must not be NaN or Inf"));
    }
    if number.fract() == 0.0 && number.abs() < 1e14 {
        out.extend_from_slice(format!("{number:.0}").as_bytes());
        return Ok(());
    }
    let rounded: f64 = format!("{:.*e}", (DIGITS - 1) as usize, number).parse().unwrap_or(number);
    if rounded.abs() >= 1e14 || rounded.abs() < 1e-4 {
        let text = format!("{rounded:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
        out.extend_from_slice(format!("{mantissa}e{sign}{digits:0>2}").as_bytes());
        return Ok(());
    }
    match Number::from_f64(rounded) {
        Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
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

fn write_table(table: &Table, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    // A list if all its keys are whole numbers from 1; an empty table is an object, as cjson has it.
    let pairs: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
    let index = |value: &Value| match value {
        Value::Integer(number) if *number > 0 => Some(*number as usize),
        Value::Number(number) if *number >= 1.0 && number.fract() == 0.0 => Some(*number as usize),
        _ => None,
    };
    let last = pairs.iter().map(|(name, _)| index(name)).try_fold(0, |last, index| Some(last.max(index?)));
    match last {
        Some(last) if last > 0 => {
            const SPARSE_RATIO: usize = 2;
            const SPARSE_SAFE: usize = 10;
            if last > SPARSE_SAFE && last > pairs.len() * SPARSE_RATIO {
                return Err(mlua::Error::runtime("Cannot serialise table: excessively sparse array"));
            }
            out.push(b'[');
            for place in 1..=last {
                if place > 1 {
                    out.push(b',');
                }
                write(&table.raw_get::<Value>(place)?, out, depth + 1)?;
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            for (place, (name, value)) in pairs.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                match name {
                    Value::String(text) => write_string(&text.as_bytes(), out),
                    Value::Integer(number) => write_string(number.to_string().as_bytes(), out),
                    Value::Number(number) => {
                        out.push(b'"');
                        write_number(*number, out)?;
                        out.push(b'"');
                    }
                    _ => {
                        return Err(mlua::Error::runtime(
                            "Cannot serialise table: table key must be a number or string",
                        ));
                    }
                }
                out.push(b':');
                write(value, out, depth + 1)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}
