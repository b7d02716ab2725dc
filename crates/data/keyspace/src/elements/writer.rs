//! Records of elements as a checkpoint puts them, or somebody between two of them; no command is about them.

use std::{ops::Bound, rc::Rc};

use super::{Collection, Elements, Source, Span};

/// Where records of a collection's elements go.
pub(crate) trait Writer {
    /// Puts a record.
    fn put(&self, name: &[u8], value: &[u8]);
    /// Deletes a record.
    fn delete(&self, name: &[u8]);
    /// Calls with records from one on, up to those of another letter, until that says no.
    fn scan_from(&self, from: &[u8], each: &mut dyn FnMut(&[u8]) -> bool);
}

/// To the state that a checkpoint takes, or behind it.
pub(crate) struct ElementWriter<'a> {
    source: &'a Source,
    of: Collection,
    is_marked: bool,
}

impl Elements {
    /// Where a checkpoint's moment is to have records, or where they go that are of no such moment.
    pub(crate) fn writer(&self, is_marked: bool) -> ElementWriter<'_> {
        ElementWriter { source: &self.source, of: self.of, is_marked }
    }

    /// The same elements once more: whoever has it takes care that there is one who changes them.
    pub(crate) fn handle(&self) -> Self {
        Self::new(Rc::clone(&self.source), self.of)
    }

    /// Those of a new collection in a database, none yet.
    pub(crate) fn fresh(&self, disk: u8) -> Self {
        Self::of_new(&self.source, disk, self.of.slot)
    }

    /// So many elements are dirty that were not.
    pub(crate) fn count_noted(&self, count: usize) {
        self.source.noted.set(self.source.noted.get() + count);
    }

    /// So many elements have been taken, for a checkpoint's moment or for none.
    pub(crate) fn count_taken(&self, count: usize, is_marked: bool) {
        let untaken = if is_marked { &self.source.pending } else { &self.source.noted };
        untaken.set(untaken.get().saturating_sub(count));
    }

    /// So many elements are to be taken by the checkpoint under way that were not counted before.
    pub(crate) fn count_pending(&self, count: usize) {
        self.source.pending.set(self.source.pending.get() + count);
    }
}

impl ElementWriter<'_> {
    /// Whoever still reads the records as they were when only they were there keeps what this one has. If that cannot be read, he
    /// cannot go on either.
    fn keep(&self, name: &[u8]) {
        if self.source.readers.any() {
            let _ = self.source.readers.keep(self.of, name, || self.source.records.element(self.of, name));
        }
    }
}

impl Writer for ElementWriter<'_> {
    fn put(&self, name: &[u8], value: &[u8]) {
        self.keep(name);
        if self.is_marked {
            self.source.set_recorded(self.of.disk, true);
            self.source.records.put_taken_element(self.of, name, Some(value));
        } else {
            self.source.put_element(self.of, name, value);
        }
    }

    fn delete(&self, name: &[u8]) {
        self.keep(name);
        if self.is_marked {
            self.source.records.put_taken_element(self.of, name, None);
        } else {
            self.source.records.delete_element(self.of, name);
        }
    }

    fn scan_from(&self, from: &[u8], each: &mut dyn FnMut(&[u8]) -> bool) {
        let Some(letter) = from.first() else { return };
        let to = [letter + 1];
        let span = Span { from: Bound::Included(from), to: Bound::Excluded(&to), backwards: false };
        // Nothing depends on what cannot be read: it is asked for where a part may be divided, which then stays large.
        let _ = self.source.records.scan_elements(self.of, span, &mut |name, _| each(name));
    }
}

impl Writer for Elements {
    fn put(&self, name: &[u8], value: &[u8]) {
        Self::put(self, name, value);
    }

    fn delete(&self, name: &[u8]) {
        Self::delete(self, name);
    }

    fn scan_from(&self, from: &[u8], each: &mut dyn FnMut(&[u8]) -> bool) {
        let Some(letter) = from.first() else { return };
        let to = [letter + 1];
        let span = Span { from: Bound::Included(from), to: Bound::Excluded(&to), backwards: false };
        self.scan(span, &mut |name, _| each(name));
    }
}
