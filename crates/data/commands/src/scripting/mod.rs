//! Scripts and functions in Lua 5.1, as Redis has them.
//!
//! A script runs whole, between two commands, on the keys of this shard; what it calls are ordinary commands, and their effects
//! are what is propagated. Its surroundings are in `prelude.lua`: nothing of the operating system, no globals to write, tables
//! that cannot be changed. The machine itself and its libraries are in the crate `lua`. How much memory it may take is bounded; one that takes long lets other clients be answered
//! ([`server::scripts`](crate::server::scripts)).

pub mod flags;
pub mod functions;
mod log;
pub(crate) mod machine;
pub(crate) mod values;

use std::collections::HashMap;

use keyspace::{Bytes, Failure};
use mlua::Function;
use sha1::{Digest as _, Sha1};

use crate::host::Stopwatch;

use flags::ScriptFlags;
use machine::{Kind, Machine};

pub use functions::Functions;
pub use log::LogLine;

/// A compiled script.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    body: Bytes,
    pub(crate) function: Function,
    /// What it says of itself; nothing if it has no such line.
    pub(crate) flags: Option<ScriptFlags>,
}

/// The scripts that are known, and the machine that runs them.
#[derive(Debug)]
pub struct Scripts {
    pub(crate) machine: Machine,
    pub(crate) by_digest: HashMap<String, Script>,
}

/// The SHA-1 of a script in hexadecimal digits: its name.
pub fn digest(body: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(40);
    for byte in Sha1::digest(body) {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(DIGITS.get(usize::from(digit)).copied().map_or('0', char::from));
        }
    }
    text
}

impl Scripts {
    /// A machine without scripts.
    ///
    /// # Errors
    ///
    /// Lua could not be started.
    pub fn new(stopwatch: &Stopwatch) -> Result<Self, Failure> {
        Ok(Self { machine: Machine::new(Kind::Scripts, stopwatch)?, by_digest: HashMap::new() })
    }

    /// Whether a script is known.
    pub fn contains(&self, digest: &str) -> bool {
        self.by_digest.contains_key(digest)
    }

    /// What a known script says of itself, by its digest in any case.
    pub fn flags(&self, digest: &str) -> Option<ScriptFlags> {
        self.by_digest.get(&digest.to_ascii_lowercase()).and_then(|script| script.flags)
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// How many bytes the machine has.
    pub fn memory(&self) -> usize {
        self.machine.memory()
    }

    /// How many bytes the texts of the scripts take.
    pub fn text_len(&self) -> usize {
        self.by_digest.iter().map(|(digest, script)| digest.len() + script.body.len()).sum()
    }

    /// Compiles a script, if it is not known yet. Returns its digest.
    ///
    /// # Errors
    ///
    /// It is not Lua.
    pub fn load(&mut self, body: &[u8]) -> Result<String, Failure> {
        let digest = digest(body);
        if !self.by_digest.contains_key(&digest) {
            let (flags, source) = flags::of_script(body)?;
            let function = self
                .machine
                .compile(source)
                .map_err(|reason| Failure::quoting(&[b"ERR Error compiling script (new function): ", &reason]))?;
            self.by_digest.insert(digest.clone(), Script { body: Bytes::from_slice(body), function, flags });
        }
        Ok(digest)
    }
}
