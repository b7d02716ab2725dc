//! All of a value, part by part, over as many steps as it takes. The value must not change meanwhile; it may leave memory and come
//! back.

use super::{
    List, Value,
    packed::Packed,
    set,
    sorted_set::Member,
    stream::{Group, Id, Node},
};

/// What a walk meets.
#[derive(Debug)]
pub enum CollectionPiece<'a> {
    /// A node of a list.
    Elements(&'a Packed),
    /// A member of a set.
    Member(set::Member<'a>),
    /// A member of a sorted set, the last one first.
    Scored(&'a Member),
    /// A field of a hash with its value.
    Field(&'a [u8], &'a [u8]),
    /// A node of a stream with the id that it begins with.
    Entries(Id, &'a Node),
    /// A record of a queue.
    Record(&'a [u8], &'a [u8]),
}

/// How far a walk has come.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// A cursor, or how many have been met.
    at: u64,
    /// The node of a stream to go on behind.
    behind: Option<Id>,
    /// The record of a queue to go on behind.
    record: Option<Vec<u8>>,
}

/// Entries that are met with their node cost as much as one that is met by itself.
const ENTRIES_AS_ONE: u64 = 16;
/// A record of a queue may be long.
const RECORD_BYTES_AS_ONE: usize = 128;

/// How many steps of a budget it takes to meet all of a value.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::String(_) => 0,
        Value::List(list) => list.nodes_len().max(list.len() / ENTRIES_AS_ONE as usize),
        Value::Set(set) => set.len(),
        Value::SortedSet(set) => set.len(),
        Value::Hash(hash) => hash.len(),
        // About as many records as a message has.
        Value::Queue(queue) => usize::try_from(queue.header().len().saturating_mul(4)).unwrap_or(usize::MAX),
        Value::Stream(stream) => {
            let of_group = |group: &Group| 1 + group.pending_len() + group.consumers_len();
            let groups: usize = stream.groups.values().map(of_group).sum();
            groups + usize::try_from(stream.len() / ENTRIES_AS_ONE).unwrap_or(usize::MAX)
        }
    }
}

impl Walk {
    /// Whether it has met anything, or all of a value without anything.
    pub(crate) fn has_begun(&self) -> bool {
        self.at > 0 || self.behind.is_some() || self.record.is_some()
    }

    /// Meets some more. Returns whether that was all.
    pub(crate) fn go_on(&mut self, value: &Value, budget: usize, each: &mut dyn FnMut(CollectionPiece<'_>)) -> bool {
        match value {
            Value::String(_) => return true,
            Value::List(list) => return self.nodes(list, budget, each),
            Value::Set(set) if budget == usize::MAX && self.at == 0 => {
                set.each(|member| each(CollectionPiece::Member(member)))
            }
            Value::Hash(hash) if budget == usize::MAX && self.at == 0 => {
                hash.each(|name, value| each(CollectionPiece::Field(name, value)))
            }
            Value::Set(set) => self.at = set.scan_once(self.at, budget, |member| each(CollectionPiece::Member(member))),
            Value::Hash(hash) => {
                self.at = hash.scan_once(self.at, budget, |name, value| each(CollectionPiece::Field(name, value)))
            }
            Value::SortedSet(set) => {
                let end = set.len().saturating_sub(self.at as usize);
                let start = end.saturating_sub(budget);
                set.each(start..end, true, |member| each(CollectionPiece::Scored(member)));
                self.at += (end - start) as u64;
                return start == 0;
            }
            Value::Queue(queue) => {
                let (behind, mut left) = (self.record.take(), budget);
                queue.each_record(behind.as_deref(), &mut |name, value| {
                    if left == 0 {
                        return false;
                    }
                    left = left.saturating_sub(1 + value.len() / RECORD_BYTES_AS_ONE);
                    each(CollectionPiece::Record(name, value));
                    self.record = Some(name.to_vec());
                    true
                });
                self.record = self.record.take().or(behind);
                return left > 0;
            }
            Value::Stream(stream) => {
                let mut left = budget as u64;
                let behind = self.behind;
                let mut is_over = true;
                stream.each_node_from(behind.unwrap_or(Id::MIN), |first, node| {
                    if behind.is_some_and(|behind| first <= behind) {
                        return true;
                    }
                    if left == 0 {
                        is_over = false;
                        return false;
                    }
                    left = left.saturating_sub(1 + node.live() / ENTRIES_AS_ONE);
                    each(CollectionPiece::Entries(first, node));
                    self.behind = Some(first);
                    true
                });
                return is_over;
            }
        }
        self.at == 0
    }

    fn nodes(&mut self, list: &List, budget: usize, each: &mut dyn FnMut(CollectionPiece<'_>)) -> bool {
        let mut left = budget;
        while left > 0 {
            let Some(node) = list.node(self.at as usize) else { return true };
            left = left.saturating_sub(1 + node.len() / ENTRIES_AS_ONE as usize);
            each(CollectionPiece::Elements(&node));
            self.at += 1;
        }
        self.at as usize >= list.nodes_len()
    }
}
