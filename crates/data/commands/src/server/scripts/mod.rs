//! From `EVAL` and `FCALL` to a script that runs, and from what it calls to commands.

mod busy;

use std::cell::RefCell;

use keyspace::{Bytes, Failure, number};
use lua::{library, machine::message_of, number_text};
use mlua::{Function, Lua, LuaString, MultiValue, Value};
use resp::{Protocol, Reply};

use crate::{
    Session, SessionId,
    scripting::{
        Scripts,
        flags::ScriptFlags,
        machine::{Answer, Machine, Question},
        values::{self, Written},
    },
    session::Close,
    table::Flags,
};

use super::{FoundCommand, OUT_OF_MEMORY, Server, replication::MASTER_DOWN};

pub use busy::{Running, WhileBusy, kill};

type Words<'a> = &'a [&'a [u8]];

/// What is to run.
struct Job<'a> {
    /// Its digest, or the function's name.
    name: String,
    function: Function,
    /// What it says of itself; nothing if it says nothing.
    flags: Option<ScriptFlags>,
    is_script: bool,
    /// The command that runs it has said that it may not write.
    read_only: bool,
    keys: Words<'a>,
    arguments: Words<'a>,
}

/// What a script that runs may do.
#[derive(Debug, Clone, Copy)]
struct Rights {
    read_only: bool,
    allow_oom: bool,
}

/// What who wants to step through scripts is told.
pub(crate) const NO_DEBUGGER: Failure =
    Failure::text("ERR scripts cannot be stepped through here: SCRIPT DEBUG takes nothing but NO");
/// Characters of a script's digest: what is shorter or longer is none, whatever follows it.
const DIGEST_LEN: usize = 40;
const NO_SCRIPT: Failure = Failure::text("NOSCRIPT No matching script. Please use EVAL.");

impl Server {
    /// Brings the libraries back that the tables have.
    ///
    /// # Errors
    ///
    /// They do not load.
    pub fn restore_functions(&mut self, payload: &[u8]) -> Result<(), String> {
        let shared = &mut self.shared;
        shared
            .scripting
            .functions
            .restore_stored(payload, &shared.clock.stopwatch)
            .map_err(|failure| failure.to_string())
    }

    /// Runs a script or a function, as the flags of the command say.
    pub(crate) fn evaluate(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
        flags: Flags,
    ) -> Result<(), Failure> {
        let word = |index: usize| words.get(index).copied().unwrap_or_default();
        let read_only = flags.contains(Flags::READONLY);
        if flags.contains(Flags::CALLS_FUNCTION) {
            return self.call_function(session, output, words, read_only);
        }
        let by_digest = flags.contains(Flags::BY_DIGEST);
        if std::mem::take(&mut session.debugs_next_script) {
            return Err(NO_DEBUGGER);
        }
        if by_digest && word(1).len() != DIGEST_LEN {
            return Err(NO_SCRIPT);
        }
        let (keys, arguments) = split(words, number::integer(word(2))?)?;
        let mut scripts = match self.shared.scripting.scripts.take() {
            Some(scripts) => scripts,
            None => Box::new(Scripts::new(&self.shared.clock.stopwatch)?),
        };
        let digest = if by_digest {
            let digest = String::from_utf8_lossy(word(1)).to_ascii_lowercase();
            let known = scripts.contains(&digest);
            if known { Ok(digest) } else { Err(NO_SCRIPT) }
        } else {
            scripts.load(word(1))
        };
        let outcome = digest.and_then(|name| {
            let script = scripts.by_digest.get(&name).ok_or(Failure::NoSuchKey)?;
            let (function, flags) = (script.function.clone(), script.flags);
            let job = Job { name, function, flags, is_script: true, read_only, keys, arguments };
            self.run_job(&scripts.machine, job, session, output, words)
        });
        self.shared.scripting.scripts = Some(scripts);
        outcome
    }

