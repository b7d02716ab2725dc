//! The running edge as plain numbers and names, taken at one moment: what every form of the statistics is made from.

use std::{borrow::Cow, net::SocketAddr, sync::Arc, time::Duration};

use balance::OperationalState;
use live::{cache_state::CacheState, counters::Traffic, files::FileNumbers, rates::RateWindow};
use telemetry::PerWorker;

/// How much a snapshot takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// What outlives a restart as well ([`ServerView::state`]).
    pub states: bool,
}

/// The whole edge at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The process.
    pub process: ProcessView,
    /// Its proxies in the order of the configuration, without disabled ones.
    pub proxies: Vec<ProxyView>,
    /// Stick tables, in the order in which HAProxy lists them.
    pub tables: Vec<TableView>,
    /// Certificates that come by themselves.
    pub certificates: Vec<acme::Status>,
    /// Numbers of the files of backends.
    pub files: Vec<FileNumbers>,
}

/// A stick table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableView {
    /// Its name.
    pub name: Arc<str>,
    /// The type of its keys.
    pub key: &'static str,
    /// Entries that it may have.
    pub size: u32,
    /// Entries that it has.
    pub used: u32,
}

/// What the program calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// `Name`.
    pub name: Cow<'static, str>,
    /// `Version`.
    pub version: Cow<'static, str>,
    /// `Release_date`.
    pub release_date: Cow<'static, str>,
}

impl Default for Product {
    fn default() -> Self {
        Self {
            name: Cow::Borrowed("Tidegate"),
            version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
            release_date: Cow::Borrowed(""),
        }
    }
}

/// Events a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateView {
    /// Now.
    pub now: u64,
    /// Most in a second so far.
    pub max: u64,
}

impl RateView {
    /// Of a counter that stands at `total`.
    #[must_use]
    pub fn of(window: &RateWindow, total: u64, now_ms: u64) -> Self {
        Self { now: window.rate(total, now_ms), max: window.most(total, now_ms) }
    }
}

/// TLS of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsView {
    /// Connections over which it is spoken, with clients and with servers.
    pub connections: u64,
    /// The same, so far.
    pub connections_total: u64,
    /// Most of them at a time; 0 is no limit.
    pub connections_max: u32,
    /// Clients that begin to speak it, a second.
    pub client_rate: RateView,
    /// Most of them in a second; 0 is no limit.
    pub client_rate_limit: u32,
    /// Handshakes with clients that make a key, a second.
    pub client_keys: RateView,
    /// Handshakes with servers that make a key, a second.
    pub server_keys: RateView,
    /// Sessions that were looked for.
    pub lookups: u64,
    /// Those of them that were not there.
    pub misses: u64,
}

impl TlsView {
    /// Percent of clients that needed no new key, of those in the last second, as HAProxy rounds it.
    #[must_use]
    pub fn reuse_percent(&self) -> u64 {
        let (all, keys) = (self.client_rate.now, self.client_keys.now);
        if keys < all { 100 - (100 * keys + (all - 1) / 2) / all } else { 0 }
    }
}

/// The process at one moment.
#[derive(Clone, Debug, Default)]
pub struct ProcessView {
    /// What it calls itself.
    pub product: Product,
    /// Process id.
    pub pid: u32,
    /// Workers.
    pub workers: u32,
    /// Time since it started.
    pub uptime: Duration,
    /// When it started, since the epoch.
    pub started: Duration,
    /// Descriptors it may open.
    pub descriptors_max: u64,
    /// Megabytes that the process may use (`-m`), 0 for no limit.
    pub memory_max_mb: u64,
    /// Connections it may have.
    pub connections_max: u32,
    /// Greatest value that `set maxconn global` may give.
    pub connections_hard_max: u32,
    /// Peers that there are connections with, and those of them that have greeted each other.
    pub peers: (usize, usize),
    /// Connections now.
    pub connections: u64,
    /// Connections so far.
    pub connections_total: u64,
    /// Requests so far.
    pub requests_total: u64,
    /// Connections a second.
    pub connection_rate: RateView,
    /// `maxconnrate`.
    pub connection_rate_limit: u32,
    /// Sessions a second.
    pub session_rate: RateView,
    /// `maxsessrate`.
    pub session_rate_limit: u32,
    /// Requests a second.
    pub request_rate: RateView,
    /// TLS.
    pub tls: TlsView,
    /// Bytes to clients so far.
    pub bytes_out: u64,
    /// Those of them that went through a pipe.
    pub bytes_spliced: u64,
    /// Bytes to clients a second.
    pub bytes_out_rate: RateView,
    /// Bytes given to compression in a second.
    pub compression_in: RateView,
    /// Bytes that it made of them.
    pub compression_out: RateView,
    /// Bytes that may be given to it in a second; 0 is no limit.
    pub compression_rate_limit: u64,
    /// Percent of the last second that workers waited; `None` while not known.
    pub idle_percent: Option<u32>,
    /// Bytes of memory in use, of the whole process.
    pub memory_bytes: u64,
    /// Tasks of the runtime.
    pub tasks: u32,
    /// Those of them that are ready to run.
    pub tasks_ready: u32,
    /// Pipes in use for splicing.
    pub pipes: u32,
    /// Names that did not resolve.
    pub resolutions_failed: u64,
    /// `node`.
    pub node: String,
    /// `description`.
    pub description: Option<String>,
    /// Whether it is on its way out.
    pub stopping: bool,
    /// Open listeners of all kinds.
    pub listeners: u32,
    /// Connections to the stats sockets now and so far.
    pub commands: (u64, u64),
    /// Bits that tell what of experiments was declared (1) and has been done (2).
    pub tainted: u32,
    /// Log lines that were dropped.
    pub logs_dropped: u64,
    /// Log lines that `log-forward` sections have received.
    pub logs_received: u64,
    /// Reloads so far.
    pub reloads: u64,
}

