//! The edge that runs, as those see it who look after it.

use std::sync::Arc;

use live::{ListenerOrder, LiveProxy, Shared};

use super::sampler::Sampler;

/// Tells the listeners of a frontend something, on all workers.
pub trait SteerListeners: Send + Sync {
    /// Called on any thread; must not block.
    fn steer(&self, proxy: &LiveProxy, order: ListenerOrder);
}

/// There are no listeners.
#[cfg(test)]
impl SteerListeners for () {
    fn steer(&self, _proxy: &LiveProxy, _order: ListenerOrder) {}
}

/// The edge that runs, as those see it who look after it.
pub struct RunningEdge {
    /// What runs.
    pub shared: Arc<Shared>,
    /// What happened second by second.
    pub sampler: Sampler,
    /// Its listeners.
    pub listeners: Arc<dyn SteerListeners>,
}

impl RunningEdge {
    /// What runs, and its listeners.
    #[must_use]
    pub fn new(shared: Arc<Shared>, listeners: Arc<dyn SteerListeners>) -> Self {
        Self { shared, sampler: Sampler::default(), listeners }
    }
}

impl std::fmt::Debug for RunningEdge {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningEdge").finish_non_exhaustive()
    }
}
