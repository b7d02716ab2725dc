//! Queues. What they do is crate `queue`'s; here is where their records are: in the tables, whoever has the key. Nothing of
//! the messages is kept in memory, and the key's record has the rest.
//!
//! A server without tables, as tests have it, keeps all records in memory.

use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Unbounded},
};

use queue::{Header, Malformed, Records};

use crate::{
    Bytes, Millis,
    elements::{Elements, Span},
};

use super::Descriptor;

/// Messages that wait.
#[derive(Debug, Clone)]
pub struct Queue {
    header: Header,
    records: QueueRecords,
}

/// Where its records are.
#[derive(Debug, Clone)]
enum QueueRecords {
    Whole(BTreeMap<Vec<u8>, Bytes>),
    Spread(Elements),
}

/// A time as queues have it.
pub fn time(now: Millis) -> u64 {
    u64::try_from(now).unwrap_or(0)
}

impl Queue {
    /// One without messages.
    pub fn new(header: Header) -> Self {
        Self { header, records: QueueRecords::Whole(BTreeMap::new()) }
    }

    /// What there is besides its records.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// No message becomes ready by itself before this time, which is later than now; nothing if none does at all.
    pub fn next_due(&self, now: Millis) -> Option<Millis> {
        self.header.next_due(time(now)).and_then(|next| Millis::try_from(next).ok())
    }

    /// What is done to it, at a time. The key is changed if the answer says so, and only then.
    pub fn at(&mut self, now: Millis) -> queue::Queue<'_, impl Records + use<>> {
        queue::Queue::new(&mut self.header, &mut self.records, time(now))
    }

    /// Looks at it, at a time.
    pub fn look<T>(&self, now: Millis, look: impl FnOnce(&queue::Queue<'_, Reading<'_>>) -> T) -> T {
        // The figures are copied, as looking changes none of them.
        let mut header = self.header.clone();
        look(&queue::Queue::new(&mut header, &mut Reading(&self.records), time(now)))
    }

    /// Removes all messages, and what is known of them. Returns how many there were.
    pub fn purge(&mut self, now: Millis) -> u64 {
        let count = self.at(now).clear();
        match &mut self.records {
            QueueRecords::Whole(records) => records.clear(),
            QueueRecords::Spread(elements) => {
                let empty = elements.fresh(elements.collection().disk);
                // Another collection without elements: those of the former one are removed in time.
                elements.changes();
                elements.discard();
                *elements = empty;
            }
        }
        count
    }

    /// Whether a record could not be read.
    pub fn has_failed(&self) -> bool {
        self.records.has_failed()
    }

    /// Where records are does not depend on how many there are.
    pub(super) fn is_beyond(&self, _: usize) -> bool {
        matches!(self.records, QueueRecords::Whole(_))
    }

    /// Makes its records records of the tables. Returns what they were, as a queue.
    pub(super) fn spread(&mut self, mut elements: Elements) -> Self {
        if let QueueRecords::Whole(records) = &self.records {
            records.iter().for_each(|(name, value)| Records::put(&mut elements, name, value));
        }
        let records = std::mem::replace(&mut self.records, QueueRecords::Spread(elements));
        Self { header: self.header.clone(), records }
    }

    /// The records, if they are records of the tables.
    pub(super) fn elements(&self) -> Option<&Elements> {
        if let QueueRecords::Spread(elements) = &self.records { Some(elements) } else { None }
    }

    /// The same to be changed as a whole.
    pub(super) fn elements_mut(&mut self) -> Option<&mut Elements> {
        if let QueueRecords::Spread(elements) = &mut self.records { Some(elements) } else { None }
    }

    /// That whose records are records of the tables; nothing if its key's record cannot be understood.
    pub(super) fn of_records(elements: Elements, descriptor: &Descriptor) -> Option<Self> {
        let header = Header::decode(&descriptor.rest).ok()?;
        Some(Self { header, records: QueueRecords::Spread(elements) })
    }

    /// Calls with its records behind one, in order, until that says no.
    pub(crate) fn each_record(&self, behind: Option<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.records.scan(behind.map_or(Unbounded, Excluded), Unbounded, each);
    }

    /// Puts a record that another store has written.
    pub fn put_record(&mut self, name: &[u8], value: &[u8]) {
        self.records.put(name, value);
    }

    /// What it takes beside its records.
    pub(crate) fn header_len(&self) -> usize {
        size_of::<Self>() + self.header.encode().len()
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        const RECORDS: usize = 1_000;
        matches!(&self.records, QueueRecords::Whole(records) if records.len() > RECORDS)
    }

    /// Frees some of what nobody needs any more. Returns whether there is more.
    pub(crate) fn shed(&mut self) -> bool {
        const STEP: usize = 256;
        let QueueRecords::Whole(records) = &mut self.records else { return false };
        (0..STEP).all(|_| records.pop_last().is_some())
    }
}

impl Records for Elements {
    type Bytes = Bytes;

    fn get(&self, name: &[u8]) -> Option<Bytes> {
        Self::get(self, name)
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        Self::put(self, name, value);
    }

    fn delete(&mut self, name: &[u8]) {
        Self::delete(self, name);
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        Self::scan(self, Span { from, to, backwards: false }, each);
    }

    fn fail(&self, reason: Malformed) {
        Self::fail(self, &format!("ERR {reason}"));
    }

    fn has_failed(&self) -> bool {
        Self::has_failed(self)
    }
}

impl Records for QueueRecords {
    type Bytes = Bytes;

    fn get(&self, name: &[u8]) -> Option<Bytes> {
        match self {
            Self::Whole(records) => records.get(name).cloned(),
            Self::Spread(elements) => elements.get(name),
        }
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        match self {
            Self::Whole(records) => drop(records.insert(name.to_vec(), Bytes::from_slice(value))),
            Self::Spread(elements) => Records::put(elements, name, value),
        }
    }

    fn delete(&mut self, name: &[u8]) {
        match self {
            Self::Whole(records) => drop(records.remove(name)),
            Self::Spread(elements) => Records::delete(elements, name),
        }
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        match self {
            Self::Whole(records) => {
                let _ = records.range::<[u8], _>((from, to)).all(|(name, value)| each(name, value));
            }
            Self::Spread(elements) => Records::scan(elements, from, to, each),
        }
    }

    fn fail(&self, reason: Malformed) {
        match self {
            // Nobody else writes them.
            Self::Whole(_) => debug_assert!(false, "{reason}"),
            Self::Spread(elements) => Records::fail(elements, reason),
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self, Self::Spread(elements) if elements.has_failed())
    }
}

/// Records that nobody changes.
#[derive(Debug)]
pub struct Reading<'a>(&'a QueueRecords);

impl Records for Reading<'_> {
    type Bytes = Bytes;

    fn get(&self, name: &[u8]) -> Option<Bytes> {
        self.0.get(name)
    }

    fn put(&mut self, _: &[u8], _: &[u8]) {
        debug_assert!(false, "looking changes nothing");
    }

    fn delete(&mut self, _: &[u8]) {
        debug_assert!(false, "looking changes nothing");
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.0.scan(from, to, each);
    }

    fn fail(&self, reason: Malformed) {
        self.0.fail(reason);
    }

    fn has_failed(&self) -> bool {
        self.0.has_failed()
    }
}
