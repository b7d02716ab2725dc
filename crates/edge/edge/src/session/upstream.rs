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

use balance::{Claim, Failure, Forced, Pick, Retry, RetrySituation, ServerId};
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
    net::Deadline,
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

/// How attempts went so far; kept over retries of the whole request.
#[derive(Default)]
pub struct Attempts<'a> {
    /// Attempts that failed.
    pub failed: u32,
    /// The slot to use again.
    pub slot: Option<Slot<'a>>,
    /// Only a new connection will do.
    pub fresh: bool,
    /// The connections that only this client may use.
    pub kept: Kept,
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

/// Gets a connection to a server of the transaction's backend.
///
/// # Errors
/// Why there is none, after all retries.
pub async fn reach<'a>(
    worker: &Rc<Worker>,
    transaction: &mut Transaction,
    proxy: &'a Arc<LiveProxy>,
    wanted: &mut Wanted,
    attempts: &mut Attempts<'a>,
    watch: &mut Watch<'_>,
    is_http: bool,
) -> Result<Upstream<'a>, Unreachable> {
    if let Some(server) = &proxy.direct
        && wanted.forced.is_none()
        && attempts.slot.is_none()
    {
        return Box::pin(reach_direct(worker, transaction, proxy, server, attempts, watch)).await;
    }
    // NOTE: what has to wait is boxed: mostly a server has room and a connection stands, and then nothing waits here.
    loop {
        let kept_slot = attempts.slot.take();
        let chosen_again = kept_slot.is_none() && attempts.failed > 0;
        let slot = match kept_slot {
            Some(slot) => slot,
            None => {
                let pick = ask(worker, transaction, proxy, wanted).await;
                let chosen = match pick {
                    Pick::Assigned(server) => Ok(take(worker, transaction, proxy, server)),
                    Pick::NoServer => Err(Unreachable::NoServer),
                    Pick::QueueFull(_) => Err(Unreachable::QueueFull),
                    Pick::Queued(ticket) => Box::pin(queue(worker, transaction, proxy, wanted, watch, ticket)).await,
                };
                match chosen {
                    Ok(slot) => slot,
                    Err(why) => {
                        if matches!(why, Unreachable::NoServer | Unreachable::QueueFull | Unreachable::QueueTimeout) {
                            proxy.backend.traffic.of(worker.index).connection_errors.increment();
                        }
                        return Err(why);
                    }
                }
            }
        };
        let Some(server) = proxy.servers.get(slot.server.index()) else { return Err(Unreachable::NoServer) };
        if let Some(before) = transaction.server.as_ref().filter(|_| chosen_again) {
            let (server_traffic, traffic) =
                (before.side.traffic.of(worker.index), proxy.backend.traffic.of(worker.index));
            if before.key == server.key {
                server_traffic.retries.increment();
                traffic.retries.increment();
            } else {
                transaction.redispatched = true;
                server_traffic.redispatches.increment();
                traffic.redispatches.increment();
            }
        }
        transaction.server = Some(Arc::clone(&server));
        server.side.traffic.of(worker.index).sessions.increment();
        watch.handle.goes_to(proxy, &server);
        if is_http && server.config.redir.is_some() && matches!(transaction.request.method(), b"GET" | b"HEAD") {
            return Err(Unreachable::Elsewhere);
        }
        let mut idle = match is_http {
            true => idle_connection(worker, transaction, proxy, &server, attempts),
            false => None,
        };
        if idle.is_none() && is_http && server.idle.value() > 0 {
            idle = Box::pin(borrow_connection(worker, transaction, proxy, &server, attempts)).await;
        }
        if let Some(connection) = idle {
            server.side.traffic.of(worker.index).reuses.increment();
            proxy.backend.traffic.of(worker.index).reuses.increment();
            transaction.timeline.connected = transaction.timeline.dequeued;
            (transaction.upstream_source, transaction.upstream_destination) = connection.ends;
            return Ok(Upstream { connection, slot: Some(slot), reused: true });
        }
        server.side.traffic.of(worker.index).connects.increment();
        proxy.backend.traffic.of(worker.index).connects.increment();
        let (failure, unreachable) =
            match Box::pin(open(worker, transaction, proxy, &server, attempts.failed == 0, watch)).await {
                Ok(stream) => {
                    transaction.timeline.connected = Some(worker.now());
                    if !is_http {
                        server.last_session_ms.store(worker.now_ms(), Relaxed);
                        proxy.last_session_ms.store(worker.now_ms(), Relaxed);
                    }
                    let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
                    let mut connection = worker.servers.borrow_mut().open(wire, server);
                    connection.ends = (transaction.upstream_source, transaction.upstream_destination);
                    connection.private = proxy.settings().http_reuse == HttpReuse::Never
                        || connection.server.config.send_proxy.is_some();
                    if let Some(version) = connection.server.config.send_proxy.filter(|_| is_http) {
                        let options = connection.server.config.proxy_options;
                        connection.greeting = greeting(&proxy_header(transaction, version, options));
                    }
                    return Ok(Upstream { connection, slot: Some(slot), reused: false });
                }
                Err(Unreachable::Refused(error)) => (Failure::ConnectionError, Unreachable::Refused(error)),
                Err(Unreachable::ConnectTimeout) => (Failure::ConnectionTimeout, Unreachable::ConnectTimeout),
                Err(other) => return Err(other),
            };
        let retry = after_failure(worker, proxy, &slot, wanted, attempts.failed, failure, false);
        server_failed(worker, proxy, &server, retry);
        Box::pin(retry_or_give_up(worker, transaction, proxy, retry, slot, wanted, attempts, watch, unreachable))
            .await?;
    }
}

