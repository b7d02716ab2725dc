//! The attempts to reach a server, and what is done after one that failed.

use std::{
    future::poll_fn,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use balance::{FailedAttempt, Pick, Retry, RetrySituation};
use haproxycfg::model::{HttpReuse, ServerProtocol};
use live::{LiveProxy, LiveServer};
use net::{Deadline, Stream};

use super::{
    Codec, Requester, Slot, Unreachable, Upstream, Wanted, multiplexed, observe,
    open::{destination, greeting, open, proxy_header},
    program::{
        fastcgi,
        gateway::{Gateway, GatewayConnection},
    },
    queue::{ask, queue, take},
    reuse::{allowed_reuse, borrow_connection, carries_several, goes_by_http1, idle_connection},
};
use crate::{
    pool::{OpeningGuard, Reuse, ServerConnection},
    session::{descriptors, handshake::server_name, pinned::PinnedConnections, transaction::Transaction, wire::Wire},
    worker::Worker,
};

/// How often a request waits for a connection that others open before it opens one.
const JOINS_MAX: usize = 3;

/// What came of looking for others that open a connection.
enum Joined {
    /// One stands.
    Connection(Box<ServerConnection>),
    /// None does: whoever looked opens one, for which others may wait.
    Opens(Option<OpeningGuard>),
}

/// The attempts to have a request, or a TCP session, reach a server.
pub struct Attempts<'a, 'c> {
    pub(super) worker: &'a Rc<Worker>,
    pub(super) proxy: &'a Arc<LiveProxy>,
    wanted: Wanted,
    is_http: bool,
    /// The connections that only this client may use.
    pub(super) kept: &'c mut PinnedConnections,
    /// Attempts that failed.
    pub(super) failed: u32,
    /// The slot to use again.
    slot: Option<Slot<'a>>,
    /// Only a new connection will do.
    pub(super) fresh: bool,
    /// The request is sent again if a connection that stood already turns out to be closed, so it may be the first on any.
    pub(super) outlives_stale: bool,
}

impl<'a, 'c> Attempts<'a, 'c> {
    /// None was made yet.
    #[must_use]
    #[inline]
    pub fn new(
        worker: &'a Rc<Worker>,
        proxy: &'a Arc<LiveProxy>,
        wanted: Wanted,
        kept: &'c mut PinnedConnections,
        is_http: bool,
    ) -> Self {
        Self { worker, proxy, wanted, is_http, kept, failed: 0, slot: None, fresh: false, outlives_stale: false }
    }

    /// How many failed.
    #[must_use]
    #[inline]
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Gets a connection to a server of the transaction's backend.
    ///
    /// # Errors
    /// Why there is none, after all retries.
    pub async fn reach(
        &mut self,
        transaction: &mut Transaction,
        requester: &mut impl Requester,
    ) -> Result<Upstream<'a>, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        if let Some(server) = &proxy.direct
            && self.wanted.forced.is_none()
            && self.slot.is_none()
        {
            return Box::pin(self.reach_direct(transaction, server, requester)).await;
        }
        // NOTE: what has to wait is boxed: mostly a server has room and a connection stands, and then nothing waits here.
        loop {
            let kept_slot = self.slot.take();
            let chosen_again = kept_slot.is_none() && self.failed > 0;
            let slot = match kept_slot {
                Some(slot) => slot,
                None => self.choose(transaction, requester).await?,
            };
            let Some(server) = proxy.servers.get(slot.server.index()) else { return Err(Unreachable::NoServer) };
            if chosen_again {
                self.count_choice(transaction, &server);
            }
            transaction.route.server = Some(Arc::clone(&server));
            server.side.traffic.of(worker.index).sessions.increment();
            requester.goes_to(proxy, &server);
            if self.is_http && server.config.redir.is_some() && matches!(transaction.request.method(), b"GET" | b"HEAD")
            {
                return Err(Unreachable::Elsewhere);
            }
            let can_repeat =
                self.outlives_stale || !requester.is_client() && transaction.request.method_kind().is_idempotent();
            let reuse = allowed_reuse(transaction, proxy, &server, can_repeat);
            let mut idle = match self.is_http {
                true => idle_connection(worker, transaction, proxy, &server, (self, reuse)),
                false => None,
            };
            if idle.is_none() && self.is_http && server.idle.value() > 0 {
                idle = Box::pin(borrow_connection(worker, transaction, proxy, &server, (self, reuse))).await;
            }
            if let Some(connection) = idle {
                return Ok(self.reused(transaction, &server, connection, slot));
            }
            let opening = match self.is_http && carries_several(proxy, &server) {
                true => match Box::pin(self.join(transaction, &server, reuse, requester)).await? {
                    Joined::Connection(connection) => {
                        return Ok(self.reused(transaction, &server, connection, slot));
                    }
                    Joined::Opens(guard) => guard,
                },
                false => None,
            };
            if server.speaks_fastcgi() {
                worker.servers.borrow_mut().close_idle_to(server.key);
            }
            descriptors::make_room(worker, &server);
            server.side.traffic.of(worker.index).connects.increment();
            proxy.backend.traffic.of(worker.index).connects.increment();
            let opened = Box::pin(open(worker, transaction, proxy, &server, self.failed == 0, requester)).await;
            let unreachable = match opened {
                Ok(stream) => {
                    let connection = self.connected(transaction, stream, server);
                    drop(opening);
                    return Ok(Upstream { connection, slot: Some(slot), reused: false });
                }
                Err(unreachable) => unreachable,
            };
            drop(opening);
            let Some(failure) = unreachable.ending(true).failure() else { return Err(unreachable) };
            let attempt = FailedAttempt::to_connect(failure, self.failed);
            let retry = self.decide(attempt, Some(&slot));
            server_failed(worker, proxy, &server, retry);
            if retry == Retry::GiveUp {
                return Err(unreachable);
            }
            Box::pin(self.prepare_next(transaction, retry, Some(slot), requester)).await?;
        }
    }

    /// Takes note that a request goes over a connection that stood already.
    #[inline]
    fn reused(
        &self,
        transaction: &mut Transaction,
        server: &LiveServer,
        connection: Box<ServerConnection>,
        slot: Slot<'a>,
    ) -> Upstream<'a> {
        server.side.traffic.of(self.worker.index).reuses.increment();
        self.proxy.backend.traffic.of(self.worker.index).reuses.increment();
        transaction.timeline.connected = transaction.timeline.dequeued;
        transaction.note_connection(&connection);
        Upstream { connection, slot: Some(slot), reused: true }
    }

    /// Waits for a connection that another request has opened, if this one may use it. Otherwise this one opens one, and others may
    /// wait for that: so requests that come together do not open one each.
    async fn join(
        &mut self,
        transaction: &Transaction,
        server: &Arc<LiveServer>,
        reuse: Option<Reuse>,
        requester: &mut impl Requester,
    ) -> Result<Joined, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        let is_private = server.config.send_proxy.is_some()
            || server.leads_elsewhere()
            || server.config.source.as_ref().or(proxy.settings().source.as_ref()).is_some();
        let is_alone = is_private || goes_by_http1(transaction, server);
        if reuse != Some(Reuse::Any) || self.failed > 0 || self.fresh || is_alone {
            return Ok(Joined::Opens(None));
        }
        let greeting = server_name(transaction, server).map_or(0, |name| greeting(name.as_bytes()));
        for _ in 0..JOINS_MAX {
            let Some(opening) = worker.servers.borrow_mut().join_opening(server, greeting) else { break };
            poll_fn(|context| {
                if opening.poll_over(context).is_ready() {
                    return Poll::Ready(Ok(()));
                }
                requester.poll_leaving(context).map(Err)
            })
            .await?;
            if let Some(connection) = idle_connection(worker, transaction, proxy, server, (self, reuse)) {
                return Ok(Joined::Connection(connection));
            }
        }
        Ok(Joined::Opens(worker.servers.borrow_mut().begin_opening(server, greeting)))
    }

    /// Opens a connection where `dispatch` or `option transparent` lead; nothing is chosen, so there is no server to name.
    async fn reach_direct(
        &mut self,
        transaction: &mut Transaction,
        server: &Arc<LiveServer>,
        requester: &mut impl Requester,
    ) -> Result<Upstream<'a>, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        let traffic = proxy.backend.traffic.of(worker.index);
        transaction.route.server = None;
        transaction.timeline.dequeued = Some(worker.now());
        // Such connections serve the client alone that opened them, and only as long as it wants to go to the same place.
        if self.failed == 0
            && !self.fresh
            && let Some(kept) = self.kept.take_to(server.key, |kept| kept.leads_to(&destination(transaction, server)))
        {
            traffic.reuses.increment();
            transaction.timeline.connected = transaction.timeline.dequeued;
            transaction.note_connection(&kept);
            return Ok(Upstream { connection: kept, slot: None, reused: true });
        }
        loop {
            let unreachable = match open(worker, transaction, proxy, server, self.failed == 0, requester).await {
                Ok(stream) => {
                    transaction.timeline.connected = Some(worker.now());
                    traffic.connects.increment();
                    let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
                    let codec = Codec::of(wire, self.is_http);
                    let mut connection = worker.servers.borrow_mut().open(codec, Arc::clone(server));
                    connection.ends = (transaction.route.source, transaction.route.destination);
                    transaction.route.protocol = connection.codec.protocol();
                    connection.private = true;
                    return Ok(Upstream { connection, slot: None, reused: false });
                }
                Err(unreachable) => unreachable,
            };
            let Some(failure) = unreachable.ending(true).failure() else { return Err(unreachable) };
            let retry = self.decide(FailedAttempt::to_connect(failure, self.failed), None);
            if retry == Retry::GiveUp {
                traffic.connection_errors.increment();
                return Err(unreachable);
            }
            traffic.retries.increment();
            self.prepare_next(transaction, retry, None, requester).await?;
        }
    }

    /// Chooses a server that has room, waiting for one if need be.
    async fn choose(
        &mut self,
        transaction: &mut Transaction,
        requester: &mut impl Requester,
    ) -> Result<Slot<'a>, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        let chosen = match ask(worker, transaction, proxy, &self.wanted).await {
            Pick::Assigned(server) => return Ok(take(worker, transaction, proxy, server)),
            Pick::NoServer => Err(Unreachable::NoServer),
            Pick::QueueFull(_) => Err(Unreachable::QueueFull),
            Pick::Queued(ticket) => {
                Box::pin(queue(worker, transaction, proxy, &mut self.wanted, requester, ticket)).await
            }
        };
        if matches!(chosen, Err(Unreachable::NoServer | Unreachable::QueueFull | Unreachable::QueueTimeout)) {
            proxy.backend.traffic.of(worker.index).connection_errors.increment();
        }
        chosen
    }

    /// Counts where a request goes whose attempt before has failed.
    fn count_choice(&self, transaction: &mut Transaction, server: &LiveServer) {
        let Some(before) = transaction.route.server.as_ref() else { return };
        let worker = self.worker.index;
        let (server_traffic, traffic) = (before.side.traffic.of(worker), self.proxy.backend.traffic.of(worker));
        if before.key == server.key {
            server_traffic.retries.increment();
            traffic.retries.increment();
        } else {
            transaction.route.redispatched = true;
            server_traffic.redispatches.increment();
            traffic.redispatches.increment();
        }
    }

    /// Makes a server's connection of one that has just come to stand.
    fn connected(
        &self,
        transaction: &mut Transaction,
        stream: Stream,
        server: Arc<LiveServer>,
    ) -> Box<ServerConnection> {
        let (worker, proxy) = (self.worker, self.proxy);
        transaction.timeline.connected = Some(worker.now());
        if !self.is_http {
            server.last_session_ms.store(worker.now_ms(), Relaxed);
            proxy.last_session_ms.store(worker.now_ms(), Relaxed);
        }
        let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
        let private = proxy.settings().http_reuse == HttpReuse::Never || server.config.send_proxy.is_some();
        let greeting = if let Some(version) = server.config.send_proxy.filter(|_| self.is_http) {
            greeting(&proxy_header(transaction, version, server.config.proxy_options))
        } else {
            server_name(transaction, &server).map_or(0, |name| greeting(name.as_bytes()))
        };
        let ends = (transaction.route.source, transaction.route.destination);
        transaction.route.tls = wire.stream.secure().and_then(net::SecureStream::handshaken);
        let by_http1 = goes_by_http1(transaction, &server);
        let app = proxy.settings().fcgi_app.as_deref().filter(|_| self.is_http && server.speaks_fastcgi());
        if let Some(app) = app {
            fastcgi::ask(worker, proxy, app, &server);
        }
        let several = app.and_then(|app| fastcgi::several(proxy, app, &server));
        let connection = if let Some(several) = several {
            let facts = worker.servers.borrow_mut().facts(server, (private, greeting), ends);
            fastcgi::begin(worker, wire, several, facts)
        } else if self.is_http && !by_http1 && speaks_http2(&server, &wire) {
            let limits = transaction.head_limits(proxy.settings(), &server);
            let facts = worker.servers.borrow_mut().facts(server, (private, greeting), ends);
            multiplexed::begin(worker, wire, limits, facts)
        } else {
            let gateway = Gateway::of(server.config.protocol).filter(|_| self.is_http);
            let codec = match (app, gateway) {
                (_, Some(gateway)) => Codec::Gateway(Box::new(GatewayConnection::new(wire, gateway))),
                (Some(app), _) => Codec::fastcgi(wire, app.keeps_connection, &server, (true, &worker.log)),
                (None, None) => Codec::of(wire, self.is_http),
            };
            let mut connection = worker.servers.borrow_mut().open(codec, server);
            (connection.private, connection.greeting, connection.ends) = (private, greeting, ends);
            connection
        };
        transaction.route.protocol = connection.codec.protocol();
        connection
    }

    /// Does what is to be done after a request that reached a server failed there; false when there is to be no other attempt.
    ///
    /// # Errors
    /// When the wait for another attempt ends early.
    pub async fn after_failure(
        &mut self,
        transaction: &mut Transaction,
        attempt: FailedAttempt,
        slot: Option<Slot<'a>>,
        requester: &mut impl Requester,
    ) -> Result<bool, Unreachable> {
        let retry = self.decide(attempt, slot.as_ref());
        if retry == Retry::GiveUp {
            return Ok(false);
        }
        self.prepare_next(transaction, retry, slot, requester).await?;
        Ok(true)
    }

    /// Asks the retry policy. Without a slot there was no choice of servers.
    fn decide(&self, attempt: FailedAttempt, slot: Option<&Slot<'_>>) -> Retry {
        let situation = match slot {
            None => RetrySituation::without_choice(attempt),
            Some(slot) => {
                let farm = self.proxy.farm();
                let stats = farm.server_stats(slot.server, self.worker.now_ms());
                RetrySituation {
                    attempt,
                    server_state: stats.map_or(balance::OperationalState::Stopped, |stats| stats.state),
                    active_servers: farm.active(),
                    is_forced: self.wanted.forced.is_some(),
                    even_if_down: self.wanted.forced.is_some_and(|forced| forced.even_if_down),
                }
            }
        };
        self.proxy.retry.decide(&situation)
    }

    /// Does what was decided for another attempt: keeps or frees the slot, counts and waits.
    async fn prepare_next(
        &mut self,
        transaction: &mut Transaction,
        retry: Retry,
        slot: Option<Slot<'a>>,
        requester: &mut impl Requester,
    ) -> Result<(), Unreachable> {
        let time = match retry {
            Retry::GiveUp => return Ok(()),
            Retry::FreshConnection => {
                self.fresh = true;
                self.slot = slot;
                return Ok(());
            }
            Retry::SameServer(time) => {
                if let Some(slot) = &slot {
                    self.proxy.with_farm(|farm| farm.count_retry(slot.server));
                    self.proxy.servers.with(slot.server.index(), |server| {
                        server.side.traffic.of(self.worker.index).retries.increment();
                    });
                    self.proxy.backend.traffic.of(self.worker.index).retries.increment();
                }
                self.slot = slot;
                time
            }
            Retry::Redispatch(time) => {
                self.wanted.avoid = slot.as_ref().map(|slot| slot.server);
                self.wanted.forced = None;
                drop(slot);
                time
            }
        };
        self.failed += 1;
        transaction.route.retries += 1;
        wait(self.worker, time, requester).await
    }
}

