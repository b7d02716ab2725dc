//! Up to where values keep the forms that small ones have.

use super::{hash::HashLimits, list::NodeLimit, sorted_set::SmallLimits};

/// The limits of all types, and the seed of their tables.
#[derive(Debug, Clone, Copy)]
pub struct ValueLimits {
    /// The seed of tables of elements: the keyspace's.
    pub seed: u64,
    /// Up to where lists' nodes grow.
    pub list: NodeLimit,
    /// The most members of a set of integers.
    pub integers_max: usize,
    /// Up to where hashes are small.
    pub hash: HashLimits,
    /// Up to where sorted sets are small.
    pub sorted_set: SmallLimits,
}

impl ValueLimits {
    /// Those that Redis has where nothing else is set.
    pub fn redis(seed: u64) -> Self {
        Self {
            seed,
            list: NodeLimit::new(-2),
            integers_max: 512,
            hash: HashLimits { fields: 512, len: 64 },
            sorted_set: SmallLimits { members: 128, member_len: 64 },
        }
    }
}
