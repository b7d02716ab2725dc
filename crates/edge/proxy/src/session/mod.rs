//! A client's connection from its acceptance to its end.
//!
//! [`serve`] does what HTTP and TCP have in common: limits, `tcp-request connection` rules, the PROXY protocol. Then
//! `http` or `tcp` takes over.

pub mod body;
pub mod borrow;
mod cacheable;
mod caching;
mod context;
mod cookie;
mod counting;
pub mod descriptors;
mod ending;
mod exchange;
pub mod fetch;
pub mod filter;
mod finish;
mod h2;
pub mod h3;
mod handshake;
mod heads;
mod http;
mod incoming;
mod invalid;
mod logging;
mod normalize;
mod object_fetch;
mod outgoing;
mod page;
pub mod pages;
mod persistence;
pub mod pinned;
mod protocol;
mod proxy_protocol;
pub mod record;
mod reply;
mod resolving;
mod routing;
mod rules;
#[cfg(test)]
mod scene;
mod size;
mod stream_actions;
mod streams;
mod tcp;
mod transaction;
mod varnish_log;
mod websocket;
mod wire;

use std::{
    cell::{Cell, OnceCell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

use haproxycfg::model::{Bind, BindAddress, BindProtocol, Mode, Proxy, Tune};
use live::{Instance, LiveProxy, sockets};
use net::{Deadline, Stream};
use runtime::ConnectionGuard;

use self::{
    context::wall_clock,
    ending::{Ending, Stage},
    pinned::PinnedConnections,
    tcp::TcpVerdict,
    transaction::RequestStage,
};
pub use self::{
    heads::SpareHeads,
    http::{Parked, Session as HttpSession},
    protocol::Protocol,
    transaction::{ClientSide, Transaction},
    wire::Wire,
};
use crate::{
    registry::Registered,
    worker::{Running, Worker},
};

/// Serves one accepted connection.
pub async fn serve(
    worker: Rc<Worker>,
    instance: Arc<Instance>,
    frontend: Arc<LiveProxy>,
    listener: usize,
    arrival: Arrival,
) {
    let Ok((mut session, expected)) = begin(worker, instance, frontend, listener, arrival) else { return };
    // NOTE: what is over soon or rare is boxed: this task lives as long as the connection, and mostly it is idle.
    if expected.is_any()
        && let Err(refused) = Box::pin(proxy_protocol::receive(&mut session, expected)).await
    {
        return refuse(&session, Some(refused));
    }
    let speaks_tls = handshake::is_expected(&session);
    if speaks_tls {
        if let Err(refused) = Box::pin(handshake::accept(&mut session)).await {
            return refuse(&session, Some(refused));
        }
        let bind = session.side.frontend.settings().binds.get(session.side.listener);
        let is_known = session.side.protocol == Protocol::Http2;
        if !is_known && protocol_of(bind, &session.client.stream) == Protocol::Http2 {
            session.speaks_http2();
        }
    }
    if may_go_on(&session).is_err() {
        // As in HAProxy, only what had to wait for a header or a handshake is told of.
        return if speaks_tls || expected.is_any() { refuse(&session, None) } else { reset_unread(&session) };
    }
    session.traffic().sessions.increment();
    session.side.count_tracked_session();
    session.idle_since = session.worker.now();
    let settings = session.side.frontend.settings();
    session.held.not_to_linger = settings.options.nolinger.then(|| Rc::clone(&session.client.stream));
    match settings.mode {
        Mode::Http if session.side.protocol == Protocol::Http2 => Box::pin(h2::serve(session)).await,
        Mode::Http => serve_http(session, false).await,
        Mode::Tcp => Box::pin(tcp::serve(session)).await,
    }
}

/// Serves a connection in HTTP mode whose client begins with HTTP/1, or has not begun.
async fn serve_http(session: Box<HttpSession>, speaks: bool) {
    if let Some(mut session) = http::serve(session, speaks).await {
        session.speaks_http2();
        Box::pin(h2::serve(session)).await;
    }
}

/// Serves a connection that was parked; `speaks` says that its socket has something.
pub fn resume(session: Box<HttpSession>, speaks: bool) -> impl Future<Output = ()> {
    let worker = Rc::clone(&session.worker);
    worker.clocked(serve_http(session, speaks))
}

/// An accepted connection.
pub struct Arrival {
    /// Its socket.
    pub stream: Stream,
    /// Where it comes from; `None` for a unix socket.
    pub source: Option<SocketAddr>,
    /// Where it went to, if the kernel does not know.
    pub destination: Option<SocketAddr>,
    /// Counts it in its frontend.
    pub counted: Counted,
    /// Counts it for its acceptor.
    pub guard: ConnectionGuard,
    /// Counts it for its worker.
    pub running: Running,
}

/// Counts a connection as long as it lives.
pub struct ConnectionGuards {
    /// Its socket, under `option nolinger`.
    not_to_linger: Option<Rc<Stream>>,
    _counted: Counted,
    _guard: ConnectionGuard,
    _running: Running,
}

impl Drop for ConnectionGuards {
    fn drop(&mut self) {
        if let Some(stream) = &self.not_to_linger {
            // Who has read everything sees an end; the reset of `nolinger` comes behind it.
            stream.shut_write();
        }
    }
}

/// The headers that come before anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expected {
    /// One of the PROXY protocol.
    proxy: bool,
    /// A NetScaler's, with this number.
    netscaler: Option<u32>,
}

impl Expected {
    fn is_any(self) -> bool {
        self.proxy || self.netscaler.is_some()
    }
}

/// How a connection ends that a rule does not want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    /// It is closed.
    Openly,
    /// The client is not told.
    Silently,
}

