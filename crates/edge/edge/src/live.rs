//! A configuration that runs: proxies and servers with their state and numbers.
//!
//! An [`Instance`] is made from a checked configuration and replaced as a whole by a reload. What outlives reloads, the
//! process' own numbers, stands in [`Process`]. Numbers and server states of proxies that are still there after a reload
//! are carried over by name.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
    time::{Instant, SystemTime},
};

use haproxycfg::model::{self, Config, ProxyIndex, ServerIndex};
use telemetry::{Gauge, PerWorker};
use tokio::{runtime::RuntimeMetrics, sync::Notify};

use crate::{
    background::Background,
    capture::LastCapture,
    checks::CheckBoard,
    counters::{ProcessTraffic, Traffic},
    dynamic_cookie::DynamicCookie,
    logs::{LogTargets, Outputs},
    net::Namespaces,
    rates::RateWindow,
    resolve::LiveResolvers,
    servers::Servers,
    session::filter::CompressionLimits,
    stats::sampler::{ProcessRates, Sampler},
    stick::Tables,
};

/// Sessions are counted from here, requests from 0.
const SESSION_ID_FIRST: u64 = 1 << 48;

/// Workers at most, as HAProxy has threads.
pub const WORKERS_MAX: usize = 64;

/// A farm whose waiting requests are woken as tasks.
pub type Farm = balance::Farm<Waker>;

/// Takes what a farm has to tell: must not block, and is called on any worker.
pub type FarmEvents = dyn Fn(&LiveProxy, balance::Event) + Send + Sync;

/// What the listeners of a frontend are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerOrder {
    /// To refuse connections.
    Suspend,
    /// To take connections again.
    Resume,
    /// To end, until another configuration is loaded.
    Stop,
}

/// Tells the listeners of a frontend something, on all workers.
pub type SteerListeners = dyn Fn(&LiveProxy, ListenerOrder) + Send + Sync;

