//! Lists: nodes of packed strings, as Redis' quicklists are.
//!
//! A node holds up to `list-max-listpack-size`, so an end is reached at once, what is in the middle by stepping over nodes
//! without looking into them, and no change moves more than a node's bytes.

mod nodes;

use std::{borrow::Cow, collections::VecDeque};

use crate::elements::Elements;

use super::{
    Portions,
    directory::Directory,
    gathering::{self, NodesByPosition},
    packed::Packed,
};
pub(super) use nodes::{ALL as NODES, LETTER, delete_node, put_node};
use nodes::{Nodes, RecordedNodes, Spread};

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The left one: the first element.
    Head,
    /// The right one: the last element.
    Tail,
}

/// How large a node becomes, as `list-max-listpack-size` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLimit {
    len: usize,
    size: usize,
}

impl NodeLimit {
    /// From the setting: so many elements, or, if it is negative, 4, 8, 16, 32 or 64 KiB.
    pub fn new(setting: i64) -> Self {
        /// The bytes of a node that is bounded by the number of its elements.
        const SIZE_SAFE: usize = 8192;
        match setting {
            ..=-5 => Self { len: usize::MAX, size: 65536 },
            -4..=-1 => Self { len: usize::MAX, size: 2048 << setting.unsigned_abs() },
            _ => Self { len: (setting as usize).max(1), size: SIZE_SAFE },
        }
    }

    fn has_room(self, node: &Packed, string: &[u8]) -> bool {
        node.len() < self.len && node.size() + Packed::entry_size(string.len()) <= self.size
    }

    fn fits_both(self, first: &Packed, second: &Packed) -> bool {
        first.len() + second.len() <= self.len && first.size() + second.size() <= self.size
    }
}

/// Elements from head to tail.
#[derive(Debug, Clone, Default)]
pub struct List {
    nodes: Nodes,
    len: usize,
}

/// Where an element is, until the list changes.
#[derive(Debug, Clone, Copy)]
struct Spot {
    node: usize,
    /// The number within the node.
    index: usize,
}

