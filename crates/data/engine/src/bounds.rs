//! Which records a scan is about.

use std::ops::Bound;

use crate::{Key, RESERVED_PREFIX};

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// An interval of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Where the smallest key may be.
    pub from: Bound<Key>,
    /// Where the largest key may be.
    pub to: Bound<Key>,
}

impl Bounds {
    /// All records.
    pub fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// All records whose keys begin so.
    pub fn prefix(prefix: &[u8]) -> Self {
        let to = match successor(prefix) {
            Some(end) => Bound::Excluded(Key::from(end)),
            None => Bound::Unbounded,
        };
        Self { from: Bound::Included(Key::from(prefix)), to }
    }

    /// The same interval without the keys up to and with `key`, seen in that direction: what is left of a scan.
    #[must_use]
    pub fn behind(&self, key: &Key, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self { from: Bound::Excluded(key.clone()), to: self.to.clone() },
            Direction::Backward => Self { from: self.from.clone(), to: Bound::Excluded(key.clone()) },
        }
    }

    /// The same interval up to and with `key`, seen in that direction.
    #[must_use]
    pub fn until(&self, key: &Key, direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self { from: self.from.clone(), to: Bound::Included(key.clone()) },
            Direction::Backward => Self { from: Bound::Included(key.clone()), to: self.to.clone() },
        }
    }

    /// Whether a key lies in the interval.
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match &self.from {
            Bound::Included(from) => key >= from.as_ref(),
            Bound::Excluded(from) => key > from.as_ref(),
            Bound::Unbounded => true,
        };
        let below = match &self.to {
            Bound::Included(to) => key <= to.as_ref(),
            Bound::Excluded(to) => key < to.as_ref(),
            Bound::Unbounded => true,
        };
        above && below
    }

    /// Whether no key can lie in the interval. Maps of the standard library panic when asked for such a range.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            _ => false,
        }
    }

    /// The interval without reserved keys.
    pub(crate) fn public(&self) -> Self {
        let end = match &self.to {
            Bound::Included(to) | Bound::Excluded(to) if to.as_ref() < RESERVED_PREFIX.as_slice() => self.to.clone(),
            _ => Bound::Excluded(Key::from(RESERVED_PREFIX)),
        };
        Self { from: self.from.clone(), to: end }
    }

    /// For maps and engines that take a range.
    pub(crate) fn as_range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(AsRef::as_ref), self.to.as_ref().map(AsRef::as_ref))
    }
}

/// The least key that is larger than all that begin with `prefix`.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        for (prefix, end) in [
            (&b"a"[..], Some(&b"b"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"", None),
            (b"a\x00", Some(b"a\x01")),
        ] {
            assert_eq!(successor(prefix).as_deref(), end, "{prefix:?}");
            let bounds = Bounds::prefix(prefix);
            assert!(bounds.contains(&[prefix, b"\xff\xff\xff"].concat()));
            assert!(end.is_none_or(|end| !bounds.contains(end)));
        }
    }

    #[test]
    fn what_is_left_of_a_scan_begins_behind_the_last_key() {
        let bounds = Bounds::prefix(b"a");
        let key = Key::from(b"ab");
        let forward = bounds.behind(&key, Direction::Forward);
        assert!(!forward.contains(b"ab") && forward.contains(b"ab\0") && !forward.contains(b"b"));
        let backward = bounds.behind(&key, Direction::Backward);
        assert!(!backward.contains(b"ab") && backward.contains(b"aa") && backward.contains(b"a"));
        assert!(bounds.until(&key, Direction::Forward).contains(b"ab"));
        assert!(bounds.until(&key, Direction::Backward).contains(b"ac"));
        assert!(!bounds.until(&key, Direction::Backward).contains(b"aa"));
    }

    #[test]
    fn empty_intervals_are_known() {
        let key = |text: &str| Key::from(text);
        for (from, to, empty) in [
            (Bound::Included(key("b")), Bound::Included(key("a")), true),
            (Bound::Included(key("a")), Bound::Included(key("a")), false),
            (Bound::Excluded(key("a")), Bound::Included(key("a")), true),
            (Bound::Included(key("a")), Bound::Excluded(key("a")), true),
            (Bound::Unbounded, Bound::Excluded(key("a")), false),
        ] {
            assert_eq!(Bounds { from: from.clone(), to: to.clone() }.is_empty(), empty, "{from:?} {to:?}");
        }
    }

    #[test]
    fn reserved_keys_are_outside() {
        let all = Bounds::all().public();
        assert!(all.contains(b"\xff\xfe\xff") && !all.contains(b"\xff\xff") && !all.contains(b"\xff\xffa"));
        assert_eq!(Bounds::prefix(b"a").public(), Bounds::prefix(b"a"));
    }
}
