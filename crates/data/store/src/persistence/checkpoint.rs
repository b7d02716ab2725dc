//! Checkpoints: how the tables follow the log.

use std::time::{Duration, Instant};

use commands::{Millis, Server, config::Settings};
use engine::{Job, Report, Tables};
use oplog::Offset;

use crate::{StoreError, clock, error::chain, messages, records::ShardTables};

use super::{
    Checkpoint, Gone, Persistence, RETAIN_MS, Removal, owed::RecordBytes, set_retention, threads::SyncRequest,
};

/// Keys and elements that are handed in between two looks at the clock.
const TAKE_MAX: usize = 64;
/// How long a turn hands in at least, and at most. In between it is as long as the rest of the turn took: what clients change must
/// not grow faster than it is handed in.
const TAKE_TIME: Duration = Duration::from_millis(1);
const TAKE_TIME_MAX: Duration = Duration::from_millis(3);
/// How many keys may be dirty before a checkpoint begins.
const DIRTY_KEYS_MAX: usize = 500_000;
/// How much memory elements may take that are not in the tables yet, before a checkpoint begins.
const OVERLAY_BYTES_MAX: usize = 64 << 20;
/// How much log may have to be run again after a crash, in bytes.
const REPLAY_BYTES_MAX: u64 = 128 << 20;
/// The part of `maxmemory` that changes of one checkpoint may take of the log. They are in memory twice while it is written,
/// and as much again gathers meanwhile.
const CHECKPOINT_SHARE: u64 = 16;
/// The least part.
const CHECKPOINT_BYTES_MIN: u64 = 4 << 20;
/// How old the last checkpoint may be while keys are dirty.
const CHECKPOINT_MS: Millis = 10_000;
/// Records of an emptied database that are removed in one step.
const REMOVE_MAX: usize = 10_000;
/// From how many of them on everything is merged afterwards.
const MERGED_FROM: usize = 10_000;
/// Up to which size of the tables, in bytes: meanwhile nothing else is written to them. Of larger ones so many records were removed
/// that merges come of it.
const MERGED_MAX: u64 = 512 << 20;

impl Persistence {
    /// Says that memory is short and nothing in it is clean: a checkpoint is to begin when it can.
    pub fn press(&mut self) {
        self.pressed = true;
    }

    /// Whether memory has what the tables have not.
    pub fn is_behind(&self, server: &Server) -> bool {
        server.keyspace.dirty_len() > 0
            || !matches!(self.checkpoint, Checkpoint::None)
            || self.tables.with(|tables| tables.overlay_bytes() > 0)
            // The engine has it, and still in memory.
            || self.synced.0 < self.applied
            || self.tables.with(|tables| tables.engine().is_making_files())
    }

    /// How much memory what has changed already will take besides, until it is in the tables.
    pub fn owed(&self, server: &Server) -> u64 {
        let (next, taking) = (server.keyspace.untaken(), server.keyspace.to_be_taken());
        let made = RecordBytes::of_made(self.tables.with(|tables| tables.overlay_len()));
        self.record_bytes.of(next).saturating_add(self.record_bytes.of(taking)).saturating_add(made)
    }

    /// What the engine will take of memory when it makes files next, where records are long.
    pub fn bytes_to_make_files(&self) -> u64 {
        self.tables.with(|tables| tables.engine().bytes_to_make_files())
    }

    /// How many bytes of changes the tables are behind: in the log, or in memory if they take more there.
    pub fn behind(&self) -> u64 {
        (self.log.end().0 - self.applied.0).max(self.tables.overlay_bytes() as u64)
    }

    /// Whether the tables could not be written when that was last tried.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// How much of the disk the tables take.
    pub fn disk_bytes(&self) -> u64 {
        self.tables.with(|tables| tables.engine().disk_bytes())
    }

    /// How often everything in the tables was merged, or could not be.
    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Has everything in the tables merged: what was removed is given back to the disk.
    pub fn merge(&self) {
        let _ = self.writer.submit(Job::Compact);
    }

