//! Which server a key belongs to, where servers are a list: twemproxy's distributions.

use crate::hashes::{Hash, md5_word};

/// Points of a server of average weight on the circle.
const POINTS_PER_SERVER: f32 = 160.0;
/// Points that come of one MD5.
const POINTS_PER_DIGEST: u32 = 4;

/// How keys are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Consistent hashing: few keys move when a server comes or goes.
    Ketama,
    /// The hash modulo the sum of the weights.
    Modula,
    /// Any server.
    Random,
}

impl Distribution {
    /// The distribution of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ketama" => Some(Self::Ketama),
            "modula" => Some(Self::Modula),
            "random" => Some(Self::Random),
            _ => None,
        }
    }
}

/// A server as far as keys are spread by it.
#[derive(Clone, Debug)]
pub struct Member {
    /// What its points are computed from.
    pub name: String,
    /// How many keys it gets, relative to the others.
    pub weight: u32,
}

/// Servers, and which of them has which keys.
#[derive(Debug)]
pub struct Ring {
    distribution: Distribution,
    hash: Hash,
    tag: Option<[u8; 2]>,
    members: Vec<Member>,
    /// By value; for `modula` one entry for each unit of weight.
    points: Vec<(u32, usize)>,
    /// The members in the order of their names, shorter ones first: twemproxy numbers them so.
    order: Vec<usize>,
    random: u64,
}

impl Ring {
    /// Of all members.
    #[must_use]
    pub fn new(distribution: Distribution, hash: Hash, tag: Option<[u8; 2]>, members: Vec<Member>) -> Self {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|index| members.get(*index).map(|member| (member.name.len(), member.name.clone())));
        let mut ring =
            Self { distribution, hash, tag, members, points: Vec::new(), order, random: 0x9e37_79b9_7f4a_7c15 };
        ring.rebuild(|_| true);
        ring
    }

    /// Spreads keys over those that are alive.
    pub fn rebuild(&mut self, is_alive: impl Fn(usize) -> bool) {
        let alive: Vec<(usize, &Member)> =
            self.order.iter().filter_map(|index| Some((*index, self.members.get(*index)?))).collect();
        let alive: Vec<(usize, &Member)> = alive.into_iter().filter(|(index, _)| is_alive(*index)).collect();
        let total: u32 = alive.iter().map(|(_, member)| member.weight).sum();
        self.points = match self.distribution {
            Distribution::Ketama => {
                let mut points: Vec<(u32, usize)> = Vec::new();
                for (index, member) in &alive {
                    for digest in 0..digests_of(member.weight, total, alive.len()) {
                        let text = format!("{}-{digest}", member.name);
                        points.extend((0..4).map(|word| (md5_word(text.as_bytes(), word), *index)));
                    }
                }
                points.sort_by_key(|(value, _)| *value);
                points
            }
            Distribution::Modula => {
                alive.iter().flat_map(|(index, member)| (0..member.weight).map(|_| (0, *index))).collect()
            }
            Distribution::Random => alive.iter().map(|(index, _)| (0, *index)).collect(),
        };
    }

    /// The server of a key; `None` when none is alive.
    #[inline]
    pub fn server_of(&mut self, key: &[u8]) -> Option<usize> {
        if self.members.len() == 1 {
            return self.points.first().map(|(_, index)| *index);
        }
        let count = self.points.len();
        let place = match self.distribution {
            Distribution::Ketama => {
                let hash = self.hash.of(tagged(key, self.tag));
                let place = self.points.partition_point(|(value, _)| *value < hash);
                if place == count { 0 } else { place }
            }
            Distribution::Modula => (self.hash.of(tagged(key, self.tag)) as usize).checked_rem(count)?,
            Distribution::Random => (self.draw() as usize).checked_rem(count)?,
        };
        self.points.get(place).map(|(_, index)| *index)
    }

    /// Any of those that are alive.
    pub fn any(&mut self) -> Option<usize> {
        let place = (self.draw() as usize).checked_rem(self.points.len())?;
        self.points.get(place).map(|(_, index)| *index)
    }

    /// A number out of a sequence that looks like chance (xorshift).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 16
    }
}

/// How many digests a server of that weight gets, four points each. With the single precision of twemproxy, or the points of some
/// weights would be others.
fn digests_of(weight: u32, total: u32, servers: usize) -> u32 {
    let share = weight as f32 / total as f32;
    let points = share * POINTS_PER_SERVER / POINTS_PER_DIGEST as f32 * servers as f32;
    (f64::from(points) + 0.000_000_000_1) as f32 as u32
}

/// The part of a key that decides: what stands between the two characters of the tag, if that is not empty.
fn tagged(key: &[u8], tag: Option<[u8; 2]>) -> &[u8] {
    let part = |[open, close]: [u8; 2]| {
        let rest = key.get(memchr::memchr(open, key)? + 1..)?;
        rest.get(..memchr::memchr(close, rest)?).filter(|part| !part.is_empty())
    };
    tag.and_then(part).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(distribution: Distribution, weights: &[u32]) -> Ring {
        let members =
            weights.iter().enumerate().map(|(index, weight)| Member { name: format!("s{index}"), weight: *weight });
        Ring::new(distribution, Hash::Fnv1aOf64, Some(*b"{}"), members.collect())
    }

    fn shares(ring: &mut Ring, servers: usize) -> Vec<usize> {
        let mut counts = vec![0; servers];
        for key in 0..30_000 {
            let server = ring.server_of(format!("key{key}").as_bytes()).unwrap();
            counts[server] += 1;
        }
        counts
    }

    #[test]
    fn weights_decide_how_many_keys_a_server_has() {
        for distribution in [Distribution::Ketama, Distribution::Modula] {
            let counts = shares(&mut ring(distribution, &[1, 1, 4]), 3);
            assert!(counts[2] > 15_000 && counts[2] < 25_000, "{distribution:?} {counts:?}");
        }
    }

    #[test]
    fn keys_of_others_stay_where_they_are_when_a_server_leaves_the_circle() {
        let mut ring = ring(Distribution::Ketama, &[1, 1, 1, 1]);
        let keys: Vec<String> = (0..2_000).map(|key| format!("key{key}")).collect();
        let before: Vec<usize> = keys.iter().map(|key| ring.server_of(key.as_bytes()).unwrap()).collect();
        ring.rebuild(|index| index != 2);
        for (key, before) in keys.iter().zip(before) {
            let now = ring.server_of(key.as_bytes()).unwrap();
            assert!(now != 2 && (before == 2 || now == before), "{key}");
        }
        ring.rebuild(|_| false);
        assert_eq!(ring.server_of(b"key"), None);
    }

    #[test]
    fn what_stands_between_the_characters_of_the_tag_decides() {
        let mut ring = ring(Distribution::Ketama, &[1, 1, 1, 1]);
        let mut servers = (0..50).map(|number| ring.server_of(format!("{{user7}}:{number}").as_bytes()).unwrap());
        let first = servers.next().unwrap();
        assert!(servers.all(|server| server == first));
        assert_eq!(tagged(b"a{}b", Some(*b"{}")), b"a{}b");
        assert_eq!(tagged(b"a$b$c", Some(*b"$$")), b"b");
    }
}
