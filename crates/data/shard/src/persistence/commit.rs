//! What took effect becomes part of the log, and safe.
//!
//! With `appendfsync always` one sync is for as many clients as there are: what took effect is written when a turn changes nothing
//! any more, or all whom the last sync has let go on have written again, or the first of them has waited for [`GROUP_TIME`] and no
//! sync is under way. With a sync for each turn it was 10 commands of 64 clients.

use std::time::Duration;

use commands::{Server, config::Fsync};
use keyspace::Millis;
use oplog::{Log, Offset, disk::Disk};

use crate::{
    Persistence, ShardError, SyncRequest, Workers,
    error::chain,
    release::{Acknowledged, LogEnds, Promise, released_up_to},
};

/// How long the first one waits for others that are ready. A sync takes as long where the disk is fast.
const GROUP_TIME: Duration = Duration::from_micros(200);
/// How much is kept back at most, in bytes.
const GROUP_BYTES: usize = 1 << 20;

/// The log, and what waits to be written to it or to be synced.
pub(crate) struct GroupCommit<D: Disk> {
    pub(crate) log: Log<D>,
    /// When it was appended to last.
    pub(crate) log_time: u64,
    promise: Promise,
    /// The most replicas that a client was promised.
    replicas_max: usize,
    /// Up to where replicas have it.
    acknowledged: Vec<Acknowledged>,
    /// Up to where a sync that was asked for will make the log durable.
    asked: Offset,
    /// How many clients the last sync has released that have not written since.
    awaited: usize,
    /// Up to where the log was durable then.
    released_at: Offset,
    /// Since when what was appended waits for more; nothing if nothing does.
    group_began: Option<Duration>,
    /// Where the log ended at the start, as long as nothing has been written since: segments are prepared from then on.
    idle_at: Option<Offset>,
    /// The log could not be written: the reason.
    pub(crate) trouble: Option<String>,
    /// Why commands that write are refused whether the log can be written or not.
    refusal: Option<String>,
}

impl<D: Disk> GroupCommit<D> {
    /// Of a log that was appended to last at a time.
    pub(crate) fn new(log: Log<D>, last_time_ms: Option<u64>, fsync: Fsync) -> Self {
        Self {
            log_time: last_time_ms.unwrap_or(0),
            promise: Promise { is_durable: fsync == Fsync::Always, replicas: 0 },
            replicas_max: 0,
            acknowledged: Vec::new(),
            asked: Offset(0),
            awaited: 0,
            released_at: Offset(0),
            group_began: None,
            idle_at: Some(log.end()),
            trouble: None,
            refusal: None,
            log,
        }
    }
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Appends what took effect in this turn, and writes it if it is time. Returns the offset that replies of the turn, to so many
    /// `clients`, have to wait for; nothing if they need not.
    pub fn commit(&mut self, server: &mut Server, now: Millis, clients: usize) -> Result<Option<Offset>, ShardError> {
        self.commit.promise.is_durable = server.settings().appendfsync == Fsync::Always;
        let had_trouble = self.commit.trouble.is_some();
        let has_changed = self.append(server, now)?;
        let is_all = self.commit.awaited > 0 && self.commit.awaited <= clients;
        self.commit.awaited = self.commit.awaited.saturating_sub(clients);
        if self.commit.log.unwritten_len() > 0 && (is_all || self.is_to_be_written(has_changed)) {
            self.write(server)?;
        }
        if let Some(reason) = self.workers.poll_sync_failure() {
            return Err(ShardError::Sync(reason));
        }
        if had_trouble && self.commit.trouble.is_some() {
            // Clients' writes were refused in this turn, and their reads are answered. Whoever wrote when the trouble began
            // still waits.
            return Ok(None);
        }
        let end = self.commit.log.end();
        Ok((self.safe_for(self.commit.replicas_max) < end).then_some(end))
    }

    /// Appends, writes and syncs, and waits for that.
    ///
    /// # Errors
    ///
    /// The log cannot be made durable.
    pub(crate) fn commit_at_once(&mut self, server: &mut Server, now: Millis) -> Result<(), ShardError> {
        self.append(server, now)?;
        if self.commit.log.unwritten_len() > 0 {
            self.write(server)?;
        }
        let _ = self.commit.log.syncer().sync()?;
        Ok(())
    }