    /// For how much log a batch has been written since this was asked last, and how long that took.
    pub fn take_drained(&mut self) -> Option<(u64, Millis)> {
        self.drained.take()
    }

    /// Carries checkpoints on. Returns whether there is more to do at once.
    pub fn advance(&mut self, server: &mut Server, now: Millis) -> Result<bool, StoreError> {
        while let Ok(report) = self.reports.try_recv() {
            self.handle(report, now)?;
        }
        // Whoever waits for a checkpoint has handled reports too: a removal goes on whoever was told of its last step.
        if !self.remove_asked {
            self.remove_next(server);
        }
        // What was changed and is not in the log yet must not become part of the tables.
        if self.trouble.is_some() {
            return Ok(false);
        }
        self.ask_for_due(server, now);
        if now - self.synced.1 >= RETAIN_MS {
            set_retention(&mut self.log, &server.shared.settings);
            self.retain(now);
        }
        match self.checkpoint {
            Checkpoint::None if self.is_due(server, now) => {
                // A command that is half done cannot be run again by the log: it comes to its end first.
                let is_changing = server.is_changing();
                server.hold_tasks(is_changing);
                if is_changing {
                    return Ok(true);
                }
                self.begin_checkpoint(server, now);
                Ok(true)
            }
            Checkpoint::None => {
                server.hold_tasks(false);
                Ok(false)
            }
            Checkpoint::Collecting => {
                let begin = Instant::now();
                let time = (begin - self.taken_at).clamp(TAKE_TIME, TAKE_TIME_MAX);
                let mut done = false;
                while !done && begin.elapsed() < time {
                    done = server.keyspace.take(TAKE_MAX, &mut self.taken);
                    for taken in self.taken.drain(..) {
                        self.tables.put_taken(taken);
                    }
                }
                self.taken_at = Instant::now();
                if done {
                    // Collections that have outgrown what is kept whole have got versions while they were taken.
                    self.tables.put_next_version();
                    self.record_bytes.end(self.tables.with(|tables| tables.marked_bytes() as u64));
                    self.checkpoint = Checkpoint::Collected;
                }
                Ok(true)
            }
            Checkpoint::Collected => {
                // What a power failure could still take from the log must not be in the tables: they would be ahead of it.
                let mark = self.tables.with(|tables| tables.mark_offset());
                if mark.is_some_and(|mark| self.log.durable().0 < mark.0) {
                    let _ = self.sync_requests.try_send(SyncRequest::Written);
                    return Ok(false);
                }
                if let Some(batch) = self.tables.with(Tables::freeze_marked) {
                    self.frozen_gone = std::mem::take(&mut self.marked_gone);
                    let _ = self.writer.submit(Job::Write(batch));
                    self.submitted = now;
                    self.checkpoint = Checkpoint::None;
                }
                Ok(false)
            }
        }
    }

    /// Removes the next piece of what is no more.
    pub(super) fn remove_next(&mut self, server: &mut Server) {
        while let Some(removal) = self.removing.take().or_else(|| self.next_removable()) {
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
            let is_first = !self.has_begun;
            match self.writer.submit(Job::Remove { bounds, is_first, records_max: REMOVE_MAX, with_last }) {
                Ok(()) => {
                    self.removing = Some(removal);
                    self.remove_asked = true;
                    self.has_begun = true;
                }
                // Too much waits for the writer: it is tried again in the next turn.
                Err(_) => {
                    self.has_begun = false;
                    self.removable.push(removal);
                }
            }
            return;
        }
        self.give_back();
    }

    /// What was removed takes its place until it is merged, and no merge comes in a store that nobody writes to.
    fn give_back(&mut self) {
        if self.emptied_records >= MERGED_FROM
            && (self.disk_bytes() > MERGED_MAX || self.writer.submit(Job::Compact).is_ok())
        {
            self.emptied_records = 0;
        }
    }

