//! Values whose elements are records: how they come to be, and what their keys' records say of them.

use std::rc::Rc;

use crate::elements::{Collection, Elements, Source};

use super::{Gathering, Hash, Kind, Ledger, List, Named, Queue, Set, SortedSet, Stream, Value, footprint, sorted_set};

/// What a key's record says of a collection whose elements are records of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Its elements.
    pub of: Collection,
    /// How many there are.
    pub count: u64,
    /// Of which type it is, by the number of [`Descriptor::type_name`].
    pub kind: u8,
    /// What the type keeps besides.
    pub rest: Vec<u8>,
}

/// The numbers of types.
pub(super) mod kind {
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const STREAM: u8 = 5;
    pub const QUEUE: u8 = 6;
}

impl Descriptor {
    /// The type's name, as `TYPE` gives it; nothing if it is of a later version.
    pub fn type_name(kind: u8) -> Option<&'static str> {
        match kind {
            kind::LIST => Some("list"),
            kind::SET => Some("set"),
            kind::SORTED_SET => Some("zset"),
            kind::HASH => Some("hash"),
            kind::STREAM => Some("stream"),
            kind::QUEUE => Some("queue"),
            _ => None,
        }
    }
}

impl Value {
    /// Whether its elements are records of their own, in memory or not.
    pub(crate) fn has_records(&self) -> bool {
        self.elements().is_some() || self.ledger().is_some()
    }

    /// What its key's record says, if its elements are records of their own.
    pub fn descriptor(&self) -> Option<Descriptor> {
        let of = self.elements().map(Elements::collection).or_else(|| self.ledger().map(Ledger::collection))?;
        let (kind, count) = match self {
            Self::List(list) => (kind::LIST, list.len()),
            Self::Set(set) => (kind::SET, set.len()),
            Self::SortedSet(set) => (kind::SORTED_SET, set.len()),
            Self::Hash(hash) => (kind::HASH, hash.len()),
            Self::Stream(stream) => {
                return Some(Descriptor { of, count: stream.len(), kind: kind::STREAM, rest: stream.rest() });
            }
            Self::Queue(queue) => {
                let header = queue.header();
                return Some(Descriptor { of, count: header.len(), kind: kind::QUEUE, rest: header.encode() });
            }
            Self::String(_) => return None,
        };
        Some(Descriptor { of, count: count as u64, kind, rest: Vec::new() })
    }

    /// The value that is described so; nothing if it is of a later version.
    pub(crate) fn described(descriptor: &Descriptor, source: &Rc<Source>, seed: u64) -> Option<Self> {
        let elements = Elements::new(Rc::clone(source), descriptor.of);
        let count = usize::try_from(descriptor.count).ok()?;
        match descriptor.kind {
            kind::LIST => Some(List::of_records(elements, count).into_value()),
            kind::SET => Some(Set::Spread(Named::new(elements, count, seed)).into_value()),
            kind::SORTED_SET => {
                let spread = sorted_set::Spread::new(elements, count, seed);
                Some(SortedSet::Spread(Box::new(spread)).into_value())
            }
            kind::HASH => Some(Hash::Spread(Named::new(elements, count, seed)).into_value()),
            kind::STREAM => Stream::of_records(elements, descriptor).map(Kind::into_value),
            kind::QUEUE => Queue::of_records(elements, descriptor).map(Kind::into_value),
            _ => None,
        }
    }

    /// Whether it has more elements than are kept whole.
    pub(crate) fn is_beyond(&self, whole_max: usize) -> bool {
        match self {
            Self::String(_) => false,
            Self::List(list) => list.is_beyond(whole_max),
            Self::Set(set) => set.is_beyond(whole_max),
            Self::SortedSet(set) => set.is_beyond(whole_max),
            Self::Hash(hash) => hash.is_beyond(whole_max),
            Self::Stream(stream) => stream.is_beyond(whole_max),
            Self::Queue(queue) => queue.is_beyond(whole_max),
        }
    }

    /// Whether it is far larger than so many bytes, as far as some elements tell, and can have records by element.
    pub(crate) fn is_sizeable(&self, bytes: usize) -> bool {
        const SAMPLES: usize = 5;
        if matches!(self, Self::String(_) | Self::Stream(_) | Self::Queue(_)) || self.has_records() {
            return false;
        }
        // In memory elements take more than in records.
        footprint::of_value(self, SAMPLES) / 2 > bytes
    }

    /// Whether it takes more than so many bytes, as far as some elements tell.
    pub(crate) fn is_larger(&self, bytes: usize) -> bool {
        const SAMPLES: usize = 16;
        bytes < usize::MAX && footprint::of_value(self, SAMPLES) > bytes
    }