    /// Up to where replies may be sent.
    pub fn safe(&self) -> Offset {
        self.safe_for(self.commit.promise.replicas)
    }

    /// The same for those who were promised that so many replicas have what they are told of.
    pub fn safe_for(&self, replicas: usize) -> Offset {
        let log = &self.commit.log;
        let ends = LogEnds { written: log.written(), durable: log.durable(), acknowledged: &self.commit.acknowledged };
        released_up_to(Promise { replicas, ..self.commit.promise }, &ends)
    }

    /// Refuses commands that write, for a reason that has nothing to do with the disk, or lets them be.
    pub(crate) fn refuse_writes(&mut self, server: &mut Server, refusal: Option<String>) {
        self.commit.refusal = refusal;
        server.condition_mut().refuse_writes = self.commit.trouble.clone().or_else(|| self.commit.refusal.clone());
    }

    /// Replies wait from now on until so many replicas have acknowledged what they tell of; those of clients that have asked for more
    /// until these have, `most` at most.
    pub fn wait_for_replicas(&mut self, count: usize, most: usize) {
        (self.commit.promise.replicas, self.commit.replicas_max) = (count, most.max(count));
    }

    /// How many replicas are waited for by a client that has asked for so many.
    pub fn replicas_for(&self, asked: usize) -> usize {
        asked.max(self.commit.promise.replicas).min(self.commit.replicas_max)
    }

    /// Up to where replicas have the log, as safe as their master wants it, for each number of them that somebody was promised.
    pub fn set_acknowledged(&mut self, acknowledged: Vec<Acknowledged>) {
        self.commit.acknowledged = acknowledged;
    }

    /// Replies that waited are sent, to so many clients. They may write again soon, and are waited for a little.
    pub fn released(&mut self, clients: usize) {
        self.commit.awaited = clients;
        self.commit.released_at = self.commit.log.durable();
    }

    /// Whether the next turn is to come at once, because what was appended is written when nobody is ready.
    pub fn waits_for_more(&self) -> bool {
        self.commit.group_began.is_some()
    }

    fn append(&mut self, server: &mut Server, now: Millis) -> Result<bool, ShardError> {
        let effects = server.effects();
        let has_changed = !effects.is_empty();
        if has_changed {
            // Times of the log stay in order, whatever the clock does.
            self.commit.log_time = self.commit.log_time.max(now.unsigned_abs());
            self.commit.log.append_parts(effects.parts(), self.commit.log_time)?;
            effects.clear();
        }
        Ok(has_changed)
    }

    fn is_to_be_written(&mut self, has_changed: bool) -> bool {
        if !self.commit.promise.is_durable
            || self.commit.trouble.is_some()
            || self.commit.log.unwritten_len() >= GROUP_BYTES
        {
            return true;
        }
        if !has_changed {
            return true;
        }
        let now = self.world.elapsed();
        let began = *self.commit.group_began.get_or_insert(now);
        // What is written while a sync is under way has the next one begin when that ends.
        self.commit.log.durable() >= self.commit.asked && now - began >= GROUP_TIME
    }

    fn write(&mut self, server: &mut Server) -> Result<(), ShardError> {
        self.commit.group_began = None;
        match self.commit.log.write() {
            Ok(written) => {
                if self.commit.trouble.take().is_some() {
                    server.condition_mut().refuse_writes.clone_from(&self.commit.refusal);
                }
                let is_first = self.commit.idle_at.is_some_and(|idle_at| written.end > idle_at);
                if is_first {
                    self.commit.idle_at = None;
                }
                if written.rotations > 0 || is_first {
                    self.workers.maintain_log();
                }
                if self.commit.promise.is_durable {
                    self.commit.asked = written.end;
                    self.workers.sync_log(match self.commit.awaited {
                        0 => SyncRequest::AllWritten(self.commit.released_at),
                        _ => SyncRequest::Written,
                    });
                }
                Ok(())
            }
            Err(oplog::LogError::SyncFailed) => Err(oplog::LogError::SyncFailed.into()),
            Err(error) => {
                let reason = format!("MISCONF Errors writing to the log: {}", chain(&error));
                server.condition_mut().refuse_writes = Some(reason.clone());
                self.commit.trouble = Some(reason);
                Ok(())
            }
        }
    }
}
