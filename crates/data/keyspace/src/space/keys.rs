//! The keys of one database while a command runs.

use crate::{
    Bytes, Failure, Millis, Value,
    changes::{Changes, EventClass},
    elements::{Elements, KeyPlace},
    hash_index::{self, Location},
    slot,
    value::Kind,
};

use super::{
    Keyspace, Stored,
    entry::{Entry, NEVER},
};

/// A key that was read from the tables.
#[derive(Debug)]
pub struct Loaded {
    /// What it holds.
    pub value: Stored<Value>,
    /// When it expires.
    pub expire_at: Millis,
}

/// What becomes of a key's expiry when it gets a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The key never expires.
    Clear,
    /// It expires when it did before.
    Keep,
    /// It expires then.
    At(Millis),
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyLocation {
    slot: usize,
    location: Location,
}

/// The keys of a database, with what a command notes when it changes them.
///
/// Reading: [`get`](Self::get). Changing: [`get_mut`](Self::get_mut) or [`get_or_insert`](Self::get_or_insert), then
/// [`modified`](Self::modified) once something really changed, which counts for the log; a collection that may have become
/// empty is followed by [`remove_if`](Self::remove_if).
pub struct Keys<'a> {
    /// All databases.
    pub space: &'a mut Keyspace,
    /// The number of the database.
    pub db: usize,
    /// The time of the command.
    pub now: Millis,
    /// What is noted.
    pub changes: &'a mut Changes,
}

impl<'a> Keys<'a> {
    /// The keys of a database.
    pub fn new(space: &'a mut Keyspace, db: usize, now: Millis, changes: &'a mut Changes) -> Self {
        Self { space, db, now, changes }
    }

