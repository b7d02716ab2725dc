//! A machine that runs Lua: scripts have one, libraries of functions another.

use std::{cell::Cell, cell::RefCell, rc::Rc};

use mlua::{
    Function, HookTriggers, IntoLua as _, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState,
};
use resp::Protocol;

use super::{
    bit, functions::Registered, json, library, message_pack, patterns, random::ScriptRandom, structure, values,
};
use crate::{Failure, server::Stopwatch};

/// Memory of a machine. A script that needs more fails.
pub const MEMORY_MAX: usize = 256 * 1024 * 1024;
/// A machine that has more than this after a script failed is cleaned at once.
const MEMORY_CLEAN: usize = MEMORY_MAX / 2;
/// Instructions between looks at the clock.
const LOOK_EACH: u32 = 100_000;
/// How long loading a library may take, in microseconds.
const LOAD_US_MAX: u64 = 500_000;
/// How many levels of calls are looked at for the line of an error.
const LEVELS_MAX: usize = 32;
/// How much of a text is its name.
const NAME_LEN_MAX: usize = 200;
/// The name of the function that is asked each now and then whether a script is to be stopped.
const PAUSE: &str = "pause";
/// The name under which the host's table is kept.
const HOST: &str = "host";
/// What a script that is stopped finds as its error.
const STOPPED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// What a machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Scripts of `EVAL`.
    Scripts,
    /// Libraries of functions.
    Functions,
}

impl Kind {
    /// The name of its chunks, which stands in errors.
    pub const fn chunk(self) -> &'static str {
        match self {
            Self::Scripts => "@user_script",
            Self::Functions => "@user_function",
        }
    }
}

/// Lua with what scripts find around them.
pub struct Machine {
    /// The machine.
    pub(super) lua: Lua,
    kind: Kind,
    asked: Rc<Asked>,
    evaluate: Function,
    call: Function,
    load: Function,
    /// The protocol that `redis.setresp` chose.
    pub(super) protocol: Rc<Cell<Protocol>>,
    /// Since when a library is being loaded, and whether it may take as long as it wants.
    loading: Rc<Cell<Option<u64>>>,
    /// The functions that it has registered.
    registered: Rc<RefCell<Vec<Registered>>>,
    stopwatch: Stopwatch,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Machine").field("memory", &self.lua.used_memory()).finish_non_exhaustive()
    }
}

fn broken(error: &mlua::Error) -> Failure {
    Failure::owned(format!("ERR the machine of scripts failed: {error}").replace(['\r', '\n'], " "))
}

