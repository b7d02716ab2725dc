//! Collections that are whole in memory and by element in the tables: what the records do not have yet.
//!
//! Whoever is about to change an element of such a collection notes it first ([`Ledger::note`]), with what it has so far; that is
//! all that a change costs more. A checkpoint takes the names that were noted ([`Ledger::begin_taking`]), at once and whatever
//! their number, and then, bit by bit, puts the records of these elements ([`Ledger::take`]). An element that changes again before
//! its turn has its record put at that moment, when it is noted: what it has then it had at the checkpoint's moment. So the
//! tables get the state of exactly one moment, no step is long, and a checkpoint costs what changed.
//!
//! A collection that has just outgrown what is kept as one record has no records of elements at all. Then nothing is noted, for the
//! next checkpoint takes all elements in the order of their hashes, and remembers those that it already met because they changed.
//!
//! The order of a sorted set and the nodes of a list have counted parts ([`Directory`]). These are kept here as the records have
//! them, and follow with the elements; their own records are put at the end.

use std::{cell::Cell, collections::BTreeSet};

use crate::{
    Bytes,
    elements::{Collection, Elements, Writer},
    hash_index::{self, CURSOR_BITS, HashIndex, Hashed},
};

use super::{Named, directory::Directory, list, named, packed::Packed, sorted_set};

/// What an element has in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum State<'a> {
    /// It is not there.
    Absent,
    /// The value of a field; nothing for a member of a set.
    Value(&'a [u8]),
    /// The score of a member.
    Score(f64),
    /// A node of a list.
    Node(&'a Packed),
}

/// What of it the records have.
#[derive(Debug, Clone, Copy)]
enum Former {
    Absent,
    Value,
    Score(f64),
    Node,
}

impl From<State<'_>> for Former {
    fn from(state: State<'_>) -> Self {
        match state {
            State::Absent => Self::Absent,
            State::Value(_) => Self::Value,
            State::Score(score) => Self::Score(score),
            State::Node(_) => Self::Node,
        }
    }
}

/// A collection in memory.
pub(crate) trait Native {
    /// What an element has.
    fn state(&self, hash: u64, name: &[u8]) -> State<'_>;
    /// Calls with about `count` elements from a cursor on; returns where to go on, nothing at the end.
    fn walk(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], State<'_>)) -> Option<u64>;
}

/// An element that changed.
#[derive(Debug)]
struct Noted {
    name: Bytes,
    former: Former,
}

impl Hashed for Noted {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Which elements changed since the last checkpoint.
#[derive(Debug)]
enum Changed {
    /// None has a record yet.
    All {
        is_counted: Cell<bool>,
    },
    Some(HashIndex<Noted>),
}

impl Changed {
    /// All elements, which nobody has counted.
    fn all() -> Self {
        Self::All { is_counted: Cell::new(false) }
    }
}

/// What of a collection in memory its records do not have.
#[derive(Debug)]
pub struct Ledger {
    elements: Elements,
    seed: u64,
    /// As the records have them, unless a checkpoint is taking them.
    parts: Directory,
    changed: Changed,
    taking: Option<Box<Taking>>,
    /// How often elements were taken for no checkpoint since the last one.
    rounds: u8,
}

/// What a checkpoint still has to take.
#[derive(Debug)]
struct Taking {
    elements: Elements,
    parts: Directory,
    /// The parts whose records are not as they have to be, by what they begin with.
    parts_changed: BTreeSet<Box<[u8]>>,
    pending: Pending,
    /// Where to go on.
    cursor: Option<u64>,
    /// Whether a checkpoint's moment is taken.
    is_marked: bool,
}

#[derive(Debug)]
enum Pending {
    /// All elements from the cursor on but these, which changed since.
    AllBut(HashIndex<Bytes>),
    /// These.
    Some(HashIndex<Noted>),
}

/// The ledger of elements by name of which none has a record.
pub(super) fn of_new_index<T: Hashed>(index: &HashIndex<T>, elements: Elements) -> Option<Box<Ledger>> {
    Some(Box::new(Ledger::of_new(elements, index.seed())))
}

/// The same of elements that have records.
pub(super) fn of_index<T: Hashed>(index: &HashIndex<T>, elements: Elements) -> Option<Box<Ledger>> {
    Some(Box::new(Ledger::of_records(elements, index.seed(), Directory::default())))
}

/// The records of elements by name, which are left to them.
pub(super) fn leave_index<T: Hashed>(index: &HashIndex<T>, ledger: &mut Option<Box<Ledger>>) -> Option<Named> {
    let (elements, _) = ledger.take()?.into_records();
    Some(Named::new(elements, index.len(), index.seed()))
}

impl Ledger {
    /// That of a collection none of whose elements has a record.
    pub(super) fn of_new(elements: Elements, seed: u64) -> Self {
        Self { elements, seed, parts: Directory::default(), changed: Changed::all(), taking: None, rounds: 0 }
    }

