//! Telling schedulers, on whatever worker they are, what to look at again.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use balance::CheckKind;
use live::{LiveProxy, LiveServer};
use tokio::sync::Notify;

/// Tells schedulers that a check comes up earlier than planned. One for the process.
#[derive(Debug, Default)]
pub struct CheckBoard {
    workers: RwLock<Vec<Arc<Notices>>>,
}

/// What a worker's scheduler has to look at again.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Keys of servers. Bounded: each key stands there once.
    pub(super) keys: Mutex<Vec<u64>>,
    /// Servers that came at run time.
    pub(super) added: Mutex<Vec<(Arc<LiveProxy>, Arc<LiveServer>)>>,
    pub(super) notify: Notify,
}

impl CheckBoard {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn of_worker(&self, worker: usize, workers: usize) -> Arc<Notices> {
        let mut known = self.workers.write().unwrap_or_else(PoisonError::into_inner);
        known.resize_with(workers.max(1), Arc::default);
        known.get(worker).cloned().unwrap_or_default()
    }

    fn notices_of(&self, server: &LiveServer) -> Option<Arc<Notices>> {
        let known = self.workers.read().unwrap_or_else(PoisonError::into_inner);
        known.get(worker_of(server, known.len())).cloned()
    }

    /// Has a server checked that came at run time.
    pub fn add(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) {
        if kinds(server).next().is_none() && server.config.slowstart.is_zero() {
            return;
        }
        let Some(notices) = self.notices_of(server) else { return };
        let added = (Arc::clone(proxy), Arc::clone(server));
        notices.added.lock().unwrap_or_else(PoisonError::into_inner).push(added);
        notices.notify.notify_one();
    }

    /// Lets go of a server that has gone.
    pub fn remove(&self, server: &LiveServer) {
        self.wake(server);
    }

    /// Makes the scheduler of a server look at it again.
    pub fn wake(&self, server: &LiveServer) {
        let Some(notices) = self.notices_of(server) else { return };
        let mut keys = notices.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains(&server.key) {
            keys.push(server.key);
        }
        drop(keys);
        notices.notify.notify_one();
    }
}

/// The worker that checks a server.
pub(super) fn worker_of(server: &LiveServer, workers: usize) -> usize {
    usize::try_from(server.key % workers.max(1) as u64).unwrap_or(0)
}

/// The checks that a server has: that of its health, then the question to its agent.
pub(super) fn kinds(server: &LiveServer) -> impl Iterator<Item = CheckKind> + use<> {
    let health = server.config.check.then_some(CheckKind::Health);
    health.into_iter().chain(server.config.agent_check.then_some(CheckKind::Agent))
}
