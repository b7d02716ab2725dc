//! Streams: entries by id, with groups of consumers.
//!
//! Entries are packed into nodes of a size that is set, as Redis has them; a tree finds the node of an id. So a stream takes
//! little more memory than what it holds, whatever is appended costs the same, and `MAXLEN ~` removes whole nodes. With very many
//! entries, nodes are records; groups stand in the key's record, but for what has been pending in them for long (`spilled`).

mod group;
mod id;
mod node;
mod nodes;
pub(crate) mod rest;
mod spilled;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, btree_map},
    ops::RangeInclusive,
};

use crate::{
    Bytes,
    elements::{Collection, Elements},
};

use super::{Descriptor, Portions};

pub use group::{Consumer, ConsumerNumber, Group, Pending};
pub use id::Id;
pub use id::unsigned;
pub use node::{Entry, Node};
pub(super) use nodes::node_in;
use nodes::{Nodes, Spread};
pub(crate) use spilled::Spilled;

/// How large nodes become: `stream-node-max-*`; 0 is no limit.
#[derive(Debug, Clone, Copy)]
pub struct NodeLimits {
    /// The most bytes.
    pub bytes: usize,
    /// The most entries.
    pub entries: u64,
}

/// The most bytes of an entry, and of a node, whatever is set.
pub const NODE_BYTES_MAX: usize = 1 << 30;

/// How many entries a group keeps in memory that are pending, where so many elements are kept whole: a checkpoint writes them with
/// the key each time.
fn pending_max(whole_max: usize) -> usize {
    const SHARE: usize = 8;
    (whole_max / SHARE).max(1)
}

/// What a stream is trimmed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// So many entries, the last ones.
    Len(u64),
    /// Those from an id on.
    From(Id),
}

/// Entries by id, with consumer groups.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    nodes: Nodes,
    len: u64,
    /// The first entry's id; the lowest one if there are none.
    pub first_id: Id,
    /// The greatest id that was ever given.
    pub last_id: Id,
    /// The greatest id that was removed by name.
    pub max_deleted_id: Id,
    /// How many entries were ever added.
    pub entries_added: u64,
    /// The groups.
    pub groups: BTreeMap<Bytes, Group>,
}

