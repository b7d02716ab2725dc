//! Tables in memory, for tests of what is not in memory.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
    rc::Rc,
};

use commands::{
    Server, SessionId,
    config::Settings,
    server::{Load, Request, WantedElements, Warmup},
};
use keyspace::{
    Bytes, Collection, ElementRecords, GATHERED, Keyspace, Layout, Loaded, Millis, Records, Span, Stored, Taken,
    Walked, hash_index, rdb, value::Descriptor,
};

/// What keys are hashed with.
pub const SEED: u64 = 0;

type KeyName = (u8, usize, u64, Bytes);
type KeyRecord = (Stored<Vec<u8>>, Millis);
type ElementName = (u8, u16, u64, Vec<u8>);

/// Changes of elements: what they get, or that they go.
type Changes = BTreeMap<ElementName, Option<Vec<u8>>>;

/// Records as the tables would have them: those of the last checkpoint, those of the one that is being taken, and what came since.
#[derive(Default)]
pub struct Tables {
    /// As the last checkpoint has them, and with what the one that is being taken has of them.
    keys: [RefCell<BTreeMap<KeyName, Rc<KeyRecord>>>; 2],
    /// As they are now.
    elements: RefCell<BTreeMap<ElementName, Vec<u8>>>,
    /// As the last checkpoint has them.
    written: RefCell<BTreeMap<ElementName, Vec<u8>>>,
    marked: RefCell<Option<Changes>>,
    dirty: RefCell<Changes>,
    versions: Cell<u64>,
    /// As the last checkpoint has them.
    versions_written: Cell<u64>,
    layouts: RefCell<(Layout, Layout)>,
    /// Collections that are no more.
    pub orphans: RefCell<Vec<Collection>>,
    /// Copies that are being made.
    pub begun: RefCell<Vec<Collection>>,
    /// Collections that somebody reads as they were, how many each.
    pub pinned: RefCell<BTreeMap<u64, usize>>,
    /// How many elements were read before a command that names them, and that begins with them.
    pub warmed: (Cell<usize>, Cell<usize>),
    /// Reads of elements fail from that many on.
    pub fails_after: Cell<Option<usize>>,
    /// Keys can be read without a disk.
    pub is_cached: Cell<bool>,
    /// So do reads of keys.
    pub keys_fail_after: Cell<Option<usize>>,
    /// Keys that cannot be read.
    pub damaged: RefCell<Vec<Bytes>>,
}

/// A server over tables in memory, with a client.
pub struct Client {
    pub server: Server,
    pub session: SessionId,
    pub tables: Shared,
}

impl Client {
    /// A new one, nothing in its tables.
    pub fn new(settings: Settings, now: Millis) -> Self {
        let tables = Shared::default();
        let records = Some(Box::new(tables.clone()) as Box<dyn Records>);
        let mut server = Server::new(settings, SEED, 7, now, records, Rc::new(|| 0));
        let session = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), now);
        Self { server, session, tables }
    }

    /// What a command answers, with what it needs read.
    pub fn ask(&mut self, command: &str, now: Millis) -> String {
        String::from_utf8(self.ask_bytes(command, now)).unwrap()
    }

    /// The same for an answer that may be any bytes.
    pub fn ask_bytes(&mut self, command: &str, now: Millis) -> Vec<u8> {
        self.server.input(self.session).unwrap().extend_from_slice(format!("{command}\r\n").as_bytes());
        self.server.run(self.session, now);
        answer_loads(&mut self.server, &self.tables);
        std::mem::take(self.server.output(self.session).unwrap().0)
    }
}

/// The tables as a server asks them.
#[derive(Clone, Default)]
pub struct Shared(pub Rc<Tables>);

impl Tables {
    fn key_name(taken: &Taken) -> KeyName {
        (taken.disk, taken.slot, hash_index::hash(&taken.key, SEED), taken.key.clone())
    }

