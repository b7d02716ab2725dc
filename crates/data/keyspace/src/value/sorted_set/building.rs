//! A sorted set that comes to be in steps: first its members by name, then their order.

use crate::{Bytes, hash_index::HashIndex};

use super::{Member, Order, SmallLimits, SortedSet, without_sign_of_zero};

/// What there is of it.
#[derive(Debug)]
pub struct Building {
    names: HashIndex<Member>,
    order: Order,
    cursor: u64,
}

impl Building {
    /// Nothing yet.
    pub fn new(seed: u64) -> Self {
        Self { names: HashIndex::new(seed), order: Order::default(), cursor: 0 }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Puts a member; one that is there gets another score, from its own and this one.
    pub fn put(&mut self, name: &[u8], score: f64, combine: impl FnOnce(f64, f64) -> f64) {
        let hash = self.names.hash(name);
        match self.names.get_mut_hashed(hash, name) {
            Some(member) => member.score = combine(member.score, score),
            None => self.names.insert_new(hash, Member { score, name: Bytes::from_slice(name) }),
        }
    }

    /// Brings about so many members in order, once all have been put. Returns whether that was all.
    pub fn sort(&mut self, count: usize) -> bool {
        let order = &mut self.order;
        let next = self.names.scan(self.cursor, count, |member| order.insert(member.clone()));
        self.cursor = next.unwrap_or(0);
        next.is_none()
    }

    /// What nobody wants, to be freed.
    pub fn into_unordered(self) -> SortedSet {
        SortedSet::Large { names: self.names, order: self.order, ledger: None }
    }

    /// All of it, once it is in order; small if the members fit.
    pub fn finish(self, limits: SmallLimits) -> SortedSet {
        let Self { names, order, .. } = self;
        if names.len() <= limits.members && names.iter().all(|member| member.name.len() <= limits.member_len) {
            let score = |member: &Member| without_sign_of_zero(member.score);
            let members = order.upwards(0).map(|member| Member { score: score(member), name: member.name.clone() });
            return SortedSet::Small(members.collect());
        }
        SortedSet::Large { names, order, ledger: None }
    }
}
