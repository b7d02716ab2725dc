//! Fetches that run: what is purged while a server makes its response must not come back with that response.

use std::{collections::HashMap, hash::BuildHasherDefault};

use super::{Digest, DigestHasher, Fetch, Shard, tag_purges::TagPurgeNumber};
use crate::bans::Mark;

/// How often the objects of a digest have been purged, since the first of the fetches that run was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purges(u32);

/// What had been purged and banned when the request of a fetch was sent.
#[derive(Debug)]
pub(super) struct AskedAfter {
    /// Of its digest.
    pub(super) purges: Purges,
    /// The last ban.
    pub(super) bans: Mark,
    /// By tags.
    pub(super) tags: TagPurgeNumber,
}

/// All fetches of a part of the index, by digest.
#[derive(Debug, Default)]
pub(super) struct Running(HashMap<Digest, OfDigest, BuildHasherDefault<DigestHasher>>);

#[derive(Debug, Default)]
struct OfDigest {
    fetches: usize,
    purges: Purges,
}

impl Running {
    /// A fetch begins.
    pub(super) fn begin(&mut self, digest: Digest) -> Purges {
        let of_digest = self.0.entry(digest).or_default();
        of_digest.fetches += 1;
        of_digest.purges
    }

    /// The purges that there have been.
    pub(super) fn purges(&self, digest: &Digest) -> Purges {
        self.0.get(digest).map_or(Purges::default(), |of_digest| of_digest.purges)
    }

    /// A fetch ends, whose request was sent after so many purges. Whether none has come since.
    pub(super) fn end(&mut self, digest: &Digest, asked_after: Purges) -> bool {
        let Some(of_digest) = self.0.get_mut(digest) else { return true };
        let is_current = of_digest.purges == asked_after;
        of_digest.fetches -= 1;
        if of_digest.fetches == 0 {
            self.0.remove(digest);
        }
        is_current
    }

    pub(super) fn purge(&mut self, digest: &Digest) {
        if let Some(of_digest) = self.0.get_mut(digest) {
            of_digest.purges.0 = of_digest.purges.0.wrapping_add(1);
        }
    }
}

impl Shard {
    /// What is fetched now of a digest is out of date: it is not stored, and who comes does not wait for it.
    pub(super) fn leave_fetches(&mut self, digest: &Digest) {
        self.running.purge(digest);
        if let Some(fetches) = self.fetches.get_mut(digest) {
            fetches.clear();
        }
    }
}

impl Fetch {
    /// Its request is sent now. What is purged or banned from now on is not to come back by its response: it may have been made before.
    pub fn asks_now(&mut self) {
        let purges = self.cache.shard(&self.digest).running.purges(&self.digest);
        self.asked_after = AskedAfter { purges, bans: self.cache.bans.newest(), tags: self.cache.tags.purges.newest() };
    }

    /// Who fetches has banned something itself, or purged a tag: what it brings is newer.
    pub fn has_banned(&mut self) {
        self.asked_after.bans = self.cache.bans.newest();
        self.asked_after.tags = self.cache.tags.purges.newest();
    }
}
