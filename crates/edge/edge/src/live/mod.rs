//! A configuration that runs: proxies and servers with their state and numbers.
//!
//! An [`Instance`] is made from a checked configuration and replaced as a whole by a reload. What outlives reloads, the
//! process' own numbers, stands in [`Process`]. Numbers and server states of proxies that are still there after a reload
//! are carried over by name.

mod accelerator;
mod process;
mod server;
pub mod sockets;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
};

use haproxycfg::model::{self, Config, ProxyIndex, ServerIndex};
use logs::LogTargets;
use telemetry::{Gauge, PerWorker};

use crate::{
    capture::LastCapture, counters::Traffic, dynamic_cookie::DynamicCookie, rates::RateWindow, resolve::LiveResolvers,
    servers::Servers, stats::sampler::Sampler, stick::Tables,
};

pub use accelerator::{Accelerator, Targets};
pub use process::{FarmEvents, ListenerOrder, Process, SteerListeners};
pub use server::{Agent, CheckPlace, LiveServer, PORT_AS_CONFIGURED, PORT_FIXED, ShutCause};

/// Workers at most, as HAProxy has threads.
pub const WORKERS_MAX: usize = 64;

/// A farm whose waiting requests are woken as tasks.
pub type Farm = balance::Farm<Waker>;

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
    /// What that says of it: each request asks for it some twenty times.
    pub settings: Arc<model::Proxy>,
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
    /// `vcl`: what answers its requests.
    pub accelerator: Option<Arc<Accelerator>>,
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

impl LiveProxy {
    /// What the configuration says of it.
    #[must_use]
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

impl Instance {
    /// The variables of a connection that has none of its own yet.
    #[must_use]
    pub fn stream_variables(&self) -> sample::StreamVariables {
        sample::StreamVariables::new(Arc::clone(&self.process.variables), Arc::clone(&self.variable_limits))
    }

    /// What a peer may send, as far as the configuration says.
    #[must_use]
    #[inline]
    pub fn limits(&self, accept_invalid: bool) -> http::Limits {
        let tune = &self.config.global.tune;
        let head = tune.bufsize.saturating_sub(tune.maxrewrite);
        http::Limits {
            head_bytes_max: head,
            target_bytes_max: head,
            headers_max: tune.http_maxhdr,
            trailer_bytes_max: head,
            accept_invalid,
            ..http::Limits::default()
        }
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
