//! Making an instance that runs from a checked configuration, keeping what the one before had learned.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use balance::{
    Algorithm as FarmAlgorithm, CheckConfig, FarmConfig, HashConfig, HashType, ProxyType, RetryPolicy, ServerConfig,
    ServerId, UriOptions, probe::Window,
};
use haproxycfg::model::{
    self, Algorithm, Config, Proxy, ProxyIndex, ProxyKind, ServerAddress, ServerIndex, ServerPort,
};
use logs::{Identity, LogTargets};
use net::Target;

use crate::{
    caches::LiveCache,
    capture::LastCapture,
    counters::SideCounters,
    files::LiveFiles,
    insight::CacheInsight,
    instance::Instance,
    limits::{IdleMarks, hard_maxconn},
    process::Process,
    programs::ProgramPlaces,
    proxy::{Accelerator, DynamicCookie, Farm, FarmObserver, LiveListener, LiveProxy, LiveTls, Servers, SharedCache},
    resolvers,
    server::{Agent, CheckPlace, LiveServer, PORT_AS_CONFIGURED, configured_port, connector, is_relative, target},
    tables::Tables,
    tls_store::TlsStore,
    variables,
};

/// What an instance is made with.
#[derive(Debug)]
pub struct Assembly<'a> {
    /// The process.
    pub process: &'a Arc<Process>,
    /// Who is told what happens to servers.
    pub observer: &'a Arc<dyn FarmObserver>,
    /// Who the logs say we are.
    pub identity: &'a Identity,
    /// Which load of the configuration this is.
    pub generation: u64,
    /// Workers that will run it.
    pub workers: usize,
    /// What runs now.
    pub previous: Option<&'a Instance>,
    /// What goes on running beside it: idle connections to where it has servers too are used by both.
    pub beside: &'a [Arc<Instance>],
    /// Seed of random numbers.
    pub seed: u64,
}

