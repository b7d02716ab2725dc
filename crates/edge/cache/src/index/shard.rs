//! A part of the index: which objects a digest has, who fetches it, and in which order objects leave.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use hashbrown::{HashTable, hash_table::Entry};
use smallvec::SmallVec;

use super::{Digest, expiry::Expiry, running::Running, waiting::Waiters};
use crate::{
    Time,
    object::{Lifetime, Object},
};

/// A part of the index. Nearly all digests have one object and no fetch, so the two stand apart.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) stored: HashTable<Stored>,
    pub(super) fetches: HashMap<Digest, SmallVec<[Arc<Waiters>; 1]>, BuildHasherDefault<DigestHasher>>,
    pub(super) expiry: Expiry,
    pub(super) running: Running,
}

/// The objects of one digest, one at least. They know the digest.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "two words where nearly all digests need one")]
pub(super) enum Stored {
    One(Arc<Object>),
    /// The newest stands last.
    Many(Box<Vec<Arc<Object>>>),
}

/// A digest is as good as a hash.
#[derive(Default)]
pub(super) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The first bytes choose the shard.
        self.0 = bytes.iter().skip(8).take(8).fold(self.0, |hash, byte| (hash << 8) | u64::from(*byte));
    }
}

impl Digest {
    /// As four numbers.
    pub(crate) fn words(&self) -> [u64; 4] {
        let (words, _) = self.0.as_chunks::<8>();
        std::array::from_fn(|place| words.get(place).copied().map_or(0, u64::from_be_bytes))
    }

    pub(crate) fn of_words(words: [u64; 4]) -> Self {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(words.iter().flat_map(|word| word.to_be_bytes())).for_each(|(to, from)| *to = from);
        Self(bytes)
    }

    /// The second word: the first one chooses the shard.
    fn hash(&self) -> u64 {
        let [_, second, ..] = self.words();
        second
    }
}

impl Stored {
    fn all(&self) -> &[Arc<Object>] {
        match self {
            Self::One(object) => std::slice::from_ref(object),
            Self::Many(objects) => objects,
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.all().first().map_or(0, |object| object.place.hash())
    }

    fn is_of(&self, digest: &Digest) -> bool {
        self.all().first().is_some_and(|object| object.place.is_of(digest))
    }

    fn add(&mut self, object: &Arc<Object>) {
        match self {
            Self::One(first) => *self = Self::Many(Box::new(vec![Arc::clone(first), Arc::clone(object)])),
            Self::Many(objects) => objects.push(Arc::clone(object)),
        }
    }

    /// Takes one of several out; `None` if it is the only one, or none of them.
    fn take(&mut self, object: &Arc<Object>) -> Option<Arc<Object>> {
        let Self::Many(objects) = self else { return None };
        let place = objects.iter().position(|stored| Arc::ptr_eq(stored, object))?;
        let taken = objects.remove(place);
        if let [last] = objects.as_slice() {
            *self = Self::One(Arc::clone(last));
        }
        Some(taken)
    }
}

impl Shard {
    /// The objects of a digest, the newest last.
    pub(super) fn of(&self, digest: &Digest) -> &[Arc<Object>] {
        let stored = self.stored.find(digest.hash(), |stored| stored.is_of(digest));
        stored.map(Stored::all).unwrap_or_default()
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.stored.iter().flat_map(Stored::all)
    }

    /// Whether a digest has anything.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        !self.of(digest).is_empty() || self.fetches.contains_key(digest)
    }

    pub(super) fn add(&mut self, digest: &Digest, object: &Arc<Object>) {
        match self.stored.entry(digest.hash(), |stored| stored.is_of(digest), Stored::hash) {
            Entry::Occupied(mut stored) => stored.get_mut().add(object),
            Entry::Vacant(vacant) => drop(vacant.insert(Stored::One(Arc::clone(object)))),
        }
    }

    /// Takes an object out, if it is there.
    pub(super) fn take(&mut self, digest: &Digest, object: &Arc<Object>) -> Option<Arc<Object>> {
        let mut stored = self.stored.find_entry(digest.hash(), |stored| stored.is_of(digest)).ok()?;
        match stored.get_mut() {
            Stored::One(only) if Arc::ptr_eq(only, object) => match stored.remove() {
                (Stored::One(object), _) => Some(object),
                (Stored::Many(_), _) => None,
            },
            other => other.take(object),
        }
    }
}

impl Shard {
    /// Gives an object a time to live from `now` on, grace and keep; `None` leaves one as it is.
    pub(super) fn shorten(&mut self, object: &Arc<Object>, now: Time, [ttl, grace, keep]: [Option<f64>; 3]) {
        let old = object.lifetime();
        let ttl = ttl.map_or(old.ttl, |ttl| ttl.min(old.ttl).max(0.0) + (now - old.origin).max(0.0));
        let new = Lifetime {
            ttl: ttl.min(old.ttl),
            grace: grace.unwrap_or(old.grace),
            keep: keep.unwrap_or(old.keep),
            ..old
        };
        self.expiry.remove(object);
        object.set_lifetime(new);
        self.expiry.insert(object, new);
        object.persist_lifetime();
    }
}
