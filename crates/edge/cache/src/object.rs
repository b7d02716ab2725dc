//! What a cache stores: the head of a response, its times and its body.

mod sizes;

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::ResponseHead;
use sizes::{allocated, piece_bytes};

use crate::{
    Time,
    bans::Mark,
    body::{Body, Broken, Cursor},
    esi::Plan,
    index::{Cache, Digest, bytes_of_tag},
    storage::{
        CHUNK_BYTES_MAX, Reservation, Slot, Stevedore, StorageFull,
        disk::{DiskShare, Extent, StoredChunk},
    },
};

/// What a body's chunks are at least, where its length is not known.
const CHUNK_BYTES_MIN: usize = 4 << 10;

/// What a chunk of a body in transit is at most: its memory is free again when all of it has been read.
const TRANSIT_CHUNK_BYTES_MAX: usize = 32 << 10;

/// What an object takes in the index, in the order of expiry and in the queue of its storage, and what the allocator adds to all its
/// parts.
const INDEX_BYTES: usize = 320;

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

/// How long an object lives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lifetime {
    /// When the response was made, as far as its age tells.
    pub origin: Time,
    /// Seconds from then on that it is fresh.
    pub ttl: f64,
    /// Seconds after those that it may answer while it is fetched again.
    pub grace: f64,
    /// Seconds after those that it is kept to be validated.
    pub keep: f64,
}

impl Lifetime {
    /// When it is no longer fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Time {
        self.origin + self.ttl
    }

    /// When it is removed.
    #[must_use]
    pub fn ends(&self) -> Time {
        self.origin + self.ttl.max(0.0) + self.grace.max(0.0) + self.keep.max(0.0)
    }
}

/// Which requests of those with the same digest an object answers: what they say in the fields that `Vary` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The fields' names in small letters.
    pub names: Arc<[Vec<u8>]>,
    /// What the request said in them ([`crate::policy::vary::key`]).
    pub key: Box<[u8]>,
}

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
}

/// A stored response.
#[derive(Debug)]
pub struct Object {
    kind: Kind,
    /// Read when it is asked for, where a former process has stored it.
    head: OnceLock<ResponseHead>,
    body: Body,
    lifetime: Mutex<Lifetime>,
    /// [`Lifetime::fresh_until`] as bits, for lookups.
    fresh_until: AtomicU64,
    hits: AtomicU64,
    last_use: AtomicU64,
    xid: AtomicU64,
    /// Where it stands; set when it is published.
    pub(crate) place: OnceLock<Place>,
    /// Whether it has left the index.
    pub(crate) is_gone: AtomicBool,
    /// Bans up to here do not match it.
    pub(crate) ban_mark: Mark,
    /// How often it has been found lately, for eviction.
    pub(crate) frequency: AtomicU32,
    /// Its place in its storage's queues.
    pub(crate) slot: Slot,
    tags: Mutex<Vec<Box<[u8]>>>,
    /// What is replaced in its body when it is delivered.
    page: OnceLock<Box<Page>>,
    /// What it has of a disk.
    share: Option<Box<DiskShare>>,
    /// Bytes of its body that the disk did not take.
    unwritten: AtomicU64,
    reservation: Reservation,
}

/// A body with Edge Side Includes. It is stored without compression, whatever its head says.
#[derive(Clone, Debug)]
pub struct Page {
    /// What is to be done with it.
    pub plan: Plan,
    /// Whether it was compressed when it came, or was to be: who understands gzip gets gzip, as the head says.
    pub is_gzip: bool,
}

