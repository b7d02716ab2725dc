//! Lua in bounds: how it is started, what stops it, and how errors are told.
//!
//! A machine has a table of the host's own, kept under a name of the registry. What stops a script leaves its reason there, so
//! that nothing in the script can catch it for good.

use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};

use crate::{bit, json, library, message_pack, patterns, random::ScriptRandom, structure};

/// Instructions between looks at the clock.
const LOOK_EACH: u32 = 100_000;
/// How many levels of calls are looked at for the line of an error.
const LEVELS_MAX: usize = 32;
/// How much of a text is its name.
const NAME_LEN_MAX: usize = 200;
/// The name of the function that is asked each now and then whether a script is to be stopped.
const PAUSE: &str = "pause";
/// The name under which Lua's own function that compiles is kept.
const COMPILER: &str = "compiler";
/// What a text begins with that is no source.
const BINARY_FIRST: u8 = 0x1b;
/// The name under which the host's table is kept.
const HOST: &str = "host";

/// Lua with the libraries that reach nothing outside of it, and a bound of its memory.
///
/// # Errors
///
/// Lua could not be started.
pub fn start() -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default().catch_rust_panics(true))?;
    lua.set_memory_limit(library::MEMORY_MAX)?;
    lua.set_named_registry_value(COMPILER, lua.globals().raw_get::<Function>("loadstring")?)?;
    Ok(lua)
}

/// Has a machine look each now and then, in all of its threads, whether what runs has to end: coroutines are watched too.
///
/// # Errors
///
/// Lua has no memory left.
pub fn watch(lua: &Lua, look: patterns::Look) -> mlua::Result<()> {
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(LOOK_EACH), move |lua, _| {
        look(lua).map(|()| VmState::Continue)
    })
}

/// Remembers the host's table.
///
/// # Errors
///
/// Lua has no memory left.
pub fn keep_host(lua: &Lua, host: &Table) -> mlua::Result<()> {
    lua.set_named_registry_value(HOST, host)
}

/// Sets the function that says whether what runs is to stop.
///
/// # Errors
///
/// Lua has no memory left.
pub fn set_pause(lua: &Lua, pause: Function) -> mlua::Result<()> {
    lua.set_named_registry_value(PAUSE, pause)
}

/// Asks whether what runs is to stop.
pub fn is_to_stop(lua: &Lua) -> mlua::Result<bool> {
    match lua.named_registry_value::<Option<Function>>(PAUSE)? {
        Some(pause) => pause.call(()),
        None => Ok(false),
    }
}

/// The error that stops what runs, and that nothing in it can catch for good.
pub fn stop(lua: &Lua, reason: &'static str) -> mlua::Error {
    let marked = lua.named_registry_value::<Table>(HOST).and_then(|host| host.raw_set("stopped", reason));
    marked.err().unwrap_or_else(|| mlua::Error::runtime(reason))
}

/// Puts into the host's table what a prelude needs to close the machine: compiling by source alone, the place of the chunk that
/// runs, what errors say, the lock of strings' methods, random numbers, strings that can be stopped, and the libraries.
///
/// # Errors
///
/// Lua has no memory left.
pub fn put(lua: &Lua, host: &Table, chunk: &'static str, look: patterns::Look) -> mlua::Result<()> {
    host.set("loadstring", lua.create_function(load_string)?)?;
    host.set("line", lua.create_function(move |lua, ()| Ok(place_of_chunk(lua, chunk)))?)?;
    let describe = |lua: &Lua, value: Value| match value {
        Value::Error(error) => {
            let refused = error.chain().find_map(|cause| cause.downcast_ref::<library::Refused>());
            let raised = error.chain().any(|cause| cause.is::<patterns::Raised>());
            let counted = refused.is_some_and(|refused| refused.is_counted).then_some(true);
            let text = refused.map(|refused| lua.create_string(&refused.text)).transpose()?;
            Ok((text, Some(message_of(&error)), raised, counted))
        }
        _ => Ok((None, None, false, None)),
    };
    host.set("describe", lua.create_function(describe)?)?;
    let lock_strings = |lua: &Lua, methods: Table| {
        let metatable = lua.create_table()?;
        metatable.set("__index", methods)?;
        metatable.set("__metatable", false)?;
        lua.set_type_metatable::<LuaString>(Some(metatable));
        Ok(())
    };
    host.set("lock_strings", lua.create_function(lock_strings)?)?;
    ScriptRandom::put(lua, host)?;
    host.set("cjson", json::library(lua)?)?;
    host.set("cmsgpack", message_pack::library(lua)?)?;
    host.set("bit", bit::library(lua)?)?;
    host.set("struct", structure::library(lua)?)?;
    put_strings(lua, host, look)
}

