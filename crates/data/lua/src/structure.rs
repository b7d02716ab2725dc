//! The library `struct`: values as C's structures have them in memory, and back.
//!
//! A format is a row of options: `b B h H l L T i[n] I[n]` are integers (capitals without a sign), `f d` floats, `s` a string
//! that ends with a zero, `c[n]` bytes, `x` a byte of padding; `<` and `>` choose the order of bytes, `![n]` the alignment.

use mlua::{Lua, MultiValue, Table, Value};

use crate::library::{self, Arguments, bad_argument, raised};

/// The largest integers, in bytes.
const INTEGER_LEN_MAX: usize = 32;
/// The alignment of doubles, which `!` alone asks for.
const ALIGN_NATIVE: i32 = 8;

/// Makes the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    library::put(lua, &table, "pack", pack)?;
    library::put_many(lua, &table, "unpack", unpack)?;
    library::put(lua, &table, "size", size)?;
    Ok(table)
}

/// A format that is being read.
struct Format<'a> {
    rest: &'a [u8],
    big: bool,
    align: usize,
}

/// An option with its size and the padding in front of it.
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Self {
        // A zero ends it, as it ends C's strings.
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Self { rest: text.get(..end).unwrap_or_default(), big: false, align: 1 }
    }

    fn number(&mut self, default: i32) -> mlua::Result<i32> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        digits.parse().map_err(|_| raised("integral size overflow"))
    }

    /// The next option, at a place of the structure.
    fn next(&mut self, at: usize) -> mlua::Result<Option<Item>> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)? as usize,
            b'i' | b'I' => {
                let size = self.number(4)? as usize;
                if size > INTEGER_LEN_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_LEN_MAX}");
                    return Err(raised(text));
                }
                size
            }
            _ => 0,
        };
        let padding = if size == 0 || *option == b'c' {
            0
        } else {
            let unit = size.min(self.align);
            unit.wrapping_sub(at & unit.wrapping_sub(1)) & unit.wrapping_sub(1)
        };
        Ok(Some(Item { option: *option, size, padding }))
    }

    /// An option that is no value.
    fn control(&mut self, option: u8, name: &str) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big = true,
            b'<' => self.big = false,
            b'!' => {
                let align = self.number(ALIGN_NATIVE)?;
                if align <= 0 || align & (align - 1) != 0 {
                    return Err(raised(format!("alignment {align} is not a power of 2")));
                }
                self.align = align as usize;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(bad_argument(1, name, &text));
            }
        }
        Ok(())
    }
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

fn put_ordered(out: &mut Vec<u8>, mut bytes: Vec<u8>, big: bool) {
    if big {
        bytes.reverse();
    }
    out.extend_from_slice(&bytes);
}

fn pack(lua: &Lua, arguments: Arguments) -> mlua::Result<Value> {
    const NAME: &str = "pack";
    let text = library::string(lua, &arguments, 0, NAME)?;
    let text = text.as_bytes();
    let mut format = Format::new(&text);
    let mut out = Vec::new();
    let mut next = 1;
    let mut argument = || {
        next += 1;
        next - 1
    };
    while let Some(Item { option, size, padding }) = format.next(out.len())? {
        out.resize(out.len() + padding, 0);
        match option {
            option if is_integer(option) => {
                let number = library::number(lua, &arguments, argument(), NAME)?;
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                put_ordered(&mut out, bytes, format.big);
            }
            b'x' => out.push(0),
            b'f' => {
                let number = library::number(lua, &arguments, argument(), NAME)? as f32;
                put_ordered(&mut out, number.to_le_bytes().to_vec(), format.big);
            }
            b'd' => {
                let number = library::number(lua, &arguments, argument(), NAME)?;
                put_ordered(&mut out, number.to_le_bytes().to_vec(), format.big);
            }
            b'c' | b's' => {
                let index = argument();
                let bytes = library::string(lua, &arguments, index, NAME)?;
                let bytes = bytes.as_bytes();
                let len = if size == 0 { bytes.len() } else { size };
                let kept = bytes.get(..len).ok_or_else(|| bad_argument(index + 2, NAME, "string too short"))?;
                out.extend_from_slice(kept);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other, NAME)?,
        }
    }
    lua.create_string(out).map(Value::String)
}

/// The lowest 64 bits of an integer, with its sign spread as C does it.
fn integer(bytes: &[u8], big: bool, signed: bool) -> f64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) };
    if !signed {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
    (if value & mask != 0 { value | mask } else { value }) as i64 as f64
}

fn unpack(lua: &Lua, arguments: Arguments) -> mlua::Result<MultiValue> {
    const NAME: &str = "unpack";
    let text = library::string(lua, &arguments, 0, NAME)?;
    let text = text.as_bytes();
    let data = library::string(lua, &arguments, 1, NAME)?;
    let data = data.as_bytes();
    let start = library::number_or(lua, &arguments, 2, NAME, 1.0)? as i64;
    if start == 0 {
        return Err(bad_argument(3, NAME, "offset must be 1 or greater"));
    }
    let short = || bad_argument(2, NAME, "data string too short");
    let mut at = usize::try_from(start - 1).unwrap_or(usize::MAX / 2);
    let mut format = Format::new(&text);
    let mut values: Vec<Value> = Vec::new();
    while let Some(Item { option, size, padding }) = format.next(at)? {
        at += padding;
        let mut len = size;
        let bytes = at.checked_add(size).and_then(|end| data.get(at..end)).ok_or_else(short)?;
        match option {
            option if is_integer(option) => {
                values.push(Value::Number(integer(bytes, format.big, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let bytes: [u8; 4] = bytes.try_into().map_err(|_| short())?;
                let number = if format.big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) };
                values.push(Value::Number(f64::from(number)));
            }
            b'd' => {
                let bytes: [u8; 8] = bytes.try_into().map_err(|_| short())?;
                let number = if format.big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) };
                values.push(Value::Number(number));
            }
            b'c' => {
                let mut bytes = bytes;
                if size == 0 {
                    let before = values.pop().and_then(|value| lua.coerce_number(value).ok().flatten());
                    let before = before.ok_or_else(|| raised("format 'c0' needs a previous size"))?;
                    len = if before < 0.0 { usize::MAX / 2 } else { before as usize };
                    bytes = at.checked_add(len).and_then(|end| data.get(at..end)).ok_or_else(short)?;
                }
                values.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| raised("unfinished string in data"))?;
                len = end + 1;
                values.push(Value::String(lua.create_string(rest.get(..end).unwrap_or_default())?));
            }
            other => format.control(other, NAME)?,
        }
        at += len;
    }
    values.push(Value::Number((at as u64).wrapping_add(1) as f64));
    Ok(MultiValue::from_iter(values))
}

fn size(lua: &Lua, arguments: Arguments) -> mlua::Result<Value> {
    const NAME: &str = "size";
    let text = library::string(lua, &arguments, 0, NAME)?;
    let text = text.as_bytes();
    let mut format = Format::new(&text);
    let mut at = 0_usize;
    while let Some(Item { option, size, padding }) = format.next(at)? {
        match option {
            b's' => return Err(bad_argument(1, NAME, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(bad_argument(1, NAME, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(option, NAME)?,
            _ => {}
        }
        at = at.saturating_add(padding).saturating_add(size);
    }
    Ok(Value::Number(at as f64))
}
