//! The library `bit`: operations on 32 bits, as LuaJIT's BitOp has them.

use mlua::{Lua, Table, Value};

use crate::library::{self, Arguments};

/// An operation of two numbers.
type Operation = fn(u32, u32) -> u32;

/// A number's lowest 32 bits: it wraps, and is rounded to the even neighbour, by the way doubles add.
fn bits(number: f64) -> u32 {
    /// Behind this, the last bit of a double counts ones, and there is room for a sign.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (number + SHIFT).to_bits() as u32
}

fn result(bits: u32) -> mlua::Result<Value> {
    Ok(Value::Integer(i64::from(bits as i32)))
}

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, each) in [("tobit", (|bits| bits) as fn(u32) -> u32), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)]
    {
        library::put(lua, &table, name, move |lua, arguments| result(each(argument(lua, &arguments, 0, name)?)))?;
    }
    let folds: [(&str, Operation); 3] =
        [("band", |one, other| one & other), ("bor", |one, other| one | other), ("bxor", |one, other| one ^ other)];
    for (name, each) in folds {
        library::put(lua, &table, name, move |lua, arguments| {
            let mut folded = argument(lua, &arguments, 0, name)?;
            for index in (1..arguments.len()).rev() {
                folded = each(folded, argument(lua, &arguments, index, name)?);
            }
            result(folded)
        })?;
    }
    let shifts: [(&str, Operation); 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, each) in shifts {
        library::put(lua, &table, name, move |lua, arguments| {
            let number = argument(lua, &arguments, 0, name)?;
            result(each(number, argument(lua, &arguments, 1, name)? & 31))
        })?;
    }
    library::put(lua, &table, "tohex", to_hexadecimal)?;
    Ok(table)
}

fn argument(lua: &Lua, arguments: &Arguments, index: usize, name: &str) -> mlua::Result<u32> {
    library::number(lua, arguments, index, name).map(bits)
}

/// The last digits of a number; capital ones if their count is negative.
fn to_hexadecimal(lua: &Lua, arguments: Arguments) -> mlua::Result<Value> {
    const NAME: &str = "tohex";
    let number = argument(lua, &arguments, 0, NAME)?;
    let digits = if arguments.len() < 2 { 8 } else { argument(lua, &arguments, 1, NAME)? as i32 };
    let text = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    let kept = text.get(8 - digits.unsigned_abs().min(8) as usize..).unwrap_or_default();
    lua.create_string(kept).map(Value::String)
}
