//! `redis.log`: lines that scripts write.

use std::cell::RefCell;

use mlua::{Lua, Value};

use crate::config::LogLevel;
use lua::library::{Arguments, refused};

/// Lines that are kept until somebody takes them; further ones are dropped.
const LINES_MAX: usize = 1000;
/// Bytes of a line.
const LINE_LEN_MAX: usize = 1024;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How important it is.
    pub level: LogLevel,
    /// What it says.
    pub text: String,
}

/// The lines of a machine that nobody has taken yet.
#[derive(Debug, Default)]
struct Lines(RefCell<Vec<LogLine>>);

/// Takes the lines of a machine.
pub(crate) fn take(lua: &Lua) -> Vec<LogLine> {
    lua.app_data_ref::<Lines>().map(|lines| lines.0.take()).unwrap_or_default()
}

/// `redis.log(level, text, ...)`
pub(crate) fn write(lua: &Lua, arguments: Arguments) -> mlua::Result<Value> {
    let Some((level, words)) = arguments.split_first().filter(|(_, words)| !words.is_empty()) else {
        return Err(refused("redis.log() requires two arguments or more."));
    };
    let Some(level) = lua.coerce_number(level.clone())? else {
        return Err(refused("First argument must be a number (log level)."));
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(refused("Invalid debug level.")),
    };
    let mut text = String::new();
    for word in words {
        if let Some(word) = lua.coerce_string(word.clone())? {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word.to_string_lossy());
        }
        if text.len() > LINE_LEN_MAX {
            break;
        }
    }
    let text: String = text.chars().take(LINE_LEN_MAX).map(|one| if one.is_control() { ' ' } else { one }).collect();
    if lua.app_data_ref::<Lines>().is_none() {
        lua.set_app_data(Lines::default());
    }
    if let Some(lines) = lua.app_data_ref::<Lines>() {
        let mut lines = lines.0.borrow_mut();
        if lines.len() < LINES_MAX {
            lines.push(LogLine { level, text });
        }
    }
    Ok(Value::Nil)
}
