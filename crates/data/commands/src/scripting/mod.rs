//! Scripts in Lua 5.1, as Redis has them.
//!
//! A script runs whole, between two commands, on the keys of this shard; what it calls are ordinary commands, and their effects
//! are what is propagated. Its surroundings are in `prelude.lua`: nothing of the operating system, no globals to write, tables
//! that cannot be changed. How long it may run and how much memory it may take is bounded.

mod bit;
mod json;
mod message_pack;
mod values;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use mlua::{
    Function, HookTriggers, IntoLua as _, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState,
};
use resp::{Protocol, Reply};
use sha1::{Digest as _, Sha1};

use crate::{Bytes, Failure, Server, Session, SessionId, number, table::Flags};

pub use values::{reply_to_lua, write_value};

/// Memory of all scripts.
const MEMORY_MAX: usize = 256 * 1024 * 1024;
/// Instructions between looks at the clock.
const LOOK_EACH: u32 = 100_000;
/// The name of a script's chunk, which stands in errors.
const CHUNK: &str = "@user_script";

/// How many levels of calls are looked at for the line of an error.
const LEVELS_MAX: usize = 32;

/// A compiled script.
#[derive(Debug, Clone)]
struct Script {
    body: Bytes,
    function: Function,
    flags: ScriptFlags,
}

/// What the first line of a script says (`#!lua flags=...`).
#[derive(Debug, Clone, Copy, Default)]
struct ScriptFlags {
    no_writes: bool,
    allow_oom: bool,
}

/// The scripts that are known, and the machine that runs them.
pub struct Scripts {
    lua: Lua,
    run: Function,
    by_digest: HashMap<String, Script>,
    /// The protocol that `redis.setresp` chose.
    protocol: Rc<Cell<Protocol>>,
}

impl std::fmt::Debug for Scripts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Scripts").field("len", &self.by_digest.len()).finish_non_exhaustive()
    }
}

