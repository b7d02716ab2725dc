//! Getting a connection to a server: choosing one, waiting for a slot, taking an idle connection or opening a new one,
//! and trying again after a failure.

mod open;

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, Waker},
    time::Duration,
};

use balance::{Claim, FailedAttempt, Forced, Pick, Retry, RetrySituation, ServerId};
use haproxycfg::model::{BackendTarget, HttpReuse, SendProxy, ServerIndex, UseBackend, UseSource};

use self::open::{address_in_header, destination, greeting, open, proxy_header};
use super::{
    borrow::borrow,
    kept::Kept,
    rules::{self, Phase},
    transaction::Transaction,
    wire::Wire,
};
use crate::{
    live::{LiveProxy, LiveServer},
    net::{Deadline, Stream},
    pool::{Reuse, ServerConnection},
    registry::{Handle, Order},
    worker::Worker,
};

/// A slot of a server, given back when dropped.
pub struct Slot<'a> {
    worker: Rc<Worker>,
    proxy: &'a LiveProxy,
    server: ServerId,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let now = self.worker.now_ms();
        // NOTE: first, or who gets the slot next would be counted on top of this one.
        self.proxy.servers.with(self.server.index(), |server| server.side.sessions.decrement());
        self.proxy.with_farm(|farm| farm.release(self.server, now));
    }
}

/// A connection to a server and the right to use it.
pub struct Upstream<'a> {
    /// The connection.
    pub connection: Box<ServerConnection>,
    /// The right.
    pub slot: Option<Slot<'a>>,
    /// Whether the connection had served requests before.
    pub reused: bool,
}

/// Why there is no connection to a server.
#[derive(Debug)]
pub enum Unreachable {
    /// No server is up.
    NoServer,
    /// The queues are full.
    QueueFull,
    /// It waited too long in a queue.
    QueueTimeout,
    /// The client left meanwhile.
    ClientGone,
    /// The client's connection failed meanwhile, in TCP mode.
    ClientFailed,
    /// It was told to end.
    Killed,
    /// The last attempt failed.
    Refused(io::Error),
    /// The last attempt took too long.
    ConnectTimeout,
    /// The request has not the source address that it is to come from (`usesrc hdr_ip`).
    NoSource,
    /// The client is to ask the server itself (`redir`).
    Elsewhere,
}

/// What is asked of the balancer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The hash key.
    pub key: Option<u32>,
    /// The server that persistence or `use-server` names.
    pub forced: Option<Forced>,
    /// Not this one, if there is another.
    pub avoid: Option<ServerId>,
}

/// The attempts to have a request, or a TCP session, reach a server.
pub struct Attempts<'a> {
    worker: &'a Rc<Worker>,
    proxy: &'a Arc<LiveProxy>,
    wanted: Wanted,
    is_http: bool,
    /// The connections that only this client may use.
    pub kept: Kept,
    /// Attempts that failed.
    failed: u32,
    /// The slot to use again.
    slot: Option<Slot<'a>>,
    /// Only a new connection will do.
    fresh: bool,
}

/// Watches the client while something else is waited for.
pub struct Watch<'a> {
    /// The client.
    pub client: &'a mut Wire,
    /// Whether a closed client ends the wait (`option abortonclose`).
    pub abort_on_close: bool,
    /// In TCP mode a client that closes without having sent anything leaves even without that option.
    pub is_tcp: bool,
    /// Who may end it.
    pub handle: &'a Handle,
}

