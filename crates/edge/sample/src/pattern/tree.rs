//! Indexes that change: what patterns are kept in once they may be added and removed one by one.
//!
//! Prefixes and networks are kept in order. Whatever contains a key sorts at or before it, so a look-up takes the last entry
//! that is not after the key. If that entry contains the key, no longer one does. If not, the two part somewhere, and all
//! that contains the key ends before that place: the key is cut there and looked up again. Each step shortens the key.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::index::Bits;
use super::parse::{IntegerRange, Network};
use crate::value::Value;

/// A pattern in an index: its element's number, and the value that a map gives for it.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) element: u64,
    pub(crate) value: Option<Value<'static>>,
}

/// The patterns with one key. The first that was added decides; there is hardly ever another.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    first: Slot,
    more: Option<Box<Others>>,
}

/// Behind a pointer of their own, since nearly every key has none.
#[derive(Clone, Debug, Default)]
struct Others(Vec<Slot>);

impl Slots {
    pub(crate) fn new(first: Slot) -> Self {
        Slots { first, more: None }
    }

    pub(crate) fn first(&self) -> &Slot {
        &self.first
    }

    /// Elements have rising numbers, so what comes later goes behind.
    pub(crate) fn add(&mut self, slot: Slot) {
        self.more.get_or_insert_default().0.push(slot);
    }

    /// Takes the element out; true when nothing is left.
    pub(crate) fn remove(&mut self, element: u64) -> bool {
        let Some(Others(more)) = self.more.as_deref_mut() else { return self.first.element == element };
        if self.first.element == element {
            self.first = more.remove(0);
        } else {
            more.retain(|slot| slot.element != element);
        }
        if more.is_empty() {
            self.more = None;
        }
        false
    }

    pub(crate) fn of(&mut self, element: u64) -> Option<&mut Slot> {
        if self.first.element == element {
            return Some(&mut self.first);
        }
        self.more.as_mut()?.0.iter_mut().find(|slot| slot.element == element)
    }
}

/// Strings of which those are found that a string begins with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteTree(BTreeMap<Arc<[u8]>, Slots>);

impl ByteTree {
    pub(crate) fn insert(&mut self, key: Arc<[u8]>, slot: Slot) {
        match self.0.get_mut(&key) {
            Some(slots) => slots.add(slot),
            None => {
                self.0.insert(key, Slots::new(slot));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8], element: u64) {
        if self.0.get_mut(key).is_some_and(|slots| slots.remove(element)) {
            self.0.remove(key);
        }
    }

    pub(crate) fn of(&mut self, key: &[u8], element: u64) -> Option<&mut Slot> {
        self.0.get_mut(key)?.of(element)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(|key| &**key)
    }

    /// Calls `visit` with the length of each key that `subject` begins with, the longest first, until it answers false.
    pub(crate) fn each<'a>(&'a self, subject: &[u8], mut visit: impl FnMut(usize, &'a Slots) -> bool) {
        let mut rest = subject;
        while let Some((key, slots)) = self.0.range::<[u8], _>((Unbounded, Included(rest))).next_back() {
            let shared = key.iter().zip(rest).take_while(|(left, right)| left == right).count();
            if shared < key.len() {
                rest = rest.get(..shared).unwrap_or_default();
                continue;
            }
            if !visit(shared, slots) {
                return;
            }
            let Some(shorter) = shared.checked_sub(1) else { return };
            rest = rest.get(..shorter).unwrap_or_default();
        }
    }

    /// The longest key that `subject` begins with.
    pub(crate) fn longest(&self, subject: &[u8]) -> Option<&Slot> {
        let mut found = None;
        self.each(subject, |_, slots| {
            found = Some(slots.first());
            false
        });
        found
    }

    /// Of the keys that `subject` begins with, the one that was added first.
    pub(crate) fn earliest(&self, subject: &[u8]) -> Option<&Slot> {
        let mut found: Option<&Slot> = None;
        self.each(subject, |_, slots| {
            found = earlier(found, Some(slots.first()));
            true
        });
        found
    }
}

/// The one of two that was added first.
pub(crate) fn earlier<'a>(left: Option<&'a Slot>, right: Option<&'a Slot>) -> Option<&'a Slot> {
    match (left, right) {
        (Some(left), Some(right)) => Some(if left.element <= right.element { left } else { right }),
        (left, right) => left.or(right),
    }
}

/// Networks, of which the longest with an address is found, and IPv4 masks with holes, which are compared one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkTree {
    v4: BTreeMap<Bits, Slots>,
    v6: BTreeMap<Bits, Slots>,
    masked: BTreeMap<u64, (u32, u32, Slot)>,
}

