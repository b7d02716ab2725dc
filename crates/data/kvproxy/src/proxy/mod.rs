//! The proxy without a socket: fed what clients and servers sent, it says what is to be sent to whom.
//!
//! ```text
//! client -> received -> request: by its key, in parts, to all, here -> link.output
//! server -> link_received -> complete: in the client's order          -> client.output
//! ```
//!
//! Requests of many clients go over few connections to a server, one behind the other; replies come in that order. A client's
//! requests to one server go over the same connection, so they run in its order. What must not be shared (transactions, commands
//! that wait, subscriptions) has a connection of its own.

mod breaker;
mod client;
mod health;
mod information;
mod keys;
mod link;
mod local;
mod merge;
mod messages;
mod order;
mod own;
mod plain;
mod pool;
mod reads;
mod redirect;
mod replies;
mod requests;
mod scan;
mod slots;
mod transactions;

#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;

use commands::server::Table;
use resp::{Limits, Protocol, Reply};
use slab::Slab;

pub use client::Client;
pub use health::PoolHealth;
pub use link::{Link, LinkKind, LinkState};
pub use plain::{Credentials, Lease, Orders, Plain};
pub use pool::{Pool, PoolCounts, Server, ServerCounts};

use crate::{nutcracker::PoolConfig, route::Routes};
use link::{UnansweredRequest, Waiting};
use order::Parked;
use own::Purpose;

/// Free connections of a server that are kept for clients who need one for themselves.
const SPARE_MAX: usize = 32;

/// All pools at work, in one thread.
#[derive(Debug)]
pub struct Proxy {
    /// The pools.
    pub pools: Vec<Pool>,
    /// The clients.
    pub clients: Slab<Client>,
    /// The connections to servers.
    pub links: Slab<Link>,
    /// What there is to be done with sockets.
    pub work: Work,
    table: Table,
    routes: Routes,
    limits: Limits,
    /// Bytes that a client may leave unread before it is closed.
    client_output_max: usize,
    /// Bytes of requests that are kept on a connection before clients that send it more are held up.
    kept_max: usize,
    next_id: u64,
    /// Requests that are tried again.
    parked: Vec<Parked>,
    /// What is known of servers that know no slots.
    pub plain: Plain,
    /// The server that is the program itself, if the proxy is within one.
    myself: Option<usize>,
    /// Milliseconds of a clock that never goes back.
    now: u64,
    /// The same in microseconds.
    now_micros: u64,
    /// Microseconds since 1970, for people.
    wall: u64,
    started: u64,
}

/// What there is to be done with sockets. Whoever has them takes it, `close` before `open`.
#[derive(Debug, Default)]
pub struct Work {
    /// Clients that have something to be sent, or are to be closed.
    pub clients: Vec<usize>,
    /// Connections to servers that have something to be sent.
    pub links: Vec<usize>,
    /// Connections that are to be opened.
    pub open: Vec<usize>,
    /// Connections that are to be closed, and forgotten by [`Proxy::forget`].
    pub close: Vec<usize>,
    /// Clients whose requests go on: [`Proxy::received`] with nothing new.
    pub resume: Vec<usize>,
    /// What the log should say.
    pub messages: Vec<String>,
    /// Which server has which slots is to be asked again.
    pub refresh: bool,
}

/// Why a connection to a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFailure {
    /// The server ended it.
    Eof,
    /// It took too long.
    TimedOut,
    /// The system's reason, or what was wrong with what the server sent.
    Other(String),
}

impl LinkFailure {
    fn text(&self) -> &str {
        match self {
            Self::Eof => "Connection reset by peer",
            Self::TimedOut => "Connection timed out",
            Self::Other(text) => text,
        }
    }
}

impl Proxy {
    /// One without clients.
    #[must_use]
    pub fn new(pools: Vec<PoolConfig>, client_output_max: usize, now: u64, wall: u64) -> Self {
        let table = commands::groups::table();
        let kept_max = pools.iter().map(|pool| pool.limits.kept_bytes_max).min().unwrap_or(usize::MAX);
        let mut proxy = Self {
            pools: pools.into_iter().map(Pool::new).collect(),
            clients: Slab::new(),
            links: Slab::new(),
            work: Work::default(),
            routes: Routes::new(&table),
            table,
            limits: Limits::default(),
            client_output_max,
            kept_max,
            next_id: 1,
            parked: Vec::new(),
            plain: Plain::default(),
            myself: None,
            now,
            now_micros: now.saturating_mul(1000),
            wall,
            started: now,
        };
        for (number, pool) in proxy.pools.iter_mut().enumerate() {
            for (place, server) in pool.servers.iter_mut().enumerate() {
                let keeps = pool.slots.is_some();
                let links = (0..pool.config.server_connections)
                    .map(|_| proxy.links.insert(Link::new(number, place, None).keeping(keeps)))
                    .collect();
                *server = Server::with_links(links);
            }
        }
        proxy
    }