impl<'a> Assembly<'a> {
    /// The same, for an instance that runs beside these.
    #[must_use]
    pub fn with<'b>(&self, beside: &'b [Arc<Instance>]) -> Assembly<'b>
    where
        'a: 'b,
    {
        Assembly { beside, ..*self }
    }

    /// Makes the instance. States and numbers of proxies and servers that were there before are carried over by name.
    #[must_use]
    pub fn build(&self, config: Config) -> Arc<Instance> {
        self.process.maxconn.store(hard_maxconn(&config), Relaxed);
        self.process.connection_rate_limit.store(config.global.maxconnrate, Relaxed);
        self.process.compression.rate_max.store(config.global.tune.compression_rate_max, Relaxed);
        self.process.session_rate_limit.store(config.global.maxsessrate, Relaxed);
        self.process.tls_rate_limit.store(config.global.maxsslrate, Relaxed);
        self.process.tls_connections_max.store(config.global.maxsslconn, Relaxed);
        variables::set_global(&config, self.process);
        self.apart(config)
    }

    /// Makes an instance that runs beside another one: nothing of the process is changed.
    #[must_use]
    pub fn apart(&self, config: Config) -> Arc<Instance> {
        let config = Arc::new(config);
        let mut shared = self.connections_beside();
        let now_ms = self.process.milliseconds(Instant::now());
        let proxies: Vec<_> = config
            .proxies
            .iter()
            .zip(0..)
            .map(|(proxy, index)| Arc::new(self.proxy(&config, proxy, (ProxyIndex(index), now_ms), &mut shared)))
            .collect();
        for proxy in &proxies {
            if let Some(accelerator) = &proxy.accelerator {
                accelerator.find_backends(&proxies);
            }
        }
        let backends = config
            .proxies
            .iter()
            .zip(0..)
            .filter(|(proxy, _)| proxy.kind.has_backend())
            .map(|(proxy, index)| (Arc::clone(&proxy.name), ProxyIndex(index)))
            .collect::<HashMap<_, _>>();
        let log_targets = LogTargets::new(&config.global.logs, None, self.identity, &self.process.outputs);
        let tables = Tables::new(&config, self.previous.map(|previous| &*previous.tables), self.seed, now_ms);
        Arc::new(Instance {
            variable_limits: Arc::new(variable_limits(config.global.tune.vars_max_size)),
            generation: self.generation,
            resolvers: resolvers::assemble(&config, &proxies, self.process, self.seed),
            caches: config
                .caches
                .iter()
                .map(|section| LiveCache::new(section, self.previous.map_or(&[], |previous| &previous.caches)))
                .collect(),
            tables: Arc::new(tables),
            backends,
            idle_marks: IdleMarks::new(&config),
            process: Arc::clone(self.process),
            log_targets,
            tls: TlsStore::new(&config, &proxies),
            proxies,
            config,
        })
    }

    fn before(&self, proxy: &Proxy) -> Option<&LiveProxy> {
        self.previous?.proxies.iter().map(|before| &**before).find(|before| {
            let settings = before.settings();
            settings.name == proxy.name && settings.kind == proxy.kind
        })
    }

    /// The servers of what goes on running, one for each place.
    fn connections_beside(&self) -> Vec<Arc<LiveServer>> {
        let mut all: Vec<Arc<LiveServer>> = Vec::new();
        for server in self.beside.iter().flat_map(|instance| &instance.proxies).flat_map(|proxy| proxy.servers.iter()) {
            if all.iter().all(|known| known.key != server.key) {
                all.push(server);
            }
        }
        all
    }

    fn proxy(
        &self,
        config: &Arc<Config>,
        proxy: &Arc<Proxy>,
        (index, now_ms): (ProxyIndex, u64),
        shared: &mut Vec<Arc<LiveServer>>,
    ) -> LiveProxy {
        let before = self.before(proxy);
        let workers = self.workers;
        let farm_config = farm_config(config, proxy, index, self.seed.wrapping_add(u64::from(index.0)));
        let retry = retry_policy(proxy, &farm_config);
        let servers: Vec<ServerConfig> = proxy.servers.iter().map(|server| server_config(config, server)).collect();
        let mut farm = Farm::new(farm_config, servers, now_ms);
        if let Some(before) = before {
            carry_over(before, proxy, &mut farm, now_ms);
        }
        let live_servers: Vec<_> = proxy
            .servers
            .iter()
            .zip(0..)
            .map(|(server, place)| {
                let mut live = self.server(before, server, index, ServerIndex(place));
                share_connections(&mut live, shared);
                Arc::new(live)
            })
            .collect();
        let listeners = proxy
            .binds
            .iter()
            .zip(1_u32..)
            .map(|(bind, number)| LiveListener {
                name: bind.name.as_deref().map_or_else(|| format!("sock-{number}").into(), Into::into),
                id: bind.id.unwrap_or(number),
                side: Arc::new(SideCounters::new(workers)),
                tls: bind.tls.as_ref().map(|tls| LiveTls::new(bind, tls, config.global.tls, self.process)),
            })
            .collect();
        let side = |pick: fn(&LiveProxy) -> &Arc<SideCounters>| {
            before
                .filter(|before| before.frontend.traffic.iter().count() == workers)
                .map_or_else(|| Arc::new(SideCounters::new(workers)), |before| Arc::clone(pick(before)))
        };
        LiveProxy {
            index,
            config: Arc::clone(config),
            settings: Arc::clone(proxy),
            process: Arc::clone(self.process),
            observer: Arc::clone(self.observer),
            hasher: farm.hasher(),
            farm: Mutex::new(farm),
            retry,
            servers: Servers::new(live_servers),
            dynamic_cookie: DynamicCookie::new(proxy.cookie.as_ref()),
            direct: direct_server(proxy).map(|server| self.nameless_server(&server, index)),
            listeners,
            frontend: side(|before| &before.frontend),
            backend: side(|before| &before.backend),
            maxconn: AtomicU32::new(proxy.maxconn.unwrap_or(0)),
            paused: AtomicBool::new(false),
            stopped: AtomicBool::new(proxy.disabled),
            last_session_ms: AtomicU64::new(before.map_or(0, |before| before.last_session_ms.load(Relaxed))),
            log_targets: LogTargets::new(&proxy.logs, proxy.log_tag.as_deref(), self.identity, &self.process.outputs),
            program_places: ProgramPlaces::of(&proxy.cgi),
            program_server: self.program_server(proxy, index),
            program_log: Arc::new(self.program_log(proxy)),
            log_count: AtomicU64::new(0),
            accelerator: proxy.accelerator.as_ref().and_then(|described| {
                let before = before.and_then(|before| before.accelerator.as_ref());
                Accelerator::new(described, before, &self.process.transaction_numbers)
            }),
            shared_cache: proxy
                .shared_cache
                .as_ref()
                .map(|described| SharedCache::new(described, before.and_then(|before| before.shared_cache.as_ref()))),
            files: self.files(config, proxy),
            insight: CacheInsight::default(),
            invalid_request: LastCapture::default(),
            invalid_response: LastCapture::default(),
        }
    }

    fn files(&self, config: &Config, proxy: &Proxy) -> Option<Arc<LiveFiles>> {
        let threads = self.process.disk_threads(config.global.tune.disk_threads);
        LiveFiles::new(&proxy.files, (&self.process.folders, threads), self.workers)
    }

    /// A server that is neither named, counted nor checked.
    fn nameless_server(&self, server: &model::Server, proxy: ProxyIndex) -> Arc<LiveServer> {
        Arc::new(self.server(None, server, proxy, ServerIndex(u32::MAX)))
    }

    /// What stands for a server where programs answer.
    fn program_server(&self, proxy: &Proxy, index: ProxyIndex) -> Option<Arc<LiveServer>> {
        let server = model::Server::at(ServerAddress::Unresolved, ServerPort::Fixed(0));
        (!proxy.cgi.is_empty() || crate::plugins::calls(proxy).next().is_some())
            .then(|| self.nameless_server(&server, index))
    }

    /// Where the complaints of a proxy's programs go.
    fn program_log(&self, proxy: &model::Proxy) -> LogTargets {
        match &proxy.fcgi_app {
            Some(app) => LogTargets::new(&app.logs, Some(&app.name), self.identity, &self.process.outputs),
            None if proxy.cgi.is_empty() => LogTargets::default(),
            None => LogTargets::new(&proxy.logs, Some("cgi"), self.identity, &self.process.outputs),
        }
    }

    fn server(
        &self,
        before: Option<&LiveProxy>,
        server: &model::Server,
        proxy: ProxyIndex,
        index: ServerIndex,
    ) -> LiveServer {
        let before = before.and_then(|before| before.servers.named(&server.name));
        let before = before.as_deref();
        let configured = target(server);
        let same_place = before.filter(|before| is_same_place(before, server));
        // Connections that were opened under other conditions are not for this one.
        let same_connections = same_place.filter(|before| speaks_the_same(before, server));
        let service_host = server.service_host.as_ref().map(|(host, _)| host.as_str());
        let configured_host = || server.fqdn.as_deref().or(service_host).map(Into::into);
        let host = same_place.map_or_else(configured_host, |before| before.host());
        LiveServer {
            process: Arc::clone(self.process),
            key: same_connections
                .map_or_else(|| self.process.next_server_key.fetch_add(1, Relaxed), |before| before.key),
            proxy,
            index,
            config: server.clone(),
            is_relative: is_relative(server),
            target: RwLock::new(same_place.map_or(configured, |before| before.target())),
            host: Mutex::new(host),
            lost_port: AtomicU16::new(same_place.map_or_else(|| configured_port(server), |before| before.port())),
            check_place: Mutex::new(CheckPlace { address: server.check_address.clone(), port: server.check_port }),
            agent: Mutex::new(Agent::of(server)),
            target_epoch: AtomicU64::new(same_place.map_or(0, |before| before.target_epoch.load(Relaxed))),
            port_map: AtomicI32::new(same_place.map_or(PORT_AS_CONFIGURED, |before| before.port_map.load(Relaxed))),
            side: before.map_or_else(|| Arc::new(SideCounters::new(self.workers)), |before| Arc::clone(&before.side)),
            connections: same_connections.map_or_else(Arc::default, |before| Arc::clone(&before.connections)),
            idle: same_connections.map_or_else(Arc::default, |before| Arc::clone(&before.idle)),
            unanswered: same_connections.map_or_else(Arc::default, |before| Arc::clone(&before.unanswered)),
            // An application that is configured anew is asked anew.
            fcgi_requests_max: AtomicU32::new(0),
            is_asked_values: AtomicBool::new(false),
            last_session_ms: AtomicU64::new(before.map_or(0, |before| before.last_session_ms.load(Relaxed))),
            shutdown_epoch: same_place.map_or_else(Arc::default, |before| Arc::clone(&before.shutdown_epoch)),
            is_gone: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
            tls: same_connections.and_then(|before| before.tls.clone()).or_else(|| connector(server)),
        }
    }
}

