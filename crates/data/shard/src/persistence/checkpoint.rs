//! Checkpoints: how the tables follow the log.

use std::{collections::VecDeque, time::Duration};

use commands::{Server, config::Settings};
use engine::{Job, Report, Tables};
use keyspace::{MaxmemoryPolicy, Millis, Taken};
use oplog::{Offset, disk::Disk};

use crate::{Persistence, ShardError, SyncRequest, Workers, error::chain};

use super::{owed::RecordBytes, set_retention};

/// How often it is looked for log that is not to be kept any more.
const RETAIN_MS: Millis = 1_000;
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
/// The same where a policy removes keys: all that is not records has more room.
const CHECKPOINT_SHARE_OF_POLICY: u64 = 32;
/// The least part.
const CHECKPOINT_BYTES_MIN: u64 = 2 << 20;
/// How old the last checkpoint may be while keys are dirty.
const CHECKPOINT_MS: Millis = 10_000;
/// For how long a batch is written before it is said that this takes long; then after twice as long again, and so on.
const SLOW_MS: Millis = 60_000;
/// How far a checkpoint is.
pub(crate) enum Stage {
    None,
    /// Keys are being handed in.
    Collecting,
    /// Waits until the batch before it is written.
    Collected,
}

/// How far the tables follow the log.
pub(crate) struct Checkpoints {
    pub(crate) stage: Stage,
    /// When the last one began, and at which offset.
    begun: Millis,
    pub(crate) begun_offset: Offset,
    /// When the tables were made durable last, how long that checkpoint took, and how many there were.
    pub(crate) last_done: Millis,
    pub(crate) last_done_ms: Millis,
    pub(crate) count: u64,
    /// How often everything was merged because somebody wanted it.
    merges: u64,
    /// The last attempt failed.
    pub(crate) failed: bool,
    /// Memory is short: dirty keys are to become clean.
    pressed: bool,
    taken: Vec<Taken>,
    /// Keys and elements that are handed in between two looks at the clock.
    take_max: usize,
    /// When a turn handed in last.
    taken_at: Duration,
    record_bytes: RecordBytes,
    /// The offset that the tables have.
    pub(crate) applied: Offset,
    /// Bytes of batches that are written, and may be in memory until they are in files.
    unsynced_bytes: u64,
    /// The offset that the tables have durably, and when the log was last looked through for what is not kept any more.
    synced: (Offset, Millis),
    /// When the batch that is being written was handed over.
    submitted: Millis,
    /// After how long it is said that it is not written yet.
    slow_after: Millis,
    /// What those who write tables had no room for yet.
    unsubmitted: VecDeque<Job>,
    /// For how much log a batch was written, and how long that took.
    drained: Option<(u64, Millis)>,
}

impl Checkpoints {
    /// Of tables that have the log up to an offset.
    pub(crate) fn new(applied: Offset, now: Millis, elapsed: Duration) -> Self {
        Self {
            stage: Stage::None,
            begun: now,
            begun_offset: applied,
            last_done: now,
            last_done_ms: 0,
            count: 0,
            merges: 0,
            failed: false,
            pressed: false,
            taken: Vec::new(),
            take_max: TAKE_MAX,
            taken_at: elapsed,
            record_bytes: RecordBytes::default(),
            applied,
            unsynced_bytes: 0,
            synced: (applied, now),
            submitted: now,
            slow_after: SLOW_MS,
            unsubmitted: VecDeque::new(),
            drained: None,
        }
    }

    pub(crate) fn clock_was_set_back(&mut self, now: Millis) {
        self.begun = self.begun.min(now);
        self.synced.1 = self.synced.1.min(now);
        self.submitted = self.submitted.min(now);
    }
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Says that memory is short and nothing in it is clean: a checkpoint is to begin when it can.
    pub fn press(&mut self) {
        self.checkpoints.pressed = true;
    }

    /// How many keys and elements a checkpoint hands in between two looks at the clock. A simulation has it look often: then a
    /// checkpoint of its few keys takes as many turns as one of a million keys does elsewhere.
    pub fn set_take_max(&mut self, keys: usize) {
        self.checkpoints.take_max = keys.max(1);
    }

    /// Whether memory has what the tables have not.
    pub fn is_behind(&self, server: &Server) -> bool {
        server.keyspace.dirty_len() > 0
            || !matches!(self.checkpoints.stage, Stage::None)
            || self.tables.with(|tables| tables.overlay_bytes() > 0)
            // The engine has it, and still in memory.
            || self.checkpoints.synced.0 < self.checkpoints.applied
            || self.tables.with(|tables| tables.engine().is_making_files())
    }

