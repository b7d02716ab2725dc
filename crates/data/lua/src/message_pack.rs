//! The library `cmsgpack`: values as MessagePack and back. Lua's strings are its strings, whatever their bytes are.

use mlua::{Lua, MultiValue, Table, Value};

use crate::library::{self, Arguments, bad_argument, raised, room_to_grow};

/// How deep tables may be; what is deeper is nil, as in cmsgpack.
const PACK_DEPTH_MAX: usize = 16;
/// How deep packed values may be: the stack ends somewhere.
const UNPACK_DEPTH_MAX: usize = 500;

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cmsgpack")?;
    table.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    library::put(lua, &table, "pack", pack)?;
    library::put_many(lua, &table, "unpack", |lua, arguments| {
        unpack(lua, &arguments, "unpack", None, 0).map(|(values, _)| MultiValue::from_iter(values))
    })?;
    library::put_many(lua, &table, "unpack_one", |lua, arguments| {
        let offset = library::number_or(lua, &arguments, 1, "unpack_one", 0.0)? as i64;
        unpack_some(lua, &arguments, "unpack_one", 1, offset)
    })?;
    library::put_many(lua, &table, "unpack_limit", |lua, arguments| {
        let limit = library::number(lua, &arguments, 1, "unpack_limit")? as i64;
        let offset = library::number_or(lua, &arguments, 2, "unpack_limit", 0.0)? as i64;
        unpack_some(lua, &arguments, "unpack_limit", limit, offset)
    })?;
    Ok(table)
}

