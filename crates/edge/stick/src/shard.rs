//! A part of a table: the entries whose keys have the same bits in their hash.
//!
//! Entries live in places of parallel arrays; a place that is free is the head of a list of such. Three structures lead to
//! them: an index by hash, the order in which they expire, and, where peers listen, the order of changes.
//!
//! The order of expiry is lazy, as HAProxy's: touching an entry moves its time and not its place in the order. Whoever
//! comes across an entry whose time has moved puts it where it belongs and goes on.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashTable;

use crate::{data::DataType, definition::Definition, dictionary::Dictionary, entry::Entry, key::KeyType};

/// What is known of every entry beside its key and data.
#[derive(Debug)]
struct Record {
    /// When it expires. In a free place: the next free one.
    expire: u64,
    /// Where it stands in the order of expiry.
    queued: u64,
    /// How many track it.
    references: u32,
    /// Its last change, 0 for none.
    update: u64,
}

/// No free place.
const NONE: u64 = u64::MAX;

/// The keys, by place.
#[derive(Debug)]
enum Keys {
    /// All of one length, end to end.
    Flat { len: usize, bytes: Vec<u8> },
    /// Of any length.
    Boxed(Vec<Box<[u8]>>),
}

impl Keys {
    fn new(definition: &Definition) -> Self {
        match definition.key {
            KeyType::String => Self::Boxed(Vec::new()),
            _ => Self::Flat { len: definition.key_len, bytes: Vec::new() },
        }
    }

    fn get(&self, place: usize) -> &[u8] {
        match self {
            Self::Flat { len, bytes } => bytes.get(place * len..(place + 1) * len).unwrap_or_default(),
            Self::Boxed(keys) => keys.get(place).map_or(&[], |key| key),
        }
    }

    fn set(&mut self, place: usize, key: &[u8]) {
        match self {
            Self::Flat { len, bytes } => {
                let end = (place + 1) * *len;
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                for (to, from) in bytes.iter_mut().skip(place * *len).zip(key) {
                    *to = *from;
                }
            }
            Self::Boxed(keys) => {
                if keys.len() <= place {
                    keys.resize(place + 1, Box::default());
                }
                if let Some(to) = keys.get_mut(place) {
                    *to = key.into();
                }
            }
        }
    }

    /// A place is free: its key need not be kept.
    fn clear(&mut self, place: usize) {
        if let Self::Boxed(keys) = self
            && let Some(key) = keys.get_mut(place)
        {
            *key = Box::default();
        }
    }
}

/// What came of looking at the oldest entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oldest {
    /// It was removed.
    Removed,
    /// It is not the oldest after all, or it is in use: another one may be.
    Moved,
    /// There is none.
    None,
}

/// Entries with the same hash bits.
#[derive(Debug)]
pub(crate) struct Shard {
    index: HashTable<u32>,
    records: Vec<Record>,
    keys: Keys,
    data: Vec<u32>,
    free: u64,
    order: BTreeSet<(u64, u32)>,
    /// Changes that peers are to hear of, by id.
    pub(crate) updates: BTreeMap<u64, u32>,
    /// Those of them that came from a peer.
    learned: BTreeSet<u32>,
}

impl Shard {
    pub(crate) fn new(definition: &Definition) -> Self {
        Self {
            index: HashTable::new(),
            records: Vec::new(),
            keys: Keys::new(definition),
            data: Vec::new(),
            free: NONE,
            order: BTreeSet::new(),
            updates: BTreeMap::new(),
            learned: BTreeSet::new(),
        }
    }

