//! `shared-cache`: a cache by RFC 9111, without a program.

use std::path::PathBuf;

/// A shared cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCache {
    /// Bytes of memory at most.
    pub bytes: u64,
    /// Where objects are kept that are to outlive the process.
    pub disk: Option<DiskTier>,
    /// What it calls itself in `Via` and `Cache-Status`.
    pub name: String,
}

/// A part of a cache that is kept in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTier {
    /// The data file; the journal stands beside it.
    pub path: PathBuf,
    /// Bytes at most.
    pub bytes: u64,
}
