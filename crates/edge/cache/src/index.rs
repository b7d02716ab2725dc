//! Finds objects by the digest of a request, for any number of threads; one of the requests that miss fetches for all.
//!
//! ```text
//! lookup ─▶ Hit              fresh: deliver it
//!        ├▶ Grace            stale, but it may answer; with `fetch`, this request has it fetched in the background
//!        ├▶ Miss             this request fetches; with `stale`, the server may be asked whether that has changed
//!        ├▶ Busy             another request fetches: wait, then look again
//!        ├▶ HitForMiss       fetch, but let nobody wait for it
//!        └▶ HitForPass       pass
//! ```
//!
//! A [`Fetch`] ends in one of three ways: an object is published, the response turns out to be for one client alone, or it failed.
//! All who wait are told at once. After the second they look again with [`Query::is_impatient`], so that they do not fetch one after the
//! other; after the third they fail as well, so that a server that cannot answer is not asked by all of them.

mod expiry;
mod running;
mod shard;
mod tag_purges;
mod tags;
mod waiting;

use std::{
    collections::hash_map::Entry,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use http::Headers;
use smallvec::SmallVec;

use crate::{
    Time,
    bans::{BanList, Subject},
    object::{Kind, Object, Variant},
};
use running::AskedAfter;
use shard::{DigestHasher, Shard, Stored};
use tags::Tags;
pub(crate) use tags::bytes_of as bytes_of_tag;
pub use tags::xkeys;
use waiting::Waiters;
pub use waiting::{Outcome, Waiting};

/// Parts of the index that are locked apart.
const SHARDS: usize = 128;

/// What a request is looked up by: a hash of what `vcl_hash` names, nobody can make two alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

/// A request that is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// Its digest.
    pub digest: Digest,
    /// Its URL, for bans.
    pub url: &'q [u8],
    /// Its fields, for `Vary` and bans.
    pub headers: &'q Headers,
    /// When it is looked up.
    pub now: Time,
    /// Objects that are older than this many seconds do not answer (`req.ttl`).
    pub ttl: Option<f64>,
    /// Objects that are stale for longer do not answer (`req.grace`).
    pub grace: Option<f64>,
    /// Nothing answers: it is fetched again (`req.hash_always_miss`).
    pub always_misses: bool,
    /// It does not wait for others (`req.hash_ignore_busy`, or it has waited in vain).
    pub is_impatient: bool,
    /// Nobody waits for what it fetches: it will be of no use to others.
    pub is_unshared: bool,
    /// Any variant answers (`req.hash_ignore_vary`).
    pub ignores_vary: bool,
}

impl<'q> Query<'q> {
    /// A request without wishes of its own.
    #[must_use]
    pub fn new(digest: [u8; 32], url: &'q [u8], headers: &'q Headers, now: Time) -> Self {
        let digest = Digest(digest);
        Self {
            digest,
            url,
            headers,
            now,
            ttl: None,
            grace: None,
            always_misses: false,
            is_impatient: false,
            is_unshared: false,
            ignores_vary: false,
        }
    }
}

/// What there is for a request.
#[derive(Debug)]
pub enum Found {
    /// A fresh object.
    Hit(Arc<Object>),
    /// One that is stale, but may still answer.
    Grace {
        /// It.
        object: Arc<Object>,
        /// Nobody else fetches it: this request is to have that done.
        fetch: Option<Fetch>,
    },
    /// This request fetches it.
    Miss {
        /// The fetch that others wait for.
        fetch: Fetch,
        /// What it may be validated with.
        stale: Option<Arc<Object>>,
    },
    /// Another request fetches it.
    Busy(Waiting),
    /// The last response was not to be stored: this request fetches, and nobody waits for it.
    HitForMiss {
        /// The fetch.
        fetch: Fetch,
        /// What says so.
        object: Arc<Object>,
    },
    /// The request is to be passed.
    HitForPass(Arc<Object>),
}

impl Found {
    fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Hit(object)
            | Self::Grace { object, .. }
            | Self::HitForMiss { object, .. }
            | Self::HitForPass(object) => Some(object),
            Self::Miss { stale, .. } => stale.as_ref(),
            Self::Busy(_) => None,
        }
    }
}

