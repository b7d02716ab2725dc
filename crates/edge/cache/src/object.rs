//! What a cache stores: the head of a response, its times and its body.
//!
//! There may be a million of them, so an object is small: its head is one piece of bytes, what few objects have is apart, and its digest
//! stands here alone: the index finds objects by it, and has nothing but pointers to them.

mod filler;
mod lifetime;
mod place;
mod sizes;

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{ResponseHead, StoredHead};
use lifetime::Times;
pub(crate) use place::PublishedKey;
use sizes::allocated;

pub use filler::Filler;
pub use lifetime::Lifetime;
pub use place::Variant;

use crate::{
    Time,
    bans::Mark,
    body::{Body, Broken, Cursor},
    esi::Plan,
    index::{Cache, Digest, bytes_of_tag},
    storage::{QueueSlot, Reservation, Stevedore, StorageFull, disk::DiskShare},
};

/// What an object takes in the index (17 bytes at a load of 7/16 to 7/8), in the order of expiry (16 and a quarter to spare) and in the
/// queues of its storage (16, and 10 for what has left).
const INDEX_BYTES: usize = 72;

/// What an object says to who finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It answers.
    Ordinary,
    /// The response was not to be stored: fetch, and do not wait for others who fetch.
    HitForMiss,
    /// The request is to be passed.
    HitForPass,
}

/// A stored response.
#[derive(Debug)]
pub struct Object {
    /// Read when it is asked for, where a former process has stored it.
    head: OnceLock<StoredHead>,
    body: Body,
    times: Times,
    hits: AtomicU64,
    xid: AtomicU64,
    /// Where it stands; set when it is published.
    pub(crate) place: PublishedKey,
    /// Bans up to here do not match it.
    pub(crate) ban_mark: Mark,
    /// Its place in its storage's queues.
    pub(crate) queue_slot: QueueSlot,
    /// Its place in the order of expiry.
    pub(crate) expiry_slot: AtomicU32,
    extras: OnceLock<Box<Extras>>,
    /// What it has of a disk.
    share: Option<Box<DiskShare>>,
    reservation: Reservation,
    kind: Kind,
    /// Whether it has left the index.
    pub(crate) is_gone: AtomicBool,
    /// How often it has been found lately, for eviction.
    pub(crate) frequency: AtomicU8,
}

/// NOTE: what every object takes counts a million times. With the two counts of an `Arc` it is of a size that the allocator has.
const _: () = assert!(size_of::<Object>() + 16 <= 256);

/// What few objects have.
#[derive(Debug, Default)]
struct Extras {
    /// What it varies by, unless by nothing.
    variant: OnceLock<Variant>,
    tags: Mutex<Vec<Box<[u8]>>>,
    /// What is replaced in its body when it is delivered.
    page: OnceLock<Page>,
}

/// A body with Edge Side Includes. It is stored without compression, whatever its head says.
#[derive(Clone, Debug)]
pub struct Page {
    /// What is to be done with it.
    pub plan: Plan,
    /// Whether it was compressed when it came, or was to be: who understands gzip gets gzip, as the head says.
    pub is_gzip: bool,
}

impl Object {
    /// Begins an object whose body is going to arrive.
    ///
    /// # Errors
    /// The storage has no room and cannot make any.
    pub fn start(
        cache: &Arc<Cache>,
        storage: &Arc<Stevedore>,
        kind: Kind,
        head: ResponseHead,
        lifetime: Lifetime,
    ) -> Result<(Arc<Self>, Filler), StorageFull> {
        Self::start_stored(cache, storage, kind, StoredHead::of(&head), lifetime)
    }

    fn start_stored(
        cache: &Arc<Cache>,
        storage: &Arc<Stevedore>,
        kind: Kind,
        head: StoredHead,
        lifetime: Lifetime,
    ) -> Result<(Arc<Self>, Filler), StorageFull> {
        let storage = &storage.usable();
        Self::start_with(cache, storage, kind, (head, Body::default()), lifetime)
    }