impl Watch<'_> {
    /// Whether the client has sent something that nobody has taken yet.
    fn client_has_spoken(&mut self) -> bool {
        if self.client.received.is_empty() && !self.client.ended {
            // What is wrong with the connection shows when it is used.
            let _ = self.client.poll_receive(&mut Context::from_waker(Waker::noop()));
        }
        !self.client.received.is_empty()
    }

    /// Ready when the wait is to end because of the client.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Unreachable> {
        self.handle.listen(context);
        if self.handle.order() == Order::Abort {
            return Poll::Ready(Unreachable::Killed);
        }
        while !self.client.ended {
            match self.client.poll_receive(context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) if self.is_tcp => return Poll::Ready(Unreachable::ClientFailed),
                Poll::Ready(Err(_)) => self.client.ended = true,
                Poll::Pending => return Poll::Pending,
            }
        }
        let leaves = self.abort_on_close || self.is_tcp && self.client.received.is_empty();
        if leaves { Poll::Ready(Unreachable::ClientGone) } else { Poll::Pending }
    }
}

impl<'a> Attempts<'a> {
    /// None was made yet.
    #[must_use]
    pub fn new(worker: &'a Rc<Worker>, proxy: &'a Arc<LiveProxy>, wanted: Wanted, is_http: bool) -> Self {
        Self { worker, proxy, wanted, is_http, kept: Kept::default(), failed: 0, slot: None, fresh: false }
    }

