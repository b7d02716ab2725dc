//! Writes the journal anew, a part of the index at a time, while the tier is in use.
//!
//! From its beginning on, whatever is noted goes to both journals; besides, the bans there are and each object are noted in the new one.
//! An object that leaves meanwhile is marked first and noted afterwards, under the journal's lock, so it is not noted again behind that.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{Disk, JournalFile, records};
use crate::index::Cache;

/// A journal that is being written anew.
#[derive(Debug)]
pub struct Compaction {
    disk: Arc<Disk>,
    part: usize,
}

impl Compaction {
    /// Begins one.
    ///
    /// # Errors
    /// The system's; the current journal stays.
    pub fn begin(disk: &Arc<Disk>, cache: &Cache) -> io::Result<Self> {
        let mut result = Ok(());
        cache.bans().with_all(|bans| {
            let mut journal = disk.journal();
            result = disk.files.begin_next_journal();
            if result.is_err() {
                return;
            }
            journal.has_next = true;
            journal.next_bytes = 0;
            disk.append_next(&mut journal, &records::header(disk.size));
            for ban in bans {
                if let Some(record) = records::ban(ban.number(), ban.time(), &ban.expression().words()) {
                    disk.append_next(&mut journal, &record);
                }
            }
        });
        result.map(|()| Self { disk: Arc::clone(disk), part: 0 })
    }

    /// Writes the objects of the next part of the index; `true` when the new journal is in use.
    ///
    /// # Errors
    /// The system's; the current journal stays.
    pub fn step(&mut self, cache: &Cache) -> io::Result<bool> {
        if let Some(objects) = cache.objects_of(self.part) {
            self.part += 1;
            let is_ours = |share: &super::DiskShare| Arc::ptr_eq(&share.disk, &self.disk);
            objects
                .iter()
                .filter(|object| object.share().is_some_and(is_ours))
                .for_each(|object| object.persist_again());
            return Ok(false);
        }
        let mut journal = self.disk.journal();
        if !journal.has_next {
            return Err(io::Error::other("the new journal of the cache could not be written; the old one is used on"));
        }
        journal.has_next = false;
        self.disk.files.replace_journal()?;
        journal.bytes = journal.next_bytes;
        journal.has_failed = false;
        self.disk.counters.journal_failed.store(0, Relaxed);
        Ok(true)
    }
}

impl Disk {
    /// Begins an empty journal in place of what is there.
    pub(super) fn begin_empty(&self) -> io::Result<()> {
        let mut journal = self.journal();
        self.files.begin_next_journal()?;
        let header = records::header(self.size);
        self.files.append(JournalFile::Next, &header)?;
        self.files.replace_journal()?;
        journal.bytes = header.len() as u64;
        journal.live_bytes = 0;
        Ok(())
    }
}
