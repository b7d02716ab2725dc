//! Idle server connections that a worker keeps for the next request.
//!
//! A pool belongs to one worker, so taking and giving back needs no lock; what other workers want of it they ask for
//! (`session/borrow`). Nobody watches an idle connection: whether its
//! server has closed it shows in the readiness that the runtime has recorded for it, which is looked at when it is taken
//! and by the sweep in between. The limits count over all workers ([`LiveServer::idle`]).
//!
//! As in HAProxy, a pool keeps as many as were in use at the same time lately: a thousand clients that each ask once leave
//! a connection or two behind, not a thousand.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use live::{LiveServer, Process};
use net::{Socket, Target};

use crate::session::{
    fetch::{Codec, ServerCodec as _, multiplexed::SharedConnection},
    pinned::PinnedConnections,
};

/// A connection to a server, with what decides whether it may be used again.
#[derive(Debug)]
pub struct ServerConnection {
    /// What it speaks, with its socket and its buffers.
    pub codec: Codec,
    /// The server it leads to.
    pub server: Arc<LiveServer>,
    /// [`LiveServer::target_epoch`] when it was opened.
    pub epoch: u64,
    /// Requests sent on it.
    pub requests: u32,
    /// Whether all of the last one has been sent, body included: otherwise the next one would be read as what is missing.
    pub is_request_sent: bool,
    /// Whether it may only serve the client connection that opened it.
    pub private: bool,
    /// Tells the PROXY header that it began with from others.
    pub greeting: u64,
    /// This end's address, and where it was to lead; none for unix sockets.
    pub ends: (Option<SocketAddr>, Option<SocketAddr>),
    /// The next one of those that are kept for the same client.
    pub(crate) next: PinnedConnections,
    /// What counts it; none where it is a part of one that is counted on its own.
    counted: Option<Counted>,
}

/// Counts a connection as long as it stands.
#[derive(Debug)]
struct Counted {
    server: Arc<LiveServer>,
    need: Rc<Need>,
    is_idle: Cell<bool>,
    worker: usize,
    process: Arc<Process>,
}

impl Counted {
    /// It is idle, as the server's count says already.
    fn becomes_idle(&self) {
        self.is_idle.set(true);
        self.server.side.traffic.of(self.worker).idle.increment();
        self.need.release();
    }

    fn is_taken(&self) {
        if self.is_idle.replace(false) {
            self.leave_idle();
            self.need.take();
        }
    }

    fn leave_idle(&self) {
        self.server.idle.decrement();
        self.server.side.traffic.of(self.worker).idle.decrement();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.server.connections.decrement();
        self.process.server_connections.fetch_sub(1, Relaxed);
        if self.is_idle.get() {
            self.leave_idle();
        } else {
            self.need.release();
        }
    }
}

/// What decides who may use a connection that carries several exchanges.
#[derive(Debug)]
pub struct ConnectionFacts {
    /// The server it leads to.
    pub server: Arc<LiveServer>,
    /// [`ServerConnection::epoch`].
    pub epoch: u64,
    /// [`ServerConnection::private`].
    pub private: bool,
    /// [`ServerConnection::greeting`].
    pub greeting: u64,
    /// [`ServerConnection::ends`].
    pub ends: (Option<SocketAddr>, Option<SocketAddr>),
    counted: Counted,
}

impl ServerConnection {
    /// One exchange's part of a connection that carries several.
    #[must_use]
    pub fn of_shared(shared: &Rc<dyn SharedConnection>) -> Box<Self> {
        let (facts, requests) = (&shared.carrier().facts, shared.carrier().requests());
        facts.counted.is_taken();
        Box::new(Self {
            codec: Rc::clone(shared).part(),
            server: Arc::clone(&facts.server),
            epoch: facts.epoch,
            requests,
            is_request_sent: true,
            private: facts.private,
            greeting: facts.greeting,
            ends: facts.ends,
            next: PinnedConnections::default(),
            counted: None,
        })
    }
}

impl ServerConnection {
    /// Whether the server has closed it or sent something that nobody asked for. Costs no system call unless something
    /// has happened on it.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        if self.epoch != self.server.target_epoch.load(Relaxed) {
            return true;
        }
        self.codec.is_stale()
    }
}

impl ServerConnection {
    /// Whether nothing is left on it, of a request or of a response, and its server goes on: only then it may serve another request.
    #[must_use]
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.is_request_sent && self.codec.is_clean()
    }

    /// Whether it is one to this address.
    #[must_use]
    pub fn leads_to(&self, place: &Target) -> bool {
        let Target::Inet(wanted) = place else { return true };
        self.ends.1 == Some(*wanted)
    }
}

