//! A key in memory.

use crate::{Bytes, Millis, Value, hash_index::Hashed};

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

impl Hashed for Entry {
    fn name(&self) -> &[u8] {
        &self.key
    }
}
