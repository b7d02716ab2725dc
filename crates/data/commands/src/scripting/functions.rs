//! Libraries of functions: scripts that stay, with names.

use std::collections::{BTreeMap, HashMap};

use keyspace::{Bytes, Failure, rdb};
use lua::{
    library::{Arguments, refused},
    number_text,
};
use mlua::{Function, Value};

use super::{
    flags::{self, NAMES, ScriptFlags},
    machine::{Kind, Machine},
};
use crate::host::Stopwatch;

/// A function that a library has registered.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is for.
    pub description: Option<Vec<u8>>,
    /// What it may do.
    pub flags: ScriptFlags,
    /// What runs.
    pub(crate) callback: Function,
}

impl Registered {
    /// From what `redis.register_function` was called with: a name and a function, or a table.
    pub(crate) fn of(arguments: Arguments) -> mlua::Result<Self> {
        let function = match arguments.as_slice() {
            [Value::Table(table)] => Self::named(table)?,
            [_] => {
                return Err(refused(
                    "calling redis.register_function with a single argument is only applicable to Lua table (representing \
                     named arguments).",
                ));
            }
            [name, callback] => {
                let name =
                    text_of(name).ok_or(refused("first argument to redis.register_function must be a string"))?;
                let Value::Function(callback) = callback else {
                    return Err(refused("second argument to redis.register_function must be a function"));
                };
                Self { name, description: None, flags: ScriptFlags::empty(), callback: callback.clone() }
            }
            _ => return Err(refused("wrong number of arguments to redis.register_function")),
        };
        if !is_name(&function.name) {
            return Err(refused(WRONG_NAME));
        }
        Ok(function)
    }

    fn named(table: &mlua::Table) -> mlua::Result<Self> {
        let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::empty());
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let key =
                text_of(&key).ok_or(refused("named argument key given to redis.register_function is not a string"))?;
            let must_be =
                |what: &str| refused(format!("{what} argument given to redis.register_function must be a string"));
            match key.to_ascii_lowercase().as_slice() {
                b"function_name" => name = Some(text_of(&value).ok_or_else(|| must_be("function_name"))?),
                b"description" => description = Some(text_of(&value).ok_or_else(|| must_be("description"))?),
                b"callback" => match value {
                    Value::Function(function) => callback = Some(function),
                    _ => {
                        let text = "callback argument given to redis.register_function must be a function";
                        return Err(refused(text));
                    }
                },
                b"flags" => match value {
                    Value::Table(list) => flags = flags_of(&list).ok_or(refused("unknown flag given"))?,
                    _ => {
                        return Err(refused(
                            "flags argument to redis.register_function must be a table representing function flags",
                        ));
                    }
                },
                _ => return Err(refused("unknown argument given to redis.register_function")),
            }
        }
        Ok(Self {
            name: name.ok_or(refused("redis.register_function must get a function name argument"))?,
            description,
            flags,
            callback: callback.ok_or(refused("redis.register_function must get a callback argument"))?,
        })
    }
}

/// A string, or a number as one.
fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(number_text::general(*number, 14).into_bytes()),
        _ => None,
    }
}

fn flags_of(list: &mlua::Table) -> Option<ScriptFlags> {
    let mut flags = ScriptFlags::empty();
    for index in 1.. {
        let value: Value = list.raw_get(index).ok()?;
        if value.is_nil() {
            break;
        }
        let name = text_of(&value)?;
        flags |= NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(&name))?.1;
    }
    Some(flags)
}

const WRONG_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Its text, from `#!` on.
    pub code: Bytes,
    /// Its functions, by name.
    pub functions: BTreeMap<Vec<u8>, Registered>,
}

/// Libraries by name.
#[derive(Debug, Default)]
struct Libraries {
    libraries: BTreeMap<Vec<u8>, Library>,
    /// The library of each function; names of functions are the same in any case.
    owners: HashMap<Vec<u8>, Vec<u8>>,
}