    /// Something that is no more and that nobody reads as it was.
    fn next_removable(&mut self) -> Option<Removal> {
        let is_read = |removal: &Removal| match removal {
            Removal::Database(disk, _) => self.tables.is_pinned(|of| of.disk == *disk),
            Removal::Collection(gone) => self.tables.is_pinned(|of| of == gone),
        };
        let index = self.removable.iter().rposition(|removal| !is_read(removal))?;
        Some(self.removable.remove(index))
    }

    /// An emptied database is removed: its number may be used again, so nothing may have it removed once more.
    pub(super) fn forget_dropped(&mut self, server: &mut Server, disk: u8) {
        server.keyspace.forget_dropped(disk);
        for gone in [&mut self.marked_gone, &mut self.frozen_gone, &mut self.written_gone] {
            gone.databases.retain(|dropped| *dropped != disk);
        }
        self.removable.retain(|removal| !matches!(removal, Removal::Database(dropped, _) if *dropped == disk));
    }

    pub(super) fn is_due(&self, server: &Server, now: Millis) -> bool {
        let behind = self.log.end().0 - self.last_checkpoint_offset.0;
        let settings = &server.shared.settings;
        // A copy that is being made changes the tables before it is in the log.
        let dirty_bytes = self.tables.with(|tables| tables.dirty_bytes() as u64);
        let batch_bytes =
            if settings.maxmemory.0 > 0 { self.record_bytes.of(server.keyspace.untaken()).max(dirty_bytes) } else { 0 };
        // Commands that changed nothing in the end leave what only a checkpoint makes clean, and nothing in the log.
        let is_to_clean = self.pressed && server.keyspace.dirty_len() > 0;
        (behind > 0 || dirty_bytes > 0 || is_to_clean)
            && (self.pressed
                || behind.max(batch_bytes) >= checkpoint_bytes(settings)
                || server.keyspace.dirty_len() >= DIRTY_KEYS_MAX
                || self.tables.overlay_bytes() >= OVERLAY_BYTES_MAX
                || now - self.last_checkpoint >= CHECKPOINT_MS)
    }

    pub(super) fn begin_checkpoint(&mut self, server: &mut Server, now: Millis) {
        debug_assert!(!server.is_changing(), "a checkpoint in the middle of a command");
        let end = self.log.end();
        if !self.tables.with(|tables| tables.mark(engine::Offset(end.0))) {
            return;
        }
        let batch_bytes = self.tables.with(|tables| tables.marked_bytes() as u64);
        self.record_bytes.begin(server.keyspace.untaken(), batch_bytes);
        server.keyspace.begin_checkpoint();
        for db in 0..server.keyspace.len() {
            if let Some(database) = server.keyspace.database(db) {
                self.tables.put_key_counts(db, database.len(), database.expires_len());
            }
        }
        let layout = server.keyspace.layout();
        self.tables.put_layout(&layout);
        self.tables.put_key_seed();
        self.marked_gone = Gone { databases: layout.dropped, collections: self.tables.take_orphans() };
        if let Some(payload) = server.shared.functions.take_changed() {
            self.tables.put_functions(payload);
        }
        self.checkpoint = Checkpoint::Collecting;
        self.pressed = false;
        self.last_checkpoint = now;
        self.last_checkpoint_offset = end;
    }

