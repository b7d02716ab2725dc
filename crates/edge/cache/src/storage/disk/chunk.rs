//! Pieces of objects in the data file.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use super::{
    Disk,
    records::{self, Extents, StoredObject},
    space::Extent,
};
use crate::object::{Kind, Object};

/// A piece of an object, with the checksum (CRC-32C) that it must have when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    pub(crate) at: u64,
    pub(crate) length: u32,
    pub(crate) sum: u32,
}

impl StoredChunk {
    pub(crate) fn end(self) -> u64 {
        self.at.saturating_add(u64::from(self.length))
    }
}

/// What an object has of a disk tier. Its extents are free again when its last reader lets go of it.
#[derive(Debug)]
pub(crate) struct DiskShare {
    pub(super) disk: Arc<Disk>,
    extents: Mutex<Extents>,
    head: OnceLock<StoredChunk>,
    /// Bytes of its record in the journal; 0 while it has none.
    record_bytes: AtomicU32,
    /// Bytes of the object's body that the disk did not take.
    pub(crate) unwritten: AtomicU64,
    /// Whether its head and the start of its body have been read, or were written by this process.
    is_verified: AtomicBool,
}

impl DiskShare {
    pub(crate) fn new(disk: &Arc<Disk>) -> Self {
        Self {
            disk: Arc::clone(disk),
            extents: Mutex::default(),
            head: OnceLock::new(),
            record_bytes: AtomicU32::new(0),
            unwritten: AtomicU64::new(0),
            is_verified: AtomicBool::new(true),
        }
    }

    pub(super) fn recovered(disk: &Arc<Disk>, head: StoredChunk, extents: Extents, record_bytes: u32) -> Self {
        Self {
            disk: Arc::clone(disk),
            extents: Mutex::new(extents),
            head: OnceLock::from(head),
            record_bytes: AtomicU32::new(record_bytes),
            unwritten: AtomicU64::new(0),
            is_verified: AtomicBool::new(false),
        }
    }

    pub(crate) fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    pub(crate) fn head(&self) -> Option<StoredChunk> {
        self.head.get().copied()
    }

    pub(crate) fn set_head(&self, chunk: StoredChunk) {
        let _ = self.head.set(chunk);
    }

    pub(crate) fn add_extent(&self, extent: Extent) {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner).push(extent);
    }

    /// Gives back what the last extent has behind `used` bytes.
    pub(crate) fn trim_last(&self, used: u64) {
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = extents.last_mut() else { return };
        let needed = super::space::rounded(used).min(last.length);
        let rest = Extent { at: last.at + needed, length: last.length - needed };
        last.length = needed;
        extents.retain(|extent| extent.length > 0);
        drop(extents);
        if rest.length > 0 {
            self.disk.space().give_back(rest);
        }
    }
}

impl Drop for DiskShare {
    fn drop(&mut self) {
        let extents = std::mem::take(self.extents.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut space = self.disk.space();
        extents.into_iter().for_each(|extent| space.give_back(extent));
    }
}

impl Object {
    /// Whether what is read first of the object is what was written. One that is not must leave the index.
    ///
    /// NOTE: this reads from the disk, once for each object that a former process has stored.
    pub(crate) fn is_readable(&self) -> bool {
        let Some(share) = self.share() else { return true };
        if share.is_verified.load(Relaxed) {
            return true;
        }
        let _ = self.head();
        let first = self.body().stored().and_then(|chunks| chunks.first());
        if !self.body().is_broken() && first.is_none_or(|chunk| share.disk.read(*chunk).is_some()) {
            share.is_verified.store(true, Relaxed);
            return true;
        }
        self.body().damage();
        false
    }

    /// Notes the object in the journal once it is in the index and whole, whichever comes last.
    pub(crate) fn persist(&self) {
        // NOTE: a journal has no place for what is replaced in a page; without it, tags would be delivered.
        let Some(share) = self.share().filter(|_| self.kind() == Kind::Ordinary && self.page().is_none()) else {
            return;
        };
        let mut journal = share.disk.journal();
        if self.is_gone() || share.record_bytes.load(Relaxed) != 0 {
            return;
        }
        let Some(record) = self.record() else { return };
        share.record_bytes.store(u32::try_from(record.len()).unwrap_or(u32::MAX), Relaxed);
        journal.live_bytes += record.len() as u64;
        share.disk.append(&mut journal, &record);
    }

    /// Notes that the object has left; it is marked as gone already.
    pub(crate) fn unpersist(&self) {
        let (Some(share), Some(number)) = (self.share(), self.place.number()) else { return };
        let mut journal = share.disk.journal();
        let bytes = share.record_bytes.swap(0, Relaxed);
        if bytes != 0 {
            journal.live_bytes = journal.live_bytes.saturating_sub(u64::from(bytes));
            share.disk.append(&mut journal, &records::remove(number));
        }
    }

    /// Notes that its times are others.
    pub(crate) fn persist_lifetime(&self) {
        let (Some(share), Some(number)) = (self.share(), self.place.number()) else { return };
        let mut journal = share.disk.journal();
        if share.record_bytes.load(Relaxed) != 0 {
            share.disk.append(&mut journal, &records::lifetime(number, &self.lifetime()));
        }
    }

    /// Notes it in the journal that is being written anew.
    pub(super) fn persist_again(&self) {
        let Some(share) = self.share() else { return };
        let mut journal = share.disk.journal();
        if share.record_bytes.load(Relaxed) != 0
            && let Some(record) = self.record()
        {
            share.disk.append_next(&mut journal, &record);
        }
    }

    fn record(&self) -> Option<Vec<u8>> {
        let (share, number) = (self.share()?, self.place.number()?);
        let stored = StoredObject {
            digest: self.digest()?.0,
            lifetime: self.lifetime(),
            ban: self.ban_mark.number(),
            variant: self.variant()?.clone(),
            tags: self.tags(),
            head: *share.head.get()?,
            extents: share.extents.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            chunks: self.body().stored()?.into(),
        };
        records::put(number, &stored)
    }
}
