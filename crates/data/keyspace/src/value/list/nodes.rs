//! The nodes of a list: in memory, or each a record of its own.
//!
//! The record of a node is named by a position, which the counted parts have with the number of its elements; so an index is
//! found without looking into nodes, and both ends are reached at once. Positions leave room between them; where it is used up,
//! they become longer.

use std::{borrow::Cow, cell::OnceCell, collections::VecDeque, ops::Bound};

use crate::{
    Bytes,
    elements::{Elements, Writer},
    value::{
        Form, Ledger, Portions,
        directory::Directory,
        ledger::{Native, State},
        packed::Packed,
        portions::Rest,
    },
};

/// What the records of nodes begin with; the position follows.
pub(in crate::value) const LETTER: u8 = b'c';
/// All of them.
pub(in crate::value) const ALL: (&[u8], &[u8]) = (&[LETTER], &[LETTER + 1]);
/// The position of a list's first node.
const MIDDLE: u64 = (1 << 63) + 1;
/// From one node at an end to the next. The last byte of a position is never zero, so that there is always room between two.
const STEP: u64 = 1 << 32;

/// Nodes in order, none of them empty.
#[derive(Debug, Clone)]
pub(super) enum Nodes {
    /// In memory; and records too, if they have positions.
    Whole(VecDeque<Packed>, Option<Box<RecordedNodes>>),
    /// Records.
    Spread(Box<Spread>),
}

/// Nodes that are records.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    elements: Elements,
    parts: OnceCell<Directory>,
}