enum NetworkKey {
    V4(Bits),
    V6(Bits),
    Masked(u32, u32),
}

fn network_key(network: Network) -> NetworkKey {
    match network {
        Network::V4 { address, mask } if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
            NetworkKey::V4(Bits::v4(address, mask.leading_ones()))
        }
        Network::V4 { address, mask } => NetworkKey::Masked(address, mask),
        Network::V6 { address, bits } => NetworkKey::V6(Bits::v6(address, bits)),
    }
}

impl NetworkTree {
    pub(crate) fn insert(&mut self, network: Network, slot: Slot) {
        let (tree, bits) = match network_key(network) {
            NetworkKey::V4(bits) => (&mut self.v4, bits),
            NetworkKey::V6(bits) => (&mut self.v6, bits),
            NetworkKey::Masked(address, mask) => {
                self.masked.insert(slot.element, (address, mask, slot));
                return;
            }
        };
        match tree.get_mut(&bits) {
            Some(slots) => slots.add(slot),
            None => {
                tree.insert(bits, Slots::new(slot));
            }
        }
    }

    pub(crate) fn remove(&mut self, network: Network, element: u64) {
        let (tree, bits) = match network_key(network) {
            NetworkKey::V4(bits) => (&mut self.v4, bits),
            NetworkKey::V6(bits) => (&mut self.v6, bits),
            NetworkKey::Masked(..) => {
                self.masked.remove(&element);
                return;
            }
        };
        if tree.get_mut(&bits).is_some_and(|slots| slots.remove(element)) {
            tree.remove(&bits);
        }
    }

    pub(crate) fn of(&mut self, network: Network, element: u64) -> Option<&mut Slot> {
        match network_key(network) {
            NetworkKey::V4(bits) => self.v4.get_mut(&bits)?.of(element),
            NetworkKey::V6(bits) => self.v6.get_mut(&bits)?.of(element),
            NetworkKey::Masked(..) => self.masked.get_mut(&element).map(|(_, _, slot)| slot),
        }
    }

    /// The longest IPv4 network with the address.
    pub(crate) fn v4(&self, address: u32) -> Option<&Slot> {
        longest(&self.v4, Bits::v4(address, 32))
    }

    /// The longest IPv6 network with the address.
    pub(crate) fn v6(&self, address: u128) -> Option<&Slot> {
        longest(&self.v6, Bits::v6(address, 128))
    }

    /// The first mask with holes that the address matches.
    pub(crate) fn masked(&self, address: u32) -> Option<&Slot> {
        self.masked.values().find(|(network, mask, _)| address & mask == *network).map(|(_, _, slot)| slot)
    }

    /// Whether the element of this number is among those that are compared one by one.
    pub(crate) fn is_masked(&self, element: u64) -> bool {
        self.masked.contains_key(&element)
    }
}

fn longest(tree: &BTreeMap<Bits, Slots>, key: Bits) -> Option<&Slot> {
    let mut rest = key;
    loop {
        let (bits, slots) = tree.range(..=rest).next_back()?;
        let shared = (bits.value ^ rest.value).leading_zeros().min(rest.bits);
        if shared >= bits.bits {
            return Some(slots.first());
        }
        // NOTE: the entry has more bits than it shares with the key, so this one is shorter than the key was.
        rest = Bits { value: key.value & u128::MAX.checked_shl(128 - shared).unwrap_or(0), bits: shared };
    }
}

/// Ranges of integers, of which the one that was added first is found.
///
/// Those that do not overlap, which is nearly all of them, are looked up by where they start; the others one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeTree {
    apart: BTreeMap<i64, (i64, Slot)>,
    overlapping: BTreeMap<u64, (IntegerRange, Slot)>,
}

impl RangeTree {
    pub(crate) fn insert(&mut self, range: IntegerRange, slot: Slot) {
        let (least, most) = (range.least.unwrap_or(i64::MIN), range.most.unwrap_or(i64::MAX));
        let before = self.apart.range(..=most).next_back();
        if before.is_some_and(|(_, (end, _))| *end >= least) {
            self.overlapping.insert(slot.element, (range, slot));
        } else {
            self.apart.insert(least, (most, slot));
        }
    }

    pub(crate) fn remove(&mut self, range: IntegerRange, element: u64) {
        let least = range.least.unwrap_or(i64::MIN);
        if self.apart.get(&least).is_some_and(|(_, slot)| slot.element == element) {
            self.apart.remove(&least);
        } else {
            self.overlapping.remove(&element);
        }
    }

