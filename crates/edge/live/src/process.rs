//! What belongs to the process and not to a configuration: it outlives reloads.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime},
};

use accelerator::publication::Publication;
use haproxycfg::model::TlsTune;
use logs::Outputs;
use net::Namespaces;
use telemetry::{Gauge, PerWorker};
use tokio::{runtime::RuntimeMetrics, sync::Notify};
use vsm::VsmError;

use crate::{
    background::Background,
    changes::Changes,
    counters::{ProcessTraffic, SideCounters, Traffic},
    files::{DiskThreads, Folders},
    plugins::PluginHost,
    published::Published,
    rates::RateWindow,
};

/// Sessions are counted from here, requests from 0.
const SESSION_ID_FIRST: u64 = 1 << 48;

/// Reaches the sessions of all workers.
pub trait WakeSessions: Send + Sync {
    /// Has the sessions of the server with that key look at it again. Called on any thread; must not block.
    fn wake_sessions_of(&self, server_key: u64);
}

/// There are no sessions, as in an instance that is only looked at.
impl WakeSessions for () {
    fn wake_sessions_of(&self, _server_key: u64) {}
}

/// The rates of the process.
#[derive(Debug, Default)]
pub struct ProcessRates {
    /// Client connections.
    pub connections: RateWindow,
    /// Sessions of all frontends.
    pub sessions: RateWindow,
    /// Requests.
    pub requests: RateWindow,
    /// Bytes to clients.
    pub bytes_out: RateWindow,
    /// Clients that begin to speak TLS.
    pub tls_clients: RateWindow,
    /// Handshakes with clients that make a key.
    pub tls_client_keys: RateWindow,
    /// Handshakes with servers that make a key.
    pub tls_server_keys: RateWindow,
    /// Bytes given to compression.
    pub compression_in: RateWindow,
    /// Bytes that it made of them.
    pub compression_out: RateWindow,
}

/// What the compressions of the process may take and do.
#[derive(Debug, Default)]
pub struct CompressionLimits {
    /// `maxcomprate`, `set rate-limit http-compression global`: bytes a second; 0 is no limit.
    pub rate_max: AtomicU64,
    /// Bytes of memory that streams' encoders take now.
    pub memory: AtomicU64,
}