    /// How many failed.
    #[must_use]
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
        watch: &mut Watch<'_>,
    ) -> Result<Upstream<'a>, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        if let Some(server) = &proxy.direct
            && self.wanted.forced.is_none()
            && self.slot.is_none()
        {
            return Box::pin(self.reach_direct(transaction, server, watch)).await;
        }
        // NOTE: what has to wait is boxed: mostly a server has room and a connection stands, and then nothing waits here.
        loop {
            let kept_slot = self.slot.take();
            let chosen_again = kept_slot.is_none() && self.failed > 0;
            let slot = match kept_slot {
                Some(slot) => slot,
                None => self.choose(transaction, watch).await?,
            };
            let Some(server) = proxy.servers.get(slot.server.index()) else { return Err(Unreachable::NoServer) };
            if chosen_again {
                self.count_choice(transaction, &server);
            }
            transaction.route.server = Some(Arc::clone(&server));
            server.side.traffic.of(worker.index).sessions.increment();
            watch.handle.goes_to(proxy, &server);
            if self.is_http && server.config.redir.is_some() && matches!(transaction.request.method(), b"GET" | b"HEAD")
            {
                return Err(Unreachable::Elsewhere);
            }
            let mut idle = match self.is_http {
                true => idle_connection(worker, transaction, proxy, &server, self),
                false => None,
            };
            if idle.is_none() && self.is_http && server.idle.value() > 0 {
                idle = Box::pin(borrow_connection(worker, transaction, proxy, &server, self)).await;
            }
            if let Some(connection) = idle {
                server.side.traffic.of(worker.index).reuses.increment();
                proxy.backend.traffic.of(worker.index).reuses.increment();
                transaction.timeline.connected = transaction.timeline.dequeued;
                (transaction.route.source, transaction.route.destination) = connection.ends;
                return Ok(Upstream { connection, slot: Some(slot), reused: true });
            }
            server.side.traffic.of(worker.index).connects.increment();
            proxy.backend.traffic.of(worker.index).connects.increment();
            let opened = Box::pin(open(worker, transaction, proxy, &server, self.failed == 0, watch)).await;
            let unreachable = match opened {
                Ok(stream) => {
                    let connection = self.connected(transaction, stream, server);
                    return Ok(Upstream { connection, slot: Some(slot), reused: false });
                }
                Err(unreachable) => unreachable,
            };
            let Some(failure) = unreachable.ending(true).failure() else { return Err(unreachable) };
            let attempt = FailedAttempt::to_connect(failure, self.failed);
            let retry = self.decide(attempt, Some(&slot));
            server_failed(worker, proxy, &server, retry);
            if retry == Retry::GiveUp {
                return Err(unreachable);
            }
            Box::pin(self.prepare_next(transaction, retry, Some(slot), watch)).await?;
        }
    }

    /// Opens a connection where `dispatch` or `option transparent` lead; nothing is chosen, so there is no server to name.
    async fn reach_direct(
        &mut self,
        transaction: &mut Transaction,
        server: &Arc<LiveServer>,
        watch: &mut Watch<'_>,
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
            (transaction.route.source, transaction.route.destination) = kept.ends;
            return Ok(Upstream { connection: kept, slot: None, reused: true });
        }
        loop {
            let unreachable = match open(worker, transaction, proxy, server, self.failed == 0, watch).await {
                Ok(stream) => {
                    transaction.timeline.connected = Some(worker.now());
                    traffic.connects.increment();
                    let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
                    let mut connection = worker.servers.borrow_mut().open(wire, Arc::clone(server));
                    connection.ends = (transaction.route.source, transaction.route.destination);
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
            self.prepare_next(transaction, retry, None, watch).await?;
        }
    }

    /// Chooses a server that has room, waiting for one if need be.
    async fn choose(&mut self, transaction: &mut Transaction, watch: &mut Watch<'_>) -> Result<Slot<'a>, Unreachable> {
        let (worker, proxy) = (self.worker, self.proxy);
        let chosen = match ask(worker, transaction, proxy, &self.wanted).await {
            Pick::Assigned(server) => return Ok(take(worker, transaction, proxy, server)),
            Pick::NoServer => Err(Unreachable::NoServer),
            Pick::QueueFull(_) => Err(Unreachable::QueueFull),
            Pick::Queued(ticket) => Box::pin(queue(worker, transaction, proxy, &mut self.wanted, watch, ticket)).await,
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
        let mut connection = worker.servers.borrow_mut().open(wire, server);
        connection.ends = (transaction.route.source, transaction.route.destination);
        connection.private =
            proxy.settings().http_reuse == HttpReuse::Never || connection.server.config.send_proxy.is_some();
        if let Some(version) = connection.server.config.send_proxy.filter(|_| self.is_http) {
            let options = connection.server.config.proxy_options;
            connection.greeting = greeting(&proxy_header(transaction, version, options));
        }
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
        watch: &mut Watch<'_>,
    ) -> Result<bool, Unreachable> {
        let retry = self.decide(attempt, slot.as_ref());
        if retry == Retry::GiveUp {
            return Ok(false);
        }
        self.prepare_next(transaction, retry, slot, watch).await?;
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
        watch: &mut Watch<'_>,
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
        wait(self.worker, time, watch).await
    }
}

/// Lets the time before another attempt pass.
async fn wait(worker: &Worker, milliseconds: u64, watch: &mut Watch<'_>) -> Result<(), Unreachable> {
    if milliseconds == 0 {
        return Ok(());
    }
    let mut deadline = Deadline::default();
    deadline.set(Some(worker.now() + Duration::from_millis(milliseconds)));
    poll_fn(|context| match watch.poll(context) {
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

/// Tells the health of a server what traffic has shown.
pub fn observe(worker: &Worker, proxy: &LiveProxy, server: ServerIndex, observation: balance::Observation) {
    proxy.with_farm(|farm| farm.observe(ServerId::new(server.0 as usize), observation, worker.now_ms()));
}

/// Asks the balancer for a server.
async fn ask(worker: &Worker, transaction: &Transaction, proxy: &LiveProxy, wanted: &Wanted) -> Pick {
    let (class, offset) = transaction.by_rules.priority.get();
    let request = balance::Request {
        key: wanted.key,
        avoid: wanted.avoid,
        forced: wanted.forced,
        priority_class: i32::try_from(class).unwrap_or(0),
        priority_offset: i32::try_from(offset).unwrap_or(0),
    };
    poll_fn(|context| {
        let waker = || context.waker().clone();
        Poll::Ready(proxy.with_farm(|farm| farm.pick(&request, worker.now_ms(), waker)))
    })
    .await
}

/// Waits for a slot, the request's place in a queue being `ticket`.
async fn queue<'a>(
    worker: &Rc<Worker>,
    transaction: &mut Transaction,
    proxy: &'a LiveProxy,
    wanted: &mut Wanted,
    watch: &mut Watch<'_>,
    mut ticket: balance::Ticket,
) -> Result<Slot<'a>, Unreachable> {
    let mut deadline = Deadline::default();
    let timeouts = &proxy.settings().timeouts;
    deadline.set(timeouts.queue.or(timeouts.connect).map(|limit| worker.now() + limit));
    loop {
        let mut waiting = Waiting { worker, proxy, ticket: Some(ticket) };
        let claim = poll_fn(|context| {
            match proxy.with_farm(|farm| farm.claim(ticket)) {
                Claim::Waiting => {}
                claim => return Poll::Ready(Ok(claim)),
            }
            if let Poll::Ready(ended) = watch.poll(context) {
                return Poll::Ready(Err(ended));
            }
            deadline.poll(context).map(|()| Err(Unreachable::QueueTimeout))
        })
        .await;
        match claim {
            Ok(claim) => {
                waiting.ticket = None;
                match claim {
                    Claim::Granted { server, position } => {
                        transaction.route.server_queue += position.server;
                        transaction.route.backend_queue += position.backend;
                        return Ok(take(worker, transaction, proxy, server));
                    }
                    Claim::Redispatch { from, position } => {
                        transaction.route.server_queue += position.server;
                        transaction.route.backend_queue += position.backend;
                        wanted.avoid = Some(from);
                        wanted.forced = None;
                    }
                    Claim::Waiting | Claim::Unknown => {}
                }
            }
            Err(ended) => {
                waiting.ticket = None;
                let position = proxy.with_farm(|farm| farm.cancel(ticket, worker.now_ms()));
                transaction.route.server_queue += position.server;
                transaction.route.backend_queue += position.backend;
                transaction.timeline.dequeued = Some(worker.now());
                return Err(ended);
            }
        }
        ticket = match ask(worker, transaction, proxy, wanted).await {
            Pick::Assigned(server) => return Ok(take(worker, transaction, proxy, server)),
            Pick::NoServer => return Err(Unreachable::NoServer),
            Pick::QueueFull(_) => return Err(Unreachable::QueueFull),
            Pick::Queued(ticket) => ticket,
        };
    }
}

/// A place in a queue that is given up when the wait ends in any other way.
struct Waiting<'a> {
    worker: &'a Worker,
    proxy: &'a LiveProxy,
    ticket: Option<balance::Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.proxy.with_farm(|farm| farm.cancel(ticket, self.worker.now_ms()));
        }
    }
}

