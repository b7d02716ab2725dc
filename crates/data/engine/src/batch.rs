//! Changes that are made at once.

mod ordered;

use std::collections::BTreeMap;
use std::ops::Bound;

use self::ordered::{Comparable, Ordered, Sought};

use crate::{Bounds, Direction, Error, KEY_LEN_MAX, Key, LogOffset, RESERVED_PREFIX, Result, VALUE_LEN_MAX, Value};

/// A record's new value, or that it is no more.
pub type Change = Option<Value>;

/// What an entry takes besides the bytes of its key and value: two handles, their headers, its share of a node.
const ENTRY_BYTES: usize = 120;

/// Changes in order of their keys, at most one of each, and the log's offset at which they are true.
///
/// It is a map, so that the overlay of [`Tables`](crate::Tables) becomes a batch as it is, without a copy.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    changes: BTreeMap<Ordered, Change>,
    applied: Option<LogOffset>,
    bytes: usize,
}

impl Batch {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a record. An earlier change of the same key is forgotten.
    pub fn put(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        self.change(key.into(), Some(value.into()));
    }

    /// Deletes a record, whether it is there or not.
    pub fn delete(&mut self, key: impl Into<Key>) {
        self.change(key.into(), None);
    }

    pub(crate) fn change(&mut self, key: Key, change: Change) {
        let key_len = key.len();
        let new_len = change.as_ref().map_or(0, |value| value.len());
        match self.changes.insert(Ordered::new(key), change) {
            None => self.bytes += key_len + new_len + ENTRY_BYTES,
            Some(former) => {
                let former_len = former.map_or(0, |value| value.len());
                self.bytes = (self.bytes + new_len).saturating_sub(former_len);
            }
        }
    }

    /// Says up to which offset of the log the records are true with this batch.
    pub fn set_applied(&mut self, offset: LogOffset) {
        self.applied = Some(offset);
    }

    /// The offset of the log, if the batch carries one.
    pub fn applied(&self) -> Option<LogOffset> {
        self.applied
    }

    /// What becomes of a record; `None` if the batch does not change it.
    pub fn get(&self, key: &[u8]) -> Option<&Change> {
        // An empty overlay is the usual case when a shard is read from alone.
        if self.changes.is_empty() { None } else { self.changes.get(&Sought::new(key) as &dyn Comparable) }
    }

    /// How many records it changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How much memory it takes, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Change)> {
        self.changes.iter().map(|(key, change)| (key.key(), change))
    }

    pub(crate) fn range(&self, bounds: &Bounds, direction: Direction) -> BatchRange<'_> {
        // The bounds of an empty interval would panic in the map.
        let (from, to) = bounds.as_range();
        let (from, to) = (from.map(Sought::new), to.map(Sought::new));
        let range =
            (!bounds.is_empty()).then(|| self.changes.range::<dyn Comparable, _>((comparable(&from), comparable(&to))));
        BatchRange { range, direction }
    }

    /// Whether every engine can take it.
    pub(crate) fn check(&self) -> Result<()> {
        for (key, change) in self.iter() {
            if key.is_empty() {
                return Err(Error::Unfit("its key is empty"));
            }
            if key.len() > KEY_LEN_MAX {
                return Err(Error::Unfit("its key is too long"));
            }
            if key.starts_with(&RESERVED_PREFIX) {
                return Err(Error::Unfit("its key is reserved"));
            }
            if change.as_ref().is_some_and(|value| value.len() > VALUE_LEN_MAX) {
                return Err(Error::Unfit("its value is too long"));
            }
        }
        Ok(())
    }
}

fn comparable<'a>(bound: &'a Bound<Sought<'a>>) -> Bound<&'a (dyn Comparable + 'a)> {
    bound.as_ref().map(|key| key as &dyn Comparable)
}

/// The changes of a batch within bounds, in a direction.
pub(crate) struct BatchRange<'a> {
    range: Option<std::collections::btree_map::Range<'a, Ordered, Change>>,
    direction: Direction,
}

impl<'a> Iterator for BatchRange<'a> {
    type Item = (&'a Key, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.range.as_mut()?;
        let (key, change) = match self.direction {
            Direction::Forward => range.next(),
            Direction::Backward => range.next_back(),
        }?;
        Some((key.key(), change))
    }
}
