//! `balance leastconn` and `balance first`: one sorted set of servers a group.

use crate::ServerId;
use crate::order::Tree;
use crate::pool::Pool;
use crate::server::EFFECTIVE_WEIGHT_MAX;

/// What the set is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortedBy {
    /// `leastconn`: streams for the weight.
    Load,
    /// `first`: the server's number.
    Number,
}

#[derive(Clone, Debug)]
pub(crate) struct Sorted {
    by: SortedBy,
    active: Tree,
    backup: Tree,
}

impl Sorted {
    pub(super) fn new(pool: &mut Pool, by: SortedBy) -> Self {
        let engine = Self { by, active: pool.order.add_tree(), backup: pool.order.add_tree() };
        for id in pool.servers.ids() {
            if pool.servers[id].current.is_usable() {
                engine.enter(pool, id);
            }
        }
        engine
    }

    pub(super) fn is_first(&self) -> bool {
        self.by == SortedBy::Number
    }

    fn key(&self, pool: &Pool, id: ServerId, weight: u32) -> u32 {
        let server = &pool.servers[id];
        match self.by {
            SortedBy::Number => server.number,
            SortedBy::Load => {
                // One more than there are, so that weights count before and not after the choice; but servers without
                // any come first whatever their weight, or light ones would never be used under low load.
                match server.served.wrapping_add(server.queued) {
                    0 => 0,
                    load => load.wrapping_add(1).wrapping_mul(EFFECTIVE_WEIGHT_MAX) / weight.max(1),
                }
            }
        }
    }

    /// Puts the server into its set, or to its new place in it.
    pub(super) fn enter(&self, pool: &mut Pool, id: ServerId) {
        let tree = if pool.servers[id].config.backup { self.backup } else { self.active };
        let key = self.key(pool, id, pool.servers[id].next.weight);
        pool.order.insert(tree, key, id.0);
        pool.servers[id].tree = Some(tree);
    }

    pub(super) fn leave(&self, pool: &mut Pool, id: ServerId) {
        pool.order.remove(id.0);
        pool.servers[id].tree = None;
    }

    /// Follows a change of load.
    pub(super) fn reposition(&self, pool: &mut Pool, id: ServerId) {
        let Some(tree) = pool.servers[id].tree else { return };
        match self.by {
            SortedBy::Load => {
                let key = self.key(pool, id, pool.servers[id].current.weight);
                if key != pool.order.key(id.0) {
                    pool.order.insert(tree, key, id.0);
                }
            }
            // Numbers do not change, but a server goes behind others that were given the same number.
            SortedBy::Number => pool.order.insert(tree, pool.servers[id].number, id.0),
        }
    }

    pub(super) fn next(&self, pool: &Pool, avoid: Option<ServerId>, now_ms: u64) -> Option<ServerId> {
        let tree = if pool.active > 0 {
            self.active
        } else if pool.first_backup.is_some() {
            return pool.first_backup;
        } else if pool.backup > 0 {
            self.backup
        } else {
            return None;
        };
        let mut avoided = None;
        let mut at = pool.order.first(tree);
        while let Some(item) = at {
            let id = ServerId(item);
            if self.takes(pool, id, now_ms) {
                if Some(id) != avoid {
                    return Some(id);
                }
                avoided = Some(id);
            }
            at = pool.order.next(item);
        }
        avoided
    }

    fn takes(&self, pool: &Pool, id: ServerId, now_ms: u64) -> bool {
        let server = &pool.servers[id];
        match self.by {
            SortedBy::Number => pool.is_free(id, now_ms),
            // `leastconn` sends to a server's queue as well, as far as `maxqueue` allows.
            SortedBy::Load => {
                server.maxconn == 0
                    || server.served + server.queued < pool.limit(id, now_ms).saturating_add(server.config.maxqueue)
            }
        }
    }
}
