//! `cache` sections: HAProxy's own cache of small objects.

use std::sync::Arc;

/// A `cache` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSection {
    /// Its name.
    pub name: Arc<str>,
    /// `total-max-size` in bytes.
    pub bytes: u64,
    /// `max-object-size` in bytes, with the head.
    pub object_bytes_max: u64,
    /// `max-age` in seconds.
    pub age_max: i64,
    /// `process-vary`.
    pub varies: bool,
    /// `max-secondary-entries`.
    pub secondary_max: usize,
}
