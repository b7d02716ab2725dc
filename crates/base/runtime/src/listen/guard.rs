//! Counting what is alive: the connections of each worker, which `dispatch` chooses by, and acceptors, whose end a
//! reload waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// One counter alone on its cache line, so that workers do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn value(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of connections of each worker, by index.
#[derive(Debug, Clone)]
pub struct ConnectionCounts {
    counts: Arc<[Arc<Count>]>,
}

impl ConnectionCounts {
    pub(crate) fn new(counts: Vec<Arc<Count>>) -> Self {
        Self { counts: counts.into() }
    }

    /// Connections that the worker `index` holds; zero if there is no such worker.
    pub fn worker(&self, index: usize) -> usize {
        self.counts.get(index).map_or(0, |count| count.value())
    }

    /// Connections of all workers.
    pub fn total(&self) -> usize {
        self.counts.iter().map(|count| count.value()).sum()
    }
}

/// Counts a connection as its worker's for as long as it lives. Keep it with the connection.
#[derive(Debug)]
pub struct ConnectionGuard(Arc<Count>);

impl ConnectionGuard {
    pub(crate) fn new(count: &Arc<Count>) -> Self {
        count.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Default for ConnectionGuard {
    /// That of a connection which no acceptor has brought.
    fn default() -> Self {
        Self::new(&Arc::default())
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Held by all that accepts for one load, in every thread.
#[derive(Debug, Clone)]
pub(crate) struct InUse {
    _bell: Arc<Bell>,
}

/// Rings when the last [`InUse`] goes.
#[derive(Debug)]
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Waits for the end of what accepts for one load.
#[derive(Debug)]
pub(crate) struct LastUse(Arc<Notify>);

impl InUse {
    pub(crate) fn new() -> (Self, LastUse) {
        let notify = Arc::new(Notify::new());
        (Self { _bell: Arc::new(Bell(Arc::clone(&notify))) }, LastUse(notify))
    }
}

impl LastUse {
    /// Returns when nothing accepts any more. To be awaited to its end once.
    pub(crate) async fn wait(&self) {
        self.0.notified().await;
    }
}
