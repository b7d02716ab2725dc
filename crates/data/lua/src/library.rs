//! How functions of the host are made for Lua: with names in their errors, and the place of the script that called them.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// Memory of a machine. A script that needs more fails.
pub const MEMORY_MAX: usize = 256 * 1024 * 1024;
/// Shorter strings than this are made without looking at what there is.
const SMALL: usize = 1 << 20;

/// What the allocator may keep for a while of places that a growing string has left.
const LEFT_BEHIND_MAX: usize = 16 << 20;

/// Arguments of a function.
pub type Arguments = Vec<Value>;

/// An error that a script may catch. The place is put in front of it.
pub fn raised(text: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(text.into())
}

/// Makes sure that a script may have a string of so many bytes that is being made: it is there twice until Lua has it, and counts like
/// Lua's own memory. What nobody refers to any more makes way.
pub fn room_for(lua: &Lua, len: usize) -> mlua::Result<()> {
    let has_room = || lua.used_memory().saturating_add(len.saturating_mul(2)) <= MEMORY_MAX - LEFT_BEHIND_MAX;
    if len <= SMALL || has_room() {
        return Ok(());
    }
    lua.gc_collect()?;
    if has_room() { Ok(()) } else { Err(raised("not enough memory")) }
}

/// The same for one that grows: what it had before is there as well while it gets a larger place.
pub fn room_to_grow(lua: &Lua, len: usize) -> mlua::Result<()> {
    room_for(lua, len.saturating_add(len / 2))
}

/// What the host refuses, or what a command of its failed with: an error with its code, and without the place of the caller.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(text))]
pub struct Refused {
    /// What it says, with its code.
    pub text: Vec<u8>,
    /// It is among the errors that are counted.
    pub is_counted: bool,
}

/// An error of the host of the general kind.
pub fn refused(text: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::external(Refused { text: format!("ERR {text}").into_bytes(), is_counted: false })
}

/// An error of an argument, counted from 1, as Lua words it.
pub fn bad_argument(place: usize, name: &str, text: &str) -> mlua::Error {
    raised(format!("bad argument #{place} to '{name}' ({text})"))
}

/// An error of an argument that is of another type.
pub fn wrong_type(place: usize, name: &str, expected: &str, value: Option<&Value>) -> mlua::Error {
    let found = value.map_or("no value", type_name);
    bad_argument(place, name, &format!("{expected} expected, got {found}"))
}

/// A type as Lua names it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        value if value.is_null() => "userdata",
        value => value.type_name(),
    }
}

/// An argument that must be a number, or text that is one.
pub fn number(lua: &Lua, arguments: &[Value], index: usize, name: &str) -> mlua::Result<f64> {
    match arguments.get(index) {
        Some(Value::Integer(number)) => Ok(*number as f64),
        Some(Value::Number(number)) => Ok(*number),
        other => {
            let number = other.and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
            number.ok_or_else(|| wrong_type(index + 1, name, "number", other))
        }
    }
}

/// The same, where there may be none.
pub fn number_or(lua: &Lua, arguments: &[Value], index: usize, name: &str, default: f64) -> mlua::Result<f64> {
    match arguments.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(_) => number(lua, arguments, index, name),
    }
}

/// An argument that must be a string, or a number.
pub fn string(lua: &Lua, arguments: &[Value], index: usize, name: &str) -> mlua::Result<LuaString> {
    match arguments.get(index) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone())?.ok_or_else(|| wrong_type(index + 1, name, "string", Some(value)))
        }
        other => Err(wrong_type(index + 1, name, "string", other)),
    }
}

/// Puts a function of one result into a table.
pub fn put(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, Arguments) -> mlua::Result<Value> + 'static,
) -> mlua::Result<()> {
    put_many(lua, table, name, move |lua, arguments| {
        function(lua, arguments).map(|value| MultiValue::from_iter([value]))
    })
}

/// Puts a function of several results into a table.
pub fn put_many(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, Arguments) -> mlua::Result<MultiValue> + 'static,
) -> mlua::Result<()> {
    let placed = move |lua: &Lua, arguments: MultiValue| {
        function(lua, arguments.into_iter().collect()).map_err(|error| place(lua, error, 1))
    };
    table.raw_set(name, lua.create_function(placed)?)
}

/// Puts the place of the caller in front of an error, if that is Lua. It stands so many levels up.
pub fn place(lua: &Lua, error: mlua::Error, level: usize) -> mlua::Error {
    let mlua::Error::RuntimeError(text) = error else { return error };
    let caller = |frame: &mlua::debug::Debug<'_>| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    };
    let prefix = lua.inspect_stack(level, caller).flatten().unwrap_or_default();
    mlua::Error::RuntimeError(prefix + &text)
}
