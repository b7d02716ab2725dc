//! The nodes of a stream: in memory, or each a record of its own.
//!
//! The record of a node is named by the id that it begins with. The last node, which entries are appended to, stands in the key's
//! own record until it is full: so an entry that is appended writes no record, as with a stream that is kept whole. Entries mostly
//! go from the front; nobody looks for nodes in front of the first one, where there may be many that were removed.

use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::Bound::{Excluded, Included},
};

use crate::{
    elements::{Elements, Span},
    value::{Form, Portions, portions::Rest},
};

use super::{Id, Node};

/// What the records of nodes begin with; the id follows.
const LETTER: u8 = b'e';

/// Nodes by the ids that they begin with.
#[derive(Debug, Clone)]
pub(super) enum Nodes {
    /// In memory.
    Whole(BTreeMap<Id, Node>),
    /// Records.
    Spread(Box<Spread>),
}

/// What is to be known of a node before it is removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    pub(super) id: Id,
    pub(super) live: u64,
    pub(super) last: Id,
}

/// Nodes that are records, but the last one.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    elements: Elements,
    /// The node that entries are appended to.
    pub(super) tail: Option<(Id, Node)>,
    /// How many of the others there are.
    pub(super) len: usize,
    /// None of them begins before this.
    pub(super) from: Id,
    /// The first node, as soon as somebody asked for it.
    first: Cell<Option<Summary>>,
}

fn record(id: Id) -> Vec<u8> {
    let mut record = vec![LETTER];
    record.extend_from_slice(&id.to_bytes());
    record
}

fn id_of(record: &[u8]) -> Option<Id> {
    record.get(1..)?.first_chunk().map(|bytes| Id::from_bytes(*bytes))
}

/// A node in its record.
pub(in crate::value) fn node_in(record: &[u8], value: &[u8]) -> Option<(Id, Node)> {
    let id = id_of(record)?;
    Some((id, Node::decode(id, value)?))
}

impl Summary {
    fn of(id: Id, node: &Node) -> Self {
        Self { id, live: node.live(), last: node.last() }
    }
}

impl Spread {
    /// Those of a collection that is there.
    pub(super) fn new(elements: Elements, tail: Option<(Id, Node)>, len: usize, from: Id) -> Self {
        Self { elements, tail, len, from, first: Cell::new(None) }
    }

    pub(super) fn elements(&self) -> &Elements {
        &self.elements
    }

    pub(super) fn elements_mut(&mut self) -> &mut Elements {
        &mut self.elements
    }

    fn put(&self, id: Id, node: &Node) {
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        self.elements.put(&record(id), &bytes);
    }

    /// Calls with the records between two ids until that says no.
    fn scan(&self, from: Id, to: Id, backwards: bool, each: &mut dyn FnMut(Id, Node) -> bool) {
        if from > to {
            return;
        }
        let (from, to) = (record(from), record(to));
        let span = Span { from: Included(&from), to: Included(&to), backwards };
        let mut is_damaged = false;
        self.elements.scan(span, &mut |record, value| match node_in(record, value) {
            Some((id, node)) => each(id, node),
            None => {
                is_damaged = true;
                false
            }
        });
        if is_damaged {
            self.elements.fail("ERR the record of a stream's node is damaged");
        }
    }

    /// The name that the record of an id's node would have at most; nothing if that node is the one in memory.
    pub(super) fn record_of(&self, id: Id) -> Option<Vec<u8>> {
        let is_in_tail = self.len == 0 || self.tail.as_ref().is_some_and(|(first, _)| *first <= id);
        (!is_in_tail).then(|| record(id.max(self.from)))
    }

    /// The last record that begins with an id or before it.
    fn at(&self, id: Id) -> Option<(Id, Node)> {
        let mut found = None;
        self.scan(self.from, id, true, &mut |id, node| {
            found = Some((id, node));
            false
        });
        found
    }