/// A proxy at one moment.
#[derive(Clone, Debug, Default)]
pub struct ProxyView {
    /// Its number.
    pub id: u32,
    /// Whether the number is set in the configuration.
    pub id_forced: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it speaks HTTP.
    pub http: bool,
    /// `description`.
    pub description: Option<String>,
    /// Its client side.
    pub frontend: Option<FrontendView>,
    /// Its listeners; only with `option socket-stats` do they have rows.
    pub listeners: Vec<ListenerView>,
    /// Whether its listeners have rows of their own (`option socket-stats`).
    pub listeners_shown: bool,
    /// Its servers.
    pub servers: Vec<ServerView>,
    /// Its server side.
    pub backend: Option<BackendView>,
    /// Its cache.
    pub cache: Option<CacheState>,
}

impl ProxyView {
    /// `http` or `tcp`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        if self.http { "http" } else { "tcp" }
    }
}

/// Sums over workers of [`Traffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is the sum of the counter of the same name")]
pub struct Totals {
    pub connections: u64,
    pub sessions: u64,
    pub balanced: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub spliced_in: u64,
    pub spliced_out: u64,
    pub denied_requests: u64,
    pub denied_responses: u64,
    pub denied_connections: u64,
    pub denied_sessions: u64,
    pub request_errors: u64,
    pub connection_errors: u64,
    pub response_errors: u64,
    pub retries: u64,
    pub redispatches: u64,
    pub failed_rewrites: u64,
    pub internal_errors: u64,
    pub client_aborts: u64,
    pub server_aborts: u64,
    pub requests: u64,
    pub responses: [u64; 6],
    pub connects: u64,
    pub reuses: u64,
    pub intercepted: u64,
    pub compression_in: u64,
    pub compression_out: u64,
    pub compression_bypassed: u64,
    pub compressed_responses: u64,
    pub cache_lookups: u64,
    pub cache_hits: u64,
    pub cache_saved: u64,
}

impl Totals {
    /// Adds up what the workers counted.
    #[must_use]
    pub fn of(traffic: &PerWorker<Traffic>) -> Self {
        let mut totals = Self::default();
        for part in traffic.iter() {
            totals.add(part);
        }
        totals
    }

    fn add(&mut self, part: &Traffic) {
        self.connections += part.connections.value();
        if let Some(compression) = part.compression.get() {
            self.compression_in += compression.taken.value();
            self.compression_out += compression.made.value();
            self.compression_bypassed += compression.bypassed.value();
            self.compressed_responses += compression.responses.value();
        }
        if let Some(cache) = part.cache.get() {
            self.cache_lookups += cache.lookups.value();
            self.cache_hits += cache.hits.value();
            self.cache_saved += cache.saved.value();
        }
        self.sessions += part.sessions.value();
        self.balanced += part.balanced.value();
        self.bytes_in += part.bytes_in.value();
        self.bytes_out += part.bytes_out.value();
        self.spliced_in += part.spliced_in.value();
        self.spliced_out += part.spliced_out.value();
        self.denied_requests += part.denied_requests.value();
        self.denied_responses += part.denied_responses.value();
        self.denied_connections += part.denied_connections.value();
        self.denied_sessions += part.denied_sessions.value();
        self.request_errors += part.request_errors.value();
        self.connection_errors += part.connection_errors.value();
        self.response_errors += part.response_errors.value();
        self.retries += part.retries.value();
        self.redispatches += part.redispatches.value();
        self.failed_rewrites += part.failed_rewrites.value();
        self.internal_errors += part.internal_errors.value();
        self.client_aborts += part.client_aborts.value();
        self.server_aborts += part.server_aborts.value();
        self.requests += part.requests.value();
        self.connects += part.connects.value();
        self.reuses += part.reuses.value();
        self.intercepted += part.intercepted.value();
        for (sum, counter) in self.responses.iter_mut().zip(&part.responses) {
            *sum += counter.value();
        }
    }

