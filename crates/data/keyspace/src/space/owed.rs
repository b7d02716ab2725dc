//! How much a checkpoint will take of memory: what has changed gets a record, and is in memory twice until that is written.
//!
//! Keys and elements are counted; what one of them takes on average, whoever makes the records knows. Long strings are counted by
//! their bytes besides: one of them says nothing of others.

use crate::Value;

use super::Keyspace;

/// From how many bytes on a string counts by itself.
const LONG: usize = 4096;

/// What is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Untaken {
    /// Keys and elements.
    pub count: usize,
    /// The bytes of long strings among them.
    pub long_bytes: usize,
}

/// The bytes of long strings that have changed.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Since the last checkpoint began.
    next: usize,
    /// Before.
    pending: usize,
}

fn long_bytes(value: &Value) -> usize {
    if let Value::String(string) = value
        && string.len() > LONG
    {
        string.len()
    } else {
        0
    }
}

impl Owed {
    pub(super) fn begin_checkpoint(&mut self) {
        self.pending = std::mem::take(&mut self.next);
    }

    pub(super) fn end_checkpoint(&mut self) {
        self.pending = 0;
    }

    /// A checkpoint takes a value.
    pub(super) fn take(&mut self, value: &Value) {
        self.pending = self.pending.saturating_sub(long_bytes(value));
    }

    /// The next checkpoint is to take this value.
    pub(super) fn add(&mut self, value: &Value) {
        self.next = self.next.saturating_add(long_bytes(value));
    }

    /// It is not.
    pub(super) fn remove(&mut self, value: &Value) {
        self.next = self.next.saturating_sub(long_bytes(value));
    }
}

impl Keyspace {
    /// About what the next checkpoint has to take.
    pub fn untaken(&self) -> Untaken {
        let noted = self.records.as_ref().map_or(0, |source| source.noted.get());
        Untaken { count: self.dirty.len() + noted, long_bytes: self.owed.next }
    }

    /// About what the checkpoint that is under way has still to take.
    pub fn to_be_taken(&self) -> Untaken {
        let pending = self.records.as_ref().map_or(0, |source| source.pending.get());
        Untaken { count: self.to_take.len() + pending, long_bytes: self.owed.pending }
    }
}
