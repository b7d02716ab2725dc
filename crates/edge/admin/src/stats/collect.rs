//! Takes a [`Snapshot`] of what runs.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, UNIX_EPOCH},
};

use haproxycfg::model::{BindAddress, Config, LogForward, Mode, ServerAddress, ServerPort};
use live::{
    Instance, LiveListener, LiveProxy, LiveServer, Process, Shared, SideCounters, cache_state::CacheState,
    counters::Traffic, files::FileNumbers, limits::hard_maxconn,
};
use net::{Splice, Target};

use super::view::{
    BackendView, Detail, FrontendState, FrontendView, Level, ListenerState, ListenerView, Place, ProcessView, Product,
    ProxyView, RateView, ServerView, Snapshot, TableView, Times, TlsView, Totals,
};

/// Takes everything of the proxies that are wanted, disabled ones left out.
#[must_use]
pub fn collect(
    shared: &Shared,
    instance: &Instance,
    product: &Product,
    wanted: impl Fn(usize, &LiveProxy) -> bool,
    detail: Detail,
) -> Snapshot {
    let now_ms = shared.process.milliseconds(Instant::now());
    let proxies = instance.proxies.iter().enumerate();
    let taken = proxies.filter(|(index, proxy)| !proxy.settings().disabled && wanted(*index, proxy));
    let process = process_view(shared, instance, product, now_ms);
    // What `set maxconn global` says later changes no frontend.
    let limit = process.connections_hard_max;
    let proxies = taken.map(|(_, proxy)| proxy_view(proxy, now_ms, limit, detail)).collect();
    let table_view = |table: &Arc<stick::Table>| TableView {
        name: Arc::clone(&table.definition().name),
        key: table.definition().key.name(),
        size: table.definition().size,
        used: table.len(),
    };
    Snapshot {
        process,
        proxies,
        tables: instance.tables.listed().map(table_view).collect(),
        certificates: instance.process.certificates.status(),
        files: files(instance).collect(),
    }
}

/// The numbers of backends that have files.
pub(super) fn files(instance: &Instance) -> impl Iterator<Item = FileNumbers> {
    instance.proxies.iter().filter(|proxy| !proxy.settings().disabled).filter_map(|proxy| {
        let settings = proxy.settings();
        Some(proxy.files.as_ref()?.numbers(&settings.name, &settings.files))
    })
}

/// Takes only the process.
#[must_use]
pub fn collect_process(shared: &Shared, instance: &Instance, product: &Product) -> ProcessView {
    process_view(shared, instance, product, shared.process.milliseconds(Instant::now()))
}

/// TLS of the process.
fn tls_view(process: &Process, now_ms: u64) -> TlsView {
    let traffic = &process.traffic;
    let (lookups, misses) = process.tls_session_lookups();
    let tls_clients = traffic.sum(|part| part.tls_clients.value());
    let (client_keys, server_keys) =
        (traffic.sum(|part| part.tls_client_keys.value()), traffic.sum(|part| part.tls_server_keys.value()));
    TlsView {
        connections: process.tls_connections.value(),
        connections_max: process.tls_connections_max.load(Relaxed),
        connections_total: tls_clients + traffic.sum(|part| part.tls_servers.value()),
        client_rate: RateView::of(&process.rates.tls_clients, traffic.sum(|part| part.tls_accepted.value()), now_ms),
        client_rate_limit: process.tls_rate_limit.load(Relaxed),
        client_keys: RateView::of(&process.rates.tls_client_keys, client_keys, now_ms),
        server_keys: RateView::of(&process.rates.tls_server_keys, server_keys, now_ms),
        lookups,
        misses,
    }
}

