//! The algorithms behind `balance`, and how they follow a server's changes.
//!
//! A server has two standings: the current one, which the algorithm knows, and the next one, which it is about to be
//! told. `Engine::changed` compares the two, moves the server into, within or out of the algorithm's structures, and
//! commits. The structures are HAProxy's, because the exact sequence of choices follows from them:
//!
//! | algorithm                        | structure                                                      |
//! |----------------------------------|----------------------------------------------------------------|
//! | roundrobin                       | [`round_robin`]: three sorted sets a group, a moving window     |
//! | static-rr, map-based hashes      | [`map`]: a table with each server as often as its weight        |
//! | leastconn, first                 | [`sorted`]: one sorted set a group                              |
//! | random, consistent hashes        | [`ring`]: points on a ring of 2^32                              |

mod map;
mod ring;
mod round_robin;
mod sorted;

use crate::ServerId;
use crate::config::{Algorithm, FarmConfig, HashType};
use crate::pool::Pool;
use crate::rng::Rng;
use crate::server::WEIGHT_SCALE;

use self::map::Map;
use self::ring::Ring;
use self::round_robin::RoundRobin;
use self::sorted::{Sorted, SortedBy};

/// The state of one algorithm.
#[derive(Clone, Debug)]
pub(crate) enum Engine {
    RoundRobin(RoundRobin),
    Sorted(Sorted),
    StaticRr(Map),
    MapHash(Map),
    Random { ring: Ring, draws: u32 },
    RingHash(Ring),
}

impl Engine {
    /// Builds the algorithm's structures over servers that have not been told anything yet.
    pub(crate) fn new(config: &FarmConfig, pool: &mut Pool) -> Self {
        match &config.algorithm {
            Algorithm::RoundRobin => {
                prepare_dynamic(pool);
                Self::RoundRobin(RoundRobin::new(pool))
            }
            Algorithm::LeastConn => {
                prepare_dynamic(pool);
                Self::Sorted(Sorted::new(pool, SortedBy::Load))
            }
            Algorithm::First => {
                prepare_dynamic(pool);
                Self::Sorted(Sorted::new(pool, SortedBy::Number))
            }
            Algorithm::Random { draws } => {
                prepare_dynamic(pool);
                Self::Random { ring: Ring::new(pool), draws: *draws }
            }
            Algorithm::StaticRr => Self::StaticRr(Map::new(pool)),
            _ => match config.hash.hash_type {
                HashType::MapBased => Self::MapHash(Map::new(pool)),
                HashType::Consistent => {
                    prepare_dynamic(pool);
                    Self::RingHash(Ring::new(pool))
                }
            },
        }
    }

    /// Whether weights may change at run time.
    pub(crate) fn is_dynamic(&self) -> bool {
        !matches!(self, Self::StaticRr(_) | Self::MapHash(_))
    }

    /// Whether a waiting ticket of the backend means that all servers are full, so that choosing would be in vain.
    pub(crate) fn queue_means_full(&self) -> bool {
        match self {
            Self::RoundRobin(_) | Self::StaticRr(_) => true,
            Self::Sorted(sorted) => sorted.is_first(),
            Self::MapHash(_) | Self::Random { .. } | Self::RingHash(_) => false,
        }
    }

    /// Chooses a server, if possible not `avoid`. `None` when all that could be chosen are full.
    pub(crate) fn choose(
        &mut self,
        pool: &mut Pool,
        rng: &mut Rng,
        key: Option<u32>,
        avoid: Option<ServerId>,
        now_ms: u64,
    ) -> Option<ServerId> {
        match self {
            Self::RoundRobin(engine) => engine.next(pool, avoid, now_ms),
            Self::Sorted(engine) => engine.next(pool, avoid, now_ms),
            Self::StaticRr(engine) => engine.next(pool, avoid, now_ms),
            Self::MapHash(engine) => match key {
                Some(key) => engine.at(pool, key),
                None => engine.next(pool, avoid, now_ms),
            },
            Self::Random { ring, draws } => ring.draw(pool, rng, *draws, avoid, now_ms),
            Self::RingHash(engine) => match key {
                Some(key) => engine.at(pool, key, avoid),
                None => engine.next(pool, avoid, now_ms),
            },
        }
    }

    /// Tells the algorithm that a server holds one stream more or less, or that its queue changed.
    pub(crate) fn load_changed(&self, pool: &mut Pool, id: ServerId) {
        if let Self::Sorted(sorted) = self {
            sorted.reposition(pool, id);
        }
    }

    /// Tells the algorithm the server's next standing, and commits it.
    pub(crate) fn changed(&mut self, pool: &mut Pool, id: ServerId) {
        let server = &pool.servers[id];
        if server.current == server.next {
            return;
        }
        if let Self::StaticRr(map) | Self::MapHash(map) = self {
            pool.recount();
            map.fill(pool);
        } else {
            match (server.current.is_usable(), server.next.is_usable()) {
                (false, false) => {}
                (false, true) => {
                    pool.count_in(id);
                    self.enter(pool, id);
                }
                (true, false) => {
                    pool.count_out(id);
                    self.leave(pool, id);
                }
                (true, true) => {
                    pool.reweigh(id);
                    self.reweigh(pool, id);
                }
            }
            pool.update_totals();
        }
        pool.servers[id].commit();
    }

    fn enter(&mut self, pool: &mut Pool, id: ServerId) {
        match self {
            Self::RoundRobin(engine) => engine.enter(pool, id),
            Self::Sorted(engine) => engine.enter(pool, id),
            Self::Random { ring, .. } | Self::RingHash(ring) => ring.resize(pool, id),
            Self::StaticRr(_) | Self::MapHash(_) => {}
        }
    }

    fn leave(&mut self, pool: &mut Pool, id: ServerId) {
        match self {
            Self::RoundRobin(engine) => engine.leave(pool, id),
            Self::Sorted(engine) => engine.leave(pool, id),
            Self::Random { ring, .. } | Self::RingHash(ring) => ring.leave(pool, id),
            Self::StaticRr(_) | Self::MapHash(_) => {}
        }
    }

    fn reweigh(&mut self, pool: &mut Pool, id: ServerId) {
        match self {
            Self::RoundRobin(engine) => engine.reweigh(pool, id),
            Self::Sorted(engine) => engine.enter(pool, id),
            Self::Random { ring, .. } | Self::RingHash(ring) => ring.resize(pool, id),
            Self::StaticRr(_) | Self::MapHash(_) => {}
        }
    }
}

/// Gives the servers the fine-grained weights of algorithms that can follow changes.
fn prepare_dynamic(pool: &mut Pool) {
    pool.weight_multiplier = 1;
    pool.weight_divider = WEIGHT_SCALE;
    commit_weights(pool);
    pool.recount();
}

fn commit_weights(pool: &mut Pool) {
    for id in pool.servers.ids() {
        let weight = pool.effective_weight(pool.servers[id].user_weight, pool.weight_divider);
        let server = &mut pool.servers[id];
        server.next.weight = weight;
        server.commit();
    }
}
