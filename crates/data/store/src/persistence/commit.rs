//! What took effect becomes part of the log, and safe.
//!
//! With `appendfsync always` one sync is for as many clients as there are: what took effect is written when a turn changes nothing
//! any more, or all whom the last sync has let go on have written again, or the first of them has waited for [`GROUP_TIME`] and no
//! sync is under way. With a sync for each turn it was 10 commands of 64 clients.

use std::time::{Duration, Instant};

use commands::{Millis, Server, config::Fsync};
use oplog::Offset;

use super::{Persistence, threads::SyncRequest};
use crate::{StoreError, error::chain};

/// How long the first one waits for others that are ready. A sync takes as long where the disk is fast.
const GROUP_TIME: Duration = Duration::from_micros(200);
/// How much is kept back at most, in bytes.
const GROUP_BYTES: usize = 1 << 20;

impl Persistence {
    /// Appends what took effect in this turn, and writes it if it is time. Returns the offset that replies of the turn, to so many
    /// `clients`, have to wait for; nothing if they need not.
    pub fn commit(&mut self, server: &mut Server, now: Millis, clients: usize) -> Result<Option<Offset>, StoreError> {
        self.fsync = server.shared.settings.appendfsync;
        let had_trouble = self.trouble.is_some();
        let has_changed = self.append(server, now)?;
        let is_all = self.awaited > 0 && self.awaited <= clients;
        self.awaited = self.awaited.saturating_sub(clients);
        if self.log.unwritten_len() > 0 && (is_all || self.is_to_be_written(has_changed)) {
            self.write(server)?;
        }
        if let Ok(reason) = self.sync_failures.try_recv() {
            return Err(StoreError::Sync(reason));
        }
        if had_trouble && self.trouble.is_some() {
            // Clients' writes were refused in this turn, and their reads are answered. Whoever wrote when the trouble began
            // still waits.
            return Ok(None);
        }
        let end = self.log.end();
        Ok((self.safe() < end).then_some(end))
    }

    /// Appends, writes and syncs, and waits for that.
    ///
    /// # Errors
    ///
    /// The log cannot be made durable.
    pub(super) fn commit_at_once(&mut self, server: &mut Server, now: Millis) -> Result<(), StoreError> {
        self.append(server, now)?;
        if self.log.unwritten_len() > 0 {
            self.write(server)?;
        }
        let _ = self.log.syncer().sync()?;
        Ok(())
    }

    /// Up to where replies may be sent.
    pub fn safe(&self) -> Offset {
        if self.fsync == Fsync::Always { self.log.durable() } else { self.log.written() }
    }

    /// Replies that waited are sent, to so many clients. They may write again soon, and are waited for a little.
    pub fn let_go(&mut self, clients: usize) {
        self.awaited = clients;
        self.let_go_at = self.log.durable();
    }

    /// Whether the next turn is to come at once, because what was appended is written when nobody is ready.
    pub fn waits_for_more(&self) -> bool {
        self.group_began.is_some()
    }

    fn append(&mut self, server: &mut Server, now: Millis) -> Result<bool, StoreError> {
        let effects = server.effects();
        let has_changed = !effects.is_empty();
        if has_changed {
            // Times of the log stay in order, whatever the clock does.
            self.log_time = self.log_time.max(now.unsigned_abs());
            self.log.append_parts(effects.parts(), self.log_time)?;
            effects.clear();
        }
        Ok(has_changed)
    }

    fn is_to_be_written(&mut self, has_changed: bool) -> bool {
        if self.fsync != Fsync::Always || self.trouble.is_some() || self.log.unwritten_len() >= GROUP_BYTES {
            return true;
        }
        if !has_changed {
            return true;
        }
        let now = Instant::now();
        let began = *self.group_began.get_or_insert(now);
        // What is written while a sync is under way has the next one begin when that ends.
        self.log.durable() >= self.asked && now - began >= GROUP_TIME
    }

    fn write(&mut self, server: &mut Server) -> Result<(), StoreError> {
        self.group_began = None;
        match self.log.write() {
            Ok(written) => {
                if self.trouble.take().is_some() {
                    server.shared.refuse_writes = None;
                }
                let is_first = self.idle_at.is_some_and(|idle_at| written.end > idle_at);
                if is_first {
                    self.idle_at = None;
                }
                if written.rotations > 0 || is_first {
                    let _ = self.maintain_requests.try_send(());
                }
                if self.fsync == Fsync::Always {
                    self.asked = written.end;
                    let _ = self.sync_requests.try_send(match self.awaited {
                        0 => SyncRequest::AllWritten(self.let_go_at),
                        _ => SyncRequest::Written,
                    });
                }
                Ok(())
            }
            Err(oplog::LogError::SyncFailed) => Err(oplog::LogError::SyncFailed.into()),
            Err(error) => {
                let reason = format!("MISCONF Errors writing to the log: {}", chain(&error));
                server.shared.refuse_writes = Some(reason.clone());
                self.trouble = Some(reason);
                Ok(())
            }
        }
    }
}
