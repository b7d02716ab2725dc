//! The farm: choosing, slots, and what goes in and out.

mod admin;
mod check;
mod dynamic;
mod queue;
mod snapshot;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod words;

use std::collections::VecDeque;

use crate::config::{Algorithm, FarmConfig, Forced, ServerConfig};
use crate::event::Event;
use crate::hash::Hasher;
use crate::lb::Engine;
use crate::pool::Pool;
use crate::rng::Rng;
use crate::server::OperationalState;
use crate::{ServerId, Ticket};

use self::queue::Queues;

pub use self::admin::{AdminFlagError, Followed, WeightChange, WeightError};
pub use self::dynamic::RemovalError;
pub use self::queue::{Claim, QueuePosition};
pub use self::snapshot::{AgentSnapshot, ServerSnapshot};

pub use self::stats::{BackendStats, CheckView, ServerStats, ServerStatus};

/// What is known about a request when a server is chosen for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The hashed key, for algorithms that have one. Without it they take turns, as HAProxy does.
    pub key: Option<u32>,
    /// The server of the attempt before, at a redispatch: it is chosen again only if there is no other.
    pub avoid: Option<ServerId>,
    /// The server that persistence or `use-server` wants. It is passed over when it is down, unless the backend or
    /// the request insists.
    pub forced: Option<Forced>,
    /// `set-priority-class`, -2047 to 2047: lower goes first.
    pub priority_class: i32,
    /// `set-priority-offset` in milliseconds, -524287 to 524287: as if the request had come so much later.
    pub priority_offset: i32,
}

/// What became of a request for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Go to this server; the slot is yours until `Farm::release`.
    Assigned(ServerId),
    /// All are full: wait until the waiter is woken, then `Farm::claim`.
    Queued(Ticket),
    /// No server is up. (503, termination state `SC`.)
    NoServer,
    /// This server's queue is full, and no other may be taken. (503, termination state `sQ`.)
    QueueFull(ServerId),
}

/// Counters of the backend.
#[derive(Clone, Copy, Debug, Default)]
struct BackendCounters {
    streams_max: u32,
    queue_max: u32,
    chosen: u64,
    retries: u64,
    redispatches: u64,
    went_down: u64,
}

/// The state of one backend's servers.
///
/// `W` is whatever wakes a waiting request: a `Waker`, a channel's sender, a number in a test. The farm keeps it while
/// the request is queued and gives it back through [`Farm::poll_wake`].
///
/// Contract: after each call, and after releasing the lock that guards the farm, wake everything from `poll_wake` and
/// act on everything from `poll_event`. A slot from `pick` or `claim` is released exactly once.
#[derive(Clone, Debug)]
pub struct Farm<W> {
    config: FarmConfig,
    pool: Pool,
    engine: Engine,
    queues: Queues<W>,
    rng: Rng,
    events: VecDeque<Event>,
    counters: BackendCounters,
    last_change_ms: u64,
    down_time_s: u64,
    /// Places of servers that are gone.
    vacant: Vec<ServerId>,
}

impl<W> Farm<W> {
    /// A farm over these servers, in order of declaration.
    pub fn new(config: FarmConfig, servers: Vec<ServerConfig>, now_ms: u64) -> Self {
        let mut pool = Pool::new(&config, servers);
        for id in pool.servers.ids() {
            pool.servers[id].last_change_ms = now_ms;
        }
        let engine = Engine::new(&config, &mut pool);
        Self {
            queues: Queues::new(pool.servers.len()),
            rng: Rng::new(config.seed),
            engine,
            pool,
            config,
            events: VecDeque::new(),
            counters: BackendCounters::default(),
            last_change_ms: now_ms,
            down_time_s: 0,
            vacant: Vec::new(),
        }
    }

    /// The settings the farm was made with.
    pub fn config(&self) -> &FarmConfig {
        &self.config
    }

    /// The settings a server was declared with.
    pub fn server_config(&self, server: ServerId) -> Option<&ServerConfig> {
        self.pool.servers.find(server).map(|server| &server.config)
    }

    /// Computes keys as this backend's `hash-type` says. Keep a copy outside the lock.
    pub fn hasher(&self) -> Hasher {
        Hasher::new(self.config.hash)
    }

    /// All servers, in order of declaration.
    pub fn servers(&self) -> impl DoubleEndedIterator<Item = ServerId> + use<W> {
        let vacant = self.vacant.clone();
        self.pool.servers.ids().filter(move |id| !vacant.contains(id))
    }

    /// The server with this name.
    pub fn server_by_name(&self, name: &str) -> Option<ServerId> {
        self.servers().find(|&id| self.pool.servers[id].config.name == name)
    }

    /// The server with this number (`id`).
    pub fn server_by_number(&self, number: u32) -> Option<ServerId> {
        self.servers().find(|&id| self.pool.servers[id].number == number)
    }

    /// Counts a stream into the backend. Dynamic limits (`minconn`) follow this number.
    pub fn stream_enters(&mut self) {
        self.pool.streams += 1;
        self.counters.streams_max = self.counters.streams_max.max(self.pool.streams);
    }

