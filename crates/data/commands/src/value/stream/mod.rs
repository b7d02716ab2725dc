//! Streams: entries by id, with groups of consumers.
//!
//! Entries are packed into nodes of a size that is set, as Redis has them; a tree finds the node of an id. So a stream takes
//! little more memory than what it holds, whatever is appended costs the same, and `MAXLEN ~` removes whole nodes.

mod group;
mod id;
mod node;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, btree_map},
    ops::RangeInclusive,
};

use crate::{Bytes, config::Settings};

pub use group::{Consumer, ConsumerNumber, Group, Pending};
pub use id::Id;
pub(crate) use id::unsigned;
pub use node::{Entry, Node};

/// How large nodes become: `stream-node-max-*`; 0 is no limit.
#[derive(Debug, Clone, Copy)]
pub struct NodeLimits {
    /// The most bytes.
    pub bytes: usize,
    /// The most entries.
    pub entries: u64,
}

impl NodeLimits {
    /// The limits that are set.
    pub fn of(settings: &Settings) -> Self {
        Self {
            bytes: usize::try_from(settings.stream_node_max_bytes.0).unwrap_or(usize::MAX),
            entries: u64::try_from(settings.stream_node_max_entries.0).unwrap_or(0),
        }
    }
}

/// The most bytes of an entry, and of a node, whatever is set.
pub const NODE_BYTES_MAX: usize = 1 << 30;

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
    nodes: BTreeMap<Id, Node>,
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

    /// Whether it has more elements than are kept whole: it is always kept whole.
    pub(super) fn is_beyond(&self, _: usize) -> bool {
        false
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        const NODES: usize = 256;
        const PENDING: usize = 16_384;
        self.nodes.len() > NODES || self.groups.values().any(|group| group.pending().len() > PENDING)
    }

    /// Frees a node, or some pending entries, of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if self.nodes.pop_last().is_some() {
            return true;
        }
        let Some(mut group) = self.groups.last_entry() else { return false };
        if !group.get_mut().shed() {
            group.remove();
        }
        true
    }

    /// The nodes, by the id of their first entry.
    pub fn nodes(&self) -> &BTreeMap<Id, Node> {
        &self.nodes
    }

    /// Appends an entry whose id is greater than all before. `words` are fields and values in turns.
    pub fn append<T: AsRef<[u8]>>(&mut self, id: Id, words: &[T], limits: NodeLimits) {
        let bytes: usize = words.iter().map(|word| word.as_ref().len()).sum();
        let bytes_max = if limits.bytes == 0 { NODE_BYTES_MAX } else { limits.bytes.min(NODE_BYTES_MAX) };
        match self.nodes.last_entry() {
            Some(mut node)
                if node.get().listpack_len() + bytes < bytes_max
                    && (limits.entries == 0 || node.get().all() < limits.entries) =>
            {
                let first = *node.key();
                node.get_mut().push(first, id, words);
            }
            last => {
                if let Some(mut node) = last {
                    node.get_mut().close();
                }
                self.nodes.insert(id, Node::new(id, words));
            }
        }
        self.len += 1;
        self.entries_added += 1;
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// The entries of a range, in order.
    pub fn range(&self, ids: RangeInclusive<Id>) -> impl Iterator<Item = Entry<'_>> {
        let (from, to) = ids.into_inner();
        let empty = from > to;
        // The node that a range begins in is the last one that begins before it.
        let begin = self.nodes.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let nodes = if empty { None } else { Some(self.nodes.range(begin..=to)) };
        nodes
            .into_iter()
            .flatten()
            .flat_map(|(first, node)| node.entries(*first))
            .skip_while(move |entry| entry.id < from)
            .take_while(move |entry| entry.id <= to)
    }

    /// The same from the last one to the first.
    pub fn range_down(&self, ids: RangeInclusive<Id>) -> impl Iterator<Item = Entry<'_>> {
        let (from, to) = ids.into_inner();
        let begin = self.nodes.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let nodes = if from > to { None } else { Some(self.nodes.range(begin..=to)) };
        nodes
            .into_iter()
            .flatten()
            .rev()
            .flat_map(|(first, node)| node.entries(*first).collect::<Vec<_>>().into_iter().rev())
            .skip_while(move |entry| entry.id > to)
            .take_while(move |entry| entry.id >= from)
    }

    /// An entry.
    pub fn get(&self, id: Id) -> Option<Entry<'_>> {
        let (first, node) = self.nodes.range(..=id).next_back()?;
        node.entries(*first).find(|entry| entry.id == id)
    }

    /// The greatest id of those that are there.
    pub fn last_present(&self) -> Option<Id> {
        self.range_down(Id::MIN..=Id::MAX).next().map(|entry| entry.id)
    }

    fn find_first(&mut self) {
        let first = self.range(Id::MIN..=Id::MAX).next().map(|entry| entry.id);
        self.first_id = first.unwrap_or(Id::MIN);
    }

    /// Removes an entry; returns whether it was there.
    pub fn remove(&mut self, id: Id) -> bool {
        let Some((&first, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        if !node.remove(first, id) {
            return false;
        }
        if node.live() == 0 {
            self.nodes.remove(&first);
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Removes the first entries until what is left is within a bound; with `limit` only whole nodes, and not more entries
    /// than that unless it is 0. Returns how many it removed.
    pub fn trim(&mut self, bound: Bound, limit: Option<u64>) -> u64 {
        let before = self.len;
        while let Some(mut entry) = self.nodes.first_entry() {
            let removed = before - self.len;
            let first = *entry.key();
            let node = entry.get_mut();
            if matches!(bound, Bound::Len(len) if self.len <= len)
                || limit.is_some_and(|limit| limit > 0 && removed + node.live() > limit)
            {
                break;
            }
            let whole = match bound {
                Bound::Len(len) => self.len - node.live() >= len,
                Bound::From(id) => node.last() < id,
            };
            if whole {
                self.len -= node.live();
                entry.remove();
                continue;
            }
            if limit.is_none() {
                let surplus = match bound {
                    Bound::Len(len) => self.len - len,
                    Bound::From(_) => u64::MAX,
                };
                let ids: Vec<Id> = node
                    .entries(first)
                    .map(|entry| entry.id)
                    .take(usize::try_from(surplus).unwrap_or(usize::MAX))
                    .take_while(|id| !matches!(bound, Bound::From(from) if *id >= from))
                    .collect();
                for id in ids {
                    self.len -= u64::from(node.remove(first, id));
                }
                if node.live() == 0 {
                    entry.remove();
                }
            }
            break;
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
