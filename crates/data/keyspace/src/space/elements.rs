//! Collections whose elements are records of their own.
//!
//! A collection that has outgrown what is kept whole (`collection-max-whole-entries`) is spread over the tables: its key keeps
//! what it is and how many elements it has, and every operation goes to the records of the elements that it is about. What
//! changes there is behind the mark of a checkpoint at once, as [`Records::put_element`] says, while the key's own record is
//! taken with all others; so both are of the same moment.
//!
//! # When something cannot be read
//!
//! Methods of values know no errors. So a read of an element that fails gives nothing, and is noted: from then on the command in
//! run changes nothing more, neither elements nor keys, and it answers with the error. A key that cannot be read is noted in the
//! same way, besides the error that whoever asked for it gets: a command that goes on as if there were none is answered with it
//! all the same. If a command had changed something before, half of it would be left; then the store has to stop, and its next
//! start runs the log again up to before that command.

use std::{
    cell::{Cell, RefCell},
    fmt,
    ops::Bound,
    rc::Rc,
};

use crate::{Bytes, Failure, value::Gathering};

use super::{Frozen, Loaded, Records, Walked, frozen::Readers, keys::Place};

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

/// What becomes of a command that met a key or an element that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It changed nothing: this is its answer.
    Refused(Failure),
    /// It had changed something already.
    Halved(String),
}

/// The records, and what became of the command in run with them.
pub struct Source {
    pub(super) records: Box<dyn Records>,
    /// Elements that became dirty since the last checkpoint began.
    pub(super) noted: Cell<usize>,
    /// And how many of those before it may still have to be taken.
    pub(super) pending: Cell<usize>,
    /// How often records were looked at or changed by commands.
    pub(super) accesses: Cell<u32>,
    has_failed: Cell<bool>,
    failure: RefCell<Option<Trouble>>,
    /// Elements that the command has changed.
    changed: Cell<u64>,
    /// Keys that it is changing.
    soiled: Cell<u64>,
    /// The one of them that it came to last.
    soiled_last: Cell<Option<(usize, Place)>>,
    /// Who reads collections as they were.
    pub(super) readers: Readers,
    /// Numbers of databases of which the tables may have records, a bit each.
    recorded: Cell<[u64; 4]>,
}

/// How much a command has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangesSoFar {
    changed: u64,
    soiled: u64,
    soiled_last: Option<(usize, Place)>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// Records that nothing has become of yet.
    pub fn new(records: Box<dyn Records>) -> Self {
        Self {
            records,
            noted: Cell::new(0),
            pending: Cell::new(0),
            accesses: Cell::new(0),
            has_failed: Cell::new(false),
            failure: RefCell::new(None),
            changed: Cell::new(0),
            soiled: Cell::new(0),
            soiled_last: Cell::new(None),
            readers: Readers::default(),
            recorded: Cell::new([0; 4]),
        }
    }

    /// Says whether the tables may have records of the database that they know by this number.
    pub(super) fn set_recorded(&self, disk: u8, is_recorded: bool) {
        let mut bits = self.recorded.get();
        if let Some(part) = bits.get_mut(usize::from(disk / 64)) {
            let bit = 1 << (disk % 64);
            *part = if is_recorded { *part | bit } else { *part & !bit };
        }
        self.recorded.set(bits);
    }

    /// Gives an element a value.
    pub(super) fn put_element(&self, of: Collection, name: &[u8], value: &[u8]) {
        self.set_recorded(of.disk, true);
        self.records.put_element(of, name, value);
    }

    /// Whether they may.
    pub(super) fn is_recorded(&self, disk: u8) -> bool {
        self.recorded.get().get(usize::from(disk / 64)).is_some_and(|part| part >> (disk % 64) & 1 == 1)
    }

    /// A command begins. What something else could not read before is not its trouble.
    pub(super) fn begin(&self) {
        self.changed.set(0);
        self.soiled.set(0);
        self.soiled_last.set(None);
        if self.has_failed() {
            self.take_trouble();
        }
    }

    /// Reads a key.
    pub(super) fn load(&self, disk: u8, slot: usize, key: &[u8]) -> Result<Option<Loaded>, Failure> {
        self.records.load(disk, slot, key).map_err(|reason| self.fail_for_key(reason))
    }

    /// The first keys of a slot from a hash on.
    pub(super) fn walk(&self, disk: u8, slot: usize, from_hash: u64, at_most: usize) -> Result<Vec<Walked>, Failure> {
        self.records.walk(disk, slot, from_hash, at_most).map_err(|reason| self.fail_for_key(reason))
    }

    /// A key cannot be read.
    #[cold]
    pub(super) fn fail_for_key(&self, reason: String) -> Failure {
        // It was not that key that was made ready for a change.
        self.note_failure(reason.clone(), self.changed.get() == 0 && self.soiled.get() == 0);
        Failure::owned(reason)
    }

    /// What the command in run has changed so far.
    pub(super) fn changes_so_far(&self) -> ChangesSoFar {
        ChangesSoFar { changed: self.changed.get(), soiled: self.soiled.get(), soiled_last: self.soiled_last.get() }
    }

    /// What was changed since is no change of the command in run: it is propagated on its own.
    pub(super) fn count_no_more_than(&self, so_far: ChangesSoFar) {
        self.changed.set(so_far.changed);
        self.soiled.set(so_far.soiled);
        self.soiled_last.set(so_far.soiled_last);
    }

    /// The key at a place of a database is about to be changed. To come back to the same one is no other change.
    pub(super) fn soil(&self, db: usize, place: Place) {
        let key = Some((db, place));
        if self.soiled_last.replace(key) != key {
            self.soiled.set(self.soiled.get() + 1);
        }
    }

    pub(super) fn count_access(&self) {
        self.accesses.set(self.accesses.get().wrapping_add(1));
    }

    /// Whether the command in run met a key or an element that cannot be read.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Calls with elements of a collection in the order of their names until that says no.
    pub(crate) fn scan(
        &self,
        of: Collection,
        span: Span<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        self.records.scan_elements(of, span, each)
    }

    /// Why an element could not be read, if that was so since this was asked last.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.take_trouble().map(|trouble| match trouble {
            Trouble::Refused(failure) => failure.to_string(),
            Trouble::Halved(reason) => reason,
        })
    }

    /// What became of the command that has just run, if it met a key or an element that cannot be read.
    pub(super) fn take_trouble(&self) -> Option<Trouble> {
        self.has_failed.set(false);
        self.failure.borrow_mut().take()
    }

    #[cold]
    fn fail(&self, reason: String) {
        // The key whose collection it is may have been made ready for a change, which did not come about.
        self.note_failure(reason, self.changed.get() == 0 && self.soiled.get() <= 1);
    }

    fn note_failure(&self, reason: String, is_whole: bool) {
        if self.has_failed.replace(true) {
            return;
        }
        let trouble = if is_whole { Trouble::Refused(Failure::owned(reason)) } else { Trouble::Halved(reason) };
        *self.failure.borrow_mut() = Some(trouble);
    }
}

/// The elements of a collection.
#[derive(Debug)]
pub struct Elements {
    pub(super) source: Rc<Source>,
    pub(super) of: Collection,
    /// They come into memory.
    pub(super) gathering: RefCell<Option<Box<Gathering>>>,
    /// How often they were asked for, and whether they are not to come into memory.
    pub(super) asked: Cell<u32>,
    pub(super) is_refused: Cell<bool>,
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