impl List {
    /// Without elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What `OBJECT ENCODING` calls it.
    pub fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let Nodes::Whole(nodes, _) = &self.nodes else { return 0 };
        nodes.iter().map(Packed::heap_bytes).sum::<usize>() + nodes.capacity() * size_of::<Packed>()
    }

    /// Whether it has more elements than are kept whole.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        self.len > whole_max && matches!(self.nodes, Nodes::Whole(_, None))
    }

    /// That of so many elements whose nodes are records.
    pub(super) fn of_records(elements: Elements, len: usize) -> Self {
        Self { nodes: Nodes::Spread(Box::new(Spread::new(elements))), len }
    }

    /// Has its nodes become records, as checkpoints take them.
    pub(super) fn keep(&mut self, elements: Elements, seed: u64) {
        if let Nodes::Whole(nodes, kept) = &mut self.nodes {
            *kept = Some(Box::new(RecordedNodes::of_new(elements, seed, nodes.len())));
        }
    }

    /// That of nodes that have records, by position, with the parts that say how many elements each has.
    pub(super) fn of_nodes(elements: Elements, seed: u64, nodes: NodesByPosition, parts: Directory) -> Self {
        let mut len = 0;
        let (positions, nodes) = gathering::in_order(nodes, |position, bytes| {
            let (part, is_there) = nodes::part_of(&parts, position);
            let count = if is_there { parts.count_of(part) } else { 0 };
            len += count;
            Packed::from_bytes(bytes, count)
        });
        let kept = RecordedNodes::of_records(elements, seed, positions, parts);
        Self { nodes: Nodes::Whole(nodes, Some(Box::new(kept))), len }
    }

    /// The parts of its nodes' records, if they were needed so far, for another who has the records then.
    pub(super) fn take_parts(&mut self) -> Option<Directory> {
        if let Nodes::Spread(spread) = &mut self.nodes { spread.take_parts() } else { None }
    }

    /// Leaves the nodes to their records, which have all of them. Returns what it was before.
    pub(super) fn let_go(&mut self) -> Option<Self> {
        let nodes = self.nodes.let_go()?;
        Some(Self { nodes, len: self.len })
    }

    /// Its nodes with what their records do not have, if they are records and in memory.
    pub(super) fn kept(&self) -> Option<(&VecDeque<Packed>, &RecordedNodes)> {
        if let Nodes::Whole(nodes, Some(kept)) = &self.nodes { Some((nodes, kept)) } else { None }
    }

    /// The same to be changed.
    pub(super) fn kept_mut(&mut self) -> Option<(&VecDeque<Packed>, &mut RecordedNodes)> {
        if let Nodes::Whole(nodes, Some(kept)) = &mut self.nodes { Some((nodes, kept)) } else { None }
    }

    /// The records of its nodes, if they are records.
    pub(super) fn elements(&self) -> Option<&Elements> {
        if let Nodes::Spread(spread) = &self.nodes { Some(spread.elements()) } else { None }
    }

    /// The same to be changed as a whole.
    pub(super) fn elements_mut(&mut self) -> Option<&mut Elements> {
        if let Nodes::Spread(spread) = &mut self.nodes { Some(spread.elements_mut()) } else { None }
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.nodes, Nodes::Whole(nodes, _) if nodes.len() > 64)
    }

    /// Frees a node of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if let Nodes::Whole(nodes, _) = &mut self.nodes { nodes.pop_back().is_some() } else { false }
    }

    /// How many nodes there are.
    pub fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    /// A node by its number.
    pub(crate) fn node(&self, number: usize) -> Option<Cow<'_, Packed>> {
        self.nodes.get(number)
    }

    /// Calls with the nodes in order, each with its elements in order.
    pub fn each_node(&self, mut each: impl FnMut(&Packed)) {
        for index in 0..self.nodes.len() {
            if let Some(node) = self.nodes.get(index) {
                each(&node);
            }
        }
    }

    /// Puts an element at an end.
    pub fn push(&mut self, end: End, string: &[u8], limit: NodeLimit) {
        let len = self.nodes.len();
        let mut fits = false;
        self.nodes.update(if end == End::Head { 0 } else { len.saturating_sub(1) }, |node| {
            fits = limit.has_room(node, string);
            match end {
                _ if !fits => {}
                End::Head => node.push_front(string),
                End::Tail => node.push_back(string),
            }
            fits
        });
        if self.nodes.has_failed() {
            return;
        }
        if !fits {
            self.nodes.insert(if end == End::Head { 0 } else { len }, Self::node_of(string));
        }
        self.len += 1;
    }

    fn node_of(string: &[u8]) -> Packed {
        let mut node = Packed::new();
        node.push_back(string);
        node
    }

    /// The element at an end.
    pub fn peek(&self, end: End) -> Option<Cow<'_, [u8]>> {
        let index = if end == End::Head { 0 } else { self.nodes.len().checked_sub(1)? };
        let back = end == End::Tail;
        of_node(self.nodes.get(index)?, |node| if back { node.back() } else { node.front() })
    }

    /// Takes the elements at an end out.
    pub fn drop_at(&mut self, end: End, count: usize) {
        match end {
            End::Head => self.remove_range(0, count),
            End::Tail => self.remove_range(self.len.saturating_sub(count), count),
        }
    }

    /// Takes elements out by their numbers.
    pub fn remove_range(&mut self, from: usize, count: usize) {
        let count = count.min(self.len.saturating_sub(from));
        let mut left = count;
        let Some(Spot { mut node, mut index }) = self.spot(from).filter(|_| count > 0) else { return };
        // Whole nodes go together.
        let mut whole: Option<std::ops::Range<usize>> = None;
        while left > 0 {
            let len = self.nodes.count_of(node);
            let here = left.min(len.saturating_sub(index));
            if here == 0 {
                break;
            }
            left -= here;
            if here == len {
                whole = Some(whole.map_or(node, |whole| whole.start)..node + 1);
            } else {
                self.nodes.update(node, |packed| {
                    packed.remove_range(index, here);
                    true
                });
            }
            index = 0;
            node += 1;
        }
        if self.nodes.has_failed() {
            return;
        }
        if let Some(whole) = whole {
            self.nodes.remove(whole);
        }
        self.len -= count - left;
    }

    /// Where the element of a number is.
    fn spot(&self, index: usize) -> Option<Spot> {
        self.nodes.of_number(index, self.len).map(|(node, index)| Spot { node, index })
    }

    /// The element of a number.
    pub fn get(&self, index: usize) -> Option<Cow<'_, [u8]>> {
        if index >= self.len {
            return None;
        }
        let Spot { node, index } = self.spot(index)?;
        of_node(self.nodes.get(node)?, |node| node.get(index))
    }

    /// Gives the element of a number another value.
    pub fn set(&mut self, index: usize, string: &[u8], limit: NodeLimit) {
        if index >= self.len {
            return;
        }
        let Some(spot) = self.spot(index) else { return };
        let mut overflows = false;
        self.nodes.update(spot.node, |node| {
            let at = node.place(spot.index);
            let former = node.at(at).map_or(0, <[u8]>::len);
            let size = node.size() - Packed::entry_size(former) + Packed::entry_size(string.len());
            overflows = node.len() > 1 && size > limit.size;
            if overflows {
                node.remove(at);
            } else {
                node.replace(at, string);
            }
            true
        });
        if overflows {
            self.len -= 1;
            self.insert_at(spot, string, limit);
        }
    }

    /// Puts an element before the one at a spot, or behind the last of the node.
    fn insert_at(&mut self, spot: Spot, string: &[u8], limit: NodeLimit) {
        let mut rest = Vec::new();
        self.nodes.update(spot.node, |node| {
            if limit.has_room(node, string) {
                node.insert(node.place(spot.index), string);
                return true;
            }
            let tail = node.split_off(spot.index);
            if node.is_empty() {
                *node = Self::node_of(string);
            } else if limit.has_room(node, string) {
                node.push_back(string);
            } else {
                rest.push(Self::node_of(string));
            }
            rest.extend(Some(tail).filter(|tail| !tail.is_empty()));
            true
        });
        if self.nodes.has_failed() {
            return;
        }
        self.len += 1;
        for (number, node) in rest.into_iter().enumerate() {
            self.nodes.insert(spot.node + 1 + number, node);
        }
    }

    /// Puts an element beside the first one that equals `pivot`, which is looked for from a node on. Returns whether there is one;
    /// the node to go on with if it has looked at so many elements before the end.
    pub fn insert_beside(
        &mut self,
        pivot: &[u8],
        after: bool,
        string: &[u8],
        limit: NodeLimit,
        node: usize,
        look_at: usize,
    ) -> Result<bool, usize> {
        let mut looked_at = 0;
        for node in node..self.nodes.len() {
            if looked_at >= look_at {
                return Err(node);
            }
            let Some(packed) = self.nodes.get(node) else { break };
            looked_at += packed.len();
            if let Some(index) = packed.iter().position(|element| element == pivot) {
                drop(packed);
                self.insert_at(Spot { node, index: index + usize::from(after) }, string, limit);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes elements that equal a string out, at most as many, beginning at an end, or with a node that it has come to. Returns
    /// how many, and the node to go on with if it has looked at so many elements before the end.
    pub fn remove_equal(
        &mut self,
        string: &[u8],
        from: End,
        at_most: usize,
        limit: NodeLimit,
        node: Option<usize>,
        look_at: usize,
    ) -> (usize, Option<usize>) {
        let mut left = at_most;
        let mut at = node.unwrap_or(if from == End::Head { 0 } else { self.nodes.len() });
        let mut looked_at = 0;
        while left > 0 {
            if looked_at >= look_at {
                return (at_most - left, Some(at));
            }
            let node = match from {
                End::Head => at,
                End::Tail => match at.checked_sub(1) {
                    Some(node) => node,
                    None => break,
                },
            };
            if node >= self.nodes.len() || self.nodes.has_failed() {
                break;
            }
            let mut removed = 0;
            self.nodes.update(node, |packed| {
                looked_at += packed.len().max(1);
                let equal = packed.iter().filter(|element| *element == string).count();
                removed = equal.min(left);
                if removed == 0 {
                    return false;
                }
                // From the tail the first ones of the node are those that may have to stay.
                let mut stay = if from == End::Tail { equal - removed } else { 0 };
                let mut go = removed;
                packed.retain(|element| {
                    if element != string || go == 0 {
                        return true;
                    }
                    if stay > 0 {
                        stay -= 1;
                        return true;
                    }
                    go -= 1;
                    false
                });
                true
            });
            left -= removed;
            self.len -= removed;
            let gone = removed > 0 && self.settle(node, limit);
            at = match from {
                End::Head => node + usize::from(!gone),
                End::Tail => node,
            };
        }
        (at_most - left, None)
    }

    /// Removes a node that is empty, or joins a small one with the one before. Returns whether it is gone.
    fn settle(&mut self, at: usize, limit: NodeLimit) -> bool {
        if self.nodes.count_of(at) == 0 {
            self.nodes.remove(at..at + 1);
            return true;
        }
        let Some(before) = at.checked_sub(1) else { return false };
        let Some(node) = self.nodes.get(at).map(Cow::into_owned) else { return false };
        let mut fits = false;
        self.nodes.update(before, |before| {
            fits = limit.fits_both(before, &node);
            if fits {
                before.append(&node);
            }
            fits
        });
        if fits {
            self.nodes.remove(at..at + 1);
        }
        fits
    }

    /// Elements from a number on in portions, if nodes are records.
    pub fn portions(&self, index: usize, count: usize) -> Option<Portions> {
        let Nodes::Spread(spread) = &self.nodes else { return None };
        let Spot { node, index } = self.spot(index)?;
        spread.portions(node, index, count)
    }

    /// Calls with the elements from a number on, in order, until that says no.
    pub fn each_from(&self, index: usize, mut each: impl FnMut(&[u8]) -> bool) {
        let Some(Spot { node, index }) = self.spot(index).filter(|_| index < self.len) else { return };
        for (turn, node) in (node..self.nodes.len()).enumerate() {
            let Some(packed) = self.nodes.get(node) else { return };
            if !packed.iter().skip(if turn == 0 { index } else { 0 }).all(&mut each) {
                return;
            }
        }
    }

    /// Calls with the elements from tail to head, but so many of the last ones, until that says no.
    pub fn each_back(&self, skipped: usize, mut each: impl FnMut(&[u8]) -> bool) {
        let Some(first) = self.len.checked_sub(skipped + 1) else { return };
        let Some(Spot { node, index }) = self.spot(first) else { return };
        for (turn, node) in (0..=node).rev().enumerate() {
            let Some(packed) = self.nodes.get(node) else { return };
            let skipped = if turn == 0 { packed.len().saturating_sub(index + 1) } else { 0 };
            if !packed.iter().rev().skip(skipped).all(&mut each) {
                return;
            }
        }
    }

    /// All elements from head to tail.
    pub fn elements_in_order(&self) -> Vec<crate::Bytes> {
        let mut elements = Vec::with_capacity(self.len);
        self.each_from(0, |element| {
            elements.push(crate::Bytes::from_slice(element));
            true
        });
        elements
    }
}

/// An element of a node that is borrowed or owned.
fn of_node<'a>(
    node: Cow<'a, Packed>,
    element: impl for<'b> FnOnce(&'b Packed) -> Option<&'b [u8]>,
) -> Option<Cow<'a, [u8]>> {
    match node {
        Cow::Borrowed(node) => element(node).map(Cow::Borrowed),
        Cow::Owned(node) => element(&node).map(|element| Cow::Owned(element.to_vec())),
    }
}

#[cfg(test)]
mod tests;
