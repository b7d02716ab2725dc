//! Keys as records of the tables, and back.

mod renumber;
mod selected;
mod slots;

pub use selected::selected_in;

use std::{
    cell::{Cell, RefCell},
    error::Error as _,
    io::Read as _,
    ops::Bound,
    rc::Rc,
    time::Duration,
};

use commands::{config::Settings, server::Load};
use engine::{
    Direction, Tables, Value,
    record::{self, Elements, Header, Kind, RecordKey},
};
use keyspace::{
    Bytes as SmallBytes, Collection, ElementRecords, GATHERED, Layout, Loaded, Millis, NEVER, Records, Span, Stored,
    Taken, Walked, rdb,
    value::{Descriptor, ValueLimits},
};
use rustc_hash::FxHashMap;

use crate::{World, read_errors::ReadErrors};

/// What kind of record a header names: the whole value inline, in RDB's form.
pub const WHOLE_VALUE: u8 = 1;
/// The elements are records of their own. Inline stand the type (1 byte), the slot of the elements (2 bytes, big endian), and what
/// the type keeps besides.
pub const SPREAD: u8 = 2;
/// The name of the record that says how databases are numbered.
pub const LAYOUT: &[u8] = b"layout";
/// Deadlines of all slots stand together, so that those that are due are one interval. A deadline is a hint: a key that
/// got another one since, or went to another store, is found not to be due.
const EXPIRY_SLOT: u16 = 0;
/// So do collections that are no more; the value of such a record is the slot of the elements.
const ORPHAN_SLOT: u16 = 0;
/// How many deadlines are looked at together.
pub const DUE_MAX: usize = 64;
/// A read that takes longer has waited for the disk.
pub const SLOW: Duration = Duration::from_micros(200);
/// How long a header is mostly at most.
const HEADER_LEN: usize = 16;
/// A value that is longer is not copied behind its header.
const LONG_VALUE: usize = 64 << 10;
/// The name of the record that counts a database's keys.
pub const KEY_COUNT: &[u8] = b"keys";
/// The name of the record that counts those of them that expire.
pub const EXPIRES_COUNT: &[u8] = b"expires";
/// The name of the record that says which version the next collection gets.
const NEXT_VERSION: &[u8] = b"version";

/// The name of the record with the seed of keys' hashes; tables of before there was one have none, and the seed 0.
const KEY_SEED: &[u8] = b"seed";
/// The name of the record that has the libraries of functions.
pub const FUNCTIONS: &[u8] = b"functions";

/// A shard's tables, for its loop and for the keyspace that asks them for what is not in memory.
#[derive(Clone)]
pub struct ShardTables {
    tables: Rc<RefCell<Tables>>,
    world: Rc<dyn World>,
    /// How values are made of records: with the seed of the hashes of keys and elements, a secret.
    value_limits: Rc<Cell<ValueLimits>>,
    next_version: Rc<Cell<u64>>,
    /// How long the slowest element took that was read in place.
    slowest: Rc<Cell<Duration>>,
    /// What the log was told of records that cannot be read.
    read_errors: Rc<Cell<ReadErrors>>,
    /// Collections that are no more since the last mark.
    orphans: Rc<RefCell<Vec<Collection>>>,
    /// Collections that somebody reads as they were, how many each.
    pinned: Rc<RefCell<FxHashMap<Collection, usize>>>,
}

