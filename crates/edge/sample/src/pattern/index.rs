//! Look-up of the longest of many prefixes.
//!
//! Prefixes are sorted, and each knows the longest other one that it starts with. All prefixes of a key sort at or before
//! the key, and whatever sorts between a prefix of the key and the key starts with that prefix. So the last entry not after
//! the key either is a prefix of it, or descends from all that are: walking up its links meets the longest first.

use std::cmp::Ordering;

/// A prefix: something that can be compared with, and contained in, another.
pub(crate) trait Prefix: Ord {
    /// Whether `self` starts `other`.
    fn starts(&self, other: &Self) -> bool;
}

impl Prefix for Box<[u8]> {
    fn starts(&self, other: &Self) -> bool {
        other.starts_with(self)
    }
}

/// The leading `bits` bits of an address, the others zero. Addresses of both families are held in 128 bits, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits {
    pub(crate) value: u128,
    pub(crate) bits: u32,
}

impl Bits {
    pub(crate) fn v4(address: u32, bits: u32) -> Self {
        Bits { value: u128::from(address) << 96, bits }
    }

    pub(crate) fn v6(value: u128, bits: u32) -> Self {
        Bits { value, bits }
    }
}

impl Prefix for Bits {
    fn starts(&self, other: &Self) -> bool {
        self.bits <= other.bits && (self.value ^ other.value).leading_zeros() >= self.bits
    }
}

#[derive(Clone, Debug)]
struct Entry<P> {
    prefix: P,
    pattern: u32,
    /// The entry of the longest other prefix that this one starts with.
    parent: Option<u32>,
}

/// An index of prefixes, each with the number of its pattern.
#[derive(Clone, Debug)]
pub(crate) struct PrefixIndex<P> {
    entries: Vec<Entry<P>>,
}

impl<P: Prefix> PrefixIndex<P> {
    /// Indexes `prefixes`; of equal ones the first counts.
    pub(crate) fn new(prefixes: impl Iterator<Item = (P, u32)>) -> Self {
        let mut entries: Vec<Entry<P>> =
            prefixes.map(|(prefix, pattern)| Entry { prefix, pattern, parent: None }).collect();
        entries.sort_by(|left, right| left.prefix.cmp(&right.prefix).then(left.pattern.cmp(&right.pattern)));
        entries.dedup_by(|later, earlier| later.prefix == earlier.prefix);
        let mut ancestors: Vec<u32> = Vec::new();
        for position in 0..entries.len() {
            while let Some(last) = ancestors.last() {
                let starts = match (entries.get(*last as usize), entries.get(position)) {
                    (Some(ancestor), Some(entry)) => ancestor.prefix.starts(&entry.prefix),
                    _ => false,
                };
                if starts {
                    break;
                }
                ancestors.pop();
            }
            if let Some(entry) = entries.get_mut(position) {
                entry.parent = ancestors.last().copied();
            }
            ancestors.push(u32::try_from(position).unwrap_or(u32::MAX));
        }
        PrefixIndex { entries }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The pattern of the longest prefix for which `compare` says that it does not sort after the key and `starts` that it
    /// starts the key.
    fn longest(&self, compare: impl Fn(&P) -> Ordering, starts: impl Fn(&P) -> bool) -> Option<u32> {
        let after = self.entries.partition_point(|entry| compare(&entry.prefix) != Ordering::Greater);
        let mut next = after.checked_sub(1);
        while let Some(position) = next {
            let entry = self.entries.get(position)?;
            if starts(&entry.prefix) {
                return Some(entry.pattern);
            }
            next = entry.parent.map(|parent| parent as usize);
        }
        None
    }
}

impl PrefixIndex<Box<[u8]>> {
    /// The pattern of the longest prefix of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.longest(|prefix| (**prefix).cmp(key), |prefix| key.starts_with(prefix))
    }
}

impl PrefixIndex<Bits> {
    /// The pattern of the longest prefix of `key`.
    pub(crate) fn find(&self, key: Bits) -> Option<u32> {
        self.longest(|prefix| prefix.cmp(&key), |prefix| prefix.starts(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> PrefixIndex<Box<[u8]>> {
        PrefixIndex::new((0u32..).zip(words).map(|(number, word)| (Box::from(word.as_bytes()), number)))
    }

    #[test]
    fn the_longest_prefix_wins_wherever_it_stands() {
        let index = texts(&["/", "/api", "/api/v1", "/app", "/api/v1"]);
        for (key, expected) in [
            ("/api/v1/users", Some(2)),
            ("/api/v2", Some(1)),
            ("/apz", Some(0)),
            ("/app", Some(3)),
            ("", None),
            ("x", None),
            ("/zzz", Some(0)),
        ] {
            assert_eq!(index.find(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn look_up_equals_a_linear_search() {
        let words = ["a", "ab", "abc", "abd", "b", "ba", "bac", "c", "ca", "cab", "cabb", "d"];
        let index = texts(&words);
        for first in b'a'..=b'e' {
            for second in b'a'..=b'e' {
                for third in b'a'..=b'e' {
                    let key = [first, second, third, b'b'];
                    let best = (0u32..)
                        .zip(words)
                        .filter(|(_, word)| key.starts_with(word.as_bytes()))
                        .max_by_key(|(_, word)| word.len())
                        .map(|(number, _)| number);
                    assert_eq!(index.find(&key), best, "{key:?}");
                }
            }
        }
    }

    #[test]
    fn networks_are_prefixes_of_bits() {
        let index = PrefixIndex::new(
            [(Bits::v4(0x0a00_0000, 8), 0), (Bits::v4(0x0a01_0000, 16), 1), (Bits::v4(0, 0), 2)].into_iter(),
        );
        assert_eq!(index.find(Bits::v4(0x0a01_0203, 32)), Some(1));
        assert_eq!(index.find(Bits::v4(0x0a02_0203, 32)), Some(0));
        assert_eq!(index.find(Bits::v4(0xc0a8_0001, 32)), Some(2));
    }
}