    fn call_function(
        &mut self,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
        read_only: bool,
    ) -> Result<(), Failure> {
        let word = |index: usize| words.get(index).copied().unwrap_or_default();
        let found = self.shared.scripting.functions.find(word(1)).ok_or(Failure::text("ERR Function not found"))?;
        let name = String::from_utf8_lossy(&found.name).into_owned();
        let (function, flags) = (found.callback.clone(), Some(found.flags));
        let count = number::integer(word(2)).map_err(|_| Failure::text("ERR Bad number of keys provided"))?;
        let (keys, arguments) = split(words, count)?;
        let machine = self.shared.scripting.functions.lend_machine().ok_or(Failure::text("ERR Function not found"))?;
        let job = Job { name, function, flags, is_script: false, read_only, keys, arguments };
        let outcome = self.run_job(&machine, job, session, output, words);
        self.shared.scripting.functions.return_machine(machine);
        outcome
    }

    /// Whether a script may run now, by what it says of itself.
    fn rights_of(&self, job: &Job<'_>) -> Result<Rights, Failure> {
        let is_stale = self.shared.is_stale_replica();
        let Some(flags) = job.flags else {
            let rights = Rights { read_only: job.read_only, allow_oom: false };
            return if is_stale { Err(MASTER_DOWN) } else { Ok(rights) };
        };
        if is_stale && !flags.contains(ScriptFlags::ALLOW_STALE) {
            return Err(Failure::text(
                "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set \
                 on the script.",
            ));
        }
        let no_writes = flags.contains(ScriptFlags::NO_WRITES);
        let allow_oom = flags.contains(ScriptFlags::ALLOW_OOM);
        if self.shared.condition.memory_full && !no_writes && !allow_oom {
            return Err(OUT_OF_MEMORY);
        }
        if !no_writes {
            if self.shared.replication.master().is_some() {
                return Err(Failure::text("READONLY You can't write against a read only replica."));
            }
            if let Some(failure) = self.shared.lacks_replicas() {
                return Err(failure);
            }
            if let Some(reason) = &self.shared.condition.refuse_writes {
                return Err(Failure::owned(reason.clone()));
            }
            if job.read_only {
                return Err(Failure::text("ERR Can not execute a script with write flag using *_ro command."));
            }
        }
        Ok(Rights { read_only: job.read_only || no_writes, allow_oom })
    }

    fn run_job(
        &mut self,
        machine: &Machine,
        job: Job<'_>,
        session: &mut Session,
        output: &mut Vec<u8>,
        words: &[&[u8]],
    ) -> Result<(), Failure> {
        let rights = self.rights_of(&job)?;
        self.shared.scripting.running = Some(Box::new(Running {
            name: job.name.clone(),
            is_script: job.is_script,
            command: owned(words),
            session: session.id,
            protocol: session.protocol,
            messages: Vec::new(),
            messages_max: self.shared.reply_max(session),
            cached: if session.caches() { owned(job.keys) } else { Vec::new() },
            begun_us: (self.shared.clock.stopwatch)(),
            wrote: false,
            killed: false,
        }));
        let group = self.effects().begin();
        let mut inner = Session::new(SessionId(session.id.0), self.now());
        inner.db = session.db;
        inner.internal = true;
        inner.deny_blocking = true;
        if session.access.restricted {
            inner.access.restricted = true;
            inner.access.user.clone_from(&session.access.user);
            inner.connection.address.clone_from(&session.connection.address);
            inner.connection.local_address.clone_from(&session.connection.local_address);
            inner.name.clone_from(&session.name);
            inner.connection.descriptor = session.connection.descriptor;
            inner.connection.created = session.connection.created;
            inner.last_interaction = session.last_interaction;
            inner.last_command = session.last_command;
        }
        let caller = RefCell::new((&mut *self, inner));
        let answer = |lua: &Lua, question: Question, words: MultiValue| {
            let mut guard = caller.try_borrow_mut().map_err(|_| library::refused("scripts cannot call scripts"))?;
            let (server, inner) = &mut *guard;
            inner.protocol = machine.protocol.get();
            match question {
                Question::Call => server.call_from_script(lua, inner, words, rights),
                Question::MayCall => Ok(server.may_call(inner, words)),
            }
        };
        // A look at the clock in the middle of a command leaves it alone.
        let pause = || caller.try_borrow_mut().is_ok_and(|mut guard| guard.0.pause_script());
        let outcome = machine.run(&job.function, job.keys, job.arguments, &answer, &pause);
        let (server, _) = caller.into_inner();
        if server.shared.scripting.is_busy && server.shared.shutdown.is_asked {
            // It was ended by force: nothing of it stays.
            server.effects().discard(&group);
        }
        server.end_effects(group);
        // What it called has been propagated, and not what called it.
        server.changes.propagate_instead(Vec::new());
        if let Some(running) = server.shared.scripting.running.take() {
            if running.messages.len() > running.messages_max {
                session.close = Close::Now;
            }
            server.shared.scripting.pushed = running.messages;
        }
        server.shared.scripting.is_busy = false;
        server.shared.take_script_log(machine.take_log());
        server.answer_script(machine, &job.name, outcome, session.protocol, output)
    }

