//! What was denied: `ACL LOG`.

use std::collections::VecDeque;

use keyspace::{Bytes, Millis};

/// Entries that are looked at for one that is the same.
const LOOKED_AT: usize = 10;
/// How long a like event counts as the same one.
const SAME_MS: Millis = 60_000;

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A name and a password.
    Auth,
}

impl Reason {
    /// As the log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

/// Where a command came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrigin {
    /// From the client.
    Top,
    /// In a transaction.
    Multi,
    /// From a script.
    Lua,
}

impl CallOrigin {
    /// As the log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Top => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// An event, or several that were alike.
#[derive(Debug, Clone)]
pub struct Entry {
    /// How many.
    pub count: u64,
    /// What was denied.
    pub reason: Reason,
    /// Where.
    pub place: CallOrigin,
    /// The command, the key, the channel.
    pub object: Bytes,
    /// The user.
    pub user: Bytes,
    /// When it last happened.
    pub at: Millis,
    /// Whose last one it was, as `CLIENT LIST` shows clients.
    pub client: String,
}

/// The last events, the newest first.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
}

impl Log {
    /// Notes an event; at most so many are kept.
    pub fn add(&mut self, entry: Entry, at_most: usize) {
        let same = |known: &Entry| {
            known.reason == entry.reason
                && known.place == entry.place
                && known.object == entry.object
                && known.user == entry.user
                && (known.at - entry.at).abs() <= SAME_MS
        };
        let known = self.entries.iter().take(LOOKED_AT).position(same).and_then(|place| self.entries.remove(place));
        let count = entry.count + known.map_or(0, |known| known.count);
        self.entries.push_front(Entry { count, ..entry });
        self.entries.truncate(at_most);
    }

    /// The events, the newest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
