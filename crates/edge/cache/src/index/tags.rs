//! Objects by tags (surrogate keys; Varnish's module `xkey`): a page names what it shows, and one word removes all pages that show it.
//!
//! A tag is known while an object in the index has it. What it takes is counted with the object, so tags are bounded with objects.
//!
//! Lock order: a part of the index, then a part of the tags. A purge holds one after the other, never both.

use std::{
    collections::hash_map::Entry,
    hash::{BuildHasher, BuildHasherDefault},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustc_hash::{FxHashMap, FxHasher};

use super::{Cache, Removed, tag_purges::TagPurges};
use crate::{Time, object::Object};

/// Parts that are locked apart.
const PARTS: usize = 64;

/// What a tag of an object takes besides its text, which is stored twice: places in both maps.
const TAG_BYTES: usize = 128;

type Part = FxHashMap<Box<[u8]>, FxHashMap<u64, Weak<Object>>>;

/// Which objects have which tags.
#[derive(Debug)]
pub(super) struct Tags {
    parts: Box<[Mutex<Part>]>,
    /// Pairs of an object and a tag.
    entries: AtomicU64,
    pub(super) purges: TagPurges,
}

impl Default for Tags {
    fn default() -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            entries: AtomicU64::new(0),
            purges: TagPurges::default(),
        }
    }
}

/// The keys in a text like the value of a field `xkey`: between blanks or commas.
pub fn xkeys(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace() || *byte == b',').filter(|key| !key.is_empty())
}

/// Bytes that a tag of an object takes.
pub(crate) fn bytes_of(tag: &[u8]) -> usize {
    TAG_BYTES + 2 * tag.len()
}

impl Tags {
    pub(super) fn insert(&self, object: &Arc<Object>, number: u64) {
        for tag in object.tags() {
            let objects = &mut *self.part(&tag);
            let is_new = objects.entry(tag).or_default().insert(number, Arc::downgrade(object)).is_none();
            self.entries.fetch_add(u64::from(is_new), Relaxed);
        }
    }

    pub(super) fn remove(&self, object: &Object, number: u64) {
        for tag in object.tags() {
            let mut part = self.part(&tag);
            let Entry::Occupied(mut objects) = part.entry(tag) else { continue };
            let was_there = objects.get_mut().remove(&number).is_some();
            self.entries.fetch_sub(u64::from(was_there), Relaxed);
            if objects.get().is_empty() {
                objects.remove();
            }
        }
    }

    fn objects(&self, tag: &[u8]) -> Vec<Arc<Object>> {
        let part = self.part(tag);
        part.get(tag).map(|objects| objects.values().filter_map(Weak::upgrade).collect()).unwrap_or_default()
    }

    fn part(&self, tag: &[u8]) -> MutexGuard<'_, Part> {
        // NOTE: the map uses the upper bits of the same hash.
        let hash = BuildHasherDefault::<FxHasher>::default().hash_one(tag);
        #[expect(clippy::indexing_slicing, reason = "a remainder of their number")]
        self.parts[(hash >> 20) as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Removes all objects that have a tag (`xkey.purge`); their number. What is fetched meanwhile and turns out to have it is not
    /// stored.
    pub fn purge_tag(&self, tag: &[u8]) -> usize {
        self.tags.purges.note(tag);
        let objects = self.tags.objects(tag);
        let count = objects.iter().filter(|object| self.take(object)).count();
        self.counters.purged.fetch_add(count as u64, Relaxed);
        count
    }

    /// All objects that have a tag are stale from `now` on, with their grace and keep (`xkey.softpurge`); their number.
    pub fn soft_purge_tag(&self, tag: &[u8], now: Time) -> usize {
        self.tags.purges.note(tag);
        let objects = self.tags.objects(tag);
        objects.iter().filter(|object| self.make_stale(object, now)).count()
    }

    /// How many tags the objects have, each counted for each object that has it.
    #[must_use]
    pub fn tag_entries(&self) -> u64 {
        self.tags.entries.load(Relaxed)
    }

    /// Removes an object; whether it was there.
    fn take(&self, object: &Arc<Object>) -> bool {
        let Some(digest) = object.digest() else { return false };
        let mut removed = Removed::default();
        let mut shard = self.shard(&digest);
        self.take_out(&mut shard, object, &mut removed);
        drop(shard);
        !removed.0.is_empty()
    }

    fn make_stale(&self, object: &Arc<Object>, now: Time) -> bool {
        let Some(digest) = object.digest() else { return false };
        let mut shard = self.shard(&digest);
        let is_there = !object.is_gone();
        if is_there {
            shard.shorten(object, now, [Some(0.0), None, None]);
        }
        is_there
    }
}
