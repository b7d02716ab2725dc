//! Keys whose records are being read from the tables, and who waits for them.
//!
//! An answer is true as long as the key did not come into memory, change and leave again meanwhile, and its database kept its
//! place. Many that wait for the same key share one read.

use rustc_hash::FxHashMap;

use crate::Bytes;

/// Who waits for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterId(pub u64);

/// The reads under way.
#[derive(Debug, Default)]
pub struct Reading(FxHashMap<(u8, Bytes), Read>);

#[derive(Debug, Default)]
struct Read {
    waiting: Vec<WaiterId>,
    is_stale: bool,
}

impl Reading {
    /// Somebody waits for a key. Returns whether the key is to be read for it: nobody waited so far.
    pub fn wait(&mut self, disk: u8, key: &[u8], waiter: WaiterId) -> bool {
        let read = self.0.entry((disk, Bytes::from_slice(key))).or_default();
        read.waiting.push(waiter);
        read.waiting.len() == 1
    }

    /// The answer has come: who waited for it, and whether it is still true.
    pub fn end(&mut self, disk: u8, key: &Bytes) -> (Vec<WaiterId>, bool) {
        let read = self.0.remove(&(disk, key.clone())).unwrap_or_default();
        (read.waiting, !read.is_stale)
    }

    /// A key leaves memory.
    pub(crate) fn leaves(&mut self, disk: u8, key: &Bytes) {
        // Mostly there are none, and to clone the key costs more than this.
        if !self.0.is_empty()
            && let Some(read) = self.0.get_mut(&(disk, key.clone()))
        {
            read.is_stale = true;
        }
    }

    /// A database was emptied, or changed its place: no answer is true any more.
    pub(crate) fn forget_all(&mut self) {
        self.0.values_mut().for_each(|read| read.is_stale = true);
    }
}
