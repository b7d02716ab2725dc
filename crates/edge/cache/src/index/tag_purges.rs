//! Tags that were purged lately: what a server makes meanwhile has them only when its response comes, and must not be stored then.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

use rustc_hash::FxHashMap;

/// Purges that are remembered.
const PURGES_MAX: usize = 16_384;

/// Bytes of their tags.
const TAG_BYTES_MAX: usize = 1 << 20;

/// How many tags had been purged at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TagPurgeNumber(u64);

/// The tags that were purged lately, each with the number of the last purge.
#[derive(Debug, Default)]
pub(super) struct TagPurges {
    newest: AtomicU64,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    last: FxHashMap<Arc<[u8]>, TagPurgeNumber>,
    in_order: VecDeque<(TagPurgeNumber, Arc<[u8]>)>,
    bytes: usize,
    /// The last purge that is forgotten.
    forgotten: TagPurgeNumber,
}

impl TagPurges {
    /// The purges that there have been.
    pub(super) fn newest(&self) -> TagPurgeNumber {
        TagPurgeNumber(self.newest.load(Acquire))
    }

    /// A tag is purged. To be said before its objects are looked for.
    pub(super) fn note(&self, tag: &[u8]) {
        let mut recent = self.recent();
        let number = TagPurgeNumber(self.newest().0 + 1);
        let tag: Arc<[u8]> = tag.into();
        recent.bytes += tag.len();
        recent.last.insert(Arc::clone(&tag), number);
        recent.in_order.push_back((number, tag));
        while recent.in_order.len() > PURGES_MAX || recent.bytes > TAG_BYTES_MAX {
            recent.forget_oldest();
        }
        self.newest.store(number.0, Release);
    }

    /// Whether one of these tags was purged after `before`. Where that is not known any more it was, so that nothing old is stored.
    pub(super) fn any_since(&self, before: TagPurgeNumber, tags: &[Box<[u8]>]) -> bool {
        if self.newest() == before || tags.is_empty() {
            return false;
        }
        let recent = self.recent();
        recent.forgotten > before
            || tags.iter().any(|tag| recent.last.get(&**tag).is_some_and(|purged| *purged > before))
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn forget_oldest(&mut self) {
        let Some((number, tag)) = self.in_order.pop_front() else { return };
        self.bytes -= tag.len();
        self.forgotten = number;
        if self.last.get(&tag) == Some(&number) {
            self.last.remove(&tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn a_purge_is_about_what_was_asked_for_before() {
        let purges = TagPurges::default();
        let before = purges.newest();
        assert!(!purges.any_since(before, &tags(&["a"])));
        purges.note(b"a");
        let between = purges.newest();
        purges.note(b"b");
        for (since, names, expected) in [
            (before, &["a"][..], true),
            (before, &["b", "c"], true),
            (before, &["c"], false),
            (before, &[], false),
            (between, &["a"], false),
            (between, &["c", "b"], true),
            (purges.newest(), &["a", "b"], false),
        ] {
            assert_eq!(purges.any_since(since, &tags(names)), expected, "{since:?} {names:?}");
        }
    }

    #[test]
    fn what_is_forgotten_counts_as_purged() {
        let purges = TagPurges::default();
        let before = purges.newest();
        for number in 0..PURGES_MAX {
            purges.note(if number % 2 == 0 { b"even" } else { b"odd" });
        }
        assert!(!purges.any_since(before, &tags(&["other"])));
        let at = purges.newest();
        purges.note(b"one more");
        assert!(purges.any_since(before, &tags(&["other"])));
        assert!(!purges.any_since(at, &tags(&["other", "odd"])));
        purges.note(&vec![b'x'; TAG_BYTES_MAX]);
        let recent = purges.recent();
        assert_eq!((recent.in_order.len(), recent.last.len(), recent.bytes), (1, 1, TAG_BYTES_MAX));
    }
}
