//! Digests of data, as `DEBUG DIGEST` computes them: two stores, or a store and a Redis, have the same one if they have the
//! same keys.
//!
//! What has no order is combined by exclusive or, what has one by hashing on. Streams' consumer groups are no part of it.

use resp::format_double;
use sha1::{Digest as _, Sha1};

use crate::{
    Failure, Value,
    space::{Database, Keys, NEVER},
    value::stream::Id,
};

/// A digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Combines with something that has no place in an order.
    fn join(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(Sha1::digest(bytes)).for_each(|(byte, other)| *byte ^= other);
    }

    /// Goes on with what comes next.
    fn follow(&mut self, bytes: &[u8]) {
        self.join(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Its text.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn value(&mut self, value: &Value, expires: bool) {
        let number: u32 = match value {
            Value::String(_) => 0,
            Value::List(_) => 1,
            Value::Set(_) => 2,
            Value::SortedSet(_) => 3,
            Value::Hash(_) => 4,
            Value::Stream(_) => 6,
            Value::Queue(_) => 7,
        };
        self.follow(&number.to_be_bytes());
        match value {
            Value::String(string) => self.follow(string),
            Value::List(list) => list.each_from(0, |element| {
                self.follow(element);
                true
            }),
            Value::Set(set) => set.each(|member| self.join(&member.text())),
            Value::SortedSet(set) => {
                let mut score = Vec::new();
                set.each(0..set.len(), false, |member| {
                    score.clear();
                    format_double(&mut score, member.score);
                    self.pair(&member.name, &score);
                });
            }
            Value::Hash(hash) => hash.each(|name, value| self.pair(name, value)),
            Value::Queue(queue) => queue.each_record(None, &mut |name, value| {
                self.pair(name, value);
                true
            }),
            Value::Stream(stream) => stream.each(Id::MIN..=Id::MAX, false, |entry| {
                self.follow(format!("{}.{}", entry.id.ms, entry.id.sequence).as_bytes());
                for (field, value) in entry.pairs() {
                    self.follow(field);
                    self.follow(value);
                }
                true
            }),
        }
        if expires {
            self.join(b"!!expire!!");
        }
    }

    fn pair(&mut self, first: &[u8], second: &[u8]) {
        let mut pair = Self::default();
        pair.follow(first);
        pair.follow(second);
        self.join(&pair.0);
    }
}

/// The digest of what a key holds: zeros if it is not there.
pub fn of_key(keys: &mut Keys<'_>, key: &[u8]) -> Result<Digest, Failure> {
    let mut digest = Digest::default();
    if let Some(entry) = keys.peek(key)?
        && let Some(value) = &entry.value
    {
        digest.value(value, entry.expire_at != NEVER);
    }
    Ok(digest)
}

/// The digest of all keys of all databases.
pub fn of_all(keys: &mut Keys<'_>) -> Result<Digest, Failure> {
    /// How many keys are looked at together.
    const STEP: usize = 1000;
    let mut all = Digest::default();
    for db in 0..keys.space().len() {
        if keys.space().database(db).is_none_or(Database::is_empty) {
            continue;
        }
        let mut keys = keys.on(db);
        let mut cursor = 0;
        let mut found = Vec::new();
        let mut begun = false;
        loop {
            cursor = keys.walk(cursor, STEP, &mut found)?;
            for walked in found.drain(..) {
                let was_there = keys.is_resident(&walked.key);
                if let Some(entry) = keys.peek(&walked.key)?
                    && let Some(value) = &entry.value
                {
                    let mut digest = Digest::default();
                    digest.follow(&walked.key);
                    digest.value(value, entry.expire_at != NEVER);
                    if !std::mem::replace(&mut begun, true) {
                        all.follow(&(db as u32).to_be_bytes());
                    }
                    all.join(&digest.0);
                }
                if !was_there {
                    // All of them together may be more than memory holds.
                    keys.space.forget(db, &walked.key);
                }
            }
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(all)
}
