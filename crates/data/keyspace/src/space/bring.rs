//! Keys come into memory though nobody asks for them.
//!
//! A store that lets keys go for good when memory is full must have all of them there: one that only the tables have could
//! never be chosen. After a start, and when a policy is set, they are read bit by bit, slot by slot.

use crate::{Failure, hash_index::CURSOR_BITS, slot::SLOTS};

use super::{Keys, Keyspace};

/// How far that is.
#[derive(Debug, Default)]
pub(crate) struct Bringing {
    db: usize,
    cursor: u64,
    /// How many keys had left memory when the slot was begun with.
    left: u64,
}

impl Keyspace {
    /// Whether there may be keys that memory has not.
    pub fn is_partial(&self) -> bool {
        self.partial && self.records.is_some()
    }

    /// Whether there is more than memory.
    pub fn has_tables(&self) -> bool {
        self.records.is_some()
    }

    /// What was brought may be elsewhere now.
    pub(super) fn bring_anew(&mut self) {
        self.bringing = Bringing::default();
    }
}

impl Keys<'_> {
    /// Brings about as many keys of any database into memory, going on where it was left. Returns whether there are more.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn bring(&mut self, at_most: usize) -> Result<bool, Failure> {
        let within = (1 << CURSOR_BITS) - 1;
        let mut begun = std::mem::take(&mut self.space.bringing);
        if begun.db >= self.space.databases.len() {
            // A key that left memory since belongs to a slot that has been gone through.
            let complete = |database: &super::Database| database.is_complete();
            self.space.partial = !self.space.databases.iter().all(complete);
            return Ok(false);
        }
        if begun.left != self.space.evicted_to_tables {
            begun.cursor &= !within;
            begun.left = self.space.evicted_to_tables;
        }
        let mut keys = self.on(begun.db);
        let database = keys.space.databases.get(begun.db);
        let next = if database.is_none_or(|database| database.is_empty() || database.is_complete()) {
            // Without any key, all that it has is here.
            0
        } else {
            let mut found = Vec::new();
            let next = keys.walk(begun.cursor, at_most, &mut found)?;
            for walked in found {
                keys.contains(&walked.key)?;
            }
            next
        };
        let slot = |cursor: u64| (cursor >> CURSOR_BITS) as usize;
        let end = if next == 0 { SLOTS } else { slot(next) };
        if let Some(database) = keys.space.databases.get_mut(begun.db) {
            (slot(begun.cursor)..end).for_each(|slot| database.complete_slot(slot));
        }
        // What is being read for somebody may be removed before it comes.
        keys.space.reading.forget_all();
        begun.cursor = next;
        begun.db += usize::from(next == 0);
        self.space.bringing = begun;
        Ok(true)
    }
}
