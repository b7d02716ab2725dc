//! Settings as the limits that the keyspace takes.

use keyspace::{
    SpaceLimits,
    value::{ValueLimits, hash::HashLimits, list::NodeLimit, sorted_set::SmallLimits, stream::NodeLimits},
};

use super::Settings;

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Settings {
    /// Up to where values are small, with the seed of their tables.
    pub fn value_limits(&self, seed: u64) -> ValueLimits {
        ValueLimits {
            seed,
            list: self.list_limit(),
            integers_max: self.integers_max(),
            hash: self.hash_limits(),
            sorted_set: self.sorted_set_limits(),
        }
    }

    /// How large nodes of lists become.
    pub fn list_limit(&self) -> NodeLimit {
        NodeLimit::new(self.list_max_listpack_size.0)
    }

    /// The most members of a set of integers that is an array.
    pub fn integers_max(&self) -> usize {
        count(self.set_max_intset_entries.0)
    }

    /// Up to where hashes are small.
    pub fn hash_limits(&self) -> HashLimits {
        HashLimits { fields: count(self.hash_max_listpack_entries.0), len: bytes(self.hash_max_listpack_value.0) }
    }

    /// Up to where sorted sets are small.
    pub fn sorted_set_limits(&self) -> SmallLimits {
        SmallLimits {
            members: count(self.zset_max_listpack_entries.0),
            member_len: bytes(self.zset_max_listpack_value.0),
        }
    }

    /// How large nodes of streams become.
    pub fn stream_limits(&self) -> NodeLimits {
        NodeLimits {
            bytes: bytes(self.stream_node_max_bytes.0),
            entries: u64::try_from(self.stream_node_max_entries.0).unwrap_or(0),
        }
    }

    /// How large what is kept whole may be.
    pub fn space_limits(&self) -> SpaceLimits {
        SpaceLimits {
            whole_entries_max: count(self.collection_max_whole_entries.0),
            whole_bytes_max: bytes(self.collection_max_whole_bytes.0),
            memory_max: Some(bytes(self.maxmemory.0)).filter(|bound| *bound > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_that_values_have_by_themselves() {
        let (set, known) = (Settings::default().value_limits(7), ValueLimits::redis(7));
        assert_eq!(format!("{set:?}"), format!("{known:?}"));
    }
}
