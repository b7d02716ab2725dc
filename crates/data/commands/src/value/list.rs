//! Lists: nodes of packed strings, as Redis' quicklists are.
//!
//! A node holds up to `list-max-listpack-size`, so an end is reached at once, what is in the middle by stepping over nodes
//! without looking into them, and no change moves more than a node's bytes.

use std::collections::VecDeque;

use super::packed::Packed;

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
    nodes: VecDeque<Packed>,
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
        let nodes: usize = self.nodes.iter().map(Packed::heap_bytes).sum();
        nodes + self.nodes.capacity() * size_of::<Packed>()
    }

    /// Whether it has more elements than are kept whole: it is always kept whole.
    pub(super) fn is_beyond(&self, _: usize) -> bool {
        false
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        self.nodes.len() > 64
    }

    /// Frees a node of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        self.nodes.pop_back().is_some()
    }

    /// The nodes, each with its elements in order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Packed> {
        self.nodes.iter()
    }

    /// Puts an element at an end.
    pub fn push(&mut self, end: End, string: &[u8], limit: NodeLimit) {
        let node = match end {
            End::Head => self.nodes.front_mut(),
            End::Tail => self.nodes.back_mut(),
        };
        let node = node.filter(|node| limit.has_room(node, string));
        match (end, node) {
            (End::Head, Some(node)) => node.push_front(string),
            (End::Tail, Some(node)) => node.push_back(string),
            (End::Head, None) => self.nodes.push_front(Self::node_of(string)),
            (End::Tail, None) => self.nodes.push_back(Self::node_of(string)),
        }
        self.len += 1;
    }

    fn node_of(string: &[u8]) -> Packed {
        let mut node = Packed::new();
        node.push_back(string);
        node
    }

    /// The element at an end.
    pub fn peek(&self, end: End) -> Option<&[u8]> {
        match end {
            End::Head => self.nodes.front()?.front(),
            End::Tail => self.nodes.back()?.back(),
        }
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
        let mut left = count.min(self.len.saturating_sub(from));
        if left == 0 {
            return;
        }
        let Some(Spot { mut node, mut index }) = self.spot(from) else { return };
        self.len -= left;
        let first = node;
        while left > 0 {
            let Some(packed) = self.nodes.get_mut(node) else { break };
            let here = left.min(packed.len() - index);
            left -= here;
            if here == packed.len() {
                // Whole nodes go together below.
                *packed = Packed::new();
            } else {
                packed.remove_range(index, here);
            }
            index = 0;
            node += 1;
        }
        let emptied = |nodes: &VecDeque<Packed>, at: usize| nodes.get(at).is_some_and(Packed::is_empty);
        let begin = if emptied(&self.nodes, first) { first } else { first + 1 };
        let end = if node > begin && !emptied(&self.nodes, node - 1) { node - 1 } else { node };
        if begin < end {
            self.nodes.drain(begin..end);
        }
    }

    /// Where the element of a number is. Steps over nodes from the nearer end.
    fn spot(&self, index: usize) -> Option<Spot> {
        if index <= self.len / 2 {
            let mut index = index;
            for (node, packed) in self.nodes.iter().enumerate() {
                if index < packed.len() {
                    return Some(Spot { node, index });
                }
                index -= packed.len();
            }
            return None;
        }
        let mut behind = 0;
        for (node, packed) in self.nodes.iter().enumerate().rev() {
            behind += packed.len();
            if self.len <= index + behind {
                return Some(Spot { node, index: index + behind - self.len });
            }
        }
        None
    }

    /// The element of a number.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.len {
            return None;
        }
        let Spot { node, index } = self.spot(index)?;
        self.nodes.get(node)?.get(index)
    }

    /// Gives the element of a number another value.
    pub fn set(&mut self, index: usize, string: &[u8], limit: NodeLimit) {
        if index >= self.len {
            return;
        }
        let Some(spot) = self.spot(index) else { return };
        let Some(node) = self.nodes.get_mut(spot.node) else { return };
        let at = node.place(spot.index);
        let former = node.at(at).map_or(0, <[u8]>::len);
        let size = node.size() - Packed::entry_size(former) + Packed::entry_size(string.len());
        if node.len() == 1 || size <= limit.size {
            node.replace(at, string);
            return;
        }
        node.remove(at);
        self.len -= 1;
        self.insert_at(spot, string, limit);
    }

    /// Puts an element before the one at a spot, or behind the last of the node.
    fn insert_at(&mut self, spot: Spot, string: &[u8], limit: NodeLimit) {
        let Some(node) = self.nodes.get_mut(spot.node) else { return };
        self.len += 1;
        if limit.has_room(node, string) {
            node.insert(node.place(spot.index), string);
            return;
        }
        let tail = node.split_off(spot.index);
        if limit.has_room(node, string) {
            node.push_back(string);
            if !tail.is_empty() {
                self.nodes.insert(spot.node + 1, tail);
            }
            return;
        }
        let empty = node.is_empty();
        let at = spot.node + usize::from(!empty);
        let new = Self::node_of(string);
        if empty {
            if let Some(node) = self.nodes.get_mut(at) {
                *node = new;
            }
        } else {
            self.nodes.insert(at, new);
        }
        if !tail.is_empty() {
            self.nodes.insert(at + 1, tail);
        }
    }

    /// Puts an element beside the first one that equals `pivot`. Returns whether there is one.
    pub fn insert_beside(&mut self, pivot: &[u8], after: bool, string: &[u8], limit: NodeLimit) -> bool {
        let found = self.nodes.iter().enumerate().find_map(|(node, packed)| {
            packed.iter().position(|element| element == pivot).map(|index| Spot { node, index })
        });
        let Some(spot) = found else { return false };
        self.insert_at(Spot { index: spot.index + usize::from(after), ..spot }, string, limit);
        true
    }

    /// Takes elements that equal a string out, at most as many, beginning at an end. Returns how many.
    pub fn remove_equal(&mut self, string: &[u8], from: End, at_most: usize, limit: NodeLimit) -> usize {
        let mut left = at_most;
        let mut at = if from == End::Head { 0 } else { self.nodes.len() };
        while left > 0 {
            let node = match from {
                End::Head => at,
                End::Tail => match at.checked_sub(1) {
                    Some(node) => node,
                    None => break,
                },
            };
            let Some(packed) = self.nodes.get_mut(node) else { break };
            let equal = packed.iter().filter(|element| *element == string).count();
            let here = equal.min(left);
            if here > 0 {
                // From the tail the first ones of the node are those that may have to stay.
                let mut stay = if from == End::Tail { equal - here } else { 0 };
                let mut go = here;
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
                left -= here;
                self.len -= here;
            }
            let gone = here > 0 && self.settle(node, limit);
            at = match from {
                End::Head => node + usize::from(!gone),
                End::Tail => node,
            };
        }
        at_most - left
    }

    /// Removes a node that is empty, or joins a small one with the one before. Returns whether it is gone.
    fn settle(&mut self, at: usize, limit: NodeLimit) -> bool {
        let Some(node) = self.nodes.get(at) else { return false };
        if node.is_empty() {
            self.nodes.remove(at);
            return true;
        }
        let Some(before) = at.checked_sub(1).and_then(|before| self.nodes.get(before)) else { return false };
        if !limit.fits_both(before, node) {
            return false;
        }
        let Some(node) = self.nodes.remove(at) else { return false };
        if let Some(before) = self.nodes.get_mut(at - 1) {
            before.append(&node);
        }
        true
    }

    /// The elements from a number on.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let spot = if index < self.len { self.spot(index) } else { None };
        let (node, within) = spot.map_or((self.nodes.len(), 0), |spot| (spot.node, spot.index));
        self.nodes
            .iter()
            .skip(node)
            .enumerate()
            .flat_map(move |(turn, packed)| packed.iter().skip(if turn == 0 { within } else { 0 }))
    }

    /// All elements from head to tail.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.nodes.iter().flat_map(Packed::iter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(bool, u8, usize),
        Drop(bool, usize),
        RemoveRange(usize, usize),
        Set(usize, u8, usize),
        Insert(u8, bool, u8),
        RemoveEqual(u8, bool, usize),
    }

    fn end(tail: bool) -> End {
        if tail { End::Tail } else { End::Head }
    }

    fn string(byte: u8, len: usize) -> Vec<u8> {
        vec![byte; len + 1]
    }

    fn step() -> impl Strategy<Value = Step> {
        let byte = 0..4u8;
        let len = prop_oneof![4 => 0..2usize, 1 => 0..60usize];
        prop_oneof![
            6 => (any::<bool>(), byte.clone(), len.clone()).prop_map(|(tail, byte, len)| Step::Push(tail, byte, len)),
            1 => (any::<bool>(), 0..6usize).prop_map(|(tail, count)| Step::Drop(tail, count)),
            1 => (any::<usize>(), 0..30usize).prop_map(|(from, count)| Step::RemoveRange(from, count)),
            2 => (any::<usize>(), byte.clone(), len).prop_map(|(index, byte, len)| Step::Set(index, byte, len)),
            2 => (byte.clone(), any::<bool>(), byte.clone()).prop_map(|(pivot, after, byte)| Step::Insert(pivot, after, byte)),
            1 => (byte, any::<bool>(), 0..8usize).prop_map(|(byte, tail, most)| Step::RemoveEqual(byte, tail, most)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn it_is_a_vector_of_strings(steps in prop::collection::vec(step(), 1..200), by_len in any::<bool>()) {
            let limit = if by_len { NodeLimit { len: 3, size: 8192 } } else { NodeLimit { len: usize::MAX, size: 40 } };
            let mut list = List::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for step in steps {
                let len = model.len();
                match step {
                    Step::Push(tail, byte, len) => {
                        list.push(end(tail), &string(byte, len), limit);
                        model.insert(if tail { model.len() } else { 0 }, string(byte, len));
                    }
                    Step::Drop(tail, count) => {
                        let count = count.min(len);
                        list.drop_at(end(tail), count);
                        if tail { model.truncate(len - count) } else { model.drain(..count); }
                    }
                    Step::RemoveRange(from, count) if len > 0 => {
                        let from = from % len;
                        list.remove_range(from, count);
                        model.drain(from..(from + count).min(len));
                    }
                    Step::Set(index, byte, size) if len > 0 => {
                        list.set(index % len, &string(byte, size), limit);
                        model[index % len] = string(byte, size);
                    }
                    Step::Insert(pivot, after, byte) => {
                        let found = model.iter().position(|element| *element == string(pivot, 0));
                        let done = list.insert_beside(&string(pivot, 0), after, &string(byte, 0), limit);
                        prop_assert_eq!(done, found.is_some());
                        if let Some(found) = found {
                            model.insert(found + usize::from(after), string(byte, 0));
                        }
                    }
                    Step::RemoveEqual(byte, tail, most) => {
                        let wanted = string(byte, 0);
                        let mut places: Vec<usize> = (0..len).filter(|place| model[*place] == wanted).collect();
                        if tail { places.reverse(); }
                        places.truncate(most);
                        prop_assert_eq!(list.remove_equal(&wanted, end(tail), most, limit), places.len());
                        places.sort_unstable();
                        places.into_iter().rev().for_each(|place| { model.remove(place); });
                    }
                    _ => {}
                }
                prop_assert_eq!(list.len(), model.len());
                prop_assert!(list.iter().eq(model.iter().map(Vec::as_slice)));
                prop_assert!(list.iter().rev().eq(model.iter().rev().map(Vec::as_slice)));
                prop_assert!(list.nodes().all(|node| !node.is_empty()));
                prop_assert!(list.nodes().all(|node| node.len() == 1 || node.len() <= limit.len && node.size() <= limit.size));
                for (index, string) in model.iter().enumerate() {
                    prop_assert_eq!(list.get(index), Some(string.as_slice()));
                }
                let from = len / 3;
                prop_assert!(list.iter_from(from).eq(model.iter().skip(from).map(Vec::as_slice)));
                prop_assert_eq!(list.peek(End::Tail), model.last().map(Vec::as_slice));
            }
        }
    }
}