/// What the index counts; the names of varnishstat stand behind.
#[derive(Debug, Default)]
pub struct Counters {
    /// Objects (`n_object`).
    pub objects: AtomicU64,
    /// Digests that have any (`n_objecthead`).
    pub digests: AtomicU64,
    /// Objects whose time was over (`n_expired`).
    pub expired: AtomicU64,
    /// Objects that left to make room (`n_lru_nuked`).
    pub lru_nuked: AtomicU64,
    /// Times that no more objects might leave for one (`n_lru_limited`).
    pub lru_limited: AtomicU64,
    /// Requests that waited for the fetch of another one (`busy_sleep`).
    pub busy_sleep: AtomicU64,
    /// Those that were told to look again (`busy_wakeup`).
    pub busy_wakeup: AtomicU64,
    /// Objects that were purged (`n_obj_purged`).
    pub purged: AtomicU64,
}

/// A cache: objects by digest.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Mutex<Shard>]>,
    bans: BanList,
    tags: Tags,
    next_number: AtomicU64,
    /// What it counts.
    pub counters: Counters,
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bans: BanList::default(),
            tags: Tags::default(),
            next_number: AtomicU64::new(1),
            counters: Counters::default(),
        })
    }

    /// Its bans.
    #[must_use]
    pub fn bans(&self) -> &BanList {
        &self.bans
    }

    /// What there is for a request.
    pub fn lookup(self: &Arc<Self>, query: &Query<'_>) -> Found {
        self.lookup_telling(query, |_| ())
    }

    /// The same; says which objects were found to be banned.
    pub fn lookup_telling(self: &Arc<Self>, query: &Query<'_>, mut is_banned: impl FnMut(&Object)) -> Found {
        loop {
            let mut shard = self.shard(&query.digest);
            let mut removed = Removed::default();
            let found = self.lookup_in(&mut shard, query, &mut removed);
            drop(shard);
            removed.0.iter().for_each(|object| is_banned(object));
            drop(removed);
            // What a former process has stored is looked at when it is found first, without the lock.
            match found.object().filter(|object| !object.is_readable()).cloned() {
                Some(lost) => self.remove(&lost),
                None => return found,
            }
        }
    }

    /// All objects of a digest, the newest last.
    #[must_use]
    pub fn all_of(&self, digest: Digest) -> SmallVec<[Arc<Object>; 2]> {
        let shard = self.shard(&digest);
        shard.of(&digest).iter().cloned().collect()
    }

    /// What is stored for a request, fresh or stale, without a thought of fetching it.
    pub fn peek(&self, query: &Query<'_>) -> Option<Arc<Object>> {
        loop {
            let mut shard = self.shard(&query.digest);
            let mut removed = Removed::default();
            self.remove_banned(&mut shard, query, &mut removed);
            let found = query.best_of(shard.of(&query.digest));
            drop(shard);
            drop(removed);
            let (Candidate::Fresh(object) | Candidate::Stale(object)) = found else { return None };
            if object.is_readable() {
                return (object.kind() == Kind::Ordinary).then_some(object);
            }
            self.remove(&object);
        }
    }

    fn lookup_in(self: &Arc<Self>, shard: &mut Shard, query: &Query<'_>, removed: &mut Removed) -> Found {
        if !query.always_misses {
            self.remove_banned(shard, query, removed);
        }
        let stale = if query.always_misses {
            None
        } else {
            match query.best_of(shard.of(&query.digest)) {
                Candidate::Fresh(object) => match object.kind() {
                    Kind::Ordinary => return Found::Hit(object),
                    Kind::HitForPass if query.fresh_until(&object) > query.now => return Found::HitForPass(object),
                    // NOTE: as in Varnish what has been passed is fetched without waiting for others for a while.
                    Kind::HitForMiss | Kind::HitForPass => {
                        let fetch = self.begin(shard, query, false);
                        return Found::HitForMiss { fetch, object };
                    }
                },
                Candidate::Stale(object) => Some(object),
                Candidate::None => None,
            }
        };
        let usable = stale.as_ref().filter(|object| query.grace_allows(object)).cloned();
        let fetches = shard.fetches.get(&query.digest).map(SmallVec::as_slice).unwrap_or_default();
        let others = fetches.iter().find(|fetch| query.ignores_vary || fetch.is_for(query.headers)).cloned();
        match (others, usable) {
            (Some(_), Some(object)) => Found::Grace { object, fetch: None },
            (Some(fetch), None) if !query.is_impatient => {
                self.counters.busy_sleep.fetch_add(1, Relaxed);
                Found::Busy(fetch.wait())
            }
            (Some(_), None) => Found::Miss { fetch: self.begin(shard, query, false), stale },
            (None, Some(object)) => Found::Grace { object, fetch: Some(self.begin(shard, query, true)) },
            (None, None) => Found::Miss { fetch: self.begin(shard, query, !query.is_unshared), stale },
        }
    }

    /// Removes those of a digest's objects that a ban matches which is newer than the object.
    fn remove_banned(&self, shard: &mut Shard, query: &Query<'_>, removed: &mut Removed) {
        let is_banned = |object: &&Arc<Object>| {
            let subject = Subject { request: Some((query.url, query.headers)), object, now: query.now };
            self.bans.is_banned(&subject)
        };
        let banned: SmallVec<[Arc<Object>; 2]> = shard.of(&query.digest).iter().filter(is_banned).cloned().collect();
        for object in banned {
            self.take_out(shard, &object, removed);
        }
    }

    /// A fetch; others wait for it if `is_awaited`.
    fn begin(self: &Arc<Self>, shard: &mut Shard, query: &Query<'_>, is_awaited: bool) -> Fetch {
        // NOTE: what the response will vary by is not known yet; the last one tells.
        let stored = shard.of(&query.digest).iter().rev();
        let expected = stored.filter_map(|object| object.variant()).find(|variant| !variant.names.is_empty());
        let expected = expected.map(|variant| Variant::of(variant.names.to_vec(), query.headers));
        let waiters = Arc::new(Waiters::new(expected));
        if is_awaited {
            if !shard.has(&query.digest) {
                self.counters.digests.fetch_add(1, Relaxed);
            }
            shard.fetches.entry(query.digest).or_default().push(Arc::clone(&waiters));
        }
        Fetch {
            cache: Arc::clone(self),
            digest: query.digest,
            waiters,
            variant: Variant::default(),
            asked_after: AskedAfter {
                purges: shard.running.begin(query.digest),
                bans: self.bans.newest(),
                tags: self.tags.purges.newest(),
            },
            has_ended: false,
        }
    }

    /// Removes an object, which its readers keep.
    pub fn remove(&self, object: &Arc<Object>) {
        let Some(digest) = object.digest() else { return };
        let mut removed = Removed::default();
        let mut shard = self.shard(&digest);
        self.take_out(&mut shard, object, &mut removed);
        drop(shard);
    }

    /// Removes all objects of a digest; their number.
    pub fn purge(&self, digest: Digest) -> usize {
        let mut removed = Removed::default();
        let mut shard = self.shard(&digest);
        shard.leave_fetches(&digest);
        let stored = shard.of(&digest).to_vec();
        for object in &stored {
            self.take_out(&mut shard, object, &mut removed);
        }
        drop(shard);
        self.counters.purged.fetch_add(stored.len() as u64, Relaxed);
        stored.len()
    }

    /// Gives all objects of a digest these times from `now` on (`purge.soft`); `None` leaves one as it is. Their number.
    pub fn soft_purge(
        &self,
        digest: Digest,
        now: Time,
        ttl: Option<f64>,
        grace: Option<f64>,
        keep: Option<f64>,
    ) -> usize {
        let mut shard = self.shard(&digest);
        shard.leave_fetches(&digest);
        let objects: SmallVec<[Arc<Object>; 2]> = shard.of(&digest).iter().cloned().collect();
        for object in &objects {
            shard.shorten(object, now, [ttl, grace, keep]);
        }
        objects.len()
    }

    /// Removes objects whose time is over: `most` at most. Their number; and when to come again, if anything is left.
    pub fn expire(&self, now: Time, most: usize) -> (usize, Option<Time>) {
        let (mut count, mut next) = (0, None::<Time>);
        for shard in &self.shards {
            let mut removed = Removed::default();
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            while count < most {
                let Some(object) = shard.expiry.due(now) else { break };
                self.take_out(&mut shard, &object, &mut removed);
                count += 1;
            }
            if let Some(first) = shard.expiry.first() {
                next = Some(next.map_or(first, |next| next.min(first)));
            }
        }
        self.counters.expired.fetch_add(count as u64, Relaxed);
        (count, next)
    }

    /// Looks at all objects of one part of the index; `None` behind the last part.
    pub fn objects_of(&self, part: usize) -> Option<Vec<Arc<Object>>> {
        let shard = self.shards.get(part)?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(shard.objects().cloned().collect())
    }

    fn shard(&self, digest: &Digest) -> MutexGuard<'_, Shard> {
        let place = digest.0.first().map_or(0, |first| usize::from(*first) % SHARDS);
        // NOTE: there are as many as the remainder says.
        #[expect(clippy::indexing_slicing, reason = "a remainder of their number")]
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_out(&self, shard: &mut Shard, object: &Arc<Object>, removed: &mut Removed) {
        let (Some(digest), Some(number)) = (object.digest(), object.place.number()) else { return };
        let Some(taken) = shard.take(&digest, object) else { return };
        removed.0.push(taken);
        shard.expiry.remove(object);
        object.is_gone.store(true, Relaxed);
        object.unpersist();
        object.storage().dismiss(object);
        self.tags.remove(object, number);
        self.counters.objects.fetch_sub(1, Relaxed);
        if !shard.has(&digest) {
            self.counters.digests.fetch_sub(1, Relaxed);
        }
    }

    fn put_in(&self, fetch: &mut Fetch, object: &Arc<Object>) {
        let (digest, waiters) = (fetch.digest, &fetch.waiters);
        let AskedAfter { purges, bans, tags } = &fetch.asked_after;
        object.ban_mark.move_back(bans);
        // NOTE: before the part of the index is locked: others may have to leave for it, of the same part too. An object without room for what
        // it varies by answers who waits for it, and nobody else.
        let has_room = object.vary_by(self, std::mem::take(&mut fetch.variant)).is_ok();
        let mut removed = Removed::default();
        let mut shard = self.shard(&digest);
        let is_current = shard.running.end(&digest, *purges);
        let number = self.next_number.fetch_add(1, Relaxed);
        // NOTE: an object is published once; a second place would be lost.
        if !is_current || !has_room || !object.place.set(digest, number) {
            return self.forget_fetch(&mut shard, &digest, waiters);
        }
        self.take_out_superseded(&mut shard, object, &mut removed);
        self.add(&mut shard, digest, object, number);
        // NOTE: when the object can be found by its tags: a purge finds it there, or is found here.
        if self.tags.purges.any_since(*tags, &object.tags()) {
            self.take_out(&mut shard, object, &mut removed);
            return self.forget_fetch(&mut shard, &digest, waiters);
        }
        self.forget_fetch(&mut shard, &digest, waiters);
        drop(shard);
        object.persist();
        if object.is_unwritten() && object.storage().has_much_unwritten() {
            self.remove(object);
        }
    }

    fn add(&self, shard: &mut Shard, digest: Digest, object: &Arc<Object>, number: u64) {
        if !shard.has(&digest) {
            self.counters.digests.fetch_add(1, Relaxed);
        }
        shard.add(&digest, object);
        shard.expiry.insert(object, object.lifetime());
        object.storage().admit(object);
        self.tags.insert(object, number);
        self.counters.objects.fetch_add(1, Relaxed);
    }

    /// Objects get numbers above this one.
    pub(crate) fn number_from(&self, newest: u64) {
        self.next_number.fetch_max(newest.saturating_add(1), Relaxed);
    }

    /// Makes room for about so many objects more.
    pub(crate) fn expect(&self, objects: usize) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.stored.reserve(objects / SHARDS + objects / SHARDS / 16, Stored::hash);
        }
    }

    /// Puts an object into the index that a former process has stored.
    pub(crate) fn put_recovered(&self, digest: Digest, variant: Variant, object: &Arc<Object>, number: u64) {
        if object.vary_by(self, variant).is_ok() && object.place.set(digest, number) {
            self.add(&mut self.shard(&digest), digest, object, number);
        }
    }

    /// What a new object answers instead of is not needed any more.
    fn take_out_superseded(&self, shard: &mut Shard, new: &Object, removed: &mut Removed) {
        let (Some(digest), Some(variant)) = (new.digest(), new.variant()) else { return };
        let is_old = |old: &&Arc<Object>| old.variant().is_some_and(|old| old == variant);
        let old: SmallVec<[Arc<Object>; 2]> = shard.of(&digest).iter().filter(is_old).cloned().collect();
        for object in &old {
            self.take_out(shard, object, removed);
        }
    }

    fn end_fetch(&self, fetch: &Fetch) {
        let mut shard = self.shard(&fetch.digest);
        shard.running.end(&fetch.digest, fetch.asked_after.purges);
        self.forget_fetch(&mut shard, &fetch.digest, &fetch.waiters);
    }

    fn forget_fetch(&self, shard: &mut Shard, digest: &Digest, waiters: &Arc<Waiters>) {
        let Entry::Occupied(mut fetches) = shard.fetches.entry(*digest) else { return };
        fetches.get_mut().retain(|fetch| !Arc::ptr_eq(fetch, waiters));
        if fetches.get().is_empty() {
            fetches.remove();
            if !shard.has(digest) {
                self.counters.digests.fetch_sub(1, Relaxed);
            }
        }
    }
}