fn process_view(shared: &Shared, instance: &Instance, product: &Product, now_ms: u64) -> ProcessView {
    let process = &shared.process;
    let global = &instance.config.global;
    let traffic = &process.traffic;
    let connections_total = traffic.sum(|part| part.connections.value());
    let requests_total = traffic.sum(|part| part.requests.value());
    let bytes_out = traffic.sum(|part| part.bytes_out.value());
    let sessions = instance.proxies.iter().map(|proxy| proxy.frontend.traffic.sum(|part| part.sessions.value())).sum();
    let open = instance.proxies.iter().filter(|proxy| !proxy.stopped.load(Relaxed));
    let listeners = open.map(|proxy| proxy.listeners.len()).sum::<usize>() + other_listeners(&instance.config);
    let tainted = u32::from(global.uses_experimental) | u32::from(process.acted_experimentally.load(Relaxed)) << 1;
    let connections = process.connections.value();
    let descriptors_max = descriptors_max();
    let hard_maxconn = hard_maxconn(&instance.config);
    let (tasks, tasks_ready) = process.tasks();
    ProcessView {
        product: product.clone(),
        pid: std::process::id(),
        workers: u32::try_from(process.workers).unwrap_or(u32::MAX),
        uptime: Duration::from_millis(now_ms),
        started: process.started_at.duration_since(UNIX_EPOCH).unwrap_or_default(),
        descriptors_max,
        memory_max_mb: global.memory_max_mb,
        // 0 is no limit of its own.
        connections_max: match process.maxconn.load(Relaxed) {
            0 => hard_maxconn,
            limit => limit,
        },
        connections_hard_max: hard_maxconn,
        connections,
        connections_total,
        requests_total,
        connection_rate: RateView::of(&process.rates.connections, connections_total, now_ms),
        connection_rate_limit: process.connection_rate_limit.load(Relaxed),
        session_rate: RateView::of(&process.rates.sessions, sessions, now_ms),
        session_rate_limit: process.session_rate_limit.load(Relaxed),
        request_rate: RateView::of(&process.rates.requests, requests_total, now_ms),
        tls: tls_view(process, now_ms),
        bytes_out,
        bytes_spliced: traffic.sum(|part| part.bytes_spliced.value()),
        compression_in: RateView::of(
            &process.rates.compression_in,
            traffic.sum(|part| part.compression_in.value()),
            now_ms,
        ),
        compression_out: RateView::of(
            &process.rates.compression_out,
            traffic.sum(|part| part.compression_out.value()),
            now_ms,
        ),
        compression_rate_limit: process.compression.rate_max.load(Relaxed),
        bytes_out_rate: RateView::of(&process.rates.bytes_out, bytes_out, now_ms),
        idle_percent: process.idle_percent(),
        memory_bytes: memory_bytes(),
        tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
        tasks_ready: u32::try_from(tasks_ready).unwrap_or(u32::MAX),
        pipes: Splice::open_count(),
        resolutions_failed: process.resolutions_failed.load(Relaxed),
        node: global.node.clone().unwrap_or_else(|| process.hostname.clone()),
        description: global.description.clone(),
        stopping: process.stopping.load(Relaxed),
        listeners: u32::try_from(listeners).unwrap_or(u32::MAX),
        commands: (process.commands.value(), process.commands_total.load(Relaxed)),
        tainted,
        logs_dropped: process.logs_dropped(),
        logs_received: process.log_receivers.received(),
        reloads: process.reloads.load(Relaxed),
        peers: shared.peers.counts(),
    }
}

/// Listeners that belong to no proxy.
fn other_listeners(config: &Config) -> usize {
    let peers = config.peers.iter().filter(|section| !section.disabled && section.bind.is_some()).count();
    let of_logs = |section: &LogForward| section.binds.len() + section.datagram_binds.len();
    config.global.stats_sockets.len() + peers + config.log_forwards.iter().map(of_logs).sum::<usize>()
}

fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Memory that is resident, 0 where the system does not tell.
fn memory_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let resident = pages.as_deref().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    resident.unwrap_or(0) * rustix::param::page_size() as u64
}