/// An idle connection on its way to another worker.
#[derive(Debug)]
pub struct Lent {
    /// The socket.
    pub socket: Socket,
    /// [`ServerConnection::epoch`].
    pub epoch: u64,
    /// [`ServerConnection::requests`].
    pub requests: u32,
    /// [`ServerConnection::ends`].
    pub ends: (Option<SocketAddr>, Option<SocketAddr>),
}

impl ServerConnection {
    /// Takes it out of this worker; none when something holds on to it.
    #[must_use]
    pub fn lend(self: Box<Self>) -> Option<Lent> {
        let (stream, epoch, requests, ends) =
            (self.codec.stream().map(Rc::clone)?, self.epoch, self.requests, self.ends);
        drop(self);
        let socket = Rc::try_unwrap(stream).ok()?.into_socket().ok()?;
        Some(Lent { socket, epoch, requests, ends })
    }
}

/// How many connections to a server a worker uses at the same time.
#[derive(Debug, Default)]
struct Need {
    used: Cell<usize>,
    /// The most since the last purge.
    used_max: Cell<usize>,
    /// The most lately: what is beyond it was not needed for a while.
    estimate: Cell<usize>,
    /// After how many requests the server has left a connection that carries several, and how often in a row it was so many.
    left_after: Cell<(u32, u32)>,
    /// The server has spoken a protocol whose connections carry several exchanges.
    carries_several: Cell<bool>,
}

impl Need {
    fn take(&self) {
        let used = self.used.get() + 1;
        self.used.set(used);
        self.used_max.set(self.used_max.get().max(used));
        self.estimate.set(self.estimate.get().max(used));
    }

    fn release(&self) {
        self.used.set(self.used.get().saturating_sub(1));
    }

    /// Moves on to the next period between two purges; how many of `idle` connections and those in use were not needed
    /// in the one that ends.
    fn next_period(&self, idle: usize) -> usize {
        let (used, most, estimate) = (self.used.get(), self.used_max.get(), self.estimate.get());
        self.estimate.set(usize::midpoint(estimate, most).max(most));
        self.used_max.set(used);
        (used + idle).saturating_sub(most.max(estimate))
    }
}

mod sharing;

pub use self::sharing::{Opening, OpeningGuard};

/// The idle connections of one worker, by server.
#[derive(Debug)]
pub struct ServerPool {
    by_server: HashMap<u64, Idle, BuildHasherDefault<KeyHasher>>,
    worker: usize,
    process: Arc<Process>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: VecDeque<Box<ServerConnection>>,
    /// Connections that carry several exchanges, idle or not.
    shared: Vec<Rc<dyn SharedConnection>>,
    /// One that is being opened.
    opening: Option<Rc<Opening>>,
    need: Rc<Need>,
    purge_at: Option<Instant>,
}

/// Which idle connections a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Any.
    Any,
    /// Only those that have served more than one request already.
    Proven,
}

impl ServerPool {
    /// That of this worker, empty.
    #[must_use]
    pub fn new(worker: usize, process: Arc<Process>) -> Self {
        Self { by_server: HashMap::default(), worker, process }
    }

    /// A connection that was just opened.
    #[must_use]
    pub fn open(&mut self, codec: Codec, server: Arc<LiveServer>) -> Box<ServerConnection> {
        let epoch = server.target_epoch.load(Relaxed);
        let counted = Some(self.count(&server));
        Box::new(ServerConnection {
            codec,
            server,
            epoch,
            requests: 0,
            is_request_sent: true,
            private: false,
            greeting: 0,
            ends: (None, None),
            next: PinnedConnections::default(),
            counted,
        })
    }

    fn count(&mut self, server: &Arc<LiveServer>) -> Counted {
        server.connections.increment();
        self.process.server_connections.fetch_add(1, Relaxed);
        let need = Rc::clone(&self.by_server.entry(server.key).or_default().need);
        need.take();
        Counted {
            server: Arc::clone(server),
            need,
            is_idle: Cell::new(false),
            worker: self.worker,
            process: Arc::clone(&self.process),
        }
    }