fn pack(lua: &Lua, arguments: Arguments) -> mlua::Result<Value> {
    if arguments.is_empty() {
        return Err(bad_argument(0, "pack", "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in &arguments {
        write(lua, value, &mut out, 0)?;
    }
    lua.create_string(out).map(Value::String)
}

/// Writes a length in the shortest of its forms: within the first byte, or behind one of some bytes.
fn write_len(out: &mut Vec<u8>, len: usize, fixed: u8, fixed_len: usize, long: [Option<u8>; 3]) {
    let [byte, two, four] = long;
    match (len, byte, two, four) {
        (len, ..) if len < fixed_len => out.push(fixed | len as u8),
        (len, Some(form), ..) if len <= 0xff => out.extend([form, len as u8]),
        (len, _, Some(form), _) if len <= 0xffff => {
            out.push(form);
            out.extend((len as u16).to_be_bytes());
        }
        (len, _, _, form) => {
            out.push(form.unwrap_or_default());
            out.extend((len as u32).to_be_bytes());
        }
    }
}

fn write_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend(number.to_be_bytes());
        }
        -128..-32 => out.extend([0xd0, number as u8]),
        -32_768..-128 => {
            out.push(0xd1);
            out.extend((number as i16).to_be_bytes());
        }
        -2_147_483_648..-32_768 => {
            out.push(0xd2);
            out.extend((number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(number.to_be_bytes());
        }
    }
}

fn write_number(out: &mut Vec<u8>, number: f64) {
    const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && INTEGERS.contains(&number) {
        write_integer(out, number as i64);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend((number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.to_be_bytes());
    }
}

fn write(lua: &Lua, value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    room_to_grow(lua, out.len())?;
    match value {
        Value::Boolean(truth) => out.push(if *truth { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(out, *number),
        Value::Number(number) => write_number(out, *number),
        Value::String(text) => {
            room_to_grow(lua, out.len() + text.as_bytes().len())?;
            write_len(out, text.as_bytes().len(), 0xa0, 32, [Some(0xd9), Some(0xda), Some(0xdb)]);
            out.extend_from_slice(&text.as_bytes());
        }
        Value::Table(table) if depth < PACK_DEPTH_MAX => write_table(lua, table, out, depth)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn write_table(lua: &Lua, table: &Table, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    if let Some(len) = array_len(table)? {
        write_len(out, len, 0x90, 16, [None, Some(0xdc), Some(0xdd)]);
        for place in 1..=len {
            write(lua, &table.raw_get::<Value>(place)?, out, depth + 1)?;
        }
        return Ok(());
    }
    let mut count = 0;
    for pair in table.pairs::<Value, Value>() {
        pair?;
        count += 1;
    }
    write_len(out, count, 0x80, 16, [None, Some(0xde), Some(0xdf)]);
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        write(lua, &name, out, depth + 1)?;
        write(lua, &value, out, depth + 1)?;
    }
    Ok(())
}

/// How long a table is as an array: its keys are all numbers from 1 on. A table of nothing is an array.
fn array_len(table: &Table) -> mlua::Result<Option<usize>> {
    let (mut last, mut count) = (0_i64, 0_i64);
    for pair in table.pairs::<Value, Value>() {
        let place = match pair?.0 {
            Value::Integer(place) => place,
            Value::Number(place) if place.fract() == 0.0 => place as i64,
            _ => return Ok(None),
        };
        if place <= 0 || place > i64::from(i32::MAX) {
            return Ok(None);
        }
        last = last.max(place);
        count += 1;
    }
    Ok((last == count).then_some(count as usize))
}

/// Reads some values from a place on; the first result is the place to go on at, -1 if there is nothing more.
fn unpack_some(lua: &Lua, arguments: &Arguments, name: &str, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let len = library::string(lua, arguments, 0, name)?.as_bytes().len();
    if offset < 0 || limit < 0 {
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(raised(text));
    }
    if offset as u64 > len as u64 {
        return Err(raised(format!("Start offset {offset} greater than input length {len}.")));
    }
    if limit == 0 && offset == 0 {
        return unpack(lua, arguments, name, None, 0).map(|(values, _)| MultiValue::from_iter(values));
    }
    let (values, left) = unpack(lua, arguments, name, Some(limit as u64), offset as usize)?;
    let next = if left == 0 { -1 } else { (len - left) as i64 };
    Ok(MultiValue::from_iter(std::iter::once(Value::Integer(next)).chain(values)))
}

/// Reads values; gives how many bytes are left too.
fn unpack(
    lua: &Lua,
    arguments: &Arguments,
    name: &str,
    limit: Option<u64>,
    offset: usize,
) -> mlua::Result<(Vec<Value>, usize)> {
    let text = library::string(lua, arguments, 0, name)?;
    let bytes = text.as_bytes();
    let mut reader = Reader { lua, rest: bytes.get(offset..).unwrap_or_default() };
    let mut values = Vec::new();
    while !reader.rest.is_empty() && limit.is_none_or(|limit| (values.len() as u64) < limit) {
        values.push(reader.value(0)?);
    }
    Ok((values, reader.rest.len()))
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn bytes(&mut self, len: usize) -> mlua::Result<&[u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| raised("Missing bytes in input."))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> mlua::Result<[u8; LEN]> {
        self.bytes(LEN)?.try_into().map_err(|_| raised("Missing bytes in input."))
    }

    fn len<const LEN: usize>(&mut self) -> mlua::Result<usize> {
        Ok(self.array::<LEN>()?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    fn text(&mut self, len: usize) -> mlua::Result<Value> {
        let lua = self.lua;
        lua.create_string(self.bytes(len)?).map(Value::String)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        if depth > UNPACK_DEPTH_MAX {
            return Err(raised("too many nested values in input."));
        }
        let integer = |number: i64| Ok(Value::Number(number as f64));
        let [form] = self.array::<1>()?;
        match form {
            0..=0x7f => integer(i64::from(form)),
            0xe0.. => integer(i64::from(form as i8)),
            0xa0..=0xbf => self.text(usize::from(form & 0x1f)),
            0x90..=0x9f => self.list(usize::from(form & 0xf), depth),
            0x80..=0x8f => self.map(usize::from(form & 0xf), depth),
            0xcc => integer(i64::from(self.array::<1>().map(u8::from_be_bytes)?)),
            0xcd => integer(i64::from(self.array().map(u16::from_be_bytes)?)),
            0xce => integer(i64::from(self.array().map(u32::from_be_bytes)?)),
            // What is above the greatest signed number becomes negative, as in cmsgpack.
            0xcf | 0xd3 => integer(self.array().map(i64::from_be_bytes)?),
            0xd0 => integer(i64::from(self.array().map(i8::from_be_bytes)?)),
            0xd1 => integer(i64::from(self.array().map(i16::from_be_bytes)?)),
            0xd2 => integer(i64::from(self.array().map(i32::from_be_bytes)?)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => Ok(Value::Number(f64::from(self.array().map(f32::from_be_bytes)?))),
            0xcb => Ok(Value::Number(self.array().map(f64::from_be_bytes)?)),
            0xd9 => {
                let len = self.len::<1>()?;
                self.text(len)
            }
            0xda => {
                let len = self.len::<2>()?;
                self.text(len)
            }
            0xdb => {
                let len = self.len::<4>()?;
                self.text(len)
            }
            0xdc => {
                let len = self.len::<2>()?;
                self.list(len, depth)
            }
            0xdd => {
                let len = self.len::<4>()?;
                self.list(len, depth)
            }
            0xde => {
                let len = self.len::<2>()?;
                self.map(len, depth)
            }
            0xdf => {
                let len = self.len::<4>()?;
                self.map(len, depth)
            }
            _ => Err(raised("Bad data format in input.")),
        }
    }

    fn list(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for place in 1..=len {
            table.raw_set(place, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let name = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match name {
                Value::Nil => return Err(raised("table index is nil")),
                Value::Number(number) if number.is_nan() => return Err(raised("table index is NaN")),
                name => table.raw_set(name, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
