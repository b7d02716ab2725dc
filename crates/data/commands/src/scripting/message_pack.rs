//! The library `cmsgpack`: `pack` and `unpack`.

use mlua::{Lua, LuaString, MultiValue, Table, Value};
use rmpv::Value as Packed;

use super::json::LuaBytes;

/// How deep tables may be; what is deeper is nil, as in cmsgpack.
const DEPTH_MAX: usize = 16;

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cmsgpack")?;
    let pack = |_: &Lua, values: MultiValue| {
        if values.is_empty() {
            return Err(mlua::Error::runtime("MessagePack pack needs input."));
        }
        let mut out = Vec::new();
        for value in values {
            rmpv::encode::write_value(&mut out, &packed(&value, 0)).map_err(mlua::Error::external)?;
        }
        Ok(LuaBytes(out))
    };
    table.set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, text: LuaString| {
        let bytes = text.as_bytes();
        let mut rest: &[u8] = &bytes;
        let mut values = Vec::new();
        while !rest.is_empty() {
            let value = rmpv::decode::read_value_with_max_depth(&mut rest, 128)
                .map_err(|_| mlua::Error::runtime("Bad data format in input."))?;
            values.push(unpacked(lua, &value)?);
        }
        Ok(MultiValue::from_iter(values))
    };
    table.set("unpack", lua.create_function(unpack)?)?;
    Ok(table)
}

fn packed(value: &Value, depth: usize) -> Packed {
    match value {
        Value::Boolean(truth) => Packed::Boolean(*truth),
        Value::Integer(number) => Packed::from(*number),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => Packed::from(*number as i64),
        Value::Number(number) if f64::from(*number as f32) == *number => Packed::F32(*number as f32),
        Value::Number(number) => Packed::F64(*number),
        Value::String(text) => {
            let bytes = text.as_bytes().to_vec();
            // Strings are strings whatever their bytes are, as cmsgpack has them.
            match String::from_utf8(bytes) {
                Ok(text) => Packed::from(text),
                Err(error) => Packed::Binary(error.into_bytes()),
            }
        }
        Value::Table(table) if depth < DEPTH_MAX => packed_table(table, depth),
        _ => Packed::Nil,
    }
}

fn packed_table(table: &Table, depth: usize) -> Packed {
    let pairs: Vec<(Value, Value)> = table.pairs().filter_map(Result::ok).collect();
    let is_list = !pairs.is_empty() && table.raw_len() == pairs.len();
    if is_list {
        let items = (1..=pairs.len()).map(|index| table.raw_get::<Value>(index).unwrap_or(Value::Nil));
        return Packed::Array(items.map(|item| packed(&item, depth + 1)).collect());
    }
    Packed::Map(pairs.iter().map(|(name, value)| (packed(name, depth + 1), packed(value, depth + 1))).collect())
}

fn unpacked(lua: &Lua, value: &Packed) -> mlua::Result<Value> {
    Ok(match value {
        Packed::Nil | Packed::Ext(..) => Value::Nil,
        Packed::Boolean(truth) => Value::Boolean(*truth),
        Packed::Integer(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Packed::F32(number) => Value::Number(f64::from(*number)),
        Packed::F64(number) => Value::Number(*number),
        Packed::String(text) => Value::String(lua.create_string(text.as_bytes())?),
        Packed::Binary(bytes) => Value::String(lua.create_string(bytes)?),
        Packed::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, unpacked(lua, item)?)?;
            }
            Value::Table(table)
        }
        Packed::Map(pairs) => {
            let table = lua.create_table_with_capacity(0, pairs.len())?;
            for (name, value) in pairs {
                table.raw_set(unpacked(lua, name)?, unpacked(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}
