//! The parts of the program that take commands: a room is one of them, as it runs somewhere.

mod agent;
mod cache;
mod edge;
mod report;
mod store;
mod value;

use super::{CtlArguments, answer::Verdict, error::CtlError, words::Word};

pub(super) use edge::Edge;

/// A part of the program that takes commands.
pub trait Room {
    /// Sends a command as it stands, and prints the answer: errors to standard error, the rest to standard output.
    ///
    /// # Errors
    /// Nobody answers.
    fn send(&mut self, command: &str) -> Result<Verdict, CtlError>;

    /// What it answers to a plain word; an error is what it says instead.
    ///
    /// # Errors
    /// Nobody answers, or this room has nothing to say about it.
    fn tell(&mut self, word: Word) -> Result<String, CtlError>;

    /// Its commands, with what each does, for completion and help.
    fn usages(&mut self) -> Vec<Usage>;

    /// The names that may stand for a placeholder: `<backend>`.
    fn names(&mut self, _placeholder: &str) -> Vec<String> {
        Vec::new()
    }

    /// Which lines follow a line before the command is whole.
    fn rest_of(&self, _line: &str, _from_terminal: bool) -> Rest {
        Rest::None
    }
}

/// How a command is written, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// `get weight <bk>/<srv>`
    pub text: String,
    /// What it does.
    pub doc: String,
}

impl Usage {
    /// One of these texts.
    pub fn new(text: impl Into<String>, doc: impl Into<String>) -> Self {
        Self { text: text.into(), doc: doc.into() }
    }
}

/// Lines that belong to the command of a line before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// None.
    None,
    /// All up to an empty one.
    UntilEmpty,
    /// All up to one that ends with this word.
    UntilWord(String),
}

/// Which room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Edge,
    Cache,
    Store,
    Agent,
}

impl Kind {
    /// All, with their names, and whose commands they take.
    pub const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Edge, "edge", "the load balancer: HAProxy's runtime API"),
        (Self::Cache, "cache", "a cache that varnishd runs: varnishadm's commands"),
        (Self::Store, "store", "a store or Redis: redis-cli's commands"),
        (Self::Agent, "agent", "a cluster of stores: the words of `tidegate cluster`"),
    ];

    /// How it is written.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// A word of a command line as it is typed in a line: one with blanks stays one.
    pub fn quoted(self, word: &str) -> String {
        let is_plain = !word.is_empty() && !word.contains([' ', '\t', '\n', '"', '\'', '\\']);
        match self {
            _ if is_plain => word.to_owned(),
            Self::Edge => word.replace(' ', "\\ "),
            Self::Cache => varnishcli::quoted(word.as_bytes()),
            Self::Store => value::quoted(word.as_bytes()),
            Self::Agent => word.to_owned(),
        }
    }

    /// The room that a word names.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, word, _)| *word == name).map(|(kind, ..)| *kind)
    }
}

/// All rooms, and the one that lines are for.
pub struct Rooms {
    /// Which one lines are for.
    pub current: Kind,
    edge: Edge,
    cache: cache::Cache,
    store: store::Store,
    agent: agent::Agent,
}

impl Rooms {
    /// Those that the command line names; a room is looked for when something is asked of it.
    pub fn new(arguments: &CtlArguments) -> Self {
        let current = if arguments.cache.is_some() {
            Kind::Cache
        } else if arguments.store.is_some() {
            Kind::Store
        } else if arguments.cluster.is_some() {
            Kind::Agent
        } else {
            Kind::Edge
        };
        Self {
            current,
            edge: Edge::new(arguments.which.clone()),
            cache: cache::Cache::new(arguments.cache.clone()),
            store: store::Store::new(arguments.store.clone(), &arguments.access),
            agent: agent::Agent::new(arguments.cluster.clone()),
        }
    }

    /// The edge, for requests that are made already.
    pub fn edge(&mut self) -> &mut Edge {
        &mut self.edge
    }

    /// Which lines follow a line before a room's command is whole.
    pub fn rest_of(&self, kind: Kind, line: &str, from_terminal: bool) -> Rest {
        match kind {
            Kind::Edge => self.edge.rest_of(line, from_terminal),
            Kind::Cache => self.cache.rest_of(line, from_terminal),
            Kind::Store | Kind::Agent => Rest::None,
        }
    }

    /// A room.
    pub fn room(&mut self, kind: Kind) -> &mut dyn Room {
        match kind {
            Kind::Edge => &mut self.edge,
            Kind::Cache => &mut self.cache,
            Kind::Store => &mut self.store,
            Kind::Agent => &mut self.agent,
        }
    }

    /// The room that a line is for, and what it is asked: `store info memory` from any room. A store's own `cluster info` stays its own,
    /// since the room of clusters is called `agent`.
    pub fn addressed<'l>(&self, line: &'l str) -> (Kind, &'l str) {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match Kind::named(first) {
            Some(kind) => (kind, rest.trim_start()),
            None => (self.current, line),
        }
    }
}
