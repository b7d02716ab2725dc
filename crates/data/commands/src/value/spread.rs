//! Values whose elements are records: how they come to be, and what their keys' records say of them.

use std::rc::Rc;

use crate::keyspace::{Collection, Elements, Source};

use super::{Hash, Kind, List, Named, Set, SortedSet, Stream, Value, sorted_set};

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
mod kind {
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const STREAM: u8 = 5;
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
            _ => None,
        }
    }
}

impl Value {
    /// What its key's record says, if its elements are records of their own.
    pub fn descriptor(&self) -> Option<Descriptor> {
        let of = self.elements()?.collection();
        let (kind, count) = match self {
            Self::List(list) => (kind::LIST, list.len()),
            Self::Set(set) => (kind::SET, set.len()),
            Self::SortedSet(set) => (kind::SORTED_SET, set.len()),
            Self::Hash(hash) => (kind::HASH, hash.len()),
            Self::Stream(stream) => {
                return Some(Descriptor { of, count: stream.len(), kind: kind::STREAM, rest: stream.rest() });
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
        }
    }

    /// Makes all its elements records of their own. Returns what it was before, if that can be done.
    pub(crate) fn spread(&mut self, elements: Elements, seed: u64) -> Option<Self> {
        match self {
            Self::List(list) => Some(list.spread(elements).into_value()),
            Self::Set(set) => Some(set.spread(elements, seed).into_value()),
            Self::SortedSet(set) => Some(set.spread(elements, seed).into_value()),
            Self::Hash(hash) => Some(hash.spread(elements, seed).into_value()),
            Self::Stream(stream) => Some(stream.spread(elements).into_value()),
            Self::String(_) => None,
        }
    }

    /// Its elements, if they are records of their own.
    pub(crate) fn elements(&self) -> Option<&Elements> {
        match self {
            Self::List(list) => list.elements(),
            Self::Stream(stream) => stream.elements(),
            other => other.named().map(Named::elements),
        }
    }

    /// Its elements by name, if they are records of their own.
    pub(crate) fn named(&self) -> Option<&Named> {
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
            Self::String(_) | Self::List(_) | Self::Stream(_) => None,
        }
    }

    fn elements_mut(&mut self) -> Option<&mut Elements> {
        match self {
            Self::List(list) => list.elements_mut(),
            Self::Stream(stream) => stream.elements_mut(),
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
        let Some(elements) = self.elements_mut() else { return };
        if elements.collection().disk != disk {
            let there = elements.copy(disk);
            elements.discard();
            *elements = there;
        }
    }
}