    /// What is published goes to all servers: each has listeners of its own, and no server passes it on.
    pub fn publish_everywhere(&mut self) {
        self.routes.publish_everywhere(&self.table);
    }

    /// Opens the connections of pools that want them before there are clients (`preconnect`).
    pub fn preconnect(&mut self) {
        let wanted: Vec<usize> = self
            .links
            .iter()
            .filter(|(_, link)| self.pools.get(link.pool).is_some_and(|pool| pool.config.preconnect))
            .map(|(index, _)| index)
            .collect();
        for index in wanted {
            self.begin_opening(index);
        }
    }

    /// Tells the time: microseconds of a clock that never goes back, and microseconds since 1970.
    pub fn set_time(&mut self, now: u64, wall: u64) {
        (self.now, self.now_micros, self.wall) = (now / 1000, now, wall);
    }

    /// A client has come to a pool. `None` if it has as many as it may.
    pub fn add_client(&mut self, pool: usize) -> Option<usize> {
        let known = self.pools.get_mut(pool)?;
        let most = known.config.client_connections;
        if most > 0 && known.counts.client_connections >= most as u64 {
            return None;
        }
        known.counts.client_connections += 1;
        let is_authenticated = known.config.redis_auth.is_none();
        let id = self.next_id;
        self.next_id += 1;
        Some(self.clients.insert(Client::new(id, pool, is_authenticated)))
    }

    /// A client is gone.
    pub fn remove_client(&mut self, index: usize, has_failed: bool) {
        let Some(client) = self.clients.try_remove(index) else { return };
        if let Some(pool) = self.pools.get_mut(client.pool) {
            pool.counts.client_connections -= 1;
            let count = if has_failed { &mut pool.counts.client_err } else { &mut pool.counts.client_eof };
            *count += 1;
        }
        if let Some(link) = client.own.and_then(|own| own.link) {
            self.close_link(link);
        }
    }

    /// Clients that wait for nothing but a message or an element that may never come.
    #[must_use]
    pub fn idle_clients(&self) -> Vec<usize> {
        let is_idle = |client: &Client| {
            client.may_wait()
                || (client.is_settled()
                    && client.own.is_none()
                    && client.input.is_empty()
                    && client.sent >= client.output.len())
        };
        self.clients.iter().filter(|(_, client)| is_idle(client)).map(|(index, _)| index).collect()
    }

    /// Forgets a connection to a server whose socket is closed: one of a client's own is gone, another one may be opened again.
    pub fn forget(&mut self, index: usize) {
        if self.links.get(index).is_some_and(|link| link.owner.is_some()) {
            self.links.remove(index);
        }
    }

    /// Looks what has taken too long, and which servers get their keys back. To be called at intervals.
    pub fn tick(&mut self) {
        for pool in &mut self.pools {
            pool.retry(self.now);
        }
        let late: Vec<usize> =
            self.links.iter().filter(|(_, link)| self.is_late(link)).map(|(index, _)| index).collect();
        for index in late {
            self.link_failed(index, &LinkFailure::TimedOut);
        }
        self.probe_broken();
        self.watch_replicas();
        if self.has_parked() {
            self.retry_parked();
        }
        if self.plain.has_waiting() {
            self.look_at_waiting();
        }
        if self.plain.is_distrusted() {
            self.give_up_distrusted();
        }
    }

    fn is_late(&self, link: &Link) -> bool {
        let Some(timeout) = self.pools.get(link.pool).and_then(|pool| pool.config.timeout) else { return false };
        let waits_for_itself = |(client, id): (usize, u64)| {
            let own = self.clients.get(client).filter(|client| client.id == id).and_then(|client| client.own.as_ref());
            own.is_some_and(|own| {
                matches!(own.purpose, Purpose::OneReply { may_wait: true } | Purpose::Listening { .. })
            })
        };
        // NOTE: what is blocking may take as long as it likes, once its connection stands.
        if link.state == LinkState::Open && link.owner.is_some_and(waits_for_itself) {
            return false;
        }
        link.waits_since().is_some_and(|since| u128::from(self.now.saturating_sub(since)) >= timeout.as_millis())
    }

