//! A numbered database: a table for each slot.

use std::collections::BTreeSet;

use crate::{
    Bytes, Millis, Value,
    hash_index::{CURSOR_BITS, HashIndex},
    random::Random,
    slot::SLOTS,
};

use super::{
    entry::{Entry, NEVER},
    occupied::Occupied,
};

/// The keys of a slot.
#[derive(Debug)]
pub(crate) struct SlotTable {
    pub(crate) index: HashIndex<Entry>,
    /// Entries without a value.
    pub(crate) absent: usize,
    /// Whether every key of the slot is in memory.
    pub(crate) complete: bool,
}

impl SlotTable {
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.index.hash(key)
    }
}

/// The keys of a database.
#[derive(Debug)]
pub struct Database {
    /// Empty until the first key.
    slots: Vec<SlotTable>,
    occupied: Occupied,
    seed: u64,
    pub(super) complete: bool,
    /// How many slots have keys that are not in memory, as far as there are tables for them.
    incomplete: usize,
    /// Entries without a value.
    pub(super) absent: usize,
    /// The number that the tables know it by.
    pub disk: u8,
    /// How many keys there are, in memory or not.
    pub(crate) len: usize,
    /// How many of them expire.
    pub(crate) expires: usize,
    /// Keys in memory that expire, the next one first.
    pub expiring: BTreeSet<(Millis, Bytes)>,
}

impl Database {
    pub(super) fn new(seed: u64, complete: bool, disk: u8) -> Self {
        Self {
            slots: Vec::new(),
            occupied: Occupied::default(),
            seed,
            complete,
            incomplete: 0,
            absent: 0,
            disk,
            len: 0,
            expires: 0,
            expiring: BTreeSet::new(),
        }
    }

