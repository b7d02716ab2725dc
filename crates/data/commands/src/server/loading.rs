//! Keys that a command needs and memory does not have.
//!
//! They are read off the loop before the command runs. Meanwhile its client waits and all others go on. What a command needs
//! beyond the keys that its words name (a script's undeclared keys, `SORT ... GET`) is read in place.
//!
//! A command of very many keys has them read some at a time, each time before it does something with them.

use keyspace::{Bytes, Keys, Loaded, WaiterId, hash_index, slot};

use crate::{Session, SessionId, table::Flags};

use super::{Request, Server};

/// A key to be read from the tables.
#[derive(Debug, Clone)]
pub struct Load {
    /// Its database.
    pub db: usize,
    /// The number that its database has in the tables.
    pub disk: u8,
    /// Its slot.
    pub slot: usize,
    /// Its hash.
    pub hash: u64,
    /// The key.
    pub key: Bytes,
}

impl Server {
    /// Asks for the keys of a command that are not in memory. Returns whether there are any.
    pub(super) fn ask_for_keys(&mut self, session: &mut Session, words: &[&[u8]]) -> bool {
        if !self.keyspace.partial && !self.keyspace.is_cold {
            return false;
        }
        session.loading = 0;
        let executes = || {
            let found = words.first().and_then(|name| self.shared.table.by_name(name));
            found.is_some_and(|found| found.command.flags.contains(Flags::RUNS_TRANSACTION))
        };
        match &session.transaction {
            // Commands that are queued need their keys when all of them run.
            Some(transaction) if executes() => {
                let commands: Vec<Vec<Bytes>> = transaction.commands.clone();
                for command in &commands {
                    let words: Vec<&[u8]> = command.iter().map(|word| word.as_slice()).collect();
                    self.ask_for_words(session, &words);
                }
            }
            Some(_) => {}
            None if self.shared.table.find(words).is_some_and(|found| self.has_many_keys(session, found, words)) => {}
            None => self.ask_for_words(session, words),
        }
        session.loading > 0
    }

    fn ask_for_words(&mut self, session: &mut Session, words: &[&[u8]]) {
        let Some(found) = self.shared.table.find(words) else { return };
        if found.command.keys.is_empty() && found.command.key_places.is_none() {
            return;
        }
        for place in found.command.key_places_of(words) {
            let Some(key) = words.get(place) else { continue };
            if Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes).is_at_hand(key) {
                if self.keyspace.is_cold {
                    self.ask_for_elements(session, found.command, place, words);
                }
                continue;
            }
            session.loading += 1;
            self.ask_for_key(session.db, key, session.id);
        }
    }

    /// Has a key read for a client, or for a task.
    fn ask_for_key(&mut self, db: usize, key: &[u8], waiting: SessionId) {
        let disk = self.keyspace.database(db).map_or(0, |database| database.disk);
        if self.keyspace.reading.wait(disk, key, WaiterId(waiting.0)) {
            let (slot, hash) = (slot::slot(key), hash_index::hash(key, self.keyspace.seed));
            let load = Load { db, disk, slot, hash, key: Bytes::from_slice(key) };
            self.shared.outbox.push(Request::Load(load));
        }
    }

    /// Asks for those of some keys that are not in memory, for a task. Returns how many these are.
    pub(super) fn ask_for_some<'a>(
        &mut self,
        db: usize,
        keys: impl Iterator<Item = &'a [u8]>,
        waiting: SessionId,
    ) -> usize {
        let mut count = 0;
        for key in keys {
            if !Keys::new(&mut self.keyspace, db, self.now, &mut self.changes).is_at_hand(key) {
                self.ask_for_key(db, key, waiting);
                count += 1;
            }
        }
        count
    }

    /// A key was read. Without an answer the command reads it itself, and says what is wrong if it cannot.
    pub fn loaded(&mut self, load: &Load, answer: Option<Option<Loaded>>) {
        let (waiting, is_true) = self.keyspace.reading.end(load.disk, &load.key);
        if let Some(loaded) = answer.filter(|_| is_true) {
            let mut keys = Keys::new(&mut self.keyspace, load.db, self.now, &mut self.changes);
            // What cannot be understood is read again by the command, which says so.
            let _ = keys.put_loaded(load.slot, load.hash, &load.key, loaded);
            keys.space.loads += 1;
        }
        for WaiterId(id) in waiting {
            let id = SessionId(id);
            if self.shared.tasks.loaded(id) {
                continue;
            }
            let Some(session) = self.shared.sessions.get_mut(id) else { continue };
            session.loading = session.loading.saturating_sub(1);
            if session.loading == 0 {
                self.shared.sessions.schedule.runnable.push_back(id);
            }
        }
    }

    /// Runs the clients that have all they waited for.
    pub fn run_loaded(&mut self) {
        self.run_runnable();
    }
}
