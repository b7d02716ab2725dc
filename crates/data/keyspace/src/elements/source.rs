//! The records, and what becomes of a command that cannot read them.

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

use super::{Collection, ElementRecords, Span, frozen::Readers};
use crate::{Failure, hash_index::Location};

/// What becomes of a command that met a key or an element that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// It changed nothing: this is its answer.
    Refused(Failure),
    /// It had changed something already.
    Halved(String),
}

/// The records, and what became of the command in run with them.
pub struct Source {
    pub(crate) records: Rc<dyn ElementRecords>,
    /// Elements that became dirty since the last checkpoint began.
    pub(crate) noted: Cell<usize>,
    /// And how many of those before it may still have to be taken.
    pub(crate) pending: Cell<usize>,
    /// How often records were looked at or changed by commands.
    pub(crate) accesses: Cell<u32>,
    has_failed: Cell<bool>,
    failure: RefCell<Option<ReadFailure>>,
    /// Elements that the command has changed.
    pub(super) changed: Cell<u64>,
    /// Keys that it is changing.
    soiled: Cell<u64>,
    /// The one of them that it came to last.
    soiled_last: Cell<Option<KeyPlace>>,
    /// Who reads collections as they were.
    pub(crate) readers: Readers,
    /// Numbers of databases of which the tables may have records, a bit each.
    recorded: Cell<[u64; 4]>,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// Its database.
    pub(crate) db: usize,
    /// Its slot.
    pub(crate) slot: usize,
    /// Where in the slot's table.
    pub(crate) location: Location,
}

/// How much a command has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangesSoFar {
    changed: u64,
    soiled: u64,
    soiled_last: Option<KeyPlace>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// Records that nothing has become of yet.
    pub fn new(records: Rc<dyn ElementRecords>) -> Self {
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
    pub(crate) fn set_recorded(&self, disk: u8, is_recorded: bool) {
        let mut bits = self.recorded.get();
        if let Some(part) = bits.get_mut(usize::from(disk / 64)) {
            let bit = 1 << (disk % 64);
            *part = if is_recorded { *part | bit } else { *part & !bit };
        }
        self.recorded.set(bits);
    }

    /// Gives an element a value.
    pub(crate) fn put_element(&self, of: Collection, name: &[u8], value: &[u8]) {
        self.set_recorded(of.disk, true);
        self.records.put_element(of, name, value);
    }

    /// Whether they may.
    pub(crate) fn is_recorded(&self, disk: u8) -> bool {
        self.recorded.get().get(usize::from(disk / 64)).is_some_and(|part| part >> (disk % 64) & 1 == 1)
    }

    /// A command begins. What something else could not read before is not its trouble.
    pub(crate) fn begin(&self) {
        self.changed.set(0);
        self.soiled.set(0);
        self.soiled_last.set(None);
        if self.has_failed() {
            self.take_read_failure();
        }
    }

    /// A key cannot be read.
    #[cold]
    pub(crate) fn fail_for_key(&self, reason: String) -> Failure {
        // It was not that key that was made ready for a change.
        self.note_failure(reason.clone(), self.changed.get() == 0 && self.soiled.get() == 0);
        Failure::owned(reason)
    }

    /// What the command in run has changed so far.
    pub(crate) fn changes_so_far(&self) -> ChangesSoFar {
        ChangesSoFar { changed: self.changed.get(), soiled: self.soiled.get(), soiled_last: self.soiled_last.get() }
    }

    /// What was changed since is no change of the command in run: it is propagated on its own.
    pub(crate) fn count_no_more_than(&self, so_far: ChangesSoFar) {
        self.changed.set(so_far.changed);
        self.soiled.set(so_far.soiled);
        self.soiled_last.set(so_far.soiled_last);
    }

    /// The key at a place is about to be changed. To come back to the same one is no other change.
    pub(crate) fn soil(&self, place: KeyPlace) {
        if self.soiled_last.replace(Some(place)) != Some(place) {
            self.soiled.set(self.soiled.get() + 1);
        }
    }

    pub(crate) fn count_access(&self) {
        self.accesses.set(self.accesses.get().wrapping_add(1));
    }

    /// Whether the command in run met a key or an element that cannot be read.
    pub(crate) fn has_failed(&self) -> bool {
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
        self.take_read_failure().map(|trouble| match trouble {
            ReadFailure::Refused(failure) => failure.to_string(),
            ReadFailure::Halved(reason) => reason,
        })
    }

    /// What became of the command that has just run, if it met a key or an element that cannot be read.
    pub(crate) fn take_read_failure(&self) -> Option<ReadFailure> {
        self.has_failed.set(false);
        self.failure.borrow_mut().take()
    }

    #[cold]
    pub(super) fn fail(&self, reason: String) {
        // The key whose collection it is may have been made ready for a change, which did not come about.
        self.note_failure(reason, self.changed.get() == 0 && self.soiled.get() <= 1);
    }

    fn note_failure(&self, reason: String, is_whole: bool) {
        if self.has_failed.replace(true) {
            return;
        }
        let trouble = if is_whole { ReadFailure::Refused(Failure::owned(reason)) } else { ReadFailure::Halved(reason) };
        *self.failure.borrow_mut() = Some(trouble);
    }
}