/// What belongs to the process and not to a configuration.
pub struct Process {
    /// When it started, monotonic: the zero of every `now_ms`.
    pub started: Instant,
    /// When it started, by the calendar.
    pub started_at: SystemTime,
    /// Workers.
    pub workers: usize,
    /// Counted by each worker.
    pub traffic: PerWorker<ProcessTraffic>,
    /// Events a second of the whole process.
    pub rates: ProcessRates,
    /// Client connections now and at most.
    pub connections: Gauge,
    /// `Maxconn`: `set maxconn global` changes it.
    pub maxconn: AtomicU32,
    /// `ConnRateLimit`: `set rate-limit connections global` changes it; 0 is none.
    pub connection_rate_limit: AtomicU32,
    /// `SessRateLimit`: `set rate-limit sessions global` changes it; 0 is none.
    pub session_rate_limit: AtomicU32,
    /// What compression may take and takes.
    pub compression: CompressionLimits,
    /// Set once a stop has begun.
    pub stopping: AtomicBool,
    /// Reloads so far.
    pub reloads: AtomicU64,
    /// Invalid messages so far.
    pub captures: AtomicU64,
    /// Source of the numbers of sessions, which are none of requests.
    pub next_session_id: AtomicU64,
    /// Source of unique ids.
    pub next_stream_id: AtomicU64,
    /// Counts servers that came and went at run time.
    pub server_changes: AtomicU64,
    /// Source of [`LiveServer::key`].
    pub next_server_key: AtomicU64,
    /// Whom to tell of servers that come and go; set once at start.
    pub check_board: OnceLock<Arc<CheckBoard>>,
    /// Handles the events of farms; set once at start.
    pub farm_events: OnceLock<Box<FarmEvents>>,
    /// Wakes the sessions of the server with that key; set once at start.
    pub wake_server: OnceLock<Box<dyn Fn(u64) + Send + Sync>>,
    /// Asks every worker about its sessions; set once at start.
    pub ask_sessions: OnceLock<Box<dyn Fn(crate::cli::AskSessions) + Send + Sync>>,
    /// Asks the other workers for an idle connection; set once at start.
    pub ask_idle: OnceLock<Box<dyn Fn(crate::session::borrow::Plea) + Send + Sync>>,
    /// Steers listeners; set once at start.
    pub steer_listeners: OnceLock<Box<SteerListeners>>,
    /// What log lines are sent through; set once at start.
    pub outputs: OnceLock<Arc<Outputs>>,
    /// What reading the running configuration had to say.
    pub startup_logs: Mutex<String>,
    /// Numbers of each worker's runtime, by worker.
    pub runtimes: Mutex<Vec<Option<RuntimeMetrics>>>,
    /// Names of servers that could not be looked up, so far.
    pub resolutions_failed: AtomicU64,
    /// Variables of the scope `proc`.
    pub variables: Arc<sample::ProcessVariables>,
    /// Network namespaces of servers.
    pub namespaces: Namespaces,
    /// The thread for what must not run on a worker.
    pub background: Background,
    /// Files that the program was loaded from, as `show libs` lists them; set once at start.
    pub libraries: OnceLock<String>,
    /// Name of the machine.
    pub hostname: String,
    /// Peers that share stick tables.
    pub peers: Arc<crate::peers::Hub>,
    /// `log-forward` sections, and what sends rings to their servers.
    pub log_receivers: crate::logs::Receivers,
    /// Connections to the stats sockets.
    pub commands: Gauge,
    /// Told when a connection has ended while listeners wait for room.
    pub room: Notify,
    /// Listeners that wait for room.
    pub waiting_listeners: AtomicU32,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Process").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Process {
    /// A process with `workers` workers that starts now.
    #[must_use]
    pub fn new(workers: usize, started: Instant, started_at: SystemTime) -> Self {
        Self {
            started,
            started_at,
            workers,
            traffic: PerWorker::new(workers),
            rates: ProcessRates::default(),
            connections: Gauge::default(),
            maxconn: AtomicU32::new(0),
            connection_rate_limit: AtomicU32::new(0),
            session_rate_limit: AtomicU32::new(0),
            compression: CompressionLimits::default(),
            stopping: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            captures: AtomicU64::new(0),
            next_session_id: AtomicU64::new(SESSION_ID_FIRST),
            next_stream_id: AtomicU64::new(0),
            server_changes: AtomicU64::new(0),
            next_server_key: AtomicU64::new(1),
            check_board: OnceLock::new(),
            farm_events: OnceLock::new(),
            wake_server: OnceLock::new(),
            ask_sessions: OnceLock::new(),
            ask_idle: OnceLock::new(),
            steer_listeners: OnceLock::new(),
            outputs: OnceLock::new(),
            startup_logs: Mutex::default(),
            runtimes: Mutex::default(),
            resolutions_failed: AtomicU64::new(0),
            variables: Arc::default(),
            namespaces: Namespaces::default(),
            background: Background::default(),
            libraries: OnceLock::new(),
            peers: Arc::default(),
            log_receivers: crate::logs::Receivers::default(),
            commands: Gauge::default(),
            room: Notify::new(),
            waiting_listeners: AtomicU32::new(0),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// Log lines that did not arrive.
    #[must_use]
    pub fn logs_dropped(&self) -> u64 {
        let lost = |counters: &crate::logs::Counters| counters.dropped() + counters.failed();
        self.outputs.get().map_or(0, |outputs| lost(outputs.counters()))
    }

    /// Shows the numbers of a worker's runtime from now on.
    pub fn watch_runtime(&self, worker: usize, metrics: RuntimeMetrics) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = (worker + 1).saturating_sub(runtimes.len());
        runtimes.extend(std::iter::repeat_n(None, missing));
        if let Some(place) = runtimes.get_mut(worker) {
            *place = Some(metrics);
        }
    }

    /// Tasks of all workers, and those of them that are ready to run.
    #[must_use]
    pub fn tasks(&self) -> (usize, usize) {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runtimes.iter().flatten();
        known.fold((0, 0), |(alive, ready), runtime| {
            (alive + runtime.num_alive_tasks(), ready + runtime.global_queue_depth())
        })
    }

    /// Milliseconds from the start of the process to `now`.
    #[must_use]
    pub fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

/// A running configuration.
#[derive(Debug)]
pub struct Instance {
    /// What it runs.
    pub config: Arc<Config>,
    /// `tune.vars.*-max-size`.
    pub variable_limits: Arc<sample::VariableLimits>,
    /// Which load of the configuration this is, from 1.
    pub generation: u64,
    /// In the order of [`Config::proxies`].
    pub proxies: Vec<Arc<LiveProxy>>,
    /// Stick tables.
    pub tables: Arc<Tables>,
    /// Proxies with a backend side by name.
    pub backends: HashMap<Arc<str>, ProxyIndex>,
    /// In the order of [`Config::resolvers`].
    pub resolvers: Vec<Arc<LiveResolvers>>,
    /// The process it runs in.
    pub process: Arc<Process>,
    /// The `log` lines of the `global` section.
    pub log_targets: LogTargets,
}

/// A proxy that runs.
#[derive(Debug)]
pub struct LiveProxy {
    /// Its place in the configuration.
    pub index: ProxyIndex,
    /// The configuration that holds it.
    pub config: Arc<Config>,
    /// The process it runs in.
    pub process: Arc<Process>,
    /// Its servers' loads, states, checks and queues.
    pub farm: Mutex<Farm>,
    /// How it hashes keys.
    pub hasher: balance::Hasher,
    /// What it does after a failed attempt.
    pub retry: balance::RetryPolicy,
    /// In the order of [`model::Proxy::servers`]; runtime additions behind.
    pub servers: Servers,
    /// `cookie ... dynamic`, and what commands made of it.
    pub dynamic_cookie: DynamicCookie,
    /// Where everything goes without balancing (`dispatch`, `option transparent`): a server that is neither named, counted
    /// nor checked.
    pub direct: Option<Arc<LiveServer>>,
    /// Its listeners in the order of [`model::Proxy::binds`].
    pub listeners: Vec<LiveListener>,
    /// Client side.
    pub frontend: Arc<Side>,
    /// Server side.
    pub backend: Arc<Side>,
    /// `set maxconn frontend`.
    pub maxconn: AtomicU32,
    /// `disable frontend`: accepts nothing.
    pub paused: AtomicBool,
    /// `shutdown frontend`: accepts nothing ever again.
    pub stopped: AtomicBool,
    /// `lastsess` of the backend: milliseconds since the process started, 0 for never.
    pub last_session_ms: AtomicU64,
    /// Where its log lines go.
    pub log_targets: LogTargets,
    /// Log lines so far.
    pub log_count: AtomicU64,
    /// The last invalid request of a client.
    pub invalid_request: LastCapture,
    /// The last invalid response of a server.
    pub invalid_response: LastCapture,
}

/// The numbers of one side of a proxy, or of a server or listener.
#[derive(Debug)]
pub struct Side {
    /// Counted by each worker.
    pub traffic: PerWorker<Traffic>,
    /// `scur`, `smax`.
    pub sessions: Gauge,
    /// Sessions a second.
    pub session_rate: RateWindow,
    /// Requests a second.
    pub request_rate: RateWindow,
    /// Connections a second.
    pub connection_rate: RateWindow,
}

impl Side {
    /// All zero.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            traffic: PerWorker::new(workers),
            sessions: Gauge::default(),
            session_rate: RateWindow::default(),
            request_rate: RateWindow::default(),
            connection_rate: RateWindow::default(),
        }
    }
}

