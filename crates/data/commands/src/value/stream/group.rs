//! Consumer groups: who has been given which entries and has not acknowledged them.

use std::collections::{BTreeMap, BTreeSet};

use slab::Slab;

use crate::{Bytes, Millis};

use super::Id;

/// An entry that was given to a consumer.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    /// When it was given the last time.
    pub delivered: Millis,
    /// How often.
    pub count: u64,
    /// To whom.
    pub consumer: ConsumerNumber,
}

/// A consumer within its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerNumber(usize);

/// Someone who reads with others.
#[derive(Debug, Clone)]
pub struct Consumer {
    /// Its name.
    pub name: Bytes,
    /// When it was active.
    pub seen: Millis,
    /// What it has been given and not acknowledged.
    pub pending: BTreeSet<Id>,
}

/// A group of consumers.
#[derive(Debug, Clone)]
pub struct Group {
    /// The last entry that any of them was given.
    pub last: Id,
    /// How many entries there were up to that one; unknown after some were removed in between.
    pub entries_read: Option<u64>,
    pending: BTreeMap<Id, Pending>,
    names: BTreeMap<Bytes, ConsumerNumber>,
    consumers: Slab<Consumer>,
}

impl Group {
    /// One that begins behind an entry.
    pub fn new(last: Id, entries_read: Option<u64>) -> Self {
        Self { last, entries_read, pending: BTreeMap::new(), names: BTreeMap::new(), consumers: Slab::new() }
    }

    /// The entries that were given and not acknowledged.
    pub fn pending(&self) -> &BTreeMap<Id, Pending> {
        &self.pending
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.names.values().filter_map(|number| self.consumers.get(number.0))
    }

    /// How many there are.
    pub fn consumers_len(&self) -> usize {
        self.consumers.len()
    }

    /// A consumer's number.
    pub fn number_of(&self, name: &[u8]) -> Option<ConsumerNumber> {
        self.names.get(name).copied()
    }

    /// A consumer.
    pub fn consumer(&self, number: ConsumerNumber) -> Option<&Consumer> {
        self.consumers.get(number.0)
    }

    /// A consumer, to be changed.
    pub fn consumer_mut(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        self.consumers.get_mut(number.0)
    }

    /// Adds a consumer that is not there.
    pub fn add_consumer(&mut self, name: &[u8], seen: Millis) -> ConsumerNumber {
        let name = Bytes::from_slice(name);
        let consumer = Consumer { name: name.clone(), seen, pending: BTreeSet::new() };
        let number = ConsumerNumber(self.consumers.insert(consumer));
        self.names.insert(name, number);
        number
    }

    /// Removes a consumer with all that is pending for it; returns how much that was.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers.try_remove(number.0)?;
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Gives an entry to a consumer, whoever had it before.
    pub fn give(&mut self, id: Id, pending: Pending) {
        if let Some(former) = self.pending.insert(id, pending)
            && former.consumer != pending.consumer
            && let Some(consumer) = self.consumer_mut(former.consumer)
        {
            consumer.pending.remove(&id);
        }
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.insert(id);
        }
    }

    /// An entry is pending no longer. Returns whether it was.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Frees some of what nobody needs any more. Returns whether there was something.
    pub(super) fn shed(&mut self) -> bool {
        const ENTRIES: usize = 512;
        let ids: Vec<Id> = self.pending.keys().take(ENTRIES).copied().collect();
        for id in &ids {
            self.acknowledge(*id);
        }
        !ids.is_empty()
    }

    /// A pending entry of a consumer was given to it again.
    pub fn give_again(&mut self, id: Id, now: Millis) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.delivered = now;
            pending.count += 1;
        }
    }
}
