//! A key in memory.

use crate::{Bytes, Millis, Value, bytes::heap_bytes, hash_index::Hashed, value::footprint};

/// The expiry of keys that have none.
pub const NEVER: Millis = Millis::MAX;

/// A key with what it holds.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// What it holds; nothing if it is known not to be there.
    pub value: Option<Value>,
    /// When it expires.
    pub expire_at: Millis,
    /// The checkpoint that it is dirty for, 1 and 2 in turn; 0 if the tables have it as it is.
    pub(super) dirty: u8,
    /// When it was used last, in seconds of the shard's clock; with a policy of frequency Redis' counter and its time.
    pub touched: u32,
    /// Whether the tables have a record of it.
    pub(super) on_disk: bool,
    /// Its record was larger than whole ones should be.
    pub(super) is_bulky: bool,
}

// There are very many of them.
const _: () = assert!(size_of::<Entry>() <= 72);

impl Entry {
    /// About how many bytes it takes, by the mean size of some elements if it is a collection.
    pub fn footprint(&self, samples: usize) -> usize {
        let deadline = if self.expire_at == NEVER { 0 } else { 2 * size_of::<Bytes>() };
        let value = self.value.as_ref().map_or(0, |value| footprint::of_value(value, samples));
        size_of::<Self>() + footprint::PLACE + heap_bytes(&self.key) + deadline + value
    }
}

impl Hashed for Entry {
    fn name(&self) -> &[u8] {
        &self.key
    }
}
