//! Keys that a command needs and memory does not have.
//!
//! They are read off the loop before the command runs. Meanwhile its client waits and all others go on. What a command needs
//! beyond the keys that its words name (a script's undeclared keys, `SORT ... GET`) is read in place.
//!
//! Elements that are records are read in place as well, as long as that is quick: the tables have a cache. When whoever reads them
//! finds that the disk is slow ([`Keyspace::set_cold`](crate::keyspace::Keyspace::set_cold)), the elements that a command names
//! are read off the loop first, which brings them into that cache, and then the command runs.

use crate::{
    Bytes, Session, SessionId, hash_index,
    keyspace::{Collection, Keys, Loaded},
    slot,
};

use super::Server;

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

/// Elements to be read off the loop, for a client that waits.
#[derive(Debug)]
pub struct Warmup {
    /// Who waits.
    pub session: SessionId,
    /// The elements of which collection.
    pub of: Collection,
    /// Their names.
    pub names: Vec<Vec<u8>>,
}

/// Commands whose words name elements: from which word on, and each how many words. More than elements does no harm.
const NAMES_ELEMENTS: &[(&str, usize, usize)] = &[
    ("HDEL", 2, 1),
    ("HEXISTS", 2, usize::MAX),
    ("HGET", 2, usize::MAX),
    ("HINCRBY", 2, usize::MAX),
    ("HINCRBYFLOAT", 2, usize::MAX),
    ("HMGET", 2, 1),
    ("HMSET", 2, 2),
    ("HSET", 2, 2),
    ("HSETNX", 2, usize::MAX),
    ("HSTRLEN", 2, usize::MAX),
    ("SADD", 2, 1),
    ("SISMEMBER", 2, usize::MAX),
    ("SMISMEMBER", 2, 1),
    ("SMOVE", 3, usize::MAX),
    ("SREM", 2, 1),
    ("ZADD", 3, 1),
    ("ZINCRBY", 3, usize::MAX),
    ("ZMSCORE", 2, 1),
    ("ZRANK", 2, usize::MAX),
    ("ZREM", 2, 1),
    ("ZREVRANK", 2, usize::MAX),
    ("ZSCORE", 2, usize::MAX),
];
/// How many elements of a command are read together; it reads others itself.
const WARMUP_MAX: usize = 1_000;

impl Server {
    /// Asks for the keys of a command that are not in memory. Returns whether there are any.
    pub(super) fn ask_for_keys(&mut self, session: &mut Session, words: &[&[u8]]) -> bool {
        if !self.keyspace.partial && !self.keyspace.is_cold {
            return false;
        }
        session.loading = 0;
        let executes = words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"EXEC"));
        match &session.transaction {
            // Commands that are queued need their keys when all of them run.
            Some(transaction) if executes => {
                let commands: Vec<Vec<Bytes>> = transaction.commands.clone();
                for command in &commands {
                    let words: Vec<&[u8]> = command.iter().map(|word| word.as_slice()).collect();
                    self.ask_for_words(session, &words);
                }
            }
            Some(_) => {}
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
            let resident = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes).is_resident(key);
            if resident {
                if self.keyspace.is_cold {
                    self.ask_for_elements(session, found.command.name, key, words);
                }
                continue;
            }
            session.loading += 1;
            let disk = self.keyspace.database(session.db).map_or(0, |database| database.disk);
            if self.keyspace.reading.wait(disk, key, session.id) {
                self.loads.push(Load {
                    db: session.db,
                    disk,
                    slot: slot::slot(key),
                    hash: hash_index::hash(key, self.keyspace.seed),
                    key: Bytes::from_slice(key),
                });
            }
        }
    }

    /// Asks for the elements of a collection that a command names, if they are records.
    fn ask_for_elements(&mut self, session: &mut Session, command: &str, key: &[u8], words: &[&[u8]]) {
        let Some((_, first, step)) = NAMES_ELEMENTS.iter().find(|(name, ..)| *name == command) else { return };
        let keys = Keys::new(&mut self.keyspace, session.db, self.now, &mut self.changes);
        let Some(named) = keys.held(key).and_then(|value| value.named()) else { return };
        let names = words.iter().skip(*first).step_by(*step).take(WARMUP_MAX);
        let warmup = Warmup {
            session: session.id,
            of: named.elements().collection(),
            names: names.map(|name| named.record(name)).collect(),
        };
        session.loading += 1;
        self.warmups.push(warmup);
    }

    /// The elements to be read since this was asked last. Each answer is told by [`warmed`](Self::warmed).
    pub fn take_warmups(&mut self, warmups: &mut Vec<Warmup>) {
        warmups.append(&mut self.warmups);
    }

    /// Elements were read that a client waits for, or cannot be: its command finds out.
    pub fn warmed(&mut self, id: SessionId) {
        let Some(session) = self.shared.session_mut(id) else { return };
        session.loading = session.loading.saturating_sub(1);
        if session.loading == 0 {
            self.shared.runnable.push_back(id);
        }
    }

    /// The keys to be read since this was asked last. Each is to be answered by [`loaded`](Self::loaded).
    pub fn take_loads(&mut self, loads: &mut Vec<Load>) {
        loads.append(&mut self.loads);
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
        for id in waiting {
            let Some(session) = self.shared.session_mut(id) else { continue };
            session.loading = session.loading.saturating_sub(1);
            if session.loading == 0 {
                self.shared.runnable.push_back(id);
            }
        }
    }

    /// Runs the clients that have all they waited for.
    pub fn run_loaded(&mut self) {
        self.run_runnable();
    }
}
