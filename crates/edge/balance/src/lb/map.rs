//! `balance static-rr` and map-based hashes: a table in which each server stands as often as its weight.
//!
//! The table is filled by giving each server its weight at each step and taking the one with the highest score, the
//! first in order of declaration among equals. It is filled again whenever a server changes state.

use crate::ServerId;
use crate::pool::Pool;

#[derive(Clone, Debug)]
pub(crate) struct Map {
    table: Vec<ServerId>,
    position: usize,
}

impl Map {
    pub(super) fn new(pool: &mut Pool) -> Self {
        // Dividing all weights by their greatest common divisor makes the table as small as it can be.
        let divisor = pool.servers.iter().map(|server| server.user_weight).fold(0, greatest_common_divisor).max(1);
        pool.weight_multiplier = divisor;
        pool.weight_divider = 1;
        super::commit_weights(pool);
        let weight_of = |backup: bool| -> u32 {
            pool.servers.iter().filter(|server| server.config.backup == backup).map(|server| server.next.weight).sum()
        };
        let largest = weight_of(false).max(weight_of(true)).max(1);
        pool.recount();
        let mut map = Self { table: Vec::with_capacity(largest as usize), position: 0 };
        map.fill(pool);
        map
    }

    /// Fills the table from what the servers are going to be.
    pub(super) fn fill(&mut self, pool: &mut Pool) {
        if pool.used == 0 {
            return;
        }
        let total = i64::from(pool.total_weight);
        let backup = pool.active == 0;
        for id in pool.servers.ids() {
            pool.servers[id].score = 0;
        }
        self.table.clear();
        for _ in 0..total {
            let mut best: Option<(ServerId, i64)> = None;
            for id in pool.servers.ids() {
                let server = &mut pool.servers[id];
                if server.config.backup != backup || !server.next.is_usable() {
                    continue;
                }
                if total == 1 {
                    best = Some((id, 0));
                    break;
                }
                server.score += i64::from(server.next.weight);
                let rank = (server.score + total) / total;
                if best.is_none_or(|(_, highest)| rank > highest) {
                    best = Some((id, rank));
                }
            }
            let Some((id, _)) = best else { return };
            pool.servers[id].score -= total;
            self.table.push(id);
        }
    }

    /// The server that a hash points at. It may be full: then the stream waits in its queue.
    pub(super) fn at(&self, pool: &Pool, hash: u32) -> Option<ServerId> {
        let place = hash.checked_rem(pool.total_weight)?;
        self.table.get(place as usize).copied()
    }

    /// The next server in turn that has room.
    pub(super) fn next(&mut self, pool: &Pool, avoid: Option<ServerId>, now_ms: u64) -> Option<ServerId> {
        let total = (pool.total_weight as usize).min(self.table.len());
        if total == 0 {
            return None;
        }
        if self.position >= total {
            self.position = 0;
        }
        let start = self.position;
        let mut place = start;
        let mut avoided = None;
        loop {
            let id = *self.table.get(place)?;
            place += 1;
            if pool.is_free(id, now_ms) {
                avoided = Some((id, place));
                if Some(id) != avoid {
                    break;
                }
            }
            if place == total {
                place = 0;
            }
            if place == start {
                break;
            }
        }
        let (id, place) = avoided?;
        self.position = place;
        Some(id)
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