/// A position between two, of which either may be none.
fn between(before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<u8> {
    let number = |position: &[u8]| position.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let at_end = match (before, after) {
        (None, None) => Some(MIDDLE),
        (Some(before), None) => number(before).and_then(|number| number.checked_add(STEP)),
        (None, Some(after)) => number(after).and_then(|number| number.checked_sub(STEP)),
        (Some(_), Some(_)) => None,
    };
    if let Some(number) = at_end {
        return number.to_be_bytes().to_vec();
    }
    let before = before.unwrap_or_default();
    let mut after = after;
    let mut position = Vec::new();
    loop {
        let low = before.get(position.len()).map_or(0, |byte| u16::from(*byte));
        let high = after.map_or(256, |after| after.get(position.len()).map_or(256, |byte| u16::from(*byte)));
        if high > low + 1 {
            position.push(((low + high) / 2) as u8);
            // As long as a number, so that one can be counted on from there.
            let len = position.len().max(size_of::<u64>());
            position.resize(len, 1);
            return position;
        }
        position.push(low as u8);
        if high > low {
            // What follows is smaller in any case.
            after = None;
        }
    }
}

fn record(position: &[u8]) -> Vec<u8> {
    [&[LETTER], position].concat()
}

impl Spread {
    /// Those of a collection that is there.
    pub(super) fn new(elements: Elements) -> Self {
        Self { elements, parts: OnceCell::new() }
    }

    pub(super) fn elements(&self) -> &Elements {
        &self.elements
    }

    pub(super) fn elements_mut(&mut self) -> &mut Elements {
        &mut self.elements
    }

    /// The same, if they have been read.
    pub(super) fn take_parts(&mut self) -> Option<Directory> {
        self.parts.take()
    }

    /// The nodes' positions; nothing if they cannot be read.
    fn parts(&self) -> Option<&Directory> {
        if self.parts.get().is_none() {
            let _ = self.parts.set(Directory::read(&self.elements)?);
        }
        self.parts.get()
    }

    fn parts_mut(&mut self) -> Option<&mut Directory> {
        self.parts()?;
        if self.elements.has_failed() { None } else { self.parts.get_mut() }
    }

    fn node(&self, index: usize) -> Option<Packed> {
        let parts = self.parts()?;
        let bytes = self.elements.get(&record(parts.begin(index)?))?;
        Some(Packed::from_bytes(bytes.into_vec(), parts.count_of(index)))
    }

    /// The elements from one within a node on, to be given in portions.
    pub(super) fn portions(&self, node: usize, skipped: usize, left: usize) -> Option<Portions> {
        let from = Bound::Included(record(self.parts()?.begin(node)?));
        let rest = Rest { from, to: Bound::Excluded(vec![LETTER + 1]), backwards: false, left };
        Some(Portions::new(&self.elements, Form::Nodes { skipped }, rest))
    }

    fn insert(&mut self, index: usize, node: &Packed) {
        if self.parts_mut().is_none() {
            return;
        }
        let Some(parts) = self.parts.get_mut() else { return };
        let before = index.checked_sub(1).and_then(|before| parts.begin(before));
        let position = between(before, parts.begin(index));
        self.elements.put(&record(&position), node.bytes());
        parts.insert(index, &position, node.len());
        parts.put(index, &self.elements);
    }

    fn update(&mut self, index: usize, change: impl FnOnce(&mut Packed) -> bool) {
        let Some(mut node) = self.node(index) else { return };
        if !change(&mut node) {
            return;
        }
        let Some(parts) = self.parts.get_mut() else { return };
        let Some(position) = parts.begin(index) else { return };
        self.elements.put(&record(position), node.bytes());
        if parts.count_of(index) != node.len() {
            parts.set_count(index, node.len());
            parts.put(index, &self.elements);
        }
    }

    fn remove(&mut self, index: usize) {
        if self.parts_mut().is_none() {
            return;
        }
        let Some(parts) = self.parts.get_mut() else { return };
        if let Some(position) = parts.begin(index) {
            self.elements.delete(&record(position));
            parts.delete(index, &self.elements);
            parts.remove(index);
        }
    }
}

/// The positions of nodes in memory that are records too, and what the records do not have.
#[derive(Debug)]
pub(in crate::value) struct RecordedNodes {
    positions: VecDeque<Bytes>,
    pub(in crate::value) ledger: Ledger,
}

impl RecordedNodes {
    /// Those of so many nodes that have no records yet.
    pub(super) fn of_new(elements: Elements, seed: u64, len: usize) -> Self {
        let mut positions = VecDeque::with_capacity(len);
        for index in 0..len {
            let before = index.checked_sub(1).and_then(|before| positions.get(before)).map(Bytes::as_slice);
            let position = between(before, None);
            positions.push_back(Bytes::from_vec(position));
        }
        let ledger = Ledger::of_new_names(elements, seed, positions.iter().map(Bytes::as_slice));
        Self { positions, ledger }
    }

    /// Those of nodes that have records, in these parts.
    pub(super) fn of_records(elements: Elements, seed: u64, positions: VecDeque<Bytes>, parts: Directory) -> Self {
        Self { positions, ledger: Ledger::of_records(elements, seed, parts) }
    }

    fn note(&mut self, index: usize, node: &Packed) {
        if let Some(position) = self.positions.get(index) {
            self.ledger.note_name(position, State::Node(node));
        }
    }

    fn insert(&mut self, index: usize) {
        let at = |index: usize| self.positions.get(index).map(Bytes::as_slice);
        let position = Bytes::from_vec(between(index.checked_sub(1).and_then(at), at(index)));
        self.ledger.note_name(&position, State::Absent);
        self.positions.insert(index, position);
    }

    fn remove(&mut self, range: std::ops::Range<usize>, nodes: &VecDeque<Packed>) {
        for (position, node) in self.positions.drain(range.clone()).zip(nodes.range(range)) {
            self.ledger.note_name(&position, State::Node(node));
        }
    }

    /// Has the records be in a database.
    pub(in crate::value) fn bring_to(&mut self, disk: u8) {
        self.ledger.bring_names_to(disk, self.positions.iter().map(Bytes::as_slice));
    }

    /// Takes about so many nodes for a checkpoint, as [`Ledger::take`] does.
    pub(in crate::value) fn take(&mut self, nodes: &VecDeque<Packed>, at_most: usize) -> usize {
        self.ledger.take(&Positioned { positions: &self.positions, nodes }, at_most)
    }
}

/// A copy is a collection of its own.
impl Clone for RecordedNodes {
    fn clone(&self) -> Self {
        let ledger = self.ledger.fresh_names(self.positions.iter().map(Bytes::as_slice));
        Self { positions: self.positions.clone(), ledger }
    }
}

/// Nodes with their positions.
struct Positioned<'a> {
    positions: &'a VecDeque<Bytes>,
    nodes: &'a VecDeque<Packed>,
}

impl Native for Positioned<'_> {
    fn state(&self, _: u64, name: &[u8]) -> State<'_> {
        let index = self.positions.binary_search_by(|position| position.as_slice().cmp(name)).ok();
        index.and_then(|index| self.nodes.get(index)).map_or(State::Absent, State::Node)
    }

    /// Positions are always noted by name.
    fn walk(&self, _: u64, _: usize, _: &mut dyn FnMut(&[u8], State<'_>)) -> Option<u64> {
        None
    }
}

/// The part that is a node's, and whether there is one.
pub(super) fn part_of(parts: &Directory, position: &[u8]) -> (usize, bool) {
    let (index, _) = parts.find(position);
    match parts.begin(index) {
        Some(begin) if begin == position => (index, true),
        Some(begin) if begin < position => (index + 1, false),
        _ => (index, false),
    }
}

/// Puts the record of a node. `changed` is called with the position if its part's record is to be [written](Directory::write).
pub(in crate::value) fn put_node(
    parts: &mut Directory,
    writer: &impl Writer,
    position: &[u8],
    node: &Packed,
    mut changed: impl FnMut(&[u8]),
) {
    writer.put(&record(position), node.bytes());
    let (index, is_there) = part_of(parts, position);
    if !is_there {
        parts.insert(index, position, node.len());
    } else if parts.count_of(index) != node.len() {
        parts.set_count(index, node.len());
    } else {
        return;
    }
    changed(position);
}