    /// Takes an idle connection to `server`, the one used last first, dropping those that have gone stale; to `place`, if it
    /// is one of several places, and one that began with `greeting`.
    pub fn take(
        &mut self,
        server: &LiveServer,
        reuse: Reuse,
        (place, greeting): (Option<&Target>, u64),
    ) -> Option<Box<ServerConnection>> {
        let idle = self.by_server.get_mut(&server.key)?;
        loop {
            let at = match reuse {
                _ if place.is_some() || greeting != 0 => idle.connections.iter().rposition(|connection| {
                    place.is_none_or(|place| connection.leads_to(place))
                        && connection.greeting == greeting
                        && (reuse == Reuse::Any || connection.requests > 1)
                })?,
                Reuse::Any => idle.connections.len().checked_sub(1)?,
                Reuse::Proven => idle.connections.iter().rposition(|connection| connection.requests > 1)?,
            };
            let connection = idle.connections.remove(at)?;
            if connection.is_stale() {
                continue;
            }
            if let Some(counted) = &connection.counted {
                counted.is_taken();
            }
            return Some(connection);
        }
    }

    /// Keeps a connection on which nothing is left, unless the server's `pool-max-conn` is reached or more than `pool-low-conn` are kept that were
    /// not needed lately.
    pub fn give(&mut self, connection: Box<ServerConnection>) {
        if !connection.is_clean() {
            return;
        }
        let Some(counted) = &connection.counted else { return };
        let settings = &connection.server.config;
        let Some(limit) = idle_limit(settings) else { return };
        let idle = self.by_server.entry(connection.server.key).or_default();
        let used = idle.need.used.get();
        let wanted = used.max(idle.need.estimate.get()) + settings.pool_low_conn as usize;
        // NOTE: nobody watches them: one that its server has closed must not count against one that works. The oldest is
        // first, and was closed first.
        while used + idle.connections.len() > wanted && idle.connections.front().is_some_and(|oldest| oldest.is_stale())
        {
            idle.connections.pop_front();
        }
        let kept = idle.connections.len();
        if settings.pool_purge_delay.is_zero()
            || (kept > 0 && used + kept > wanted)
            || connection.epoch != connection.server.target_epoch.load(Relaxed)
            || !connection.server.idle.increment_below(limit)
        {
            return;
        }
        counted.becomes_idle();
        idle.connections.push_back(connection);
    }

    /// Drops connections that went stale, and for each server once every `pool-purge-delay` half of those that were
    /// never needed meanwhile, but for `pool-low-conn`.
    pub fn sweep(&mut self, now: Instant) {
        self.by_server.retain(|_, idle| {
            idle.connections.retain(|connection| !connection.is_stale());
            idle.drop_stale_shared();
            let Some(server) = idle.server() else {
                // What is in use goes on being counted.
                return Rc::strong_count(&idle.need) > 1;
            };
            let settings = &server.config;
            if settings.pool_purge_delay == Duration::MAX {
                return true;
            }
            let purge_at = *idle.purge_at.get_or_insert_with(|| now + settings.pool_purge_delay);
            if now >= purge_at {
                let count = idle.count();
                let surplus = count.saturating_sub(settings.pool_low_conn as usize);
                let unneeded = idle.need.next_period(count).div_ceil(2).min(surplus);
                idle.purge_at = Some(now + settings.pool_purge_delay);
                (0..unneeded).for_each(|_| _ = idle.close_one());
            }
            true
        });
    }

    /// Closes the oldest idle connection to the server with this key; whether there was one.
    pub fn close_idle_to(&mut self, key: u64) -> bool {
        self.by_server.get_mut(&key).is_some_and(Idle::close_one)
    }

    /// Closes all idle connections; their number. What is in use goes on being counted.
    pub fn close_idle(&mut self) -> usize {
        let closed = self.len();
        self.by_server.values_mut().for_each(|idle| while idle.close_one() {});
        closed
    }

    /// Drops every connection; those that carry exchanges end with these.
    pub fn clear(&mut self) {
        self.by_server.values().flat_map(|idle| &idle.shared).for_each(|shared| shared.carrier().leave());
        self.by_server.clear();
    }

    /// Number of idle connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_server.values().map(Idle::count).sum()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How many idle connections a server may have; 0 for any number, none where it may have none.
fn idle_limit(settings: &haproxycfg::model::Server) -> Option<u64> {
    match u64::try_from(settings.pool_max_conn) {
        Ok(0) => None,
        Ok(limit) => Some(limit),
        Err(_) => Some(0),
    }
}

/// Server keys are small counted numbers: a multiplication spreads them well enough.
#[derive(Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}