fn take<'a>(worker: &Rc<Worker>, transaction: &mut Transaction, proxy: &'a LiveProxy, server: ServerId) -> Slot<'a> {
    transaction.timeline.dequeued = Some(worker.now());
    proxy.servers.with(server.index(), |server| server.side.sessions.increment());
    Slot { worker: Rc::clone(worker), proxy, server }
}

/// Whether a connection comes from the address that one for this request would come from.
fn comes_from(transaction: &Transaction, usesrc: &UseSource, connection: &ServerConnection) -> bool {
    let wanted = match usesrc {
        UseSource::Address(_) => return true,
        UseSource::Client | UseSource::ClientIp => transaction.client.source.get(),
        UseSource::Header { name, occurrence } => address_in_header(&transaction.request.headers, name, *occurrence),
    };
    let local = connection.wire.stream.local_address();
    wanted.zip(local).is_some_and(|(wanted, local)| wanted.ip() == local.ip())
}

/// An idle connection that `http-reuse` allows for this request.
fn idle_connection(
    worker: &Worker,
    transaction: &Transaction,
    proxy: &LiveProxy,
    server: &LiveServer,
    attempts: &mut Attempts<'_>,
) -> Option<Box<ServerConnection>> {
    // A request that failed before is sent again on a connection that is known to be fresh.
    if attempts.failed > 0 || attempts.fresh {
        return None;
    }
    if let Some(version) = server.config.send_proxy {
        return greeted_connection(transaction, server, attempts, version);
    }
    // Where a server is may depend on the client: a connection to it leads to one of several places.
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    let source = server.config.source.as_ref().or(proxy.settings().source.as_ref());
    let usesrc = source.and_then(|source| source.usesrc.as_ref());
    let kept = attempts.kept.take_to(server.key, |kept| {
        usesrc.is_none_or(|usesrc| comes_from(transaction, usesrc, kept))
            && place.as_ref().is_none_or(|place| kept.leads_to(place))
    });
    if kept.is_some() {
        return kept;
    }
    if usesrc.is_some() {
        return None;
    }
    let reuse = allowed_reuse(transaction, proxy)?;
    worker.servers.borrow_mut().take(server, reuse, place.as_ref())
}