/// Sets a connection up and runs `tcp-request connection` rules; also says which headers come first.
///
/// # Errors
/// When a rule does not want the connection.
fn begin(
    worker: Rc<Worker>,
    instance: Arc<Instance>,
    frontend: Arc<LiveProxy>,
    listener: usize,
    arrival: Arrival,
) -> Result<(Box<http::Session>, Expected), Denied> {
    let Arrival { stream, source, destination, counted, guard, running } = arrival;
    let held = ConnectionGuards { not_to_linger: None, _counted: counted, _guard: guard, _running: running };
    let settings = frontend.settings();
    let stream = Rc::new(handshake::expected(stream, &frontend, listener));
    prepare_socket(&stream, settings, &instance.config.global.tune);
    let id = instance.process.next_session_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let client = Wire::new(Rc::clone(&stream), worker.buffers.clone());
    let (accepted, bind) = (worker.now(), settings.binds.get(listener));
    let mut side = ClientSide {
        source: Cell::new(source),
        original_source: source,
        changed_destination: Cell::new(None),
        original_destination: destination.map_or_else(OnceCell::new, |address| Some(address).into()),
        received_proxy: false,
        more: OnceCell::new(),
        protocol: protocol_of(bind, &stream),
        stream: Some(stream),
        handshaken: None,
        variables: RefCell::new(instance.stream_variables()),
        frontend: Arc::clone(&frontend),
        listener,
        accepted,
        accepted_at: wall_clock(),
        id,
        session_log: OnceCell::new(),
    };
    let mut expected =
        bind.map(|bind| Expected { proxy: bind.accept_proxy, netscaler: bind.netscaler_magic }).unwrap_or_default();
    if !settings.tcp_request_connection.is_empty() {
        let shared = Rc::new(side);
        match tcp::connection_rules(&worker, &instance, &shared, &settings.tcp_request_connection) {
            TcpVerdict::Accept | TcpVerdict::Resolve(_) => {}
            TcpVerdict::ExpectProxy => expected.proxy = true,
            TcpVerdict::ExpectNetscaler => {
                expected.netscaler = Some(bind.and_then(|bind| bind.netscaler_magic).unwrap_or(0));
            }
            TcpVerdict::Drop => {
                shared.count(worker.index, |traffic| &traffic.denied_requests);
                client.stream.vanish();
                return Err(Denied::Silently);
            }
            TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::SwitchToHttp => {
                shared.count(worker.index, |traffic| &traffic.denied_connections);
                return Err(Denied::Openly);
            }
        }
        side = Rc::try_unwrap(shared).map_err(|_| Denied::Openly)?;
        // What these rules change is the connection's own address, unlike what later rules do.
        side.original_source = side.source.get();
        let changed = side.changed_destination.get();
        side.original_destination = changed.map_or(side.original_destination, |changed| Some(changed).into());
    }
    if frontend.accelerator.is_some() {
        varnish_log::session(&worker, &side);
    }
    let registered = register(&worker, &side);
    let session = Box::new(http::Session {
        worker,
        instance,
        side: Rc::new(side),
        client,
        registered,
        deadline: Deadline::default(),
        first: true,
        stays_awake: false,
        begins_http2: false,
        idle_since: accepted,
        idle_wish: None,
        kept: PinnedConnections::default(),
        held,
    });
    Ok((session, expected))
}

/// Notes a connection among those that can be listed and ended.
fn register(worker: &Worker, side: &ClientSide) -> Registered {
    let frontend = Arc::clone(&side.frontend);
    let registered = worker.registry.register(side.id, side.accepted, side.source.get(), frontend, side.listener);
    let bind = side.frontend.settings().binds.get(side.listener);
    registered.handle.speaks(side.protocol.major(), bind.is_some_and(|bind| bind.tls.is_some()));
    registered
}