/// Puts what replaces functions of Lua's strings, which nothing could stop.
fn put_strings(lua: &Lua, host: &Table, look: patterns::Look) -> mlua::Result<()> {
    let strings = lua.create_table()?;
    library::put(lua, &strings, "rep", repeat)?;
    patterns::put(lua, host, &strings, look)?;
    host.set("string", strings)
}

/// `string.rep`. Lua's own adds piece by piece, also where there is nothing to add, and nothing stops it.
fn repeat(lua: &Lua, arguments: library::Arguments) -> mlua::Result<Value> {
    let text = library::string(lua, &arguments, 0, "rep")?;
    let count = library::number(lua, &arguments, 1, "rep")?.max(0.0) as usize;
    let len = text.as_bytes().len();
    library::room_for(lua, len.saturating_mul(count))?;
    let repeated = if len == 0 { Vec::new() } else { text.as_bytes().repeat(count) };
    lua.create_string(repeated).map(Value::String)
}

fn load_string(lua: &Lua, (source, name): (LuaString, Option<LuaString>)) -> mlua::Result<(Value, Value)> {
    // Lua shows a text's beginning where it has no name.
    let name = name.unwrap_or_else(|| source.clone());
    let name = name.as_bytes();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(match compile(lua, &source.as_bytes(), name.get(..NAME_LEN_MAX).unwrap_or(name)) {
        Ok(function) => (Value::Function(function), Value::Nil),
        Err(text) => (Value::Nil, Value::String(lua.create_string(text)?)),
    })
}

/// Compiles source, and nothing but source. By Lua's own function: what it says of an error is the bytes that it met, whether they are
/// UTF-8 or not. Lua 5.1's compiler does not hold on to the name of what it compiles, so that collecting garbage meanwhile could take it
/// away (CVE-2025-49844); as an argument of that function it stays.
///
/// # Errors
///
/// Why it does not compile.
pub fn compile(lua: &Lua, source: &[u8], name: &[u8]) -> Result<Function, Vec<u8>> {
    let compiled = (|| {
        if source.first() == Some(&BINARY_FIRST) {
            let text = lua.load(source).set_mode(mlua::chunk::ChunkMode::Text);
            return text.into_function().map(|function| (Value::Function(function), None));
        }
        let compiler: Function = lua.named_registry_value(COMPILER)?;
        compiler.call::<(Value, Option<LuaString>)>((lua.create_string(source)?, lua.create_string(name)?))
    })();
    match compiled {
        Ok((Value::Function(function), _)) => Ok(function),
        Ok((_, text)) => Err(text.map(|text| text.as_bytes().to_vec()).unwrap_or_default()),
        Err(error) => Err(message_of(&error).into_bytes()),
    }
}

/// The first line of an error's text: Lua appends where it was on the stack.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What an error says, as Lua itself would have it: one line, without the kind of error in front.
pub fn message_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
            text.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::CallbackError { cause, .. } => message_of(cause),
        mlua::Error::BadArgument { cause, .. } => message_of(cause),
        other => first_line(&other.to_string()).to_owned(),
    }
}

/// The chunk of a name and its line that runs: what it has called stands above it.
fn place_of_chunk(lua: &Lua, chunk: &str) -> (Option<String>, Option<usize>) {
    let of_chunk = |frame: &mlua::debug::Debug<'_>| {
        let is_chunk = frame.source().source.is_some_and(|source| source == chunk);
        is_chunk.then(|| frame.current_line()).flatten()
    };
    let line = (1..LEVELS_MAX).find_map(|level| lua.inspect_stack(level, of_chunk).flatten());
    (line.map(|_| chunk.to_owned()), line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_compiler_keep_their_bytes() {
        let lua = start().unwrap();
        for (source, name, expected) in [
            (b"x = \xff\xfe".as_slice(), b"@name".as_slice(), b"name:1: unexpected symbol near '\xff'".as_slice()),
            (b"x = =", b"x\xff", b"[string \"x\xff\"]:1: unexpected symbol near '='"),
            (b"return 'a\xff\n", b"=n", b"n:1: unfinished string near ''a\xff'"),
        ] {
            assert_eq!(compile(&lua, source, name).unwrap_err(), expected);
        }
        assert!(compile(&lua, b"\x1bLua", b"=n").is_err(), "source alone is compiled");
        assert_eq!(compile(&lua, b"return 1 + 1", b"=n").unwrap().call::<i64>(()).unwrap(), 2);
    }
}