    /// How much memory what has changed already will take besides, until it is in the tables.
    pub fn owed(&self, server: &Server) -> u64 {
        let (next, taking) = (server.keyspace.untaken(), server.keyspace.to_be_taken());
        let made = RecordBytes::of_made(self.tables.with(|tables| tables.overlay_len()));
        self.checkpoints
            .record_bytes
            .of(next)
            .saturating_add(self.checkpoints.record_bytes.of(taking))
            .saturating_add(made)
    }

    /// About how much memory records take that are not in files yet.
    pub fn unwritten(&self) -> u64 {
        self.tables.overlay_bytes() as u64 + self.checkpoints.unsynced_bytes
    }

    /// What the engine will take of memory when it makes files next, where records are long.
    pub fn bytes_to_make_files(&self) -> u64 {
        self.tables.with(|tables| tables.engine().bytes_to_make_files())
    }

    /// How many bytes of changes the tables are behind: in the log, or in memory if they take more there.
    pub fn behind(&self) -> u64 {
        (self.commit.log.end().0 - self.checkpoints.applied.0).max(self.tables.overlay_bytes() as u64)
    }

    /// Whether the tables could not be written when that was last tried.
    pub fn has_failed(&self) -> bool {
        self.checkpoints.failed
    }

    /// How much of the disk the tables take.
    pub fn disk_bytes(&self) -> u64 {
        self.tables.with(|tables| tables.engine().disk_bytes())
    }

    /// How often everything in the tables was merged, or could not be.
    pub fn merges(&self) -> u64 {
        self.checkpoints.merges
    }

    /// Has everything in the tables merged: what was removed is given back to the disk.
    pub fn merge(&mut self) {
        let _ = self.workers.write_tables(Job::Compact);
    }

    /// For how much log a batch has been written since this was asked last, and how long that took.
    pub fn take_drained(&mut self) -> Option<(u64, Millis)> {
        self.checkpoints.drained.take()
    }

    /// Carries checkpoints on. Returns whether there is more to do at once.
    pub fn advance(&mut self, server: &mut Server, now: Millis) -> Result<bool, ShardError> {
        while let Some(report) = self.workers.poll_report() {
            self.handle(report, now)?;
        }
        self.submit_waiting();
        self.go_on_removing(server);
        self.tell_if_slow(now);
        // What was changed and is not in the log yet must not become part of the tables.
        if self.commit.trouble.is_some() {
            return Ok(false);
        }
        self.ask_for_due(server, now);
        if now - self.checkpoints.synced.1 >= RETAIN_MS {
            set_retention(&mut self.commit.log, server.settings());
            self.retain(now);
        }
        match self.checkpoints.stage {
            Stage::None if self.is_due(server, now) => {
                // A command that is half done cannot be run again by the log: it comes to its end first.
                let is_changing = server.is_changing();
                server.hold_tasks(is_changing);
                if is_changing {
                    return Ok(true);
                }
                self.begin_checkpoint(server, now);
                Ok(true)
            }
            Stage::None => {
                server.hold_tasks(false);
                Ok(false)
            }
            Stage::Collecting => {
                let begin = self.world.elapsed();
                let time = begin.saturating_sub(self.checkpoints.taken_at).clamp(TAKE_TIME, TAKE_TIME_MAX);
                // Something is handed in however slow the machine is: a checkpoint that stands still would never end.
                let done = loop {
                    let done = server.keyspace.take(self.checkpoints.take_max, &mut self.checkpoints.taken);
                    for taken in self.checkpoints.taken.drain(..) {
                        self.tables.put_taken(taken);
                    }
                    if done || self.world.elapsed().saturating_sub(begin) >= time {
                        break done;
                    }
                };
                self.checkpoints.taken_at = self.world.elapsed();
                if done {
                    // Collections that have outgrown what is kept whole have got versions while they were taken.
                    self.tables.put_next_version();
                    self.checkpoints.record_bytes.end(self.tables.with(|tables| tables.marked_bytes() as u64));
                    self.checkpoints.stage = Stage::Collected;
                }
                Ok(true)
            }
            Stage::Collected => {
                // What a power failure could still take from the log must not be in the tables: they would be ahead of it.
                let mark = self.tables.with(|tables| tables.mark_offset());
                if mark.is_some_and(|mark| self.commit.log.durable().0 < mark.0) {
                    self.workers.sync_log(SyncRequest::Written);
                    return Ok(false);
                }
                if let Some(batch) = self.tables.with(Tables::freeze_marked) {
                    self.removals.freeze();
                    self.submit(Job::Write(batch));
                    self.checkpoints.submitted = now;
                    self.checkpoints.slow_after = SLOW_MS;
                    self.checkpoints.stage = Stage::None;
                }
                Ok(false)
            }
        }
    }