    /// Responses with a 5xx status.
    #[must_use]
    pub fn server_errors(&self) -> u64 {
        let [_, _, _, _, errors, _] = self.responses;
        errors
    }
}

/// Times in milliseconds: the mean of the last requests and the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In the queue.
    pub queue: Time,
    /// To connect.
    pub connect: Time,
    /// To the response.
    pub response: Time,
    /// To the end.
    pub total: Time,
}

/// A time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Mean of about the last thousand.
    pub mean: u64,
    /// Greatest.
    pub max: u64,
}

impl Times {
    /// The times that workers measured. `count` is what a worker has counted of that which was timed: its requests in
    /// HTTP mode, its balanced sessions in TCP mode.
    #[must_use]
    pub fn of(traffic: &PerWorker<Traffic>, count: impl Fn(&Traffic) -> u64) -> Self {
        let weight: u64 = traffic.iter().map(|part| count(part).min(telemetry::SlidingAverage::WINDOW)).sum();
        let time = |average: fn(&Traffic) -> &telemetry::SlidingAverage| {
            let sum = traffic.sum(|part| average(part).sum());
            let max = traffic.iter().map(|part| average(part).max()).max().unwrap_or(0);
            Time { mean: sum.div_ceil(weight.max(1)), max }
        };
        Self {
            queue: time(|part| &part.queue_time),
            connect: time(|part| &part.connect_time),
            response: time(|part| &part.response_time),
            total: time(|part| &part.total_time),
        }
    }
}

/// Sessions at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Now.
    pub now: u64,
    /// Most so far.
    pub max: u64,
}

/// Whether a frontend takes connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontendState {
    /// Yes.
    #[default]
    Open,
    /// Not for the time being (`disable frontend`).
    Paused,
    /// Never again (`shutdown frontend`).
    Stopped,
}

impl FrontendState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Open, Self::Paused, Self::Stopped];

    /// HAProxy's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Paused => "PAUSED",
            Self::Stopped => "STOP",
        }
    }
}

/// The client side of a proxy.
#[derive(Clone, Debug, Default)]
pub struct FrontendView {
    /// Whether it takes connections.
    pub state: FrontendState,
    /// Counters.
    pub totals: Totals,
    /// Sessions.
    pub sessions: Level,
    /// HTTP requests that have begun and not ended.
    pub requests_in_flight: u64,
    /// `maxconn`.
    pub sessions_limit: u32,
    /// Sessions a second.
    pub session_rate: RateView,
    /// `rate-limit sessions`.
    pub session_rate_limit: u32,
    /// Requests a second.
    pub request_rate: RateView,
    /// Connections a second.
    pub connection_rate: RateView,
}

/// Whether a listener takes connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenerState {
    /// Paused or waiting for room in the process.
    Waiting,
    /// Yes.
    #[default]
    Open,
    /// At its own limit.
    Full,
}

impl ListenerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Open, Self::Full];

    /// HAProxy's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Open => "OPEN",
            Self::Full => "FULL",
        }
    }
}

/// A listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerView {
    /// Its name.
    pub name: Arc<str>,
    /// Its number.
    pub id: u32,
    /// Whether it takes connections.
    pub state: ListenerState,
    /// Counters.
    pub totals: Totals,
    /// Sessions.
    pub sessions: Level,
    /// Its own `maxconn`, or 0.
    pub sessions_limit: u32,
    /// Where it listens.
    pub place: Place,
}

/// The server side of a proxy.
#[derive(Clone, Debug)]
pub struct BackendView {
    /// What its farm says.
    pub farm: balance::BackendStats,
    /// Counters.
    pub totals: Totals,
    /// Times.
    pub times: Times,
    /// `fullconn`.
    pub sessions_limit: u32,
    /// Sessions a second.
    pub session_rate: RateView,
    /// Requests a second; not among HAProxy's columns.
    pub request_rate: RateView,
    /// Seconds since the last session.
    pub last_session: Option<u64>,
    /// `option allbackups`.
    pub allbackups: bool,
    /// Its cookie's name.
    pub cookie: Option<String>,
    /// Its balancing algorithm, as statistics show it.
    pub algorithm: &'static str,
}

