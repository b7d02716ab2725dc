//! Replies as Lua's values, and back.

use mlua::{Lua, Table, Value};
use resp::{Protocol, Reply, ReplyLimits, ReplyParser, ReplyProgress};

/// How deep tables in replies may be.
const DEPTH_MAX: usize = 128;

/// A number as text, as Lua's `%.17g` of Redis' scripts writes it.
pub fn number_text(number: f64) -> String {
    let mut text = Vec::new();
    if number.fract() == 0.0 && number.abs() < 1e17 {
        return format!("{number:.0}");
    }
    resp::format_double(&mut text, number);
    String::from_utf8_lossy(&text).into_owned()
}

/// The reply in some bytes as a value of Lua.
///
/// # Errors
///
/// Lua has no memory left.
pub fn reply_to_lua(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    match ReplyParser::new().parse(bytes, &ReplyLimits::default()) {
        Ok(ReplyProgress::Complete { value, .. }) => value_to_lua(lua, &value),
        // A command that answers nothing.
        _ => Ok(Value::Boolean(false)),
    }
}

fn single(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

fn value_to_lua(lua: &Lua, value: &resp::Value) -> mlua::Result<Value> {
    let list = |items: &[resp::Value]| {
        let table = lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.iter().enumerate() {
            table.raw_set(index + 1, value_to_lua(lua, item)?)?;
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
        resp::Value::Error(text) => single(lua, "err", text)?,
        resp::Value::Integer(number) => Value::Number(*number as f64),
        resp::Value::Bulk(text) => Value::String(lua.create_string(text)?),
        resp::Value::Null | resp::Value::NullArray => Value::Boolean(false),
        resp::Value::Boolean(truth) => Value::Boolean(*truth),
        resp::Value::Double(number) => wrapped("double", Value::Number(*number))?,
        resp::Value::BigNumber(digits) => single(lua, "big_number", digits)?,
        resp::Value::Array(items) | resp::Value::Push(items) => Value::Table(list(items)?),
        resp::Value::Set(items) => {
            let members = lua.create_table()?;
            for item in items {
                members.raw_set(value_to_lua(lua, item)?, true)?;
            }
            wrapped("set", Value::Table(members))?
        }
        resp::Value::Map(pairs) => {
            let map = lua.create_table()?;
            for (name, value) in pairs {
                map.raw_set(value_to_lua(lua, name)?, value_to_lua(lua, value)?)?;
            }
            wrapped("map", Value::Table(map))?
        }
        resp::Value::Verbatim { format, text } => {
            let inner = lua.create_table()?;
            inner.raw_set("format", lua.create_string(format)?)?;
            inner.raw_set("string", lua.create_string(text)?)?;
            wrapped("verbatim_string", Value::Table(inner))?
        }
        resp::Value::Attributed { value, .. } => value_to_lua(lua, value)?,
    })
}

/// Writes what a script returned.
pub fn write_value(reply: &mut Reply<'_>, value: &Value, depth: usize) {
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(*number as i64),
        Value::Boolean(truth) if reply.protocol() == Protocol::Resp3 => reply.boolean(*truth),
        Value::Boolean(true) => reply.integer(1),
        Value::Table(table) => write_table(reply, table, depth),
        _ => reply.null(),
    }
}

fn write_table(reply: &mut Reply<'_>, table: &Table, depth: usize) {
    if depth > DEPTH_MAX {
        return reply.error("ERR reached lua stack limit");
    }
    let text = |name: &str| match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    if let Some(error) = text("err") {
        let error = error.strip_prefix(b"-").map(<[u8]>::to_vec).unwrap_or(error);
        return reply.error(error);
    }
    if let Some(ok) = text("ok") {
        return reply.simple(&String::from_utf8_lossy(&ok).replace(['\r', '\n'], " "));
    }
    if let Ok(Value::Number(number)) = table.raw_get::<Value>("double") {
        return reply.double(number);
    }
    if let Some(digits) = text("big_number") {
        return reply.big_number(&digits);
    }
    if let Ok(Value::Table(map)) = table.raw_get::<Value>("map") {
        let pairs: Vec<(Value, Value)> = map.pairs().filter_map(Result::ok).collect();
        reply.map(pairs.len());
        for (name, value) in pairs {
            write_value(reply, &name, depth + 1);
            write_value(reply, &value, depth + 1);
        }
        return;
    }
    if let Ok(Value::Table(set)) = table.raw_get::<Value>("set") {
        let members: Vec<(Value, Value)> = set.pairs().filter_map(Result::ok).collect();
        reply.set(members.len());
        for (member, _) in members {
            write_value(reply, &member, depth + 1);
        }
        return;
    }
    // A list ends with its first hole.
    let items: Vec<Value> =
        (1..).map_while(|index: i64| table.raw_get(index).ok().filter(|item: &Value| !item.is_nil())).collect();
    reply.array(items.len());
    for item in &items {
        write_value(reply, item, depth + 1);
    }
}
