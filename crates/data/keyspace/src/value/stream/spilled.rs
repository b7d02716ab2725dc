//! Pending entries that are records of their own.
//!
//! What is given is mostly acknowledged soon. So what was given last is in memory, and stands in the key's record. What stays
//! pending while more and more is given spills, the first entries first: each has a record under its group, and one under its
//! consumer, both with all that is known of it. So no checkpoint writes again what has been pending for ever, and however much it
//! is takes no memory.

use std::ops::Bound::Included;

use crate::{
    Millis,
    elements::{Elements, Span},
};

use super::{ConsumerNumber, Id, Pending};

/// What the records of a group's entries begin with; the id follows.
const LETTER: u8 = b'p';
/// What those of a consumer's begin with; its number and the id follow.
const CONSUMER_LETTER: u8 = b'c';
/// A consumer's number, a time and a count.
const VALUE_LEN: usize = 20;

/// The entries of a group that have spilled.
#[derive(Debug, Clone)]
pub struct Spilled {
    elements: Elements,
    /// How many there are.
    pub(crate) len: usize,
    /// None of them has a greater id.
    pub(crate) last: Id,
    /// How many entries are kept in memory before more of them spill.
    pub(crate) kept_max: usize,
}

/// The name of a record: among those of a consumer if one is named.
fn record(consumer: Option<ConsumerNumber>, id: Id) -> Vec<u8> {
    let mut record = Vec::with_capacity(1 + size_of::<u32>() + size_of::<Id>());
    match consumer {
        None => record.push(LETTER),
        Some(number) => {
            record.push(CONSUMER_LETTER);
            record.extend_from_slice(&number.to_bytes());
        }
    }
    record.extend_from_slice(&id.to_bytes());
    record
}

fn encode(pending: &Pending) -> [u8; VALUE_LEN] {
    let mut bytes = [0; VALUE_LEN];
    let (number, rest) = bytes.split_at_mut(4);
    number.copy_from_slice(&pending.consumer.to_bytes());
    let (delivered, count) = rest.split_at_mut(8);
    delivered.copy_from_slice(&pending.delivered.to_be_bytes());
    count.copy_from_slice(&pending.count.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Pending> {
    let (number, bytes) = bytes.split_first_chunk()?;
    let (delivered, count) = bytes.split_first_chunk()?;
    Some(Pending {
        consumer: ConsumerNumber::from_bytes(*number),
        delivered: Millis::from_be_bytes(*delivered),
        count: u64::from_be_bytes(count.try_into().ok()?),
    })
}

impl Spilled {
    /// None yet, in a collection of their own.
    pub(super) fn new(elements: Elements, kept_max: usize) -> Self {
        Self::of_records(elements, 0, Id::MIN, kept_max)
    }

    /// Those of a collection that is there.
    pub(crate) fn of_records(elements: Elements, len: usize, last: Id, kept_max: usize) -> Self {
        Self { elements, len, last, kept_max }
    }

    pub(crate) fn elements(&self) -> &Elements {
        &self.elements
    }

    pub(super) fn elements_mut(&mut self) -> &mut Elements {
        &mut self.elements
    }

    /// Whether something could not be read: then nothing is to be changed.
    pub(super) fn has_failed(&self) -> bool {
        self.elements.has_failed()
    }

    fn damaged(&self) {
        self.elements.fail("ERR the record of a pending entry is damaged");
    }

    /// The name of an entry's record, if it may be one of them.
    pub(super) fn record_of(&self, id: Id) -> Option<Vec<u8>> {
        (self.len > 0 && id <= self.last).then(|| record(None, id))
    }

    /// An entry, if it is one of them.
    pub(super) fn get(&self, id: Id) -> Option<Pending> {
        if self.len == 0 || id > self.last {
            return None;
        }
        let found = decode(&self.elements.get(&record(None, id))?);
        if found.is_none() {
            self.damaged();
        }
        found
    }

    /// Takes one over that stood in the key's record.
    pub(super) fn take_over(&mut self, id: Id, pending: &Pending) {
        let value = encode(pending);
        self.elements.take_over(&record(None, id), &value);
        self.elements.take_over(&record(Some(pending.consumer), id), &value);
        self.len += 1;
        self.last = self.last.max(id);
    }

    fn put(&self, id: Id, pending: &Pending) {
        let value = encode(pending);
        self.elements.put(&record(None, id), &value);
        self.elements.put(&record(Some(pending.consumer), id), &value);
    }

    /// Changes one, which may go to another consumer.
    pub(super) fn replace(&self, id: Id, former: &Pending, pending: &Pending) {
        if former.consumer != pending.consumer {
            self.elements.delete(&record(Some(former.consumer), id));
        }
        self.put(id, pending);
    }

    /// Removes one that a consumer has.
    pub(super) fn remove(&mut self, id: Id, consumer: ConsumerNumber) {
        self.elements.delete(&record(None, id));
        self.elements.delete(&record(Some(consumer), id));
        self.len = self.len.saturating_sub(1);
    }

    /// Calls with those between two ids, of one consumer or all, until that says no.
    pub(super) fn each(
        &self,
        (from, to): (Id, Id),
        consumer: Option<ConsumerNumber>,
        each: &mut dyn FnMut(Id, Pending) -> bool,
    ) {
        let to = to.min(self.last);
        if self.len == 0 || from > to {
            return;
        }
        let (from, to) = (record(consumer, from), record(consumer, to));
        let span = Span { from: Included(&from), to: Included(&to), backwards: false };
        let mut is_damaged = false;
        self.elements.scan(span, &mut |record, value| match (
            record.last_chunk().map(|id| Id::from_bytes(*id)),
            decode(value),
        ) {
            (Some(id), Some(pending)) => each(id, pending),
            _ => {
                is_damaged = true;
                false
            }
        });
        if is_damaged {
            self.damaged();
        }
    }

    /// The last one there is.
    pub(super) fn greatest(&self) -> Option<Id> {
        if self.len == 0 {
            return None;
        }
        let (from, to) = (record(None, Id::MIN), record(None, self.last));
        let mut found = None;
        self.elements.scan(Span { from: Included(&from), to: Included(&to), backwards: true }, &mut |record, _| {
            found = record.last_chunk().map(|id| Id::from_bytes(*id));
            false
        });
        found
    }
}
