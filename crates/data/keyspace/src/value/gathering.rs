//! A collection comes into memory: its records are read piece by piece while operations go on by element.
//!
//! What operations change meanwhile they change here too ([`Gathers::change`]), and it is remembered that they did: a piece may
//! have been read before, and what it says of such an element does not count. So when the last piece has come, this is the
//! collection as it is.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
};

use crate::{
    Bytes, Value,
    elements::{Elements, Gathers, Span},
    hash_index::HashIndex,
};

use super::{
    Hash, Kind as _, List, Set, SortedSet,
    directory::Directory,
    hash::Field,
    list, named,
    sorted_set::{self, Member},
};

/// The records that are read: nodes, elements by name, and parts. Those of the order, which stand behind them, say the same again.
pub const SPAN: Span<'static> = Span {
    from: std::ops::Bound::Included(&[list::LETTER]),
    to: std::ops::Bound::Excluded(&[super::directory::LETTER + 1]),
    backwards: false,
};

const _: () = assert!(list::LETTER < named::LETTER && named::LETTER < super::directory::LETTER);

/// What comes to be.
#[derive(Debug)]
enum Building {
    Hash(HashIndex<Field>),
    Set(HashIndex<Bytes>),
    SortedSet(HashIndex<Member>, sorted_set::Order),
    List(BTreeMap<Bytes, Vec<u8>>),
}

/// A collection that comes into memory.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Its own; answers to an earlier one are not taken.
    number: u64,
    building: Building,
    /// The parts that pieces told of.
    parts: Vec<(Box<[u8]>, usize)>,
    /// Records that changed since it began.
    changed: HashIndex<Bytes>,
    /// About how much memory it takes.
    bytes: usize,
}

impl Gathering {
    /// Nothing of a collection yet; nothing at all if there is no form in memory for it.
    pub(crate) fn new(number: u64, value: &Value, seed: u64) -> Option<Self> {
        let building = match value {
            Value::Hash(_) => Building::Hash(HashIndex::new(seed)),
            Value::Set(_) => Building::Set(HashIndex::new(seed)),
            Value::SortedSet(_) => Building::SortedSet(HashIndex::new(seed), sorted_set::Order::default()),
            Value::List(_) => Building::List(BTreeMap::new()),
            Value::String(_) | Value::Stream(_) | Value::Queue(_) => return None,
        };
        Some(Self { number, building, parts: Vec::new(), changed: HashIndex::new(seed), bytes: 0 })
    }

    /// What [`Gathers`] hides.
    pub(super) fn of(gathers: Box<dyn Gathers>) -> Option<Self> {
        let gathering: Box<dyn Any> = gathers;
        gathering.downcast().ok().map(|gathering| *gathering)
    }

    fn put(&mut self, record: &[u8], value: Option<&[u8]>) {
        /// What an element takes in memory beside its bytes.
        const BESIDE: usize = 40;
        if let Some(value) = value {
            self.bytes += record.len() + value.len() + BESIDE;
        }
        if let Some(begin) = record.strip_prefix(&[super::directory::LETTER]) {
            // Who changes parts has all of them in memory, so these are not asked for then.
            if let Some(count) = value.and_then(|value| value.first_chunk()) {
                self.parts.push((begin.into(), u32::from_be_bytes(*count) as usize));
            }
            return;
        }
        if let Building::List(nodes) = &mut self.building {
            let Some(position) = record.strip_prefix(&[list::LETTER]) else { return };
            match value {
                Some(value) => nodes.insert(Bytes::from_slice(position), value.to_vec()),
                None => nodes.remove(position),
            };
            return;
        }
        let Some((hash, name)) = named::split(record) else { return };
        match (&mut self.building, value) {
            (Building::Hash(index), Some(value)) => {
                let field = Field { name: Bytes::from_slice(name), value: Bytes::from_slice(value) };
                match index.get_mut_hashed(hash, name) {
                    Some(present) => *present = field,
                    None => index.insert_new(hash, field),
                }
            }
            (Building::Hash(index), None) => drop(index.remove_hashed(hash, name)),
            (Building::Set(index), Some(_)) => {
                if index.get_hashed(hash, name).is_none() {
                    index.insert_new(hash, Bytes::from_slice(name));
                }
            }
            (Building::Set(index), None) => drop(index.remove_hashed(hash, name)),
            (Building::SortedSet(names, order), value) => {
                if let Some(former) = names.remove_hashed(hash, name) {
                    order.remove_member(&former);
                }
                if let Some(score) = value.and_then(sorted_set::score_in) {
                    let member = Member { score, name: Bytes::from_slice(name) };
                    names.insert_new(hash, member.clone());
                    order.insert(member);
                }
            }
            (Building::List(_), _) => {}
        }
    }

    /// The whole of a collection with these elements, and these parts unless nobody needed them so far; or what it is if that is
    /// not as many elements.
    pub(super) fn finish(self, elements: Elements, len: usize, parts: Option<Directory>) -> Result<Value, Value> {
        let seed = self.changed.seed();
        let parts = parts.unwrap_or_else(|| {
            let mut parts = Directory::default();
            self.parts.iter().for_each(|(begin, count)| parts.insert(parts.len(), begin, *count));
            parts
        });
        let (count, value) = match self.building {
            Building::List(nodes) => {
                let list = List::of_nodes(elements, seed, nodes, parts);
                (list.len(), list.into_value())
            }
            Building::Hash(index) => (index.len(), Hash::of_index(index, elements).into_value()),
            Building::Set(index) => (index.len(), Set::of_index(index, elements).into_value()),
            Building::SortedSet(names, order) => {
                (names.len(), SortedSet::of_members(names, order, elements, parts).into_value())
            }
        };
        if count == len { Ok(value) } else { Err(value) }
    }

    /// What has come so far, to be freed.
    pub(crate) fn into_value(self) -> Value {
        match self.building {
            Building::Hash(index) => Hash::Large(index, None).into_value(),
            Building::Set(index) => Set::Large(index, None).into_value(),
            Building::SortedSet(names, order) => SortedSet::Large { names, order, ledger: None }.into_value(),
            Building::List(_) => List::new().into_value(),
        }
    }
}

impl Gathers for Gathering {
    fn number(&self) -> u64 {
        self.number
    }

    fn add(&mut self, records: &[(Bytes, Bytes)]) {
        for (record, value) in records {
            if self.changed.is_empty() || self.changed.get(record).is_none() {
                self.put(record, Some(value));
            }
        }
    }

    fn change(&mut self, record: &[u8], value: Option<&[u8]>) {
        self.changed.insert(Bytes::from_slice(record));
        self.put(record, value);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Nodes in order, from which a list is made.
pub(super) type NodesByPosition = BTreeMap<Bytes, Vec<u8>>;

/// Positions and nodes apart.
pub(super) fn in_order<T>(
    nodes: NodesByPosition,
    mut node: impl FnMut(&[u8], Vec<u8>) -> T,
) -> (VecDeque<Bytes>, VecDeque<T>) {
    nodes
        .into_iter()
        .map(|(position, bytes)| {
            let node = node(&position, bytes);
            (position, node)
        })
        .unzip()
}
