//! `balance random` and consistent hashes: points on a ring.
//!
//! Each server has as many points as its effective weight, at places that follow from its number alone. A hash belongs
//! to the nearest point, in either direction. A server that leaves takes its points away and no other key moves.

use crate::ServerId;
use crate::hash::full_hash;
use crate::pool::Pool;
use crate::rng::Rng;
use crate::server::{EFFECTIVE_WEIGHT_MAX, WEIGHT_SCALE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    place: u32,
    server: ServerId,
    replica: u32,
}

/// One ring, sorted by place; points at the same place in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Points {
    points: Vec<Point>,
}

impl Points {
    fn index_of(&self, point: &Point) -> Option<usize> {
        let from = self.points.partition_point(|other| other.place < point.place);
        let offset = self
            .points
            .get(from..)?
            .iter()
            .take_while(|other| other.place == point.place)
            .position(|other| other == point);
        offset.map(|offset| from + offset)
    }

    fn get(&self, index: usize) -> Option<Point> {
        self.points.get(index).copied()
    }

    /// The index after this one, around the ring.
    fn after(&self, index: usize) -> usize {
        if index + 1 < self.points.len() { index + 1 } else { 0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Ring {
    active: Points,
    backup: Points,
    /// Where the turns stand that are taken when there is no key.
    last: Option<Point>,
}

impl Ring {
    pub(super) fn new(pool: &mut Pool) -> Self {
        let mut ring = Self { active: Points::default(), backup: Points::default(), last: None };
        for id in pool.servers.ids() {
            let server = &mut pool.servers[id];
            server.points_max = server.user_weight * WEIGHT_SCALE;
            if server.current.is_usable() {
                ring.resize(pool, id);
            }
        }
        ring
    }

    /// Gives the server as many points as its weight says.
    pub(super) fn resize(&mut self, pool: &mut Pool, id: ServerId) {
        let wanted = pool.servers[id].next.weight;
        if pool.servers[id].points > wanted {
            self.keep(pool, id, wanted);
        }
        if wanted > pool.servers[id].points_max {
            // HAProxy takes all points out before it makes room for more, which moves the turns on.
            self.keep(pool, id, 0);
            pool.servers[id].points_max = wanted;
        }
        let server = &mut pool.servers[id];
        let ring = if server.config.backup { &mut self.backup } else { &mut self.active };
        let first = server.number.wrapping_mul(EFFECTIVE_WEIGHT_MAX);
        ring.points.extend((server.points..wanted).map(|replica| Point {
            place: full_hash(first.wrapping_add(replica)),
            server: id,
            replica,
        }));
        server.points = wanted;
        ring.points.sort_by_key(|point| point.place);
    }

    pub(super) fn leave(&mut self, pool: &mut Pool, id: ServerId) {
        self.keep(pool, id, 0);
    }

    /// Takes away all but the first points of a server.
    fn keep(&mut self, pool: &mut Pool, id: ServerId, wanted: u32) {
        let server = &mut pool.servers[id];
        let ring = if server.config.backup { &mut self.backup } else { &mut self.active };
        let goes = |point: &Point| point.server == id && point.replica >= wanted;
        if let Some(last) = self.last.filter(|last| goes(last))
            && let Some(index) = ring.index_of(&last)
        {
            let behind = ring.points.iter().skip(index).find(|point| !goes(point));
            self.last = behind.or_else(|| ring.points.iter().find(|point| !goes(point))).copied();
        }
        ring.points.retain(|point| !goes(point));
        server.points = wanted.min(server.points);
    }

    /// The ring in use, or the only backup server.
    fn in_use(&self, pool: &Pool) -> Result<&Points, Option<ServerId>> {
        if pool.active > 0 {
            Ok(&self.active)
        } else if pool.first_backup.is_some() {
            Err(pool.first_backup)
        } else if pool.backup > 0 {
            Ok(&self.backup)
        } else {
            Err(None)
        }
    }

    /// The server nearest to a hash that is not to be avoided and, with a balance factor, not overloaded.
    pub(super) fn at(&self, pool: &Pool, hash: u32, avoid: Option<ServerId>) -> Option<ServerId> {
        let ring = match self.in_use(pool) {
            Ok(ring) => ring,
            Err(only) => return only,
        };
        let above = ring.points.partition_point(|point| point.place < hash);
        let mut index = if above < ring.points.len() { above } else { 0 };
        let below = index.checked_sub(1).unwrap_or(ring.points.len().checked_sub(1)?);
        let mut point = ring.get(index)?;
        let previous = ring.get(below)?;
        if hash.wrapping_sub(previous.place) <= point.place.wrapping_sub(hash) {
            point = previous;
            index = below;
        }
        let mut turns = 0;
        while Some(point.server) == avoid || !is_eligible(pool, point.server) {
            index = ring.after(index);
            if index == 0 {
                turns += 1;
                if turns > 1 {
                    break;
                }
            }
            point = ring.get(index)?;
        }
        Some(point.server)
    }

    /// The next server in turn around the ring that has room.
    pub(super) fn next(&mut self, pool: &Pool, avoid: Option<ServerId>, now_ms: u64) -> Option<ServerId> {
        let ring = match self.in_use(pool) {
            Ok(ring) => ring,
            Err(only) => return only,
        };
        let last = self.last.and_then(|last| ring.index_of(&last));
        let mut index = last.map_or(0, |last| ring.after(last));
        // One whole turn, which ends where the last one did.
        let stop = last.unwrap_or(ring.points.len().checked_sub(1)?);
        let mut avoided = None;
        loop {
            let point = ring.get(index)?;
            if pool.is_free(point.server, now_ms) {
                if Some(point.server) != avoid {
                    self.last = Some(point);
                    return Some(point.server);
                }
                avoided = Some(point);
            }
            if index == stop {
                break;
            }
            index = ring.after(index);
        }
        self.last = avoided;
        avoided.map(|point| point.server)
    }

    /// The least loaded, for its weight, of some servers drawn at random; `None` when it has no room.
    pub(super) fn draw(
        &mut self,
        pool: &Pool,
        rng: &mut Rng,
        draws: u32,
        avoid: Option<ServerId>,
        now_ms: u64,
    ) -> Option<ServerId> {
        let mut best: Option<ServerId> = None;
        for _ in 0..draws.max(1) {
            let drawn = self.at(pool, rng.next_u32(), avoid)?;
            best = match best {
                Some(best) if best != drawn && load_is_lower(pool, best, drawn) => Some(best),
                _ => Some(drawn),
            };
        }
        best.filter(|&best| pool.servers[best].queued == 0 && pool.has_slot(best, now_ms))
    }
}

/// Whether `one` has less load for its weight than `other`.
fn load_is_lower(pool: &Pool, one: ServerId, other: ServerId) -> bool {
    let (one, other) = (&pool.servers[one], &pool.servers[other]);
    u64::from(other.served) * u64::from(one.current.weight) > u64::from(one.served) * u64::from(other.current.weight)
}

/// Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam), for servers of unequal weight: no server
/// may have more than its share of all streams times the balance factor.
fn is_eligible(pool: &Pool, id: ServerId) -> bool {
    let factor = u64::from(pool.hash_balance_factor);
    let total = u64::from(pool.total_weight);
    if factor == 0 || total == 0 {
        return true;
    }
    let server = &pool.servers[id];
    let weight = u64::from(server.current.weight);
    let before = u64::from(server.cumulative_weight);
    let slots = ((u64::from(pool.served) + 1) * factor).div_ceil(100);
    let rest = slots % total;
    let share = weight * (slots / total) + ((before + weight) * rest) / total - (before * rest) / total;
    u64::from(server.served) < share.max(1)
}
