//! What one worker thread has to itself: its copy of the running instance, pools, connections and random numbers.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use crate::{
    counters::ProcessTraffic,
    live::{Instance, Shared},
    net::BufferPool,
    pool::ServerPool,
    registry::Registry,
    session::SpareHeads,
};

/// Unused receive blocks that a worker keeps.
const SPARE_BUFFERS_MAX: usize = 64;

/// One worker's state. Everything in it belongs to its thread.
#[derive(Debug)]
pub struct Worker {
    /// Which worker this is, from 0.
    pub index: usize,
    /// What all workers see.
    pub shared: Arc<Shared>,
    /// Receive blocks.
    pub buffers: BufferPool,
    /// Idle server connections.
    pub servers: RefCell<ServerPool>,
    /// Message heads to be used again.
    pub heads: SpareHeads,
    /// Client connections.
    pub registry: Rc<Registry>,
    /// Whether the worker drains: no connection is kept alive any more.
    pub draining: Cell<bool>,
    instance: RefCell<Arc<Instance>>,
    random: Cell<u64>,
}

impl Worker {
    /// The state of worker `index`, whose random numbers follow from `seed`.
    #[must_use]
    pub fn new(index: usize, shared: Arc<Shared>, seed: u64) -> Self {
        let instance = shared.instance();
        Self {
            index,
            buffers: BufferPool::new(instance.config.global.tune.bufsize, SPARE_BUFFERS_MAX),
            servers: RefCell::new(ServerPool::default()),
            heads: SpareHeads::new(SPARE_BUFFERS_MAX),
            registry: Rc::new(Registry::default()),
            draining: Cell::new(false),
            instance: RefCell::new(instance),
            random: Cell::new(seed | 1),
            shared,
        }
    }

    /// The instance that new requests run under.
    #[must_use]
    pub fn instance(&self) -> Arc<Instance> {
        Arc::clone(&self.instance.borrow())
    }

    /// Runs new requests under `instance` from now on.
    pub fn adopt(&self, instance: Arc<Instance>) {
        *self.instance.borrow_mut() = instance;
    }

    /// This worker's part of the process' numbers.
    #[must_use]
    pub fn traffic(&self) -> &ProcessTraffic {
        self.shared.process.traffic.of(self.index)
    }

    /// 64 random bits (xorshift64*): for balancing and sampling, not for secrets.
    #[must_use]
    pub fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
