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

mod bring;
mod busy;
mod database;
mod entry;
mod evict;
mod gather;
mod graveyard;
mod key_walk;
mod keys;
mod occupied;
mod owed;
mod policy;
mod reading;
mod tables;
mod usage;
mod walk;

pub use busy::Busy;
pub use database::Database;
pub use entry::{Entry, NEVER};
pub use gather::{GATHERED, Gather};
pub use graveyard::Graveyard;
pub use key_walk::KEYS_PER_STEP;
pub use key_walk::{KeyWalk, SharedKeyWalk};
pub use keys::{Expiry, Keys, Loaded};
pub use owed::Untaken;
pub use policy::MaxmemoryPolicy;
pub use reading::{Reading, WaiterId};
pub use usage::Usage;

use std::{
    collections::{HashSet, VecDeque},
    rc::Rc,
};

use crate::{
    Bytes, Failure, Millis, Value,
    elements::{ElementRecords, Elements, ReadFailure, Source},
    rdb, slot,
    value::Descriptor,
};
use tables::Tables;

/// So many elements are put in one step when memory is to let go of a collection.
const LAST_MAX: usize = 500;
/// The part of `maxmemory` that a collection of many elements may take.
const MEMORY_SHARE: usize = 8;
/// So many bytes of a record that is made at once are as much as one key more: what is taken is there twice until it is put.
const BYTES_AS_ONE: usize = 16 << 10;

/// What is not in memory: keys, and elements of collections.
pub trait Records: ElementRecords {
    /// Reads a key.
    ///
    /// # Errors
    ///
    /// The text of an error reply: what could not be read and why.
    fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String>;

    /// Reads a key if that takes no disk. Nothing if it does, or if what is there cannot be understood: [`load`](Self::load) says why.
    fn load_at_once(&self, disk: u8, slot: usize, key: &[u8]) -> Option<Option<Loaded>> {
        let _ = (disk, slot, key);
        None
    }

    /// The first keys of a slot whose hash is at least that, in the order of their hashes, at most as many.
    ///
    /// # Errors
    ///
    /// As of [`load`](Self::load).
    fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String>;

    /// A slot at or behind this one in front of which there are no keys of a database: the number of slots if there are none at all.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    fn next_slot(&self, disk: u8, from: usize) -> Result<usize, String>;
}

/// What a key's record has.
#[derive(Debug)]
pub enum Stored<T> {
    /// All of it.
    Whole(T),
    /// What it is; the elements are records of their own.
    Spread(Descriptor),
}

/// A key that a walk through the tables met.
#[derive(Debug, Clone)]
pub struct Walked {
    /// Its hash.
    pub hash: u64,
    /// The key.
    pub key: Bytes,
    /// The type of what it holds.
    pub type_name: &'static str,
    /// When it expires.
    pub expire_at: Millis,
}

/// Under which number the tables have each database. Numbers change so that a database can be emptied or swapped at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The number of each database in the tables.
    pub disks: Vec<u8>,
    /// Numbers of databases that were emptied: their records are to be removed.
    pub dropped: Vec<u8>,
}

/// A key as a checkpoint takes it.
#[derive(Debug)]
pub struct Taken {
    /// The number that its database has in the tables.
    pub disk: u8,
    /// Its slot.
    pub slot: usize,
    /// The key.
    pub key: Bytes,
    /// Its value, as records have it, and when it expires; nothing if the key is gone.
    pub value: Option<(Stored<Vec<u8>>, Millis)>,
}

/// How large what is kept whole may be.
#[derive(Debug, Clone, Copy)]
pub struct SpaceLimits {
    /// Collections with more elements are records by element (`collection-max-whole-entries`).
    pub whole_entries_max: usize,
    /// So are values whose records would be larger (`collection-max-whole-bytes`).
    pub whole_bytes_max: usize,
    /// What memory there is for all keys, if there is a bound (`maxmemory`).
    pub memory_max: Option<usize>,
}

