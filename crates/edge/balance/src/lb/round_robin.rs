//! `balance roundrobin`: weighted turns that stay smooth while weights change.
//!
//! A cycle is as many positions long as the weights sum up to. A server of weight w out of W is due every W/w
//! positions; the rest of that division is carried along, so that over a cycle each server is chosen exactly as often
//! as its weight says. Each group (active, backup) keeps three sorted sets: `current`, by position within the cycle
//! that runs; `init`, the servers that have not been placed in it yet, heaviest first; and `next`, those whose turn
//! lies in the cycle to come. At the end of a cycle `init` and `next` change places.
//!
//! Positions are 32-bit and wrap as HAProxy's do.

use crate::ServerId;
use crate::order::Tree;
use crate::pool::Pool;
use crate::server::{EFFECTIVE_WEIGHT_MAX, WEIGHT_SCALE};

/// The sort key of `current` leaves this much room per position for the finer order within it.
const POSITION_SCALE: u32 = crate::config::WEIGHT_MAX;

#[derive(Clone, Debug)]
struct Group {
    current: Tree,
    init: Tree,
    next: Tree,
    position: u32,
    /// Weight of the cycle that runs, fixed at its start.
    cycle_weight: u32,
    /// Weight of the cycle to come: that of the usable servers.
    next_weight: u32,
}

impl Group {
    fn new(pool: &mut Pool, weight: u32) -> Self {
        Self {
            current: pool.order.add_tree(),
            init: pool.order.add_tree(),
            next: pool.order.add_tree(),
            position: weight,
            cycle_weight: weight,
            next_weight: weight,
        }
    }

    fn switch(&mut self) {
        std::mem::swap(&mut self.init, &mut self.next);
        self.cycle_weight = self.next_weight;
        self.position = self.cycle_weight;
    }

    /// Puts a server into a set ordered by weight, heaviest first, for a smooth distribution.
    fn queue_by_weight(pool: &mut Pool, tree: Tree, id: ServerId) {
        let key = EFFECTIVE_WEIGHT_MAX.wrapping_sub(pool.servers[id].next.weight);
        pool.order.insert(tree, key, id.0);
        pool.servers[id].tree = Some(tree);
    }

    /// Puts a server where its next position belongs.
    fn queue(&self, pool: &mut Pool, id: ServerId) {
        let server = &mut pool.servers[id];
        let position = server.next_position;
        if !server.next.is_usable() {
            server.tree = None;
        } else if position >= self.cycle_weight.wrapping_mul(2)
            || position >= self.cycle_weight.wrapping_add(self.next_weight)
        {
            server.next_position = position.wrapping_sub(self.cycle_weight);
            Self::queue_by_weight(pool, self.next, id);
        } else {
            let fine = EFFECTIVE_WEIGHT_MAX.wrapping_add(server.rest_weight).wrapping_sub(server.next.weight);
            let key = POSITION_SCALE.wrapping_mul(position).wrapping_add(fine / WEIGHT_SCALE);
            server.tree = Some(self.current);
            pool.order.insert(self.current, key, id.0);
        }
    }

    /// Makes the position of a server meaningful in the cycle that runs, wherever it was.
    fn take(&self, pool: &mut Pool, id: ServerId) {
        let server = &mut pool.servers[id];
        if server.tree == Some(self.init) {
            server.next_position = 0;
            server.rest_weight = 0;
        } else if server.tree == Some(self.next) {
            server.next_position = server.next_position.wrapping_add(self.cycle_weight);
        } else if server.tree.is_none() {
            server.next_position = self.position;
        }
    }

    /// The server whose turn it is, or one that has not been placed yet when there is a hole.
    fn first(&self, pool: &mut Pool) -> Option<ServerId> {
        let due = pool.order.first(self.current).map(ServerId);
        if let Some(id) = due {
            let server = &pool.servers[id];
            if server.current.weight > 0 && server.next_position <= self.position {
                return due;
            }
        }
        if let Some(id) = pool.order.first(self.init).map(ServerId) {
            let server = &mut pool.servers[id];
            if server.current.weight > 0 {
                server.next_position = 0;
                server.rest_weight = 0;
                return Some(id);
            }
        }
        due
    }

