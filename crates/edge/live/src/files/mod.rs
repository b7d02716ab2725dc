//! Files that backends answer with: their folders, opening what is beneath them, what workers keep open, and threads that wait for
//! disks.
//!
//! ```text
//!  a request ─▶ cache: open already, and looked at lately ─────────────────────────────▶ answer
//!                 └─ no ─▶ lookup, on the worker: names and bytes that the kernel has in memory ─▶ answer
//!                            └─ it would wait for a disk ─▶ the same lookup, on a disk thread ──▶ answer
//! ```
//!
//! A worker never waits for a disk. What is asked of the kernel on a worker says so (`RESOLVE_CACHED`, `RWF_NOWAIT`), and where the
//! kernel or the file system cannot promise it, a disk thread asks.

mod beneath;
mod cache;
mod disk;
mod folder;
mod lookup;
mod numbers;
mod open_file;
mod read;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use haproxycfg::model::FileService;
use telemetry::PerWorker;

pub use self::{
    beneath::{OpenAs, Patience},
    cache::{CachedFile, Key, OpenFiles, TaggedFile, Variant},
    disk::{Busy, DiskThreads},
    folder::{FolderError, FolderSpec, Folders, LiveFolder},
    lookup::{Found, Lookup, Step, StepKind},
    numbers::{FileCounters, FileNumbers},
    open_file::{Content, Descriptor, Facts, OpenFile, STRETCH_BYTES},
    read::{ListedFolder, READ_BYTES_MAX, is_in_memory, list, load, read_at},
};

/// The files of a backend.
#[derive(Debug)]
pub struct LiveFiles {
    /// What waits for their disks.
    pub threads: Arc<DiskThreads>,
    /// Its folders, in the order of [`FileService::folders`].
    pub folders: Vec<Arc<LiveFolder>>,
    /// Folders whose files responses name, in the order of [`FileService::sent`].
    pub sent: Vec<Arc<LiveFolder>>,
    /// Numbers by worker.
    pub counters: PerWorker<FileCounters>,
    caches: Vec<Mutex<OpenFiles>>,
}

impl LiveFiles {
    /// The files that a section describes; `None` if it has none. Its folders have been opened before.
    #[must_use]
    pub fn new(
        described: &FileService,
        (folders, threads): (&Folders, &Arc<DiskThreads>),
        workers: usize,
    ) -> Option<Arc<Self>> {
        let opened = |(path, _, _): (&Path, _, _)| {
            folders.opened(&FolderSpec { path: path.to_path_buf(), symlinks: described.symlinks })
        };
        let mut folders: Vec<Arc<LiveFolder>> = described.all_folders().map(opened).collect();
        if folders.is_empty() {
            return None;
        }
        let sent = folders.split_off(described.folders.len());
        let caches = (0..workers).map(|_| Mutex::new(OpenFiles::new(&described.cache))).collect();
        Some(Arc::new(Self { threads: Arc::clone(threads), folders, sent, counters: PerWorker::new(workers), caches }))
    }

    /// Works on what a worker keeps open. NOTE: no other thread takes that lock but one that shows numbers.
    pub fn with_cache<R>(&self, worker: usize, work: impl FnOnce(&mut OpenFiles) -> R) -> Option<R> {
        let cache = self.caches.get(worker)?;
        Some(work(&mut cache.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// What operators are told of them.
    #[must_use]
    pub fn numbers(&self, backend: &Arc<str>, described: &FileService) -> FileNumbers {
        let workers = self.caches.len() as u64;
        let sum = |value: fn(&FileCounters) -> &telemetry::Counter| self.counters.sum(|part| value(part).value());
        let mut numbers = FileNumbers {
            backend: Arc::clone(backend),
            open_max: described.cache.entries_max as u64 * workers,
            memory_bytes_max: described.cache.memory_bytes_max as u64 * workers,
            hits: sum(|part| &part.hits),
            revalidations: sum(|part| &part.revalidations),
            misses: sum(|part| &part.misses),
            waits: sum(|part| &part.waits),
            ..FileNumbers::default()
        };
        for cache in &self.caches {
            let (open, bytes, evictions) = cache.lock().unwrap_or_else(PoisonError::into_inner).totals();
            numbers.open += open as u64;
            numbers.memory_bytes += bytes as u64;
            numbers.evictions += evictions;
        }
        numbers
    }
}