/// Has a server use the idle connections of one that goes on running elsewhere and is reached in the same way.
fn share_connections(server: &mut LiveServer, shared: &mut Vec<Arc<LiveServer>>) {
    let is_same = |other: &Arc<LiveServer>| {
        other.target() == server.target()
            && other.config.send_proxy.is_none()
            && server.config.send_proxy.is_none()
            && other.config.tls.is_none()
            && server.config.tls.is_none()
            && !other.is_relative
            && !server.is_relative
    };
    // NOTE: no two servers of an instance have one key.
    if let Some(at) = shared.iter().position(is_same) {
        let other = shared.swap_remove(at);
        server.key = other.key;
        server.connections = Arc::clone(&other.connections);
        server.idle = Arc::clone(&other.idle);
        server.target_epoch = AtomicU64::new(other.target_epoch.load(Relaxed));
    }
}

/// Where a proxy without balancing sends everything.
fn direct_server(proxy: &Proxy) -> Option<model::Server> {
    if !proxy.kind.has_backend() {
        return None;
    }
    match proxy.dispatch {
        Some(address) => Some(model::Server::at(ServerAddress::Ip(address.ip()), ServerPort::Fixed(address.port()))),
        // The client's own destination stands for an address that is none.
        None if proxy.options.transparent => {
            Some(model::Server::at(ServerAddress::Ip(std::net::Ipv4Addr::UNSPECIFIED.into()), ServerPort::Same))
        }
        None => None,
    }
}

