//! The library `cjson`: tables as JSON and back, with its settings.

mod decode;
mod encode;

use std::{cell::Cell, rc::Rc};

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::library::{self, Arguments, bad_argument};

/// How deep tables may ever be: the stack ends somewhere.
const DEPTH_MAX: i32 = 1000;

/// What the library is set to. Scripts share it, as they do in Redis.
#[derive(Debug, Clone, Copy)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    encode_depth: i32,
    decode_depth: i32,
    /// 0: an error, 1: as they are, 2: null.
    encode_invalid: usize,
    decode_invalid: bool,
    precision: i32,
    keep_buffer: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            encode_invalid: 0,
            decode_invalid: true,
            precision: 14,
            keep_buffer: true,
        }
    }
}

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let settings = Rc::new(Cell::new(Settings::default()));
    table.set("null", Value::NULL)?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    let own = Rc::clone(&settings);
    library::put(lua, &table, "encode", move |lua, arguments| {
        let [value] = arguments.as_slice() else { return Err(bad_argument(1, "encode", "expected 1 argument")) };
        let text = encode::encode(lua, value, &own.get())?;
        lua.create_string(text).map(Value::String)
    })?;
    let own = Rc::clone(&settings);
    library::put(lua, &table, "decode", move |lua, arguments| {
        if arguments.len() != 1 {
            return Err(bad_argument(1, "decode", "expected 1 argument"));
        }
        let text = library::string(lua, &arguments, 0, "decode")?;
        decode::decode(lua, &text.as_bytes(), &own.get())
    })?;
    put_settings(lua, &table, &settings)?;
    library::put(lua, &table, "new", |lua, _| library(lua).map(Value::Table))?;
    Ok(table)
}

/// Puts a function that reads a setting, and changes it if it gets arguments.
fn put_setting(
    lua: &Lua,
    table: &Table,
    settings: &Rc<Cell<Settings>>,
    name: &'static str,
    arguments_max: usize,
    change: impl Fn(&Lua, &Arguments, &mut Settings) -> mlua::Result<Vec<Value>> + 'static,
) -> mlua::Result<()> {
    let own = Rc::clone(settings);
    library::put_many(lua, table, name, move |lua, arguments| {
        if arguments.len() > arguments_max {
            return Err(bad_argument(arguments_max + 1, name, "found too many arguments"));
        }
        let mut changed = own.get();
        let values = change(lua, &arguments, &mut changed)?;
        own.set(changed);
        Ok(MultiValue::from_iter(values))
    })
}

fn put_settings(lua: &Lua, table: &Table, settings: &Rc<Cell<Settings>>) -> mlua::Result<()> {
    put_setting(lua, table, settings, "encode_sparse_array", 3, |lua, arguments, settings| {
        let name = "encode_sparse_array";
        Ok(vec![
            flag(lua, arguments, 0, name, &mut settings.sparse_convert)?,
            integer(lua, arguments, 1, name, &mut settings.sparse_ratio, 0, i32::MAX)?,
            integer(lua, arguments, 2, name, &mut settings.sparse_safe, 0, i32::MAX)?,
        ])
    })?;
    put_setting(lua, table, settings, "encode_max_depth", 1, |lua, arguments, settings| {
        Ok(vec![integer(lua, arguments, 0, "encode_max_depth", &mut settings.encode_depth, 1, i32::MAX)?])
    })?;
    put_setting(lua, table, settings, "decode_max_depth", 1, |lua, arguments, settings| {
        Ok(vec![integer(lua, arguments, 0, "decode_max_depth", &mut settings.decode_depth, 1, i32::MAX)?])
    })?;
    put_setting(lua, table, settings, "encode_number_precision", 1, |lua, arguments, settings| {
        Ok(vec![integer(lua, arguments, 0, "encode_number_precision", &mut settings.precision, 1, 14)?])
    })?;
    put_setting(lua, table, settings, "encode_keep_buffer", 1, |lua, arguments, settings| {
        // There is no buffer: what is set can be read again, and changes nothing.
        Ok(vec![flag(lua, arguments, 0, "encode_keep_buffer", &mut settings.keep_buffer)?])
    })?;
    put_setting(lua, table, settings, "encode_invalid_numbers", 1, |lua, arguments, settings| {
        let options = &["off", "on", "null"];
        Ok(vec![option(lua, arguments, 0, "encode_invalid_numbers", &mut settings.encode_invalid, options)?])
    })?;
    put_setting(lua, table, settings, "decode_invalid_numbers", 1, |lua, arguments, settings| {
        Ok(vec![flag(lua, arguments, 0, "decode_invalid_numbers", &mut settings.decode_invalid)?])
    })
}

fn integer(
    lua: &Lua,
    arguments: &Arguments,
    index: usize,
    name: &str,
    setting: &mut i32,
    least: i32,
    most: i32,
) -> mlua::Result<Value> {
    if !matches!(arguments.get(index), None | Some(Value::Nil)) {
        let number = library::number(lua, arguments, index, name)?;
        if !(f64::from(least)..=f64::from(most)).contains(&number.trunc()) {
            return Err(bad_argument(1, name, &format!("expected integer between {least} and {most}")));
        }
        *setting = number as i32;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

fn option(
    lua: &Lua,
    arguments: &Arguments,
    index: usize,
    name: &str,
    setting: &mut usize,
    options: &[&str],
) -> mlua::Result<Value> {
    match arguments.get(index) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(truth)) => *setting = usize::from(*truth),
        Some(_) => {
            let word: LuaString = library::string(lua, arguments, index, name)?;
            let word = word.to_string_lossy();
            *setting = options
                .iter()
                .position(|option| *option == word)
                .ok_or_else(|| bad_argument(index + 1, name, &format!("invalid option '{word}'")))?;
        }
    }
    match options.get(*setting) {
        Some(word) if *setting > 1 => lua.create_string(word).map(Value::String),
        _ => Ok(Value::Boolean(*setting == 1)),
    }
}

fn flag(lua: &Lua, arguments: &Arguments, index: usize, name: &str, setting: &mut bool) -> mlua::Result<Value> {
    let mut number = usize::from(*setting);
    let value = option(lua, arguments, index, name, &mut number, &["off", "on"])?;
    *setting = number == 1;
    Ok(value)
}
