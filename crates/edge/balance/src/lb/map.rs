//! `balance static-rr` and map-based hashes: a table in which each server stands as often as its weight.
//!
//! HAProxy fills the table by giving each server its weight at each step, taking the one whose score divided by the
//! total weight is highest, the first in order of declaration among equals, and taking the total weight off its score.
//! Here the same table comes from following only what changes: how often the total fits into a server's score is its
//! rank; it rises by one whenever another total has been given to it, at steps known beforehand, and falls by one when
//! it is taken. So filling takes time in proportion to the table and not to the table times the servers, which matters
//! because it happens under the farm's lock whenever a server changes state.

use std::collections::BTreeSet;

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
        let backup = pool.active == 0;
        let taking_part = pool.servers.ids().filter(|&id| {
            let server = &pool.servers[id];
            server.config.backup == backup && server.next.is_usable()
        });
        self.table.clear();
        if pool.total_weight == 1 {
            // The only backup server in use, which is the first, though others may be usable.
            self.table.extend(taking_part.take(1));
        } else {
            let shares: Vec<(ServerId, u32)> = taking_part.map(|id| (id, pool.servers[id].next.weight)).collect();
            fill(&mut self.table, &shares, pool.total_weight);
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

/// Fills a table of `total` places from servers and their weights, in order of declaration.
///
/// NOTE: the weights may sum up to more than `total`, when only the first backup server counts for it. HAProxy shares
/// the table among all of them nevertheless, in the order that follows from their scores.
#[expect(
    clippy::indexing_slicing,
    reason = "servers are positions in `shares`, steps go up to the total, and there is a set for every rank"
)]
fn fill(table: &mut Vec<ServerId>, shares: &[(ServerId, u32)], total: u32) {
    const NOBODY: usize = usize::MAX;
    let total = total as usize;
    // Who rises at which step, as lists: the first of each step, and the one behind each server.
    let mut first_rising = vec![NOBODY; total + 1];
    let mut next_rising = vec![NOBODY; shares.len()];
    // Times that each server has risen, and its rank.
    let mut risen = vec![0; shares.len()];
    let mut rank = vec![0; shares.len()];
    let mut by_rank: Vec<BTreeSet<usize>> = vec![BTreeSet::new()];
    for (server, next) in next_rising.iter_mut().enumerate() {
        *next = first_rising[1];
        first_rising[1] = server;
    }
    for step in 1..=total {
        let mut next = first_rising[step];
        while next != NOBODY {
            let server = next;
            next = next_rising[server];
            let due = loop {
                by_rank[rank[server]].remove(&server);
                rank[server] += 1;
                if by_rank.len() == rank[server] {
                    by_rank.push(BTreeSet::new());
                }
                by_rank[rank[server]].insert(server);
                risen[server] += 1;
                // The step by which so many totals have been given to it.
                let due = (total * risen[server]).div_ceil(shares[server].1 as usize);
                if due > step {
                    break due;
                }
            };
            if due <= total {
                next_rising[server] = first_rising[due];
                first_rising[due] = server;
            }
        }
        let Some(best) = by_rank.iter_mut().rev().find_map(BTreeSet::pop_first) else { return };
        rank[best] -= 1;
        by_rank[rank[best]].insert(best);
        table.push(shares[best].0);
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The table by HAProxy's words: weights are added to scores, and the best score is taken at each step.
    fn by_scores(shares: &[(ServerId, u32)], total: u32) -> Vec<ServerId> {
        let total = i64::from(total);
        let mut scores = vec![0; shares.len()];
        (0..total)
            .map(|_| {
                let mut best = 0;
                let mut highest = 0;
                for (index, (_, weight)) in shares.iter().enumerate() {
                    scores[index] += i64::from(*weight);
                    let rank = (scores[index] + total) / total;
                    if rank > highest {
                        (best, highest) = (index, rank);
                    }
                }
                scores[best] -= total;
                shares[best].0
            })
            .collect()
    }

    proptest! {
        #[test]
        fn ranks_give_the_same_table_as_scores(
            weights in prop::collection::vec(1u32..60, 1..12),
            only_first_counts in any::<bool>(),
        ) {
            let shares: Vec<(ServerId, u32)> = (0..).map(ServerId::new).zip(weights.iter().copied()).collect();
            let total = if only_first_counts { weights[0] } else { weights.iter().sum() };
            // A total of 1 is not filled this way.
            prop_assume!(total > 1);
            let mut table = Vec::new();
            fill(&mut table, &shares, total);
            prop_assert_eq!(table, by_scores(&shares, total));
        }
    }
}
