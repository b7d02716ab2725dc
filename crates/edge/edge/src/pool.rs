//! Idle server connections that a worker keeps for the next request.
//!
//! A pool belongs to one worker, so taking and giving back needs no lock. Nobody watches an idle connection: whether its
//! server has closed it shows in the readiness that the runtime has recorded for it, which is looked at when it is taken
//! and by the sweep in between. The limits count over all workers ([`LiveServer::idle`]).

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use crate::{live::LiveServer, session::Wire};

/// A connection to a server, with what decides whether it may be used again.
#[derive(Debug)]
pub struct ServerConnection {
    /// The socket and its buffers.
    pub wire: Wire,
    /// The server it leads to.
    pub server: Arc<LiveServer>,
    /// [`LiveServer::target_epoch`] when it was opened.
    pub epoch: u64,
    /// Requests sent on it.
    pub requests: u32,
    /// Whether it may only serve the client connection that opened it.
    pub private: bool,
    since: Option<Instant>,
}

impl ServerConnection {
    /// A connection that was just opened.
    #[must_use]
    pub fn new(wire: Wire, server: Arc<LiveServer>) -> Self {
        let epoch = server.target_epoch.load(Relaxed);
        server.connections.increment();
        Self { wire, server, epoch, requests: 0, private: false, since: None }
    }

    /// Whether the server has closed it or sent something that nobody asked for. Costs no system call unless something
    /// has happened on it.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        if self.epoch != self.server.target_epoch.load(Relaxed) {
            return true;
        }
        if self.wire.stream.poll_readable(&mut Context::from_waker(Waker::noop())).is_pending() {
            return false;
        }
        let mut byte = [0];
        !matches!(self.wire.stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.server.connections.decrement();
        if self.since.is_some() {
            self.server.idle.decrement();
        }
    }
}

/// The idle connections of one worker, by server.
#[derive(Debug, Default)]
pub struct ServerPool {
    by_server: HashMap<u64, Idle, BuildHasherDefault<KeyHasher>>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: VecDeque<ServerConnection>,
    /// The fewest that were idle since the last purge: so many were not needed.
    least: usize,
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
    /// Takes an idle connection to `server`, the one used last first, dropping those that have gone stale.
    pub fn take(&mut self, server: &LiveServer, reuse: Reuse) -> Option<ServerConnection> {
        let idle = self.by_server.get_mut(&server.key)?;
        loop {
            let at = match reuse {
                Reuse::Any => idle.connections.len().checked_sub(1)?,
                Reuse::Proven => idle.connections.iter().rposition(|connection| connection.requests > 1)?,
            };
            let mut connection = idle.connections.remove(at)?;
            idle.least = idle.least.min(idle.connections.len());
            if connection.is_stale() {
                continue;
            }
            if connection.since.take().is_some() {
                connection.server.idle.decrement();
            }
            return Some(connection);
        }
    }

    /// Keeps a connection, unless the server's `pool-max-conn` is reached.
    pub fn give(&mut self, mut connection: ServerConnection, now: Instant) {
        let settings = &connection.server.config;
        let limit = match u64::try_from(settings.pool_max_conn) {
            Ok(0) => return,
            Ok(limit) => limit,
            Err(_) => 0,
        };
        if connection.epoch != connection.server.target_epoch.load(Relaxed)
            || !connection.server.idle.increment_below(limit)
        {
            return;
        }
        connection.since = Some(now);
        self.by_server.entry(connection.server.key).or_default().connections.push_back(connection);
    }

    /// Drops connections that went stale, and for each server once every `pool-purge-delay` half of those that were
    /// never needed meanwhile, but for `pool-low-conn`.
    pub fn sweep(&mut self, now: Instant) {
        self.by_server.retain(|_, idle| {
            idle.connections.retain(|connection| !connection.is_stale());
            let Some(first) = idle.connections.front() else { return false };
            let settings = &first.server.config;
            if settings.pool_purge_delay == Duration::MAX {
                return true;
            }
            let purge_at = *idle.purge_at.get_or_insert_with(|| now + settings.pool_purge_delay);
            if now >= purge_at {
                let surplus = idle.connections.len().saturating_sub(settings.pool_low_conn as usize);
                let unneeded = idle.least.min(idle.connections.len()).div_ceil(2).min(surplus);
                let delay = settings.pool_purge_delay;
                idle.connections.drain(..unneeded);
                idle.least = idle.connections.len();
                idle.purge_at = Some(now + delay);
            }
            !idle.connections.is_empty()
        });
    }

    /// Drops every connection.
    pub fn clear(&mut self) {
        self.by_server.clear();
    }

    /// Number of connections kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_server.values().map(|idle| idle.connections.len()).sum()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