/// A listener that runs.
#[derive(Debug)]
pub struct LiveListener {
    /// Its name for statistics (`sock-1` without one).
    pub name: Arc<str>,
    /// Its number for statistics.
    pub id: u32,
    /// Its numbers.
    pub side: Arc<Side>,
}

/// A server that runs.
#[derive(Debug)]
pub struct LiveServer {
    /// The process it runs in.
    pub process: Arc<Process>,
    /// Unique in the process; kept over a reload that leaves the server as it is.
    pub key: u64,
    /// Its backend.
    pub proxy: ProxyIndex,
    /// Its place there and in the farm.
    pub index: ServerIndex,
    /// What the configuration says.
    pub config: model::Server,
    /// Where it is depends on what the client connected to (no port, or `0.0.0.0`).
    pub is_relative: bool,
    /// Where connections go now: resolved, or changed at run time.
    pub target: RwLock<Target>,
    /// Counts changes of `target`, so that pooled connections to the old one are dropped.
    pub target_epoch: AtomicU64,
    /// Its host name now: that of the configuration, of a command, or of the service that it is a part of.
    pub host: Mutex<Option<Arc<str>>>,
    /// The port that it has when its address is known again.
    pub lost_port: AtomicU16,
    /// What a command made of the port: [`PORT_AS_CONFIGURED`], [`PORT_FIXED`], or what is added to the client's.
    pub port_map: AtomicI32,
    /// Where its checks go, if not where it is; a command may change it.
    pub check_place: Mutex<CheckPlace>,
    /// How its agent is asked; a command may change it.
    pub agent: Mutex<Agent>,
    /// Numbers.
    pub side: Arc<Side>,
    /// Connections open to it, in use or idle.
    pub connections: Arc<Gauge>,
    /// Idle connections in all workers' pools.
    pub idle: Arc<Gauge>,
    /// `lastsess`: milliseconds since the process started, 0 for never.
    pub last_session_ms: AtomicU64,
    /// Counts the times its sessions were ordered to shut down, with the last cause in the lowest byte; sessions
    /// compare, also those that began before a reload.
    pub shutdown_epoch: Arc<AtomicU64>,
    /// `del server`: one of the configuration that is no longer there.
    pub is_gone: AtomicBool,
    /// A server that came at run time tracks it, or did.
    pub is_followed: AtomicBool,
}