    /// A checkpoint begins.
    pub fn mark(&self, layout: Layout) {
        *self.marked.borrow_mut() = Some(self.dirty.take());
        self.layouts.borrow_mut().0 = layout;
    }

    /// Keys that it took.
    pub fn put(&self, taken: Vec<Taken>) {
        let mut keys = self.keys[1].borrow_mut();
        for taken in taken {
            let name = Self::key_name(&taken);
            match taken.value {
                Some(value) => keys.insert(name, Rc::new(value)),
                None => keys.remove(&name),
            };
        }
    }

    /// It is written.
    pub fn write(&self) {
        self.versions_written.set(self.versions.get());
        let mut layouts = self.layouts.borrow_mut();
        layouts.1 = std::mem::take(&mut layouts.0);
        self.keys[0].replace(self.keys[1].borrow().clone());
        for (name, change) in self.marked.take().into_iter().flatten() {
            match change {
                Some(value) => self.written.borrow_mut().insert(name, value),
                None => self.written.borrow_mut().remove(&name),
            };
        }
    }

    /// What is left when the process ends now: the last checkpoint.
    pub fn crash(&self) -> Shared {
        let left = Self::default();
        left.keys.iter().for_each(|keys| drop(keys.replace(self.keys[0].borrow().clone())));
        *left.elements.borrow_mut() = self.written.borrow().clone();
        *left.written.borrow_mut() = self.written.borrow().clone();
        left.versions.set(self.versions_written.get());
        left.versions_written.set(self.versions_written.get());
        *left.layouts.borrow_mut() = self.layouts.borrow().clone();
        Shared(Rc::new(left))
    }

    /// What a keyspace needs to know that goes on from them.
    pub fn restore(&self, keyspace: &mut Keyspace) {
        keyspace.set_layout(&self.layouts.borrow().1);
        for db in 0..keyspace.len() {
            let Some(database) = keyspace.database_mut(db) else { continue };
            let disk = database.disk();
            let keys = self.keys[1].borrow();
            let of_it = || keys.iter().filter(|((of, ..), _)| *of == disk);
            database.set_len(of_it().count(), of_it().filter(|(_, record)| record.1 != keyspace::NEVER).count());
        }
    }

    /// Some records of a collection, behind one, as they are now, and whether there are more.
    pub fn piece(&self, of: Collection, behind: &[u8], at_most: usize) -> (Vec<(Bytes, Bytes)>, bool) {
        let elements = self.elements.borrow();
        let all = elements.iter().filter(|((disk, slot, version, name), _)| {
            (*disk, *slot, *version) == (of.disk, of.slot, of.version)
                && name.as_slice() > behind
                && RangeBounds::<[u8]>::contains(&(GATHERED.from, GATHERED.to), name.as_slice())
        });
        let mut piece: Vec<(Bytes, Bytes)> = all
            .take(at_most + 1)
            .map(|((.., name), value)| (Bytes::from_slice(name), Bytes::from_slice(value)))
            .collect();
        let has_more = piece.len() > at_most;
        piece.truncate(at_most);
        (piece, has_more)
    }

    fn change(&self, of: Collection, name: &[u8], value: Option<&[u8]>, is_marked: bool) {
        let name = (of.disk, of.slot, of.version, name.to_vec());
        let value = value.map(<[u8]>::to_vec);
        let mut marked = self.marked.borrow_mut();
        if let Some(marked) = marked.as_mut().filter(|_| is_marked) {
            marked.insert(name.clone(), value.clone());
            if self.dirty.borrow().contains_key(&name) {
                return;
            }
        } else {
            self.dirty.borrow_mut().insert(name.clone(), value.clone());
        }
        match value {
            Some(value) => self.elements.borrow_mut().insert(name, value),
            None => self.elements.borrow_mut().remove(&name),
        };
    }

