//! The elements of a collection as they were at a moment, for commands that go on over several turns.
//!
//! Nobody waits for such a command. Whoever changes an element that it has not come to yet leaves it what the element had; so it
//! sees the collection of one moment, however long it takes, and whatever becomes of the key. What it holds is no more than what
//! has changed since, and less with each step it goes. The elements of a collection that is no more stay until it has ended.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    ops::Bound,
    rc::Rc,
};

use rustc_hash::FxHashMap;

use crate::Bytes;

use super::{Collection, Source, Span};

/// What elements had that have changed since.
#[derive(Debug)]
struct Former {
    kept: RefCell<BTreeMap<Vec<u8>, Option<Bytes>>>,
    /// What elements before this one have is not needed any more.
    passed: RefCell<Option<Vec<u8>>>,
    backwards: bool,
    bytes: Cell<usize>,
}

impl Former {
    /// Whether it has to be told what an element had.
    fn needs(&self, name: &[u8]) -> bool {
        let passed = self.passed.borrow();
        let is_ahead =
            passed.as_deref().is_none_or(|passed| if self.backwards { name < passed } else { name > passed });
        is_ahead && !self.kept.borrow().contains_key(name)
    }

    fn keep(&self, name: &[u8], value: Option<Bytes>) {
        self.bytes.set(self.bytes.get() + weight(name, value.as_ref()));
        self.kept.borrow_mut().insert(name.to_vec(), value);
    }
}

/// The memory of an element that is kept, about.
fn weight(name: &[u8], value: Option<&Bytes>) -> usize {
    const OVERHEAD: usize = 64;
    OVERHEAD + name.len() + value.map_or(0, |value| value.len())
}

/// The collections that are being read over several turns.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// By version, which is no other collection's.
    of: RefCell<FxHashMap<u64, Vec<Rc<Former>>>>,
    any: Cell<bool>,
}

impl Readers {
    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.any.get()
    }

    /// An element is about to change: whoever has not come to it keeps what `read` says it has.
    pub(crate) fn keep(
        &self,
        of: Collection,
        name: &[u8],
        read: impl FnOnce() -> Result<Option<Bytes>, String>,
    ) -> Result<(), String> {
        let readers = self.of.borrow();
        let mut formers = readers.get(&of.version).into_iter().flatten().filter(|former| former.needs(name)).peekable();
        if formers.peek().is_some() {
            let value = read()?;
            formers.for_each(|former| former.keep(name, value.clone()));
        }
        Ok(())
    }
}

/// Elements as they were at a moment.
pub struct Frozen {
    source: Rc<Source>,
    of: Collection,
    former: Rc<Former>,
}

impl fmt::Debug for Frozen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Frozen").field("of", &self.of).finish_non_exhaustive()
    }
}

impl Frozen {
    /// Those of a collection as they are now, to be read in one direction.
    pub(crate) fn new(source: &Rc<Source>, of: Collection, backwards: bool) -> Self {
        let former =
            Rc::new(Former { kept: RefCell::default(), passed: RefCell::default(), backwards, bytes: Cell::new(0) });
        source.readers.of.borrow_mut().entry(of.version).or_default().push(Rc::clone(&former));
        source.readers.any.set(true);
        source.records.pin(of);
        Self { source: Rc::clone(source), of, former }
    }

    /// Calls with elements in the order of their names until that says no, in the direction that was chosen at first.
    ///
    /// # Errors
    ///
    /// An element cannot be read.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), String> {
        let backwards = self.former.backwards;
        let kept = self.former.kept.borrow();
        if is_empty(from, to) {
            return Ok(());
        }
        let mut range = kept.range::<[u8], _>((from, to));
        let mut next = || if backwards { range.next_back() } else { range.next() };
        let mut head = next();
        let mut goes_on = true;
        let span = Span { from, to, backwards };
        self.source.records.scan_elements(self.of, span, &mut |name, value| {
            while let Some((former, was)) = head {
                let is_before = if backwards { former.as_slice() > name } else { former.as_slice() < name };
                if !is_before {
                    break;
                }
                head = next();
                if let Some(was) = was {
                    goes_on = each(former, was);
                    if !goes_on {
                        return false;
                    }
                }
            }
            goes_on = match head {
                Some((former, was)) if former.as_slice() == name => {
                    head = next();
                    was.as_ref().is_none_or(|was| each(name, was))
                }
                _ => each(name, value),
            };
            goes_on
        })?;
        while let Some((former, was)) = head.filter(|_| goes_on) {
            head = next();
            goes_on = was.as_ref().is_none_or(|was| each(former, was));
        }
        Ok(())
    }

    /// Says that what comes before an element, and the element, is not asked for any more.
    pub fn pass(&self, name: &[u8]) {
        *self.former.passed.borrow_mut() = Some(name.to_vec());
        let mut kept = self.former.kept.borrow_mut();
        if kept.is_empty() {
            return;
        }
        loop {
            let first = if self.former.backwards { kept.last_entry() } else { kept.first_entry() };
            let Some(first) = first else { return };
            let is_needed =
                if self.former.backwards { first.key().as_slice() < name } else { first.key().as_slice() > name };
            if is_needed {
                return;
            }
            let (name, value) = first.remove_entry();
            self.former.bytes.set(self.former.bytes.get() - weight(&name, value.as_ref()));
        }
    }

    /// How much memory takes what has changed since.
    pub fn bytes(&self) -> usize {
        self.former.bytes.get()
    }
}

/// `BTreeMap` refuses bounds that exclude each other.
fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to) | Bound::Included(to)) => from >= to,
        _ => false,
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let mut readers = self.source.readers.of.borrow_mut();
        if let Some(formers) = readers.get_mut(&self.of.version) {
            formers.retain(|former| !Rc::ptr_eq(former, &self.former));
            if formers.is_empty() {
                readers.remove(&self.of.version);
            }
        }
        self.source.readers.any.set(!readers.is_empty());
        self.source.records.unpin(self.of);
    }
}