/// [`LiveServer::port_map`]: no command has changed it.
pub const PORT_AS_CONFIGURED: i32 = i32::MIN;
/// [`LiveServer::port_map`]: it is that of the target.
pub const PORT_FIXED: i32 = i32::MAX;

/// What of a check's destination is not the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPlace {
    /// The address.
    pub address: Option<model::ServerAddress>,
    /// The port.
    pub port: Option<u16>,
}

/// How a server's agent is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Where.
    pub place: CheckPlace,
    /// What it is sent; may be empty.
    pub question: Vec<u8>,
}

impl Agent {
    /// As the configuration says: what it says of checks goes for the agent too.
    #[must_use]
    pub fn of(server: &model::Server) -> Self {
        let address = server.agent_address.map(model::ServerAddress::Ip).or_else(|| server.check_address.clone());
        let place = CheckPlace { address, port: server.agent_port.or(server.check_port) };
        Self { place, question: server.agent_send.clone() }
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Not known: the name has not resolved.
    Unresolved,
    /// TCP; port 0 stands for the port rules of the configuration.
    Inet(SocketAddr),
    /// Unix socket by path.
    Unix(String),
    /// Abstract unix socket.
    Abstract(String),
}

impl LiveProxy {
    /// What the configuration says of it.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "a live proxy is made for an index of its own configuration")]
    pub fn settings(&self) -> &model::Proxy {
        &self.config.proxies[self.index.0 as usize]
    }

    /// Its farm, whoever else holds it at the moment. To change it, use
    /// [`LiveProxy::with_farm`], which also does what the farm asks for afterwards.
    pub fn farm(&self) -> MutexGuard<'_, Farm> {
        let mut farm = self.farm.lock().unwrap_or_else(PoisonError::into_inner);
        farm.set_streams(u32::try_from(self.backend.sessions.value()).unwrap_or(u32::MAX));
        farm
    }