/// The first line of an error's text: Lua appends where it was on the stack.
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Machine {
    /// A new one.
    ///
    /// # Errors
    ///
    /// Lua could not be started.
    pub fn new(kind: Kind, stopwatch: &Stopwatch) -> Result<Self, Failure> {
        Self::start(kind, stopwatch).map_err(|error| broken(&error))
    }

    fn start(kind: Kind, stopwatch: &Stopwatch) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default().catch_rust_panics(true))?;
        lua.set_memory_limit(MEMORY_MAX)?;
        let protocol = Rc::new(Cell::new(Protocol::Resp2));
        let loading = Rc::new(Cell::new(None));
        let registered = Rc::new(RefCell::new(Vec::new()));
        let host = lua.create_table()?;
        host.set("evaluates", kind == Kind::Scripts)?;
        let asked = Rc::new(Asked::default());
        asked.put(&lua, &host)?;
        put_api(&lua, &host, kind, &protocol, &registered, &loading)?;
        let (since, clock) = (Rc::clone(&loading), Rc::clone(stopwatch));
        let look: patterns::Look = Rc::new(move |lua| {
            let stopped = match since.get() {
                Some(begin) => (clock().saturating_sub(begin) > LOAD_US_MAX).then_some("ERR FUNCTION LOAD timeout"),
                None => is_to_stop(lua)?.then_some(STOPPED),
            };
            stopped.map_or(Ok(()), |reason| Err(stop(lua, reason)))
        });
        put_strings(&lua, &host, Rc::clone(&look))?;
        let prelude: Table = lua.load(include_str!("prelude.lua")).set_name("@prelude").call(host.clone())?;
        lua.set_named_registry_value(HOST, &host)?;
        // What compiling has left behind.
        lua.gc_collect()?;
        // A hook of all threads: coroutines are watched too.
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(LOOK_EACH), move |lua, _| {
            look(lua).map(|()| VmState::Continue)
        })?;
        Ok(Self {
            evaluate: prelude.get("evaluate")?,
            call: prelude.get("call")?,
            load: prelude.get("load")?,
            asked,
            lua,
            kind,
            protocol,
            loading,
            registered,
            stopwatch: Rc::clone(stopwatch),
        })
    }

    /// How many bytes it has.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Takes what scripts have written with `redis.log`.
    pub(super) fn take_log(&self) -> Vec<super::LogLine> {
        super::log::take(&self.lua)
    }

    /// Compiles a text: source only, as the machine would run any bytes that look like its code.
    ///
    /// # Errors
    ///
    /// It is not Lua: why, with the line.
    pub fn compile(&self, source: &[u8]) -> Result<Function, String> {
        compile(&self.lua, source, self.kind.chunk()).map_err(|error| message_of(&error))
    }

    /// Runs the text of a library and gives what it registered. It may take as long as it wants if it is not `bounded`.
    ///
    /// # Errors
    ///
    /// What it raised.
    pub(super) fn load(&self, chunk: &Function, bounded: bool) -> Result<Vec<Registered>, String> {
        self.registered.borrow_mut().clear();
        let begin = if bounded { (self.stopwatch)() } else { u64::MAX };
        self.loading.set(Some(begin));
        let outcome = self.load.call::<(bool, Value)>(chunk);
        self.loading.set(None);
        let registered = std::mem::take(&mut *self.registered.borrow_mut());
        match outcome {
            Ok((true, _)) => Ok(registered),
            Ok((false, Value::Table(table))) => Err(table
                .get::<Option<LuaString>>("err")
                .ok()
                .flatten()
                .map_or_else(String::new, |text| text.to_string_lossy())),
            Ok((false, _)) => Err("ERR execution failure".into()),
            Err(error) => Err(format!("ERR {}", message_of(&error))),
        }
    }

    /// Runs a script, or a function, while `answer` answers what it asks the server, and `pause` says each now and then
    /// whether it is to stop. Gives whether it came to its end, and its value or error.
    pub(super) fn run(
        &self,
        function: &Function,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        answer: &dyn Fn(&Lua, Question, MultiValue) -> mlua::Result<Answer>,
        pause: &dyn Fn() -> bool,
    ) -> mlua::Result<(bool, Value)> {
        self.protocol.set(Protocol::Resp2);
        let lua = &self.lua;
        let outcome = lua.scope(|scope| {
            let asked = &self.asked;
            let serve = scope.create_function(|lua, ()| {
                let words = asked.words.take();
                *asked.answer.borrow_mut() = Some(answer(lua, asked.question.get(), words)?);
                Ok(())
            })?;
            *asked.serve.borrow_mut() = Some(serve);
            lua.set_named_registry_value(PAUSE, scope.create_function(|_, ()| Ok(pause()))?)?;
            let list = |words: &[&[u8]]| {
                let table = lua.create_table_with_capacity(words.len(), 0)?;
                for word in words {
                    table.raw_push(lua.create_string(word)?)?;
                }
                Ok::<Table, mlua::Error>(table)
            };
            let run = if self.kind == Kind::Scripts { &self.evaluate } else { &self.call };
            run.call::<(bool, Value)>((function, list(keys)?, list(arguments)?))
        });
        *self.asked.serve.borrow_mut() = None;
        if !matches!(outcome, Ok((true, _))) && self.memory() > MEMORY_CLEAN {
            // Lua collects in steps as it allocates. A machine that is full would refuse the scripts that come next.
            let _ = lua.gc_collect();
        }
        outcome
    }
}

/// What a script asks the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Question {
    /// To run a command.
    #[default]
    Call,
    /// Whether it may.
    MayCall,
}

/// The server's answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// A reply.
    Reply(Value),
    /// The error of a command, or of one that may not run.
    Failed(String),
    /// What is no question.
    Refused(String),
}

