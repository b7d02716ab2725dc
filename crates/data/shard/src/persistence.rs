//! What makes data outlive the process: the log, and the tables behind it.
//!
//! The log is the truth. Each turn of the loop appends its effects, and writes them if it is time ([`Persistence::commit`]); the tables
//! follow by checkpoints. A checkpoint begins at the end of a turn, at an offset of the log; the keys that were dirty then are handed
//! in over the following turns, and become one batch that is written elsewhere with the offset ([`Persistence::advance`]). So
//! recovery is: read the offset in the tables, run the log again from there ([`Persistence::recover`]).

mod checkpoint;
mod commit;
mod gathering;
mod owed;
mod reading;
mod recovery;
mod removal;

use std::{rc::Rc, sync::Arc};

use commands::{Server, config::Settings, host::PersistenceFigures};
use engine::{Engine, Job, Tables};
use keyspace::Millis;
pub(crate) use recovery::log_session;

use oplog::{Log, Offset, ReplicationId, disk::Disk};

use crate::{ShardError, Workers, World, records::ShardTables};

use self::{
    checkpoint::{Checkpoints, Stage},
    commit::GroupCommit,
    reading::Reads,
    removal::Removals,
};

/// A log and tables that were opened, and fit together.
#[derive(Debug)]
pub struct Opened<D: Disk> {
    /// The log.
    pub log: Log<D>,
    /// When it was appended to last, in milliseconds since 1970.
    pub last_time_ms: Option<u64>,
    /// Up to where the tables have it.
    pub applied: Offset,
}

/// Up to where the tables have the log.
///
/// # Errors
///
/// They do not fit together, or the tables cannot be read.
pub fn applied_of_log<D: Disk>(log: &Log<D>, engine: &dyn Engine) -> Result<Offset, ShardError> {
    let applied = engine.applied()?.map(|offset| Offset(offset.0));
    if applied.is_none() && log.first() > Offset(0) {
        return Err(ShardError::TablesMissing { first: log.first().0 });
    }
    let applied = applied.unwrap_or(log.first());
    if applied > log.end() {
        return Err(ShardError::LogBehind { applied: applied.0, end: log.end().0 });
    }
    Ok(applied)
}