/// Which connections of others `http-reuse` allows for this request.
fn allowed_reuse(transaction: &Transaction, proxy: &LiveProxy) -> Option<Reuse> {
    match (proxy.settings().http_reuse, transaction.asked.is_follower) {
        (HttpReuse::Never, _) | (HttpReuse::Safe, false) => None,
        (HttpReuse::Aggressive, false) => Some(Reuse::Proven),
        (HttpReuse::Always, _) | (_, true) => Some(Reuse::Any),
    }
}

/// An idle connection of another worker, where one of this worker would do. Like HAProxy it leaves the others
/// `pool-low-conn` of them.
async fn borrow_connection(
    worker: &Worker,
    transaction: &Transaction,
    proxy: &LiveProxy,
    server: &Arc<LiveServer>,
    attempts: &Attempts<'_>,
) -> Option<Box<ServerConnection>> {
    let source = server.config.source.as_ref().or(proxy.settings().source.as_ref());
    if attempts.failed > 0
        || attempts.fresh
        || server.config.send_proxy.is_some()
        || source.is_some_and(|source| source.usesrc.is_some())
        || server.idle.value() < u64::from(server.config.pool_low_conn)
    {
        return None;
    }
    let reuse = allowed_reuse(transaction, proxy)?;
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    borrow(worker, server, reuse, place).await
}

/// A connection of this client that began with the very header that would be sent now.
fn greeted_connection(
    transaction: &Transaction,
    server: &LiveServer,
    attempts: &mut Attempts<'_>,
    version: SendProxy,
) -> Option<Box<ServerConnection>> {
    let greeting = greeting(&proxy_header(transaction, version, server.config.proxy_options));
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    attempts.kept.take_to(server.key, |kept| {
        kept.greeting == greeting && place.as_ref().is_none_or(|place| kept.leads_to(place))
    })
}

/// The backend that the first `use_backend` rule which applies names, or the frontend's default. That is also for names made
/// of the request that no backend has: as in HAProxy no further rule is looked at.
#[must_use]
pub fn choose_backend(transaction: &Transaction, frontend: &Arc<LiveProxy>) -> Option<Arc<LiveProxy>> {
    let settings = frontend.settings();
    let applies = |rule: &&UseBackend| rules::applies(rule.condition.as_ref(), transaction, Phase::Request);
    let named = settings.use_backend.iter().find(applies).and_then(|rule| resolve_backend(transaction, &rule.target));
    named.or_else(|| match settings.default_backend {
        Some(index) => transaction.instance.proxy(index).cloned(),
        None if settings.kind.has_backend() => Some(Arc::clone(frontend)),
        None => None,
    })
}

/// The backend that a target of `use_backend` means now.
fn resolve_backend(transaction: &Transaction, target: &BackendTarget) -> Option<Arc<LiveProxy>> {
    match target {
        BackendTarget::Static(index) => transaction.instance.proxy(*index).cloned(),
        BackendTarget::Dynamic(format) => {
            let name = format.to_vec(transaction);
            transaction.instance.backend(&String::from_utf8_lossy(&name)).cloned()
        }
    }
}
