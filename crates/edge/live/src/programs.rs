//! Places for programs that answer requests: how many run at a time, and how many requests wait for one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use haproxycfg::model::Cgi;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one `cgi` line.
#[derive(Debug)]
pub struct ProgramPlaces {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue_max: usize,
}

/// One of those that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl ProgramPlaces {
    /// As many as the line says.
    #[must_use]
    pub fn new(line: &Cgi) -> Self {
        Self {
            free: Arc::new(Semaphore::new(line.processes_max)),
            waiting: AtomicUsize::new(0),
            queue_max: line.queue_max,
        }
    }

    /// Those of all lines of a proxy, in their order.
    #[must_use]
    pub fn of(lines: &[Cgi]) -> Vec<Arc<Self>> {
        lines.iter().map(|line| Arc::new(Self::new(line))).collect()
    }

    /// A place, which is waited for unless too many wait already: then there is none.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(place);
        }
        let before = self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.queue_max {
            return None;
        }
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}
