//! `string.find`, `match`, `gmatch` and `gsub`: what Lua's own do, but so that they can be ended.
//!
//! Lua looks at the clock between its instructions, and a search is one of them: a pattern that goes back again and again would
//! keep everybody waiting, and nothing could stop it.

mod matcher;
#[cfg(test)]
mod tests;

use std::{cell::Cell, ops::Range, rc::Rc};

use mlua::{Function, IntoLua as _, Lua, LuaString, MultiValue, Table, Value};

use self::matcher::{Captured, Failed, Matcher, Work, until_zero};
use crate::library::{self, Arguments, raised, room_for, room_to_grow};

/// Signs that make a text a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";
/// The key of the host's table for an error that went through the host on its way.
const RAISED: &str = "raised";

/// Says whether a script has to end.
pub type Look = Rc<dyn Fn(&Lua) -> mlua::Result<()>>;

/// An error that is a table, or whatever a script raised in a function that the host called for it.
#[derive(Debug, thiserror::Error)]
#[error("an error of a script's own")]
pub struct Raised;

/// What the functions share.
struct Patterns {
    done: Cell<usize>,
    look: Look,
    host: Table,
    /// Lua's own.
    protected_call: Function,
    /// Reads a field of a table, as scripts do.
    field: Function,
}

type Outcome<T> = Result<T, Failed<mlua::Error>>;