    fn each(&self, from: Id, to: Id, backwards: bool, each: &mut dyn FnMut(Id, &Node) -> bool) {
        let tail = self.tail.as_ref().filter(|(id, _)| *id <= to);
        if tail.is_some_and(|(id, _)| *id <= from) {
            // Nothing else can have such ids.
            if let Some((id, node)) = tail {
                each(*id, node);
            }
            return;
        }
        if backwards {
            if tail.is_none_or(|(id, node)| each(*id, node)) {
                self.scan(self.from, to, true, &mut |id, node| node.last() >= from && each(id, &node));
            }
            return;
        }
        // The node that a range begins in is the last one that begins before it.
        let begin = if from <= self.from { self.from } else { self.at(from).map_or(from, |(id, _)| id) };
        let mut goes_on = !self.elements.has_failed();
        if goes_on {
            self.scan(begin, to, false, &mut |id, node| {
                goes_on = each(id, &node);
                goes_on
            });
        }
        if let Some((id, node)) = tail.filter(|_| goes_on && !self.elements.has_failed()) {
            each(*id, node);
        }
    }

    fn first(&self) -> Option<Summary> {
        if self.len == 0 {
            return self.tail.as_ref().map(|(id, node)| Summary::of(*id, node));
        }
        if self.first.get().is_none() {
            self.scan(self.from, Id::MAX, false, &mut |id, node| {
                self.first.set(Some(Summary::of(id, &node)));
                false
            });
        }
        self.first.get()
    }

    /// Calls with the nodes in order until that says no, without looking into them.
    fn each_summary(&self, each: &mut dyn FnMut(Summary) -> bool) {
        // Who trims with each entry that is appended mostly finds that the first one stays.
        let Some(first) = self.first() else { return };
        let mut goes_on = each(first);
        if let Some(next) = first.id.next().filter(|_| goes_on && self.len > 0) {
            let (from, to) = (record(next), [LETTER + 1]);
            let span = Span { from: Included(&from), to: Excluded(&to), backwards: false };
            self.elements.scan(span, &mut |record, value| {
                let (live, last) = Node::peek(value);
                goes_on = id_of(record).is_some_and(|id| each(Summary { id, live, last }));
                goes_on
            });
            if let Some((id, node)) = self.tail.as_ref().filter(|_| goes_on) {
                each(Summary::of(*id, node));
            }
        }
    }

    fn push(&mut self, id: Id, node: Node) {
        if let Some((id, node)) = self.tail.replace((id, node)) {
            self.put(id, &node);
            if self.len == 0 {
                self.from = id;
            }
            self.len += 1;
        }
        self.elements.changes();
    }

    fn update(&mut self, id: Id, change: impl FnOnce(Id, &mut Node) -> bool) {
        if let Some((first, node)) = self.tail.as_mut().filter(|(first, _)| *first <= id) {
            if change(*first, node) {
                if node.live() == 0 {
                    self.tail = None;
                }
                self.elements.changes();
            }
            return;
        }
        let Some((first, mut node)) = self.at(id) else { return };
        if !change(first, &mut node) {
            return;
        }
        if node.live() == 0 {
            self.remove(first);
        } else {
            self.first.set(None);
            self.put(first, &node);
        }
    }

    fn remove(&mut self, id: Id) {
        if self.tail.as_ref().is_some_and(|(tail, _)| *tail == id) {
            self.tail = None;
            self.elements.changes();
            return;
        }
        self.elements.delete(&record(id));
        self.len = self.len.saturating_sub(1);
        let is_first = self.first.take().is_some_and(|first| first.id == id);
        if is_first && let Some(next) = id.next() {
            self.from = next;
        }
    }

    /// Removes nodes, the first ones.
    fn remove_first(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.remove(*id));
        let last = ids.last().filter(|last| **last >= self.from);
        if let Some(next) = last.and_then(|last| last.next()) {
            self.from = next;
        }
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Whole(BTreeMap::new())
    }
}

