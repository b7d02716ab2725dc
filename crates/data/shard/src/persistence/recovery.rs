//! A start: the tables' offset is read, and the log is run again from there.

use commands::{Server, Session, SessionId};
use keyspace::Millis;
use oplog::{Offset, disk::Disk};

use crate::{
    Persistence, ShardError, Workers,
    effects::{Effect, Effects, time_of},
};

use super::removal::Removal;

/// Whose writes are those of a log that is run again.
pub(crate) fn log_session() -> Session {
    let mut session = Session::new(SessionId(0), 0);
    session.internal = true;
    session.replaying = true;
    session
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Something has changed that no command of the log tells of: the next checkpoint has to have it.
    ///
    /// # Errors
    ///
    /// The log takes nothing.
    pub fn note_other_changes(&mut self, now: Millis) -> Result<(), ShardError> {
        Ok(self.commit.log.append(b"*1\r\n$4\r\nPING\r\n", now.unsigned_abs())?)
    }

    /// Brings a new server to the end of the log. Returns how many commands ran again.
    ///
    /// # Errors
    ///
    /// Log or tables cannot be read, or a command of the log does not run.
    pub fn recover(&mut self, server: &mut Server) -> Result<u64, ShardError> {
        if let Some(layout) = self.tables.layout()? {
            server.keyspace.set_layout(&layout);
            self.removals.removable = layout.dropped.iter().map(|disk| Removal::Database(*disk, 0)).collect();
        }
        self.tables.read_next_version()?;
        self.removals.removable.extend(self.tables.read_orphans()?.into_iter().map(Removal::Collection));
        for db in 0..server.keyspace.len() {
            let (count, expires) = self.tables.key_counts(db)?;
            if let Some(database) = server.keyspace.database_mut(db) {
                database.set_len(count, expires);
            }
        }
        if let Some(payload) = self.tables.functions()? {
            server.restore_functions(&payload).map_err(ShardError::Functions)?;
        }
        let empty = self.tables.with(|tables| tables.engine().applied())?.is_none();
        if empty {
            server.keyspace.set_complete();
        }
        let mut session = log_session();
        session.db = self.tables.selected()?;
        let mut reader = self.commit.log.read(self.checkpoints.applied)?;
        let mut effects = Effects::default();
        let mut count = 0;
        let failed = |offset: Offset, reason| ShardError::Replay { offset: offset.0, reason };
        while let Some(entry) = reader.next()? {
            session.replayed_at = time_of(&entry);
            let run = |effect: Effect<'_>| {
                count += 1;
                match server.replay(&mut session, effect.words) {
                    Err(reason) if !self.is_of_others => Err(failed(effect.offset, reason)),
                    _ => Ok(()),
                }
            };
            effects.each(&entry, run, failed)?;
        }
        self.selected = session.db;
        Ok(count)
    }
}
