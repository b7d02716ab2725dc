//! Collections whose elements are records of their own.
//!
//! A collection that has outgrown what is kept whole (`collection-max-whole-entries`) is spread over the tables: its key keeps
//! what it is and how many elements it has, and every operation goes to the records of the elements that it is about. What
//! changes there is behind the mark of a checkpoint at once, as [`ElementRecords::put_element`] says, while the key's own record is
//! taken with all others; so both are of the same moment.
//!
//! # When something cannot be read
//!
//! Methods of values know no errors. So a read of an element that fails gives nothing, and is noted: from then on the command in
//! run changes nothing more, neither elements nor keys, and it answers with the error. A key that cannot be read is noted in the
//! same way, besides the error that whoever asked for it gets: a command that goes on as if there were none is answered with it
//! all the same. If a command had changed something before, half of it would be left; then the store has to stop, and its next
//! start runs the log again up to before that command.

mod frozen;
mod gather;
mod records;
mod source;
mod writer;

pub use frozen::Frozen;
pub(crate) use gather::Gathers;
pub use records::ElementRecords;
pub(crate) use source::KeyPlace;
pub use source::{ReadFailure, Source};
pub(crate) use writer::Writer;

use std::{
    cell::{Cell, RefCell},
    ops::Bound,
    rc::Rc,
};

use crate::Bytes;

/// The elements of which collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collection {
    /// The number that the tables have for the database that it is in.
    pub disk: u8,
    /// The slot of the key that it had when it was spread; a key that is renamed keeps its elements where they are.
    pub slot: u16,
    /// A number that no other collection ever had.
    pub version: u64,
}

/// Which elements a scan is about, by name.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Where the first one may be.
    pub from: Bound<&'a [u8]>,
    /// Where the last one may be.
    pub to: Bound<&'a [u8]>,
    /// Whether the last one comes first.
    pub backwards: bool,
}

/// The elements of a collection.
#[derive(Debug)]
pub struct Elements {
    pub(crate) source: Rc<Source>,
    pub(crate) of: Collection,
    /// They come into memory.
    pub(crate) gathering: RefCell<Option<Box<dyn Gathers>>>,
    /// How often they were asked for, and whether they are not to come into memory.
    pub(crate) asked: Cell<u32>,
    pub(crate) is_refused: Cell<bool>,
}

impl Elements {
    /// Those of a collection that is there.
    pub(crate) fn new(source: Rc<Source>, of: Collection) -> Self {
        Self { source, of, gathering: RefCell::default(), asked: Cell::new(0), is_refused: Cell::new(false) }
    }

    /// Those of a new collection, none yet.
    pub(crate) fn of_new(source: &Rc<Source>, disk: u8, slot: u16) -> Self {
        let version = source.records.new_version();
        Self::new(Rc::clone(source), Collection { disk, slot, version })
    }

    /// Those of another collection that is there.
    pub(crate) fn beside(&self, slot: u16, version: u64) -> Self {
        Self::new(Rc::clone(&self.source), Collection { disk: self.of.disk, slot, version })
    }

    /// Which collection's they are.
    pub fn collection(&self) -> Collection {
        self.of
    }

    /// What an element has.
    pub fn get(&self, name: &[u8]) -> Option<Bytes> {
        self.count_asked();
        self.source.records.element(self.of, name).unwrap_or_else(|reason| {
            self.source.fail(reason);
            None
        })
    }

    /// Whether the command in run met an element that cannot be read: then nothing is to be changed.
    pub fn has_failed(&self) -> bool {
        self.source.has_failed()
    }

    /// Says that the command in run changes something of the collection that is no record.
    pub fn changes(&self) {
        self.source.changed.set(self.source.changed.get() + 1);
    }

    /// Says that an element cannot be understood.
    pub fn fail(&self, reason: &str) {
        self.source.fail(reason.to_owned());
    }

    /// Gives an element a value.
    pub fn put(&self, name: &[u8], value: &[u8]) {
        if self.may_change(name) {
            self.source.put_element(self.of, name, value);
            self.change_gathered(name, Some(value));
        }
    }