    /// Has a job done that a checkpoint cannot do without.
    fn submit(&mut self, job: Job) {
        self.checkpoints.unsubmitted.push_back(job);
        self.submit_waiting();
    }

    fn submit_waiting(&mut self) {
        while let Some(job) = self.checkpoints.unsubmitted.pop_front() {
            if let Err(job) = self.workers.write_tables(job) {
                self.checkpoints.unsubmitted.push_front(job);
                return;
            }
        }
    }

    /// Says that a batch is not written yet, if that takes long.
    fn tell_if_slow(&mut self, now: Millis) {
        let Some(bytes) = self.tables.with(|tables| tables.frozen().map(|batch| batch.bytes())) else { return };
        let elapsed = now - self.checkpoints.submitted;
        if elapsed < self.checkpoints.slow_after {
            return;
        }
        self.checkpoints.slow_after = elapsed.saturating_mul(2);
        let does = match self.tables.with(|tables| tables.engine().is_making_files()) {
            true => "the tables are making files",
            false => "nothing is being done about it",
        };
        self.world.warn(&format!(
            "a checkpoint of {} MB has waited for the tables for {} s by now: {does}. All of it is in the log",
            bytes >> 20,
            elapsed / 1000
        ));
    }

    /// Gives up what of the log is not to be kept any more.
    fn retain(&mut self, now: Millis) {
        self.checkpoints.synced.1 = now;
        let floor = self.kept_from.map_or(self.checkpoints.synced.0, |kept| kept.min(self.checkpoints.synced.0));
        if self.commit.log.retain(floor, now.unsigned_abs()) > 0 {
            self.workers.maintain_log();
        }
    }

    fn is_due(&self, server: &Server, now: Millis) -> bool {
        let behind = self.commit.log.end().0 - self.checkpoints.begun_offset.0;
        let settings = server.settings();
        // A copy that is being made changes the tables before it is in the log.
        let dirty_bytes = self.tables.with(|tables| tables.dirty_bytes() as u64);
        let batch_bytes = if settings.maxmemory.0 > 0 {
            self.checkpoints.record_bytes.of(server.keyspace.untaken()).max(dirty_bytes)
        } else {
            0
        };
        // Commands that changed nothing in the end leave what only a checkpoint makes clean, and nothing in the log.
        let is_to_clean = self.checkpoints.pressed && server.keyspace.dirty_len() > 0;
        (behind > 0 || dirty_bytes > 0 || is_to_clean)
            && (self.checkpoints.pressed
                || behind.max(batch_bytes) >= checkpoint_bytes(settings)
                || server.keyspace.dirty_len() >= DIRTY_KEYS_MAX
                || self.tables.overlay_bytes() >= OVERLAY_BYTES_MAX
                || now - self.checkpoints.begun >= CHECKPOINT_MS)
    }

    pub(crate) fn begin_checkpoint(&mut self, server: &mut Server, now: Millis) {
        debug_assert!(!server.is_changing(), "a checkpoint in the middle of a command");
        let end = self.commit.log.end();
        if !self.tables.with(|tables| tables.mark(engine::LogOffset(end.0))) {
            return;
        }
        let batch_bytes = self.tables.with(|tables| tables.marked_bytes() as u64);
        self.checkpoints.record_bytes.begin(server.keyspace.untaken(), batch_bytes);
        server.keyspace.begin_checkpoint();
        for db in 0..server.keyspace.len() {
            if let Some(database) = server.keyspace.database(db) {
                self.tables.put_key_counts(db, database.len(), database.expires_len());
            }
        }
        let layout = server.keyspace.layout();
        self.tables.put_layout(&layout);
        self.tables.put_key_seed();
        self.tables.put_selected(self.selected);
        self.removals.mark(layout.dropped, self.tables.take_orphans());
        if let Some(payload) = server.functions_mut().take_changed() {
            self.tables.put_functions(payload);
        }
        self.checkpoints.stage = Stage::Collecting;
        self.checkpoints.pressed = false;
        self.checkpoints.begun = now;
        self.checkpoints.begun_offset = end;
    }