/// States of servers that are still there, unless the new configuration says otherwise.
fn carry_over(before: &LiveProxy, proxy: &Proxy, farm: &mut Farm, now_ms: u64) {
    let old = before.farm();
    for (place, server) in proxy.servers.iter().enumerate() {
        let Some(old_server) = before.servers.named(&server.name) else { continue };
        let old_place = old_server.index.0 as usize;
        let unchanged = is_same_place(&old_server, server)
            && old_server.config.check == server.check
            && old_server.config.agent_check == server.agent_check
            && old_server.config.disabled == server.disabled
            && old_server.config.weight == server.weight;
        if unchanged && let Some(snapshot) = old.snapshot(ServerId::new(old_place), now_ms) {
            farm.restore(ServerId::new(place), &snapshot, now_ms);
        }
    }
}

/// Whether a server of a new configuration is where the one of that name was. One whose address was looked up may have
/// moved since the former configuration was read.
fn is_same_place(before: &LiveServer, server: &model::Server) -> bool {
    let (old, wanted) = (&before.config, target(server));
    let is_found = old.fqdn.is_some() || old.service.is_some();
    let has_moved_there = || {
        let now = before.target();
        match (&now, &wanted) {
            // The port of a service is not that of the configuration.
            (Target::Inet(now), Target::Inet(wanted)) if old.service.is_some() => now.ip() == wanted.ip(),
            _ => now == wanted,
        }
    };
    old.fqdn == server.fqdn && old.service == server.service && (target(old) == wanted || is_found && has_moved_there())
}

/// Whether a server is spoken to as before, by TLS under the same conditions or without.
fn speaks_the_same(before: &LiveServer, now: &model::Server) -> bool {
    if before.config.protocol != now.protocol {
        return false;
    }
    match (&before.tls, &now.tls) {
        (None, None) => true,
        // What was set at run time is gone: files are read again.
        (Some(before), Some(now)) => before.fingerprint() == now.fingerprint,
        _ => false,
    }
}

/// `tune.vars.*-max-size`; 0 is no limit.
fn variable_limits(sizes: [usize; 5]) -> sample::VariableLimits {
    let [global, process, session, transaction, request_response] =
        sizes.map(|size| Some(size).filter(|size| *size > 0));
    sample::VariableLimits { global, process, session, transaction, request_response }
}

