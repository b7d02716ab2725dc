//! Who listens to which channel.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash},
};

use keyspace::Bytes;

use crate::{Session, SessionId};

/// What can be listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// A channel.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A channel that belongs to a slot of a cluster.
    Shard,
}

/// A table with fewer places gives back nothing.
const SMALL_TABLE: usize = 1024;

/// Has a table that has lost most of its entries give back its room. A client that leaves takes out as many as it liked to put in.
pub(crate) fn fit<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.capacity() > SMALL_TABLE && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

/// The listeners of all channels.
#[derive(Debug, Default)]
pub struct Registry {
    pub(crate) channels: HashMap<Bytes, Vec<SessionId>>,
    /// In order, so that messages reach patterns in an order that can be told.
    pub(crate) patterns: BTreeMap<Bytes, Vec<SessionId>>,
    pub(crate) shards: HashMap<Bytes, Vec<SessionId>>,
}

impl Registry {
    pub(crate) fn add(&mut self, medium: Medium, name: &[u8], id: SessionId) {
        let name = Bytes::from_slice(name);
        match medium {
            Medium::Channel => self.channels.entry(name).or_default().push(id),
            Medium::Pattern => self.patterns.entry(name).or_default().push(id),
            Medium::Shard => self.shards.entry(name).or_default().push(id),
        }
    }

    pub(crate) fn remove(&mut self, medium: Medium, name: &Bytes, id: SessionId) {
        let without = |ids: &mut Vec<SessionId>| {
            ids.retain(|one| *one != id);
            ids.is_empty()
        };
        match medium {
            Medium::Channel => {
                if self.channels.get_mut(name).is_some_and(without) {
                    self.channels.remove(name);
                    fit(&mut self.channels);
                }
            }
            Medium::Pattern => {
                if self.patterns.get_mut(name).is_some_and(without) {
                    self.patterns.remove(name);
                }
            }
            Medium::Shard => {
                if self.shards.get_mut(name).is_some_and(without) {
                    self.shards.remove(name);
                    fit(&mut self.shards);
                }
            }
        }
    }
}

impl Session {
    /// The names that it listens to by a medium.
    pub fn listening(&mut self, medium: Medium) -> &mut std::collections::HashSet<Bytes> {
        match medium {
            Medium::Channel => &mut self.listening.channels,
            Medium::Pattern => &mut self.listening.patterns,
            Medium::Shard => &mut self.listening.shard_channels,
        }
    }
}