    /// Frees some hundred keys of what nobody needs any more, and gives what they held. Returns whether there are more.
    pub(super) fn shed(&mut self, each: &mut dyn FnMut(Value)) -> bool {
        const EXPIRIES: usize = 512;
        const SLOTS: usize = 64;
        for _ in 0..EXPIRIES {
            if self.expiring.pop_last().is_none() {
                break;
            }
        }
        for _ in 0..SLOTS {
            let Some(table) = self.slots.last_mut() else { break };
            if table.index.shed_each(|entry| entry.value.into_iter().for_each(&mut *each)) {
                return true;
            }
            self.slots.pop();
        }
        !self.slots.is_empty() || !self.expiring.is_empty()
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says that memory has all keys of a slot.
    pub(super) fn complete_slot(&mut self, slot: usize) {
        if let Some(table) = self.slot_mut(slot) {
            let was_complete = std::mem::replace(&mut table.complete, true);
            self.incomplete -= usize::from(!was_complete);
        }
    }

    /// Says that memory has not all keys of a slot any more.
    pub(super) fn slot_leaves(&mut self, slot: usize) {
        if let Some(table) = self.slot_mut(slot) {
            let was_complete = std::mem::replace(&mut table.complete, false);
            self.incomplete += usize::from(was_complete);
        }
    }

    /// Whether memory has all its keys.
    pub(super) fn is_complete(&self) -> bool {
        if self.slots.is_empty() { self.complete } else { self.incomplete == 0 }
    }

    pub(super) fn set_complete(&mut self) {
        self.complete = true;
        self.incomplete = 0;
        self.slots.iter_mut().for_each(|slot| slot.complete = true);
    }

    /// Says how many keys it has, and how many of them expire, as the tables know it.
    pub fn set_len(&mut self, len: usize, expires: usize) {
        (self.len, self.expires) = (len, expires);
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys memory knows not to be there.
    pub(super) fn absent_len(&self) -> usize {
        self.absent
    }

    /// The number that the tables know it by.
    pub fn disk(&self) -> u8 {
        self.disk
    }

    /// About how many bytes the tables of keys in memory take, and the order of those that expire, without keys and values.
    pub fn overhead(&self) -> (u64, u64) {
        let keys: usize = self.tables().map(|table| table.index.len()).sum();
        let expiring = self.expiring.len() * size_of::<(Millis, Bytes)>();
        ((keys * (size_of::<Entry>() + size_of::<u32>())) as u64, expiring as u64)
    }

    /// How many of its keys expire, in memory or not.
    pub fn expires_len(&self) -> usize {
        self.expires
    }

    /// The mean time that some expiring keys still have: those that come first in the order of keys, which is none of theirs.
    pub fn mean_ttl(&self, now: Millis) -> Millis {
        const LOOKED_AT_MAX: usize = 4096;
        const SAMPLES: usize = 256;
        let mean = |times: &mut dyn Iterator<Item = Millis>| {
            let (sum, count) = times
                .take(SAMPLES)
                .fold((0i64, 0i64), |(sum, count), at| (sum.saturating_add((at - now).max(0)), count + 1));
            (count > 0).then(|| sum / count)
        };
        let of_some = self.entries().take(LOOKED_AT_MAX).map(|entry| entry.expire_at);
        mean(&mut of_some.filter(|at| *at != NEVER))
            .or_else(|| mean(&mut self.expiring.iter().map(|(at, _)| *at)))
            .unwrap_or(0)
    }

    pub(crate) fn slot(&self, slot: usize) -> Option<&SlotTable> {
        self.slots.get(slot)
    }

    pub(crate) fn slot_mut(&mut self, slot: usize) -> Option<&mut SlotTable> {
        if self.slots.is_empty() {
            self.make_room();
        }
        self.slots.get_mut(slot)
    }

    /// The first slot from one on that has entries; [`SLOTS`] if there is none.
    pub(super) fn next_slot(&self, from: usize) -> usize {
        self.occupied.next(from)
    }

    /// Puts an entry into a slot that has none of its name.
    pub(super) fn insert_new(&mut self, slot: usize, hash: u64, entry: Entry) {
        if let Some(table) = self.slot_mut(slot) {
            table.index.insert_new(hash, entry);
            self.occupied.insert(slot);
        }
    }

    /// Takes an entry out of a slot.
    pub(super) fn remove_hashed(&mut self, slot: usize, hash: u64, name: &[u8]) -> Option<Entry> {
        let table = self.slot_mut(slot)?;
        let entry = table.index.remove_hashed(hash, name)?;
        if table.index.is_empty() {
            self.occupied.remove(slot);
        }
        Some(entry)
    }

    /// Makes the slots' tables, if they are not there.
    pub(super) fn make_room(&mut self) {
        let table = || SlotTable { index: HashIndex::new(self.seed), absent: 0, complete: self.complete };
        if self.slots.is_empty() {
            self.slots = (0..SLOTS).map(|_| table()).collect();
            self.incomplete = if self.complete { 0 } else { SLOTS };
        }
    }

    /// The tables that have entries.
    pub(super) fn tables(&self) -> impl Iterator<Item = &SlotTable> {
        self.occupied.iter().filter_map(|slot| self.slots.get(slot))
    }

    /// The keys in memory.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.tables().flat_map(|table| table.index.iter()).filter(|entry| entry.value.is_some())
    }

    /// Gives about `count` keys from a cursor on; returns the cursor to go on with, 0 at the end.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut each: impl FnMut(&'a Entry)) -> u64 {
        let mut slot = (cursor >> CURSOR_BITS) as usize;
        let mut within = cursor & ((1 << CURSOR_BITS) - 1);
        let mut given = 0;
        while let Some(table) = self.slots.get(slot) {
            let next = table.index.scan(within, count - given, |entry| {
                given += 1;
                if entry.value.is_some() {
                    each(entry);
                }
            });
            match next {
                Some(next) => return (slot as u64) << CURSOR_BITS | next,
                None => {
                    slot = self.occupied.next(slot + 1);
                    within = 0;
                }
            }
            if given >= count && slot < SLOTS {
                return (slot as u64) << CURSOR_BITS;
            }
        }
        0
    }

    /// Some slot that has entries.
    pub(super) fn random_slot(&self, random: &mut Random) -> Option<usize> {
        if self.occupied.count() == 0 {
            return None;
        }
        for _ in 0..DRAWS {
            let slot = random.below(SLOTS as u64) as usize;
            if self.occupied.contains(slot) {
                return Some(slot);
            }
        }
        // Few keys leave most slots empty, so one is drawn among those that have some.
        self.occupied.nth(random.below(self.occupied.count() as u64) as usize)
    }

    /// Some key in memory.
    pub fn random(&self, random: &mut Random) -> Option<&Entry> {
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let slot = self.slots.get(self.random_slot(random)?)?;
            if let Some(entry) = slot.index.random(random.draw()).filter(|entry| entry.value.is_some()) {
                return Some(entry);
            }
        }
        self.entries().next()
    }
}

/// So often a slot is drawn before those are counted that have keys.
const DRAWS: usize = 32;