/// Opens a connection where `dispatch` or `option transparent` lead; nothing is chosen, so there is no server to name.
async fn reach_direct<'a>(
    worker: &Worker,
    transaction: &mut Transaction,
    proxy: &'a Arc<LiveProxy>,
    server: &Arc<LiveServer>,
    attempts: &mut Attempts<'_>,
    watch: &mut Watch<'_>,
) -> Result<Upstream<'a>, Unreachable> {
    let traffic = proxy.backend.traffic.of(worker.index);
    transaction.server = None;
    transaction.timeline.dequeued = Some(worker.now());
    // Such connections serve the client alone that opened them, and only as long as it wants to go to the same place.
    if attempts.failed == 0
        && !attempts.fresh
        && let Some(kept) = attempts.kept.take_to(server.key, |kept| kept.leads_to(&destination(transaction, server)))
    {
        traffic.reuses.increment();
        transaction.timeline.connected = transaction.timeline.dequeued;
        (transaction.upstream_source, transaction.upstream_destination) = kept.ends;
        return Ok(Upstream { connection: kept, slot: None, reused: true });
    }
    loop {
        let unreachable = match open(worker, transaction, proxy, server, attempts.failed == 0, watch).await {
            Ok(stream) => {
                transaction.timeline.connected = Some(worker.now());
                traffic.connects.increment();
                let wire = Wire::new(Rc::new(stream), worker.buffers.clone());
                let mut connection = worker.servers.borrow_mut().open(wire, Arc::clone(server));
                connection.ends = (transaction.upstream_source, transaction.upstream_destination);
                connection.private = true;
                return Ok(Upstream { connection, slot: None, reused: false });
            }
            Err(failure @ (Unreachable::Refused(_) | Unreachable::ConnectTimeout)) => failure,
            Err(other) => return Err(other),
        };
        let failure = match unreachable {
            Unreachable::ConnectTimeout => Failure::ConnectionTimeout,
            _ => Failure::ConnectionError,
        };
        let retry = proxy.retry.decide(&RetrySituation {
            failed_before: attempts.failed,
            failure,
            server_state: balance::OperationalState::Running,
            active_servers: 1,
            is_forced: false,
            even_if_down: true,
            reused_connection: false,
        });
        let (Retry::SameServer(time) | Retry::Redispatch(time)) = retry else {
            traffic.connection_errors.increment();
            return Err(unreachable);
        };
        traffic.retries.increment();
        attempts.failed += 1;
        transaction.retries += 1;
        wait(worker, time, watch).await?;
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

/// Does what was decided after a failed attempt: keeps or frees the slot, counts and waits.
///
/// # Errors
/// `failure`, when there is to be no other attempt.
#[expect(clippy::too_many_arguments, reason = "the state of an attempt, spread over who owns it")]
pub async fn retry_or_give_up<'a>(
    worker: &Worker,
    transaction: &mut Transaction,
    proxy: &'a LiveProxy,
    retry: Retry,
    slot: Slot<'a>,
    wanted: &mut Wanted,
    attempts: &mut Attempts<'a>,
    watch: &mut Watch<'_>,
    failure: Unreachable,
) -> Result<(), Unreachable> {
    let time = match retry {
        Retry::GiveUp => {
            drop(slot);
            return Err(failure);
        }
        Retry::SameServer(time) => {
            proxy.with_farm(|farm| farm.count_retry(slot.server));
            proxy.servers.with(slot.server.index(), |server| {
                server.side.traffic.of(worker.index).retries.increment();
            });
            proxy.backend.traffic.of(worker.index).retries.increment();
            attempts.slot = Some(slot);
            time
        }
        Retry::Redispatch(time) => {
            wanted.avoid = Some(slot.server);
            wanted.forced = None;
            drop(slot);
            time
        }
    };
    attempts.failed += 1;
    transaction.retries += 1;
    wait(worker, time, watch).await
}

/// Asks the retry policy.
#[must_use]
pub fn after_failure(
    worker: &Worker,
    proxy: &LiveProxy,
    slot: &Slot<'_>,
    wanted: &Wanted,
    failed_before: u32,
    failure: Failure,
    reused_connection: bool,
) -> Retry {
    let (server_state, active_servers) = {
        let farm = proxy.farm();
        let state = farm
            .server_stats(slot.server, worker.now_ms())
            .map_or(balance::OperationalState::Stopped, |stats| stats.state);
        (state, farm.active())
    };
    proxy.retry.decide(&RetrySituation {
        failed_before,
        failure,
        server_state,
        active_servers,
        is_forced: wanted.forced.is_some(),
        even_if_down: wanted.forced.is_some_and(|forced| forced.even_if_down),
        reused_connection,
    })
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
    let (class, offset) = transaction.priority.get();
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
                        transaction.server_queue += position.server;
                        transaction.backend_queue += position.backend;
                        return Ok(take(worker, transaction, proxy, server));
                    }
                    Claim::Redispatch { from, position } => {
                        transaction.server_queue += position.server;
                        transaction.backend_queue += position.backend;
                        wanted.avoid = Some(from);
                        wanted.forced = None;
                    }
                    Claim::Waiting | Claim::Unknown => {}
                }
            }
            Err(ended) => {
                waiting.ticket = None;
                let position = proxy.with_farm(|farm| farm.cancel(ticket, worker.now_ms()));
                transaction.server_queue += position.server;
                transaction.backend_queue += position.backend;
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
    match (proxy.settings().http_reuse, transaction.first_request) {
        (HttpReuse::Never, _) | (HttpReuse::Safe, true) => None,
        (HttpReuse::Aggressive, true) => Some(Reuse::Proven),
        (HttpReuse::Always, _) | (_, false) => Some(Reuse::Any),
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
