//! Plugins: answerers of one's own, in Rust, in the edge's process.
//!
//! ```text
//!  http-request use-service plugin.NAME ─▶ a thread of plugins ─▶ serve ─▶ Answerer::answer ─▶ Answer
//!                                           (a socket in a server's place)
//! ```
//!
//! To the edge a plugin is a server behind a pair of sockets: it gets a request as HTTP/1 and gives an answer. So rules, filters, compression, caches, logs,
//! limits and timeouts work on it as on any server, bodies of any size pass in bounded memory, and nothing that a plugin does stops a worker. A plugin runs on a
//! thread of its own kind and may wait for disks, locks and networks.
//!
//! This crate opens no socket and starts no thread: [`serve`] works on whatever reads and writes.

mod answer;
mod request;
mod serve;
#[cfg(test)]
mod tests;

use std::fmt;

pub use answer::{Answer, Body};
pub use request::{Request, TooLarge};
pub use serve::{Outcome, serve};

/// Something that answers requests.
///
/// One value serves all requests, several at a time; what it keeps between them it guards itself.
pub trait Answerer: Send + Sync {
    /// What it is for, in a sentence: `show plugins` says it.
    fn about(&self) -> &'static str;

    /// Looks at the words that stand behind its name in the configuration, when that is read.
    ///
    /// # Errors
    /// What is wrong with them. Without a function of its own a plugin takes none.
    fn check(&self, arguments: &[String]) -> Result<(), ArgumentError> {
        match arguments.first() {
            None => Ok(()),
            Some(first) => Err(ArgumentError::new(format!("it takes no arguments, '{first}' is one"))),
        }
    }

    /// Answers a request. A panic becomes an answer with status 500.
    fn answer(&self, request: &mut Request<'_>) -> Answer;
}

/// What is wrong with the words behind a plugin's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

impl ArgumentError {
    /// A text that goes on behind `plugin.NAME: `.
    pub fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// A plugin that the program has.
#[derive(Clone, Copy)]
pub struct Plugin {
    /// What stands behind `plugin.` in the configuration.
    pub name: &'static str,
    /// What answers.
    pub answerer: &'static dyn Answerer,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Plugin").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All plugins that the program has: the binary says which.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plugins(pub &'static [Plugin]);

impl Plugins {
    /// The one of that name, with its place among all.
    #[must_use]
    pub fn named(self, name: &str) -> Option<(usize, &'static Plugin)> {
        self.0.iter().enumerate().find(|(_, plugin)| plugin.name == name)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|plugin| plugin.name)
    }
}
