//! Plain words: what people ask a running server, whatever part of the program it is. A room says what it answers to each.

/// A plain word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `workers`
    Workers,
    /// `connections`
    Connections,
    /// `routes`
    Routes,
    /// `servers`
    Servers,
    /// `plugins`
    Plugins,
    /// `uptime`
    Uptime,
    /// `memory`
    Memory,
}

/// All of them with their names, and what they tell.
pub const WORDS: [(Word, &str, &str); 7] = [
    (Word::Workers, "workers", "threads or processes, and what each has to do"),
    (Word::Connections, "connections", "connections of clients: now, at most, a second"),
    (Word::Routes, "routes", "where requests come in and where they go"),
    (Word::Servers, "servers", "who is behind, in which state"),
    (Word::Plugins, "plugins", "what is built in besides"),
    (Word::Uptime, "uptime", "version, process, since when"),
    (Word::Memory, "memory", "what memory is used for"),
];

impl Word {
    /// The word of a whole line, if it is one.
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let line = line.trim();
        WORDS.iter().find(|(_, name, _)| *name == line).map(|(word, ..)| *word)
    }

    /// How it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        WORDS.iter().find(|(word, ..)| *word == self).map_or("", |(_, name, _)| name)
    }
}