/// What is spoken from the first byte on: what the configuration says, or else what both sides have agreed on.
fn protocol_of(bind: Option<&Bind>, stream: &Stream) -> Protocol {
    if bind.is_some_and(|bind| matches!(bind.address, BindAddress::Quic(_))) {
        return Protocol::Http3;
    }
    let is_http2 = match bind.and_then(|bind| bind.protocol) {
        Some(protocol) => protocol == BindProtocol::Http2,
        None => stream.protocol() == Some("h2"),
    };
    if is_http2 { Protocol::Http2 } else { Protocol::Http1 }
}

/// Ends a connection before there is a session on it; `None` stands for a rule, which has counted it.
fn refuse(session: &http::Session, why: Option<proxy_protocol::Refused>) {
    reset_unread(session);
    let settings = session.side.frontend.settings();
    if let Some(format) = &settings.error_log_format {
        session.side.more.get_or_init(Rc::default).refused.set(why);
        let (instance, side) = (Arc::clone(&session.instance), Rc::clone(&session.side));
        let mut transaction = Transaction::new(instance, side, &session.worker);
        transaction.asked.stage = RequestStage::Invalid;
        transaction.take_number();
        // What else it may have been for, HAProxy calls it a refused request.
        transaction.end(Ending::Refused(Stage::Request));
        let text = format.to_vec(&transaction);
        return logging::log_refused(&session.worker, &session.side, why, Some(&text));
    }
    logging::log_refused(&session.worker, &session.side, why, None);
}

/// Tells the client with the end of its connection that what it sent is not read.
fn reset_unread(session: &http::Session) {
    if !session.client.received.is_empty() {
        session.client.stream.reset_on_close();
    }
}

/// Runs `tcp-request session` rules.
fn may_go_on(session: &http::Session) -> Result<(), Denied> {
    let rules = &session.side.frontend.settings().tcp_request_session;
    if rules.is_empty() {
        return Ok(());
    }
    match tcp::connection_rules(&session.worker, &session.instance, &session.side, rules) {
        TcpVerdict::Accept | TcpVerdict::ExpectProxy | TcpVerdict::ExpectNetscaler | TcpVerdict::Resolve(_) => Ok(()),
        TcpVerdict::Drop => {
            session.side.count(session.worker.index, |traffic| &traffic.denied_requests);
            session.client.stream.vanish();
            Err(Denied::Silently)
        }
        TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::SwitchToHttp => {
            session.side.count(session.worker.index, |traffic| &traffic.denied_sessions);
            Err(Denied::Openly)
        }
    }
}

/// What the configuration says about the socket of a client. What the system does not allow is left as it is.
fn prepare_socket(stream: &Stream, settings: &Proxy, tune: &Tune) {
    if settings.options.clitcpka {
        stream.keep_alive(sockets::keepalive(settings.client_keepalive));
    }
    if settings.options.nolinger {
        stream.reset_on_close();
    }
    stream.set_buffers(tune.rcvbuf_client, tune.sndbuf_client);
}

/// Counts a connection in the process, its frontend and its listener as long as it lives.
pub struct Counted {
    worker: Rc<Worker>,
    frontend: Arc<LiveProxy>,
    listener: usize,
}

impl Counted {
    /// Counts it in. To be done as soon as it is accepted: what is not counted does not count against `maxconn`.
    #[must_use]
    pub fn enter(worker: &Rc<Worker>, frontend: &Arc<LiveProxy>, listener: usize) -> Self {
        worker.shared.process.connections.increment();
        frontend.frontend.sessions.increment();
        if let Some(live) = frontend.listeners.get(listener) {
            live.side.sessions.increment();
            live.side.traffic.of(worker.index).connections.increment();
            live.side.traffic.of(worker.index).sessions.increment();
            if live.tls.is_some() {
                worker.traffic().tls_accepted.increment();
            }
        }
        worker.traffic().connections.increment();
        frontend.frontend.traffic.of(worker.index).connections.increment();
        Self { worker: Rc::clone(worker), frontend: Arc::clone(frontend), listener }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.worker.shared.process.connections.decrement();
        self.frontend.frontend.sessions.decrement();
        if let Some(live) = self.frontend.listeners.get(self.listener) {
            live.side.sessions.decrement();
        }
        let process = &self.worker.shared.process;
        if process.waiting_listeners.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            process.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of_five<A, B, C, D, E, F>(_: fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes_of_made<F>(_: impl FnOnce() -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand idle connections are ten thousand of the first; each request in flight is one of the second.
    #[test]
    fn connections_and_requests_are_small() {
        let idle = bytes_of_five(serve);
        let request = bytes_of_made(|| async {
            let session: Option<&mut http::Session> = std::hint::black_box(None);
            session.unwrap().requests().await
        });
        eprintln!("idle {idle}, request {request}, transaction {}", size_of::<Transaction>());
        assert!(idle <= 512, "{idle}");
        assert!(request <= 3_072, "{request}");
    }
}