    /// Answers with what a script gave, or the error that it ended with.
    fn answer_script(
        &mut self,
        machine: &Machine,
        name: &str,
        outcome: mlua::Result<(bool, Value)>,
        protocol: Protocol,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        match outcome {
            Ok((true, value)) => {
                let start = output.len();
                let mut reply = Reply::new(output, protocol);
                let most = start.saturating_add(self.shared.answered_at_once_max());
                let mut written = Written { chosen: machine.protocol.get(), most, errors: Vec::new() };
                values::write_value(&mut reply, &value, 0, &mut written);
                if let Some(failure) =
                    self.shared.refused_at_once(output.len() - start, "the script has run; its reply")
                {
                    return Err(failure);
                }
                let errors = written.errors;
                self.shared.scripting.has_failed = !errors.is_empty();
                for error in errors.iter().filter(|error| !error.is_counted) {
                    self.shared.statistics.count_error(&error.text);
                }
                Ok(())
            }
            Ok((false, value)) => {
                self.shared.scripting.error_is_counted = is_counted(&value);
                Err(failure_of(&value, name))
            }
            Err(error) => Err(Failure::owned(format!("ERR {}", message_of(&error)))),
        }
    }

    /// Whether a script's caller may run a command.
    fn may_call(&self, session: &Session, words: MultiValue) -> Answer {
        let texts = match words_of(words) {
            Ok(texts) => texts,
            Err(reason) => return Answer::Refused(format!("ERR {reason}")),
        };
        let words: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
        let Some(found) = self.shared.table.find(&words) else {
            return Answer::Refused("ERR Invalid command passed to redis.acl_check_cmd()".into());
        };
        let user = session.access.user.as_ref().filter(|_| session.access.restricted);
        Answer::Reply(Value::Boolean(user.is_none_or(|user| user.check(found, &words).is_ok())))
    }

    /// Runs a command for a script.
    fn call_from_script(
        &mut self,
        lua: &Lua,
        session: &mut Session,
        words: MultiValue,
        rights: Rights,
    ) -> mlua::Result<Answer> {
        let texts = match words_of(words) {
            Ok(texts) => texts,
            Err(reason) => return Ok(Answer::Refused(format!("ERR {reason}"))),
        };
        let mut words: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
        let is_there = self.name_command(&mut words);
        let found = self.shared.table.find(&words).filter(|_| is_there);
        if let Err(reason) = self.check_call(session, found, &words, rights) {
            let statistics = &mut self.shared.statistics;
            statistics.count_error(&reason);
            if let Some(statistics) = found.and_then(|found| statistics.of(found)) {
                statistics.rejected += 1;
            }
            return Ok(Answer::Failed(reason.into_bytes()));
        }
        let writes = found.is_some_and(|found| found.command.flags.contains(Flags::WRITE));
        if writes && let Some(running) = &mut self.shared.scripting.running {
            running.wrote = true;
        }
        let mut output = Vec::new();
        self.call(session, &mut output, &words);
        if let Some(text) = output.strip_prefix(b"-") {
            return Ok(Answer::Failed(text.trim_ascii_end().to_vec()));
        }
        values::reply_to_lua(lua, &output, session.protocol).map(Answer::Reply)
    }

