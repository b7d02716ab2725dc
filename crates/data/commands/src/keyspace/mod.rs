//! The keys of a shard, as far as they are in memory.
//!
//! Memory is a cache of the tables on disk that is written behind. For each key that is here the entry is the truth; a key
//! that is not here is asked of [`Records`], unless its slot is known to be complete. A key that was removed stays as an
//! entry without a value until the tables have forgotten it too.
//!
//! # Checkpoints
//!
//! A checkpoint brings the tables to the state of one moment without stopping: [`Keyspace::begin_checkpoint`] is that
//! moment. The keys that were dirty then are taken bit by bit ([`Keyspace::take`]); one that is about to change before its
//! turn is taken at once. What changes later is dirty for the next checkpoint.

mod database;
mod entry;
mod evict;
mod keys;

pub use database::Database;
pub use entry::{Entry, NEVER};
pub use keys::{Expiry, Keys, Loaded};

use std::collections::VecDeque;

use crate::{Bytes, Failure, Millis, rdb, slot};

/// What is not in memory.
pub trait Records {
    /// Reads a key.
    ///
    /// # Errors
    ///
    /// The text of an error reply: what could not be read and why.
    fn load(&self, db: usize, slot: usize, hash: u64, key: &[u8]) -> Result<Option<Loaded>, String>;
}

/// A key as a checkpoint takes it.
#[derive(Debug)]
pub struct Taken {
    /// Its database.
    pub db: usize,
    /// Its slot.
    pub slot: usize,
    /// Its hash.
    pub hash: u64,
    /// The key.
    pub key: Bytes,
    /// Its value, as records have it, and when it expires; nothing if the key is gone.
    pub value: Option<(Vec<u8>, Millis)>,
}

/// All keys of a shard.
pub struct Keyspace {
    pub(crate) databases: Vec<Database>,
    pub(crate) seed: u64,
    /// The number of the checkpoint that is being filled; what is dirty with a lower one belongs to the one being taken.
    generation: u32,
    dirty: Vec<(u16, Bytes)>,
    to_take: VecDeque<(u16, Bytes)>,
    taken: Vec<Taken>,
    /// What is not in memory; without it, memory is all there is.
    records: Option<Box<dyn Records>>,
    /// Whether there may be keys that are not in memory.
    pub(crate) partial: bool,
    /// Keys that left memory and stay in the tables.
    pub evicted_to_tables: u64,
    /// Lookups that found a key.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Loads from the tables.
    pub loads: u64,
    /// The clock of least recent use, in seconds.
    pub(crate) lru_clock: u32,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Keyspace").field("databases", &self.databases.len()).finish_non_exhaustive()
    }
}

impl Keyspace {
    /// An empty one. `seed` decides the order of keys in `SCAN` and in the tables, so it must stay the same for the same
    /// tables; it should be a secret.
    pub fn new(databases: usize, seed: u64, records: Option<Box<dyn Records>>) -> Self {
        let complete = records.is_none();
        Self {
            databases: (0..databases).map(|_| Database::new(seed, complete)).collect(),
            seed,
            generation: 1,
            dirty: Vec::new(),
            to_take: VecDeque::new(),
            taken: Vec::new(),
            partial: records.is_some(),
            records,
            evicted_to_tables: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            loads: 0,
            lru_clock: 0,
        }
    }

    /// How many databases there are.
    pub fn len(&self) -> usize {
        self.databases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// A database.
    pub fn database(&self, db: usize) -> Option<&Database> {
        self.databases.get(db)
    }

    /// A database, to be changed.
    pub fn database_mut(&mut self, db: usize) -> Option<&mut Database> {
        self.databases.get_mut(db)
    }

    /// Swaps what two databases hold.
    ///
    /// # Errors
    ///
    /// Records on disk name their database, so they would have to be written anew, all of them.
    pub fn swap(&mut self, one: usize, other: usize) -> Result<(), Failure> {
        if self.records.is_some() {
            return Err(Failure::text(
                "ERR SWAPDB is not there for a store with a folder: records name their database",
            ));
        }
        self.databases.swap(one, other);
        Ok(())
    }

    /// Says that memory has all keys there are: the tables were empty, or all of them has been read.
    pub fn set_complete(&mut self) {
        self.partial = false;
        for database in &mut self.databases {
            database.set_complete();
        }
    }

    /// How many keys wait for a checkpoint.
    pub fn dirty_len(&self) -> usize {
        self.dirty.len() + self.to_take.len()
    }

    /// Declares this moment the one whose state the next batch of tables has. The former one must have been taken whole.
    pub fn begin_checkpoint(&mut self) {
        debug_assert!(self.to_take.is_empty(), "one checkpoint at a time");
        self.generation += 1;
        self.to_take = std::mem::take(&mut self.dirty).into();
    }

    /// Takes up to as many keys of the checkpoint. Returns whether that was all; what was taken is in `taken`.
    pub fn take(&mut self, at_most: usize, taken: &mut Vec<Taken>) -> bool {
        for _ in 0..at_most {
            let Some((db, key)) = self.to_take.pop_front() else { break };
            self.take_one(usize::from(db), &key);
        }
        taken.append(&mut self.taken);
        self.to_take.is_empty()
    }

    fn take_one(&mut self, db: usize, key: &[u8]) {
        let slot = slot::slot(key);
        let Some(table) = self.databases.get_mut(db).and_then(|database| database.slot_mut(slot)) else { return };
        let hash = table.hash(key);
        let Some(entry) = table.index.get_mut_hashed(hash, key) else { return };
        if entry.dirty == 0 || entry.dirty >= self.generation {
            return;
        }
        entry.dirty = 0;
        let value = entry.value.as_ref().map(|value| {
            let mut bytes = Vec::new();
            rdb::encode_value(value, &mut bytes);
            (bytes, entry.expire_at)
        });
        entry.on_disk = value.is_some();
        let gone = value.is_none() && table.complete;
        self.taken.push(Taken { db, slot, hash, key: Bytes::from_slice(key), value });
        if gone {
            table.index.remove_hashed(hash, key);
            table.absent -= 1;
        }
    }
}
