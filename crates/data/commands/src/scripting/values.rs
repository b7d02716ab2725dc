//! Replies as Lua's values, and back.

use mlua::{Lua, Table, Value};
use resp::{Protocol, Reply, ReplyLimits, ReplyParser, ReplyProgress};

/// The field of an error that has been counted, as it was raised by a command.
pub const COUNTED: &str = "ignore_error_stats_update";
/// How deep tables in replies may be.
const DEPTH_MAX: usize = 128;

/// The reply in some bytes as a value of Lua.
///
/// # Errors
///
/// Lua has no memory left.
pub fn reply_to_lua(lua: &Lua, bytes: &[u8], protocol: Protocol) -> mlua::Result<Value> {
    match ReplyParser::new().parse(bytes, &ReplyLimits::default()) {
        Ok(ReplyProgress::Complete { value, .. }) => value_to_lua(lua, &value, protocol),
        // A command that answers nothing.
        _ => Ok(Value::Boolean(false)),
    }
}

fn single(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

fn value_to_lua(lua: &Lua, value: &resp::Value, protocol: Protocol) -> mlua::Result<Value> {
    let to_lua = |value: &resp::Value| value_to_lua(lua, value, protocol);
    let list = |items: &[resp::Value]| {
        let table = lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.iter().enumerate() {
            table.raw_set(index + 1, to_lua(item)?)?;
        }
        Ok::<Table, mlua::Error>(table)
    };
    let wrapped = |name: &str, inner: Value| {
        let table = lua.create_table()?;
        table.raw_set(name, inner)?;
        Ok::<Value, mlua::Error>(Value::Table(table))
    };
    Ok(match value {
        resp::Value::Simple(text) => single(lua, "ok", text)?,
        resp::Value::Error(text) => {
            let error = single(lua, "err", text)?;
            if let Value::Table(table) = &error {
                table.raw_set(COUNTED, true)?;
            }
            error
        }
        resp::Value::Integer(number) => Value::Number(*number as f64),
        resp::Value::Bulk(text) => Value::String(lua.create_string(text)?),
        resp::Value::Null | resp::Value::NullArray if protocol == Protocol::Resp3 => Value::Nil,
        resp::Value::Null | resp::Value::NullArray => Value::Boolean(false),
        resp::Value::Boolean(truth) => Value::Boolean(*truth),
        resp::Value::Double(number) => wrapped("double", Value::Number(*number))?,
        resp::Value::BigNumber(digits) => single(lua, "big_number", digits)?,
        resp::Value::Array(items) | resp::Value::Push(items) => Value::Table(list(items)?),
        resp::Value::Set(items) => {
            let members = lua.create_table()?;
            for item in items {
                members.raw_set(to_lua(item)?, true)?;
            }
            wrapped("set", Value::Table(members))?
        }
        resp::Value::Map(pairs) => {
            let map = lua.create_table()?;
            for (name, value) in pairs {
                map.raw_set(to_lua(name)?, to_lua(value)?)?;
            }
            wrapped("map", Value::Table(map))?
        }
        resp::Value::Verbatim { format, text } => {
            let inner = lua.create_table()?;
            inner.raw_set("format", lua.create_string(format)?)?;
            inner.raw_set("string", lua.create_string(text)?)?;
            wrapped("verbatim_string", Value::Table(inner))?
        }
        resp::Value::Attributed { value, .. } => to_lua(value)?,
    })
}

/// An error reply that a script has made.
#[derive(Debug)]
pub struct Made {
    /// Its text.
    pub text: Vec<u8>,
    /// A command raised it, and it was counted then.
    pub is_counted: bool,
}

/// How what a script returned is written.
#[derive(Debug)]
pub struct Written {
    /// The protocol that the script chose for itself.
    pub chosen: Protocol,
    /// Nothing more is written when there is more output than this.
    pub most: usize,
    /// The errors among it.
    pub errors: Vec<Made>,
}

/// Writes what a script returned.
pub fn write_value(reply: &mut Reply<'_>, value: &Value, depth: usize, written: &mut Written) {
    if reply.position() > written.most {
        return;
    }
    let chosen = written.chosen;
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(truncated(*number)),
        Value::Boolean(truth) if chosen == Protocol::Resp3 => reply.boolean(*truth),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(table) => write_table(reply, table, depth, written),
        _ => reply.null(),
    }
}

/// With blanks for line breaks.
fn in_one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

fn write_table(reply: &mut Reply<'_>, table: &Table, depth: usize, written: &mut Written) {
    if depth > DEPTH_MAX {
        return reply.error("ERR reached lua stack limit");
    }
    let text = |name: &str| match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    if let Some(error) = text("err") {
        let is_counted = matches!(table.raw_get::<Value>(COUNTED), Ok(Value::Boolean(true)));
        written.errors.push(Made { text: error.clone(), is_counted });
        return reply.error(error);
    }
    if let Some(ok) = text("ok") {
        return reply.simple(in_one_line(&ok));
    }
    match table.raw_get::<Value>("double") {
        Ok(Value::Number(number)) => return reply.double(number),
        Ok(Value::Integer(number)) => return reply.double(number as f64),
        _ => {}
    }
    if let Some(digits) = text("big_number") {
        return reply.big_number(&in_one_line(&digits));
    }
    if let Ok(Value::Table(verbatim)) = table.raw_get::<Value>("verbatim_string")
        && let Ok(Value::String(format)) = verbatim.raw_get::<Value>("format")
        && let Ok(Value::String(string)) = verbatim.raw_get::<Value>("string")
    {
        let mut name = [b' '; 3];
        name.iter_mut().zip(format.as_bytes().iter()).for_each(|(place, byte)| *place = *byte);
        return reply.verbatim(name, &string.as_bytes());
    }
    if let Ok(Value::Table(map)) = table.raw_get::<Value>("map") {
        let pairs: Vec<(Value, Value)> = map.pairs().filter_map(Result::ok).collect();
        reply.map(pairs.len());
        for (name, value) in pairs {
            write_value(reply, &name, depth + 1, written);
            write_value(reply, &value, depth + 1, written);
        }
        return;
    }
    if let Ok(Value::Table(set)) = table.raw_get::<Value>("set") {
        let members: Vec<(Value, Value)> = set.pairs().filter_map(Result::ok).collect();
        reply.set(members.len());
        for (member, _) in members {
            write_value(reply, &member, depth + 1, written);
        }
        return;
    }
    // A list ends with its first hole.
    let items: Vec<Value> =
        (1..).map_while(|index: i64| table.raw_get(index).ok().filter(|item: &Value| !item.is_nil())).collect();
    reply.array(items.len());
    for item in &items {
        write_value(reply, item, depth + 1, written);
    }
}
/// A number as C on x86-64 makes an integer of it: what has no place in one, and what is no number, is the least of all.
fn truncated(number: f64) -> i64 {
    const PLACES: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    if PLACES.contains(&number) { number as i64 } else { i64::MIN }
}