fn seconds_since(then_ms: u64, now_ms: u64) -> Option<u64> {
    (then_ms > 0).then(|| now_ms.saturating_sub(then_ms) / 1_000)
}

fn session_rate(side: &SideCounters, totals: &Totals, now_ms: u64) -> RateView {
    RateView::of(&side.session_rate, totals.sessions, now_ms)
}

fn request_rate(side: &SideCounters, totals: &Totals, now_ms: u64) -> RateView {
    RateView::of(&side.request_rate, totals.requests, now_ms)
}

fn level(gauge: &telemetry::Gauge) -> Level {
    Level { now: gauge.value(), max: gauge.max() }
}

/// How many times a worker has measured.
fn measured(http: bool) -> impl Fn(&Traffic) -> u64 {
    move |part| if http { part.requests.value() } else { part.sessions.value() }
}

/// Takes a proxy; a frontend without a limit of its own has that of the process.
fn proxy_view(proxy: &LiveProxy, now_ms: u64, limit: u32, detail: Detail) -> ProxyView {
    let settings = proxy.settings();
    let http = settings.mode == Mode::Http;
    let paused = proxy.paused.load(Relaxed) || proxy.stopped.load(Relaxed);
    ProxyView {
        id: settings.id,
        id_forced: settings.is_id_forced,
        name: settings.name.clone(),
        http,
        description: settings.description.clone(),
        frontend: settings.kind.has_frontend().then(|| frontend_view(proxy, now_ms, limit)),
        listeners: proxy
            .listeners
            .iter()
            .enumerate()
            .map(|(index, listener)| listener_view(proxy, index, listener, paused))
            .collect(),
        listeners_shown: settings.options.socket_stats,
        servers: proxy.servers.iter().filter_map(|server| server_view(proxy, &server, http, now_ms, detail)).collect(),
        backend: settings.kind.has_backend().then(|| backend_view(proxy, http, now_ms)),
        cache: CacheState::of(proxy),
    }
}

fn frontend_view(proxy: &LiveProxy, now_ms: u64, limit: u32) -> FrontendView {
    let side = &proxy.frontend;
    let totals = Totals::of(&side.traffic);
    FrontendView {
        state: match (proxy.stopped.load(Relaxed), proxy.paused.load(Relaxed)) {
            (true, _) => FrontendState::Stopped,
            (false, true) => FrontendState::Paused,
            (false, false) => FrontendState::Open,
        },
        sessions: level(&side.sessions),
        requests_in_flight: side.traffic.iter().map(|part| part.in_flight.value()).fold(0, u64::wrapping_add),
        sessions_limit: match proxy.maxconn.load(Relaxed) {
            0 => limit,
            own => own,
        },
        session_rate: session_rate(side, &totals, now_ms),
        session_rate_limit: proxy.settings().rate_limit_sessions,
        request_rate: request_rate(side, &totals, now_ms),
        connection_rate: RateView::of(&side.connection_rate, totals.connections, now_ms),
        totals,
    }
}

fn listener_view(proxy: &LiveProxy, index: usize, listener: &LiveListener, paused: bool) -> ListenerView {
    let bind = proxy.settings().binds.get(index);
    let limit = bind.and_then(|bind| bind.maxconn).unwrap_or(0);
    let sessions = level(&listener.side.sessions);
    let full = limit > 0 && sessions.now >= u64::from(limit);
    ListenerView {
        name: listener.name.clone(),
        id: listener.id,
        state: match (paused, full) {
            (true, _) => ListenerState::Waiting,
            (false, true) => ListenerState::Full,
            (false, false) => ListenerState::Open,
        },
        totals: Totals::of(&listener.side.traffic),
        sessions,
        sessions_limit: limit,
        place: match bind.map(|bind| &bind.address) {
            Some(BindAddress::Inet(address) | BindAddress::Quic(address)) => Place::Inet(*address),
            Some(BindAddress::Unix(path) | BindAddress::Abstract(path)) => Place::Unix(path.clone()),
            Some(BindAddress::Descriptor(_)) | None => Place::Unknown,
        },
    }
}