    /// Begins an object for one reader, which is gone as soon as it has been read; who fills it is to wait for
    /// [`Filler::poll_room`].
    ///
    /// # Errors
    /// As [`Object::start`].
    pub fn start_transit(
        cache: &Arc<Cache>,
        storage: &Arc<Stevedore>,
        head: ResponseHead,
        lifetime: Lifetime,
        bytes_max: u64,
    ) -> Result<(Arc<Self>, Filler), StorageFull> {
        let storage = &storage.usable();
        let body = if storage.disk().is_some() { Body::default() } else { Body::in_transit(bytes_max) };
        Self::start_with(cache, storage, Kind::Ordinary, (StoredHead::of(&head), body), lifetime)
    }

    fn start_with(
        cache: &Arc<Cache>,
        storage: &Arc<Stevedore>,
        kind: Kind,
        (head, body): (StoredHead, Body),
        lifetime: Lifetime,
    ) -> Result<(Arc<Self>, Filler), StorageFull> {
        let bytes = Self::bytes_without_body(storage) + allocated(head.memory_bytes());
        let object = Arc::new(Self {
            kind,
            head: OnceLock::from(head),
            body,
            times: Times::new(lifetime),
            hits: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            place: PublishedKey::default(),
            is_gone: AtomicBool::new(false),
            ban_mark: cache.bans().newest(),
            frequency: AtomicU8::new(0),
            queue_slot: QueueSlot::default(),
            expiry_slot: AtomicU32::new(u32::MAX),
            extras: OnceLock::new(),
            share: storage.disk().map(|disk| Box::new(DiskShare::new(disk))),
            reservation: storage.reserve(cache, bytes)?,
        });
        let filler = Filler::new(cache, &object);
        Ok((object, filler))
    }

    /// Bytes of one whose head and body take nothing.
    fn bytes_without_body(storage: &Stevedore) -> usize {
        let of_disk = if storage.disk().is_some() { allocated(size_of::<DiskShare>()) } else { 0 };
        allocated(size_of::<Self>() + 16) + INDEX_BYTES + of_disk
    }

    /// One that a former process has stored.
    pub(crate) fn recovered(
        cache: &Cache,
        storage: &Arc<Stevedore>,
        (lifetime, tags): (Lifetime, Vec<Box<[u8]>>),
        (body, share): (Body, DiskShare),
        ban_mark: Mark,
    ) -> Result<Arc<Self>, StorageFull> {
        let length = usize::try_from(body.arrived()).unwrap_or(usize::MAX);
        let of_tags: usize = tags.iter().map(|tag| bytes_of_tag(tag)).sum();
        let bytes = (Self::bytes_without_body(storage) + of_tags).saturating_add(length);
        let extras = OnceLock::new();
        if !tags.is_empty() {
            let _ = extras.set(Box::new(Extras { tags: Mutex::new(tags), ..Extras::default() }));
        }
        Ok(Arc::new(Self {
            kind: Kind::Ordinary,
            head: OnceLock::new(),
            body,
            times: Times::new(lifetime),
            hits: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            place: PublishedKey::default(),
            is_gone: AtomicBool::new(false),
            ban_mark,
            frequency: AtomicU8::new(0),
            queue_slot: QueueSlot::default(),
            expiry_slot: AtomicU32::new(u32::MAX),
            extras,
            share: Some(Box::new(share)),
            reservation: storage.reserve(cache, bytes)?,
        }))
    }

    /// What it says.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The head of the response. It is empty if a disk has lost it; [`Body::is_broken`] says so then.
    #[must_use]
    pub fn head(&self) -> &StoredHead {
        self.head.get_or_init(|| {
            let share = self.share();
            let stored = share.and_then(|share| share.disk().read_head(share.head()?));
            stored.map_or_else(
                || {
                    self.body.damage();
                    StoredHead::default()
                },
                |head| StoredHead::of(&head),
            )
        })
    }

    pub(crate) fn share(&self) -> Option<&DiskShare> {
        self.share.as_deref()
    }

    /// The body of the response.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The next chunk of the body, `None` after the last one. Where it has not arrived yet, the reader is woken when it has.
    ///
    /// # Errors
    /// The fetch failed, or the disk has something else than was written.
    pub fn poll_next(&self, cursor: &mut Cursor, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        let next = ready!(self.body.poll_next(self.share().map(|share| &**share.disk()), cursor, context));
        if let Ok(Some(chunk)) = &next {
            cursor.note(chunk);
            if self.body.is_in_transit() {
                self.reservation.shrink(chunk.len());
            }
        }
        Poll::Ready(next)
    }