/// Where an object stands in the index.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) digest: Digest,
    pub(crate) variant: Variant,
    pub(crate) number: u64,
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
        let storage = &storage.usable();
        Self::start_with(cache, storage, kind, (head, Body::on_disk(storage.disk())), lifetime)
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
        let body = if storage.disk().is_some() { Body::on_disk(storage.disk()) } else { Body::in_transit(bytes_max) };
        Self::start_with(cache, storage, Kind::Ordinary, (head, body), lifetime)
    }

    fn start_with(
        cache: &Arc<Cache>,
        storage: &Arc<Stevedore>,
        kind: Kind,
        (mut head, body): (ResponseHead, Body),
        lifetime: Lifetime,
    ) -> Result<(Arc<Self>, Filler), StorageFull> {
        head.compact();
        let bytes = size_of::<Self>() + INDEX_BYTES + head.headers.memory_bytes();
        let object = Arc::new(Self {
            kind,
            head: OnceLock::from(head),
            body,
            fresh_until: AtomicU64::new(lifetime.fresh_until().to_bits()),
            lifetime: Mutex::new(lifetime),
            hits: AtomicU64::new(0),
            last_use: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            place: OnceLock::new(),
            is_gone: AtomicBool::new(false),
            ban_mark: cache.bans().newest(),
            frequency: AtomicU32::new(0),
            slot: Slot::default(),
            tags: Mutex::default(),
            page: OnceLock::new(),
            share: storage.disk().map(|disk| Box::new(DiskShare::new(disk))),
            unwritten: AtomicU64::new(0),
            reservation: storage.reserve(cache, bytes)?,
        });
        let filler = Filler {
            cache: Arc::clone(cache),
            object: Arc::clone(&object),
            buffer: BytesMut::new(),
            piece: Piece::default(),
            extent: None,
            expected: 0,
            full: None,
            ended: false,
        };
        Ok((object, filler))
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
        let bytes = (size_of::<Self>() + INDEX_BYTES + of_tags).saturating_add(length);
        Ok(Arc::new(Self {
            kind: Kind::Ordinary,
            head: OnceLock::new(),
            body,
            fresh_until: AtomicU64::new(lifetime.fresh_until().to_bits()),
            lifetime: Mutex::new(lifetime),
            hits: AtomicU64::new(0),
            last_use: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            place: OnceLock::new(),
            is_gone: AtomicBool::new(false),
            ban_mark,
            frequency: AtomicU32::new(0),
            slot: Slot::default(),
            tags: Mutex::new(tags),
            page: OnceLock::new(),
            share: Some(Box::new(share)),
            unwritten: AtomicU64::new(0),
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
    pub fn head(&self) -> &ResponseHead {
        self.head.get_or_init(|| {
            let share = self.share();
            let stored = share.and_then(|share| share.disk().read_head(share.head()?));
            stored.unwrap_or_else(|| {
                self.body.damage();
                ResponseHead::new()
            })
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
        let next = ready!(self.body.poll_next(cursor, context));
        if let Ok(Some(chunk)) = &next {
            cursor.note(chunk);
            if self.body.is_in_transit() {
                self.reservation.shrink(chunk.len());
            }
        }
        Poll::Ready(next)
    }

    /// What is replaced in the body when it is delivered; none for nearly all objects.
    #[must_use]
    pub fn page(&self) -> Option<&Page> {
        self.page.get().map(|page| &**page)
    }

    /// How long it lives.
    #[must_use]
    pub fn lifetime(&self) -> Lifetime {
        *self.lifetime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it is no longer fresh.
    #[must_use]
    pub fn fresh_until(&self) -> Time {
        f64::from_bits(self.fresh_until.load(Relaxed))
    }

    /// Seconds since the response was made.
    #[must_use]
    pub fn age(&self, now: Time) -> f64 {
        (now - self.lifetime().origin).max(0.0)
    }

    /// How often it has been found, this time included.
    pub fn count_hit(&self, now: Time) -> u64 {
        self.last_use.store(now.to_bits(), Relaxed);
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

    /// When it was found last; 0 for never.
    #[must_use]
    pub fn last_use(&self) -> Time {
        f64::from_bits(self.last_use.load(Relaxed))
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
        self.place.get().map(|place| &place.variant)
    }

    /// What it is found by; none before it is published.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.place.get().map(|place| place.digest)
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
        self.unwritten.load(Relaxed) > 0
    }

    /// Whether it has left the index; its readers go on.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    /// Names that it is removed by (surrogate keys).
    #[must_use]
    pub fn tags(&self) -> Vec<Box<[u8]>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it a name that it is removed by; before it is published.
    ///
    /// # Errors
    /// The storage has no room for it and cannot make any.
    pub fn add_tag(&self, cache: &Cache, tag: &[u8]) -> Result<(), StorageFull> {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        if self.place.get().is_none() && !tags.iter().any(|known| **known == *tag) {
            self.reservation.grow(cache, bytes_of_tag(tag))?;
            tags.push(tag.into());
        }
        Ok(())
    }

    pub(crate) fn set_lifetime(&self, lifetime: Lifetime) {
        *self.lifetime.lock().unwrap_or_else(PoisonError::into_inner) = lifetime;
        self.fresh_until.store(lifetime.fresh_until().to_bits(), Relaxed);
    }
}

/// The memory of the body serves the next one.
impl Drop for Object {
    fn drop(&mut self) {
        let chunks = self.body.take_memory();
        self.reservation.storage().give_back(chunks);
        self.reservation.storage().forget_unwritten(*self.unwritten.get_mut());
    }
}

/// What readers have of the memory that the buffer is the rest of.
#[derive(Debug, Default)]
struct Piece {
    /// Bytes that were taken.
    taken: usize,
    /// Those that readers have, and in how many chunks.
    given: usize,
    chunks: usize,
}

/// Fills an object's body. One that is dropped before [`Filler::finish`] breaks the body: who has read a part is told, and nobody
/// finds the object any more.
#[derive(Debug)]
pub struct Filler {
    cache: Arc<Cache>,
    object: Arc<Object>,
    buffer: BytesMut,
    piece: Piece,
    /// Where on a disk the buffer goes, and how much of that is used.
    extent: Option<(Extent, u64)>,
    expected: u64,
    /// Why a piece that the disk did not take could not stay in memory either.
    full: Option<StorageFull>,
    ended: bool,
}

impl Filler {
    /// The object.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// An object like this one, of which nothing has come: in its place, as long as nobody else has it.
    ///
    /// # Errors
    /// As [`Object::start`].
    pub fn begin_again(&self) -> Result<(Arc<Object>, Self), StorageFull> {
        let old = &self.object;
        let (object, filler) = Object::start(&self.cache, old.storage(), old.kind, old.head().clone(), old.lifetime())?;
        object.set_xid(old.xid());
        for tag in old.tags() {
            object.add_tag(&self.cache, &tag)?;
        }
        Ok((object, filler))
    }

    /// Ready as long as there is room for more of a body in transit; others always have room.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        self.object.body.poll_room(context)
    }

    /// Whether the object is in the index, or has been: it is for everybody.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.object.place.get().is_some()
    }

    /// Whether somebody else has the object.
    #[must_use]
    pub fn has_readers(&self) -> bool {
        Arc::strong_count(&self.object) > 1
    }

    /// Says what is replaced in the body when it is delivered; before it is whole.
    ///
    /// # Errors
    /// As [`Filler::write`].
    pub fn set_page(&mut self, page: Page) -> Result<(), StorageFull> {
        self.object.reservation.grow(&self.cache, page.plan.memory_bytes())?;
        let _ = self.object.page.set(Box::new(page));
        Ok(())
    }

    /// Bytes that have been written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.object.body.arrived() + self.buffer.len() as u64
    }

    /// Says how long the body is going to be, so that memory for it is taken at once.
    pub fn expect(&mut self, length: u64) {
        self.expected = length;
    }

    /// Puts bytes behind the body. Readers have them when a chunk is full, or after [`Filler::flush`].
    ///
    /// # Errors
    /// The storage has no room and cannot make any: the body is broken then.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageFull> {
        self.full.clone().map_or(Ok(()), Err)?;
        while !bytes.is_empty() {
            if self.buffer.capacity() == self.buffer.len() {
                self.flush();
                self.full.clone().map_or(Ok(()), Err)?;
                self.take_memory(bytes.len())?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.buffer.capacity() - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Puts a chunk behind the body that is in memory already.
    ///
    /// # Errors
    /// As [`Filler::write`].
    pub fn push(&mut self, chunk: Bytes) -> Result<(), StorageFull> {
        if self.object.share.is_some() {
            return self.write(&chunk);
        }
        self.flush();
        self.object.reservation.grow(&self.cache, chunk.len())?;
        self.object.body.push(chunk);
        Ok(())
    }

    /// Lets readers have what has been written.
    pub fn flush(&mut self) {
        // NOTE: behind a piece that is missing nothing may follow.
        if !self.buffer.is_empty() && self.full.is_none() {
            let written = self.buffer.split().freeze();
            match self.store(&written) {
                Some(chunk) => self.object.body.push_stored(chunk),
                None => {
                    self.piece.given += written.len();
                    self.piece.chunks += 1;
                    self.push_unwritten(written);
                }
            }
        }
    }

    fn push_unwritten(&mut self, bytes: Bytes) {
        let length = bytes.len() as u64;
        if self.object.share.is_some() {
            match self.object.storage().keep_unwritten(length) {
                Ok(()) => drop(self.object.unwritten.fetch_add(length, Relaxed)),
                Err(full) => {
                    // NOTE: said by the next write, or by the end: until then nothing of it is delivered.
                    self.full.get_or_insert(full);
                    return;
                }
            }
        }
        self.object.body.push(bytes);
    }

    /// Writes a piece to the disk, if the object has one and that can be written.
    fn store(&mut self, bytes: &[u8]) -> Option<StoredChunk> {
        let (extent, used) = self.extent.as_mut()?;
        let share = self.object.share()?;
        let end = *used + bytes.len() as u64;
        if end > extent.length {
            return None;
        }
        let chunk = share.disk().write(extent.at + *used, bytes)?;
        *used = end;
        Some(chunk)
    }

    /// The last extent gets its length, and the head goes behind the body. Without room for it the object does not survive the process.
    fn finish_on_disk(&mut self) {
        let Some(share) = self.object.share() else { return };
        if let Some((_, used)) = self.extent {
            share.trim_last(used);
        }
        let head = share.disk().head_bytes(self.object.head());
        let length = head.len() as u64;
        if let Ok(extent) = self.object.storage().allocate(&self.cache, length) {
            share.add_extent(extent);
            let written = if extent.length < length { None } else { share.disk().write(extent.at, &head) };
            written.into_iter().for_each(|chunk| share.set_head(chunk));
        }
    }

    /// The body is whole.
    pub fn finish(mut self) {
        let unused = self.buffer.capacity() - self.buffer.len();
        let used = self.piece.given + self.buffer.len();
        if self.object.share.is_some() {
            self.flush();
            if self.full.is_some() {
                return;
            }
            self.object.reservation.shrink(unused);
            self.finish_on_disk();
        } else if unused > used / 4 && !self.object.body.is_in_transit() {
            // What is much too large for what it holds is copied into what is not. What readers have of it they keep.
            self.flush();
            self.object.body.repack(self.piece.chunks);
            self.buffer = BytesMut::new();
            self.object.reservation.shrink(self.piece.taken.saturating_sub(allocated(used)));
        } else {
            self.flush();
        }
        self.ended = true;
        self.object.body.finish();
        self.object.persist();
        if self.object.is_unwritten() && self.object.storage().has_much_unwritten() {
            self.cache.remove(&self.object);
        }
    }

    fn take_memory(&mut self, wanted: usize) -> Result<(), StorageFull> {
        let arrived = self.object.body.arrived();
        let left = usize::try_from(self.expected.saturating_sub(arrived)).unwrap_or(usize::MAX);
        let guess = if left > 0 {
            left
        } else {
            usize::try_from(arrived).unwrap_or(usize::MAX).max(wanted).max(CHUNK_BYTES_MIN)
        };
        let most = if self.object.body.is_in_transit() { TRANSIT_CHUNK_BYTES_MAX } else { CHUNK_BYTES_MAX };
        let mut bytes = piece_bytes(guess).min(most);
        if let Some(share) = self.object.share() {
            let extent = self.object.storage().allocate(&self.cache, bytes as u64)?;
            share.add_extent(extent);
            self.extent = Some((extent, 0));
            bytes = bytes.min(usize::try_from(extent.length).unwrap_or(bytes));
        }
        self.object.reservation.grow(&self.cache, bytes)?;
        self.piece = Piece { taken: bytes, ..Piece::default() };
        self.buffer = self.object.storage().piece(bytes);
        Ok(())
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        if !self.ended {
            self.flush();
            self.object.body.fail();
            self.cache.remove(&self.object);
        }
    }
}