fn backend_view(proxy: &LiveProxy, http: bool, now_ms: u64) -> BackendView {
    let side = &proxy.backend;
    let totals = Totals::of(&side.traffic);
    let farm = proxy.farm();
    let settings = proxy.settings();
    let is_balanced = settings.dispatch.is_none() && !settings.options.transparent;
    BackendView {
        farm: farm.backend_stats(now_ms),
        times: Times::of(&side.traffic, measured(http)),
        sessions_limit: farm.config().fullconn,
        session_rate: session_rate(side, &totals, now_ms),
        request_rate: request_rate(side, &totals, now_ms),
        last_session: seconds_since(proxy.last_session_ms.load(Relaxed), now_ms),
        allbackups: farm.config().allbackups,
        cookie: settings.cookie.as_ref().map(|cookie| String::from_utf8_lossy(&cookie.name).into_owned()),
        algorithm: if is_balanced { farm.config().algorithm.name() } else { "none" },
        totals,
    }
}

/// The port of a server, or what is added to the client's, in 16 bits without a sign, as HAProxy keeps it.
fn shown_port(server: &LiveServer, port: u16) -> u16 {
    match server.port_rule() {
        ServerPort::Fixed(_) => port,
        ServerPort::Same => 0,
        ServerPort::Offset(offset) => u16::try_from(offset.rem_euclid(1 << 16)).unwrap_or(0),
    }
}

fn server_view(proxy: &LiveProxy, server: &LiveServer, http: bool, now_ms: u64, detail: Detail) -> Option<ServerView> {
    let id = balance::ServerId::new(server.index.0 as usize);
    let (farm, state) = {
        let farm = proxy.farm();
        (farm.server_stats(id, now_ms)?, detail.states.then(|| farm.snapshot(id, now_ms)).flatten())
    };
    let side = &server.side;
    let totals = Totals::of(&side.traffic);
    let config = &server.config;
    let idle = server.idle.value();
    let place = |address: Option<&ServerAddress>, port: Option<u16>| match (address, port) {
        (Some(ServerAddress::Ip(ip)), port) => Some(Place::Inet((*ip, port.unwrap_or(0)).into())),
        (_, Some(port)) => Some(Place::Port(port)),
        (_, None) => None,
    };
    let (check, agent) = (server.check_place(), server.agent_place());
    Some(ServerView {
        farm,
        state,
        id_forced: config.is_id_forced,
        times: Times::of(&side.traffic, measured(http)),
        sessions: level(&side.sessions),
        session_rate: session_rate(side, &totals, now_ms),
        request_rate: request_rate(side, &totals, now_ms),
        last_session: seconds_since(server.last_session_ms.load(Relaxed), now_ms),
        observed: config.observe.is_on(),
        rise: config.rise,
        used: Level { now: server.connections.value().saturating_sub(idle), max: server.connections.max() },
        idle,
        idle_by_worker: if detail.states {
            side.traffic.iter().map(|part| part.idle.value()).collect()
        } else {
            Vec::new()
        },
        idle_limit: config.pool_max_conn,
        purge_delay: config.pool_purge_delay,
        place: match server.target() {
            Target::Unresolved => Place::Port(server.port()),
            Target::Inet(address) => Place::Inet(SocketAddr::new(address.ip(), shown_port(server, address.port()))),
            Target::Unix(path) | Target::Abstract(path) => Place::Unix(path),
        },
        host_name: server.host().map(|host| host.to_string()),
        service: config.service.clone(),
        check_place: place(check.address.as_ref(), check.port),
        agent_place: place(agent.address.as_ref(), agent.port),
        cookie: proxy.cookie_of(server).map(|cookie| String::from_utf8_lossy(&cookie).into_owned()),
        totals,
    })
}