    /// Gives a new element what stood in the key's own record so far, which goes with the key: a command that fails after that has
    /// changed nothing by it.
    pub(crate) fn take_over(&self, name: &[u8], value: &[u8]) {
        self.source.put_element(self.of, name, value);
        self.source.count_access();
    }

    /// Makes an element ready for a change. Returns whether it may be changed.
    fn may_change(&self, name: &[u8]) -> bool {
        if self.source.readers.any()
            && let Err(reason) = self.source.readers.keep(self.of, name, || self.source.records.element(self.of, name))
        {
            self.source.fail(reason);
        }
        if self.source.has_failed() {
            return false;
        }
        self.source.changed.set(self.source.changed.get() + 1);
        self.source.count_access();
        true
    }

    /// The elements as they are now, for who reads them over several turns in one direction.
    pub fn freeze(&self, backwards: bool) -> Frozen {
        Frozen::new(&self.source, self.of, backwards)
    }

    /// Removes an element, whether it is there or not.
    pub fn delete(&self, name: &[u8]) {
        if self.may_change(name) {
            self.source.records.delete_element(self.of, name);
            self.change_gathered(name, None);
        }
    }

    /// Calls with elements in the order of their names until that says no. Nothing may be changed meanwhile.
    pub fn scan(&self, span: Span<'_>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.count_asked();
        if let Err(reason) = self.source.records.scan_elements(self.of, span, each) {
            self.source.fail(reason);
        }
    }

    /// A copy of all of them, in a database.
    #[must_use]
    pub(crate) fn copy(&self, disk: u8) -> Self {
        let mut copy = ElementsCopy { elements: Self::of_new(&self.source, disk, self.of.slot), last: None };
        while !copy.go_on(self, usize::MAX) {}
        copy.elements
    }

    /// A copy that is made in steps: checkpoints may have some of it before a key has it. It is then to be
    /// [adopted](Self::adopt).
    pub(crate) fn begin_copy(&self, disk: u8) -> ElementsCopy {
        let elements = Self::of_new(&self.source, disk, self.of.slot);
        elements.source.records.begin(elements.of);
        ElementsCopy { elements, last: None }
    }

    /// A key has them now.
    pub(crate) fn adopt(&self) {
        self.source.records.adopt(self.of);
    }

    /// Says that nobody needs them any more: they are removed when the tables get to it.
    pub(crate) fn discard(&self) {
        self.source.records.orphan(self.of);
    }
}

/// A copy that is being made.
#[derive(Debug)]
pub struct ElementsCopy {
    elements: Elements,
    /// The last one that it has.
    last: Option<Vec<u8>>,
}

impl ElementsCopy {
    /// Copies some more. Returns whether that was all.
    pub(crate) fn go_on(&mut self, of: &Elements, budget: usize) -> bool {
        /// How many are read before they are written.
        const STEP: usize = 64;
        /// A record may be a node of many elements.
        const BYTES_AS_ONE: usize = 128;
        let mut left = budget;
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        while left > 0 {
            let from = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            of.scan(Span { from, to: Bound::Unbounded, backwards: false }, &mut |name, value| {
                found.push((name.to_vec(), value.to_vec()));
                found.len() < STEP.min(left)
            });
            if found.is_empty() || of.has_failed() {
                return true;
            }
            for (name, value) in found.drain(..) {
                left = left.saturating_sub(1 + value.len() / BYTES_AS_ONE);
                // What nothing refers to yet is no change.
                self.elements.source.put_element(self.elements.of, &name, &value);
                self.last = Some(name);
            }
        }
        false
    }

    /// Whose elements they are.
    pub(crate) fn collection(&self) -> Collection {
        self.elements.of
    }

    /// What there is of it.
    pub(crate) fn into_elements(self) -> Elements {
        self.elements
    }

    /// It is not wanted any more.
    pub(crate) fn discard(&self) {
        self.elements.discard();
    }
}

/// A copy is a collection of its own.
impl Clone for Elements {
    fn clone(&self) -> Self {
        self.copy(self.of.disk)
    }
}
