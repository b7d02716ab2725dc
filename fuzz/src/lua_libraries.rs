//! Decoders of Lua's libraries: what has been read and written once is read and written again as the same.

use lua::{json, machine, message_pack, structure};
use mlua::{Function, Lua, Table, Value};

/// Lua with the libraries, and a function that says whether two values are the same.
struct Libraries {
    lua: Lua,
    json: Table,
    message_pack: Table,
    structure: Table,
    same: Function,
}

/// A table that is the name of a field equals no other one, so those are left out.
const SAME: &str = "local function same(a, b)
    if type(a) ~= 'table' or type(b) ~= 'table' then return a == b or (a ~= a and b ~= b) end
    for name, value in pairs(a) do
        if type(name) ~= 'table' and not same(value, b[name]) then return false end
    end
    for name in pairs(b) do if type(name) ~= 'table' and a[name] == nil then return false end end
    return true
end return same";

impl Libraries {
    fn new() -> mlua::Result<Self> {
        let lua = machine::start()?;
        Ok(Self {
            json: json::library(&lua)?,
            message_pack: message_pack::library(&lua)?,
            structure: structure::library(&lua)?,
            same: lua.load(SAME).eval()?,
            lua,
        })
    }

    /// A library may refuse to write what is too deep, too sparse or no number.
    fn round_trip(&self, library: &Table, names: [&str; 2], text: &[u8]) -> mlua::Result<()> {
        let [read, write] = names;
        let (read, write): (Function, Function) = (library.get(read)?, library.get(write)?);
        let Ok(value) = read.call::<Value>(self.lua.create_string(text)?) else { return Ok(()) };
        let Ok(written) = write.call::<mlua::LuaString>(&value) else { return Ok(()) };
        let again: Value = read.call(&written)?;
        // What has been written once has lost what the form cannot tell (digits, depth): from here on nothing is lost.
        let last: Value = read.call(write.call::<mlua::LuaString>(&again)?)?;
        let is_same: bool = self.same.call((again, last))?;
        assert!(is_same, "{} became {}", text.escape_ascii(), written.as_bytes().escape_ascii());
        Ok(())
    }

    /// A format, a zero, and bytes: whatever they are, there is an answer or an error, and no more values than a format has options.
    fn unpack(&self, text: &[u8]) -> mlua::Result<()> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let (format, bytes) = text.split_at(end);
        let unpack: Function = self.structure.get("unpack")?;
        let (format, bytes) = (self.lua.create_string(format)?, self.lua.create_string(bytes)?);
        if let Ok(values) = unpack.call::<mlua::MultiValue>((format, bytes)) {
            assert!(values.len() <= end + 1, "{} values of {}", values.len(), text.escape_ascii());
        }
        Ok(())
    }
}

thread_local! {
    static LIBRARIES: Libraries = Libraries::new().expect("Lua starts");
}

/// The first byte chooses the library; with the others it is asked to read.
pub fn decoders(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else { return };
    LIBRARIES.with(|libraries| {
        let outcome = match choice % 3 {
            0 => libraries.round_trip(&libraries.json, ["decode", "encode"], text),
            1 => libraries.round_trip(&libraries.message_pack, ["unpack", "pack"], text),
            _ => libraries.unpack(text),
        };
        assert!(outcome.is_ok(), "{}: {outcome:?}", data.escape_ascii());
    });
}