    /// Reads what a command begins with, and counts what there is of that.
    fn warm(&self, warmup: &Warmup) {
        let of = warmup.of;
        let elements = self.elements.borrow();
        let name = |element: &[u8]| (of.disk, of.slot, of.version, element.to_vec());
        let found = match &warmup.what {
            WantedElements::Named(names) => {
                names.iter().filter(|element| elements.contains_key(&name(element))).count()
            }
            WantedElements::Some { from, backwards: true, count } => {
                elements.range(name(&[])..=name(from)).rev().take(*count).count()
            }
            WantedElements::Some { from, count, .. } => elements.range(name(from)..).take(*count).count(),
        };
        let counter = if matches!(warmup.what, WantedElements::Named(_)) { &self.warmed.0 } else { &self.warmed.1 };
        counter.set(counter.get() + found);
    }

    /// How many bytes of its own the record of a key with elements has.
    pub fn key_len(&self, key: &[u8]) -> usize {
        let keys = self.keys[1].borrow();
        let record = keys.iter().find(|((.., name), _)| name.as_slice() == key).map(|(_, record)| &record.0);
        let Some(Stored::Spread(descriptor)) = record else { unreachable!("no record of elements: {record:?}") };
        descriptor.rest.len()
    }

    /// How many records of elements begin with a letter.
    pub fn count(&self, letter: u8) -> usize {
        self.elements.borrow().keys().filter(|(.., name)| name.first() == Some(&letter)).count()
    }

    /// The collections that have elements.
    pub fn collections(&self) -> Vec<Collection> {
        let elements = self.elements.borrow();
        let of = |(disk, slot, version, _): &ElementName| Collection { disk: *disk, slot: *slot, version: *version };
        let mut all: Vec<Collection> = elements.keys().map(of).collect();
        all.dedup();
        let pinned = self.pinned.borrow();
        all.retain(|of| pinned.contains_key(&of.version) || !self.orphans.borrow().contains(of));
        all
    }

    fn remove_orphans(&self) {
        let pinned = self.pinned.borrow();
        let is_gone = |of: &Collection| !pinned.contains_key(&of.version);
        let gone: Vec<u64> = self.orphans.borrow().iter().filter(|of| is_gone(of)).map(|of| of.version).collect();
        self.elements.borrow_mut().retain(|(_, _, version, _), _| !gone.contains(version));
    }

    fn may_read(&self) -> Result<(), String> {
        count_down(&self.fails_after)
    }
}

fn count_down(left: &Cell<Option<usize>>) -> Result<(), String> {
    match left.get() {
        Some(0) => Err("ERR cannot read from disk: it is a test".into()),
        some => {
            left.set(some.map(|left| left - 1));
            Ok(())
        }
    }
}

impl Records for Shared {
    fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, String> {
        count_down(&self.0.keys_fail_after)?;
        if self.0.damaged.borrow().iter().any(|damaged| damaged.as_slice() == key) {
            return Err("ERR cannot read from disk: it is damaged".into());
        }
        let name = (disk, slot, hash_index::hash(key, SEED), Bytes::from_slice(key));
        let keys = self.0.keys[1].borrow();
        let Some((stored, expire_at)) = keys.get(&name).map(|record| (&record.0, &record.1)) else { return Ok(None) };
        let value = match stored {
            Stored::Whole(bytes) => {
                let building = Settings::default().value_limits(SEED);
                Stored::Whole(rdb::decode_value(bytes, &building).map_err(|error| error.to_string())?)
            }
            Stored::Spread(descriptor) => Stored::Spread(descriptor.clone()),
        };
        Ok(Some(Loaded { value, expire_at: *expire_at }))
    }

    fn load_at_once(&self, disk: u8, slot: usize, key: &[u8]) -> Option<Option<Loaded>> {
        if self.0.is_cached.get() { self.load(disk, slot, key).ok() } else { None }
    }

    fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, String> {
        count_down(&self.0.keys_fail_after)?;
        let keys = self.0.keys[1].borrow();
        let from = (disk, slot, from_hash, Bytes::new());
        let within = keys.range(from..).take_while(|((of, at, ..), _)| (*of, *at) == (disk, slot));
        let walked = within.map(|((_, _, hash, key), record)| Walked {
            hash: *hash,
            key: key.clone(),
            type_name: match &record.0 {
                Stored::Whole(bytes) => rdb::type_name(bytes),
                Stored::Spread(Descriptor { kind, .. }) => Descriptor::type_name(*kind),
            }
            .unwrap_or("none"),
            expire_at: record.1,
        });
        Ok(walked.take(at_most).collect())
    }

    fn next_slot(&self, disk: u8, from: usize) -> Result<usize, String> {
        let keys = self.0.keys[1].borrow();
        let first = (disk, from, 0, Bytes::new());
        let next = keys.range(first..).map(|((of, at, ..), _)| (*of, *at)).next();
        Ok(next.filter(|(of, _)| *of == disk).map_or(keyspace::slot::SLOTS, |(_, slot)| slot))
    }
}

impl ElementRecords for Shared {
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
        self.0.change(of, name, Some(value), false);
    }

    fn put_taken_element(&self, of: Collection, name: &[u8], value: Option<&[u8]>) {
        self.0.change(of, name, value, true);
    }

    fn delete_element(&self, of: Collection, name: &[u8]) {
        self.0.change(of, name, None, false);
    }

    fn begin(&self, of: Collection) {
        self.0.begun.borrow_mut().push(of);
    }

    fn adopt(&self, of: Collection) {
        self.0.begun.borrow_mut().retain(|begun| *begun != of);
    }

    fn orphan(&self, of: Collection) {
        self.adopt(of);
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

/// Brings all that has changed to the tables.
pub fn take(server: &mut Server, tables: &Shared) {
    server.keyspace.begin_checkpoint();
    tables.0.mark(server.keyspace.layout());
    let mut taken = Vec::new();
    while !server.keyspace.take(1000, &mut taken) {}
    tables.0.put(taken);
    tables.0.write();
}

/// The same, and has everything leave memory.
pub fn checkpoint(server: &mut Server, tables: &Shared) {
    take(server, tables);
    server.keyspace.forget_clean();
}

/// Brings collections into memory that were used.
pub fn bring(server: &mut Server, tables: &Shared) {
    const PIECE: usize = 3;
    let mut gatherings = Vec::new();
    server.keyspace.take_gatherings(&mut gatherings);
    for gather in gatherings {
        let mut behind = Vec::new();
        loop {
            let (piece, has_more) = tables.0.piece(gather.of, &behind, PIECE);
            if !server.keyspace.gathered(&gather, Some(&piece), !has_more) {
                break;
            }
            behind = piece.last().map(|(name, _)| name.to_vec()).unwrap_or_default();
        }
    }
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

/// What commands want to be read. What else they ask for nobody does here.
pub fn wanted(server: &mut Server) -> (Vec<Load>, Vec<Warmup>) {
    let (mut loads, mut warmups) = (Vec::new(), Vec::new());
    while let Some(request) = server.poll_request() {
        match request {
            Request::Load(load) => loads.push(load),
            Request::Warm(warmup) => warmups.push(warmup),
            _ => {}
        }
    }
    (loads, warmups)
}

/// Reads what commands wait for, until none does.
pub fn read_keys(server: &mut Server, tables: &Shared) {
    loop {
        let (loads, warmups) = wanted(server);
        if loads.is_empty() && warmups.is_empty() {
            return;
        }
        for warmup in warmups {
            tables.0.warm(&warmup);
            server.warmed(warmup.session);
        }
        for load in loads {
            let loaded = tables.load(load.disk, load.slot, &load.key);
            server.loaded(&load, loaded.ok());
        }
        server.run_loaded();
    }
}