impl Libraries {
    fn link(&mut self, name: Vec<u8>, library: Library) {
        for function in library.functions.keys() {
            self.owners.insert(function.to_ascii_lowercase(), name.clone());
        }
        self.libraries.insert(name, library);
    }

    fn unlink(&mut self, name: &[u8]) -> Option<Library> {
        let library = self.libraries.remove(name)?;
        for function in library.functions.keys() {
            self.owners.remove(&function.to_ascii_lowercase());
        }
        Some(library)
    }

    fn knows(&self, function: &[u8]) -> bool {
        self.owners.contains_key(&function.to_ascii_lowercase())
    }

    /// Loads a library. What there is stays as it was if that fails.
    fn load(&mut self, machine: &Machine, code: &[u8], replace: bool, bounded: bool) -> Result<Vec<u8>, Failure> {
        let head = flags::of_library(code)?;
        let error = |text: String| Failure::owned(format!("ERR {text}"));
        if !is_name(&head.name) {
            return Err(error(WRONG_NAME.into()));
        }
        if !head.engine.eq_ignore_ascii_case(b"lua") {
            return Err(Failure::quoting(&[b"ERR Engine '", &head.engine, b"' not found"]));
        }
        if self.libraries.contains_key(&head.name) && !replace {
            return Err(error(format!("Library '{}' already exists", String::from_utf8_lossy(&head.name))));
        }
        let chunk = machine
            .compile(head.code)
            .map_err(|reason| Failure::quoting(&[b"ERR Error compiling function: ", &reason]))?;
        let registered = machine
            .load(&chunk, bounded)
            .map_err(|reason| Failure::quoting(&[b"ERR Error registering functions: ", &reason]))?;
        if registered.is_empty() {
            return Err(error("No functions registered".into()));
        }
        let old = self.unlink(&head.name);
        if let Some(other) = registered.iter().find(|function| self.knows(&function.name)) {
            let failure = error(format!("Function {} already exists", String::from_utf8_lossy(&other.name)));
            if let Some(old) = old {
                self.link(head.name, old);
            }
            return Err(failure);
        }
        let functions = registered.into_iter().map(|function| (function.name.clone(), function)).collect();
        self.link(head.name.clone(), Library { code: Bytes::from_slice(code), functions });
        Ok(head.name)
    }

    /// Takes the libraries of another one over, or none of them.
    fn join(&mut self, other: Self, replace: bool) -> Result<(), Failure> {
        let mut replaced = Vec::new();
        let mut outcome = Ok(());
        for name in other.libraries.keys() {
            if !self.libraries.contains_key(name) {
                continue;
            }
            if !replace {
                let text = format!("ERR Library {} already exists", String::from_utf8_lossy(name));
                outcome = Err(Failure::owned(text));
                break;
            }
            replaced.extend(self.unlink(name).map(|old| (name.clone(), old)));
        }
        if outcome.is_ok()
            && let Some(function) = other.owners.keys().find(|function| self.owners.contains_key(*function))
        {
            let text = format!("ERR Function {} already exists", String::from_utf8_lossy(function));
            outcome = Err(Failure::owned(text));
        }
        match outcome {
            Ok(()) => other.libraries.into_iter().for_each(|(name, library)| self.link(name, library)),
            Err(_) => replaced.into_iter().for_each(|(name, library)| self.link(name, library)),
        }
        outcome
    }
}

/// What happens to the libraries that are there when others are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They go.
    Flush,
    /// They stay; the same name twice is an error.
    Append,
    /// They stay, but those of the same name.
    Replace,
}

/// All libraries, and the machine that runs their functions; there is none until the first one is loaded.
#[derive(Debug, Default)]
pub struct Functions {
    machine: Option<Machine>,
    loaded: Libraries,
    /// They have changed since they were last taken for the tables.
    changed: bool,
}

impl Functions {
    fn machine(&mut self, stopwatch: &Stopwatch) -> Result<Machine, Failure> {
        match self.machine.take() {
            Some(machine) => Ok(machine),
            None => Machine::new(Kind::Functions, stopwatch),
        }
    }