/// How results of checks are counted, for one that says `window` or `threshold`.
fn window(server: &model::Server) -> Option<Window> {
    /// Varnish's, where one of them is not said.
    const STANDARD: (u8, u8) = (8, 3);
    if server.window.is_none() && server.threshold.is_none() {
        return None;
    }
    let threshold = server.threshold.unwrap_or(STANDARD.1);
    let size = server.window.unwrap_or(STANDARD.0.max(threshold));
    Some(Window::new(size.into(), threshold.into(), server.initial.map(u32::from)))
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn farm_config(config: &Config, proxy: &Proxy, index: ProxyIndex, seed: u64) -> FarmConfig {
    let balance = &proxy.balance;
    let positive = |number: usize| u32::try_from(number).ok().filter(|number| *number > 0);
    let algorithm = match &balance.algorithm {
        Algorithm::RoundRobin => FarmAlgorithm::RoundRobin,
        Algorithm::StaticRoundRobin => FarmAlgorithm::StaticRr,
        Algorithm::LeastConnections => FarmAlgorithm::LeastConn,
        Algorithm::First => FarmAlgorithm::First,
        Algorithm::Source => FarmAlgorithm::Source,
        Algorithm::Uri { whole, len, depth, path_only } => FarmAlgorithm::Uri(UriOptions {
            whole: *whole,
            path_only: *path_only,
            len: positive(*len),
            depth: positive(*depth),
        }),
        Algorithm::UrlParam { name, check_post } => {
            FarmAlgorithm::UrlParam { name: name.clone().into_bytes(), check_post: *check_post }
        }
        Algorithm::Header { name, use_domain_only } => {
            FarmAlgorithm::Header { name: name.clone().into_bytes(), use_domain_only: *use_domain_only }
        }
        Algorithm::RdpCookie { name } => FarmAlgorithm::RdpCookie { name: name.clone().into_bytes() },
        Algorithm::Hash => FarmAlgorithm::Expression,
        Algorithm::Random { draws } => FarmAlgorithm::Random { draws: *draws },
    };
    FarmConfig {
        name: proxy.name.to_string(),
        proxy_type: if proxy.kind == ProxyKind::Listen { ProxyType::Proxy } else { ProxyType::Backend },
        algorithm,
        hash: HashConfig {
            hash_type: if balance.consistent { HashType::Consistent } else { HashType::MapBased },
            function: balance.function,
            avalanche: balance.avalanche,
        },
        hash_balance_factor: balance.hash_balance_factor,
        allbackups: proxy.options.allbackups,
        redispatch: Some(proxy.options.redispatch).filter(|interval| *interval != 0),
        persist: proxy.options.persist,
        fullconn: config.fullconn(index, hard_maxconn(config)),
        log_health_checks: proxy.options.log_health_checks,
        spread_checks: config.global.spread_checks,
        seed,
    }
}

fn retry_policy(proxy: &Proxy, farm: &FarmConfig) -> RetryPolicy {
    RetryPolicy {
        retries: proxy.retries,
        redispatch: farm.redispatch,
        retry_on: proxy.retry_on,
        connect_timeout_ms: proxy.timeouts.connect.map(|time| u64::from(milliseconds(time))),
        is_hash: farm.algorithm.is_hash(),
    }
}

/// What a farm is told of a server.
#[must_use]
pub fn server_config(config: &Config, server: &model::Server) -> ServerConfig {
    let track = server.track.and_then(|(backend, place)| {
        let backend = config.proxies.get(backend.0 as usize)?;
        let followed = backend.servers.get(place.0 as usize)?;
        Some(format!("{}/{}", backend.name, followed.name))
    });
    ServerConfig {
        name: server.name.to_string(),
        id: server.id,
        weight: server.weight,
        backup: server.backup,
        maxconn: server.maxconn,
        minconn: server.minconn,
        maxqueue: server.maxqueue,
        slowstart_ms: u64::try_from(server.slowstart.as_millis()).unwrap_or(u64::MAX),
        disabled: server.disabled,
        check: server.check.then(|| CheckConfig {
            inter_ms: milliseconds(server.inter),
            fastinter_ms: server.fastinter.map(milliseconds),
            downinter_ms: server.downinter.map(milliseconds),
            rise: server.rise,
            fall: server.fall,
            window: window(server),
        }),
        // Neither fast nor slow, and one word is enough.
        agent: server.agent_check.then(|| CheckConfig {
            inter_ms: milliseconds(server.agent_inter),
            fastinter_ms: None,
            downinter_ms: None,
            rise: 1,
            fall: 1,
            window: None,
        }),
        observe: server.observe,
        error_limit: server.error_limit,
        on_error: server.on_error,
        shutdown_sessions_on_marked_down: server.on_marked_down_shutdown_sessions,
        shutdown_backup_sessions_on_marked_up: server.on_marked_up_shutdown_backup_sessions,
        hostname: server.fqdn.clone(),
        track,
    }
}