/// Log and tables of a shard.
pub struct Persistence<D: Disk, W> {
    pub(crate) world: Rc<dyn World>,
    pub(crate) workers: W,
    pub(crate) tables: ShardTables,
    pub(crate) commit: GroupCommit<D>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) removals: Removals,
    pub(crate) reads: Reads,
    /// The database that is selected where the log ends that is followed.
    pub(crate) selected: usize,
    /// Nothing of the log from there on is given up: somebody is about to read it.
    pub(crate) kept_from: Option<Offset>,
    /// The log is another server's: what it could do may fail here.
    pub(crate) is_of_others: bool,
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Of a log and tables that were opened, and those who wait for their disks. New tables get a seed of their own.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn new(
        mut opened: Opened<D>,
        engine: Arc<dyn Engine>,
        new_seed: u64,
        settings: &Settings,
        (workers, world): (W, Rc<dyn World>),
    ) -> Result<Self, ShardError> {
        let now = world.now();
        set_retention(&mut opened.log, settings);
        let tables = ShardTables::new(Tables::new(engine), new_seed, settings, Rc::clone(&world))?;
        Ok(Self {
            tables,
            checkpoints: Checkpoints::new(opened.applied, now, world.elapsed()),
            commit: GroupCommit::new(opened.log, opened.last_time_ms, settings.appendfsync),
            removals: Removals::default(),
            reads: Reads::new(now),
            selected: 0,
            kept_from: None,
            is_of_others: false,
            workers,
            world,
        })
    }

    /// What the keyspace asks for keys that are not in memory.
    pub fn tables(&self) -> ShardTables {
        self.tables.clone()
    }

    /// The log, for those who read it.
    pub fn log(&self) -> &Log<D> {
        &self.commit.log
    }

    /// The engine below the tables: its snapshots are as of some offset of the log.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.tables.with(|tables| Arc::clone(tables.engine()))
    }

    /// Nothing of the log from an offset on is given up for now.
    pub fn keep_log_from(&mut self, offset: Option<Offset>) {
        self.kept_from = offset;
    }

    /// The log is, or was, another server's: a command that fails when it is run again has failed before, or ran there for reasons of
    /// that server.
    pub fn set_of_others(&mut self) {
        self.is_of_others = true;
    }

    /// Those who wait for disks: in a simulation they are told when to.
    pub fn workers_mut(&mut self) -> &mut W {
        &mut self.workers
    }

    /// Follows settings that have changed.
    pub fn follow_settings(&self, settings: &Settings) {
        self.tables.follow(settings);
    }

    /// Begins to measure time anew.
    pub fn clock_was_set_back(&mut self, now: Millis) {
        self.checkpoints.clock_was_set_back(now);
        self.reads.clock_was_set_back(now);
    }

    /// How things are, for those who ask.
    pub fn figures(&self) -> PersistenceFigures {
        let is_collecting = !matches!(self.checkpoints.stage, Stage::None);
        let log = &self.commit.log;
        PersistenceFigures {
            enabled: true,
            in_progress: is_collecting || self.tables.with(|tables| tables.frozen().is_some()),
            last_checkpoint: self.checkpoints.last_done,
            last_checkpoint_ms: self.checkpoints.last_done_ms,
            failed: self.checkpoints.failed,
            checkpoints: self.checkpoints.count,
            log: (log.first().0, log.end().0),
            durable: log.durable().0,
            applied: self.checkpoints.applied.0,
            log_failed: self.commit.trouble.is_some(),
            reads_by_ring: self.workers.reads_by_ring(),
        }
    }

    /// The name of the log's history.
    pub fn replication_id(&self) -> ReplicationId {
        self.commit.log.replication_id()
    }

    /// Waits for what is being read, and hands it to those who wait for it.
    pub fn drain(&mut self, server: &mut Server, now: Millis) {
        self.reads.gathers = false;
        while self.reads.outstanding > 0 {
            self.load(server, now);
            self.workers.wait_for_answers();
        }
    }

    /// Brings the log to the disk, and nothing more.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn close_without_checkpoint(mut self, server: &mut Server, now: Millis) -> Result<(), ShardError> {
        server.finish_tasks();
        self.commit_at_once(server, now)?;
        self.end();
        Ok(())
    }

    /// Brings everything to the disk, so that the next start has nothing to run again. What the disk does not take keeps
    /// nobody from ending: all that was acknowledged is in the log.
    ///
    /// # Errors
    ///
    /// The log cannot be made durable, or the tables are broken.
    pub fn close(mut self, server: &mut Server, now: Millis) -> Result<(), ShardError> {
        server.finish_tasks();
        self.commit_at_once(server, now)?;
        if let Some(reason) = &self.commit.trouble {
            let reason = reason.trim_start_matches("MISCONF ");
            self.world.warn(&format!(
                "{reason}: the store ends without what it has not acknowledged; the next start runs more of the log again"
            ));
            self.end();
            return Ok(());
        }
        // One checkpoint may be under way; the last one follows it.
        self.settle(server, now)?;
        if self.commit.log.end() > self.checkpoints.begun_offset {
            self.begin_checkpoint(server, now);
            self.settle(server, now)?;
        }
        if self.tables.with(|tables| tables.frozen().is_some()) {
            self.world.warn("the tables cannot be written: the next start runs more of the log again");
        }
        let _ = self.workers.write_tables(Job::Sync);
        self.end();
        Ok(())
    }

    /// Waits for the workers: whoever opens the folder next finds nobody in it.
    fn end(self) {
        self.workers.end();
    }
}

/// How much of the log is kept, as the settings say.
pub(crate) fn set_retention<D: Disk>(log: &mut Log<D>, settings: &Settings) {
    let bound = |value: u64| (value > 0).then_some(value);
    let seconds = settings.log_retention_seconds.0.unsigned_abs();
    log.set_retention(bound(settings.log_retention_size.0), bound(seconds.saturating_mul(1000)));
}
