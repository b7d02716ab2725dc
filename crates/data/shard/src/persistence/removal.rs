//! What is no more goes from the tables in the background, a step at a time.

use commands::Server;
use engine::{Job, Removed};
use keyspace::Collection;
use oplog::disk::Disk;

use crate::{Persistence, Workers, records::ShardTables};

/// Records of an emptied database that are removed in one step.
const REMOVE_MAX: usize = 10_000;
/// From how many of them on everything is merged afterwards.
const MERGED_FROM: usize = 10_000;
/// Up to which size of the tables, in bytes: meanwhile nothing else is written to them. Of larger ones so many records were removed
/// that merges come of it.
const MERGED_MAX: u64 = 512 << 20;

/// What is being removed from the tables in the background.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Removal {
    /// An emptied database, and the step.
    Database(u8, usize),
    /// The elements of a collection that is no more.
    Collection(Collection),
}

/// What is no more, and is to be removed once the tables say so durably: removed earlier, a crash would have the log run again on
/// tables from before, which lack what the commands of then still saw.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) databases: Vec<u8>,
    pub(crate) collections: Vec<Collection>,
}

/// What is gone, by how far the tables know it, and what is being removed of it.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// As the checkpoint under way has it.
    marked: Gone,
    /// As the batch has it that is being written.
    frozen: Gone,
    /// As a batch has it that is not durable yet.
    written: Gone,
    /// What can be removed.
    pub(crate) removable: Vec<Removal>,
    removing: Option<Removal>,
    /// A step of it is with the writer.
    is_asked: bool,
    /// Records of emptied databases that were removed since everything was merged.
    emptied_records: usize,
    /// Whether a step of that has been made: the first one drops files.
    has_begun: bool,
}

impl Removals {
    /// A checkpoint has begun, with what was gone by then.
    pub(crate) fn mark(&mut self, databases: Vec<u8>, collections: Vec<Collection>) {
        self.marked = Gone { databases, collections };
    }

    /// Its batch is being written.
    pub(crate) fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.marked);
    }

    /// The batch is written.
    pub(crate) fn note_written(&mut self) {
        let gone = std::mem::take(&mut self.frozen);
        self.written.databases.extend(gone.databases);
        self.written.collections.extend(gone.collections);
    }

    /// All that is written is durable: what is gone by that can be removed.
    pub(crate) fn note_durable(&mut self) {
        let gone = std::mem::take(&mut self.written);
        for disk in gone.databases {
            let listed = |removal: &Removal| matches!(removal, Removal::Database(known, _) if *known == disk);
            if !self.removable.iter().chain(&self.removing).any(listed) {
                self.removable.push(Removal::Database(disk, 0));
            }
        }
        self.removable.extend(gone.collections.into_iter().map(Removal::Collection));
    }

    /// A step has been made.
    pub(crate) fn note_removed(&mut self, removed: Removed) {
        self.is_asked = false;
        self.has_begun = !removed.is_done;
        self.removing = match self.removing.take() {
            Some(Removal::Database(disk, step)) => {
                self.emptied_records += removed.records;
                Some(Removal::Database(disk, step + usize::from(removed.is_done)))
            }
            Some(Removal::Collection(of)) if !removed.is_done => Some(Removal::Collection(of)),
            _ => None,
        };
    }

    /// A step has failed. Emptied databases come again with the next checkpoint, collections with the next start.
    pub(crate) fn note_failure(&mut self) {
        self.removing = None;
        self.is_asked = false;
        self.has_begun = false;
    }
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Has the next piece removed of what is no more, unless one is being removed.
    pub(crate) fn go_on_removing(&mut self, server: &mut Server) {
        // Whoever waits for a checkpoint has handled reports too: a removal goes on whoever was told of its last step.
        if !self.removals.is_asked {
            self.remove_next(server);
        }
    }

    fn remove_next(&mut self, server: &mut Server) {
        while let Some(removal) = self.removals.removing.take().or_else(|| self.next_removable()) {
            let removal = match removal {
                Removal::Database(disk, step) if !self.removals.has_begun => {
                    Removal::Database(disk, self.tables.next_dropped(step))
                }
                other => other,
            };
            let (bounds, with_last) = match removal {
                Removal::Database(disk, step) => match ShardTables::dropped_range(disk, step) {
                    Some(bounds) => (bounds, Vec::new()),
                    None => {
                        self.forget_dropped(server, disk);
                        continue;
                    }
                },
                Removal::Collection(of) => (ShardTables::elements(of), vec![ShardTables::orphan_record(of)]),
            };
            let is_first = !self.removals.has_begun;
            let job = Job::Remove { bounds, is_first, records_max: REMOVE_MAX, with_last };
            match self.workers.write_tables(job) {
                Ok(()) => {
                    self.removals.removing = Some(removal);
                    self.removals.is_asked = true;
                    self.removals.has_begun = true;
                }
                // Too much waits for the writer: it is tried again in the next turn.
                Err(_) => {
                    self.removals.has_begun = false;
                    self.removals.removable.push(removal);
                }
            }
            return;
        }
        self.give_back();
    }

    /// What was removed takes its place until it is merged, and no merge comes in a store that nobody writes to.
    fn give_back(&mut self) {
        if self.removals.emptied_records >= MERGED_FROM
            && (self.disk_bytes() > MERGED_MAX || self.workers.write_tables(Job::Compact).is_ok())
        {
            self.removals.emptied_records = 0;
        }
    }

    /// Something that is no more and that nobody reads as it was.
    fn next_removable(&mut self) -> Option<Removal> {
        let is_read = |removal: &Removal| match removal {
            Removal::Database(disk, _) => self.tables.is_pinned(|of| of.disk == *disk),
            Removal::Collection(gone) => self.tables.is_pinned(|of| of == gone),
        };
        let index = self.removals.removable.iter().rposition(|removal| !is_read(removal))?;
        Some(self.removals.removable.remove(index))
    }

    /// An emptied database is removed: its number may be used again, so nothing may have it removed once more.
    fn forget_dropped(&mut self, server: &mut Server, disk: u8) {
        server.keyspace.forget_dropped(disk);
        let removals = &mut self.removals;
        for gone in [&mut removals.marked, &mut removals.frozen, &mut removals.written] {
            gone.databases.retain(|dropped| *dropped != disk);
        }
        removals.removable.retain(|removal| !matches!(removal, Removal::Database(dropped, _) if *dropped == disk));
    }
}
