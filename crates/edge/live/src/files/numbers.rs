//! What operators are told of the files of a backend.

use std::sync::Arc;

use telemetry::Counter;

/// What one worker counts.
#[derive(Debug, Default)]
pub struct FileCounters {
    /// Requests whose file was open, and looked at lately.
    pub hits: Counter,
    /// Requests whose file was open, and was looked at again.
    pub revalidations: Counter,
    /// Requests whose file was not open.
    pub misses: Counter,
    /// Lookups that a disk thread made.
    pub waits: Counter,
}

/// The numbers of a backend, of all workers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNumbers {
    /// The backend.
    pub backend: Arc<str>,
    /// Files that are open.
    pub open: u64,
    /// How many may be.
    pub open_max: u64,
    /// Bytes of them in memory.
    pub memory_bytes: u64,
    /// How many may be.
    pub memory_bytes_max: u64,
    /// [`FileCounters::hits`]
    pub hits: u64,
    /// [`FileCounters::revalidations`]
    pub revalidations: u64,
    /// [`FileCounters::misses`]
    pub misses: u64,
    /// Files that were closed because others were asked for.
    pub evictions: u64,
    /// [`FileCounters::waits`]
    pub waits: u64,
}