    fn extras(&self) -> &Extras {
        self.extras.get_or_init(Box::default)
    }

    /// What is replaced in the body when it is delivered; none for nearly all objects.
    #[must_use]
    pub fn page(&self) -> Option<&Page> {
        self.extras.get()?.page.get()
    }

    /// How long it lives.
    #[must_use]
    pub fn lifetime(&self) -> Lifetime {
        self.times.lifetime()
    }

    /// When it is no longer fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Time {
        self.times.fresh_until()
    }

    /// Seconds since the response was made.
    #[must_use]
    pub fn age(&self, now: Time) -> f64 {
        (now - self.times.origin()).max(0.0)
    }

    /// How often it has been found, this time included.
    pub fn count_hit(&self) -> u64 {
        let frequency = self.frequency.load(Relaxed);
        if frequency < crate::storage::FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Relaxed);
        }
        self.hits.fetch_add(1, Relaxed) + 1
    }

    /// How often it has been found.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// The number of the fetch that brought it.
    #[must_use]
    pub fn xid(&self) -> u64 {
        self.xid.load(Relaxed)
    }

    /// Notes the number of the fetch that brings it.
    pub fn set_xid(&self, xid: u64) {
        self.xid.store(xid, Relaxed);
    }

    /// The fields that it varies by and what its request said in them; none before it is published.
    #[must_use]
    pub fn variant(&self) -> Option<&Variant> {
        self.place.number().map(|_| self.own_variant().unwrap_or(&place::ANY))
    }

    fn own_variant(&self) -> Option<&Variant> {
        self.extras.get()?.variant.get()
    }

    /// What it is found by; none before it is published.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.place.digest()
    }

    /// Says what it varies by; before it is published.
    pub(crate) fn vary_by(&self, cache: &Cache, variant: Variant) -> Result<(), StorageFull> {
        if !variant.is_any() && self.place.number().is_none() {
            let bytes = if self.extras.get().is_some() { 0 } else { allocated(size_of::<Extras>()) };
            self.reservation.grow(cache, bytes + variant.memory_bytes())?;
            let _ = self.extras().variant.set(variant);
        }
        Ok(())
    }

    /// The storage that holds it.
    #[must_use]
    pub fn storage(&self) -> &Arc<Stevedore> {
        self.reservation.storage()
    }

    /// What it takes of its storage.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.reservation.bytes()
    }

    /// Whether a part of its body is in memory because the disk did not take it.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.share().is_some_and(|share| share.unwritten.load(Relaxed) > 0)
    }

    /// Whether it has left the index; its readers go on.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    /// Names that it is removed by (surrogate keys).
    #[must_use]
    pub fn tags(&self) -> Vec<Box<[u8]>> {
        let Some(extras) = self.extras.get() else { return Vec::new() };
        extras.tags.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it a name that it is removed by; before it is published.
    ///
    /// # Errors
    /// The storage has no room for it and cannot make any.
    pub fn add_tag(&self, cache: &Cache, tag: &[u8]) -> Result<(), StorageFull> {
        let mut tags = self.extras().tags.lock().unwrap_or_else(PoisonError::into_inner);
        if self.place.number().is_none() && !tags.iter().any(|known| **known == *tag) {
            let first = if tags.is_empty() { allocated(size_of::<Extras>()) } else { 0 };
            self.reservation.grow(cache, first + bytes_of_tag(tag))?;
            tags.push(tag.into());
        }
        Ok(())
    }

    pub(crate) fn set_lifetime(&self, lifetime: Lifetime) {
        self.times.set(lifetime);
    }
}

/// The memory of the body serves the next one.
impl Drop for Object {
    fn drop(&mut self) {
        let storage = self.reservation.storage();
        self.body.give_memory_to(storage);
        if let Some(share) = &mut self.share {
            storage.forget_unwritten(*share.unwritten.get_mut());
        }
    }
}