/// All keys of a shard.
pub struct Keyspace {
    pub(crate) databases: Vec<Database>,
    /// What keys are hashed with.
    pub seed: u64,
    /// The number of the checkpoint that is being filled, 1 and 2 in turn; what is dirty with the other one belongs to the one being
    /// taken.
    generation: u8,
    dirty: Vec<(u8, Bytes)>,
    to_take: VecDeque<(u8, Bytes)>,
    taken: Vec<Taken>,
    /// Keys of collections of which a checkpoint has still to take elements.
    partly_taken: VecDeque<(u8, Bytes)>,
    /// Such collections that no key has any more.
    leaving: Vec<Value>,
    /// Databases that were emptied while a checkpoint was being taken.
    leaving_databases: Vec<Database>,
    /// What is not in memory; without it, memory is all there is.
    records: Option<Rc<Tables>>,
    /// Collections that are to come into memory, and how many have been so far.
    gatherings: Vec<Gather>,
    gatherings_begun: u64,
    /// How many bytes memory has room for.
    room: usize,
    pub(crate) owed: owed::Owed,
    /// Collections with more elements are records by element.
    pub(crate) whole_max: usize,
    /// Collections that take more are not brought into memory, and leave it when their records have all.
    pub(crate) share_max: usize,
    /// Values whose records are larger are too.
    pub(crate) whole_bytes_max: usize,
    /// Whether elements are to be read off the loop before a command asks for them.
    pub is_cold: bool,
    /// Whether there may be keys that are not in memory.
    pub partial: bool,
    /// Numbers of emptied databases in the tables.
    dropped: Vec<u8>,
    /// Keys that are being read.
    pub reading: reading::Reading,
    /// How far keys were brought into memory unasked.
    pub(crate) bringing: bring::Bringing,
    /// Walks through all keys of a database that are under way.
    walks: Vec<SharedKeyWalk>,
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
    /// Keys that were removed because memory is full.
    pub evicted: u64,
    /// Keys whose time has come are not there, but nothing removes them.
    pub expiry_paused: bool,
    /// Keys go when the log of another server says so, and not because their time has come.
    pub is_following: bool,
    /// How keys are used.
    pub usage: usage::Usage,
    /// What is freed bit by bit.
    pub graveyard: graveyard::Graveyard,
    /// Keys that commands have for themselves over several turns.
    pub busy: busy::Busy,
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
        let mut databases: Vec<_> =
            (0..=u8::MAX).take(databases).map(|disk| Database::new(seed, complete, disk)).collect();
        // Nearly everybody uses the first one: its tables are not to seem data.
        databases.first_mut().map(Database::make_room);
        let records = records.map(|records| Rc::new(Tables::new(records)));
        if let Some(source) = &records {
            databases.iter().for_each(|database| source.set_recorded(database.disk, true));
        }
        Self {
            databases,
            seed,
            generation: 1,
            dirty: Vec::new(),
            to_take: VecDeque::new(),
            taken: Vec::new(),
            partly_taken: VecDeque::new(),
            leaving: Vec::new(),
            leaving_databases: Vec::new(),
            gatherings: Vec::new(),
            gatherings_begun: 0,
            room: usize::MAX,
            owed: owed::Owed::default(),
            partial: records.is_some(),
            records,
            is_cold: false,
            whole_max: usize::MAX,
            share_max: usize::MAX,
            whole_bytes_max: usize::MAX,
            dropped: Vec::new(),
            reading: reading::Reading::default(),
            bringing: bring::Bringing::default(),
            walks: Vec::new(),
            evicted_to_tables: 0,
            hits: 0,
            misses: 0,
            expired: 0,
            loads: 0,
            evicted: 0,
            expiry_paused: false,
            is_following: false,
            usage: usage::Usage::new(),
            graveyard: graveyard::Graveyard::default(),
            busy: busy::Busy::new(seed),
        }
    }

    /// Takes over how large what is kept whole may be. Without tables, everything is.
    pub fn set_limits(&mut self, limits: SpaceLimits) {
        if self.records.is_some() {
            self.whole_max = limits.whole_entries_max;
            self.whole_bytes_max = limits.whole_bytes_max;
            self.share_max = limits.memory_max.map_or(usize::MAX, |bound| bound / MEMORY_SHARE);
        }
    }

    /// Goes on counting where another one has come to, and with its clock.
    pub fn take_statistics(&mut self, former: &mut Self) {
        self.reading = std::mem::take(&mut former.reading);
        self.reading.forget_all();
        (self.hits, self.misses, self.expired) = (former.hits, former.misses, former.expired);
        (self.loads, self.evicted) = (former.loads, former.evicted);
        self.usage = former.usage.clone();
    }

    /// Says whether reading elements takes long at the moment, so that they are to be read off the loop first.
    pub fn set_cold(&mut self, is_cold: bool) {
        self.is_cold = is_cold;
    }

    /// How many databases there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.databases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// A database.
    #[inline]
    pub fn database(&self, db: usize) -> Option<&Database> {
        self.databases.get(db)
    }

    /// A database, to be changed.
    pub fn database_mut(&mut self, db: usize) -> Option<&mut Database> {
        self.databases.get_mut(db)
    }

    /// Swaps what two databases hold.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.reading.forget_all();
        self.bring_anew();
        self.databases.swap(one, other);
    }

    /// How the tables number databases.
    pub fn layout(&self) -> Layout {
        let disks = self.databases.iter().map(|database| database.disk).collect();
        Layout { disks, dropped: self.dropped.clone() }
    }

    /// Takes over how the tables number databases, before there are any keys.
    pub fn set_layout(&mut self, layout: &Layout) {
        if let Some(source) = &self.records {
            layout.disks.iter().chain(&layout.dropped).for_each(|disk| source.set_recorded(*disk, true));
        }
        for (database, disk) in self.databases.iter_mut().zip(&layout.disks) {
            database.disk = *disk;
        }
        self.dropped.clone_from(&layout.dropped);
        // Databases that there were not then: their own numbers may be those of others by now.
        let mut used: Vec<u8> = layout.disks.iter().chain(&layout.dropped).copied().collect();
        for database in self.databases.iter_mut().skip(layout.disks.len()) {
            if used.contains(&database.disk)
                && let Some(free) = (0..=u8::MAX).find(|disk| !used.contains(disk))
            {
                database.disk = free;
            }
            used.push(database.disk);
        }
    }

    /// How many emptied databases the tables still have records of.
    pub fn dropped_len(&self) -> usize {
        self.dropped.len()
    }

    /// Says that the tables have no record of an emptied database any more.
    pub fn forget_dropped(&mut self, disk: u8) {
        if let Some(source) = &self.records {
            source.set_recorded(disk, false);
        }
        self.dropped.retain(|dropped| *dropped != disk);
    }

    /// Empties a database at once. Returns how many keys it had.
    ///
    /// # Errors
    ///
    /// Too many emptied databases are still being removed from the tables.
    pub fn clear(&mut self, db: usize) -> Result<usize, Failure> {
        let Some(database) = self.databases.get(db) else { return Ok(0) };
        let (len, former) = (database.len, database.disk);
        if len == 0 {
            return Ok(0);
        }
        if !self.walks.is_empty() {
            self.finish_walks(former);
        }
        let mut disk = former;
        let mut is_recorded = false;
        if let Some(source) = &self.records {
            // One that no checkpoint has come to keeps its number, so that it may be filled and emptied as often as one likes:
            // there are few numbers, and each has the tables searched for what is to be removed.
            is_recorded = source.is_recorded(former);
            if is_recorded {
                let used = |disk: &u8| {
                    self.dropped.contains(disk) || self.databases.iter().any(|database| database.disk == *disk)
                };
                disk = (0..=u8::MAX).find(|disk| !used(disk)).ok_or(Failure::text(
                    "ERR databases that were emptied are still being removed from the disk, try again in a moment",
                ))?;
                self.dropped.push(former);
            }
            self.dirty.retain(|(of, _)| *of != former);
            self.reading.forget_all();
        }
        self.bring_anew();
        let seed = self.seed;
        if let Some(database) = self.databases.get_mut(db) {
            let former = std::mem::replace(database, Database::new(seed, true, disk));
            database.make_room();
            if self.is_taken() || !is_recorded {
                self.graveyard.bury_database(former);
            } else {
                // The checkpoint that is being taken is about a time before this.
                self.leaving_databases.push(former);
            }
        }
        Ok(len)
    }

    /// Says that memory has all keys there are: the tables were empty, or all of them has been read.
    pub fn set_complete(&mut self) {
        self.partial = false;
        for database in &mut self.databases {
            database.set_complete();
        }
    }

    /// A command begins to run.
    pub fn begin_command(&self) {
        if let Some(source) = &self.records {
            source.begin();
        }
    }

    /// What is not in memory.
    pub fn source(&self) -> Option<&Rc<Source>> {
        self.records.as_deref().map(|tables| &**tables)
    }

    /// Forgets that something could not be read: nothing hangs on it.
    #[cold]
    pub fn forgive(&self) {
        self.take_read_failure();
    }

    /// What became of the command that has just run, if it met a key or an element that cannot be read.
    pub fn take_read_failure(&self) -> Option<ReadFailure> {
        self.records.as_ref().filter(|source| source.has_failed())?.take_read_failure()
    }

    /// What a key's record has as a value; nothing if it cannot be understood.
    fn value_of(&self, stored: Stored<Value>) -> Option<Value> {
        match stored {
            Stored::Whole(value) => Some(value),
            Stored::Spread(descriptor) => Value::described(&descriptor, self.records.as_ref()?, self.seed),
        }
    }

    /// How often records of elements were looked at or changed by commands, for differences.
    pub fn accesses(&self) -> u32 {
        self.records.as_ref().map_or(0, |source| source.accesses.get())
    }

    /// How many keys wait for a checkpoint.
    pub fn dirty_len(&self) -> usize {
        let noted = self.records.as_ref().map_or(0, |source| source.noted.get());
        self.dirty.len() + self.to_take.len() + self.partly_taken.len() + noted
    }

    /// Declares this moment the one whose state the next batch of tables has. The former one must have been taken whole.
    pub fn begin_checkpoint(&mut self) {
        debug_assert!(self.is_taken(), "one checkpoint at a time");
        self.generation = 3 - self.generation;
        if let Some(source) = &self.records {
            source.pending.set(source.noted.take());
            self.dirty.iter().for_each(|(disk, _)| source.set_recorded(*disk, true));
        }
        self.owed.begin_checkpoint();
        self.to_take = std::mem::take(&mut self.dirty).into();
    }

    /// Whether nothing is left of the checkpoint that was taken last.
    fn is_taken(&self) -> bool {
        self.to_take.is_empty() && self.partly_taken.is_empty() && self.leaving.is_empty()
    }

    /// A key that has changed and that no checkpoint will take: there must be none. It looks at every key, so it is for simulations.
    pub fn never_taken(&self) -> Option<Bytes> {
        let next: HashSet<&(u8, Bytes)> = self.dirty.iter().collect();
        let taking: HashSet<&(u8, Bytes)> = self.to_take.iter().collect();
        let is_listed = |disk: u8, entry: &Entry| match entry.dirty {
            0 => true,
            generation if generation == self.generation => next.contains(&(disk, entry.key.clone())),
            _ => taking.contains(&(disk, entry.key.clone())),
        };
        let all = self.databases.iter().flat_map(|database| {
            database.tables().flat_map(|table| table.index.iter()).map(move |entry| (database.disk, entry))
        });
        all.into_iter().find(|(disk, entry)| !is_listed(*disk, entry)).map(|(_, entry)| entry.key.clone())
    }

    /// Takes up to as many keys and elements of the checkpoint. Returns whether that was all; the keys are in `taken`, the elements
    /// have been put.
    pub fn take(&mut self, at_most: usize, taken: &mut Vec<Taken>) -> bool {
        let share_max = self.share_max;
        let mut left = at_most;
        while left > 0
            && let Some((disk, key)) = self.to_take.pop_front()
        {
            self.take_one(disk, &key);
            let taken = self.taken.last().and_then(|taken| taken.value.as_ref());
            let bytes = if let Some((Stored::Whole(bytes), _)) = taken { bytes.len() } else { 0 };
            left = left.saturating_sub(1 + bytes / BYTES_AS_ONE);
        }
        while left > 0
            && let Some((disk, key)) = self.partly_taken.pop_front()
        {
            let value = self.entry_mut(disk, &key).and_then(|entry| entry.value.as_mut());
            let Some(value) = value else { continue };
            left = left.saturating_sub(value.take_elements(left).max(1));
            if !value.is_being_taken() && value.is_larger(share_max) {
                value.approach_records(LAST_MAX);
                if let Some(former) = value.let_go() {
                    self.graveyard.bury(former);
                    self.evicted_to_tables += 1;
                    continue;
                }
            }
            if value.is_being_taken() {
                self.partly_taken.push_front((disk, key));
            }
        }
        while left > 0
            && let Some(mut value) = self.leaving.pop()
        {
            left = left.saturating_sub(value.take_elements(left).max(1));
            self.bury_or_keep(value);
        }
        taken.append(&mut self.taken);
        let is_all = self.is_taken();
        if is_all && let Some(source) = &self.records {
            source.pending.set(0);
            self.owed.end_checkpoint();
        }
        if is_all {
            self.leaving_databases.drain(..).for_each(|database| self.graveyard.bury_database(database));
        }
        is_all
    }

    /// Keeps a value that no key has until a checkpoint has taken its elements, then lets go of it.
    fn bury_or_keep(&mut self, value: Value) {
        if value.is_being_taken() {
            self.leaving.push(value);
        } else {
            self.graveyard.bury(value);
        }
    }

    /// Lets go of a value that no key has, or has any more.
    pub fn bury(&mut self, mut value: Value) {
        self.stop_gathering(&mut value);
        value.discard_elements();
        self.bury_or_keep(value);
    }

    fn entry_mut(&mut self, disk: u8, key: &[u8]) -> Option<&mut Entry> {
        let slot = slot::slot(key);
        of_disk(&mut self.databases, &mut self.leaving_databases, disk)?.slot_mut(slot)?.index.get_mut(key)
    }

    fn take_one(&mut self, disk: u8, key: &[u8]) {
        let slot = slot::slot(key);
        let (whole_max, whole_bytes_max, seed) = (self.whole_max, self.whole_bytes_max, self.seed);
        let database = of_disk(&mut self.databases, &mut self.leaving_databases, disk);
        let Some(database) = database else { return };
        let Some(table) = database.slot_mut(slot) else { return };
        let hash = table.hash(key);
        let Some(entry) = table.index.get_mut_hashed(hash, key) else { return };
        if entry.dirty == 0 || entry.dirty == self.generation {
            return;
        }
        entry.dirty = 0;
        if let (Some(source), Some(value)) = (&self.records, &mut entry.value)
            && !matches!(value, Value::Stream(_) | Value::Queue(_))
            && (value.is_beyond(whole_max) || value.is_sizeable(whole_bytes_max))
        {
            value.keep(|| Elements::of_new(source, disk, slot as u16), seed);
        }
        if let Some(value) = &entry.value {
            self.owed.take(value);
            value.count_untaken(true);
        }
        let is_partly_taken = entry.value.as_mut().is_some_and(|value| value.begin_taking(true));
        let value = entry.value.as_ref().map(|value| {
            let stored = match value.descriptor() {
                Some(descriptor) => Stored::Spread(descriptor),
                None => {
                    let mut bytes = Vec::new();
                    rdb::encode_value(value, &mut bytes);
                    entry.is_bulky = bytes.len() > whole_bytes_max;
                    Stored::Whole(bytes)
                }
            };
            (stored, entry.expire_at)
        });
        entry.on_disk = value.is_some();
        let gone = value.is_none() && table.complete;
        self.taken.push(Taken { disk, slot, key: Bytes::from_slice(key), value });
        if is_partly_taken {
            self.partly_taken.push_back((disk, Bytes::from_slice(key)));
        }
        if gone {
            table.absent -= 1;
            database.absent -= 1;
            database.remove_hashed(slot, hash, key);
        }
    }
}

/// The database that the tables know by a number.
fn of_disk<'a>(databases: &'a mut [Database], leaving: &'a mut [Database], disk: u8) -> Option<&'a mut Database> {
    databases.iter_mut().chain(leaving).find(|database| database.disk == disk)
}