/// Objects and their storage hold each other.
impl Drop for Cache {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            let shard = shard.get_mut().unwrap_or_else(PoisonError::into_inner);
            shard.objects().for_each(|object| object.storage().dismiss(object));
        }
    }
}

/// Objects are dropped when no part of the index is locked: a large one takes a while.
#[derive(Debug, Default)]
struct Removed(SmallVec<[Arc<Object>; 2]>);

/// The best of a digest's objects.
enum Candidate {
    Fresh(Arc<Object>),
    Stale(Arc<Object>),
    None,
}

impl Query<'_> {
    /// The object that answers, of those of its digest, the newest last.
    fn best_of(&self, stored: &[Arc<Object>]) -> Candidate {
        let mut stale: Option<&Arc<Object>> = None;
        for object in stored.iter().rev() {
            let answers = object.variant().is_some_and(|variant| self.ignores_vary || variant.answers(self.headers));
            if !answers || object.body().is_broken() {
                continue;
            }
            // NOTE: what says that requests need not wait for each other says so to its end, as in Varnish.
            let lifetime = object.lifetime();
            let after = if object.kind() == Kind::Ordinary { 0.0 } else { lifetime.grace + lifetime.keep };
            if self.fresh_until(object) + after > self.now {
                return Candidate::Fresh(Arc::clone(object));
            }
            if object.kind() == Kind::Ordinary && stale.is_none_or(|best| object.fresh_until() > best.fresh_until()) {
                stale = Some(object);
            }
        }
        stale.map_or(Candidate::None, |object| Candidate::Stale(Arc::clone(object)))
    }

    fn fresh_until(&self, object: &Object) -> Time {
        match self.ttl {
            Some(ttl) => {
                let lifetime = object.lifetime();
                lifetime.origin + lifetime.ttl.min(ttl)
            }
            None => object.fresh_until(),
        }
    }

    fn grace_allows(&self, object: &Object) -> bool {
        let lifetime = object.lifetime();
        let grace = self.grace.map_or(lifetime.grace, |grace| grace.min(lifetime.grace));
        self.fresh_until(object) + grace > self.now
    }
}