/// The SHA-1 of a script in hexadecimal digits: its name.
pub fn digest(body: &[u8]) -> String {
    Sha1::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn broken(error: &mlua::Error) -> Failure {
    Failure::owned(format!("ERR the machine of scripts failed: {error}").replace(['\r', '\n'], " "))
}

impl Scripts {
    /// A machine without scripts.
    ///
    /// # Errors
    ///
    /// Lua could not be started.
    pub fn new() -> Result<Self, Failure> {
        let protocol = Rc::new(Cell::new(Protocol::Resp2));
        let (lua, run) = start(&protocol).map_err(|error| broken(&error))?;
        Ok(Self { lua, run, by_digest: HashMap::new(), protocol })
    }

    /// Forgets all scripts.
    pub fn flush(&mut self) {
        self.by_digest.clear();
    }

    /// Whether a script is known.
    pub fn contains(&self, digest: &str) -> bool {
        self.by_digest.contains_key(&digest.to_ascii_lowercase())
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Compiles a script, if it is not known yet. Returns its digest.
    ///
    /// # Errors
    ///
    /// It is not Lua.
    pub fn load(&mut self, body: &[u8]) -> Result<String, Failure> {
        let digest = digest(body);
        if !self.by_digest.contains_key(&digest) {
            let (flags, source) = flags_of(body)?;
            let compiled = self.lua.load(source).set_name(CHUNK).set_mode(mlua::chunk::ChunkMode::Text).into_function();
            let function = compiled.map_err(|error| {
                let text = first_line(&error.to_string());
                let text = text.strip_prefix("syntax error: ").unwrap_or(&text).to_owned();
                Failure::owned(format!("ERR Error compiling script (new function): {text}"))
            })?;
            self.by_digest.insert(digest.clone(), Script { body: Bytes::from_slice(body), function, flags });
        }
        Ok(digest)
    }

    /// The text of a script.
    pub fn body(&self, digest: &str) -> Option<&Bytes> {
        self.by_digest.get(digest).map(|script| &script.body)
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Reads `#!lua name=... flags=a,b` off a script. The line stays, as an empty one, so that lines keep their numbers.
fn flags_of(body: &[u8]) -> Result<(ScriptFlags, Vec<u8>), Failure> {
    let mut flags = ScriptFlags::default();
    let Some(rest) = body.strip_prefix(b"#!") else { return Ok((flags, body.to_vec())) };
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or(Failure::text("ERR Invalid script shebang"))?;
    let (line, source) = rest.split_at(end);
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some("lua") {
        return Err(Failure::text("ERR Unexpected engine in script shebang: only lua is there"));
    }
    for word in words {
        let Some(list) = word.strip_prefix("flags=") else {
            return Err(Failure::owned(format!("ERR Unknown lua shebang option: {word}")));
        };
        for flag in list.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => flags.no_writes = true,
                "allow-oom" => flags.allow_oom = true,
                "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => return Err(Failure::owned(format!("ERR Unexpected flag in script shebang: {flag}"))),
            }
        }
    }
    Ok((flags, source.to_vec()))
}

fn start(protocol: &Rc<Cell<Protocol>>) -> mlua::Result<(Lua, Function)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default().catch_rust_panics(true))?;
    lua.set_memory_limit(MEMORY_MAX)?;
    let host = lua.create_table()?;
    host.set("version", crate::REDIS_VERSION)?;
    host.set("version_number", 0x0007_000f)?;
    let sha1hex = |_: &Lua, text: LuaString| Ok(digest(&text.as_bytes()));
    host.set("sha1hex", lua.create_function(sha1hex)?)?;
    let chosen = Rc::clone(protocol);
    let setresp = move |_: &Lua, version: i64| {
        chosen.set(match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(mlua::Error::runtime("RESP version must be 2 or 3.")),
        });
        Ok(())
    };
    host.set("setresp", lua.create_function(setresp)?)?;
    host.set("log", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    let loadstring = |lua: &Lua, (source, name): (LuaString, Option<LuaString>)| {
        let name = name.map_or_else(|| "=loadstring".to_owned(), |name| name.to_string_lossy());
        let chunk = lua.load(source.as_bytes().to_vec()).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
        match chunk.into_function() {
            Ok(function) => Ok((Value::Function(function), Value::Nil)),
            Err(error) => Ok((Value::Nil, first_line(&error.to_string()).into_lua(lua)?)),
        }
    };
    host.set("loadstring", lua.create_function(loadstring)?)?;
    host.set("line", lua.create_function(|lua, ()| Ok(line_of_script(lua)))?)?;
    let describe = |lua: &Lua, value: Value| {
        let Value::Error(error) = value else { return Ok(None) };
        let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<CallFailure>()) else {
            return Ok(None);
        };
        let table = lua.create_table()?;
        table.set("err", failure.text.as_str())?;
        table.set("line", failure.line)?;
        Ok(Some(table))
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
    host.set("cjson", json::library(&lua)?)?;
    host.set("cmsgpack", message_pack::library(&lua)?)?;
    host.set("bit", bit::library(&lua)?)?;
    let run: Function = lua.load(include_str!("prelude.lua")).set_name("@prelude").call(host.clone())?;
    lua.set_named_registry_value(HOST, host)?;
    Ok((lua, run))
}

/// The line of the script that runs: what it has called stands above it.
fn line_of_script(lua: &Lua) -> Option<usize> {
    let of_script = |frame: &mlua::debug::Debug<'_>| {
        let is_script = frame.source().source.is_some_and(|source| source == CHUNK);
        is_script.then(|| frame.current_line()).flatten()
    };
    (1..LEVELS_MAX).find_map(|level| lua.inspect_stack(level, of_script).flatten())
}

/// A command failed that a script called by `redis.call`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
struct CallFailure {
    text: String,
    /// The script's line.
    line: Option<usize>,
}

/// Where the table of the host's functions is kept.
const HOST: &str = "host";

/// What a script that runs may do.
#[derive(Debug, Clone, Copy)]
pub struct Rights {
    /// It may not write: `EVAL_RO`.
    pub read_only: bool,
}