    pub(super) fn handle(&mut self, report: Report, now: Millis) -> Result<(), StoreError> {
        match report {
            Report::Written { .. } => {
                if let Some(offset) = self.tables.with(Tables::written) {
                    let drained = offset.0.saturating_sub(self.applied.0);
                    self.drained = (drained > 0).then_some((drained, now - self.submitted)).or(self.drained);
                    self.applied = Offset(offset.0);
                    let gone = std::mem::take(&mut self.frozen_gone);
                    self.written_gone.databases.extend(gone.databases);
                    self.written_gone.collections.extend(gone.collections);
                    let _ = self.writer.submit(Job::Sync);
                }
            }
            Report::WriteFailed { error, again: None, .. } => return Err(error.into()),
            Report::WriteFailed { error, failures, .. } => {
                self.failed = true;
                if failures == 1 {
                    messages::warn(&format!("the tables cannot be written, it is tried again: {}", chain(&error)));
                }
            }
            Report::Synced(Ok(())) => {
                self.last_done = clock::now();
                self.last_done_ms = self.last_done - self.last_checkpoint;
                self.checkpoints += 1;
                self.failed = false;
                self.synced.0 = self.applied;
                self.retain(now);
                let gone = std::mem::take(&mut self.written_gone);
                for disk in gone.databases {
                    let listed = |removal: &Removal| matches!(removal, Removal::Database(known, _) if *known == disk);
                    if !self.removable.iter().chain(&self.removing).any(listed) {
                        self.removable.push(Removal::Database(disk, 0));
                    }
                }
                self.removable.extend(gone.collections.into_iter().map(Removal::Collection));
            }
            Report::Compacted(result) => {
                self.merges += 1;
                if let Err(error) = result {
                    messages::warn(&format!("the tables cannot be merged: {}", chain(&error)));
                }
            }
            Report::Synced(Err(error)) => {
                self.failed = true;
                messages::warn(&format!("the tables cannot be synced: {}", chain(&error)));
            }
            Report::Removed(Ok(removed)) => {
                self.remove_asked = false;
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
            Report::Removed(Err(error)) => {
                // Emptied databases come again with the next checkpoint, collections with the next start.
                self.removing = None;
                self.remove_asked = false;
                self.has_begun = false;
                messages::warn(&format!("what was removed keeps its place on the disk for now: {}", chain(&error)));
            }
        }
        Ok(())
    }

    /// Does a checkpoint, and waits until it is durable.
    ///
    /// # Errors
    ///
    /// The log or the tables cannot be written.
    pub fn checkpoint_now(&mut self, server: &mut Server, now: Millis) -> Result<(), StoreError> {
        server.finish_tasks();
        server.hold_tasks(false);
        self.commit_at_once(server, now)?;
        if self.trouble.is_some() {
            return Ok(());
        }
        // One may be under way; the one that has everything follows it.
        self.settle(server, now)?;
        let done = self.checkpoints;
        if self.log.end() > self.last_checkpoint_offset {
            self.begin_checkpoint(server, now);
            self.settle(server, now)?;
            while self.checkpoints == done && !self.failed {
                let Ok(report) = self.reports.recv() else { return Ok(()) };
                self.handle(report, now)?;
            }
        } else {
            self.last_done = now;
        }
        Ok(())
    }

    /// Carries the checkpoint that is under way to its end, unless the tables cannot be written: nobody knows for how long.
    /// While the log cannot be written there would be no end to it.
    pub(super) fn settle(&mut self, server: &mut Server, now: Millis) -> Result<(), StoreError> {
        debug_assert!(self.trouble.is_none(), "a checkpoint while the log cannot be written");
        while !matches!(self.checkpoint, Checkpoint::None) || self.tables.with(|tables| tables.frozen().is_some()) {
            if matches!(self.checkpoint, Checkpoint::None)
                || (matches!(self.checkpoint, Checkpoint::Collected)
                    && self.tables.with(|tables| tables.frozen().is_some()))
            {
                let Ok(report) = self.reports.recv() else { return Ok(()) };
                let is_refused = matches!(report, Report::WriteFailed { .. });
                self.handle(report, now)?;
                if is_refused {
                    return Ok(());
                }
            }
            if !matches!(self.checkpoint, Checkpoint::None) {
                self.advance(server, now)?;
            }
        }
        Ok(())
    }
}

/// How much log may have come since the last checkpoint.
fn checkpoint_bytes(settings: &Settings) -> u64 {
    let by_memory = match settings.maxmemory.0 {
        0 => REPLAY_BYTES_MAX,
        bound => (bound / CHECKPOINT_SHARE).clamp(CHECKPOINT_BYTES_MIN, REPLAY_BYTES_MAX),
    };
    match settings.tables_behind_max.0 {
        0 => by_memory,
        // One is being written while the next one gathers, and clients are slowed down from half of it on.
        bound => by_memory.min(bound / 4),
    }
}