    /// Has all its elements become records of their own, as checkpoints take them: what is in memory stays as it is. Only the nodes
    /// of a stream, and all of a queue, become records at once; what they were is given back.
    pub(crate) fn keep(&mut self, elements: impl FnOnce() -> Elements, seed: u64) -> Option<Self> {
        match self {
            Self::List(list) => list.keep(elements(), seed),
            Self::Set(set) => set.keep(elements()),
            Self::SortedSet(set) => set.keep(elements(), seed),
            Self::Hash(hash) => hash.keep(elements()),
            Self::Stream(stream) => return Some(stream.spread(elements()).into_value()),
            Self::Queue(queue) => return Some(queue.spread(elements()).into_value()),
            Self::String(_) => {}
        }
        None
    }

    /// What its records do not have, if it has records and is in memory.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::List(list) => list.kept().map(|(_, kept)| &kept.ledger),
            Self::Set(set) => match &**set {
                Set::Large(_, ledger) => ledger.as_deref(),
                _ => None,
            },
            Self::SortedSet(set) => match &**set {
                SortedSet::Large { ledger, .. } => ledger.as_deref(),
                _ => None,
            },
            Self::Hash(hash) => match &**hash {
                Hash::Large(_, ledger) => ledger.as_deref(),
                _ => None,
            },
            Self::String(_) | Self::Stream(_) | Self::Queue(_) => None,
        }
    }

    /// The same to be changed.
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        match self {
            Self::List(list) => list.kept_mut().map(|(_, kept)| &mut kept.ledger),
            Self::Set(set) => match &mut **set {
                Set::Large(_, ledger) => ledger.as_deref_mut(),
                _ => None,
            },
            Self::SortedSet(set) => match &mut **set {
                SortedSet::Large { ledger, .. } => ledger.as_deref_mut(),
                _ => None,
            },
            Self::Hash(hash) => match &mut **hash {
                Hash::Large(_, ledger) => ledger.as_deref_mut(),
                _ => None,
            },
            Self::String(_) | Self::Stream(_) | Self::Queue(_) => None,
        }
    }

    /// Whether memory has what its records do not have, and no checkpoint has made whole.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.ledger().is_some_and(|ledger| !ledger.is_clean())
    }

    /// Whether a checkpoint has still to take some of its elements.
    pub(crate) fn is_being_taken(&self) -> bool {
        self.ledger().is_some_and(Ledger::is_being_taken)
    }

    /// As [`Ledger::begin_taking`].
    pub(crate) fn begin_taking(&mut self, is_marked: bool) -> bool {
        self.ledger_mut().is_some_and(|ledger| ledger.begin_taking(is_marked))
    }

    /// Counts its elements among those that are to be taken, if it is new to the tables and they were not counted so far.
    pub(crate) fn count_untaken(&self, is_pending: bool) {
        if let Some(ledger) = self.ledger() {
            ledger.count_untaken(is_pending, || self.descriptor().map_or(0, |descriptor| descriptor.count as usize));
        }
    }

    /// Takes about so many elements for the checkpoint. Returns how many it were.
    pub(crate) fn take_elements(&mut self, at_most: usize) -> usize {
        match self {
            Self::List(list) => list.kept_mut().map_or(0, |(nodes, kept)| kept.take(nodes, at_most)),
            Self::Set(set) => match &mut **set {
                Set::Large(index, Some(ledger)) => ledger.take(index, at_most),
                _ => 0,
            },
            Self::SortedSet(set) => match &mut **set {
                SortedSet::Large { names, ledger: Some(ledger), .. } => ledger.take(names, at_most),
                _ => 0,
            },
            Self::Hash(hash) => match &mut **hash {
                Hash::Large(index, Some(ledger)) => ledger.take(index, at_most),
                _ => 0,
            },
            Self::String(_) | Self::Stream(_) | Self::Queue(_) => 0,
        }
    }

    /// Has its records get what changed meanwhile, so that memory can let go of it: at once if it is at most so many elements,
    /// otherwise bit by bit, unless that has been tried often.
    pub(crate) fn approach_records(&mut self, at_once_max: usize) {
        const ROUNDS_MAX: u8 = 3;
        let Some(ledger) = self.ledger_mut() else { return };
        let is_last = ledger.changed_len().is_some_and(|len| len <= at_once_max);
        if is_last || ledger.rounds() < ROUNDS_MAX {
            ledger.begin_taking(false);
        }
        while is_last && self.is_being_taken() {
            self.take_elements(usize::MAX);
        }
    }

    /// Leaves its elements to their records, if these have all of them. Returns what it was before.
    pub(crate) fn let_go(&mut self) -> Option<Self> {
        if !self.ledger()?.is_clean() {
            return None;
        }
        match self {
            Self::List(list) => list.let_go().map(Kind::into_value),
            Self::Set(set) => set.let_go().map(Kind::into_value),
            Self::SortedSet(set) => set.let_go().map(Kind::into_value),
            Self::Hash(hash) => hash.let_go().map(Kind::into_value),
            Self::String(_) | Self::Stream(_) | Self::Queue(_) => None,
        }
    }

    /// The collection comes into memory, now that its last piece has come. Returns what is to be freed.
    pub(crate) fn finish_gathering(&mut self) -> Option<Self> {
        let elements = self.elements()?;
        let (gathering, elements) = (Gathering::of(elements.end_gathering()?)?, elements.handle());
        let count = self.descriptor().map_or(0, |descriptor| descriptor.count) as usize;
        let parts = match self {
            Self::List(list) => list.take_parts(),
            Self::SortedSet(set) => match &mut **set {
                SortedSet::Spread(spread) => spread.take_parts(),
                _ => None,
            },
            _ => None,
        };
        match gathering.finish(elements, count, parts) {
            Ok(value) => Some(std::mem::replace(self, value)),
            Err(value) => {
                debug_assert!(false, "records of {count} elements");
                Some(value)
            }
        }
    }

    /// It does not come into memory, for now or until it leaves memory altogether. Returns what is to be freed.
    #[cold]
    pub(crate) fn stop_gathering(&mut self, for_good: bool) -> Option<Self> {
        let elements = self.elements()?;
        if for_good {
            elements.refuse_gathering();
        }
        elements.end_gathering().and_then(Gathering::of).map(Gathering::into_value)
    }

    /// Says that nobody needs the records of its elements any more, if it has such.
    pub(crate) fn discard_elements(&self) {
        if let Some(elements) = self.elements().or_else(|| self.ledger().map(Ledger::elements)) {
            elements.discard();
        }
        if let Self::Stream(stream) = self {
            stream.other_elements().for_each(Elements::discard);
        }
    }

    /// Says that a key has what was copied into records of their own.
    pub(crate) fn adopt_elements(&self) {
        self.elements().into_iter().for_each(Elements::adopt);
        if let Self::Stream(stream) = self {
            stream.other_elements().for_each(Elements::adopt);
        }
    }

    /// Whether only the records of its elements are there.
    pub(crate) fn is_by_element(&self) -> bool {
        match self {
            Self::String(_) | Self::Stream(_) | Self::Queue(_) => false,
            Self::Hash(hash) => matches!(**hash, Hash::Spread(_)),
            Self::Set(set) => matches!(**set, Set::Spread(_)),
            Self::SortedSet(set) => matches!(**set, SortedSet::Spread(_)),
            Self::List(list) => list.elements().is_some(),
        }
    }

    /// Its elements, if they are records of their own and not in memory.
    #[inline]
    pub fn elements(&self) -> Option<&Elements> {
        match self {
            Self::List(list) => list.elements(),
            Self::Stream(stream) => stream.elements(),
            Self::Queue(queue) => queue.elements(),
            other => other.named().map(Named::elements),
        }
    }

    /// Its elements by name, if they are records of their own and not in memory.
    #[inline]
    pub fn named(&self) -> Option<&Named> {
        match self {
            Self::Set(set) => match &**set {
                Set::Spread(named) => Some(named),
                _ => None,
            },
            Self::SortedSet(set) => match &**set {
                SortedSet::Spread(spread) => Some(spread.names()),
                _ => None,
            },
            Self::Hash(hash) => match &**hash {
                Hash::Spread(named) => Some(named),
                _ => None,
            },
            Self::String(_) | Self::List(_) | Self::Stream(_) | Self::Queue(_) => None,
        }
    }

    fn elements_mut(&mut self) -> Option<&mut Elements> {
        match self {
            Self::List(list) => list.elements_mut(),
            Self::Stream(stream) => stream.elements_mut(),
            Self::Queue(queue) => queue.elements_mut(),
            Self::Set(set) => match &mut **set {
                Set::Spread(named) => Some(named.elements_mut()),
                _ => None,
            },
            Self::SortedSet(set) => match &mut **set {
                SortedSet::Spread(spread) => Some(spread.names_mut().elements_mut()),
                _ => None,
            },
            Self::Hash(hash) => match &mut **hash {
                Hash::Spread(named) => Some(named.elements_mut()),
                _ => None,
            },
            Self::String(_) => None,
        }
    }

    /// Brings the elements to a database, if they are records and not there.
    pub(crate) fn bring_to(&mut self, disk: u8) {
        if let Self::List(list) = self
            && let Some((_, kept)) = list.kept_mut()
        {
            return kept.bring_to(disk);
        }
        if let Some(ledger) = self.ledger_mut() {
            return ledger.bring_to(disk);
        }
        let bring = |elements: &mut Elements| {
            if elements.collection().disk != disk {
                let there = elements.copy(disk);
                elements.discard();
                *elements = there;
            }
        };
        if let Self::Stream(stream) = self {
            stream.other_elements_mut().for_each(bring);
        }
        if let Some(elements) = self.elements_mut() {
            bring(elements);
        }
    }
}
