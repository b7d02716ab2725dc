//! Sets.

use crate::{
    Bytes,
    hash_index::{HashIndex, Hashed},
};

impl Hashed for Bytes {
    fn name(&self) -> &[u8] {
        self
    }
}

/// Small ones are a list; larger ones are hashed.
#[derive(Debug, Clone)]
pub enum Set {
    /// Integers only, sorted.
    Integers(Vec<i64>),
    /// Many members.
    Large(HashIndex<Bytes>),
}
