//! Looks at every counter once a second: makes rates begin a new second, and remembers an hour for the page.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use haproxycfg::model::Mode;
use live::{
    Instance, LiveProxy, Process, SideCounters,
    counters::{Sources, Traffic},
};
use telemetry::{HistogramSnapshot, PerWorker};

use super::RunningEdge;
use super::history::{BytesSent, Counts, History, Reading};

const SECOND: Duration = Duration::from_secs(1);
/// Remembers what happened. One task calls [`Sampler::tick`] once a second, others read.
#[derive(Debug, Default)]
pub struct Sampler {
    history: Mutex<History>,
    ticked_ms: AtomicU64,
    busy: AtomicU64,
}

fn remember(history: &mut History, proxy: &LiveProxy) {
    let settings = proxy.settings();
    let http = settings.mode == Mode::Http;
    let frontend = settings.kind.has_frontend().then(|| {
        let sessions = proxy.frontend.sessions.value();
        reading(&proxy.frontend.traffic, http, sessions)
    });
    let backend = settings.kind.has_backend().then(|| {
        let sessions = u64::from(proxy.farm().streams());
        reading(&proxy.backend.traffic, http, sessions)
    });
    let listed: Vec<_> = proxy.servers.iter().collect();
    let servers = listed.iter().map(|server| {
        let side = &server.side;
        (&server.config.name, move || server_counts(&side.traffic, http))
    });
    history.push(&settings.name, frontend, backend, servers);
}

/// What the counters of a side say: in HTTP mode a failed request is one answered with a 5xx, otherwise a session that got
/// no server or lost it.
fn reading(traffic: &PerWorker<Traffic>, http: bool, sessions: u64) -> Reading {
    let mut reading = Reading { sessions, ..Reading::default() };
    for part in traffic.iter() {
        add_counts(&mut reading.all, part, http);
        if let Some(page) = part.page.get() {
            reading.page.requests += page.requests.value();
            for (sum, counter) in reading.page.answers.iter_mut().zip(&page.responses) {
                *sum += counter.value();
            }
        }
        if let Some(latency) = part.latency.get() {
            latency.add_to(reading.latency.get_or_insert_with(HistogramSnapshot::default));
        }
    }
    reading
}

/// What the counters of a server say: a request fails, too, where it could not be connected to.
fn server_counts(traffic: &PerWorker<Traffic>, http: bool) -> Counts {
    let mut counts = Counts::default();
    for part in traffic.iter() {
        add_counts(&mut counts, part, http);
        counts.errors += if http { part.connection_errors.value() } else { 0 };
    }
    counts
}

fn add_counts(counts: &mut Counts, part: &Traffic, http: bool) {
    if !http {
        counts.requests += part.sessions.value();
        counts.tcp += part.sessions.value();
        counts.errors += part.connection_errors.value() + part.response_errors.value();
        return;
    }
    let [_, _, _, _, server_errors, _] = &part.responses;
    counts.requests += part.requests.value();
    counts.errors += server_errors.value();
    for (sum, counter) in counts.answers.iter_mut().zip(&part.responses) {
        *sum += counter.value();
    }
}

/// Remembers how many requests go from where to where.
fn remember_flows(history: &mut History, instance: &Instance) {
    let frontends = instance.proxies.iter().filter(|proxy| proxy.settings().kind.has_frontend());
    let names: HashMap<_, _> = frontends.map(|proxy| (Sources::key(&proxy.frontend), &proxy.settings().name)).collect();
    for proxy in instance.proxies.iter().filter(|proxy| proxy.settings().kind.has_backend()) {
        let mut totals = HashMap::<usize, u64>::new();
        let sources = proxy.backend.traffic.iter().filter_map(|part| part.sources.get());
        for (key, requests) in sources.flat_map(|sources| sources.iter()) {
            *totals.entry(key).or_default() += requests;
        }
        for (key, total) in totals {
            if let Some(frontend) = names.get(&key) {
                history.push_flow(frontend, &proxy.settings().name, total);
            }
        }
    }
}

/// Makes the rates of a side begin a new second; the sessions so far.
fn tick_side(side: &SideCounters, now_ms: u64) -> u64 {
    let sessions = side.traffic.sum(|part| part.sessions.value());
    side.session_rate.rate(sessions, now_ms);
    side.connection_rate.rate(side.traffic.sum(|part| part.connections.value()), now_ms);
    side.request_rate.rate(side.traffic.sum(|part| part.requests.value()), now_ms);
    sessions
}

impl Sampler {
    /// Takes in a second. Call it once a second.
    pub fn tick(&self, instance: &Instance, now_ms: u64) {
        let process = &instance.process;
        let mut sessions = 0;
        for proxy in &instance.proxies {
            sessions += tick_side(&proxy.frontend, now_ms);
            tick_side(&proxy.backend, now_ms);
            for server in proxy.servers.iter() {
                tick_side(&server.side, now_ms);
            }
        }
        let traffic = &process.traffic;
        process.rates.connections.rate(traffic.sum(|part| part.connections.value()), now_ms);
        process.rates.requests.rate(traffic.sum(|part| part.requests.value()), now_ms);
        let bytes_out = traffic.sum(|part| part.bytes_out.value());
        process.rates.bytes_out.rate(bytes_out, now_ms);
        process.rates.sessions.rate(sessions, now_ms);
        process.rates.tls_clients.rate(traffic.sum(|part| part.tls_accepted.value()), now_ms);
        process.rates.tls_client_keys.rate(traffic.sum(|part| part.tls_client_keys.value()), now_ms);
        process.rates.tls_server_keys.rate(traffic.sum(|part| part.tls_server_keys.value()), now_ms);
        process.rates.compression_in.rate(traffic.sum(|part| part.compression_in.value()), now_ms);
        process.rates.compression_out.rate(traffic.sum(|part| part.compression_out.value()), now_ms);

        self.note_idle(process, now_ms);
        let started_at = process.started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let sent = BytesSent { bytes: bytes_out, page_bytes: traffic.sum(|part| part.page_bytes_out.value()) };
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.begin_second(started_at + Duration::from_millis(now_ms), sent);
        for proxy in &instance.proxies {
            remember(&mut history, proxy);
        }
        remember_flows(&mut history, instance);
        history.end_second();
    }

    fn note_idle(&self, process: &Process, now_ms: u64) {
        let (busy, workers) = (process.traffic.sum(|part| part.busy.value()), process.workers);
        let elapsed_ns =
            now_ms.saturating_sub(self.ticked_ms.swap(now_ms, Relaxed)) * 1_000_000 * workers.max(1) as u64;
        let spent = busy.saturating_sub(self.busy.swap(busy, Relaxed));
        if busy > 0 && elapsed_ns > 0 {
            let percent =
                100_u64.saturating_sub(u64::try_from(u128::from(spent) * 100 / u128::from(elapsed_ns)).unwrap_or(100));
            process.set_idle_percent(u32::try_from(percent).unwrap_or(0));
        }
    }

    /// What is remembered. The next second waits until the lock is free.
    #[must_use]
    pub fn history(&self) -> &Mutex<History> {
        &self.history
    }
}

/// Takes in every second until it is dropped. One of these runs in the process, on any thread.
pub async fn run(edge: Arc<RunningEdge>) {
    let shared = &edge.shared;
    let mut seconds = tokio::time::interval(SECOND);
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let now_ms = shared.process.milliseconds(Instant::now());
        edge.sampler.tick(&shared.instance(), now_ms);
    }
}