/// The fetch of what a request misses. One that is dropped was given up: who waits fetches for itself.
#[derive(Debug)]
pub struct Fetch {
    cache: Arc<Cache>,
    digest: Digest,
    waiters: Arc<Waiters>,
    variant: Variant,
    asked_after: AskedAfter,
    has_ended: bool,
}

impl Fetch {
    /// What is looked up.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The response varies by what the request says in these fields.
    pub fn varies_by(&mut self, variant: Variant) {
        self.variant = variant;
    }

    /// Puts the object into the index, and tells all who wait. Its body may still be on its way.
    pub fn publish(mut self, object: Arc<Object>) {
        self.has_ended = true;
        Arc::clone(&self.cache).put_in(&mut self, &object);
        self.tell(Outcome::Published(object));
    }

    /// The response is for this request alone; all who wait fetch for themselves at once.
    pub fn is_private(mut self) {
        self.end(Outcome::Private);
    }

    /// There is no response, and those who wait get none either but a page of this status.
    pub fn failed(mut self, status: u16) {
        self.end(Outcome::Failed(status));
    }

    /// Whether others wait for it now.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiters.has_any()
    }

    fn end(&mut self, outcome: Outcome) {
        self.has_ended = true;
        self.cache.end_fetch(self);
        self.tell(outcome);
    }

    fn tell(&self, outcome: Outcome) {
        let woken = self.waiters.end(outcome);
        self.cache.counters.busy_wakeup.fetch_add(woken as u64, Relaxed);
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Outcome::Private);
        }
    }
}
