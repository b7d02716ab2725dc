//! What is not in memory, and what commands have met there.

use std::{ops::Deref, rc::Rc};

use super::{Loaded, Records, Walked};
use crate::{Failure, elements::Source};

/// The records of keys, with the elements of collections ([`Source`]), which are read and written apart.
pub(super) struct Tables {
    source: Rc<Source>,
    records: Rc<dyn Records>,
}

impl Tables {
    /// Records that nothing has become of yet.
    pub(super) fn new(records: Box<dyn Records>) -> Self {
        let records: Rc<dyn Records> = Rc::from(records);
        Self { source: Rc::new(Source::new(Rc::clone(&records) as Rc<dyn crate::ElementRecords>)), records }
    }

    /// Reads a key.
    pub(super) fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, Failure> {
        self.records.load(disk, slot, key).map_err(|reason| self.source.fail_for_key(reason))
    }

    /// Reads a key if that takes no disk.
    pub(super) fn load_at_once(&self, disk: u8, slot: usize, key: &[u8]) -> Option<Option<Loaded>> {
        self.records.load_at_once(disk, slot, key)
    }

    /// The first slot from one on that may have keys.
    pub(super) fn next_slot(&self, disk: u8, from: usize) -> Result<usize, Failure> {
        self.records.next_slot(disk, from).map_err(|reason| self.source.fail_for_key(reason))
    }

    /// The first keys of a slot from a hash on.
    pub(super) fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, Failure> {
        self.records.walk(disk, slot, from_hash, at_most).map_err(|reason| self.source.fail_for_key(reason))
    }
}

impl Deref for Tables {
    type Target = Rc<Source>;

    fn deref(&self) -> &Rc<Source> {
        &self.source
    }
}