    pub(crate) fn of(&mut self, range: IntegerRange, element: u64) -> Option<&mut Slot> {
        let least = range.least.unwrap_or(i64::MIN);
        match self.apart.get_mut(&least) {
            Some((_, slot)) if slot.element == element => Some(slot),
            _ => self.overlapping.get_mut(&element).map(|(_, slot)| slot),
        }
    }

    pub(crate) fn find(&self, value: i64) -> Option<&Slot> {
        let apart = self.apart.range(..=value).next_back().filter(|(_, (end, _))| *end >= value);
        let apart = apart.map(|(_, (_, slot))| slot);
        let most = apart.map_or(u64::MAX, |slot| slot.element);
        let overlapping = self.overlapping.range(..most).find(|(_, (range, _))| range.contains(value));
        overlapping.map(|(_, (_, slot))| slot).or(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(element: u64) -> Slot {
        Slot { element, value: None }
    }

    fn element(slot: Option<&Slot>) -> Option<u64> {
        slot.map(|slot| slot.element)
    }

    proptest! {
        /// Strings over three letters, some of them taken out again, are found like by looking at each.
        #[test]
        fn prefixes_like_one_by_one(
            words in prop::collection::vec("[abc]{0,5}", 0..40),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            subjects in prop::collection::vec("[abc]{0,8}", 1..20),
        ) {
            let mut tree = ByteTree::default();
            let mut alive: Vec<(u64, &str)> = (0u64..).zip(words.iter().map(String::as_str)).collect();
            for (number, word) in &alive {
                tree.insert(Arc::from(word.as_bytes()), slot(*number));
            }
            for index in removed {
                if !alive.is_empty() {
                    let (number, word) = alive.remove(index.index(alive.len()));
                    tree.remove(word.as_bytes(), number);
                }
            }
            for subject in subjects {
                let matching = || alive.iter().filter(|(_, word)| subject.starts_with(word));
                let earliest = matching().map(|(number, _)| *number).min();
                let length = matching().map(|(_, word)| word.len()).max();
                let longest = matching().filter(|(_, word)| Some(word.len()) == length).map(|(number, _)| *number).min();
                prop_assert_eq!(element(tree.earliest(subject.as_bytes())), earliest);
                prop_assert_eq!(element(tree.longest(subject.as_bytes())), longest);
            }
        }

        #[test]
        fn networks_like_one_by_one(
            networks in prop::collection::vec((any::<u8>(), 0u32..=32), 0..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            addresses in prop::collection::vec(any::<u8>(), 1..20),
        ) {
            // Addresses of few different bits at both ends, so that networks contain each other.
            let spread = |byte: u8| u32::from(byte & 0xf0) << 24 | u32::from(byte & 0x0f);
            let mut tree = NetworkTree::default();
            let mut alive = Vec::new();
            for (number, (address, bits)) in (0u64..).zip(networks) {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                let network = Network::V4 { address: spread(address) & mask, mask };
                tree.insert(network, slot(number));
                alive.push((number, spread(address) & mask, mask, network));
            }
            for index in removed {
                if !alive.is_empty() {
                    let (number, _, _, network) = alive.remove(index.index(alive.len()));
                    tree.remove(network, number);
                }
            }
            for address in addresses {
                let address = spread(address);
                let matching = alive.iter().filter(|(_, network, mask, _)| address & mask == *network);
                let best = matching.max_by_key(|(number, _, mask, _)| (mask.leading_ones(), std::cmp::Reverse(*number)));
                prop_assert_eq!(element(tree.v4(address)), best.map(|(number, ..)| *number));
            }
        }

        #[test]
        fn ranges_like_one_by_one(
            ranges in prop::collection::vec((prop::option::of(-20i64..20), prop::option::of(0i64..8)), 0..40),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            values in prop::collection::vec(-25i64..30, 1..20),
        ) {
            let mut tree = RangeTree::default();
            let mut alive = Vec::new();
            for (number, (least, length)) in (0u64..).zip(ranges) {
                let range = IntegerRange { least, most: length.map(|length| least.unwrap_or(0) + length) };
                tree.insert(range, slot(number));
                alive.push((number, range));
            }
            for index in removed {
                if !alive.is_empty() {
                    let (number, range) = alive.remove(index.index(alive.len()));
                    prop_assert_eq!(tree.of(range, number).map(|slot| slot.element), Some(number));
                    tree.remove(range, number);
                }
            }
            for value in values {
                let first = alive.iter().find(|(_, range)| range.contains(value)).map(|(number, _)| *number);
                prop_assert_eq!(element(tree.find(value)), first);
            }
        }
    }
}
