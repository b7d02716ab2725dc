//! Large values that no key holds any more.
//!
//! To free a million elements takes longer than a command may, so it is done in pieces, between commands: that is what
//! makes DEL, expiry and overwriting of a large collection take no longer than those of a small one.

use crate::Value;

use super::Database;

/// Values that wait to be freed.
#[derive(Debug, Default)]
pub struct Graveyard {
    values: Vec<Value>,
    /// Databases that were emptied.
    databases: Vec<Database>,
    /// How many were freed.
    pub freed: u64,
}

impl Graveyard {
    /// Takes a value; a small one is freed at once.
    pub(super) fn bury(&mut self, value: Value) {
        let large = match &value {
            Value::List(list) => list.is_large(),
            Value::Set(set) => set.is_large(),
            Value::Hash(hash) => hash.is_large(),
            Value::SortedSet(set) => set.is_large(),
            Value::Stream(stream) => stream.is_large(),
            Value::Queue(queue) => queue.is_large(),
            Value::String(_) => false,
        };
        if large {
            self.values.push(value);
        }
    }

    /// Takes a database with all that is in it.
    pub(super) fn bury_database(&mut self, database: Database) {
        self.databases.push(database);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.databases.is_empty()
    }

    /// Frees up to so many pieces, each of some hundred elements.
    pub fn free(&mut self, pieces: usize) {
        for _ in 0..pieces {
            let Some(last) = self.values.last_mut() else {
                let Some(database) = self.databases.last_mut() else { return };
                let mut values = Vec::new();
                let has_more = database.shed(&mut |value| values.push(value));
                if !has_more {
                    self.databases.pop();
                }
                values.into_iter().for_each(|value| self.bury(value));
                continue;
            };
            let more = match last {
                Value::List(list) => list.shed(),
                Value::Set(set) => set.shed(),
                Value::Hash(hash) => hash.shed(),
                Value::SortedSet(set) => set.shed(),
                Value::Stream(stream) => stream.shed(),
                Value::Queue(queue) => queue.shed(),
                Value::String(_) => false,
            };
            if !more {
                self.values.pop();
                self.freed += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{
        Hash, Kind as _, List, Set, SortedSet, Stream,
        hash::HashLimits,
        list::{End, NodeLimit},
        sorted_set::{Member, SmallLimits},
        stream::{Group, Id, NodeLimits, Pending},
    };

    fn large() -> [Value; 5] {
        let mut list = List::new();
        let mut set = Set::new(1);
        let mut hash = Hash::new(1);
        let mut sorted_set = SortedSet::new_large(1);
        let mut stream = Stream::default();
        let mut group = Group::new(Id::MIN, None);
        let consumer = group.add_consumer(b"consumer", 0);
        for number in 0..100_000_u32 {
            let text = format!("element:{number}");
            list.push(End::Tail, text.as_bytes(), NodeLimit::new(-1));
            set.add(text.as_bytes(), 512);
            hash.set(text.as_bytes(), b"x", HashLimits { fields: 128, len: 64 });
            let member = Member { score: f64::from(number), name: text.as_bytes().into() };
            sorted_set.insert_new(1, SmallLimits { members: 0, member_len: 0 }, member);
            let id = Id::new(u64::from(number) + 1, 0);
            stream.append(id, &["field", &text], NodeLimits { bytes: 4096, entries: 100 });
            group.give(id, Pending { delivered: 0, count: 1, consumer });
        }
        stream.groups.insert(b"group".as_slice().into(), group);
        [list.into_value(), set.into_value(), hash.into_value(), sorted_set.into_value(), stream.into_value()]
    }

    #[test]
    fn large_values_go_piece_by_piece() {
        for value in large() {
            let mut graveyard = Graveyard::default();
            graveyard.bury(value);
            let mut turns = 0;
            while !graveyard.is_empty() {
                graveyard.free(10);
                turns += 1;
            }
            assert!((10..1000).contains(&turns), "{turns}");
        }
    }

    #[test]
    fn small_values_go_at_once() {
        let mut graveyard = Graveyard::default();
        graveyard.bury(List::new().into_value());
        graveyard.bury(Set::new(1).into_value());
        assert!(graveyard.is_empty());
    }
}