/// The share of idle time before it has been measured.
const IDLE_UNKNOWN: u32 = u32::MAX;

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
    /// Connections over which TLS is spoken, with clients and with servers.
    pub tls_connections: Gauge,
    /// Connections to servers now, idle ones included.
    pub server_connections: AtomicU64,
    /// `Maxconn`: `set maxconn global` changes it.
    pub maxconn: AtomicU32,
    /// `ConnRateLimit`: `set rate-limit connections global` changes it; 0 is none.
    pub connection_rate_limit: AtomicU32,
    /// `SessRateLimit`: `set rate-limit sessions global` changes it; 0 is none.
    pub session_rate_limit: AtomicU32,
    /// `SslRateLimit`: `set rate-limit ssl-sessions global` changes it; 0 is none.
    pub tls_rate_limit: AtomicU32,
    /// `MaxSslConns`; 0 is no limit.
    pub tls_connections_max: AtomicU32,
    /// What compression may take and takes.
    pub compression: CompressionLimits,
    /// Set once a stop has begun.
    pub stopping: AtomicBool,
    /// Reloads so far.
    pub reloads: AtomicU64,
    /// What changed lately, for the statistics page.
    pub changes: Changes,
    /// Invalid messages so far.
    pub captures: AtomicU64,
    /// Source of the numbers of sessions, which are none of requests.
    pub next_session_id: AtomicU64,
    /// Source of unique ids.
    pub next_stream_id: AtomicU64,
    /// Counts servers that came and went at run time.
    pub server_changes: AtomicU64,
    /// Source of [`LiveServer::key`](super::LiveServer::key).
    pub next_server_key: AtomicU64,
    /// Sessions of all workers.
    pub sessions: Arc<dyn WakeSessions>,
    /// What log lines are sent through.
    pub outputs: Arc<Outputs>,
    /// Percent of the last second that workers had nothing to do.
    idle_percent: AtomicU32,
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
    /// The thread that starts programs which answer requests, and sees them to their end: a slow disk beneath them holds up nothing else.
    pub programs: Background,
    /// Plugins, and the threads that run them.
    pub plugins: PluginHost,
    /// Threads that wait for disks.
    disk_threads: OnceLock<Arc<DiskThreads>>,
    /// Folders with files that backends answer with.
    pub folders: Folders,
    /// Name of the machine.
    pub hostname: String,
    /// `log-forward` sections, and what sends rings to their servers.
    pub log_receivers: logs::Receivers,
    /// Connections to the stats sockets.
    pub commands: Gauge,
    /// Connections to the stats sockets so far.
    pub commands_total: AtomicU64,
    /// Whether an experimental action has been taken.
    pub acted_experimentally: AtomicBool,
    /// What is published in Varnish's shared memory.
    published: OnceLock<Arc<Published>>,
    /// Source of numbers of transactions of programs of VCL.
    pub transaction_numbers: Arc<AtomicU64>,
    /// Told when a connection has ended while listeners wait for room.
    pub room: Notify,
    /// Listeners that wait for room.
    pub waiting_listeners: AtomicU32,
    /// Certificates that come by themselves.
    pub certificates: acme::Certificates,
    /// Sessions of TLS that clients may resume.
    tls_sessions: OnceLock<Arc<tls::Sessions>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Process").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Process {
    /// A process with `workers` workers that starts now.
    #[must_use]
    pub fn new(
        workers: usize,
        started: Instant,
        started_at: SystemTime,
        outputs: Arc<Outputs>,
        sessions: Arc<dyn WakeSessions>,
    ) -> Self {
        Self {
            started,
            started_at,
            workers,
            traffic: PerWorker::new(workers),
            rates: ProcessRates::default(),
            connections: Gauge::default(),
            tls_connections: Gauge::default(),
            server_connections: AtomicU64::new(0),
            maxconn: AtomicU32::new(0),
            connection_rate_limit: AtomicU32::new(0),
            session_rate_limit: AtomicU32::new(0),
            tls_rate_limit: AtomicU32::new(0),
            tls_connections_max: AtomicU32::new(0),
            compression: CompressionLimits::default(),
            stopping: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            changes: Changes::default(),
            captures: AtomicU64::new(0),
            next_session_id: AtomicU64::new(SESSION_ID_FIRST),
            next_stream_id: AtomicU64::new(0),
            server_changes: AtomicU64::new(0),
            next_server_key: AtomicU64::new(1),
            sessions,
            outputs,
            idle_percent: AtomicU32::new(IDLE_UNKNOWN),
            startup_logs: Mutex::default(),
            runtimes: Mutex::default(),
            resolutions_failed: AtomicU64::new(0),
            variables: Arc::default(),
            namespaces: Namespaces::default(),
            background: Background::named("background"),
            programs: Background::named("programs"),
            plugins: PluginHost::default(),
            disk_threads: OnceLock::new(),
            folders: Folders::default(),
            log_receivers: logs::Receivers::default(),
            commands: Gauge::default(),
            commands_total: AtomicU64::new(0),
            acted_experimentally: AtomicBool::new(false),
            published: OnceLock::new(),
            transaction_numbers: Arc::new(AtomicU64::new(1)),
            room: Notify::new(),
            waiting_listeners: AtomicU32::new(0),
            certificates: acme::Certificates::default(),
            tls_sessions: OnceLock::new(),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// Threads that wait for disks: as many as whoever asks first says.
    pub fn disk_threads(&self, most: usize) -> &Arc<DiskThreads> {
        self.disk_threads.get_or_init(|| Arc::new(DiskThreads::new(most)))
    }

    /// Sessions of TLS that clients may resume. How many are kept is what the first configuration says.
    #[must_use]
    pub fn tls_sessions(&self, tune: TlsTune) -> &Arc<tls::Sessions> {
        let sessions = self.tls_sessions.get_or_init(|| tls::Sessions::new(tune.cached_sessions_max, tune.lifetime));
        sessions.set_lifetime(tune.lifetime);
        sessions
    }

    /// How often a session of TLS that is kept was looked for, and how often it was not there.
    #[must_use]
    pub fn tls_session_lookups(&self) -> (u64, u64) {
        self.tls_sessions.get().map(|sessions| sessions.lookups()).unwrap_or_default()
    }

    /// What is published in Varnish's shared memory, if anything.
    #[must_use]
    pub fn published(&self) -> Option<&Arc<Published>> {
        self.published.get()
    }

    /// Publishes from now on. What is published already stays where it is until the process ends.
    ///
    /// # Errors
    /// When another instance has the folder, or the system refuses.
    pub fn publish(&self, wanted: Option<&Publication>) -> Result<(), VsmError> {
        if let Some(wanted) = wanted
            && self.published.get().is_none()
        {
            let _ = self.published.set(Published::create(wanted)?);
        }
        Ok(())
    }

    /// Log lines that did not arrive.
    #[must_use]
    pub fn logs_dropped(&self) -> u64 {
        let counters = self.outputs.counters();
        counters.dropped() + counters.failed()
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

    /// The rate of one number of a side.
    pub fn per_second(&self, side: &SideCounters, number: fn(&Traffic) -> u64, window: &RateWindow) -> i64 {
        let now = self.milliseconds(Instant::now());
        i64::try_from(window.rate(side.traffic.sum(number), now)).unwrap_or(i64::MAX)
    }

    /// Percent of the last second that workers had nothing to do; `None` before it is known.
    #[must_use]
    pub fn idle_percent(&self) -> Option<u32> {
        Some(self.idle_percent.load(Relaxed)).filter(|percent| *percent != IDLE_UNKNOWN)
    }

    /// Notes that, as it has been measured.
    pub fn set_idle_percent(&self, percent: u32) {
        self.idle_percent.store(percent, Relaxed);
    }

    /// Milliseconds from the start of the process to `now`.
    #[must_use]
    #[inline]
    pub fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}
