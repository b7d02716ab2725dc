//! A machine that runs Lua: scripts have one, libraries of functions another.

use std::{cell::Cell, cell::RefCell, rc::Rc};

use keyspace::Failure;
use lua::{library, machine, machine::message_of, patterns};
use mlua::{Function, IntoLua as _, Lua, LuaString, MultiValue, Table, Value};
use resp::Protocol;

use super::{functions::Registered, values};
use crate::host::Stopwatch;

/// A machine that has more than this after a script failed is cleaned at once.
const MEMORY_CLEAN: usize = library::MEMORY_MAX / 2;
/// How long loading a library may take, in microseconds.
const LOAD_US_MAX: u64 = 500_000;
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
    pub(crate) lua: Lua,
    kind: Kind,
    asked: Rc<ServerQuestion>,
    evaluate: Function,
    call: Function,
    load: Function,
    /// The protocol that `redis.setresp` chose.
    pub(crate) protocol: Rc<Cell<Protocol>>,
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
        let lua = machine::start()?;
        let protocol = Rc::new(Cell::new(Protocol::Resp2));
        let loading = Rc::new(Cell::new(None));
        let registered = Rc::new(RefCell::new(Vec::new()));
        let host = lua.create_table()?;
        host.set("evaluates", kind == Kind::Scripts)?;
        let asked = Rc::new(ServerQuestion::default());
        asked.put(&lua, &host)?;
        put_api(&lua, &host, &protocol, &registered, &loading)?;
        let (since, clock) = (Rc::clone(&loading), Rc::clone(stopwatch));
        let look: patterns::Look = Rc::new(move |lua| {
            let stopped = match since.get() {
                Some(begin) => (clock().saturating_sub(begin) > LOAD_US_MAX).then_some("ERR FUNCTION LOAD timeout"),
                None => machine::is_to_stop(lua)?.then_some(STOPPED),
            };
            stopped.map_or(Ok(()), |reason| Err(machine::stop(lua, reason)))
        });
        machine::put(&lua, &host, kind.chunk(), Rc::clone(&look))?;
        let prelude: Table = lua.load(include_str!("prelude.lua")).set_name("@prelude").call(host.clone())?;
        machine::keep_host(&lua, &host)?;
        // What compiling has left behind.
        lua.gc_collect()?;
        machine::watch(&lua, look)?;
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
    pub(crate) fn take_log(&self) -> Vec<super::LogLine> {
        super::log::take(&self.lua)
    }

    /// Compiles a text: source only, as the machine would run any bytes that look like its code.
    ///
    /// # Errors
    ///
    /// It is not Lua: why, with the line.
    pub fn compile(&self, source: &[u8]) -> Result<Function, Vec<u8>> {
        machine::compile(&self.lua, source, self.kind.chunk().as_bytes())
    }

    /// Runs the text of a library and gives what it registered. It may take as long as it wants if it is not `bounded`.
    ///
    /// # Errors
    ///
    /// What it raised.
    pub(crate) fn load(&self, chunk: &Function, bounded: bool) -> Result<Vec<Registered>, Vec<u8>> {
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
                .map_or_else(Vec::new, |text| text.as_bytes().to_vec())),
            Ok((false, _)) => Err(b"ERR execution failure".to_vec()),
            Err(error) => Err(format!("ERR {}", message_of(&error)).into_bytes()),
        }
    }

    /// Runs a script, or a function, while `answer` answers what it asks the server, and `pause` says each now and then
    /// whether it is to stop. Gives whether it came to its end, and its value or error.
    pub(crate) fn run(
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
            machine::set_pause(lua, scope.create_function(|_, ()| Ok(pause()))?)?;
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
pub(crate) enum Question {
    /// To run a command.
    #[default]
    Call,
    /// Whether it may.
    MayCall,
}

/// The server's answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A reply.
    Reply(Value),
    /// The error of a command, or of one that may not run.
    Failed(Vec<u8>),
    /// What is no question.
    Refused(String),
}

impl Answer {
    /// The value, or the error that a script may catch.
    fn into_value(self) -> mlua::Result<Value> {
        let (text, is_counted) = match self {
            Self::Reply(value) => return Ok(value),
            Self::Failed(text) => (text, true),
            Self::Refused(text) => (text.into_bytes(), false),
        };
        Err(mlua::Error::external(library::Refused { text, is_counted }))
    }

    /// The value, or the error as one.
    fn into_table(self, lua: &Lua) -> mlua::Result<Value> {
        let (text, is_counted) = match self {
            Self::Reply(value) => return Ok(value),
            Self::Failed(text) => (text, true),
            Self::Refused(text) => (text.into_bytes(), false),
        };
        let table = lua.create_table()?;
        table.raw_set("err", lua.create_string(text)?)?;
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
struct ServerQuestion {
    serve: RefCell<Option<Function>>,
    question: Cell<Question>,
    words: RefCell<MultiValue>,
    answer: RefCell<Option<Answer>>,
}

impl ServerQuestion {
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

/// Puts what scripts call into the host's table.
fn put_api(
    lua: &Lua,
    host: &Table,
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
    })
}