    /// Whether a script may call a command.
    fn check_call(
        &mut self,
        session: &mut Session,
        found: Option<FoundCommand>,
        words: &[&[u8]],
        rights: Rights,
    ) -> Result<(), String> {
        let error = |text: &str| Err(text.to_owned());
        // A container's name with a subcommand that it has not is no command.
        let is_known = |found: &FoundCommand| found.command.subcommands.is_empty() || words.len() < 2;
        let Some(found) = found.filter(is_known) else {
            return error("ERR Unknown Redis command called from script");
        };
        if !found.command.takes(words.len()) {
            return error("ERR Wrong number of args calling Redis command from script");
        }
        let flags = found.command.flags;
        if flags.contains(Flags::NOSCRIPT) && !self.shared.debug.scripts_may_all {
            return error("ERR This Redis command is not allowed from script");
        }
        self.check_script(session, found, words)?;
        if rights.read_only && flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            return error("ERR Write commands are not allowed from read-only scripts.");
        }
        // What has begun to write goes on.
        if !self.shared.scripting.running.as_ref().is_some_and(|running| running.wrote) {
            if let Some(reason) =
                self.shared.condition.refuse_writes.as_deref().filter(|_| flags.contains(Flags::WRITE))
            {
                return error(reason);
            }
            if flags.contains(Flags::WRITE)
                && let Some(failure) = self.shared.lacks_replicas()
            {
                return Err(failure.to_string());
            }
            if self.shared.condition.memory_full && !rights.allow_oom && flags.contains(Flags::DENYOOM) {
                return error("OOM command not allowed when used memory > 'maxmemory'.");
            }
        }
        Ok(())
    }
}

/// The keys and the other arguments of a command that has a number of keys in its third place.
fn split<'a>(words: Words<'a>, count: i64) -> Result<(Words<'a>, Words<'a>), Failure> {
    let count = usize::try_from(count).map_err(|_| Failure::text("ERR Number of keys can't be negative"))?;
    let rest = words.get(3..).unwrap_or_default();
    rest.split_at_checked(count).ok_or(Failure::text("ERR Number of keys can't be greater than number of args"))
}

fn owned(words: &[&[u8]]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::from_slice(word)).collect()
}

/// The words of a command that a script calls.
fn words_of(words: MultiValue) -> Result<Vec<Bytes>, &'static str> {
    if words.is_empty() {
        return Err("Please specify at least one argument for this redis lib call");
    }
    let mut texts = Vec::with_capacity(words.len());
    for word in words {
        texts.push(match word {
            Value::String(text) => Bytes::from_slice(&text.as_bytes()),
            Value::Integer(number) if number.unsigned_abs() < 100_000_000_000_000_000 => number::integer_bytes(number),
            Value::Integer(number) => Bytes::from_slice(number_text::general(number as f64, 17).as_bytes()),
            Value::Number(number) => Bytes::from_slice(number_text::general(number, 17).as_bytes()),
            _ => return Err("Lua redis lib command arguments must be strings or integers"),
        });
    }
    Ok(texts)
}

/// Whether what a script raised is the error of a command, which was counted when the command failed.
fn is_counted(value: &Value) -> bool {
    matches!(value, Value::Table(table) if matches!(table.raw_get::<Value>(values::COUNTED), Ok(Value::Boolean(true))))
}

/// The error reply of what a script raised.
fn failure_of(value: &Value, name: &str) -> Failure {
    let table = match value {
        Value::Table(table) => table,
        // Where memory is short, Lua runs no handler.
        Value::String(text) => return Failure::Bytes([b"ERR ".as_slice(), &text.as_bytes()].concat()),
        _ => return Failure::text("ERR unknown error of a script"),
    };
    let text: Option<LuaString> = table.get("err").ok();
    let text = text.map_or_else(|| b"ERR unknown error".to_vec(), |text| text.as_bytes().to_vec());
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    match (table.get::<Option<String>>("source"), table.get::<Option<usize>>("line")) {
        (Ok(Some(source)), Ok(Some(line))) => {
            Failure::Bytes([text, format!(" script: {name}, on {source}:{line}.").as_bytes()].concat())
        }
        _ => Failure::Bytes(text.to_vec()),
    }
}
