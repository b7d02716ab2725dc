//! Tables in memory, for tests of what is not in memory.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ops::Bound,
    rc::Rc,
};

use commands::{
    Bytes, Millis, Server,
    config::Settings,
    hash_index,
    keyspace::{Collection, Loaded, Records, Span, Stored, Taken, Walked},
    rdb::{self, Building},
    value::Descriptor,
};

/// What keys are hashed with.
pub const SEED: u64 = 0;

type KeyName = (u8, usize, u64, Bytes);
type KeyRecord = (Stored<Vec<u8>>, Millis);
type ElementName = (u8, u16, u64, Vec<u8>);

/// Records as the tables would have them.
#[derive(Default)]
pub struct Tables {
    keys: RefCell<BTreeMap<KeyName, KeyRecord>>,
    elements: RefCell<BTreeMap<ElementName, Vec<u8>>>,
    versions: Cell<u64>,
    /// Collections that are no more.
    pub orphans: RefCell<Vec<Collection>>,
    /// Collections that somebody reads as they were, how many each.
    pub pinned: RefCell<BTreeMap<u64, usize>>,
    /// Reads of elements fail from that many on.
    pub fails_after: Cell<Option<usize>>,
}

/// The tables as a server asks them.
#[derive(Clone, Default)]
pub struct Shared(pub Rc<Tables>);

impl Tables {
    fn put(&self, taken: Taken) {
        let hash = hash_index::hash(&taken.key, SEED);
        let name = (taken.disk, taken.slot, hash, taken.key);
        match taken.value {
            Some(value) => self.keys.borrow_mut().insert(name, value),
            None => self.keys.borrow_mut().remove(&name),
        };
    }

    /// The collections that have elements.
    pub fn collections(&self) -> Vec<Collection> {
        let elements = self.elements.borrow();
        let of = |(disk, slot, version, _): &ElementName| Collection { disk: *disk, slot: *slot, version: *version };
        let mut all: Vec<Collection> = elements.keys().map(of).collect();
        all.dedup();
        all
    }

    fn remove_orphans(&self) {
        let pinned = self.pinned.borrow();
        let is_gone = |of: &Collection| !pinned.contains_key(&of.version);
        let gone: Vec<u64> = self.orphans.borrow().iter().filter(|of| is_gone(of)).map(|of| of.version).collect();
        self.elements.borrow_mut().retain(|(_, _, version, _), _| !gone.contains(version));
    }

    fn may_read(&self) -> Result<(), String> {
        match self.fails_after.get() {
            Some(0) => Err("ERR cannot read from disk: it is a test".into()),
            Some(left) => {
                self.fails_after.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Records for Shared {
    fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String> {
        let name = (disk, slot, hash_index::hash(key, SEED), Bytes::from_slice(key));
        let keys = self.0.keys.borrow();
        let Some((stored, expire_at)) = keys.get(&name) else { return Ok(None) };
        let value = match stored {
            Stored::Whole(bytes) => {
                let building = Building::new(SEED, &Settings::default());
                Stored::Whole(rdb::decode_value(bytes, &building).map_err(|error| error.to_string())?)
            }
            Stored::Spread(descriptor) => Stored::Spread(descriptor.clone()),
        };
        Ok(Some(Loaded { value, expire_at: *expire_at }))
    }

    fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String> {
        let keys = self.0.keys.borrow();
        let from = (disk, slot, from_hash, Bytes::new());
        let within = keys.range(from..).take_while(|((of, at, ..), _)| (*of, *at) == (disk, slot));
        let walked = within.map(|((_, _, hash, key), (stored, expire_at))| Walked {
            hash: *hash,
            key: key.clone(),
            type_name: match stored {
                Stored::Whole(bytes) => rdb::type_name(bytes),
                Stored::Spread(Descriptor { kind, .. }) => Descriptor::type_name(*kind),
            }
            .unwrap_or("none"),
            expire_at: *expire_at,
        });
        Ok(walked.take(at_most).collect())
    }

    fn element(&self, of: Collection, name: &[u8]) -> Result<Option<Bytes>, String> {
        self.0.may_read()?;
        let elements = self.0.elements.borrow();
        Ok(elements.get(&(of.disk, of.slot, of.version, name.to_vec())).map(|value| Bytes::from_slice(value)))
    }

    fn scan_elements(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        let elements = self.0.elements.borrow();
        let name = |name: &[u8]| (of.disk, of.slot, of.version, name.to_vec());
        let from = match span.from {
            Bound::Unbounded => Bound::Included(name(b"")),
            bound => bound.map(name),
        };
        let to = match span.to {
            Bound::Unbounded => Bound::Excluded((of.disk, of.slot, of.version + 1, Vec::new())),
            bound => bound.map(name),
        };
        let is_empty = match (&from, &to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to) | Bound::Included(to)) => from >= to,
            _ => false,
        };
        if is_empty {
            return Ok(());
        }
        let mut range = elements.range((from, to));
        loop {
            let next = if span.backwards { range.next_back() } else { range.next() };
            let Some(((.., name), value)) = next else { return Ok(()) };
            self.0.may_read()?;
            if !each(name, value) {
                return Ok(());
            }
        }
    }

    fn put_element(&self, of: Collection, name: &[u8], value: &[u8]) {
        self.0.elements.borrow_mut().insert((of.disk, of.slot, of.version, name.to_vec()), value.to_vec());
    }

    fn delete_element(&self, of: Collection, name: &[u8]) {
        self.0.elements.borrow_mut().remove(&(of.disk, of.slot, of.version, name.to_vec()));
    }

    fn orphan(&self, of: Collection) {
        self.0.orphans.borrow_mut().push(of);
        self.0.remove_orphans();
    }

    fn pin(&self, of: Collection) {
        *self.0.pinned.borrow_mut().entry(of.version).or_default() += 1;
    }

    fn unpin(&self, of: Collection) {
        let left = *self.0.pinned.borrow_mut().entry(of.version).and_modify(|count| *count -= 1).or_default();
        if left == 0 {
            self.0.pinned.borrow_mut().remove(&of.version);
            self.0.remove_orphans();
        }
    }

    fn new_version(&self) -> u64 {
        self.0.versions.set(self.0.versions.get() + 1);
        self.0.versions.get()
    }
}

/// Brings all that has changed to the tables, and has everything leave memory.
pub fn checkpoint(server: &mut Server, tables: &Shared) {
    server.keyspace.begin_checkpoint();
    let mut taken = Vec::new();
    while !server.keyspace.take(1000, &mut taken) {}
    taken.into_iter().for_each(|taken| tables.0.put(taken));
    server.keyspace.forget_clean();
}

/// Reads what commands wait for, until none does, and goes on with what takes several turns.
pub fn answer_loads(server: &mut Server, tables: &Shared) {
    read_keys(server, tables);
    while server.can_go_on() {
        let now = server.now();
        server.go_on(now);
        read_keys(server, tables);
    }
}

/// Reads what commands wait for, until none does.
pub fn read_keys(server: &mut Server, tables: &Shared) {
    loop {
        let mut loads = Vec::new();
        server.take_loads(&mut loads);
        if loads.is_empty() {
            return;
        }
        for load in loads {
            let loaded = tables.load(load.disk, load.slot, &load.key);
            server.loaded(&load, loaded.ok());
        }
        server.run_loaded();
    }
}
