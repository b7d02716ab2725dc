//! Keys that are compared without being looked up.
//!
//! A key of more than 20 bytes lies somewhere else in memory, and a search in a map of 200,000 compares some eighteen keys: as
//! many cache misses. So the map has the first sixteen bytes of each key beside it, as two numbers. For the keys of records that
//! is slot, kind, database and the hash or version behind, which nearly always decides.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::Key;

/// The first sixteen bytes as numbers, zeros behind a shorter key. Where two heads differ, their keys sort like them.
type Head = [u64; 2];

fn head(key: &[u8]) -> Head {
    let mut bytes = [0; 16];
    match (key.first_chunk::<16>(), bytes.get_mut(..key.len())) {
        (Some(first), _) => bytes = *first,
        (None, Some(begin)) => begin.copy_from_slice(key),
        (None, None) => {}
    }
    let both = u128::from_be_bytes(bytes);
    [(both >> 64) as u64, both as u64]
}

/// A key in a map.
#[derive(Debug, Clone)]
pub(super) struct Ordered {
    head: Head,
    key: Key,
}

/// A key to look for.
pub(super) struct Sought<'a> {
    head: Head,
    key: &'a [u8],
}

/// What both are compared by, so that looking for a key copies none.
pub(super) trait Comparable {
    fn parts(&self) -> (Head, &[u8]);
}

impl Ordered {
    pub(super) fn new(key: Key) -> Self {
        Self { head: head(&key), key }
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }
}

impl<'a> Sought<'a> {
    pub(super) fn new(key: &'a [u8]) -> Self {
        Self { head: head(key), key }
    }
}

impl Comparable for Ordered {
    fn parts(&self) -> (Head, &[u8]) {
        (self.head, &self.key)
    }
}

impl Comparable for Sought<'_> {
    fn parts(&self) -> (Head, &[u8]) {
        (self.head, self.key)
    }
}

impl<'a> Borrow<dyn Comparable + 'a> for Ordered {
    fn borrow(&self) -> &(dyn Comparable + 'a) {
        self
    }
}

fn compare((head, key): (Head, &[u8]), (other_head, other): (Head, &[u8])) -> Ordering {
    head.cmp(&other_head).then_with(|| key.cmp(other))
}

impl Ord for dyn Comparable + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.parts(), other.parts())
    }
}

impl PartialOrd for dyn Comparable + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Comparable + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for dyn Comparable + '_ {}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.parts(), other.parts())
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered {}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Keys that are often equal at their beginning, with zeros, around the length of a head.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        (0..20_usize, vec(0..2_u8, 0..6)).prop_map(|(len, end)| [vec![7; len], end].concat())
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_bytes_do(a in key(), b in key()) {
            let (first, second) = (Ordered::new(Key::from(a.as_slice())), Ordered::new(Key::from(b.as_slice())));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
            let sought = Sought::new(&b);
            let sought: &dyn Comparable = &sought;
            let first: &dyn Comparable = first.borrow();
            prop_assert_eq!(first.cmp(sought), a.cmp(&b));
        }
    }
}
