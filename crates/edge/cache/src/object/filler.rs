//! Fills bodies of objects.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};

use super::{
    Extras, Object, Page,
    sizes::{allocated, piece_bytes},
};
use crate::{
    body::TINY_BYTES_MAX,
    index::Cache,
    storage::{
        CHUNK_BYTES_MAX, StorageFull,
        disk::{Extent, StoredChunk},
    },
};

/// What a body's chunks are at least, where its length is not known.
const CHUNK_BYTES_MIN: usize = 4 << 10;

/// What a chunk of a body in transit is at most: its memory is free again when all of it has been read.
const TRANSIT_CHUNK_BYTES_MAX: usize = 32 << 10;

/// What a piece of a body takes beside its bytes: who reads it has a part of it (`Bytes`), and all of them share it.
const PIECE_BYTES: usize = 64;

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
    /// What the body takes of the storage.
    taken: usize,
    /// Where on a disk the buffer goes, and how much of that is used.
    extent: Option<(Extent, u64)>,
    expected: u64,
    /// Why a piece that the disk did not take could not stay in memory either.
    full: Option<StorageFull>,
    ended: bool,
}

impl Filler {
    pub(super) fn new(cache: &Arc<Cache>, object: &Arc<Object>) -> Self {
        Self {
            cache: Arc::clone(cache),
            object: Arc::clone(object),
            buffer: BytesMut::new(),
            piece: Piece::default(),
            taken: 0,
            extent: None,
            expected: 0,
            full: None,
            ended: false,
        }
    }

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
        let (object, filler) =
            Object::start_stored(&self.cache, old.storage(), old.kind, old.head().clone(), old.lifetime())?;
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
        self.object.place.number().is_some()
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
        let bytes = allocated(size_of::<Extras>()) + page.plan.memory_bytes();
        self.object.reservation.grow(&self.cache, bytes)?;
        let _ = self.object.extras().page.set(page);
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
        self.grow(chunk.len() + PIECE_BYTES)?;
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
        if let Some(share) = self.object.share() {
            match self.object.storage().keep_unwritten(length) {
                Ok(()) => drop(share.unwritten.fetch_add(length, Relaxed)),
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
        let head = share.disk().head_bytes(&self.object.head().unpacked());
        let length = head.len() as u64;
        if let Ok(extent) = self.object.storage().allocate(&self.cache, length) {
            share.add_extent(extent);
            let written = if extent.length < length { None } else { share.disk().write(extent.at, &head) };
            written.into_iter().for_each(|chunk| share.set_head(chunk));
        }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), StorageFull> {
        self.object.reservation.grow(&self.cache, bytes)?;
        self.taken += bytes;
        Ok(())
    }

    /// From now on the body takes this.
    fn shrink_to(&self, bytes: usize) {
        self.object.reservation.shrink(self.taken.saturating_sub(bytes));
    }

    /// The body is whole.
    pub fn finish(mut self) {
        let unused = self.buffer.capacity() - self.buffer.len();
        let used = self.piece.given + self.buffer.len();
        let length = usize::try_from(self.written()).unwrap_or(usize::MAX);
        self.flush();
        if self.object.share.is_some() {
            if self.full.is_some() {
                return;
            }
            self.object.reservation.shrink(unused);
            self.finish_on_disk();
        } else if self.object.body.is_in_transit() {
            // What is left of it is gone when it has been read.
        } else if length <= TINY_BYTES_MAX {
            self.shrink_to(if length == 0 { 0 } else { allocated(length) });
        } else if unused > used / 4 {
            // What is much too large for what it holds is copied into what is not. What readers have of it they keep.
            self.object.body.repack(self.piece.chunks);
            self.shrink_to(self.taken - self.piece.taken + allocated(used));
        }
        self.buffer = BytesMut::new();
        self.ended = true;
        self.object.body.finish(self.object.share.is_some());
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
        let beside = if self.object.body.is_in_transit() { 0 } else { PIECE_BYTES };
        self.grow(bytes + beside)?;
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
