//! The table that both ends of a connection fill alike.

use std::collections::VecDeque;

use crate::FIELD_OVERHEAD;

/// The entries that a connection has made, newest first, within a number of bytes.
///
/// Names and values stand in one piece of memory, the oldest first. What has left the table is taken out of it once it is more
/// than what is in the table, so that an entry costs neither an allocation nor a copy of the others.
#[derive(Debug)]
pub struct DynamicTable {
    bytes: Vec<u8>,
    /// The oldest first.
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    name_len: usize,
    value_len: usize,
}

impl Entry {
    fn size(self) -> usize {
        self.name_len + self.value_len + FIELD_OVERHEAD
    }
}

/// Where the name of a new entry comes from.
#[derive(Clone, Copy, Debug)]
pub enum NewName<'a> {
    /// It is given.
    Given(&'a [u8]),
    /// It is that of an entry of this table, by its place (0 for the newest).
    OfEntry(usize),
}

impl DynamicTable {
    /// An empty one that may get so large.
    #[must_use]
    pub fn new(size_max: usize) -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new(), size: 0, size_max }
    }

    /// The most bytes that its entries may count.
    #[must_use]
    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Changes its size; entries that no longer fit leave (RFC 7541 section 4.3).
    pub fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(0);
        self.compact();
    }

    /// An entry by its place, 0 for the newest: its name and its value.
    #[must_use]
    pub fn entry(&self, place: usize) -> Option<(&[u8], &[u8])> {
        let at = self.entries.len().checked_sub(place + 1)?;
        let Entry { start, name_len, value_len } = *self.entries.get(at)?;
        self.bytes.get(start..start + name_len + value_len)?.split_at_checked(name_len)
    }

    /// Adds an entry; the oldest leave for it. One that is larger than the table empties it, and is not kept (RFC 7541 section
    /// 4.4). Whether it was kept.
    pub fn insert(&mut self, name: NewName<'_>, value: &[u8]) -> bool {
        let start = self.bytes.len();
        match name {
            NewName::Given(name) => self.bytes.extend_from_slice(name),
            // The entry may leave for the new one: its name is copied first.
            NewName::OfEntry(place) => {
                let at = self.entries.len().checked_sub(place + 1);
                if let Some(Entry { start, name_len, .. }) = at.and_then(|at| self.entries.get(at)).copied() {
                    self.bytes.extend_from_within(start..start + name_len);
                }
            }
        }
        let entry = Entry { start, name_len: self.bytes.len() - start, value_len: value.len() };
        self.evict(entry.size());
        let fits = entry.size() <= self.size_max;
        if fits {
            self.bytes.extend_from_slice(value);
            self.size += entry.size();
            self.entries.push_back(entry);
        }
        self.compact();
        fits
    }

    /// Lets the oldest entries go until so many bytes more have room.
    fn evict(&mut self, wanted: usize) {
        while self.size + wanted > self.size_max
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
        }
    }

    /// Takes the bytes of entries that have left out of memory, if there are many.
    fn compact(&mut self) {
        let Some(oldest) = self.entries.front() else {
            self.bytes.clear();
            return;
        };
        let gone = oldest.start;
        if gone > self.bytes.len() - gone {
            self.bytes.drain(..gone);
            for entry in &mut self.entries {
                entry.start -= gone;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, proptest};

    use super::*;

    proptest! {
        /// Against a list that forgets its oldest.
        #[test]
        fn it_is_a_queue_within_its_size(
            steps in vec((any::<u8>(), 0..12_usize, 0..40_usize), 0..200),
            size_max in 0..400_usize,
        ) {
            let mut table = DynamicTable::new(size_max);
            let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
            for (byte, name_len, value_len) in steps {
                let value = vec![byte; value_len];
                let from = usize::from(byte) % 8;
                let name = match model.get(from) {
                    Some((name, _)) if byte % 2 == 0 => {
                        let name = name.clone();
                        table.insert(NewName::OfEntry(from), &value);
                        name
                    }
                    _ => {
                        let name = vec![byte; name_len];
                        table.insert(NewName::Given(&name), &value);
                        name
                    }
                };
                model.push_front((name, value));
                let size = |model: &VecDeque<(Vec<u8>, Vec<u8>)>| -> usize {
                    model.iter().map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD).sum()
                };
                while size(&model) > size_max {
                    model.pop_back();
                }
                assert_eq!(table.len(), model.len());
                assert_eq!(table.size, size(&model));
                for (place, (name, value)) in model.iter().enumerate() {
                    assert_eq!(table.entry(place), Some((&name[..], &value[..])));
                }
                assert_eq!(table.entry(model.len()), None);
                assert!(table.bytes.len() <= 2 * size_max);
            }
        }
    }
}