    /// The same of another database.
    pub fn on(&mut self, db: usize) -> Keys<'_> {
        Keys { space: self.space, db, now: self.now, changes: self.changes }
    }

    /// What a new collection is hashed with.
    pub fn seed(&self) -> u64 {
        self.space.seed
    }

    /// All databases.
    pub fn space(&mut self) -> &mut Keyspace {
        self.space
    }

    /// Finds a key that has a value: loads it if it is not in memory, removes it if it has expired.
    fn find(&mut self, key: &[u8]) -> Result<Option<KeyLocation>, Failure> {
        let slot = slot::slot(key);
        let hash = hash_index::hash(key, self.space.seed);
        let Some(table) = self.space.databases.get_mut(self.db).and_then(|database| database.slot_mut(slot)) else {
            return Ok(None);
        };
        let location = match table.index.locate(hash, key) {
            Some(location) => location,
            None if table.complete => return Ok(None),
            None => {
                self.load(slot, hash, key)?;
                let located = self.table(slot).and_then(|table| table.index.locate(hash, key));
                let Some(location) = located else { return Ok(None) };
                location
            }
        };
        let Some(entry) = self.table(slot).and_then(|table| table.index.at(location)) else { return Ok(None) };
        if entry.value.is_none() {
            return Ok(None);
        }
        if entry.expire_at <= self.now {
            if !self.space.expiry_paused && !self.space.is_following {
                self.expire(key);
            }
            return Ok(None);
        }
        Ok(Some(KeyLocation { slot, location }))
    }

    fn table(&self, slot: usize) -> Option<&super::database::SlotTable> {
        self.space.databases.get(self.db)?.slot(slot)
    }

    #[cold]
    fn load(&mut self, slot: usize, hash: u64, key: &[u8]) -> Result<(), Failure> {
        let Some(source) = self.space.records.clone() else { return Ok(()) };
        let disk = self.space.databases.get(self.db).map_or(0, |database| database.disk);
        let loaded = source.load(disk, slot, key)?;
        self.space.loads += 1;
        self.put_loaded(slot, hash, key, loaded).map_err(|failure| source.fail_for_key(failure.to_string()))
    }

    /// Puts what the tables have of a key into memory, unless it is there by now.
    ///
    /// # Errors
    ///
    /// It cannot be understood.
    pub fn put_loaded(&mut self, slot: usize, hash: u64, key: &[u8], loaded: Option<Loaded>) -> Result<(), Failure> {
        const LATER: Failure = Failure::text("ERR the record of a key is of a later version");
        let touched = self.space.usage.fresh();
        let on_disk = loaded.is_some();
        let (value, expire_at) = match loaded {
            Some(loaded) => (Some(self.space.value_of(loaded.value).ok_or(LATER)?), loaded.expire_at),
            None => (None, NEVER),
        };
        let Some(database) = self.space.databases.get_mut(self.db) else { return Ok(()) };
        let Some(table) = database.slot_mut(slot) else { return Ok(()) };
        if table.index.locate(hash, key).is_some() {
            return Ok(());
        }
        table.absent += usize::from(value.is_none());
        database.absent += usize::from(value.is_none());
        let key = Bytes::from_slice(key);
        if expire_at != NEVER {
            database.expiring.insert((expire_at, key.clone()));
        }
        let entry = Entry { key, value, expire_at, dirty: 0, touched, on_disk, is_bulky: false };
        database.insert_new(slot, hash, entry);
        Ok(())
    }

    /// Whether a key is in memory, or known not to be there: whether a command on it can run without reading from disk.
    pub fn is_resident(&mut self, key: &[u8]) -> bool {
        let slot = slot::slot(key);
        let hash = hash_index::hash(key, self.space.seed);
        let table = self.space.databases.get_mut(self.db).and_then(|database| database.slot_mut(slot));
        table.is_none_or(|table| table.complete || table.index.locate(hash, key).is_some())
    }

    /// The same, after a look at what can be known of the key without a disk: filters of the tables say of most keys that are new
    /// that they are not there.
    pub fn is_at_hand(&mut self, key: &[u8]) -> bool {
        if self.is_resident(key) {
            return true;
        }
        let slot = slot::slot(key);
        let Some(disk) = self.space.databases.get(self.db).map(|database| database.disk) else { return false };
        let loaded = self.space.records.as_ref().and_then(|source| source.load_at_once(disk, slot, key));
        let Some(loaded) = loaded else { return false };
        self.space.loads += 1;
        let hash = hash_index::hash(key, self.space.seed);
        self.put_loaded(slot, hash, key, loaded).is_ok()
    }

    /// Finds a key that is about to be overwritten or removed whatever it holds: also one that cannot be read.
    fn find_to_replace(&mut self, key: &[u8]) -> Result<Option<KeyLocation>, Failure> {
        match self.find(key) {
            Err(_) => self.stand_in(key),
            found => found,
        }
    }

    /// Has an empty string stand for a key that the tables have and that cannot be read. Nobody sees it: its value goes at once.
    #[cold]
    fn stand_in(&mut self, key: &[u8]) -> Result<Option<KeyLocation>, Failure> {
        self.space.forgive();
        let slot = slot::slot(key);
        let hash = hash_index::hash(key, self.space.seed);
        let empty = Loaded { value: Stored::Whole(Value::String(Bytes::new())), expire_at: NEVER };
        self.put_loaded(slot, hash, key, Some(empty))?;
        self.find(key)
    }

    fn entry_at(&self, place: KeyLocation) -> Option<&Entry> {
        self.table(place.slot)?.index.at(place.location)
    }

    fn entry_at_mut(&mut self, place: KeyLocation) -> Option<&mut Entry> {
        self.space.databases.get_mut(self.db)?.slot_mut(place.slot)?.index.at_mut(place.location)
    }

    /// A key's entry, without any sign that it was used.
    pub fn peek(&mut self, key: &[u8]) -> Result<Option<&Entry>, Failure> {
        Ok(match self.find(key)? {
            Some(place) => self.entry_at(place),
            None => None,
        })
    }

    /// The same, also of one that has expired and that nobody asked for since.
    pub fn peek_stale(&mut self, key: &[u8]) -> Result<Option<&Entry>, Failure> {
        let now = std::mem::replace(&mut self.now, Millis::MIN);
        let place = self.find(key);
        self.now = now;
        Ok(place?.and_then(|place| self.entry_at(place)))
    }

    /// Whether a key is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.find(key)?.is_some())
    }

    /// Says that a key was asked about, which counts as a hit or a miss, but not as use of it.
    pub fn asked(&mut self, key: &[u8], is_there: bool) {
        if is_there {
            self.space.hits += 1;
        } else {
            self.space.misses += 1;
            self.changes.notify(EventClass::KEY_MISS, "keymiss", key, self.db);
        }
    }

    /// What a key holds, of any type. It counts as a hit or a miss.
    pub fn value(&mut self, key: &[u8]) -> Result<Option<&Value>, Failure> {
        let Some(place) = self.find(key)? else {
            self.asked(key, false);
            return Ok(None);
        };
        self.asked(key, true);
        let used = self.entry_at(place).map_or(0, |entry| entry.touched);
        let used = self.space.usage.used(used);
        if self.entry_at(place).and_then(|entry| entry.value.as_ref()).is_some_and(Value::is_by_element) {
            self.consider(key);
        }
        Ok(self.entry_at_mut(place).and_then(|entry| {
            entry.touched = used;
            entry.value.as_ref()
        }))
    }

    /// What a key holds, to be read. It counts as a hit or a miss.
    pub fn get<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Failure> {
        match self.value(key)? {
            Some(value) => K::of(value).map(Some).ok_or(Failure::WrongType),
            None => Ok(None),
        }
    }

    /// What a key holds, to be looked at before it is changed: neither a hit nor a miss.
    pub fn look<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Failure> {
        match self.find(key)? {
            Some(place) => {
                let value = self.entry_at(place).and_then(|entry| entry.value.as_ref());
                value.map(|value| K::of(value).ok_or(Failure::WrongType)).transpose()
            }
            None => Ok(None),
        }
    }

    /// What a key holds that this command has asked for before, so that several can be looked at together.
    pub fn found<K: Kind>(&self, key: &[u8]) -> Option<&K> {
        let hash = hash_index::hash(key, self.space.seed);
        K::of(self.table(slot::slot(key))?.index.get_hashed(hash, key)?.value.as_ref()?)
    }

    /// What a key holds if it is in memory, without any sign that it was used.
    pub fn held(&self, key: &[u8]) -> Option<&Value> {
        let hash = hash_index::hash(key, self.space.seed);
        self.table(slot::slot(key))?.index.get_hashed(hash, key)?.value.as_ref()
    }

    /// What a key holds, to be changed; the key must not become empty without [`remove_if`](Self::remove_if).
    pub fn get_mut<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut K>, Failure> {
        let Some(place) = self.find(key)? else { return Ok(None) };
        let whole_max = self.space.whole_max;
        let Some(entry) = self.entry_at(place) else { return Ok(None) };
        let value = entry.value.as_ref().and_then(K::of).ok_or(Failure::WrongType)?;
        let is_beyond = entry.is_bulky || value.is_beyond(whole_max);
        let is_by_element = entry.value.as_ref().is_some_and(Value::is_by_element);
        self.check()?;
        self.soil(place);
        if is_by_element {
            self.consider(key);
        }
        if is_beyond {
            self.keep(place);
        }
        Ok(self.entry_at_mut(place).and_then(|entry| K::of_mut(entry.value.as_mut()?)))
    }

    /// Fails if the command in run met an element that cannot be read: then it must not change anything any more.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.space.records {
            // Its answer becomes that error.
            Some(source) if source.has_failed() => Err(Failure::text("ERR cannot read from disk")),
            _ => Ok(()),
        }
    }

    /// Has the elements of a collection become records of their own, now that there are so many of them.
    #[cold]
    fn keep(&mut self, place: KeyLocation) {
        let Some(source) = self.space.records.clone() else { return };
        let Some(disk) = self.space.databases.get(self.db).map(|database| database.disk) else { return };
        let (seed, whole_max) = (self.space.seed, self.space.whole_max);
        let Some(entry) = self.entry_at_mut(place) else { return };
        entry.is_bulky = false;
        let Some(value) = &mut entry.value else { return };
        let mut former = None;
        if !value.has_records() {
            former = value.keep(|| Elements::of_new(&source, disk, place.slot as u16), seed);
            value.count_untaken(false);
        }
        if let Value::Stream(stream) = value {
            stream.spill(whole_max);
        }
        if let Some(former) = former {
            self.space.graveyard.bury(former);
        }
    }

    /// What a key holds, or a new value that it gets now, to be changed.
    pub fn get_or_insert<K: Kind>(&mut self, key: &[u8], new: impl FnOnce(u64) -> K) -> Result<&mut K, Failure> {
        if self.find(key)?.is_none() {
            let value = new(self.space.seed).into_value();
            self.put(key, value, NEVER);
            self.changes.notify(EventClass::NEW, "new", key, self.db);
        }
        self.get_mut(key)?.ok_or(Failure::NoSuchKey)
    }

    /// Makes ready for a change: what a checkpoint still has to take of the entry is taken, and the next one will want it.
    fn soil(&mut self, place: KeyLocation) {
        let generation = self.space.generation;
        let used = self.entry_at(place).map_or(0, |entry| entry.touched);
        let used = self.space.usage.used(used);
        let disk = self.space.databases.get(self.db).map_or(0, |database| database.disk);
        if let Some(source) = &self.space.records {
            source.soil(KeyPlace { db: self.db, slot: place.slot, location: place.location });
        }
        let durable = self.space.records.is_some();
        let Some(entry) = self.entry_at_mut(place) else { return };
        entry.touched = used;
        if !durable || entry.dirty == generation {
            return;
        }
        let key = entry.key.clone();
        if entry.dirty != 0 {
            self.space.take_one(disk, &key);
        }
        // NOTE: taking a key that is gone may have removed its entry, and another key's stands in its place then. That one must not be
        // marked: it would be dirty without standing among the dirty ones, and no checkpoint would ever take it.
        let table = self.space.databases.get_mut(self.db).and_then(|database| database.slot_mut(place.slot));
        let entry = table.and_then(|table| table.index.at_mut(place.location));
        if let Some(entry) = entry.filter(|entry| entry.key == key) {
            entry.dirty = generation;
            if let Some(value) = &entry.value {
                self.space.owed.add(value);
            }
            self.space.dirty.push((disk, key));
        }
    }

    /// Gives a key a value whatever it held before.
    pub fn set(&mut self, key: &[u8], value: Value, expiry: Expiry) -> Result<(), Failure> {
        self.check()?;
        let mut value = value;
        self.space.stop_gathering(&mut value);
        if let Some(disk) = self.space.databases.get(self.db).map(|database| database.disk) {
            value.bring_to(disk);
            value.count_untaken(false);
            self.check()?;
        }
        let is_beyond = value.is_beyond(self.space.whole_max);
        if value.is_being_taken()
            && let Some(database) = self.space.databases.get(self.db)
        {
            // It had another key when the checkpoint began.
            self.space.partly_taken.push_back((database.disk, Bytes::from_slice(key)));
        }
        let found = if expiry == Expiry::Keep { self.find(key) } else { self.find_to_replace(key) };
        let Some(place) = found? else {
            let expire_at = if let Expiry::At(at) = expiry { at } else { NEVER };
            self.put(key, value, expire_at);
            self.changes.notify(EventClass::NEW, "new", key, self.db);
            if is_beyond && let Some(place) = self.find(key)? {
                self.keep(place);
            }
            return Ok(());
        };
        self.soil(place);
        let table = self.space.databases.get_mut(self.db).and_then(|database| database.slot_mut(place.slot));
        let Some(entry) = table.and_then(|table| table.index.at_mut(place.location)) else { return Ok(()) };
        self.space.owed.add(&value);
        let overwritten = entry.value.replace(value);
        if let Some(overwritten) = &overwritten {
            self.space.owed.remove(overwritten);
        }
        let former = entry.expire_at;
        let expire_at = match expiry {
            Expiry::Keep => former,
            Expiry::Clear => NEVER,
            Expiry::At(at) => at,
        };
        entry.expire_at = expire_at;
        self.move_deadline(key, former, expire_at);
        self.bury(overwritten);
        if is_beyond {
            self.keep(place);
        }
        Ok(())
    }

    /// Lets go of a value that no key has any more.
    fn bury(&mut self, value: Option<Value>) {
        if let Some(value) = value {
            self.space.bury(value);
        }
    }

    /// Puts a key that is not there, or has expired while no key may: one that writes all the same has it go.
    fn put(&mut self, key: &[u8], value: Value, expire_at: Millis) {
        let slot = slot::slot(key);
        let hash = hash_index::hash(key, self.space.seed);
        let touched = self.space.usage.fresh();
        let durable = self.space.records.is_some();
        // That it was removed may have to be taken first, and then there is no entry any more.
        if let Some(location) = self.table(slot).and_then(|table| table.index.locate(hash, key)) {
            let place = KeyLocation { slot, location };
            if self.entry_at(place).is_some_and(|entry| entry.value.is_some()) {
                self.expire(key);
            } else {
                self.soil(place);
            }
        }
        if !self.space.walks.is_empty() {
            let disk = self.space.databases.get(self.db).map_or(0, |database| database.disk);
            self.space.tell_walks_of_new(disk, slot, hash, key);
        }
        let Some(database) = self.space.databases.get_mut(self.db) else { return };
        database.len += 1;
        let Some(table) = database.slot_mut(slot) else { return };
        let location = match table.index.locate(hash, key) {
            Some(location) => {
                table.absent -= 1;
                database.absent -= 1;
                location
            }
            None => {
                let name = Bytes::from_slice(key);
                let entry = Entry {
                    key: name,
                    value: None,
                    expire_at: NEVER,
                    dirty: 0,
                    touched,
                    on_disk: false,
                    is_bulky: false,
                };
                database.insert_new(slot, hash, entry);
                let Some(location) = database.slot(slot).and_then(|table| table.index.locate(hash, key)) else {
                    return;
                };
                location
            }
        };
        let place = KeyLocation { slot, location };
        if durable {
            self.soil(place);
        }
        self.space.owed.add(&value);
        if let Some(entry) = self.entry_at_mut(place) {
            entry.value = Some(value);
            entry.expire_at = expire_at;
        }
        self.move_deadline(key, NEVER, expire_at);
    }

    fn move_deadline(&mut self, key: &[u8], from: Millis, to: Millis) {
        if from == to {
            return;
        }
        let Some(database) = self.space.databases.get_mut(self.db) else { return };
        if from != NEVER {
            database.expires = database.expires.saturating_sub(1);
            database.expiring.remove(&(from, Bytes::from_slice(key)));
        }
        if to != NEVER {
            database.expires += 1;
            database.expiring.insert((to, Bytes::from_slice(key)));
        }
    }

    /// When a key expires: nothing if it is not there, [`NEVER`] if it does not.
    pub fn expire_at(&mut self, key: &[u8]) -> Result<Option<Millis>, Failure> {
        Ok(self.peek(key)?.map(|entry| entry.expire_at))
    }

    /// Sets when a key expires. Returns whether the key is there.
    pub fn set_expire_at(&mut self, key: &[u8], expire_at: Millis) -> Result<bool, Failure> {
        let Some(place) = self.find(key)? else { return Ok(false) };
        self.check()?;
        self.soil(place);
        let Some(entry) = self.entry_at_mut(place) else { return Ok(false) };
        let former = std::mem::replace(&mut entry.expire_at, expire_at);
        self.move_deadline(key, former, expire_at);
        Ok(true)
    }

    /// Sets when a key was used last, in the units of [`Entry::touched`].
    pub fn set_touched(&mut self, key: &[u8], touched: u32) -> Result<(), Failure> {
        let Some(place) = self.find(key)? else { return Ok(()) };
        if let Some(entry) = self.entry_at_mut(place) {
            entry.touched = touched;
        }
        Ok(())
    }

    /// Removes a key and gives what it held, with its expiry. Nobody is told: [`modified`](Self::modified) does that.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<(Value, Millis)>, Failure> {
        let Some(place) = self.find(key)? else { return Ok(None) };
        self.check()?;
        Ok(self.take_at(place, key))
    }

    fn take_at(&mut self, place: KeyLocation, key: &[u8]) -> Option<(Value, Millis)> {
        self.soil(place);
        let hash = hash_index::hash(key, self.space.seed);
        let database = self.space.databases.get_mut(self.db)?;
        database.len -= 1;
        let table = database.slot_mut(place.slot)?;
        let entry = table.index.at_mut(place.location)?;
        let former = std::mem::replace(&mut entry.expire_at, NEVER);
        let value = entry.value.take();
        if let Some(value) = &value {
            self.space.owed.remove(value);
        }
        if entry.on_disk || !table.complete {
            table.absent += 1;
            database.absent += 1;
        } else {
            database.remove_hashed(place.slot, hash, key);
        }
        self.move_deadline(key, former, NEVER);
        if !self.space.walks.is_empty() {
            let disk = self.space.databases.get(self.db).map_or(0, |database| database.disk);
            self.space.tell_walks_of_gone(disk, place.slot, hash, key, former);
        }
        value.map(|value| (value, former))
    }

    /// Removes a key. Returns whether it was there: one that cannot be read was.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.check()?;
        let Some(place) = self.find_to_replace(key)? else { return Ok(false) };
        let taken = self.take_at(place, key).map(|(value, _)| value);
        let was_there = taken.is_some();
        self.bury(taken);
        Ok(was_there)
    }

    /// Removes a key whose value satisfies a condition (that it is empty), with the event `del`.
    pub fn remove_if<K: Kind>(&mut self, key: &[u8], condition: impl FnOnce(&K) -> bool) -> Result<bool, Failure> {
        let Some(place) = self.find(key)? else { return Ok(false) };
        let holds = self.entry_at(place).and_then(|entry| K::of(entry.value.as_ref()?)).is_some_and(condition);
        if holds {
            let taken = self.take_at(place, key).map(|(value, _)| value);
            self.bury(taken);
            self.changes.notify(EventClass::GENERIC, "del", key, self.db);
        }
        Ok(holds)
    }

    /// Notes that a key changed, was put or removed: those who watch it learn of it, and the command is propagated.
    pub fn modified(&mut self, key: &[u8]) {
        self.changes.dirty += 1;
        self.touched(key);
    }

    /// The same for several changes of one key.
    pub fn modified_by(&mut self, key: &[u8], count: usize) {
        self.changes.dirty += count as u64;
        self.touched(key);
    }

    /// The same without a count: for a second key of the same change.
    pub fn touched(&mut self, key: &[u8]) {
        if self.changes.watched {
            self.changes.modified.push((self.db, Bytes::from_slice(key)));
        }
    }

    /// Notes an event of the keyspace.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        self.changes.notify(class, name, key, self.db);
    }

    /// Removes a key because its time has come.
    fn expire(&mut self, key: &[u8]) {
        // A command that takes several turns has it: it goes when that has ended.
        if self.space.busy.has(key) {
            return;
        }
        // It is looked up as if it were still valid.
        let now = std::mem::replace(&mut self.now, Millis::MIN);
        let place = self.find(key);
        self.now = now;
        let Ok(Some(place)) = place else { return };
        let so_far = self.space.records.as_ref().map(|source| source.changes_so_far());
        if let Some((value, _)) = self.take_at(place, key) {
            self.bury(Some(value));
            self.space.expired += 1;
            self.changes.before.push((self.db, vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)]));
            self.touched(key);
            self.notify(EventClass::EXPIRED, "expired", key);
        }
        if let (Some(source), Some(so_far)) = (&self.space.records, so_far) {
            source.count_no_more_than(so_far);
        }
    }

    /// Removes keys of this database whose time has come, at most as many. Returns how many.
    pub fn expire_due(&mut self, at_most: usize) -> usize {
        let mut count = 0;
        while count < at_most {
            let Some(database) = self.space.databases.get(self.db) else { break };
            let mut due = database.expiring.iter().take_while(|(at, _)| *at <= self.now);
            let Some((_, key)) = due.find(|(_, key)| !self.space.busy.has(key)) else { break };
            let key = key.clone();
            self.expire(&key);
            count += 1;
        }
        count
    }

    /// Removes all keys of the database. Returns how many there were.
    ///
    /// # Errors
    ///
    /// As of [`Keyspace::clear`].
    pub fn clear(&mut self) -> Result<usize, Failure> {
        self.space.clear(self.db)
    }
}