impl Answer {
    /// The value, or the error that a script may catch.
    fn into_value(self) -> mlua::Result<Value> {
        let (text, is_counted) = match self {
            Self::Reply(value) => return Ok(value),
            Self::Failed(text) => (text, true),
            Self::Refused(text) => (text, false),
        };
        Err(mlua::Error::external(library::Refused { text, is_counted }))
    }

    /// The value, or the error as one.
    fn into_table(self, lua: &Lua) -> mlua::Result<Value> {
        let (text, is_counted) = match self {
            Self::Reply(value) => return Ok(value),
            Self::Failed(text) => (text, true),
            Self::Refused(text) => (text, false),
        };
        let table = lua.create_table()?;
        table.raw_set("err", text)?;
        if is_counted {
            table.raw_set(values::COUNTED, true)?;
        }
        Ok(Value::Table(table))
    }
}

/// A question on its way from Lua to the server that runs the script.
///
/// What scripts call must live as long as the machine, because they may keep it; the server is there only while a script runs.
/// So there is a function that lives as long as the run, and what is asked and answered goes beside Lua's stack.
#[derive(Default)]
struct Asked {
    serve: RefCell<Option<Function>>,
    question: Cell<Question>,
    words: RefCell<MultiValue>,
    answer: RefCell<Option<Answer>>,
}

impl Asked {
    fn ask(&self, name: &str, question: Question, words: MultiValue) -> mlua::Result<Answer> {
        let serve = self.serve.borrow().clone();
        let only_inside = || library::refused(format!("redis.{name} can only be called inside a script invocation"));
        let serve = serve.ok_or_else(only_inside)?;
        self.question.set(question);
        *self.words.borrow_mut() = words;
        serve.call::<()>(())?;
        self.answer.take().ok_or_else(only_inside)
    }

    /// Puts what scripts call into the host's table. These are functions of the host, and not Lua's: a call at a script's end
    /// would take the script's place on the stack, and with it the line that errors name.
    fn put(self: &Rc<Self>, lua: &Lua, host: &Table) -> mlua::Result<()> {
        let asked = Rc::clone(self);
        let call = move |_: &Lua, words: MultiValue| asked.ask("call/pcall", Question::Call, words)?.into_value();
        host.set("call", lua.create_function(call)?)?;
        let asked = Rc::clone(self);
        let pcall = move |lua: &Lua, words: MultiValue| asked.ask("call/pcall", Question::Call, words)?.into_table(lua);
        host.set("pcall", lua.create_function(pcall)?)?;
        let asked = Rc::clone(self);
        let may_call =
            move |_: &Lua, words: MultiValue| asked.ask("acl_check_cmd", Question::MayCall, words)?.into_value();
        host.set("acl_check_cmd", lua.create_function(may_call)?)
    }
}

/// Asks whether what runs is to stop.
pub(super) fn is_to_stop(lua: &Lua) -> mlua::Result<bool> {
    match lua.named_registry_value::<Option<Function>>(PAUSE)? {
        Some(pause) => pause.call(()),
        None => Ok(false),
    }
}

/// The error that stops what runs, and that nothing in it can catch for good.
pub(super) fn stop(lua: &Lua, reason: &'static str) -> mlua::Error {
    let marked = lua.named_registry_value::<Table>(HOST).and_then(|host| host.raw_set("stopped", reason));
    marked.err().unwrap_or_else(|| mlua::Error::runtime(reason))
}

