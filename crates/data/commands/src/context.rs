//! What a command has at hand while it runs.

use keyspace::{Failure, Keys, Millis};
use resp::Reply;

use crate::{Session, config::Allowed, server::Shared, session::Close};

/// The words of a command. Those that are not there read as empty: a command's arity has been checked before it runs.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(pub &'a [&'a [u8]]);

impl<'a> Words<'a> {
    /// How many there are, the name included.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// One word; 0 is the command's name.
    pub fn at(self, index: usize) -> &'a [u8] {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// One word, if it is there.
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.0.get(index).copied()
    }

    /// The words from one on.
    pub fn from(self, index: usize) -> &'a [&'a [u8]] {
        self.0.get(index..).unwrap_or_default()
    }

    /// Whether a word is an option of this name, in any case.
    pub fn is(self, index: usize, name: &str) -> bool {
        self.0.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// A word as an integer.
    pub fn integer(self, index: usize) -> Result<i64, Failure> {
        keyspace::number::integer(self.at(index))
    }
}

/// A command in run: its words, its reply, and all that it may look at or change. The parts are fields of their own so that
/// a value that is being read and the reply that it goes to can be borrowed at the same time.
pub struct Context<'a> {
    /// The command's words.
    pub words: Words<'a>,
    /// Where its reply goes.
    pub reply: Reply<'a>,
    /// The keys of the session's database.
    pub keys: Keys<'a>,
    /// Who asked.
    pub session: &'a mut Session,
    /// All that is shared between sessions but the keys.
    pub shared: &'a mut Shared,
}

impl Context<'_> {
    /// Whether who asked may do what such a setting guards.
    pub fn may(&self, allowed: Allowed) -> bool {
        let is_local = || {
            let address = &self.session.connection.address;
            address.starts_with("127.") || address.starts_with("[::1]") || address.starts_with('/')
        };
        match allowed {
            Allowed::No => false,
            Allowed::Yes => true,
            Allowed::Local => is_local(),
        }
    }

    /// Whether the reply has become longer than any that may be asked for: the client is closed then.
    pub fn closes_for(reply: &Reply<'_>, most: usize, session: &mut Session) -> bool {
        let is_over = reply.position() > most;
        if is_over {
            session.close = Close::Now;
        }
        is_over
    }

    /// The time of this command.
    pub fn now(&self) -> Millis {
        self.keys.now
    }
}