    /// Works on the farm and then does what the farm asks for: wakes the requests that may go, and passes its events on to
    /// whoever handles them for the process ([`Process::farm_events`]).
    pub fn with_farm<R>(&self, work: impl FnOnce(&mut Farm) -> R) -> R {
        let mut farm = self.farm();
        let result = work(&mut farm);
        loop {
            // NOTE: neither wakers nor events are acted on under the lock.
            let (wake, event) = (farm.poll_wake(), farm.poll_event());
            if wake.is_none() && event.is_none() {
                return result;
            }
            drop(farm);
            if let Some(waker) = wake {
                waker.wake();
            }
            if let (Some(event), Some(events)) = (event, self.process.farm_events.get()) {
                events(self, event);
            }
            farm = self.farm();
        }
    }

    /// What a worker counts for one of its listeners, if anyone wants to know (`option socket-stats`).
    #[must_use]
    pub fn listener_traffic(&self, listener: usize, worker: usize) -> Option<&Traffic> {
        let wanted = self.settings().options.socket_stats;
        self.listeners.get(listener).filter(|_| wanted).map(|listener| listener.side.traffic.of(worker))
    }

    /// The number of its next log line.
    pub fn next_log(&self) -> u64 {
        self.log_count.fetch_add(1, Relaxed)
    }

    /// The server at a place.
    #[must_use]
    pub fn server(&self, index: ServerIndex) -> Option<Arc<LiveServer>> {
        self.servers.get(index.0 as usize)
    }
}

impl LiveServer {
    /// A server of which nothing is known yet but its configuration.
    #[must_use]
    pub fn new(
        process: &Arc<Process>,
        proxy: ProxyIndex,
        index: ServerIndex,
        config: model::Server,
        workers: usize,
    ) -> Self {
        Self {
            process: Arc::clone(process),
            key: process.next_server_key.fetch_add(1, Relaxed),
            proxy,
            index,
            target: RwLock::new(crate::assemble::target(&config)),
            target_epoch: AtomicU64::new(0),
            is_relative: crate::assemble::is_relative(&config),
            host: Mutex::new(config.fqdn.as_deref().map(Into::into)),
            lost_port: AtomicU16::new(crate::assemble::configured_port(&config)),
            port_map: AtomicI32::new(PORT_AS_CONFIGURED),
            check_place: Mutex::new(CheckPlace { address: config.check_address.clone(), port: config.check_port }),
            agent: Mutex::new(Agent::of(&config)),
            side: Arc::new(Side::new(workers)),
            connections: Arc::default(),
            idle: Arc::default(),
            last_session_ms: AtomicU64::new(0),
            shutdown_epoch: Arc::default(),
            is_gone: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
            config,
        }
    }

    /// Where its checks go now, if not where it is.
    #[must_use]
    pub fn check_place(&self) -> CheckPlace {
        self.check_place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where its agent is asked now, as far as that is not the server's own place.
    #[must_use]
    pub fn agent_place(&self) -> CheckPlace {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).place.clone()
    }