/// Puts the functions into a table. `make_iterator` makes Lua's part of what `gmatch` gives.
pub fn put(lua: &Lua, host: &Table, table: &Table, look: Look) -> mlua::Result<()> {
    let shared = Rc::new(Patterns {
        done: Cell::new(0),
        look,
        host: host.clone(),
        protected_call: lua.globals().get("pcall")?,
        field: lua.load("local of, name = ... return of[name]").set_name("=field").into_function()?,
    });
    type Run = fn(&Patterns, &Lua, &Arguments) -> mlua::Result<MultiValue>;
    let functions: [(&str, Run); 4] = [
        ("find", Patterns::find),
        ("match", Patterns::find_captures),
        ("gsub", Patterns::gsub),
        ("step", Patterns::step),
    ];
    for (name, run) in functions {
        let shared = Rc::clone(&shared);
        let caller = if name == "step" { 2 } else { 1 };
        let function = move |lua: &Lua, words: MultiValue| {
            let words: Arguments = words.into_iter().collect();
            run(&shared, lua, &words).map_err(|error| library::place(lua, error, caller))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    // The iterator is Lua's: what keeps its place are Lua's own variables, however many of them there are.
    let make_iterator: Function = lua
        .load(
            "local step = ...
            return function(text, pattern)
                local from = 0
                local function settle(next, ...) from = next return ... end
                return function() return settle(step(text, pattern, from)) end
            end",
        )
        .set_name("=gmatch")
        .call(table.raw_get::<Function>("step")?)?;
    table.raw_remove("step")?;
    library::put(lua, table, "gmatch", move |lua, words| {
        let (text, pattern) = (string(lua, &words, 0)?, string(lua, &words, 1)?);
        make_iterator.call((text, pattern))
    })?;
    // Its former name.
    table.raw_set("gfind", table.raw_get::<Function>("gmatch")?)
}

impl Patterns {
    fn with_matcher<T>(
        &self,
        lua: &Lua,
        text: &[u8],
        pattern: &[u8],
        run: impl FnOnce(&mut Matcher<'_, mlua::Error>) -> Outcome<T>,
    ) -> mlua::Result<T> {
        let look = || (self.look)(lua);
        let mut matcher = Matcher::new(text, pattern, Work { done: &self.done, look: &look });
        run(&mut matcher).map_err(|failed| match failed {
            Failed::Wrong(text) => raised(text),
            Failed::Ended(error) => error,
        })
    }

    fn find(&self, lua: &Lua, words: &Arguments) -> mlua::Result<MultiValue> {
        self.search(lua, words, true)
    }

    fn find_captures(&self, lua: &Lua, words: &Arguments) -> mlua::Result<MultiValue> {
        self.search(lua, words, false)
    }

    fn search(&self, lua: &Lua, words: &Arguments, find: bool) -> mlua::Result<MultiValue> {
        let (text, pattern) = (string(lua, words, 0)?, string(lua, words, 1)?);
        let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
        let from = start(integer_or(lua, words, 2, 1)?, text.len());
        let plain = words.get(3).is_some_and(|word| !matches!(word, Value::Nil | Value::Boolean(false)));
        if find && (plain || !until_zero(pattern).iter().any(|sign| SPECIALS.contains(sign))) {
            let rest = text.get(from..).unwrap_or_default();
            return Ok(match memchr::memmem::find(rest, pattern) {
                Some(at) => {
                    let (first, last) = (from + at + 1, from + at + pattern.len());
                    MultiValue::from_iter([Value::Integer(first as i64), Value::Integer(last as i64)])
                }
                None => MultiValue::from_iter([Value::Nil]),
            });
        }
        let (pattern, anchored) = without_anchor(pattern);
        self.with_matcher(lua, text, pattern, |matcher| {
            let Some(found) = matcher.first(from, anchored)? else { return Ok(MultiValue::from_iter([Value::Nil])) };
            let mut values = Vec::new();
            if find {
                values.extend([Value::Integer(found.start as i64 + 1), Value::Integer(found.end as i64)]);
            }
            captures(lua, matcher, text, &found, !find, &mut values)?;
            Ok(MultiValue::from_iter(values))
        })
    }

    /// The next match for an iterator: where to go on, and the captures.
    fn step(&self, lua: &Lua, words: &Arguments) -> mlua::Result<MultiValue> {
        let (text, pattern) = (string(lua, words, 0)?, string(lua, words, 1)?);
        let from = match words.get(2) {
            Some(Value::Integer(from)) => usize::try_from(*from).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
        self.with_matcher(lua, text, pattern, |matcher| {
            let Some(found) = matcher.first(from, false)? else {
                return Ok(MultiValue::from_iter([Value::Integer(text.len() as i64 + 1)]));
            };
            let next = if found.is_empty() { found.end + 1 } else { found.end };
            let mut values = vec![Value::Integer(next as i64)];
            captures(lua, matcher, text, &found, true, &mut values)?;
            Ok(MultiValue::from_iter(values))
        })
    }

    fn gsub(&self, lua: &Lua, words: &Arguments) -> mlua::Result<MultiValue> {
        let (text, pattern) = (string(lua, words, 0)?, string(lua, words, 1)?);
        let (text, pattern) = (&*text.as_bytes(), &*pattern.as_bytes());
        let most = integer_or(lua, words, 3, (text.len() as i64).saturating_add(1))? as i32;
        let with = match words.get(2) {
            Some(Value::Integer(_) | Value::Number(_)) => Value::String(string(lua, words, 2)?),
            Some(value @ (Value::String(_) | Value::Table(_) | Value::Function(_))) => value.clone(),
            _ => return Err(argument_error(lua, 2, "string/function/table expected")),
        };
        let (pattern, anchored) = without_anchor(pattern);
        self.with_matcher(lua, text, pattern, |matcher| {
            let mut result = Vec::new();
            let (mut at, mut count) = (0, 0);
            while count < most {
                let found = matcher.match_at(at)?;
                if let Some(end) = found {
                    count += 1;
                    self.replace(lua, matcher, text, &(at..end), &with, &mut result)?;
                }
                match (found, text.get(at)) {
                    (Some(end), _) if end > at => at = end,
                    (_, Some(byte)) => {
                        result.push(*byte);
                        at += 1;
                    }
                    (_, None) => break,
                }
                if anchored {
                    break;
                }
            }
            append(lua, &mut result, text.get(at..).unwrap_or_default())?;
            room_for(lua, result.len()).map_err(Failed::Ended)?;
            let result = lua.create_string(result).map_err(Failed::Ended)?;
            Ok(MultiValue::from_iter([Value::String(result), Value::Integer(i64::from(count))]))
        })
    }

    /// Appends what a match becomes.
    fn replace(
        &self,
        lua: &Lua,
        matcher: &Matcher<'_, mlua::Error>,
        text: &[u8],
        found: &Range<usize>,
        with: &Value,
        result: &mut Vec<u8>,
    ) -> Outcome<()> {
        let whole = text.get(found.clone()).unwrap_or_default();
        let value = match with {
            Value::String(with) => return expand(lua, matcher, text, found, &with.as_bytes(), result),
            Value::Function(function) => {
                let mut values = vec![Value::Function(function.clone())];
                captures(lua, matcher, text, found, true, &mut values)?;
                self.call(values).map_err(Failed::Ended)?
            }
            table => {
                let key = matcher.capture(0, found)?;
                let key = value_of(lua, text, &key).map_err(Failed::Ended)?;
                let field = Value::Function(self.field.clone());
                self.call(vec![field, table.clone(), key]).map_err(Failed::Ended)?
            }
        };
        match value {
            Value::Nil | Value::Boolean(false) => append(lua, result, whole),
            Value::String(value) => append(lua, result, &value.as_bytes()),
            value @ (Value::Integer(_) | Value::Number(_)) => {
                let value = lua.coerce_string(value).map_err(Failed::Ended)?;
                append(lua, result, &value.map(|value| value.as_bytes().to_vec()).unwrap_or_default())
            }
            other => {
                let text = format!("invalid replacement value (a {})", library::type_name(&other));
                Err(Failed::Ended(raised(text)))
            }
        }
    }

    /// Calls a script's function. What it raises goes on as it is.
    fn call(&self, words: Vec<Value>) -> mlua::Result<Value> {
        let mut outcome = self.protected_call.call::<MultiValue>(MultiValue::from_iter(words))?.into_iter();
        let is_done = matches!(outcome.next(), Some(Value::Boolean(true)));
        let value = outcome.next().unwrap_or(Value::Nil);
        if is_done {
            return Ok(value);
        }
        match value {
            Value::Error(error) => Err(*error),
            other => {
                self.host.raw_set(RAISED, other)?;
                Err(mlua::Error::external(Raised))
            }
        }
    }
}

/// Appends captures as values.
fn captures(
    lua: &Lua,
    matcher: &Matcher<'_, mlua::Error>,
    text: &[u8],
    found: &Range<usize>,
    whole: bool,
    values: &mut Vec<Value>,
) -> Outcome<()> {
    for index in 0..matcher.captures_len(whole) {
        let captured = matcher.capture(index, found)?;
        values.push(value_of(lua, text, &captured).map_err(Failed::Ended)?);
    }
    Ok(())
}

fn value_of(lua: &Lua, text: &[u8], captured: &Captured) -> mlua::Result<Value> {
    match captured {
        Captured::Text(range) => lua.create_string(text.get(range.clone()).unwrap_or_default())?.into_lua(lua),
        Captured::Position(place) => Ok(Value::Integer(*place as i64)),
    }
}

/// Appends a text in which `%1` stands for a capture.
fn expand(
    lua: &Lua,
    matcher: &Matcher<'_, mlua::Error>,
    text: &[u8],
    found: &Range<usize>,
    with: &[u8],
    result: &mut Vec<u8>,
) -> Outcome<()> {
    let mut rest = with;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (before, from) = rest.split_at_checked(at).unwrap_or_default();
        append(lua, result, before)?;
        // Behind the last one stands the zero that ends C's strings.
        let sign = from.get(1).copied().unwrap_or(0);
        rest = from.get(2..).unwrap_or_default();
        match sign {
            b'0' => append(lua, result, text.get(found.clone()).unwrap_or_default())?,
            b'1'..=b'9' => match matcher.capture(usize::from(sign - b'1'), found)? {
                Captured::Text(range) => append(lua, result, text.get(range).unwrap_or_default())?,
                Captured::Position(place) => append(lua, result, place.to_string().as_bytes())?,
            },
            sign => result.push(sign),
        }
    }
    append(lua, result, rest)
}

fn append(lua: &Lua, result: &mut Vec<u8>, piece: &[u8]) -> Outcome<()> {
    let len = result.len().saturating_add(piece.len());
    if len > result.capacity() {
        room_to_grow(lua, len).map_err(Failed::Ended)?;
    }
    result.extend_from_slice(piece);
    Ok(())
}

fn without_anchor(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    }
}

/// Where a search begins that is to begin at a place counted from 1, or from the end if it is negative.
fn start(place: i64, len: usize) -> usize {
    let len = len as i64;
    let place = if place < 0 { place.saturating_add(len).saturating_add(1).max(0) } else { place };
    place.saturating_sub(1).clamp(0, len).unsigned_abs() as usize
}

/// A number as C has it on the machines that Redis runs on: what does not fit is the least one.
fn truncated(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) { number as i64 } else { i64::MIN }
}

fn integer_or(lua: &Lua, words: &Arguments, index: usize, default: i64) -> mlua::Result<i64> {
    match words.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(Value::Integer(number)) => Ok(*number),
        Some(Value::Number(number)) => Ok(truncated(*number)),
        Some(other) => match lua.coerce_number(other.clone())? {
            Some(number) => Ok(truncated(number)),
            None => Err(wrong_type(lua, index, "number", Some(other))),
        },
    }
}

fn string(lua: &Lua, words: &Arguments, index: usize) -> mlua::Result<LuaString> {
    match words.get(index) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone())?.ok_or_else(|| wrong_type(lua, index, "string", Some(value)))
        }
        other => Err(wrong_type(lua, index, "string", other)),
    }
}

fn wrong_type(lua: &Lua, index: usize, expected: &str, value: Option<&Value>) -> mlua::Error {
    let found = value.map_or("no value", library::type_name);
    argument_error(lua, index, &format!("{expected} expected, got {found}"))
}

/// The error of an argument, with the name by which the function was called.
fn argument_error(lua: &Lua, index: usize, text: &str) -> mlua::Error {
    let called = lua.inspect_stack(0, |frame| {
        let names = frame.names();
        let is_method = matches!(names.name_what, Some("method"));
        (names.name.map(|name| name.into_owned()), is_method)
    });
    let (name, is_method) = called.unwrap_or_default();
    let name = name.unwrap_or_else(|| "?".into());
    match if is_method { index } else { index + 1 } {
        0 => raised(format!("calling '{name}' on bad self ({text})")),
        place => raised(format!("bad argument #{place} to '{name}' ({text})")),
    }
}