    pub(crate) fn handle(&mut self, report: Report, now: Millis) -> Result<(), ShardError> {
        // There is room for a job more.
        self.submit_waiting();
        match report {
            Report::Written { .. } => {
                let bytes = self.tables.with(|tables| tables.frozen().map_or(0, |batch| batch.bytes()));
                self.checkpoints.unsynced_bytes += bytes as u64;
                if let Some(offset) = self.tables.with(Tables::written) {
                    let drained = offset.0.saturating_sub(self.checkpoints.applied.0);
                    self.checkpoints.drained = (drained > 0)
                        .then_some((drained, now - self.checkpoints.submitted))
                        .or(self.checkpoints.drained);
                    self.checkpoints.applied = Offset(offset.0);
                    self.removals.note_written();
                    self.submit(Job::Sync);
                }
            }
            Report::WriteFailed { error, again: None, .. } => return Err(error.into()),
            Report::WriteFailed { error, failures, .. } => {
                self.checkpoints.failed = true;
                if failures == 1 {
                    self.world.warn(&format!("the tables cannot be written, it is tried again: {}", chain(&error)));
                }
            }
            Report::Synced(Ok(())) => {
                self.checkpoints.last_done = self.world.now();
                self.checkpoints.last_done_ms = self.checkpoints.last_done - self.checkpoints.begun;
                self.checkpoints.count += 1;
                self.checkpoints.failed = false;
                self.checkpoints.unsynced_bytes = 0;
                self.checkpoints.synced.0 = self.checkpoints.applied;
                self.retain(now);
                self.removals.note_durable();
            }
            Report::Compacted(result) => {
                self.checkpoints.merges += 1;
                if let Err(error) = result {
                    self.world.warn(&format!("the tables cannot be merged: {}", chain(&error)));
                }
            }
            Report::Synced(Err(error)) => {
                self.checkpoints.failed = true;
                self.world.warn(&format!("the tables cannot be synced: {}", chain(&error)));
            }
            Report::Removed(Ok(removed)) => self.removals.note_removed(removed),
            Report::Removed(Err(error)) => {
                self.removals.note_failure();
                self.world.warn(&format!("what was removed keeps its place on the disk for now: {}", chain(&error)));
            }
        }
        Ok(())
    }

    /// Does a checkpoint, and waits until it is durable.
    ///
    /// # Errors
    ///
    /// The log or the tables cannot be written.
    pub fn checkpoint_now(&mut self, server: &mut Server, now: Millis) -> Result<(), ShardError> {
        server.finish_tasks();
        server.hold_tasks(false);
        self.commit_at_once(server, now)?;
        if self.commit.trouble.is_some() {
            return Ok(());
        }
        // One may be under way; the one that has everything follows it.
        self.settle(server, now)?;
        let done = self.checkpoints.count;
        if self.commit.log.end() > self.checkpoints.begun_offset {
            self.begin_checkpoint(server, now);
            self.settle(server, now)?;
            while self.checkpoints.count == done && !self.checkpoints.failed {
                let Some(report) = self.workers.wait_for_report() else { return Ok(()) };
                self.handle(report, now)?;
            }
        } else {
            self.checkpoints.last_done = now;
        }
        Ok(())
    }

    /// Carries the checkpoint that is under way to its end, unless the tables cannot be written: nobody knows for how long.
    /// While the log cannot be written there would be no end to it.
    pub(crate) fn settle(&mut self, server: &mut Server, now: Millis) -> Result<(), ShardError> {
        debug_assert!(self.commit.trouble.is_none(), "a checkpoint while the log cannot be written");
        while !matches!(self.checkpoints.stage, Stage::None) || self.tables.with(|tables| tables.frozen().is_some()) {
            if matches!(self.checkpoints.stage, Stage::None)
                || (matches!(self.checkpoints.stage, Stage::Collected)
                    && self.tables.with(|tables| tables.frozen().is_some()))
            {
                let Some(report) = self.workers.wait_for_report() else { return Ok(()) };
                let is_refused = matches!(report, Report::WriteFailed { .. });
                self.handle(report, now)?;
                if is_refused {
                    return Ok(());
                }
            }
            if !matches!(self.checkpoints.stage, Stage::None) {
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
        bound if settings.maxmemory_policy != MaxmemoryPolicy::NoEviction && settings.tables_size_max.0 == 0 => {
            (bound / CHECKPOINT_SHARE_OF_POLICY).clamp(CHECKPOINT_BYTES_MIN, REPLAY_BYTES_MAX)
        }
        bound => (bound / CHECKPOINT_SHARE).clamp(2 * CHECKPOINT_BYTES_MIN, REPLAY_BYTES_MAX),
    };
    match settings.tables_behind_max.0 {
        0 => by_memory,
        // One is being written while the next one gathers, and clients are slowed down from half of it on.
        bound => by_memory.min(bound / 4),
    }
}