impl ShardTables {
    /// Those of a shard. New ones get a seed, which becomes a part of them with their first batch.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn new(
        tables: Tables,
        new_seed: u64,
        settings: &Settings,
        world: Rc<dyn World>,
    ) -> Result<Self, engine::Error> {
        renumber::renumber(&**tables.engine())?;
        let key_seed = match tables.get(&record::meta(0, 0, KEY_SEED))? {
            Some(bytes) => <[u8; 8]>::try_from(&*bytes).map(u64::from_be_bytes).map_err(|error| {
                let place = engine::DamagePlace::At(record::meta(0, 0, KEY_SEED).to_vec());
                engine::Error::Damaged { place, file: None, source: Box::new(error) }
            })?,
            None if tables.engine().applied()?.is_some() => 0,
            None => new_seed,
        };
        Ok(Self {
            tables: Rc::new(RefCell::new(tables)),
            world,
            value_limits: Rc::new(Cell::new(settings.value_limits(key_seed))),
            next_version: Rc::new(Cell::new(1)),
            slowest: Rc::default(),
            read_errors: Rc::default(),
            orphans: Rc::default(),
            pinned: Rc::default(),
        })
    }

    /// The seed of the hashes.
    pub fn key_seed(&self) -> u64 {
        self.value_limits.get().seed
    }

    /// Hands it in at the mark.
    pub fn put_key_seed(&self) {
        self.with(|tables| tables.put_marked(record::meta(0, 0, KEY_SEED), self.key_seed().to_be_bytes()));
        let (name, slots) = renumber::marker();
        self.with(|tables| tables.put_marked(name, slots));
    }

    /// Takes over which values are small, as they are read from now on.
    pub fn follow(&self, settings: &Settings) {
        self.value_limits.set(settings.value_limits(self.value_limits.get().seed));
    }

    /// Does something with them. They are not borrowed elsewhere: whoever borrows them does nothing else meanwhile.
    pub fn with<T>(&self, act: impl FnOnce(&mut Tables) -> T) -> T {
        act(&mut self.tables.borrow_mut())
    }

    /// Looks something up in them; who does may look other things up meanwhile.
    fn look<T>(&self, act: impl FnOnce(&Tables) -> T) -> T {
        act(&self.tables.borrow())
    }

    /// Hands a key in as it was at the mark.
    pub fn put_taken(&self, taken: Taken) {
        let (slot, db) = (taken.slot as u16, taken.disk);
        let name = record::key(self.key_seed(), slot, db, &taken.key);
        self.with(|tables| match taken.value {
            Some((value, expire_at)) => {
                let expire_at_ms = (expire_at != NEVER).then_some(expire_at.unsigned_abs());
                tables.put_marked(name, encode(&taken.key, value, expire_at_ms));
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
        Ok(value.and_then(|bytes| layout_in(&bytes)))
    }

    /// Hands in the libraries of functions at the mark, as `FUNCTION DUMP` gives them.
    pub fn put_functions(&self, payload: Vec<u8>) {
        self.with(|tables| tables.put_marked(record::meta(0, 0, FUNCTIONS), payload));
    }

    /// The libraries of functions; nothing if there never were any.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn functions(&self) -> Result<Option<engine::Value>, engine::Error> {
        self.with(|tables| tables.get(&record::meta(0, 0, FUNCTIONS)))
    }

    /// Hands in how many keys a database has at the mark, and how many of them expire.
    pub fn put_key_counts(&self, db: usize, keys: usize, expires: usize) {
        for (name, count) in [(KEY_COUNT, keys), (EXPIRES_COUNT, expires)] {
            let name = record::meta(0, db as u8, name);
            self.with(|tables| tables.put_marked(name, (count as u64).to_be_bytes().to_vec()));
        }
    }

    /// Deadlines of a database up to now.
    pub fn due(disk: u8, now: Millis) -> engine::Bounds {
        record::range::expired(EXPIRY_SLOT, disk, now.unsigned_abs())
    }

    /// A look at records, of which so many have changed at most, to be made elsewhere.
    pub fn capture(&self, bounds: &engine::Bounds, changes_max: usize) -> engine::Capture {
        self.look(|tables| tables.capture(bounds, Direction::Forward, changes_max))
    }

    /// The records of a collection that comes into memory.
    pub fn gathered(of: Collection) -> engine::Bounds {
        bounds(of, GATHERED)
    }

    /// An element's name and what it has; nothing if that cannot be understood.
    pub fn element_of(name: &engine::Key, value: &[u8]) -> Option<(SmallBytes, SmallBytes)> {
        let Ok(RecordKey::Element { element, .. }) = record::decode(name) else { return None };
        let (name, value) = record::split_whole(element, value).ok()?;
        Some((SmallBytes::from_slice(name), SmallBytes::from_slice(value)))
    }

    /// The elements of a collection.
    pub fn elements(of: Collection) -> engine::Bounds {
        record::range::elements(of.slot, of.disk, of.version)
    }

    /// The record that says that a collection is no more.
    pub fn orphan_record(of: Collection) -> engine::Key {
        record::orphan(ORPHAN_SLOT, of.disk, of.version)
    }

    /// The collections that are no more since the last mark, now that there is another one.
    pub fn take_orphans(&self) -> Vec<Collection> {
        self.orphans.take()
    }

    /// Whether somebody reads a collection of which this is true, as it was.
    pub fn is_pinned(&self, is: impl Fn(&Collection) -> bool) -> bool {
        self.pinned.borrow().keys().any(is)
    }

    /// The collections that are no more and whose elements are not removed yet, in new tables.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn read_orphans(&self) -> Result<Vec<Collection>, engine::Error> {
        self.look(|tables| {
            let mut orphans = Vec::new();
            for record in tables.scan(&record::range::kind(ORPHAN_SLOT, Kind::Orphan), Direction::Forward) {
                let (name, value) = record?;
                if let (Ok(RecordKey::Orphan { db: disk, version, .. }), Some(slot)) =
                    (record::decode(&name), value.first_chunk::<2>())
                {
                    orphans.push(Collection { disk, slot: u16::from_be_bytes(*slot), version });
                }
            }
            Ok(orphans)
        })
    }

    /// Hands in which version the next collection gets at the mark.
    pub fn put_next_version(&self) {
        let next = self.next_version.get().to_be_bytes();
        self.with(|tables| tables.put_marked(record::meta(0, 0, NEXT_VERSION), next));
    }

    /// Takes over which version the next collection gets.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn read_next_version(&self) -> Result<(), engine::Error> {
        let value = self.look(|tables| tables.get(&record::meta(0, 0, NEXT_VERSION)))?;
        if let Some(next) = value.and_then(|bytes| <[u8; 8]>::try_from(&*bytes).ok()) {
            self.next_version.set(u64::from_be_bytes(next));
        }
        Ok(())
    }

    /// How long the slowest element took that was read in place since this was asked last, if that was long.
    pub fn take_slowest(&self) -> Option<Duration> {
        Some(self.slowest.take()).filter(|slowest| *slowest > SLOW)
    }

    /// A look at elements from a name on, or back from one.
    pub fn capture_elements(&self, of: Collection, name: &[u8], is_back: bool, count: usize) -> engine::Capture {
        let (name, direction) = if is_back {
            ((Bound::Unbounded, Bound::Included(name)), Direction::Backward)
        } else {
            ((Bound::Included(name), Bound::Unbounded), Direction::Forward)
        };
        let bounds = bounds(of, Span { from: name.0, to: name.1, backwards: is_back });
        self.look(|tables| tables.capture(&bounds, direction, count))
    }

    /// The records of elements that only the engine knows.
    pub fn cold_records(&self, of: Collection, names: &[Vec<u8>]) -> Vec<engine::Key> {
        let records = names.iter().map(|name| record::element(of.slot, of.disk, of.version, name));
        self.look(|tables| records.filter(|record| tables.get_in_memory(record).is_none()).collect())
    }

    /// How much memory what is not written yet takes.
    pub fn overlay_bytes(&self) -> usize {
        self.look(Tables::overlay_bytes)
    }

    /// The key of a deadline; the deadline itself is forgotten.
    pub fn take_deadline(&self, name: &engine::Key, value: &[u8]) -> Option<Vec<u8>> {
        self.with(|tables| tables.delete(name.clone()));
        let record::RecordKey::Expiry { key, .. } = record::decode(name).ok()? else { return None };
        record::split_whole(key, value).ok().map(|(key, _)| key.to_vec())
    }

    /// How many keys a database has, and how many of them expire: none, if nobody counted those.
    ///
    /// # Errors
    ///
    /// The tables' cannot be read.
    pub fn key_counts(&self, db: usize) -> Result<(usize, usize), engine::Error> {
        let count = |name| -> Result<usize, engine::Error> {
            let name = record::meta(0, db as u8, name);
            let value = self.with(|tables| tables.get(&name))?;
            let count = value.and_then(|bytes| <[u8; 8]>::try_from(&*bytes).ok()).map_or(0, u64::from_be_bytes);
            Ok(count as usize)
        };
        Ok((count(KEY_COUNT)?, count(EXPIRES_COUNT)?))
    }

    /// The record of a key that is asked for.
    pub fn name(&self, load: &Load) -> engine::Key {
        record::key(self.key_seed(), load.slot as u16, load.disk, &load.key)
    }

    /// What was read of a key; nothing if it cannot be understood.
    pub fn loaded(&self, load: &Load, value: Option<engine::Value>) -> Option<Option<Loaded>> {
        match value {
            Some(bytes) => self.decode(load.disk, &load.key, &bytes).ok(),
            None => Some(None),
        }
    }

    fn decode(&self, disk: u8, key: &[u8], bytes: &[u8]) -> Result<Option<Loaded>, String> {
        let damaged = |reason: String| format!("ERR the record of a key is damaged: {reason}");
        let (header, value) = Header::decode(bytes).map_err(|error| damaged(error.to_string()))?;
        if header.key.is_some_and(|whole| whole != key) {
            // Another long key with the same beginning and the same hash.
            return Ok(None);
        }
        let value = match header.kind {
            WHOLE_VALUE => Stored::Whole(
                rdb::decode_value(value, &self.value_limits.get()).map_err(|error| damaged(error.to_string()))?,
            ),
            SPREAD => {
                Stored::Spread(descriptor(disk, &header, value).ok_or_else(|| damaged("it is cut off".to_owned()))?)
            }
            kind => return Err(damaged(format!("its kind {kind} is of a later version"))),
        };
        let expire_at = header.expire_at_ms.map_or(NEVER, |at| Millis::try_from(at).unwrap_or(NEVER));
        Ok(Some(Loaded { value, expire_at }))
    }
}

