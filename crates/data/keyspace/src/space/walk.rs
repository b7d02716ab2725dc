//! Walks through all keys of a database, in memory or not.
//!
//! A cursor is a slot and the leading bits of a hash. Memory and tables both give the keys of a slot in the order of their
//! hashes, so a step merges what both have up to the same hash; for a key that both have, memory is right.

use crate::{Failure, hash_index::CURSOR_BITS, random::Random, slot::SLOTS};

use super::{Keys, Walked};

impl Keys<'_> {
    /// Gives about `count` keys from a cursor on, and the cursor to go on with, 0 at the end. Keys that have expired are among
    /// them.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn walk(&mut self, cursor: u64, count: usize, found: &mut Vec<Walked>) -> Result<u64, Failure> {
        let mut slot = (cursor >> CURSOR_BITS) as usize;
        let mut within = cursor & ((1 << CURSOR_BITS) - 1);
        let goal = found.len() + count;
        while slot < SLOTS {
            let next = self.walk_slot(slot, within, goal.saturating_sub(found.len()).max(1), found)?;
            match next {
                Some(next) => within = next,
                None => {
                    slot = self.next_slot(slot + 1)?;
                    within = 0;
                }
            }
            if found.len() >= goal {
                break;
            }
        }
        Ok(if slot < SLOTS { (slot as u64) << CURSOR_BITS | within } else { 0 })
    }

    /// The first slot from one on that may have keys; [`SLOTS`] if there is none.
    fn next_slot(&self, from: usize) -> Result<usize, Failure> {
        let Some(database) = self.space.databases.get(self.db) else { return Ok(SLOTS) };
        let Some(records) = self.space.records.as_ref().filter(|_| !database.is_complete()) else {
            return Ok(database.next_slot(from));
        };
        // Memory alone knows of keys that the tables have not yet.
        let in_memory = database.next_slot(from);
        Ok(if in_memory <= from { in_memory } else { in_memory.min(records.next_slot(database.disk, from)?) })
    }

    fn walk_slot(&self, slot: usize, from: u64, count: usize, found: &mut Vec<Walked>) -> Result<Option<u64>, Failure> {
        let Some(database) = self.space.databases.get(self.db) else { return Ok(None) };
        let table = database.slot(slot);
        let position = |hash: u64| hash >> (64 - CURSOR_BITS);
        // What the tables have up to some hash; nothing if memory has all.
        let mut cold = Vec::new();
        let mut end = None;
        if let Some(records) =
            self.space.records.as_ref().filter(|_| table.map_or(!database.complete, |table| !table.complete))
        {
            let mut at_most = count.max(LEAST_COLD);
            loop {
                cold = records.walk(database.disk, slot, from << (64 - CURSOR_BITS), at_most)?;
                let last = cold.last().filter(|_| cold.len() >= at_most).map(|last| position(last.hash));
                match last {
                    // All of them have the same position: more are needed to get beyond it.
                    Some(last) if last == from => at_most *= 2,
                    last => {
                        end = last;
                        break;
                    }
                }
            }
        }
        let first = found.len();
        let next = table.and_then(|table| {
            table.index.scan(from, count, |entry| {
                let hash = table.index.hash(&entry.key);
                if let Some(value) = entry.value.as_ref().filter(|_| end.is_none_or(|end| position(hash) < end)) {
                    let (key, expire_at) = (entry.key.clone(), entry.expire_at);
                    found.push(Walked { hash, key, type_name: value.type_name(), expire_at });
                }
            })
        });
        let end = match (next, end) {
            (Some(next), Some(end)) => Some(next.min(end)),
            (next, end) => next.or(end),
        };
        // Memory went further than the tables, or the other way round.
        let mut at = first;
        while let Some(walked) = found.get(at) {
            if end.is_some_and(|end| position(walked.hash) >= end) {
                found.swap_remove(at);
            } else {
                at += 1;
            }
        }
        let in_memory =
            |walked: &Walked| table.is_some_and(|table| table.index.get_hashed(walked.hash, &walked.key).is_some());
        found.extend(
            cold.into_iter().filter(|walked| end.is_none_or(|end| position(walked.hash) < end) && !in_memory(walked)),
        );
        Ok(end)
    }

    /// Some key of the database.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn random(&mut self, random: &mut Random) -> Result<Option<Walked>, Failure> {
        let bits = (SLOTS as u64).trailing_zeros() + CURSOR_BITS;
        for cursor in [random.draw() >> (64 - bits), 0] {
            let mut found = Vec::new();
            self.walk(cursor, 1, &mut found)?;
            let index = random.below(found.len().max(1) as u64) as usize;
            if let Some(walked) = found.into_iter().nth(index) {
                return Ok(Some(walked));
            }
        }
        Ok(None)
    }
}

/// How many keys of the tables are read at least.
const LEAST_COLD: usize = 16;
