//! What a command has at hand while it runs.

use keyspace::{Keys, Millis};
use resp::Reply;

use crate::{Session, client_info, config::Allowed, session::Close, words::Words};

use super::Shared;

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

    /// The memory that all clients take, the one whose command runs too.
    pub fn memory_of_clients(&self) -> u64 {
        let others: usize =
            self.shared.sessions.by_id.values().flatten().map(|session| client_info::memory(session)).sum();
        (others + client_info::memory(self.session)) as u64
    }

    /// The time of this command.
    pub fn now(&self) -> Millis {
        match self.keys.now {
            // Who fills slots: nothing has expired for it, and time goes on.
            Millis::MIN if !self.session.replaying => self.shared.clock.now,
            now => now,
        }
    }

    /// Whether a key that is given this time is removed at once: not where somebody else says what expires.
    pub fn has_passed(&self, at: Millis) -> bool {
        at <= self.keys.now && !self.session.replaying
    }

    /// What a time to live counts from: now, or when the log got the command that is run again.
    pub fn counted_from(&self) -> Millis {
        if self.session.replaying { self.session.replayed_at } else { self.now() }
    }
}