impl Nodes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(nodes) => nodes.len(),
            Self::Spread(spread) => spread.len + usize::from(spread.tail.is_some()),
        }
    }

    /// Whether something could not be read: then nothing is to be changed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Spread(spread) if spread.elements.has_failed())
    }

    /// Says that something is changed that is no record.
    pub(super) fn changes(&self) {
        if let Self::Spread(spread) = self {
            spread.elements.changes();
        }
    }

    /// Makes all of them records but the last one. Returns what they were.
    pub(super) fn spread(&mut self, elements: Elements) -> Self {
        let mut spread = Spread::new(elements, None, 0, Id::MIN);
        if let Self::Whole(nodes) = self {
            nodes.iter().for_each(|(id, node)| spread.push(*id, node.clone()));
        }
        std::mem::replace(self, Self::Spread(Box::new(spread)))
    }

    /// Calls with the nodes that may have entries of a range until that says no.
    pub(super) fn each(&self, from: Id, to: Id, backwards: bool, mut each: impl FnMut(Id, &Node) -> bool) {
        let nodes = match self {
            Self::Whole(nodes) => nodes,
            Self::Spread(spread) => return spread.each(from, to, backwards, &mut each),
        };
        let begin = nodes.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let mut within = nodes.range(begin..=to);
        let _ = if backwards {
            within.rev().all(|(id, node)| each(*id, node))
        } else {
            within.all(|(id, node)| each(*id, node))
        };
    }

    /// The last one, which entries are appended to.
    pub(super) fn last_mut(&mut self) -> Option<(Id, &mut Node)> {
        match self {
            Self::Whole(nodes) => nodes.last_entry().map(|entry| (*entry.key(), entry.into_mut())),
            Self::Spread(spread) => {
                spread.elements.changes();
                spread.tail.as_mut().map(|(id, node)| (*id, node))
            }
        }
    }

    /// Adds one behind the last.
    pub(super) fn push(&mut self, id: Id, node: Node) {
        match self {
            Self::Whole(nodes) => {
                nodes.insert(id, node);
            }
            Self::Spread(spread) => spread.push(id, node),
        }
    }

    /// Changes the node that an id is in; `change` says whether it did. One without entries goes.
    pub(super) fn update(&mut self, id: Id, change: impl FnOnce(Id, &mut Node) -> bool) {
        let nodes = match self {
            Self::Whole(nodes) => nodes,
            Self::Spread(spread) => return spread.update(id, change),
        };
        if let Some((&first, node)) = nodes.range_mut(..=id).next_back()
            && change(first, node)
            && node.live() == 0
        {
            nodes.remove(&first);
        }
    }

    /// Calls with the nodes in order until that says no.
    pub(super) fn each_summary(&self, mut each: impl FnMut(Summary) -> bool) {
        match self {
            Self::Whole(nodes) => {
                let _ = nodes.iter().all(|(id, node)| each(Summary::of(*id, node)));
            }
            Self::Spread(spread) => spread.each_summary(&mut each),
        }
    }

    /// Removes nodes, the first ones.
    pub(super) fn remove_first(&mut self, ids: &[Id]) {
        match self {
            Self::Whole(nodes) => ids.iter().for_each(|id| drop(nodes.remove(id))),
            Self::Spread(spread) => spread.remove_first(ids),
        }
    }

    /// All entries, or so many of them, in portions, if they are records.
    pub(super) fn portions(&self, backwards: bool, left: usize) -> Option<Portions> {
        let Self::Spread(spread) = self else { return None };
        let (from, to) = (Included(record(spread.from)), Excluded(vec![LETTER + 1]));
        let form = Form::Entries { tail: spread.tail.clone().map(Box::new) };
        Some(Portions::new(&spread.elements, form, Rest { from, to, backwards, left }))
    }
}
