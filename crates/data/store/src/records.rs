//! Keys as records of the tables, and back.

use std::{cell::RefCell, error::Error as _, rc::Rc};

use commands::{
    Bytes as SmallBytes, Millis,
    config::Settings,
    keyspace::{Layout, Loaded, NEVER, Records, Taken, Walked},
    rdb::{self, Building},
    server::Load,
    slot::SLOTS,
};
use engine::{
    Direction, Tables,
    record::{self, Header, Kind, RecordKey},
};

/// What kind of record a header names: the whole value inline, in RDB's form.
const WHOLE_VALUE: u8 = 1;
/// The name of the record that says how databases are numbered.
const LAYOUT: &[u8] = b"layout";
/// Deadlines of all slots stand together, so that those that are due are one interval. A deadline is a hint: a key that
/// got another one since, or went to another store, is found not to be due.
const EXPIRY_SLOT: u16 = 0;
/// How many deadlines are looked at together.
pub const DUE_MAX: usize = 64;
/// How long a header is mostly at most.
const HEADER_LEN: usize = 16;
/// The name of the record that counts a database's keys.
const KEY_COUNT: &[u8] = b"keys";

/// A shard's tables, for its loop and for the keyspace that asks them for what is not in memory.
#[derive(Clone)]
pub struct ShardTables {
    tables: Rc<RefCell<Tables>>,
    key_seed: u64,
}

impl ShardTables {
    /// Those of a shard.
    pub fn new(tables: Tables, key_seed: u64) -> Self {
        Self { tables: Rc::new(RefCell::new(tables)), key_seed }
    }

    /// Does something with them. They are not borrowed elsewhere: whoever borrows them does nothing else meanwhile.
    pub fn with<T>(&self, act: impl FnOnce(&mut Tables) -> T) -> T {
        act(&mut self.tables.borrow_mut())
    }

    /// Hands a key in as it was at the mark.
    pub fn put_taken(&self, taken: &Taken) {
        let (slot, db) = (taken.slot as u16, taken.disk);
        let name = record::key(slot, db, &taken.key);
        self.with(|tables| match &taken.value {
            Some((value, expire_at)) => {
                let expire_at_ms = (*expire_at != NEVER).then_some(expire_at.unsigned_abs());
                let header = Header { kind: WHOLE_VALUE, expire_at_ms, ..Header::default() }.with_key(&taken.key);
                let mut bytes = Vec::with_capacity(value.len() + HEADER_LEN);
                header.encode(&mut bytes);
                bytes.extend_from_slice(value);
                tables.put_marked(name, bytes);
                if let Some(at_ms) = expire_at_ms {
                    let whole = record::with_whole(&taken.key, b"");
                    tables.put_marked(record::expiry(EXPIRY_SLOT, db, at_ms, &taken.key), whole);
                }
            }
            None => tables.delete_marked(name),
        });
    }

    /// Hands in how the databases are numbered at the mark.
    pub fn put_layout(&self, layout: &Layout) {
        let mut bytes = vec![layout.disks.len() as u8];
        bytes.extend_from_slice(&layout.disks);
        bytes.extend_from_slice(&layout.dropped);
        self.with(|tables| tables.put_marked(record::meta(0, 0, LAYOUT), bytes));
    }