    /// Moves a server to its next turn.
    fn advance(&self, pool: &mut Pool, id: ServerId) {
        let server = &mut pool.servers[id];
        let weight = server.current.weight;
        if weight == 0 {
            return;
        }
        if server.next_position == 0 {
            server.next_position = self.position;
        }
        server.last_position = server.next_position;
        server.next_position = server.next_position.wrapping_add(self.next_weight / weight);
        server.rest_weight = server.rest_weight.wrapping_add(self.next_weight % weight);
        if server.rest_weight >= weight {
            server.rest_weight -= weight;
            server.next_position = server.next_position.wrapping_add(1);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RoundRobin {
    active: Group,
    backup: Group,
}

impl RoundRobin {
    pub(super) fn new(pool: &mut Pool) -> Self {
        let (active_weight, backup_weight) = (pool.active_weight, pool.backup_weight);
        let engine = Self { active: Group::new(pool, active_weight), backup: Group::new(pool, backup_weight) };
        for id in pool.servers.ids() {
            if pool.servers[id].current.is_usable() {
                let init = engine.group(pool, id).init;
                Group::queue_by_weight(pool, init, id);
            }
        }
        engine
    }

    fn group(&self, pool: &Pool, id: ServerId) -> &Group {
        if pool.servers[id].config.backup { &self.backup } else { &self.active }
    }

    fn follow_totals(&mut self, pool: &Pool) {
        self.active.next_weight = pool.active_weight;
        self.backup.next_weight = pool.backup_weight;
    }

    pub(super) fn enter(&mut self, pool: &mut Pool, id: ServerId) {
        self.follow_totals(pool);
        let group = self.group(pool, id);
        group.take(pool, id);
        place_in_half(group, pool, id);
        group.queue(pool, id);
    }

    pub(super) fn leave(&mut self, pool: &mut Pool, id: ServerId) {
        self.follow_totals(pool);
        pool.order.remove(id.0);
        pool.servers[id].tree = None;
    }

    pub(super) fn reweigh(&mut self, pool: &mut Pool, id: ServerId) {
        self.follow_totals(pool);
        let group = self.group(pool, id);
        if pool.servers[id].tree == Some(group.init) {
            Group::queue_by_weight(pool, group.init, id);
            return;
        }
        group.take(pool, id);
        if pool.servers[id].tree.is_none() {
            place_in_half(group, pool, id);
        } else {
            // It has not had all its turns of this cycle: the next one comes sooner if the weight grew.
            let server = &mut pool.servers[id];
            let previous = server.next_position;
            let step = group.next_weight / server.next.weight.max(1);
            server.next_position = server.last_position.wrapping_add(step).min(previous);
            server.rest_weight = 0;
            if server.next_position < group.position.wrapping_add(2) {
                server.next_position = group.position.wrapping_add(step);
            }
        }
        pool.order.remove(id.0);
        group.queue(pool, id);
    }

    pub(super) fn next(&mut self, pool: &mut Pool, avoid: Option<ServerId>, now_ms: u64) -> Option<ServerId> {
        let group = if pool.active > 0 {
            &mut self.active
        } else if pool.first_backup.is_some() {
            return pool.first_backup;
        } else if pool.backup > 0 {
            &mut self.backup
        } else {
            return None;
        };
        let mut switched = false;
        let mut avoided = None;
        let mut full: Option<u32> = None;
        let chosen = 'search: loop {
            if group.cycle_weight == 0 {
                group.cycle_weight = group.next_weight;
                group.position = group.next_weight;
            }
            let id = loop {
                if let Some(id) = group.first(pool) {
                    break id;
                }
                if switched {
                    break 'search avoided;
                }
                switched = true;
                group.switch();
            };
            // Even when it turns out to be full it has had its turn, and leaves the set until the end of the search.
            group.advance(pool, id);
            pool.order.remove(id.0);
            group.position = group.position.wrapping_add(1);
            if pool.is_free(id, now_ms) {
                if Some(id) != avoid || avoided.is_some() {
                    break Some(id);
                }
                avoided = Some(id);
            }
            pool.servers[id].next_full = full;
            full = Some(id.0);
        };
        if let Some(id) = chosen {
            group.queue(pool, id);
        }
        while let Some(item) = full {
            let id = ServerId(item);
            full = pool.servers[id].next_full.take();
            if Some(id) == chosen {
                continue;
            }
            if switched {
                // The places of the cycle before are lost; only the weight counts.
                Group::queue_by_weight(pool, group.init, id);
            } else {
                group.queue(pool, id);
            }
        }
        chosen
    }
}

/// The first turn of a server that comes up is one step of its own into what is left of this cycle and the next.
fn place_in_half(group: &Group, pool: &mut Pool, id: ServerId) {
    let server = &mut pool.servers[id];
    let left = group.next_weight.wrapping_add(group.cycle_weight).wrapping_sub(group.position);
    server.next_position = group.position.wrapping_add(left / server.next.weight.max(1));
}
