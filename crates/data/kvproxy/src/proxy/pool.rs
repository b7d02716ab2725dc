//! A pool: servers that are one to clients, and which of them are alive.

use super::{breaker::Breaker, link::LinkKind, plain::Credentials, reads::Watch, slots::Slots};
use crate::{nutcracker::PoolConfig, ring::Ring};

/// A pool at work.
#[derive(Debug)]
pub struct Pool {
    /// What it is set to.
    pub config: PoolConfig,
    /// Which server has which keys.
    pub ring: Ring,
    /// The same where servers are spread by slots.
    pub slots: Option<Slots>,
    /// The servers.
    pub servers: Vec<Server>,
    /// One of the servers does not speak the newer protocol, so clients are refused it.
    pub lacks_resp3: bool,
    /// What is counted of it.
    pub counts: PoolCounts,
}

/// A server of a pool.
#[derive(Debug, Default)]
pub struct Server {
    /// Connections that clients share, by the kind of requests: those of a kind are made when somebody needs them. The first kind is
    /// there from the beginning.
    pub shared: Vec<(LinkKind, Vec<usize>)>,
    /// Connections that a client had for itself and that are free.
    pub spare: Vec<usize>,
    /// How often it failed since it last answered.
    pub failures: u32,
    /// Until when its keys go to others, in milliseconds; 0 while they do not.
    pub ejected_until: u64,
    /// It knows no slots: a Redis without a cluster of its own.
    pub is_plain: bool,
    /// What it lets clients in by, if not what its pool says.
    pub credentials: Option<Credentials>,
    /// Whether it is a store, once it was asked: requests to that may have keys of several slots, and it is walked by slots.
    pub is_store: Option<bool>,
    /// Whether it may be read from as a replica.
    pub watch: Watch,
    /// Whether requests for it fail at once.
    pub breaker: Breaker,
    /// What is counted of it.
    pub counts: ServerCounts,
}

/// What twemproxy counts of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolCounts {
    /// Clients that left.
    pub client_eof: u64,
    /// Connections of clients that failed.
    pub client_err: u64,
    /// Clients that are here.
    pub client_connections: u64,
    /// How often a server was ejected.
    pub server_ejects: u64,
    /// Requests that no server could be given.
    pub forward_error: u64,
    /// Parts that requests of several keys were split into.
    pub fragments: u64,
}

/// What twemproxy counts of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerCounts {
    /// Connections that it ended.
    pub server_eof: u64,
    /// Connections that failed.
    pub server_err: u64,
    /// Connections on which it took too long.
    pub server_timedout: u64,
    /// Connections that are open.
    pub server_connections: u64,
    /// When it was last ejected, in microseconds since 1970.
    pub server_ejected_at: u64,
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Replies.
    pub responses: u64,
    /// Their bytes.
    pub response_bytes: u64,
}

impl Server {
    /// One with these connections for what most clients need.
    #[must_use]
    pub fn with_links(links: Vec<usize>) -> Self {
        Self { shared: vec![(LinkKind::default(), links)], ..Self::default() }
    }

    /// The connections that requests of a kind share.
    #[inline]
    #[must_use]
    pub fn links(&self, kind: LinkKind) -> &[usize] {
        self.shared.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, links)| links)
    }

    /// The connections that clients share, of all kinds.
    pub fn all_links(&self) -> impl Iterator<Item = usize> {
        self.shared.iter().flat_map(|(_, links)| links).copied()
    }
}

impl Pool {
    /// One that has nothing to do yet.
    pub fn new(config: PoolConfig) -> Self {
        let ring = Ring::new(config.distribution, config.hash, config.hash_tag, config.members());
        let servers = config.servers.iter().map(|_| Server::default()).collect();
        let slots = config.slots.map(Slots::new);
        Self { config, ring, slots, servers, lacks_resp3: false, counts: PoolCounts::default() }
    }

    /// Whether clients may choose a database: all keys are on one server, and no database is chosen for all.
    #[must_use]
    pub fn has_databases(&self) -> bool {
        let is_one = self.slots.as_ref().map_or(self.servers.len() == 1, |slots| slots.of_one_server);
        is_one && self.config.redis_db == 0
    }

    /// The first server that is alive.
    pub fn first(&self) -> Option<usize> {
        if let Some(slots) = &self.slots {
            return slots.servers().first().copied();
        }
        self.servers.iter().position(|server| server.ejected_until == 0)
    }

    /// Counts a failure of a server; its keys go to others for a while if it is one too many.
    pub fn failed(&mut self, index: usize, now: u64, microseconds: u64) {
        let Some(server) = self.servers.get_mut(index) else { return };
        server.failures = server.failures.saturating_add(1);
        if !self.config.auto_eject_hosts
            || server.failures < self.config.server_failure_limit
            || server.ejected_until > 0
        {
            return;
        }
        let time = u64::try_from(self.config.server_retry_timeout.as_millis()).unwrap_or(u64::MAX);
        server.ejected_until = now.saturating_add(time.max(1));
        server.counts.server_ejected_at = microseconds;
        server.failures = 0;
        self.counts.server_ejects += 1;
        self.spread();
    }

    /// Gives servers their keys back whose time is over.
    pub fn retry(&mut self, now: u64) {
        let mut is_changed = false;
        for server in &mut self.servers {
            if server.ejected_until > 0 && server.ejected_until <= now {
                server.ejected_until = 0;
                is_changed = true;
            }
        }
        if is_changed {
            self.spread();
        }
    }

    fn spread(&mut self) {
        let servers = &self.servers;
        self.ring.rebuild(|index| servers.get(index).is_some_and(|server| server.ejected_until == 0));
    }
}
