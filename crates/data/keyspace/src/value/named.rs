//! Elements by name in records of their own: a large hash, a large set, the members of a large sorted set.
//!
//! The records stand in the order of the names' hashes, as [`HashIndex`](crate::hash_index::HashIndex) has them in memory: so a
//! cursor of `SCAN` means the same before and after a collection is spread, and a random place in the order is a random element.

use std::ops::Bound;

use crate::{
    Bytes,
    elements::{Elements, Span},
    hash_index::{self, CURSOR_BITS},
    random::Random,
};

use super::portions::{Form, Portions, Rest};

/// What the records' names begin with.
pub(super) const LETTER: u8 = b'n';
/// All of them.
pub(super) const ALL: (&[u8], &[u8]) = (&[LETTER], &[LETTER + 1]);
/// The letter and the hash.
const PREFIX_LEN: usize = 9;
/// Up to so many elements, one is drawn from all of them.
const DRAWN_FROM_ALL_MAX: usize = 64;
/// Otherwise from so many beside each other. The gaps between hashes are not equal, and the fewer there are, the more would
/// those behind large gaps be preferred.
const DRAWN_FROM: usize = 64;

/// The name in an element's record.
pub(super) fn name_in(record: &[u8]) -> &[u8] {
    record.get(PREFIX_LEN..).unwrap_or_default()
}

/// The record of an element.
pub(super) fn record(hash: u64, name: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(PREFIX_LEN + name.len());
    record.push(LETTER);
    record.extend_from_slice(&hash.to_be_bytes());
    record.extend_from_slice(name);
    record
}

/// The hash and the name in a record.
pub(super) fn split(record: &[u8]) -> Option<(u64, &[u8])> {
    let (prefix, name) =
        record.split_first_chunk::<PREFIX_LEN>().filter(|(prefix, _)| prefix.first() == Some(&LETTER))?;
    Some((prefix.last_chunk().map_or(0, |hash| u64::from_be_bytes(*hash)), name))
}

/// Elements by name.
#[derive(Debug, Clone)]
pub struct Named {
    elements: Elements,
    len: usize,
    seed: u64,
}

impl Named {
    /// So many of them, which are there.
    pub(crate) fn new(elements: Elements, len: usize, seed: u64) -> Self {
        Self { elements, len, seed }
    }

    /// The records.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// To be changed as a whole.
    pub(crate) fn elements_mut(&mut self) -> &mut Elements {
        &mut self.elements
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The record of an element.
    pub fn record(&self, name: &[u8]) -> Vec<u8> {
        record(hash_index::hash(name, self.seed), name)
    }

    /// What an element has.
    pub fn get(&self, name: &[u8]) -> Option<Bytes> {
        self.elements.get(&self.record(name))
    }

    /// Whether it is there.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Gives an element a value. Returns what it had.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) -> Option<Bytes> {
        let record = self.record(name);
        let former = self.elements.get(&record);
        if former.is_none() && !self.elements.has_failed() {
            self.len += 1;
        }
        if former.as_deref() != Some(value) {
            self.elements.put(&record, value);
        }
        former
    }

    /// Gives an element a value that is known not to be there.
    pub(crate) fn insert_new(&mut self, name: &[u8], value: &[u8]) {
        self.elements.put(&self.record(name), value);
        self.len += 1;
    }

    /// Removes an element. Returns what it had.
    pub fn remove(&mut self, name: &[u8]) -> Option<Bytes> {
        let record = self.record(name);
        let former = self.elements.get(&record);
        if former.is_some() {
            self.elements.delete(&record);
            self.len -= 1;
        }
        former
    }

    /// All elements, to be given in portions.
    pub(super) fn portions(&self, form: Form) -> Portions {
        let (from, to) = (Bound::Included(vec![LETTER]), Bound::Excluded(vec![LETTER + 1]));
        Portions::new(&self.elements, form, Rest { from, to, backwards: false, left: self.len })
    }

    /// Calls with elements and what they have, from a hash on, until that says no.
    fn each_from(&self, hash: u64, mut each: impl FnMut(u64, &[u8], &[u8]) -> bool) {
        let mut from = [LETTER; PREFIX_LEN];
        if let Some(place) = from.last_chunk_mut() {
            *place = hash.to_be_bytes();
        }
        let span = Span { from: Bound::Included(&from), to: Bound::Excluded(&[LETTER + 1]), backwards: false };
        self.elements.scan(span, &mut |record, value| {
            let Some((prefix, name)) = record.split_first_chunk::<PREFIX_LEN>() else { return true };
            each(prefix.last_chunk().map_or(0, |hash| u64::from_be_bytes(*hash)), name, value)
        });
    }

    /// Calls with all elements and what they have until that says no.
    pub fn each_while(&self, mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        self.each_from(0, |_, name, value| each(name, value));
    }

    /// Gives about `count` elements from a cursor on; returns where to go on, nothing at the end.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Option<u64> {
        let mut given = 0;
        let mut last = None;
        let mut next = None;
        self.each_from(cursor << (64 - CURSOR_BITS), |hash, name, value| {
            let position = hash >> (64 - CURSOR_BITS);
            // Those whose positions are the same cannot be told apart by a cursor, so they go together.
            if given >= count && last != Some(position) {
                next = Some(position);
                return false;
            }
            last = Some(position);
            given += 1;
            each(name, value);
            true
        });
        next
    }

    /// Some element with what it has, each about as likely.
    pub fn random(&self, random: &mut Random) -> Option<(Bytes, Bytes)> {
        let all = self.len <= DRAWN_FROM_ALL_MAX;
        let mut drawn: Vec<(Bytes, Bytes)> = Vec::new();
        let from = if all { 0 } else { random.draw() };
        // Behind the last one comes the first one.
        for from in [Some(from), (!all).then_some(0)].into_iter().flatten() {
            self.each_from(from, |_, name, value| {
                drawn.push((Bytes::from_slice(name), Bytes::from_slice(value)));
                all || drawn.len() < DRAWN_FROM
            });
            if drawn.len() >= DRAWN_FROM {
                break;
            }
        }
        let number = random.below(drawn.len().max(1) as u64) as usize;
        drawn.into_iter().nth(number)
    }
}