    /// That of a collection whose elements are named so, and none has a record.
    pub(super) fn of_new_names<'a>(elements: Elements, seed: u64, names: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut ledger = Self::of_records(elements, seed, Directory::default());
        ledger.note_all(names);
        ledger
    }

    /// That of a collection whose records have all.
    pub(super) fn of_records(elements: Elements, seed: u64, parts: Directory) -> Self {
        Self { elements, seed, parts, changed: Changed::Some(HashIndex::new(seed)), taking: None, rounds: 0 }
    }

    fn note_all<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) {
        let mut noted = HashIndex::new(self.seed);
        for name in names {
            noted.insert(Noted { name: Bytes::from_slice(name), former: Former::Absent });
        }
        self.changed = Changed::Some(noted);
    }

    /// Which collection's it is.
    pub(crate) fn collection(&self) -> Collection {
        self.elements.collection()
    }

    /// The records.
    pub(super) fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Whether the records have all.
    pub(crate) fn is_clean(&self) -> bool {
        self.taking.is_none() && matches!(&self.changed, Changed::Some(noted) if noted.is_empty())
    }

    /// Whether a checkpoint has still to take something.
    pub(crate) fn is_being_taken(&self) -> bool {
        self.taking.is_some()
    }

    /// How many elements changed since the last checkpoint; nothing if that is all there are.
    pub(crate) fn changed_len(&self) -> Option<usize> {
        if let Changed::Some(noted) = &self.changed { Some(noted.len()) } else { None }
    }

    /// Counts all elements among those that are to be taken, if they are and it was not done.
    pub(super) fn count_untaken(&self, is_pending: bool, len: impl FnOnce() -> usize) {
        let Changed::All { is_counted } = &self.changed else { return };
        match (is_counted.replace(true), is_pending) {
            (true, _) => {}
            (false, false) => self.elements.count_noted(len()),
            (false, true) => self.elements.count_pending(len()),
        }
    }

    /// About how much memory it takes: names that were noted, and the parts.
    pub(crate) fn bytes(&self) -> usize {
        /// Where a name lies that is longer than its place.
        const NAME: usize = 24;
        /// What an entry of a table or a tree takes beside itself.
        const BESIDE: usize = 12;
        let noted = |len: usize| len * (size_of::<Noted>() + NAME + BESIDE);
        let of_parts = |parts: &Directory| parts.len() * (size_of::<Box<[u8]>>() + NAME + BESIDE);
        let taking = self.taking.as_ref().map_or(0, |taking| {
            let pending = match &taking.pending {
                Pending::AllBut(met) => met.len(),
                Pending::Some(pending) => pending.len(),
            };
            size_of::<Taking>() + noted(pending) + of_parts(&taking.parts)
        });
        size_of::<Self>() + noted(self.changed_len().unwrap_or(0)) + of_parts(&self.parts) + taking
    }

    /// How often elements were taken for no checkpoint since the last one.
    pub(super) fn rounds(&self) -> u8 {
        self.rounds
    }

    /// The records, and their parts, when they have all.
    pub(super) fn into_records(self) -> (Elements, Directory) {
        debug_assert!(self.is_clean(), "the records have all");
        (self.elements, self.parts)
    }

    /// An element is about to change: what it has so far.
    pub(super) fn note(&mut self, hash: u64, name: &[u8], state: State<'_>) {
        if let Some(taking) = &mut self.taking {
            taking.spare(hash, name, state);
        }
        match &mut self.changed {
            Changed::Some(noted) => {
                if noted.get_hashed(hash, name).is_none() {
                    noted.insert_new(hash, Noted { name: Bytes::from_slice(name), former: state.into() });
                    self.elements.count_noted(1);
                }
            }
            Changed::All { is_counted } => {
                if is_counted.get() && matches!(state, State::Absent) {
                    self.elements.count_noted(1);
                }
            }
        }
    }

    /// The same for an element whose hash is not known.
    pub(super) fn note_name(&mut self, name: &[u8], state: State<'_>) {
        self.note(hash_index::hash(name, self.seed), name, state);
    }

    /// This moment is a checkpoint's. Returns whether it has to take something. What is taken without a mark is put behind that of
    /// the checkpoint: then it is only about records having all, so that memory can let go of the collection.
    pub(crate) fn begin_taking(&mut self, is_marked: bool) -> bool {
        debug_assert!(self.taking.is_none(), "one checkpoint at a time");
        let pending = match std::mem::replace(&mut self.changed, Changed::Some(HashIndex::new(self.seed))) {
            Changed::All { .. } => Pending::AllBut(HashIndex::new(self.seed)),
            Changed::Some(noted) if noted.is_empty() => return false,
            Changed::Some(noted) => Pending::Some(noted),
        };
        self.rounds = if is_marked { 0 } else { self.rounds + 1 };
        self.taking = Some(Box::new(Taking {
            elements: self.elements.handle(),
            parts: std::mem::take(&mut self.parts),
            parts_changed: BTreeSet::new(),
            pending,
            cursor: Some(0),
            is_marked,
        }));
        true
    }

    /// Takes about so many elements for the checkpoint. Returns how many it were; that is all if nothing is
    /// [being taken](Self::is_being_taken) then.
    pub(crate) fn take(&mut self, native: &impl Native, at_most: usize) -> usize {
        let Some(taking) = &mut self.taking else { return 0 };
        let count = taking.take(native, at_most);
        if taking.is_done() {
            self.end_taking();
        }
        count
    }

    fn end_taking(&mut self) {
        let Some(taking) = self.taking.take() else { return };
        if taking.elements.collection() == self.elements.collection() {
            self.parts = taking.parts;
        }
    }

    /// Has the elements be in a database, where none has a record. A checkpoint that is taking them goes on where they were.
    pub(super) fn bring_to(&mut self, disk: u8) {
        if self.elements.collection().disk == disk {
            return;
        }
        let fresh = self.elements.fresh(disk);
        self.elements.discard();
        self.elements = fresh;
        self.parts = Directory::default();
        self.changed = Changed::all();
    }

    /// The same for a collection whose elements are named so.
    pub(super) fn bring_names_to<'a>(&mut self, disk: u8, names: impl Iterator<Item = &'a [u8]>) {
        if self.elements.collection().disk != disk {
            self.bring_to(disk);
            self.note_all(names);
        }
    }

    /// That of a copy, whose elements have no records yet.
    pub(super) fn fresh(&self) -> Self {
        Self::of_new(self.elements.fresh(self.elements.collection().disk), self.seed)
    }

    /// The same with elements that are named so.
    pub(super) fn fresh_names<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Self {
        let elements = self.elements.fresh(self.elements.collection().disk);
        Self::of_new_names(elements, self.seed, names)
    }
}

