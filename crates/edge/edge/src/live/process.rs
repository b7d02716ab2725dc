//! What belongs to the process and not to a configuration: it outlives reloads.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    },
    time::{Instant, SystemTime},
};

use logs::Outputs;
use net::Namespaces;
use telemetry::{Gauge, PerWorker};
use tokio::{runtime::RuntimeMetrics, sync::Notify};

use crate::{
    background::Background,
    checks::CheckBoard,
    counters::ProcessTraffic,
    session::filter::CompressionLimits,
    stats::{changes::Changes, sampler::ProcessRates},
};

use super::LiveProxy;

/// Sessions are counted from here, requests from 0.
const SESSION_ID_FIRST: u64 = 1 << 48;

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
    pub log_receivers: logs::Receivers,
    /// Connections to the stats sockets.
    pub commands: Gauge,
    /// Connections to the stats sockets so far.
    pub commands_total: AtomicU64,
    /// Whether an experimental action has been taken.
    pub acted_experimentally: AtomicBool,
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
            changes: Changes::default(),
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
            log_receivers: logs::Receivers::default(),
            commands: Gauge::default(),
            commands_total: AtomicU64::new(0),
            acted_experimentally: AtomicBool::new(false),
            room: Notify::new(),
            waiting_listeners: AtomicU32::new(0),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// Log lines that did not arrive.
    #[must_use]
    pub fn logs_dropped(&self) -> u64 {
        let lost = |counters: &logs::Counters| counters.dropped() + counters.failed();
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