    /// Makes ready for being opened, with what has to be said first.
    fn begin_opening(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index).filter(|link| link.state == LinkState::Closed) else { return };
        let Some(pool) = self.pools.get(link.pool) else { return };
        link.state = LinkState::Opening;
        link.opened_at = self.now;
        let server = pool.servers.get(link.server);
        let is_plain = server.is_some_and(|server| server.is_plain);
        if is_plain {
            // The stores' password is none of its business, and it would refuse that.
            if let Some(credentials) = server.and_then(|server| server.credentials.as_ref()) {
                resp::encode_command(&mut link.output, &credentials.words());
                link.waiting.push_back(Waiting::Swallow);
            }
        } else if let Some(password) = &pool.config.redis_auth {
            match &pool.config.user {
                Some(user) => resp::encode_command(&mut link.output, &["AUTH", user, password]),
                None => resp::encode_command(&mut link.output, &["AUTH", password]),
            }
            link.waiting.push_back(Waiting::Swallow);
        }
        if link.kind.protocol == Protocol::Resp3 {
            resp::encode_command(&mut link.output, &["HELLO", "3"]);
            link.waiting.push_back(Waiting::Hello);
        }
        let db = if link.kind.db > 0 { link.kind.db } else { pool.config.redis_db };
        if db > 0 {
            resp::encode_command(&mut link.output, &[b"SELECT", db.to_string().as_bytes()]);
            link.waiting.push_back(Waiting::Swallow);
        }
        if !is_plain && pool.slots.as_ref().is_some_and(|slots| !slots.of_one_server) {
            resp::encode_command(&mut link.output, &["CLUSTER", "CONNECTION", "PROXY"]);
            link.waiting.push_back(Waiting::Probe);
            if link.kind.reads_replica {
                resp::encode_command(&mut link.output, &["READONLY"]);
                link.waiting.push_back(Waiting::Ignore);
            }
        }
        self.work.open.push(index);
    }

    /// Has a connection send a request.
    #[inline]
    fn send(&mut self, index: usize, request: &[u8], waiting: Option<Waiting>) {
        if self.links.get(index).is_some_and(|link| link.state == LinkState::Closed) {
            self.begin_opening(index);
        }
        let Some(link) = self.links.get_mut(index) else { return };
        link.output.extend_from_slice(request);
        if link.keeps && matches!(waiting, Some(Waiting::Answer { .. })) {
            let end = link.sent_ever + link.unsent() as u64;
            link.kept_bytes += request.len();
            link.kept.push_back(UnansweredRequest {
                bytes: request.to_vec(),
                end,
                since: self.now,
                ..UnansweredRequest::default()
            });
        }
        link.waiting.extend(waiting);
        if link.state == LinkState::Open && !link.is_dirty {
            link.is_dirty = true;
            self.work.links.push(index);
        }
    }

    /// Has a client's socket looked after.
    #[inline]
    fn touch(&mut self, index: usize) {
        if let Some(client) = self.clients.get_mut(index)
            && !client.is_dirty
        {
            client.is_dirty = true;
            self.work.clients.push(index);
        }
    }

    /// Gives a client an answer that is made here.
    fn answer(&mut self, index: usize, write: impl FnOnce(&mut Reply<'_>)) {
        if let Some(client) = self.clients.get_mut(index) {
            let protocol = client.protocol;
            client.answer(|out| write(&mut Reply::new(out, protocol)));
        }
        self.touch(index);
    }

    /// Says that it is done.
    fn ok(&mut self, index: usize) {
        self.answer(index, |reply| reply.ok());
    }

    /// Refuses a request. A transaction that it belongs to cannot be executed any more.
    fn refuse(&mut self, index: usize, reason: &str) {
        if let Some(own) = self.clients.get_mut(index).and_then(|client| client.own.as_mut())
            && let Purpose::Transaction { is_refused, .. } = &mut own.purpose
        {
            *is_refused = true;
        }
        self.answer(index, |reply| reply.error(reason));
    }

    /// A connection that was open, if it was, is no more.
    fn count_closed(&mut self, index: usize) {
        let Some(link) = self.links.get(index).filter(|link| link.state == LinkState::Open) else { return };
        if let Some(server) = self.pools.get_mut(link.pool).and_then(|pool| pool.servers.get_mut(link.server)) {
            server.counts.server_connections = server.counts.server_connections.saturating_sub(1);
        }
    }

    /// A connection of a client's own is not needed any more.
    fn close_link(&mut self, index: usize) {
        self.count_closed(index);
        if let Some(link) = self.links.get_mut(index) {
            link.reset();
            link.owner.get_or_insert((usize::MAX, 0));
            self.work.close.push(index);
        }
    }

    /// The number that statistics have of the time since the start, in seconds.
    #[must_use]
    pub fn uptime(&self) -> u64 {
        (self.now - self.started) / 1000
    }
}