/// Puts what scripts call into the host's table.
fn put_api(
    lua: &Lua,
    host: &Table,
    kind: Kind,
    protocol: &Rc<Cell<Protocol>>,
    registered: &Rc<RefCell<Vec<Registered>>>,
    loading: &Rc<Cell<Option<u64>>>,
) -> mlua::Result<()> {
    host.set("version", crate::REDIS_VERSION)?;
    host.set("version_number", 0x0007_000f)?;
    library::put(lua, host, "sha1hex", |lua, words| {
        let [text] = words.as_slice() else { return Err(library::refused("wrong number of arguments")) };
        let text = lua.coerce_string(text.clone())?;
        let digest = super::digest(&text.map(|text| text.as_bytes().to_vec()).unwrap_or_default());
        digest.into_lua(lua)
    })?;
    let chosen = Rc::clone(protocol);
    library::put(lua, host, "setresp", move |lua, words| {
        let [version] = words.as_slice() else {
            return Err(library::refused("redis.setresp() requires one argument."));
        };
        chosen.set(match lua.coerce_number(version.clone())?.map(|version| version as i64) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            _ => return Err(library::refused("RESP version must be 2 or 3.")),
        });
        Ok(Value::Nil)
    })?;
    // Effects are what is propagated, always: a log with holes would come to other keys.
    library::put(lua, host, "set_repl", |lua, words| {
        let [mode] = words.as_slice() else { return Err(library::refused("redis.set_repl() requires two arguments.")) };
        match lua.coerce_number(mode.clone())?.unwrap_or(0.0) as i64 {
            0..=3 => Ok(Value::Nil),
            _ => Err(library::refused("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
        }
    })?;
    library::put(lua, host, "log", super::log::write)?;
    host.set("loadstring", lua.create_function(load_string)?)?;
    let chunk = kind.chunk();
    host.set("line", lua.create_function(move |lua, ()| Ok(place_of_script(lua, chunk)))?)?;
    let describe = |_: &Lua, value: Value| match value {
        Value::Error(error) => {
            let refused = error.chain().find_map(|cause| cause.downcast_ref::<library::Refused>());
            let raised = error.chain().any(|cause| cause.is::<patterns::Raised>());
            let counted = refused.is_some_and(|refused| refused.is_counted).then_some(true);
            Ok((refused.map(|refused| refused.text.clone()), Some(message_of(&error)), raised, counted))
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
    let (collected, since) = (Rc::clone(registered), Rc::clone(loading));
    library::put(lua, host, "register_function", move |_, words| {
        if since.get().is_none() {
            let text = "redis.register_function can only be called on FUNCTION LOAD command";
            return Err(library::refused(text));
        }
        let function = Registered::of(words)?;
        let mut registered = collected.borrow_mut();
        if registered.iter().any(|other| other.name == function.name) {
            return Err(library::refused("Function already exists in the library"));
        }
        registered.push(function);
        Ok(Value::Nil)
    })?;
    host.set("cjson", json::library(lua)?)?;
    host.set("cmsgpack", message_pack::library(lua)?)?;
    host.set("bit", bit::library(lua)?)?;
    host.set("struct", structure::library(lua)?)
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
    let name = name.unwrap_or_else(|| source.clone()).to_string_lossy();
    let name: String = name.split('\0').next().unwrap_or_default().chars().take(NAME_LEN_MAX).collect();
    Ok(match compile(lua, &source.as_bytes(), &name) {
        Ok(function) => (Value::Function(function), Value::Nil),
        Err(error) => (Value::Nil, message_of(&error).into_lua(lua)?),
    })
}

/// Compiles source, and nothing but source. Lua 5.1's compiler does not hold on to the name of what it compiles, so that collecting
/// garbage meanwhile could take it away (CVE-2025-49844). Equal strings are one in Lua: as long as this one is held, that one stays.
fn compile(lua: &Lua, source: &[u8], name: &str) -> mlua::Result<Function> {
    let held = lua.create_string(name)?;
    let function = lua.load(source).set_name(name).set_mode(mlua::chunk::ChunkMode::Text).into_function();
    drop(held);
    function
}

/// What an error says, as Lua itself would have it: one line, without the kind of error in front.
pub(super) fn message_of(error: &mlua::Error) -> String {
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

/// The chunk and the line of the script that runs: what it has called stands above it.
fn place_of_script(lua: &Lua, chunk: &str) -> (Option<String>, Option<usize>) {
    let of_script = |frame: &mlua::debug::Debug<'_>| {
        let is_script = frame.source().source.is_some_and(|source| source == chunk);
        is_script.then(|| frame.current_line()).flatten()
    };
    let line = (1..LEVELS_MAX).find_map(|level| lua.inspect_stack(level, of_script).flatten());
    (line.map(|_| chunk.to_owned()), line)
}
