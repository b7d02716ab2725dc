//! A proxy that runs: its farm, its servers, its numbers.

mod accelerator;
mod connection_settings;
mod dynamic_cookie;
mod listener_tls;
mod servers;
mod shared_cache;
mod storages;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
};

use haproxycfg::model::{self, Config, ProxyIndex, ServerIndex};
use logs::LogTargets;

pub use self::{
    accelerator::{Accelerator, Place, Running, Targets, Verdict},
    connection_settings::{ConnectionSettings, ConnectionTimeouts},
    dynamic_cookie::DynamicCookie,
    listener_tls::LiveTls,
    servers::Servers,
    shared_cache::SharedCache,
};
use crate::{
    capture::LastCapture,
    counters::{SideCounters, Traffic},
    files::LiveFiles,
    insight::CacheInsight,
    process::Process,
    programs::ProgramPlaces,
    server::LiveServer,
};

/// A farm whose waiting requests are woken as tasks.
pub type Farm = balance::Farm<Waker>;

/// Whom farms tell what happens to their servers: health checks, logs and those who follow a server act on it.
pub trait FarmObserver: Send + Sync {
    /// A farm has something to tell. Called on any worker; must not block.
    fn handle_event(&self, _proxy: &LiveProxy, _event: balance::Event) {}

    /// A server has come at run time.
    fn server_added(&self, _proxy: &Arc<LiveProxy>, _server: &Arc<LiveServer>) {}

    /// A server has gone at run time.
    fn server_removed(&self, _server: &LiveServer) {}
}

/// Nobody, for an instance that is only looked at.
impl FarmObserver for () {}

impl std::fmt::Debug for dyn FarmObserver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("FarmObserver")
    }
}

/// A proxy that runs.
#[derive(Debug)]
pub struct LiveProxy {
    /// Its place in the configuration.
    pub index: ProxyIndex,
    /// The configuration that holds it.
    pub config: Arc<Config>,
    /// What that says of it: each request asks for it some twenty times.
    pub settings: Arc<model::Proxy>,
    /// The process it runs in.
    pub process: Arc<Process>,
    /// Who is told what happens to its servers.
    pub observer: Arc<dyn FarmObserver>,
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
    pub frontend: Arc<SideCounters>,
    /// Server side.
    pub backend: Arc<SideCounters>,
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
    /// The places for programs of its `cgi` lines, in their order.
    pub program_places: Vec<Arc<ProgramPlaces>>,
    /// What stands for a server where programs answer: it is neither named, counted nor checked.
    pub program_server: Option<Arc<LiveServer>>,
    /// Where its programs' complaints go.
    pub program_log: Arc<LogTargets>,
    /// Log lines so far.
    pub log_count: AtomicU64,
    /// `vcl`: what answers its requests.
    pub accelerator: Option<Arc<Accelerator>>,
    /// `shared-cache`: what answers its requests.
    pub shared_cache: Option<Arc<SharedCache>>,
    /// `root`, `alias`: the files that it answers with.
    pub files: Option<Arc<LiveFiles>>,
    /// What these did not answer lately, and why.
    pub insight: CacheInsight,
    /// The last invalid request of a client.
    pub invalid_request: LastCapture,
    /// The last invalid response of a server.
    pub invalid_response: LastCapture,
}

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

/// A listener that runs.
#[derive(Debug)]
pub struct LiveListener {
    /// Its name for statistics (`sock-1` without one).
    pub name: Arc<str>,
    /// Its number for statistics.
    pub id: u32,
    /// Its numbers.
    pub side: Arc<SideCounters>,
    /// What its clients speak TLS with.
    pub tls: Option<LiveTls>,
}

impl LiveProxy {
    /// Whether a cache answers its requests.
    #[must_use]
    pub fn has_cache(&self) -> bool {
        self.accelerator.is_some() || self.shared_cache.is_some()
    }

    /// Whether clients may ask for files of its folders.
    #[must_use]
    pub fn has_folders(&self) -> bool {
        self.files.as_ref().is_some_and(|files| !files.folders.is_empty())
    }

    /// What heads from this side may be where a program of VCL runs: names of fields stay as they are, and under varnishd's manager
    /// they are read as Varnish reads them.
    #[must_use]
    #[inline]
    pub fn relaxed(&self, limits: http::Limits, from: http::Sender) -> http::Limits {
        match &self.accelerator {
            Some(accelerator) => {
                let limits = http::Limits { keeps_case: true, ..limits };
                accelerator.connections().map_or(limits, |connections| connections.relax(limits, from))
            }
            None => limits,
        }
    }

    /// What varnishd's parameters say of its connections, if they are varnishd's.
    #[must_use]
    #[inline]
    pub fn varnishd(&self) -> Option<&ConnectionSettings> {
        self.accelerator.as_ref().and_then(|accelerator| accelerator.connections())
    }

    /// What the configuration says of it.
    #[must_use]
    #[inline]
    pub fn settings(&self) -> &model::Proxy {
        &self.settings
    }

    /// Its farm, whoever else holds it at the moment. To change it, use
    /// [`LiveProxy::with_farm`], which also does what the farm asks for afterwards.
    pub fn farm(&self) -> MutexGuard<'_, Farm> {
        let mut farm = self.farm.lock().unwrap_or_else(PoisonError::into_inner);
        farm.set_streams(u32::try_from(self.backend.sessions.value()).unwrap_or(u32::MAX));
        farm
    }

    /// Works on the farm and then does what the farm asks for: wakes the requests that may go, and passes its events on to
    /// its [`FarmObserver`].
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
            if let Some(event) = event {
                self.observer.handle_event(self, event);
            }
            farm = self.farm();
        }
    }

    /// What a worker counts for one of its listeners, if anyone wants to know (`option socket-stats`).
    #[must_use]
    #[inline]
    pub fn listener_traffic(&self, listener: usize, worker: usize) -> Option<&Traffic> {
        let wanted = self.settings().options.socket_stats;
        self.listeners.get(listener).filter(|_| wanted).map(|listener| listener.side.traffic.of(worker))
    }

    /// The number of its next log line.
    #[inline]
    pub fn next_log(&self) -> u64 {
        self.log_count.fetch_add(1, Relaxed)
    }

    /// The server at a place.
    #[must_use]
    #[inline]
    pub fn server(&self, index: ServerIndex) -> Option<Arc<LiveServer>> {
        self.servers.get(index.0 as usize)
    }
}