    /// How the databases are numbered; nothing in new tables.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn layout(&self) -> Result<Option<Layout>, engine::Error> {
        let value = self.with(|tables| tables.get(&record::meta(0, 0, LAYOUT)))?;
        Ok(value.and_then(|bytes| {
            let (len, rest) = bytes.split_first()?;
            let (disks, dropped) = rest.split_at_checked(usize::from(*len))?;
            Some(Layout { disks: disks.to_vec(), dropped: dropped.to_vec() })
        }))
    }

    /// Hands in how many keys a database has at the mark.
    pub fn put_key_count(&self, db: usize, count: usize) {
        let name = record::meta(0, db as u8, KEY_COUNT);
        self.with(|tables| tables.put_marked(name, (count as u64).to_be_bytes().to_vec()));
    }

    /// Deadlines of a database up to now.
    pub fn due(disk: u8, now: Millis) -> engine::Bounds {
        record::range::expired(EXPIRY_SLOT, disk, now.unsigned_abs())
    }

    /// A look at deadlines, to be made elsewhere.
    pub fn capture(&self, bounds: &engine::Bounds) -> engine::Capture {
        self.with(|tables| tables.capture(bounds, Direction::Forward, DUE_MAX))
    }

    /// The interval of records that is removed in a step of removing an emptied database; nothing behind the last step.
    pub fn dropped_range(disk: u8, step: usize) -> Option<engine::Bounds> {
        match step {
            0 => Some(record::range::database(EXPIRY_SLOT, Kind::Expiry, disk)),
            step if step <= SLOTS => Some(record::range::database((step - 1) as u16, Kind::Key, disk)),
            _ => None,
        }
    }

    /// The key of a deadline; the deadline itself is forgotten.
    pub fn take_deadline(&self, name: &engine::Key, value: &[u8]) -> Option<Vec<u8>> {
        self.with(|tables| tables.delete(name.clone()));
        let record::RecordKey::Expiry { key, .. } = record::decode(name).ok()? else { return None };
        record::split_whole(key, value).ok().map(|(key, _)| key.to_vec())
    }

    /// How many keys a database has.
    ///
    /// # Errors
    ///
    /// The tables' cannot be read.
    pub fn key_count(&self, db: usize) -> Result<usize, engine::Error> {
        let name = record::meta(0, db as u8, KEY_COUNT);
        let value = self.with(|tables| tables.get(&name))?;
        let count = value.and_then(|bytes| <[u8; 8]>::try_from(&*bytes).ok()).map_or(0, u64::from_be_bytes);
        Ok(count as usize)
    }

    /// The record of a key that is asked for.
    pub fn name(&self, load: &Load) -> engine::Key {
        record::key(load.slot as u16, load.disk, &load.key)
    }

    /// What was read of a key; nothing if it cannot be understood.
    pub fn loaded(&self, load: &Load, value: Option<engine::Value>) -> Option<Option<Loaded>> {
        match value {
            Some(bytes) => self.decode(&load.key, &bytes).ok(),
            None => Some(None),
        }
    }

    fn decode(&self, key: &[u8], bytes: &[u8]) -> Result<Option<Loaded>, String> {
        let damaged = |reason: String| format!("ERR the record of a key is damaged: {reason}");
        let (header, value) = Header::decode(bytes).map_err(|error| damaged(error.to_string()))?;
        if header.key.is_some_and(|whole| whole != key) {
            // Another long key with the same beginning and the same hash.
            return Ok(None);
        }
        if header.kind != WHOLE_VALUE {
            return Err(damaged(format!("its kind {} is of a later version", header.kind)));
        }
        let value = rdb::decode_value(value, &Building::new(self.key_seed, &Settings::default()))
            .map_err(|error| damaged(error.to_string()))?;
        let expire_at = header.expire_at_ms.map_or(NEVER, |at| Millis::try_from(at).unwrap_or(NEVER));
        Ok(Some(Loaded { value, expire_at }))
    }
}

impl Records for ShardTables {
    fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String> {
        let name = record::key(slot as u16, disk, key);
        match self.with(|tables| tables.get(&name)) {
            Ok(Some(bytes)) => self.decode(key, &bytes),
            Ok(None) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String> {
        let bounds = record::range::keys_from(slot as u16, disk, from_hash);
        self.with(|tables| {
            let mut found = Vec::new();
            for record in tables.scan(&bounds, Direction::Forward).take(at_most) {
                let (name, value) = record.map_err(|error| unreadable(&error))?;
                let damaged = |reason: record::NotARecord| format!("ERR a record is damaged: {reason}");
                let RecordKey::Key { hash, key, .. } = record::decode(&name).map_err(damaged)? else { continue };
                let (header, value) = Header::decode(&value).map_err(damaged)?;
                found.push(Walked {
                    hash,
                    key: SmallBytes::from_slice(header.key.unwrap_or(key.bytes())),
                    type_name: rdb::type_name(value).unwrap_or("none"),
                    expire_at: header.expire_at_ms.map_or(NEVER, |at| Millis::try_from(at).unwrap_or(NEVER)),
                });
            }
            Ok(found)
        })
    }
}

fn unreadable(error: &engine::Error) -> String {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("ERR cannot read from disk: {error}{cause}")
}
