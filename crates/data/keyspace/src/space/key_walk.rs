//! All keys of a database as they were at a moment, found over many turns.
//!
//! Keys that go before the walk has come to them are noted as they go, those that come ahead of it are known to be new; so it gives
//! the keys of the moment that it began at, and nobody waits for it.

use std::{cell::RefCell, rc::Rc};

use resp::{Protocol, Reply};
use rustc_hash::FxHashSet;

use crate::{Bytes, Failure, Millis, changes::Changes, glob, hash_index::CURSOR_BITS};

use super::{Keys, Keyspace, Walked};

/// A walk.
#[derive(Debug)]
pub struct KeyWalk {
    /// The database, by its number in the tables: it may be swapped.
    disk: u8,
    began: Millis,
    pattern: Bytes,
    cursor: u64,
    is_over: bool,
    /// Keys ahead that were not there when it began.
    new: FxHashSet<Bytes>,
    /// Those that were found, as they are answered.
    found: Vec<u8>,
    count: usize,
    failure: Option<Failure>,
}

/// How many keys a step looks at.
pub const KEYS_PER_STEP: usize = 256;

/// A walk, for who has it made and for the keyspace.
pub type SharedKeyWalk = Rc<RefCell<KeyWalk>>;

fn position(slot: usize, hash: u64) -> u64 {
    (slot as u64) << CURSOR_BITS | hash >> (64 - CURSOR_BITS)
}

impl KeyWalk {
    fn is_ahead(&self, slot: usize, hash: u64) -> bool {
        !self.is_over && position(slot, hash) >= self.cursor
    }

    fn find(&mut self, key: &[u8], expire_at: Millis) {
        if expire_at > self.began && glob::matches(&self.pattern, key) {
            Reply::new(&mut self.found, Protocol::Resp2).bulk(key);
            self.count += 1;
        }
    }

    /// How much memory what it found takes.
    pub fn bytes(&self) -> usize {
        self.found.len()
    }

    /// Answers with what it found, once it is over.
    pub fn reply(&mut self, reply: &mut Reply<'_>) {
        match &self.failure {
            Some(failure) => reply.error(failure.bytes()),
            None => {
                reply.array(self.count);
                reply.raw(&std::mem::take(&mut self.found));
            }
        }
    }
}

impl Keyspace {
    /// Begins a walk through the keys of a database that a pattern matches.
    pub fn begin_walk(&mut self, db: usize, pattern: &[u8], now: Millis) -> SharedKeyWalk {
        let walk = Rc::new(RefCell::new(KeyWalk {
            disk: self.databases.get(db).map_or(0, |database| database.disk),
            began: now,
            pattern: Bytes::from_slice(pattern),
            cursor: 0,
            is_over: false,
            new: FxHashSet::default(),
            found: Vec::new(),
            count: 0,
            failure: None,
        }));
        self.walks.push(Rc::clone(&walk));
        walk
    }

    /// Makes a step of a walk, of about so many keys. Returns whether that was the last.
    pub fn step_walk(&mut self, walk: &SharedKeyWalk, count: usize) -> bool {
        let (disk, cursor) = (walk.borrow().disk, walk.borrow().cursor);
        let Some(db) = self.databases.iter().position(|database| database.disk == disk) else { return true };
        let mut found = Vec::new();
        let next = Keys::new(self, db, Millis::MIN, &mut Changes::default()).walk(cursor, count, &mut found);
        let mut walk = walk.borrow_mut();
        for Walked { key, expire_at, .. } in found {
            if !walk.new.remove(&key) {
                walk.find(&key, expire_at);
            }
        }
        walk.cursor = next.unwrap_or_else(|failure| {
            walk.failure = Some(failure);
            0
        });
        walk.is_over = walk.cursor == 0;
        walk.is_over
    }

    /// Forgets walks that are over, or that nobody wants any more.
    pub fn forget_walks(&mut self) {
        self.walks.retain(|walk| Rc::strong_count(walk) > 1 && !walk.borrow().is_over);
    }

    /// Makes all steps of the walks through a database: it is about to be emptied.
    pub(super) fn finish_walks(&mut self, disk: u8) {
        for walk in self.walks.clone() {
            while walk.borrow().disk == disk && !walk.borrow().is_over && !self.step_walk(&walk, KEYS_PER_STEP) {}
        }
        self.forget_walks();
    }

    /// A key comes.
    #[cold]
    pub(super) fn tell_walks_of_new(&self, disk: u8, slot: usize, hash: u64, key: &[u8]) {
        for walk in &self.walks {
            let mut walk = walk.borrow_mut();
            if walk.disk == disk && walk.is_ahead(slot, hash) {
                walk.new.insert(Bytes::from_slice(key));
            }
        }
    }

    /// A key goes.
    #[cold]
    pub(super) fn tell_walks_of_gone(&self, disk: u8, slot: usize, hash: u64, key: &[u8], expire_at: Millis) {
        for walk in &self.walks {
            let mut walk = walk.borrow_mut();
            if walk.disk == disk && walk.is_ahead(slot, hash) && !walk.new.remove(key) {
                walk.find(key, expire_at);
            }
        }
    }
}
