//! Consumer groups: who has been given which entries and has not acknowledged them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, RangeInclusive},
};

use slab::Slab;

use crate::{
    Bytes, Millis,
    elements::{Collection, Elements},
};

use super::{Id, Spilled};

/// How many entries spill at once at most.
const SPILLED_AT_ONCE: usize = 512;

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

impl ConsumerNumber {
    /// In a record.
    pub(super) fn to_bytes(self) -> [u8; 4] {
        (self.0 as u32).to_be_bytes()
    }

    /// Out of a record.
    pub(super) fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(bytes) as usize)
    }
}

/// Someone who reads with others.
#[derive(Debug, Clone)]
pub struct Consumer {
    /// Its name.
    pub name: Bytes,
    /// When it was active.
    pub seen: Millis,
    /// What it has been given and not acknowledged, as far as it is in memory.
    kept: BTreeSet<Id>,
    /// How much else that is.
    spilled: usize,
}

impl Consumer {
    /// How many entries it has been given and not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.kept.len() + self.spilled
    }

    /// How many of them are in memory.
    pub(crate) fn kept_len(&self) -> usize {
        self.kept.len()
    }
}

/// A group of consumers.
#[derive(Debug, Clone)]
pub struct Group {
    /// The last entry that any of them was given.
    pub last: Id,
    /// How many entries there were up to that one; unknown after some were removed in between.
    pub entries_read: Option<u64>,
    /// What was given and not acknowledged, as far as it is in memory.
    kept: BTreeMap<Id, Pending>,
    /// The rest of it, if there ever was too much.
    spilled: Option<Box<Spilled>>,
    names: BTreeMap<Bytes, ConsumerNumber>,
    consumers: Slab<Consumer>,
}

impl Group {
    /// One that begins behind an entry.
    pub fn new(last: Id, entries_read: Option<u64>) -> Self {
        Self {
            last,
            entries_read,
            kept: BTreeMap::new(),
            spilled: None,
            names: BTreeMap::new(),
            consumers: Slab::new(),
        }
    }