    /// What its agent is sent now.
    #[must_use]
    pub fn agent_question(&self) -> Vec<u8> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).question.clone()
    }

    /// Where connections go now.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How its port follows from the client's.
    #[must_use]
    pub fn port_rule(&self) -> model::ServerPort {
        match self.port_map.load(Relaxed) {
            PORT_AS_CONFIGURED => self.config.port,
            PORT_FIXED => model::ServerPort::Fixed(0),
            offset => model::ServerPort::Offset(offset),
        }
    }

    /// Whether where connections go depends on the client: [`LiveServer::is_relative`], or a command said so.
    #[must_use]
    pub fn leads_elsewhere(&self) -> bool {
        self.is_relative || !matches!(self.port_map.load(Relaxed), PORT_AS_CONFIGURED | PORT_FIXED)
    }

    /// Sends connections elsewhere from now on; pooled ones to the old place are dropped.
    pub fn retarget(&self, target: Target) {
        *self.target.write().unwrap_or_else(PoisonError::into_inner) = target;
        self.target_epoch.fetch_add(1, Relaxed);
    }

    /// Its host name now.
    #[must_use]
    pub fn host(&self) -> Option<Arc<str>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it another host name.
    pub fn rename(&self, host: Option<&str>) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = host.map(Into::into);
    }

    /// Its port, also while it has no address.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self.target() {
            Target::Inet(address) => address.port(),
            Target::Unresolved => self.lost_port.load(Relaxed),
            Target::Unix(_) | Target::Abstract(_) => 0,
        }
    }

    /// Gives it another port.
    pub fn set_port(&self, port: u16) {
        self.lost_port.store(port, Relaxed);
        if let Target::Inet(address) = self.target()
            && address.port() != port
        {
            self.retarget(Target::Inet(SocketAddr::new(address.ip(), port)));
        }
    }

    /// Its address is not known any more.
    pub fn lose_address(&self) {
        self.lost_port.store(self.port(), Relaxed);
        if self.target() != Target::Unresolved {
            self.retarget(Target::Unresolved);
        }
    }

    /// Ends every session that this server serves (`shutdown sessions server`, `on-marked-down shutdown-sessions`), with
    /// this cause in their termination states.
    pub fn shut_sessions(&self, cause: u8) {
        let next = |epoch: u64| (((epoch >> 8) + 1) << 8) | u64::from(cause);
        let _ = self.shutdown_epoch.fetch_update(Relaxed, Relaxed, |epoch| Some(next(epoch)));
        if let Some(wake) = self.process.wake_server.get() {
            wake(self.key);
        }
    }

    /// What [`LiveServer::shut_cause`] compares with.
    #[must_use]
    pub fn shut_mark(&self) -> u64 {
        self.shutdown_epoch.load(Relaxed)
    }

    /// Why its sessions have been ordered to end since the mark was taken, if they have.
    #[must_use]
    pub fn shut_cause(&self, mark: u64) -> Option<u8> {
        let epoch = self.shutdown_epoch.load(Relaxed);
        let [cause, ..] = epoch.to_le_bytes();
        (epoch != mark).then_some(cause)
    }
}

impl Instance {
    /// The variables of a connection that has none of its own yet.
    #[must_use]
    pub fn stream_variables(&self) -> sample::StreamVariables {
        sample::StreamVariables::new(Arc::clone(&self.process.variables), Arc::clone(&self.variable_limits))
    }

    /// The proxy at a place.
    #[must_use]
    pub fn proxy(&self, index: ProxyIndex) -> Option<&Arc<LiveProxy>> {
        self.proxies.get(index.0 as usize)
    }

    /// The `resolvers` section of that name.
    #[must_use]
    pub fn resolvers_named(&self, name: &str) -> Option<&Arc<LiveResolvers>> {
        self.resolvers.iter().find(|section| *section.config.name == *name)
    }

    /// The proxy with a backend side of that name.
    #[must_use]
    pub fn backend(&self, name: &str) -> Option<&Arc<LiveProxy>> {
        self.backends.get(name).and_then(|index| self.proxy(*index))
    }
}

/// What every worker, check, log and command sees: the process and the instance that runs now.
#[derive(Debug)]
pub struct Shared {
    /// The process.
    pub process: Arc<Process>,
    /// What happened second by second.
    pub sampler: Sampler,
    instance: RwLock<Arc<Instance>>,
}

impl Shared {
    /// Runs `instance`.
    #[must_use]
    pub fn new(process: Arc<Process>, instance: Arc<Instance>) -> Self {
        Self { process, sampler: Sampler::default(), instance: RwLock::new(instance) }
    }

    /// The instance that runs now. Workers keep their own copy for the request path and are told of a new one.
    #[must_use]
    pub fn instance(&self) -> Arc<Instance> {
        Arc::clone(&self.instance.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the instance and returns the one before.
    pub fn replace(&self, instance: Arc<Instance>) -> Arc<Instance> {
        std::mem::replace(&mut *self.instance.write().unwrap_or_else(PoisonError::into_inner), instance)
    }
}