    /// The place of a key.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let found = self.index.find(hash, |place| self.keys.get(*place as usize) == key);
        found.copied()
    }

    /// Makes an entry, which must not be there.
    pub(crate) fn insert(
        &mut self,
        definition: &Definition,
        hash: u64,
        key: &[u8],
        expire: u64,
        rehash: impl Fn(&[u8]) -> u64,
    ) -> u32 {
        let words = definition.layout.words();
        let record = Record { expire, queued: expire, references: 0, update: 0 };
        let place = match usize::try_from(self.free) {
            Ok(place) if place < self.records.len() => {
                if let Some(free) = self.records.get_mut(place) {
                    self.free = free.expire;
                    *free = record;
                }
                if let Some(data) = self.data.get_mut(place * words..(place + 1) * words) {
                    data.fill(0);
                }
                place
            }
            _ => {
                self.records.push(record);
                self.data.resize(self.records.len() * words, 0);
                self.records.len() - 1
            }
        };
        // A table has fewer entries than 32 bits can number.
        let place = place as u32;
        self.keys.set(place as usize, key);
        let keys = &self.keys;
        self.index.insert_unique(hash, place, |place| rehash(keys.get(*place as usize)));
        self.order.insert((expire, place));
        place
    }

    /// Takes an entry out, whoever tracks it.
    pub(crate) fn remove(&mut self, definition: &Definition, dictionary: &Dictionary, hash: u64, place: u32) {
        let Ok(found) = self.index.find_entry(hash, |other| *other == place) else { return };
        found.remove();
        let words = definition.layout.words();
        if let Some(field) = definition.layout.field(DataType::ServerKey, 0) {
            dictionary.release(self.data.get(place as usize * words + field.word).copied().unwrap_or(0));
        }
        self.keys.clear(place as usize);
        if let Some(record) = self.records.get_mut(place as usize) {
            self.order.remove(&(record.queued, place));
            self.updates.remove(&record.update);
            self.learned.remove(&place);
            record.references = 0;
            record.expire = self.free;
            self.free = u64::from(place);
        }
        if self.index.is_empty() {
            *self = Self::new(definition);
        }
    }

    /// The key at a place.
    pub(crate) fn key(&self, place: u32) -> &[u8] {
        self.keys.get(place as usize)
    }

    /// Whether an entry's time is over and nobody tracks it. Where nothing expires, it never is.
    pub(crate) fn is_over(&self, definition: &Definition, place: u32, now: u64) -> bool {
        definition.expire_ms > 0
            && self.records.get(place as usize).is_some_and(|record| record.references == 0 && record.expire <= now)
    }

    pub(crate) fn references(&self, place: u32) -> u32 {
        self.records.get(place as usize).map_or(0, |record| record.references)
    }

    pub(crate) fn acquire(&mut self, place: u32) {
        if let Some(record) = self.records.get_mut(place as usize) {
            record.references += 1;
        }
    }

    pub(crate) fn release(&mut self, place: u32) {
        if let Some(record) = self.records.get_mut(place as usize) {
            record.references = record.references.saturating_sub(1);
        }
    }

    /// Works on the entry at a place; whether it was changed, too.
    pub(crate) fn with<R>(
        &mut self,
        definition: &Definition,
        dictionary: &Dictionary,
        place: u32,
        now: u64,
        work: impl FnOnce(&mut Entry<'_>) -> R,
    ) -> Option<(R, bool)> {
        let words = definition.layout.words();
        let record = self.records.get_mut(place as usize)?;
        let start = place as usize * words;
        let data = self.data.get_mut(start..start + words)?;
        let references = record.references;
        let mut entry =
            Entry { definition, dictionary, data, expire: &mut record.expire, references, now, changed: false };
        let result = work(&mut entry);
        Some((result, entry.changed))
    }

    /// Gives an entry the id of a change, in place of the one that it had. `committed` is the last one that anyone was told
    /// of: an entry with a later one keeps it, unless that one tells what a peer said.
    pub(crate) fn note_update(&mut self, place: u32, committed: u64, next: impl FnOnce() -> u64) {
        let Some(record) = self.records.get_mut(place as usize) else { return };
        if record.update > committed && !self.learned.contains(&place) {
            return;
        }
        let id = next();
        self.updates.remove(&record.update);
        record.update = id;
        self.updates.insert(id, place);
        self.learned.remove(&place);
    }

    /// Gives an entry that was learned from a peer a place among the changes, if it has none.
    pub(crate) fn note_learned(&mut self, place: u32, next: impl FnOnce() -> u64) {
        let Some(record) = self.records.get_mut(place as usize) else { return };
        if record.update == 0 {
            record.update = next();
            self.updates.insert(record.update, place);
            self.learned.insert(place);
        }
    }

    /// Whether the last change of an entry came from a peer.
    pub(crate) fn is_learned(&self, place: u32) -> bool {
        self.learned.contains(&place)
    }

    /// When the first entry at or after a place in the order is due; it may have been used since.
    pub(crate) fn due_from(&self, from: (u64, u32)) -> Option<u64> {
        self.order.range(from..).next().map(|(due, _)| *due)
    }

    /// Looks at the first entry at or after `from` in the order: removes it when nobody tracks it and `or_before` is not
    /// before its time, or puts it where it belongs. Moves `from` behind those that are in use.
    pub(crate) fn take_oldest(
        &mut self,
        definition: &Definition,
        dictionary: &Dictionary,
        from: &mut (u64, u32),
        or_before: u64,
        hash: impl Fn(&[u8]) -> u64,
    ) -> Oldest {
        let Some((queued, place)) = self.order.range(*from..).next().copied() else { return Oldest::None };
        if queued > or_before {
            return Oldest::None;
        }
        let Some(record) = self.records.get_mut(place as usize) else { return Oldest::None };
        if record.references > 0 {
            *from = (queued, place.saturating_add(1));
            return Oldest::Moved;
        }
        if record.expire != queued {
            record.queued = record.expire;
            let moved = (record.expire, place);
            self.order.remove(&(queued, place));
            self.order.insert(moved);
            return Oldest::Moved;
        }
        let hash = hash(self.keys.get(place as usize));
        self.remove(definition, dictionary, hash, place);
        Oldest::Removed
    }

    /// Every place that is used.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.index.iter().copied()
    }
}