/// A server at one moment.
#[derive(Clone, Debug)]
pub struct ServerView {
    /// What its farm says.
    pub farm: balance::ServerStats,
    /// What outlives a restart; only on demand ([`Detail::states`]).
    pub state: Option<balance::ServerSnapshot>,
    /// Whether its number is set in the configuration.
    pub id_forced: bool,
    /// Counters.
    pub totals: Totals,
    /// Times.
    pub times: Times,
    /// Sessions.
    pub sessions: Level,
    /// Sessions a second.
    pub session_rate: RateView,
    /// Requests a second; not among HAProxy's columns.
    pub request_rate: RateView,
    /// Seconds since the last session.
    pub last_session: Option<u64>,
    /// Whether `observe` is on.
    pub observed: bool,
    /// `rise`.
    pub rise: u32,
    /// Connections in use.
    pub used: Level,
    /// Idle connections.
    pub idle: u64,
    /// Those of each worker.
    pub idle_by_worker: Vec<u64>,
    /// `pool-max-conn`, negative for no limit.
    pub idle_limit: i32,
    /// `pool-purge-delay`.
    pub purge_delay: Duration,
    /// Where it is.
    pub place: Place,
    /// Host name, when it has one.
    pub host_name: Option<String>,
    /// The service that it is a part of (SRV records).
    pub service: Option<String>,
    /// Port and address of its checks, when they are not the server's.
    pub check_place: Option<Place>,
    /// Port and address of agent checks, when they are not the server's.
    pub agent_place: Option<Place>,
    /// Its cookie.
    pub cookie: Option<String>,
}

/// Where a server or listener is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Not known yet, with the port if there is one.
    #[default]
    Unknown,
    /// Only a port, the address being another's.
    Port(u16),
    /// Address and port.
    Inet(SocketAddr),
    /// A unix socket.
    Unix(String),
}

impl Place {
    /// For people: HAProxy does not tell the path of a socket here.
    #[must_use]
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Inet(address) => Some(address.to_string()),
            Self::Unix(_) => Some("unix".to_owned()),
            Self::Unknown | Self::Port(_) => None,
        }
    }

    /// The address alone, `-` where there is none.
    #[must_use]
    pub fn ip(&self) -> String {
        match self {
            Self::Inet(address) => address.ip().to_string(),
            _ => "-".to_owned(),
        }
    }

    /// The port, 0 for none.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self {
            Self::Inet(address) => address.port(),
            Self::Port(port) => *port,
            _ => 0,
        }
    }
}

/// A server's state in one of five words, for Prometheus and the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Serves nothing.
    Down,
    /// Serves.
    Up,
    /// In maintenance.
    Maintenance,
    /// Serves only sessions that are bound to it.
    Drain,
    /// The same, by its own wish.
    NoBalancing,
}

impl Condition {
    /// Every one, in the order of the exporter.
    pub const ALL: [Self; 5] = [Self::Down, Self::Up, Self::Maintenance, Self::Drain, Self::NoBalancing];

    /// HAProxy's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Down => "DOWN",
            Self::Up => "UP",
            Self::Maintenance => "MAINT",
            Self::Drain => "DRAIN",
            Self::NoBalancing => "NOLB",
        }
    }

    /// Of a server.
    #[must_use]
    pub fn of(server: &balance::ServerStats) -> Self {
        if server.admin.is_maint() {
            return Self::Maintenance;
        }
        match server.state {
            OperationalState::Running | OperationalState::Starting if server.admin.is_drain() => Self::Drain,
            OperationalState::Running | OperationalState::Starting => Self::Up,
            OperationalState::Stopping => Self::NoBalancing,
            OperationalState::Stopped => Self::Down,
        }
    }
}

impl ServerView {
    /// Whether `;up` leaves it out: it is down or in maintenance and on no way back.
    #[must_use]
    pub fn hidden_when_down(&self) -> bool {
        self.farm.admin.is_maint()
            || (self.farm.state == OperationalState::Stopped
                && !matches!(self.farm.status, balance::ServerStatus::GoingUp(..)))
    }

    /// The result of its last check, where checks run.
    #[must_use]
    pub fn checked(&self) -> Option<balance::CheckStatus> {
        self.farm.check.as_ref().map(|check| check.status)
    }
}