    /// Loads a library. Returns its name.
    ///
    /// # Errors
    ///
    /// It is not Lua, fails, takes too long (if it is `bounded`), or has a name or a function that is there already.
    pub fn load(
        &mut self,
        code: &[u8],
        replace: bool,
        bounded: bool,
        stopwatch: &Stopwatch,
    ) -> Result<Vec<u8>, Failure> {
        let machine = self.machine(stopwatch)?;
        let outcome = self.loaded.load(&machine, code, replace, bounded);
        self.machine = Some(machine);
        self.changed |= outcome.is_ok();
        outcome
    }

    /// Removes a library. Returns whether it was there.
    pub fn delete(&mut self, name: &[u8]) -> bool {
        let found = self.loaded.unlink(name).is_some();
        self.changed |= found;
        found
    }

    /// Removes all libraries, and with them the machine and whatever they have left in it.
    pub fn flush(&mut self) {
        *self = Self { changed: true, ..Self::default() };
    }

    /// The libraries, by name.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = (&Vec<u8>, &Library)> {
        self.loaded.libraries.iter()
    }

    /// How many functions there are.
    pub fn len(&self) -> usize {
        self.loaded.owners.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.loaded.owners.is_empty()
    }

    /// How many bytes the machine has.
    pub fn memory(&self) -> usize {
        self.machine.as_ref().map_or(0, Machine::memory)
    }

    /// How many bytes the texts of the libraries take.
    pub fn text_len(&self) -> usize {
        self.loaded.libraries.iter().map(|(name, library)| name.len() + library.code.len()).sum()
    }

    /// A function by its name in any case.
    pub fn find(&self, name: &[u8]) -> Option<&Registered> {
        let name = name.to_ascii_lowercase();
        let library = self.loaded.libraries.get(self.loaded.owners.get(&name)?)?;
        library.functions.iter().find(|(own, _)| own.eq_ignore_ascii_case(&name)).map(|(_, function)| function)
    }

    /// Lends the machine to whoever runs a function: it is put back by [`return_machine`](Self::return_machine).
    pub(crate) fn lend_machine(&mut self) -> Option<Machine> {
        self.machine.take()
    }

    pub(crate) fn return_machine(&mut self, machine: Machine) {
        self.machine = Some(machine);
    }

    /// All libraries as `FUNCTION DUMP` gives them.
    pub fn dump(&self, compress: bool) -> Vec<u8> {
        rdb::encode_libraries(self.loaded.libraries.values().map(|library| library.code.as_slice()), compress)
    }

    /// Brings libraries back from what [`dump`](Self::dump) gave: all of them, or none.
    ///
    /// # Errors
    ///
    /// The payload is damaged, or a library cannot be loaded.
    pub fn restore(&mut self, payload: &[u8], policy: RestorePolicy, stopwatch: &Stopwatch) -> Result<(), Failure> {
        let codes = rdb::decode_libraries(payload).map_err(|error| Failure::owned(format!("ERR {error}")))?;
        let machine = self.machine(stopwatch)?;
        let mut restored = Libraries::default();
        let outcome = codes.iter().try_for_each(|code| restored.load(&machine, code, false, false).map(drop));
        self.machine = Some(machine);
        outcome?;
        match policy {
            RestorePolicy::Flush => self.loaded = restored,
            RestorePolicy::Append => self.loaded.join(restored, false)?,
            RestorePolicy::Replace => self.loaded.join(restored, true)?,
        }
        self.changed = true;
        Ok(())
    }

    /// Takes over what a payload has, as the tables have it already.
    ///
    /// # Errors
    ///
    /// It does not load.
    pub(crate) fn restore_stored(&mut self, payload: &[u8], stopwatch: &Stopwatch) -> Result<(), Failure> {
        let restored = self.restore(payload, RestorePolicy::Flush, stopwatch);
        self.changed = false;
        restored
    }

    /// All libraries for the tables, if they have changed since this was last asked.
    pub fn take_changed(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.changed).then(|| self.dump(false))
    }
}