impl Server {
    /// Runs `EVAL`, `EVALSHA` and their kin.
    pub(crate) fn evaluate(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
    ) -> Result<(), Failure> {
        let word = |index: usize| words.get(index).copied().unwrap_or_default();
        let name = String::from_utf8_lossy(word(0)).to_ascii_uppercase();
        let rights = Rights { read_only: name.ends_with("_RO") };
        let count = number::integer(word(2))?;
        if count < 0 {
            return Err(Failure::text("ERR Number of keys can't be negative"));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let rest = words.get(3..).unwrap_or_default();
        let (keys, arguments) = rest
            .split_at_checked(count)
            .ok_or(Failure::text("ERR Number of keys can't be greater than number of args"))?;
        let mut scripts = match self.shared.scripts.take() {
            Some(scripts) => scripts,
            None => Box::new(Scripts::new()?),
        };
        let outcome = if name.starts_with("EVALSHA") {
            let digest = String::from_utf8_lossy(word(1)).to_ascii_lowercase();
            if scripts.contains(&digest) {
                Ok(digest)
            } else {
                Err(Failure::text("NOSCRIPT No matching script. Please use EVAL."))
            }
        } else {
            scripts.load(word(1))
        };
        let outcome =
            outcome.and_then(|digest| self.run_script(&scripts, &digest, rights, session, output, keys, arguments));
        self.shared.scripts = Some(scripts);
        outcome
    }

    #[expect(clippy::too_many_arguments, reason = "a script, who runs it, and what it is given")]
    fn run_script(
        &mut self,
        scripts: &Scripts,
        digest: &str,
        rights: Rights,
        session: &mut Session,
        output: &mut Vec<u8>,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<(), Failure> {
        let Some(script) = scripts.by_digest.get(digest) else { return Err(Failure::NoSuchKey) };
        let rights = Rights { read_only: rights.read_only || script.flags.no_writes };
        let lua = &scripts.lua;
        scripts.protocol.set(Protocol::Resp2);
        let limit_ms = u64::try_from(self.shared.settings.lua_time_limit.0).unwrap_or(0);
        let begin = (self.shared.stopwatch)();
        let wrote = Rc::new(Cell::new(false));
        let stopwatch = Rc::clone(&self.shared.stopwatch);
        let has_written = Rc::clone(&wrote);
        let look = move |_: &Lua, _: &mlua::debug::Debug<'_>| {
            let elapsed_ms = stopwatch().saturating_sub(begin) / 1000;
            if limit_ms > 0 && elapsed_ms > limit_ms && !has_written.get() {
                return Err(mlua::Error::runtime(
                    "the script ran longer than busy-reply-threshold without a write, and was stopped",
                ));
            }
            Ok(VmState::Continue)
        };
        let failed = |error: mlua::Error| broken(&error);
        lua.set_hook(HookTriggers::new().every_nth_instruction(LOOK_EACH), look).map_err(failed)?;
        let group = self.effects().begin();
        let mut inner = Session::new(SessionId(session.id.0), self.now());
        inner.db = session.db;
        inner.internal = true;
        inner.deny_blocking = true;
        if session.restricted {
            inner.restricted = true;
            inner.user.clone_from(&session.user);
            inner.address.clone_from(&session.address);
            inner.local_address.clone_from(&session.local_address);
            inner.name.clone_from(&session.name);
        }
        let protocol = Rc::clone(&scripts.protocol);
        let caller = RefCell::new((&mut *self, inner));
        let run = |lua: &Lua, words: MultiValue| {
            let mut guard = caller.try_borrow_mut().map_err(|_| mlua::Error::runtime("scripts cannot call scripts"))?;
            let (server, inner) = &mut *guard;
            inner.protocol = protocol.get();
            server.call_from_script(lua, inner, words, rights, &wrote)
        };
        let run = &run;
        let outcome = lua.scope(|scope| {
            let call = scope.create_function_mut(move |lua, words: MultiValue| match run(lua, words)? {
                (true, Value::Table(failed)) => {
                    let text: LuaString = failed.get("err")?;
                    let failure = CallFailure { text: text.to_string_lossy(), line: line_of_script(lua) };
                    Err(mlua::Error::external(failure))
                }
                (_, value) => Ok(value),
            })?;
            let pcall =
                scope.create_function_mut(move |lua, words: MultiValue| run(lua, words).map(|(_, value)| value))?;
            let host: Table = lua.named_registry_value(HOST)?;
            let redis: Table = host.raw_get("redis")?;
            redis.raw_set("call", call)?;
            redis.raw_set("pcall", pcall)?;
            let list = |words: &[&[u8]]| {
                let strings = words.iter().map(|word| lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?;
                lua.create_sequence_from(strings)
            };
            scripts.run.call::<(bool, Value)>((script.function.clone(), list(keys)?, list(arguments)?))
        });
        lua.remove_hook();
        let (server, _) = caller.into_inner();
        server.end_effects(group);
        match outcome {
            Ok((true, value)) => {
                let mut reply = Reply::new(output, session.protocol);
                write_value(&mut reply, &value, 0);
                Ok(())
            }
            Ok((false, value)) => Err(failure_of(&value, digest)),
            Err(error) => Err(Failure::owned(format!("ERR {} script: {digest}", first_line(&error.to_string())))),
        }
    }

    /// Runs a command for a script. Gives whether it failed, and its reply as Lua has it.
    fn call_from_script(
        &mut self,
        lua: &Lua,
        session: &mut Session,
        words: MultiValue,
        rights: Rights,
        wrote: &Cell<bool>,
    ) -> mlua::Result<(bool, Value)> {
        let error = |text: String| {
            let table = lua.create_table()?;
            table.set("err", text)?;
            Ok((true, Value::Table(table)))
        };
        let mut texts: Vec<Bytes> = Vec::with_capacity(words.len());
        for word in words {
            match word {
                Value::String(text) => texts.push(Bytes::from_slice(&text.as_bytes())),
                Value::Integer(number) => texts.push(number::integer_bytes(number)),
                Value::Number(number) => texts.push(Bytes::from_slice(values::number_text(number).as_bytes())),
                _ => return error("ERR Lua redis lib command arguments must be strings or integers".into()),
            }
        }
        if texts.is_empty() {
            return error("ERR Please specify at least one argument for this redis.call() call".into());
        }
        let words: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
        let Some(found) = self.shared.table.find(&words) else {
            return error("ERR Unknown Redis command called from script".into());
        };
        if !found.command.takes(words.len()) {
            return error("ERR Wrong number of args calling Redis command from script".into());
        }
        let flags = found.command.flags;
        if flags.contains(Flags::NOSCRIPT) {
            return error("ERR This Redis command is not allowed from script".into());
        }
        if let Err(reason) = self.check_script(session, found, &words) {
            return error(reason);
        }
        if flags.contains(Flags::WRITE) && rights.read_only {
            return error("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if let Some(reason) = self.shared.refuse_writes.clone().filter(|_| flags.contains(Flags::WRITE)) {
            return error(reason);
        }
        if self.shared.memory_full && flags.contains(Flags::DENYOOM) && !wrote.get() {
            return error("OOM command not allowed when used memory > 'maxmemory'.".into());
        }
        if flags.contains(Flags::WRITE) {
            wrote.set(true);
        }
        let mut output = Vec::new();
        self.call(session, &mut output, &words);
        let failed = output.first() == Some(&b'-');
        Ok((failed, reply_to_lua(lua, &output)?))
    }
}

/// The error reply of what a script raised.
fn failure_of(value: &Value, digest: &str) -> Failure {
    let Value::Table(table) = value else { return Failure::text("ERR unknown error of a script") };
    let text: Option<LuaString> = table.get("err").ok();
    let text = text.map_or_else(|| "ERR unknown error".to_owned(), |text| text.to_string_lossy());
    let text = first_line(text.strip_prefix('-').unwrap_or(&text));
    match table.get::<Option<usize>>("line") {
        Ok(Some(line)) => Failure::owned(format!("{text} script: {digest}, on {CHUNK}:{line}.")),
        _ => Failure::owned(format!("{text} script: {digest}")),
    }
}