impl Stream {
    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none. Such a stream stays.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has more elements than are kept whole, or more of them are pending than are kept with the key.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        matches!(self.nodes, Nodes::Whole(_)) && self.len > whole_max as u64
            || self.groups.values().any(|group| group.is_beyond(pending_max(whole_max)))
    }

    /// Makes its nodes records. Returns what they were, as a stream.
    pub(super) fn spread(&mut self, elements: Elements) -> Self {
        Self { nodes: self.nodes.spread(elements), ..Self::default() }
    }

    /// Has what is pending become records where it is too much, if the nodes are.
    pub(crate) fn spill(&mut self, whole_max: usize) {
        let (Nodes::Spread(spread), kept_max) = (&self.nodes, pending_max(whole_max)) else { return };
        for group in self.groups.values_mut().filter(|group| group.is_beyond(kept_max)) {
            group.spill(spread.elements(), kept_max);
        }
    }

    /// Everything else that has records of its own.
    pub(super) fn other_elements(&self) -> impl Iterator<Item = &Elements> {
        self.groups.values().filter_map(|group| group.spilled().map(Spilled::elements))
    }

    /// The same to be changed as a whole.
    pub(super) fn other_elements_mut(&mut self) -> impl Iterator<Item = &mut Elements> {
        self.groups.values_mut().filter_map(|group| group.spilled_mut().map(Spilled::elements_mut))
    }

    /// The record of the node that an id would be in, if it is not the one in memory: its name is this or one before it.
    pub fn record_of(&self, id: Id) -> Option<(Collection, Vec<u8>)> {
        let Nodes::Spread(spread) = &self.nodes else { return None };
        Some((spread.elements().collection(), spread.record_of(id)?))
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let group = self.groups.remove(name);
        if let Some(group) = &group {
            group.discard();
        }
        group.is_some()
    }

    /// The records of its nodes, if they are records.
    pub(super) fn elements(&self) -> Option<&Elements> {
        if let Nodes::Spread(spread) = &self.nodes { Some(spread.elements()) } else { None }
    }

    /// The same to be changed as a whole.
    pub(super) fn elements_mut(&mut self) -> Option<&mut Elements> {
        if let Nodes::Spread(spread) = &mut self.nodes { Some(spread.elements_mut()) } else { None }
    }

    /// What its key's record keeps besides the entries in other records.
    pub(super) fn rest(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Nodes::Spread(spread) = &self.nodes else { return bytes };
        bytes.extend_from_slice(&(spread.len as u64).to_be_bytes());
        bytes.extend_from_slice(&spread.from.to_bytes());
        let mut tail = Vec::new();
        if let Some((id, node)) = &spread.tail {
            tail.extend_from_slice(&id.to_bytes());
            node.encode(&mut tail);
        }
        bytes.extend_from_slice(&(tail.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&tail);
        rest::encode_stream_rest(self, &mut bytes);
        bytes
    }

    /// That whose nodes are records; nothing if its key's record cannot be understood.
    pub(super) fn of_records(elements: Elements, descriptor: &Descriptor) -> Option<Self> {
        let (len, bytes) = descriptor.rest.split_first_chunk()?;
        let (from, bytes) = bytes.split_first_chunk()?;
        let (tail_len, bytes) = bytes.split_first_chunk()?;
        let (tail, bytes) = bytes.split_at_checked(u32::from_be_bytes(*tail_len) as usize)?;
        let tail = match tail.split_first_chunk() {
            Some((id, node)) => {
                let id = Id::from_bytes(*id);
                Some((id, Node::decode(id, node)?))
            }
            None => None,
        };
        let len = usize::try_from(u64::from_be_bytes(*len)).ok()?;
        let mut stream = Self { len: descriptor.count, ..Self::default() };
        rest::decode_stream_rest(&mut stream, bytes, &elements).ok()?;
        stream.nodes = Nodes::Spread(Box::new(Spread::new(elements, tail, len, Id::from_bytes(*from))));
        Some(stream)
    }

    /// Says that a group is changed: if something cannot be read after that, the command has been done by half.
    pub fn changes(&self) {
        self.nodes.changes();
    }

    /// Whether something could not be read: then nothing is to be changed.
    pub fn has_failed(&self) -> bool {
        self.nodes.has_failed()
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        const NODES: usize = 64;
        const PENDING: usize = 16_384;
        matches!(&self.nodes, Nodes::Whole(nodes) if nodes.len() > NODES)
            || self.groups.values().any(|group| group.kept_len() > PENDING)
    }

    /// Frees a node, or some pending entries, of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if let Nodes::Whole(nodes) = &mut self.nodes
            && nodes.pop_last().is_some()
        {
            return true;
        }
        let Some(mut group) = self.groups.last_entry() else { return false };
        if !group.get_mut().shed() {
            group.remove();
        }
        true
    }

    /// How many nodes there are.
    pub fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    /// Calls with the nodes and the ids they begin with, in order, until that says no.
    pub fn each_node(&self, each: impl FnMut(Id, &Node) -> bool) {
        self.nodes.each(Id::MIN, Id::MAX, false, each);
    }

    /// The same from the node on that an id is in.
    pub(crate) fn each_node_from(&self, from: Id, each: impl FnMut(Id, &Node) -> bool) {
        self.nodes.each(from, Id::MAX, false, each);
    }

    /// Adds a node of another stream behind the last one.
    pub(in crate::value) fn push_node(&mut self, first: Id, node: Node) {
        self.nodes.push(first, node);
    }

    /// Takes over nodes that are records, and a copy of the one that is not.
    pub(in crate::value) fn take_records(&mut self, of: &Self, elements: Elements) {
        if let Nodes::Spread(spread) = &of.nodes {
            let copy = Spread::new(elements, spread.tail.clone(), spread.len, spread.from);
            self.nodes = Nodes::Spread(Box::new(copy));
        }
    }

    /// Takes over all numbers of a stream whose nodes it has.
    pub(in crate::value) fn take_numbers(&mut self, of: &Self) {
        (self.len, self.entries_added) = (of.len, of.entries_added);
        (self.first_id, self.last_id, self.max_deleted_id) = (of.first_id, of.last_id, of.max_deleted_id);
    }

    /// All entries, or so many of them, in portions, if they are records.
    pub fn portions(&self, backwards: bool, count: usize) -> Option<Portions> {
        self.nodes.portions(backwards, count)
    }

    /// Appends an entry whose id is greater than all before. `words` are fields and values in turns.
    pub fn append<T: AsRef<[u8]>>(&mut self, id: Id, words: &[T], limits: NodeLimits) {
        let bytes: usize = words.iter().map(|word| word.as_ref().len()).sum();
        let bytes_max = if limits.bytes == 0 { NODE_BYTES_MAX } else { limits.bytes.min(NODE_BYTES_MAX) };
        match self.nodes.last_mut() {
            Some((first, node))
                if node.listpack_len() + bytes < bytes_max && (limits.entries == 0 || node.all() < limits.entries) =>
            {
                node.push(first, id, words);
            }
            last => {
                if let Some((_, node)) = last {
                    node.close();
                }
                self.nodes.push(id, Node::new(id, words));
            }
        }
        self.len += 1;
        self.entries_added += 1;
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// Calls with the entries of a range, in order or from the last one to the first, until that says no.
    pub fn each(&self, ids: RangeInclusive<Id>, backwards: bool, mut each: impl FnMut(&Entry<'_>) -> bool) {
        let (from, to) = ids.into_inner();
        if from > to {
            return;
        }
        self.nodes.each(from, to, backwards, |first, node| {
            let within = node.entries(first).skip_while(|entry| entry.id < from).take_while(|entry| entry.id <= to);
            if backwards {
                within.collect::<Vec<_>>().iter().rev().all(&mut each)
            } else {
                within.into_iter().all(|entry| each(&entry))
            }
        });
    }

    /// The first entry of a range in a direction.
    pub fn find<T>(&self, ids: RangeInclusive<Id>, backwards: bool, with: impl FnOnce(&Entry<'_>) -> T) -> Option<T> {
        let mut with = Some(with);
        let mut found = None;
        self.each(ids, backwards, |entry| {
            found = with.take().map(|with| with(entry));
            false
        });
        found
    }

    /// An entry.
    pub fn get<T>(&self, id: Id, with: impl FnOnce(&Entry<'_>) -> T) -> Option<T> {
        self.find(id..=id, false, with)
    }

    /// The greatest id of those that are there.
    pub fn last_present(&self) -> Option<Id> {
        self.find(Id::MIN..=Id::MAX, true, |entry| entry.id)
    }

    fn find_first(&mut self) {
        let first = self.find(Id::MIN..=Id::MAX, false, |entry| entry.id);
        if !self.nodes.has_failed() {
            self.first_id = first.unwrap_or(Id::MIN);
        }
    }

    /// Removes an entry; returns whether it was there.
    pub fn remove(&mut self, id: Id) -> bool {
        let mut was_there = false;
        self.nodes.update(id, |first, node| {
            was_there = node.remove(first, id);
            was_there
        });
        if !was_there {
            return false;
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// About how many entries trimming would remove; it counts no more than so many if it has to look.
    pub fn surplus(&self, bound: Bound, count_max: u64) -> u64 {
        let from = match bound {
            Bound::Len(len) => return self.len.saturating_sub(len),
            Bound::From(from) => from,
        };
        let mut count = 0;
        self.nodes.each_summary(|node| {
            let goes = node.last < from;
            count += if goes { node.live } else { 0 };
            goes && count <= count_max
        });
        count
    }

    /// Removes the first entries until what is left is within a bound; with `limit` only whole nodes, and not more entries
    /// than that unless it is 0. Returns how many it removed.
    pub fn trim(&mut self, bound: Bound, limit: Option<u64>) -> u64 {
        let before = self.len;
        let (mut left, mut gone) = (before, Vec::new());
        let mut partly = None;
        self.nodes.each_summary(|node| {
            let removed = before - left;
            if matches!(bound, Bound::Len(len) if left <= len)
                || limit.is_some_and(|limit| limit > 0 && removed + node.live > limit)
            {
                return false;
            }
            let whole = match bound {
                Bound::Len(len) => left - node.live >= len,
                Bound::From(id) => node.last < id,
            };
            if whole {
                left -= node.live;
                gone.push(node.id);
            } else if limit.is_none() {
                partly = Some(node.id);
            }
            whole
        });
        if self.nodes.has_failed() {
            return 0;
        }
        self.nodes.remove_first(&gone);
        self.len = left;
        if let Some(id) = partly {
            let surplus = match bound {
                Bound::Len(len) => self.len - len,
                Bound::From(_) => u64::MAX,
            };
            self.nodes.update(id, |first, node| {
                let ids: Vec<Id> = node
                    .entries(first)
                    .map(|entry| entry.id)
                    .take(usize::try_from(surplus).unwrap_or(usize::MAX))
                    .take_while(|id| !matches!(bound, Bound::From(from) if *id >= from))
                    .collect();
                let removed = ids.into_iter().filter(|id| node.remove(first, *id)).count();
                self.len -= removed as u64;
                removed > 0
            });
        }
        let removed = before - self.len;
        if removed > 0 {
            self.find_first();
        }
        removed
    }

    /// Whether something was removed by name from an id on.
    pub fn has_gaps_from(&self, id: Id) -> bool {
        !self.is_empty()
            && self.max_deleted_id != Id::MIN
            && self.first_id <= self.max_deleted_id
            && id <= self.max_deleted_id
    }

    /// How many entries were added up to an id, if that can be known.
    pub fn entries_added_to(&self, id: Id) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if id == self.last_id || (self.is_empty() && id < self.last_id) {
            return Some(self.entries_added);
        }
        if id > self.last_id {
            return None;
        }
        if self.max_deleted_id == Id::MIN || self.max_deleted_id < self.first_id {
            if id < self.first_id {
                return Some(self.entries_added.wrapping_sub(self.len));
            }
            if id == self.first_id {
                return Some(self.entries_added.wrapping_sub(self.len).wrapping_add(1));
            }
        }
        None
    }

    /// How many entries a group has yet to be given, if that can be known.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gaps_from(group.last) => Some(read),
            _ => self.entries_added_to(group.last),
        };
        read.map(|read| self.entries_added.wrapping_sub(read) as i64)
    }

    /// A group has been given an entry behind its last one.
    pub fn advance(&mut self, group: &[u8], id: Id) {
        let gaps = self.has_gaps_from(id);
        let estimate = self.entries_added_to(id);
        let added = self.entries_added;
        let Some(group) = self.groups.get_mut(group) else { return };
        match &mut group.entries_read {
            Some(read) if !gaps => *read += 1,
            read if added > 0 => *read = estimate,
            _ => {}
        }
        group.last = id;
    }

    /// The groups by name.
    pub fn groups(&self) -> btree_map::Iter<'_, Bytes, Group> {
        self.groups.iter()
    }
}