/// A copy is a collection of its own.
impl Clone for Ledger {
    fn clone(&self) -> Self {
        self.fresh()
    }
}

impl Taking {
    fn is_done(&self) -> bool {
        self.cursor.is_none() && self.parts_changed.is_empty()
    }

    /// An element is about to change: it is taken now, unless it was before.
    fn spare(&mut self, hash: u64, name: &[u8], state: State<'_>) {
        let Some(cursor) = self.cursor else { return };
        let former = match &mut self.pending {
            Pending::AllBut(met) => {
                if hash >> (64 - CURSOR_BITS) < cursor || met.get_hashed(hash, name).is_some() {
                    return;
                }
                met.insert_new(hash, Bytes::from_slice(name));
                Former::Absent
            }
            Pending::Some(noted) => match noted.remove_hashed(hash, name) {
                Some(noted) => noted.former,
                None => return,
            },
        };
        self.elements.count_taken(1, self.is_marked);
        let writer = self.elements.writer(self.is_marked);
        write(&mut self.parts, &mut self.parts_changed, &writer, (hash, name), former, state);
    }

    fn take(&mut self, native: &impl Native, at_most: usize) -> usize {
        let writer = self.elements.writer(self.is_marked);
        let (parts, parts_changed) = (&mut self.parts, &mut self.parts_changed);
        let mut count = 0;
        if let Some(cursor) = self.cursor {
            match &mut self.pending {
                Pending::AllBut(met) => {
                    let seed = met.seed();
                    self.cursor = native.walk(cursor, at_most, &mut |name, state| {
                        let hash = hash_index::hash(name, seed);
                        if met.get_hashed(hash, name).is_none() {
                            write(parts, parts_changed, &writer, (hash, name), Former::Absent, state);
                        }
                        count += 1;
                    });
                }
                Pending::Some(noted) => {
                    let mut names: Vec<Bytes> = Vec::new();
                    self.cursor = noted.scan(cursor, at_most, |noted| names.push(noted.name.clone()));
                    for name in names {
                        let hash = noted.hash(&name);
                        let Some(Noted { former, .. }) = noted.remove_hashed(hash, &name) else { continue };
                        write(parts, parts_changed, &writer, (hash, &name), former, native.state(hash, &name));
                        count += 1;
                    }
                }
            }
        }
        self.elements.count_taken(count, self.is_marked);
        while self.cursor.is_none() && count < at_most {
            let Some(begin) = self.parts_changed.pop_first() else { break };
            self.parts.write(&begin, &writer);
            count += 1;
        }
        count
    }
}

/// Puts the records of an element.
fn write(
    parts: &mut Directory,
    parts_changed: &mut BTreeSet<Box<[u8]>>,
    writer: &impl Writer,
    (hash, name): (u64, &[u8]),
    former: Former,
    state: State<'_>,
) {
    let changed = |begin: &[u8]| {
        if !parts_changed.contains(begin) {
            parts_changed.insert(begin.into());
        }
    };
    match (former, state) {
        (Former::Absent, State::Absent) => {}
        (_, State::Value(value)) => writer.put(&named::record(hash, name), value),
        (Former::Value, State::Absent) => writer.delete(&named::record(hash, name)),
        (former, State::Score(score)) => {
            sorted_set::move_records(parts, writer, (hash, name), score_of(former), Some(score), changed);
        }
        (Former::Score(score), State::Absent) => {
            sorted_set::move_records(parts, writer, (hash, name), Some(score), None, changed);
        }
        (_, State::Node(node)) => list::put_node(parts, writer, name, node, changed),
        (Former::Node, State::Absent) => list::delete_node(parts, writer, name, changed),
    }
}

fn score_of(former: Former) -> Option<f64> {
    if let Former::Score(score) = former { Some(score) } else { None }
}
