//! A reply that is given over several turns, as far as its session knows it.

use keyspace::{SharedKeyWalk, value::Portions};

use super::pieces::Pieces;

/// What is left of a reply.
#[derive(Debug)]
pub enum Rest {
    /// Elements of a collection.
    Elements(Portions),
    /// All of what a command has made.
    Made(Pieces),
    /// All of it: keys of a database, which are found first.
    Keys(SharedKeyWalk),
}

/// A reply that is being given.
#[derive(Debug)]
pub struct Unfinished {
    pub(crate) rest: Rest,
    /// What the client is to be sent behind the reply.
    pub(crate) later: Vec<u8>,
}

impl Unfinished {
    /// A reply of which this is left.
    pub(crate) fn new(rest: Rest) -> Self {
        Self { rest, later: Vec::new() }
    }

    /// How much of it is made and not sent.
    pub(crate) fn made_len(&self) -> usize {
        self.later.len() + if let Rest::Made(pieces) = &self.rest { pieces.len() } else { 0 }
    }

    /// What it keeps of elements that have changed.
    pub(crate) fn changed_len(&self) -> usize {
        if let Rest::Elements(portions) = &self.rest { portions.bytes() } else { 0 }
    }

    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.later.len()
            + match &self.rest {
                Rest::Elements(portions) => portions.bytes(),
                // It grows no more, and has been looked at.
                Rest::Made(_) => 0,
                Rest::Keys(walk) => walk.borrow().bytes(),
            }
    }
}