    /// How many entries were given and not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.kept.len() + self.spilled.as_ref().map_or(0, |spilled| spilled.len)
    }

    /// How many of them are in memory.
    pub(crate) fn kept_len(&self) -> usize {
        self.kept.len()
    }

    /// An entry that was given and not acknowledged.
    pub fn pending(&self, id: Id) -> Option<Pending> {
        self.kept.get(&id).copied().or_else(|| self.spilled.as_ref()?.get(id))
    }

    /// Calls with those of a range in order until that says no: those of a consumer, or all.
    pub fn each_pending(
        &self,
        ids: RangeInclusive<Id>,
        consumer: Option<ConsumerNumber>,
        mut each: impl FnMut(Id, Pending) -> bool,
    ) {
        if ids.is_empty() {
            return;
        }
        let mut kept = self.kept_within(ids.clone(), consumer).peekable();
        let mut goes_on = true;
        if let Some(spilled) = &self.spilled {
            spilled.each(ids.into_inner(), consumer, &mut |id, pending| {
                while let Some((before, kept)) = kept.next_if(|(kept, _)| *kept < id) {
                    goes_on = each(before, kept);
                    if !goes_on {
                        return false;
                    }
                }
                goes_on = each(id, pending);
                goes_on
            });
            goes_on = goes_on && !spilled.has_failed();
        }
        while goes_on && let Some((id, pending)) = kept.next() {
            goes_on = each(id, pending);
        }
    }

    /// The same for all that is in memory.
    pub(crate) fn each_kept(&self, consumer: Option<ConsumerNumber>, mut each: impl FnMut(Id, Pending) -> bool) {
        let _ = self.kept_within(Id::MIN..=Id::MAX, consumer).all(|(id, pending)| each(id, pending));
    }

    fn kept_within(
        &self,
        ids: RangeInclusive<Id>,
        of: Option<ConsumerNumber>,
    ) -> Box<dyn Iterator<Item = (Id, Pending)> + '_> {
        let Some(number) = of else { return Box::new(self.kept.range(ids).map(|(id, pending)| (*id, *pending))) };
        let ids = self.consumer(number).into_iter().flat_map(move |consumer| consumer.kept.range(ids.clone()));
        Box::new(ids.filter_map(|id| Some((*id, *self.kept.get(id)?))))
    }

    /// The first entry that was given and not acknowledged, and the last one.
    pub fn pending_ends(&self) -> Option<(Id, Id)> {
        let mut first = None;
        self.each_pending(Id::MIN..=Id::MAX, None, |id, _| {
            first = Some(id);
            false
        });
        let spilled = self.spilled.as_ref().and_then(|spilled| spilled.greatest());
        let last = self.kept.last_key_value().map(|(id, _)| *id).max(spilled);
        first.zip(last)
    }

    /// The consumers by name.
    pub fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.numbers().filter_map(|number| self.consumers.get(number.0))
    }

    /// Their numbers in the same order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = ConsumerNumber> {
        self.names.values().copied()
    }

    /// How many there are.
    pub fn consumers_len(&self) -> usize {
        self.consumers.len()
    }

    /// The first consumer behind a name, or of all.
    pub fn consumer_behind(&self, name: Option<&[u8]>) -> Option<(ConsumerNumber, &Consumer)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let (_, number) = self.names.range::<[u8], _>((from, Bound::Unbounded)).next()?;
        Some((*number, self.consumer(*number)?))
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
        let consumer = Consumer { name: name.clone(), seen, kept: BTreeSet::new(), spilled: 0 };
        let number = ConsumerNumber(self.consumers.insert(consumer));
        self.names.insert(name, number);
        number
    }

    /// Removes some of what is pending for a consumer that is to be removed. Returns how much; nothing if it cannot be read.
    pub fn empty_consumer(&mut self, number: ConsumerNumber, at_most: usize) -> usize {
        let Some(consumer) = self.consumers.get_mut(number.0) else { return 0 };
        let mut count = 0;
        if let Some(spilled) = self.spilled.as_mut().filter(|_| consumer.spilled > 0) {
            let mut ids = Vec::new();
            spilled.each((Id::MIN, Id::MAX), Some(number), &mut |id, _| {
                ids.push(id);
                ids.len() < at_most
            });
            if spilled.has_failed() {
                return 0;
            }
            for id in ids {
                spilled.remove(id, number);
                consumer.spilled -= 1;
                count += 1;
            }
        }
        while count < at_most
            && let Some(id) = consumer.kept.pop_first()
        {
            self.kept.remove(&id);
            count += 1;
        }
        self.changes();
        count
    }

    /// Whether something could not be read: then nothing is to be changed.
    pub fn has_failed(&self) -> bool {
        self.spilled.as_ref().is_some_and(|spilled| spilled.has_failed())
    }

    /// Says that something is changed that is no record: if something cannot be read after that, the command has been done by half.
    fn changes(&self) {
        if let Some(spilled) = &self.spilled {
            spilled.elements().changes();
        }
    }

    /// Removes a consumer with all that is pending for it.
    pub fn remove_consumer(&mut self, name: &[u8]) {
        let Some(number) = self.names.remove(name) else { return };
        self.empty_consumer(number, usize::MAX);
        self.consumers.try_remove(number.0);
    }

    /// Gives an entry to a consumer, whoever had it before.
    pub fn give(&mut self, id: Id, pending: Pending) {
        if let Some(former) = self.kept.get_mut(&id) {
            let former = std::mem::replace(former, pending);
            if former.consumer != pending.consumer
                && let Some(consumer) = self.consumer_mut(former.consumer)
            {
                consumer.kept.remove(&id);
            }
        } else if let Some(spilled) = &mut self.spilled {
            let former = spilled.get(id);
            if spilled.has_failed() {
                return;
            }
            if let Some(former) = former {
                spilled.replace(id, &former, &pending);
                if let Some(consumer) = self.consumer_mut(former.consumer) {
                    consumer.spilled -= 1;
                }
                if let Some(consumer) = self.consumer_mut(pending.consumer) {
                    consumer.spilled += 1;
                }
                return;
            }
        }
        self.kept.insert(id, pending);
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.kept.insert(id);
        }
        self.changes();
        // Two for one, so that what was too much before comes to its measure.
        self.spill_some(2);
    }

    /// An entry is pending no longer. Returns whether it was.
    pub fn acknowledge(&mut self, id: Id) -> bool {
        if let Some(pending) = self.kept.remove(&id) {
            if let Some(consumer) = self.consumer_mut(pending.consumer) {
                consumer.kept.remove(&id);
            }
            self.changes();
            return true;
        }
        let Some(spilled) = &mut self.spilled else { return false };
        let Some(pending) = spilled.get(id).filter(|_| !spilled.has_failed()) else { return false };
        spilled.remove(id, pending.consumer);
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.spilled -= 1;
        }
        true
    }

    /// A pending entry of a consumer was given to it again.
    pub fn give_again(&mut self, id: Id, now: Millis) {
        if let Some(former) = self.pending(id) {
            self.give(id, Pending { delivered: now, count: former.count + 1, ..former });
        }
    }

    /// Frees some of what nobody needs any more. Returns whether there was something.
    pub(super) fn shed(&mut self) -> bool {
        const ENTRIES: usize = 512;
        let mut count = 0;
        while count < ENTRIES
            && let Some((id, pending)) = self.kept.pop_first()
        {
            if let Some(consumer) = self.consumer_mut(pending.consumer) {
                consumer.kept.remove(&id);
            }
            count += 1;
        }
        count > 0
    }

    /// Whether more is in memory than is to be, or nearly so much with no place for more.
    pub(super) fn is_beyond(&self, kept_max: usize) -> bool {
        match &self.spilled {
            Some(spilled) => self.kept.len() > spilled.kept_max + SPILLED_AT_ONCE,
            None => self.kept.len() > kept_max / 2,
        }
    }

    /// The records of entries, if there are any.
    pub fn records_of(&self, ids: &[Id]) -> Option<(Collection, Vec<Vec<u8>>)> {
        let spilled = self.spilled.as_ref()?;
        let names: Vec<_> = ids.iter().filter_map(|id| spilled.record_of(*id)).collect();
        (!names.is_empty()).then(|| (spilled.elements().collection(), names))
    }

    /// Has entries spill from now on when there are too many. `beside` are the elements of the same stream.
    pub(super) fn spill(&mut self, beside: &Elements, kept_max: usize) {
        let fresh = || Box::new(Spilled::new(beside.fresh(beside.collection().disk), kept_max));
        self.spilled.get_or_insert_with(fresh);
        self.spill_some(SPILLED_AT_ONCE);
    }

    fn spill_some(&mut self, at_most: usize) {
        let Some(spilled) = &mut self.spilled else { return };
        for _ in 0..at_most.min(self.kept.len().saturating_sub(spilled.kept_max)) {
            if spilled.has_failed() {
                return;
            }
            let Some((id, pending)) = self.kept.pop_first() else { return };
            spilled.take_over(id, &pending);
            if let Some(consumer) = self.consumers.get_mut(pending.consumer.0) {
                consumer.kept.remove(&id);
                consumer.spilled += 1;
            }
        }
    }

    /// What has spilled.
    pub(crate) fn spilled(&self) -> Option<&Spilled> {
        self.spilled.as_deref()
    }

    /// The same, to be changed as a whole.
    pub(crate) fn spilled_mut(&mut self) -> Option<&mut Spilled> {
        self.spilled.as_deref_mut()
    }

    /// The numbers of the consumers in the order of their names, and how much of each has spilled.
    pub(crate) fn spilled_of_consumers(&self) -> impl Iterator<Item = (u32, usize)> {
        let spilled = |number: &ConsumerNumber| self.consumers.get(number.0).map_or(0, |consumer| consumer.spilled);
        self.names.values().map(move |number| (number.0 as u32, spilled(number)))
    }

    /// A group that was read without what has spilled gets it, with what [`spilled_of_consumers`](Self::spilled_of_consumers)
    /// gave. Returns whether that can be.
    pub(crate) fn set_spilled(&mut self, spilled: Spilled, of_consumers: &[(u32, usize)]) -> bool {
        /// A number is a place in memory: one that is out of all measure is none.
        const NUMBER_MAX: u32 = 1 << 24;
        let unique: BTreeSet<u32> = of_consumers.iter().map(|(number, _)| *number).collect();
        let total: usize = of_consumers.iter().fold(0, |total, (_, count)| total.saturating_add(*count));
        if of_consumers.len() != self.names.len()
            || unique.len() != of_consumers.len()
            || unique.last().is_some_and(|last| *last > NUMBER_MAX)
            || total != spilled.len
        {
            return false;
        }
        let mut renumbered = Vec::new();
        for (known, (number, count)) in self.names.values_mut().zip(of_consumers) {
            let Some(mut consumer) = self.consumers.try_remove(known.0) else { return false };
            consumer.spilled = *count;
            *known = ConsumerNumber(*number as usize);
            for id in &consumer.kept {
                if let Some(pending) = self.kept.get_mut(id) {
                    pending.consumer = *known;
                }
            }
            renumbered.push((known.0, consumer));
        }
        self.consumers = renumbered.into_iter().collect();
        self.spilled = Some(Box::new(spilled));
        true
    }

    /// A copy without what has spilled.
    pub(crate) fn without_spilled(&self) -> Self {
        let mut consumers = self.consumers.clone();
        consumers.iter_mut().for_each(|(_, consumer)| consumer.spilled = 0);
        Self {
            last: self.last,
            entries_read: self.entries_read,
            kept: self.kept.clone(),
            spilled: None,
            names: self.names.clone(),
            consumers,
        }
    }

    /// The copy gets a copy of what has spilled.
    pub(crate) fn take_spilled(&mut self, of: &Self, elements: Elements) {
        let Some(spilled) = &of.spilled else { return };
        for (number, consumer) in &mut self.consumers {
            consumer.spilled = of.consumers.get(number).map_or(0, |of| of.spilled);
        }
        self.spilled = Some(Box::new(Spilled::of_records(elements, spilled.len, spilled.last, spilled.kept_max)));
    }

    /// Says that nobody needs the records any more.
    pub(crate) fn discard(&self) {
        if let Some(spilled) = &self.spilled {
            spilled.elements().discard();
        }
    }
}