/// Deletes the record of a node, in the same way.
pub(in crate::value) fn delete_node(
    parts: &mut Directory,
    writer: &impl Writer,
    position: &[u8],
    mut changed: impl FnMut(&[u8]),
) {
    writer.delete(&record(position));
    if let (index, true) = part_of(parts, position) {
        parts.remove(index);
        changed(position);
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Whole(VecDeque::new(), None)
    }
}

impl Nodes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(nodes, _) => nodes.len(),
            Self::Spread(spread) => spread.parts().map_or(0, Directory::len),
        }
    }

    /// Leaves the nodes to their records, which have all of them. Returns what they were before.
    pub(super) fn let_go(&mut self) -> Option<Self> {
        let Self::Whole(_, kept) = self else { return None };
        let (elements, parts) = kept.take()?.ledger.into_records();
        Some(std::mem::replace(self, Self::Spread(Box::new(Spread { elements, parts: OnceCell::from(parts) }))))
    }

    /// Whether something could not be read: then nothing is to be changed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Spread(spread) if spread.elements.has_failed())
    }

    /// How many elements a node has.
    pub(super) fn count_of(&self, index: usize) -> usize {
        match self {
            Self::Whole(nodes, _) => nodes.get(index).map_or(0, Packed::len),
            Self::Spread(spread) => spread.parts().map_or(0, |parts| parts.count_of(index)),
        }
    }

    /// A node.
    pub(super) fn get(&self, index: usize) -> Option<Cow<'_, Packed>> {
        match self {
            Self::Whole(nodes, _) => nodes.get(index).map(Cow::Borrowed),
            Self::Spread(spread) => spread.node(index).map(Cow::Owned),
        }
    }

    /// Changes a node; `change` says whether it did.
    pub(super) fn update(&mut self, index: usize, change: impl FnOnce(&mut Packed) -> bool) {
        match self {
            Self::Whole(nodes, kept) => {
                let Some(node) = nodes.get_mut(index) else { return };
                if let Some(kept) = kept {
                    kept.note(index, node);
                }
                change(node);
            }
            Self::Spread(spread) => spread.update(index, change),
        }
    }

    /// Puts a node in front of the one of an index.
    pub(super) fn insert(&mut self, index: usize, node: Packed) {
        match self {
            Self::Whole(nodes, kept) => {
                if let Some(kept) = kept {
                    kept.insert(index);
                }
                nodes.insert(index, node);
            }
            Self::Spread(spread) => spread.insert(index, &node),
        }
    }

    /// Removes nodes.
    pub(super) fn remove(&mut self, nodes: std::ops::Range<usize>) {
        match self {
            Self::Whole(all, kept) => {
                if let Some(kept) = kept {
                    kept.remove(nodes.clone(), all);
                }
                drop(all.drain(nodes));
            }
            Self::Spread(spread) => nodes.rev().for_each(|index| spread.remove(index)),
        }
    }

    /// The node that has the element of a number, and the element's number within.
    pub(super) fn of_number(&self, index: usize, len: usize) -> Option<(usize, usize)> {
        let nodes = match self {
            Self::Whole(nodes, _) => nodes,
            Self::Spread(spread) => return spread.parts()?.of_number(index),
        };
        // Steps over nodes from the nearer end.
        if index <= len / 2 {
            let mut index = index;
            for (node, packed) in nodes.iter().enumerate() {
                if index < packed.len() {
                    return Some((node, index));
                }
                index -= packed.len();
            }
            return None;
        }
        let mut behind = 0;
        for (node, packed) in nodes.iter().enumerate().rev() {
            behind += packed.len();
            if len <= index + behind {
                return Some((node, index + behind - len));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn there_is_always_a_position_between_two() {
        let mut random = Random::new(3);
        let mut positions: Vec<Vec<u8>> = Vec::new();
        for step in 0..20_000 {
            let most = positions.len() as u64 + 1;
            // At the ends, anywhere, and again and again at the same place.
            let index = match step % 4 {
                0 => 0,
                1 => positions.len(),
                2 => random.below(most) as usize,
                _ => positions.len() / 2,
            };
            let before = index.checked_sub(1).and_then(|before| positions.get(before));
            let new = between(before.map(Vec::as_slice), positions.get(index).map(Vec::as_slice));
            assert!(before.is_none_or(|before| *before < new) && positions.get(index).is_none_or(|after| new < *after));
            positions.insert(index, new);
        }
        assert!(positions.iter().all(|position| position.len() < 800));
        assert!(
            positions.first().is_some_and(|first| first.len() == 8)
                && positions.last().is_some_and(|last| last.len() == 8)
        );
    }
}
