//! Sorted sets.

use crate::Bytes;

/// Members with scores, ordered by score, then by member.
#[derive(Debug, Clone, Default)]
pub struct SortedSet {
    /// The members.
    pub members: Vec<(f64, Bytes)>,
}