/// Reading. Errors are told by whoever calls.
impl ShardTables {
    fn read_key(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String> {
        let name = record::key(self.key_seed(), slot as u16, disk, key);
        match self.look(|tables| tables.get(&name)) {
            Ok(Some(bytes)) => self.decode(disk, key, &bytes),
            Ok(None) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    fn read_keys(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String> {
        let bounds = record::range::keys_from(slot as u16, disk, from_hash);
        self.look(|tables| {
            let mut found = Vec::new();
            for record in tables.scan(&bounds, Direction::Forward).take(at_most) {
                let (name, value) = record.map_err(|error| unreadable(&error))?;
                let damaged = |reason: record::NotARecord| format!("ERR a record is damaged: {reason}");
                let RecordKey::Key { hash, key, .. } = record::decode(&name).map_err(damaged)? else { continue };
                record::has_hash(self.key_seed(), hash, key).map_err(damaged)?;
                let (header, value) = Header::decode(&value).map_err(damaged)?;
                found.push(Walked {
                    hash,
                    key: SmallBytes::from_slice(header.key.unwrap_or(key.bytes())),
                    type_name: match header.kind {
                        SPREAD => value.first().and_then(|kind| Descriptor::type_name(*kind)),
                        _ => rdb::type_name(value),
                    }
                    .unwrap_or("none"),
                    expire_at: header.expire_at_ms.map_or(NEVER, |at| Millis::try_from(at).unwrap_or(NEVER)),
                });
            }
            Ok(found)
        })
    }

    fn read_element(&self, of: Collection, name: &[u8]) -> Result<Option<SmallBytes>, String> {
        let record = record::element(of.slot, of.disk, of.version, name);
        let value = self.look(|tables| match tables.get_in_memory(&record) {
            Some(value) => Ok(value),
            None => {
                let start = self.world.elapsed();
                let value = tables.engine().get(&record);
                self.slowest.set(self.world.elapsed().saturating_sub(start).max(self.slowest.get()));
                value
            }
        });
        let Some(value) = value.map_err(|error| unreadable(&error))? else { return Ok(None) };
        let RecordKey::Element { element, .. } = record::decode(&record).map_err(damaged_element)? else {
            return Ok(None);
        };
        let (_, value) = record::split_whole(element, &value).map_err(damaged_element)?;
        Ok(Some(SmallBytes::from_slice(value)))
    }

    fn read_elements(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        let bounds = bounds(of, span);
        let direction = if span.backwards { Direction::Backward } else { Direction::Forward };
        self.look(|tables| {
            let start = self.world.elapsed();
            let mut scan = tables.scan(&bounds, direction).peekable();
            scan.peek();
            self.slowest.set(self.world.elapsed().saturating_sub(start).max(self.slowest.get()));
            for found in scan {
                let (name, value) = found.map_err(|error| unreadable(&error))?;
                let RecordKey::Element { element, .. } = record::decode(&name).map_err(damaged_element)? else {
                    continue;
                };
                let (name, value) = record::split_whole(element, &value).map_err(damaged_element)?;
                if !each(name, value) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Tells the log of what cannot be read.
    fn tell<T>(&self, read: Result<T, String>, what: impl FnOnce() -> String) -> Result<T, String> {
        read.inspect_err(|reason| {
            let mut errors = self.read_errors.get();
            errors.tell(&*self.world, what, reason);
            self.read_errors.set(errors);
        })
    }
}

impl Records for ShardTables {
    fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String> {
        let what = || format!("key \"{}\" cannot be read", shown(key));
        self.tell(self.read_key(disk, slot, key), what)
    }

    fn load_at_once(&self, disk: u8, slot: usize, key: &[u8]) -> Option<Option<Loaded>> {
        let name = record::key(self.key_seed(), slot as u16, disk, key);
        match self.look(|tables| tables.get_at_once(&name))? {
            Some(bytes) => self.decode(disk, key, &bytes).ok(),
            None => Some(None),
        }
    }

    fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String> {
        let what = || format!("keys of slot {slot} cannot be read");
        self.tell(self.read_keys(disk, slot, from_hash, at_most), what)
    }

    fn next_slot(&self, _: u8, from: usize) -> Result<usize, String> {
        let what = || format!("slots from {from} on cannot be read");
        self.tell(self.read_next_slot(from), what)
    }
}

impl ElementRecords for ShardTables {
    fn element(&self, of: Collection, name: &[u8]) -> Result<Option<SmallBytes>, String> {
        let what = || format!("element \"{}\" of a collection in slot {} cannot be read", shown(name), of.slot);
        self.tell(self.read_element(of, name), what)
    }

    fn scan_elements(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        let what = || format!("elements of a collection in slot {} cannot be read", of.slot);
        self.tell(self.read_elements(of, span, each), what)
    }

    fn put_element(&self, of: Collection, name: &[u8], value: &[u8]) {
        let record = record::element(of.slot, of.disk, of.version, name);
        self.with(|tables| {
            if name.len() > record::WHOLE_LEN_MAX {
                tables.put(record, record::with_whole(name, value));
            } else {
                tables.put(record, value);
            }
        });
    }

    fn put_taken_element(&self, of: Collection, name: &[u8], value: Option<&[u8]>) {
        let record = record::element(of.slot, of.disk, of.version, name);
        self.with(|tables| match value {
            Some(value) if name.len() > record::WHOLE_LEN_MAX => {
                tables.put_marked(record, record::with_whole(name, value));
            }
            Some(value) => tables.put_marked(record, value),
            None => tables.delete_marked(record),
        });
    }

    fn delete_element(&self, of: Collection, name: &[u8]) {
        self.with(|tables| tables.delete(record::element(of.slot, of.disk, of.version, name)));
    }

    fn orphan(&self, of: Collection) {
        self.with(|tables| tables.put(Self::orphan_record(of), of.slot.to_be_bytes()));
        self.orphans.borrow_mut().push(of);
    }

    fn begin(&self, of: Collection) {
        self.with(|tables| tables.put(Self::orphan_record(of), of.slot.to_be_bytes()));
    }

    fn adopt(&self, of: Collection) {
        self.with(|tables| tables.delete(Self::orphan_record(of)));
    }

    fn pin(&self, of: Collection) {
        *self.pinned.borrow_mut().entry(of).or_default() += 1;
    }

    fn unpin(&self, of: Collection) {
        let mut pinned = self.pinned.borrow_mut();
        if let Some(count) = pinned.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                pinned.remove(&of);
            }
        }
    }

    fn new_version(&self) -> u64 {
        let version = self.next_version.get();
        self.next_version.set(version + 1);
        version
    }
}

/// The record of a key.
fn encode(key: &[u8], value: Stored<Vec<u8>>, expire_at_ms: Option<u64>) -> Value {
    let mut bytes = Vec::new();
    match value {
        Stored::Whole(value) => {
            let header = Header { kind: WHOLE_VALUE, expire_at_ms, ..Header::default() }.with_key(key);
            if value.len() > LONG_VALUE {
                // What is long is copied once, into its place: it is in memory often enough.
                header.encode(&mut bytes);
                let len = bytes.len() + value.len();
                if let Ok(record) = Value::from_reader(&mut bytes.chain(value.as_slice()), len) {
                    return record;
                }
            }
            bytes.reserve(value.len() + HEADER_LEN);
            header.encode(&mut bytes);
            bytes.extend_from_slice(&value);
        }
        Stored::Spread(Descriptor { of, count, kind, rest }) => {
            let elements = Some(Elements { version: of.version, count });
            Header { kind: SPREAD, expire_at_ms, elements, key: None }.with_key(key).encode(&mut bytes);
            bytes.push(kind);
            bytes.extend_from_slice(&of.slot.to_be_bytes());
            bytes.extend_from_slice(&rest);
        }
    }
    bytes.into()
}

/// How the databases are numbered, as its record has it.
pub fn layout_in(bytes: &[u8]) -> Option<Layout> {
    let (len, rest) = bytes.split_first()?;
    let (disks, dropped) = rest.split_at_checked(usize::from(*len))?;
    Some(Layout { disks: disks.to_vec(), dropped: dropped.to_vec() })
}

/// What a record says of a collection whose elements are records of their own.
pub fn descriptor(disk: u8, header: &Header<'_>, inline: &[u8]) -> Option<Descriptor> {
    let Elements { version, count } = header.elements?;
    let (kind, rest) = inline.split_first()?;
    let (slot, rest) = rest.split_first_chunk::<2>()?;
    let of = Collection { disk, slot: u16::from_be_bytes(*slot), version };
    Some(Descriptor { of, count, kind: *kind, rest: rest.to_vec() })
}

/// The interval of a collection's elements.
pub fn bounds(of: Collection, span: Span<'_>) -> engine::Bounds {
    let all = ShardTables::elements(of);
    let record = |name: &[u8]| record::element(of.slot, of.disk, of.version, name);
    let bound = |bound: Bound<&[u8]>, open: Bound<engine::Key>| match bound {
        Bound::Unbounded => open,
        bound => bound.map(record),
    };
    engine::Bounds { from: bound(span.from, all.from), to: bound(span.to, all.to) }
}

/// The beginning of a name, as messages show it.
fn shown(name: &[u8]) -> impl std::fmt::Display {
    const SHOWN_MAX: usize = 128;
    name.get(..SHOWN_MAX).unwrap_or(name).escape_ascii()
}

/// The error of an element whose record is none.
#[must_use]
pub fn damaged_element(reason: record::NotARecord) -> String {
    format!("ERR the record of an element is damaged: {reason}")
}

/// The error of a record that cannot be read.
#[must_use]
pub fn unreadable(error: &engine::Error) -> String {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("ERR cannot read from disk: {error}{cause}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::{Engine as _, LogOffset, MemoryEngine};

    use super::*;
    use crate::simulated::SimulatedWorld;

    #[test]
    fn the_seed_is_a_part_of_the_tables_and_older_ones_have_none() {
        let engine = Arc::new(MemoryEngine::new());
        let open = |new_seed| {
            ShardTables::new(
                Tables::new(Arc::clone(&engine) as Arc<dyn engine::Engine>),
                new_seed,
                &Settings::default(),
                SimulatedWorld::new(0),
            )
        };
        let first = open(7).unwrap();
        assert_eq!(first.key_seed(), 7);
        assert_eq!(open(8).unwrap().key_seed(), 8, "nothing is written yet");

        assert!(first.with(|tables| tables.mark(LogOffset(1))));
        first.put_key_seed();
        let taken = Taken { disk: 0, slot: 5, key: SmallBytes::from_slice(b"key"), value: Some((whole("x"), NEVER)) };
        first.put_taken(taken);
        let batch = first.with(Tables::freeze_marked).unwrap();
        engine.write(&batch).unwrap();
        let again = open(9).unwrap();
        assert_eq!(again.key_seed(), 7);
        assert!(again.load(0, 5, b"key").unwrap().is_some());
        assert_eq!(again.walk(0, 5, 0, 10).unwrap().len(), 1);

        // As a store of before there were seeds, and as many slots, has left them.
        let slot = usize::from(keyspace::slot::cluster_slot(b"key"));
        let former = Arc::new(MemoryEngine::new());
        let mut batch = engine::Batch::new();
        batch.put(record::key(0, 5, 0, b"key"), encode(b"key", whole("x"), None));
        batch.set_applied(LogOffset(1));
        former.write(&batch).unwrap();
        let tables = ShardTables::new(
            Tables::new(Arc::clone(&former) as Arc<dyn engine::Engine>),
            9,
            &Settings::default(),
            SimulatedWorld::new(0),
        )
        .unwrap();
        assert_eq!(tables.key_seed(), 0);
        assert!(tables.load(0, slot, b"key").unwrap().is_some());

        // A seed that is lost is found out.
        let mut batch = engine::Batch::new();
        batch.put(record::meta(0, 0, KEY_SEED), 9_u64.to_be_bytes());
        former.write(&batch).unwrap();
        let tables = ShardTables::new(Tables::new(former), 1, &Settings::default(), SimulatedWorld::new(0)).unwrap();
        assert!(tables.load(0, slot, b"key").unwrap().is_none());
        assert!(tables.walk(0, slot, 0, 10).unwrap_err().contains("the hash is that of another key"));
    }

    /// A string as a record has it.
    fn whole(text: &str) -> Stored<Vec<u8>> {
        let mut bytes = Vec::new();
        rdb::encode_value(&keyspace::Value::String(SmallBytes::from_slice(text.as_bytes())), &mut bytes);
        Stored::Whole(bytes)
    }
}