    /// Says how many streams the backend has, for a caller that counts them itself.
    pub fn set_streams(&mut self, streams: u32) {
        self.pool.streams = streams;
        self.counters.streams_max = self.counters.streams_max.max(streams);
    }

    /// Counts a stream out of the backend.
    pub fn stream_leaves(&mut self) {
        self.pool.streams = self.pool.streams.saturating_sub(1);
    }

    /// Whether a wanted server may be used: it is not down, or the backend (`option persist`) or the request insists.
    pub fn accepts_forced(&self, forced: Forced) -> bool {
        self.pool.servers.find(forced.server).is_some_and(|server| {
            server.current.state != OperationalState::Stopped || self.config.persist || forced.even_if_down
        })
    }

    /// Chooses a server for a request and takes a slot of it, or queues the request.
    ///
    /// `waiter` is called only when the request is queued.
    pub fn pick(&mut self, request: &Request, now_ms: u64, waiter: impl FnOnce() -> W) -> Pick {
        let mut avoid = request.avoid.filter(|&id| self.pool.servers.find(id).is_some());
        if let Some(forced) = request.forced
            && self.accepts_forced(forced)
        {
            let server = &self.pool.servers[forced.server];
            let queue_is_full = server.config.maxqueue > 0 && server.queued >= server.config.maxqueue;
            if self.pool.is_free(forced.server, now_ms) {
                return self.assign(forced.server);
            }
            if !queue_is_full {
                return Pick::Queued(self.enqueue(Some(forced.server), request, forced.even_if_down, now_ms, waiter));
            }
            if forced.even_if_down || self.config.redispatch.is_none() {
                return Pick::QueueFull(forced.server);
            }
            avoid = Some(forced.server);
        }
        self.balance(request, avoid, now_ms, waiter)
    }

    fn balance(&mut self, request: &Request, avoid: Option<ServerId>, now_ms: u64, waiter: impl FnOnce() -> W) -> Pick {
        if self.pool.total_weight == 0 {
            self.count_redispatch(avoid, None);
            return Pick::NoServer;
        }
        // With one server HAProxy does not look for the header at all, so nobody's turn is used up.
        let needs_no_key =
            self.pool.used == 1 && matches!(self.config.algorithm, Algorithm::Header { .. } | Algorithm::Expression);
        let key = request.key.or(needs_no_key.then_some(0));
        // A waiting ticket means that the servers are full, but only a server in use will ever take it.
        let in_vain = self.engine.queue_means_full() && self.queues.backend_len() > 0 && self.pool.served > 0;
        let chosen = if in_vain { None } else { self.engine.choose(&mut self.pool, &mut self.rng, key, avoid, now_ms) };
        self.count_redispatch(avoid, chosen);
        let Some(id) = chosen else {
            return Pick::Queued(self.enqueue(None, request, false, now_ms, waiter));
        };
        if Some(id) != avoid {
            self.counters.chosen += 1;
            self.pool.servers[id].counters.chosen += 1;
        }
        if self.pool.is_free(id, now_ms) {
            return self.assign(id);
        }
        let server = &self.pool.servers[id];
        if server.config.maxqueue > 0 && server.queued >= server.config.maxqueue {
            return Pick::QueueFull(id);
        }
        Pick::Queued(self.enqueue(Some(id), request, false, now_ms, waiter))
    }

    fn assign(&mut self, id: ServerId) -> Pick {
        self.take_slot(id);
        Pick::Assigned(id)
    }

    /// Gives a slot back. It goes to whoever waits for it, if the limits allow.
    pub fn release(&mut self, server: ServerId, now_ms: u64) {
        if self.pool.servers.find(server).is_none() {
            return;
        }
        self.free_slot(server);
        self.serve_queues(server, now_ms);
    }

    /// Counts another attempt on the same server (`RetryPolicy` said so).
    pub fn count_retry(&mut self, server: ServerId) {
        if self.pool.servers.find(server).is_some() {
            self.pool.servers[server].counters.retries += 1;
        }
        self.counters.retries += 1;
    }

    /// The next event that the outside must act on.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next waiter to wake: its ticket has an outcome.
    pub fn poll_wake(&mut self) -> Option<W> {
        self.queues.poll_wake()
    }

    /// A request that had a server before goes to another one, or once more to the same.
    fn count_redispatch(&mut self, before: Option<ServerId>, after: Option<ServerId>) {
        let Some(before) = before else { return };
        let counters = &mut self.pool.servers[before].counters;
        if Some(before) == after {
            counters.retries += 1;
            self.counters.retries += 1;
        } else {
            counters.redispatches += 1;
            self.counters.redispatches += 1;
        }
    }

    fn take_slot(&mut self, id: ServerId) {
        let server = &mut self.pool.servers[id];
        server.served += 1;
        server.counters.served_max = server.counters.served_max.max(server.served);
        self.pool.served += 1;
        self.engine.load_changed(&mut self.pool, id);
    }

    fn free_slot(&mut self, id: ServerId) {
        let server = &mut self.pool.servers[id];
        debug_assert!(server.served > 0, "a slot was released twice");
        if server.served == 0 {
            return;
        }
        server.served -= 1;
        self.pool.served = self.pool.served.saturating_sub(1);
        self.engine.load_changed(&mut self.pool, id);
    }
}
