//! Where an object stands in the index.

use std::sync::{
    Arc, LazyLock,
    atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use crate::index::Digest;

/// Which requests of those with the same digest an object answers: what they say in the fields that `Vary` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The fields' names in small letters.
    pub names: Arc<[Vec<u8>]>,
    /// What the request said in them ([`crate::policy::vary::key`]).
    pub key: Box<[u8]>,
}

/// That of nearly all objects.
pub(super) static ANY: LazyLock<Variant> = LazyLock::new(Variant::default);

impl Variant {
    /// The variant that `request` asks for where the response varies by `names`.
    #[must_use]
    pub fn of(names: Vec<Vec<u8>>, request: &http::Headers) -> Self {
        let key = crate::policy::vary::key(&names, request).into_boxed_slice();
        Self { names: names.into(), key }
    }

    /// Whether `request` asks for it.
    #[must_use]
    pub fn answers(&self, request: &http::Headers) -> bool {
        self.names.is_empty() || *crate::policy::vary::key(&self.names, request) == *self.key
    }

    /// Whether it says nothing.
    pub(super) fn is_any(&self) -> bool {
        self.names.is_empty() && self.key.is_empty()
    }

    /// Bytes of memory that it takes beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_name = |name: &Vec<u8>| size_of::<Vec<u8>>() + super::sizes::allocated(name.capacity());
        self.names.iter().map(of_name).sum::<usize>() + super::sizes::allocated(self.key.len())
    }
}

/// The digest that an object is found by and its number; nothing of both before it is published. It is published once.
#[derive(Debug, Default)]
pub(crate) struct PublishedKey {
    digest: [AtomicU64; 4],
    number: AtomicU64,
}

/// The number of one that is being published.
const BEGUN: u64 = u64::MAX;

impl PublishedKey {
    /// Says where it is; whether nobody has said so before.
    pub(crate) fn set(&self, digest: Digest, number: u64) -> bool {
        if self.number.compare_exchange(0, BEGUN, AcqRel, Relaxed).is_err() {
            return false;
        }
        for (to, from) in self.digest.iter().zip(digest.words()) {
            to.store(from, Relaxed);
        }
        self.number.store(number, Release);
        true
    }

    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.number.load(Acquire)).filter(|number| !matches!(*number, 0 | BEGUN))
    }

    pub(crate) fn digest(&self) -> Option<Digest> {
        self.number()?;
        let [first, second, third, fourth] = &self.digest;
        Some(Digest::of_words([first, second, third, fourth].map(|word| word.load(Relaxed))))
    }

    /// Whether it is this digest's.
    pub(crate) fn is_of(&self, digest: &Digest) -> bool {
        self.digest.iter().zip(digest.words()).all(|(own, other)| own.load(Relaxed) == other)
    }

    /// The word of the digest that [`Digest::hash`] is. 0 before it is published.
    pub(crate) fn hash(&self) -> u64 {
        let [_, second, ..] = &self.digest;
        second.load(Relaxed)
    }

    /// The word of the digest that nothing else is chosen by.
    pub(crate) fn other_hash(&self) -> u64 {
        let [.., last] = &self.digest;
        last.load(Relaxed)
    }
}