/// Whether HTTP/2 is spoken on a connection to a server: as its line says, or else as TLS has agreed on.
fn speaks_http2(server: &LiveServer, wire: &Wire) -> bool {
    match server.config.protocol {
        Some(protocol) => protocol == ServerProtocol::Http2,
        None => wire.stream.protocol() == Some("h2"),
    }
}

/// Lets the time before another attempt pass.
async fn wait(worker: &Worker, milliseconds: u64, requester: &mut impl Requester) -> Result<(), Unreachable> {
    if milliseconds == 0 {
        return Ok(());
    }
    let mut deadline = Deadline::default();
    deadline.set(Some(worker.now() + Duration::from_millis(milliseconds)));
    poll_fn(|context| match requester.poll_leaving(context) {
        Poll::Ready(ended) => Poll::Ready(Err(ended)),
        Poll::Pending => deadline.poll(context).map(Ok),
    })
    .await
}

/// Notes a connection that failed: an error for the one who asked only if there is no other attempt.
fn server_failed(worker: &Worker, proxy: &LiveProxy, server: &LiveServer, retry: Retry) {
    server.last_session_ms.store(worker.now_ms(), Relaxed);
    if retry == Retry::GiveUp {
        server.side.traffic.of(worker.index).connection_errors.increment();
        proxy.backend.traffic.of(worker.index).connection_errors.increment();
    }
    if server.config.observe.is_on() {
        observe(worker, proxy, server.index, balance::Observation::ConnectionError);
    }
}

impl Transaction {
    /// Notes on which connection that stood already it goes to its server.
    #[inline]
    fn note_connection(&mut self, connection: &ServerConnection) {
        (self.route.source, self.route.destination) = connection.ends;
        self.route.protocol = connection.codec.protocol();
        self.route.tls = connection.codec.stream().and_then(|stream| stream.secure()?.handshaken());
    }
}
