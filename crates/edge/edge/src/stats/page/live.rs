//! What the page draws: every number of the cards and the points of their curves that the page has not got yet.

use serde::Serialize;

use super::options::PageOptions;
use crate::stats::{
    history::{History, Latency, Series},
    row::{Selection, server_shown},
    view::{BackendView, Condition, FrontendView, ProcessView, ProxyView, ServerView, Snapshot},
};

/// Everything at one second.
#[derive(Debug, Serialize)]
struct Live<'a> {
    /// Seconds since the sampler began; what `;since=` counts in.
    now: u64,
    node: &'a str,
    uptime: u64,
    stopping: bool,
    process: Process,
    proxies: Vec<Proxy<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    workers: u32,
    connections: u64,
    connections_max: u32,
    connection_rate: u64,
    request_rate: u64,
    bytes_out_rate: u64,
    idle: Option<u32>,
    memory: u64,
    reloads: u64,
    /// Bytes sent second by second, the last second last.
    bytes_out: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Proxy<'a> {
    id: u32,
    name: &'a str,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Front>,
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Server<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Front {
    state: &'static str,
    sessions: u64,
    limit: u32,
    rate: u64,
    rate_max: u64,
    total: u64,
    denied: u64,
    errors: u64,
    bytes_in: u64,
    bytes_out: u64,
    listeners: Vec<String>,
    #[serde(flatten)]
    latency: Latencies,
    points: Points,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Back {
    up: bool,
    sessions: u32,
    limit: u32,
    queue: u32,
    rate: u64,
    rate_max: u64,
    total: u64,
    errors: u64,
    retries: u64,
    redispatches: u64,
    algorithm: &'static str,
    #[serde(flatten)]
    latency: Latencies,
    points: Points,
}

#[derive(Debug, Serialize)]
struct Server<'a> {
    id: u32,
    name: &'a str,
    status: String,
    condition: &'static str,
    backup: bool,
    weight: u32,
    sessions: u64,
    limit: u32,
    queue: u32,
    rate: u64,
    total: u64,
    errors: u64,
    /// Mean milliseconds until the response began.
    time: u64,
    /// Seconds since the last change of state.
    change: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    points: Points,
}

#[derive(Debug, Serialize)]
struct Check {
    code: String,
    text: String,
}

/// Microseconds; absent while nothing was served.
#[derive(Debug, Default, Serialize)]
struct Latencies {
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<u64>,
}

/// Points second by second, the last one of the second that ends now.
#[derive(Debug, Default, Serialize)]
struct Points {
    /// Requests.
    r: Vec<u32>,
    /// Errors.
    e: Vec<u32>,
    /// Sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    s: Vec<u32>,
    /// Median microseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p50: Vec<u32>,
    /// Microseconds for 99 of 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p99: Vec<u32>,
}

impl Points {
    /// Those of a series, of which a server has only the first two.
    fn of(series: Option<&Series>, missing: u64, all: bool) -> Self {
        let Some(series) = series else { return Self::default() };
        let points = || series.points_after(series.seconds().saturating_sub(missing));
        let mut out = Self { r: points().map(|point| point.requests).collect(), ..Self::default() };
        out.e = points().map(|point| point.errors).collect();
        if all {
            out.s = points().map(|point| point.sessions).collect();
            if points().any(|point| point.p99 > 0) || series.latency().is_some() {
                out.p50 = points().map(|point| point.p50).collect();
                out.p99 = points().map(|point| point.p99).collect();
            }
        }
        out
    }
}

impl From<Option<Latency>> for Latencies {
    fn from(latency: Option<Latency>) -> Self {
        Self { p50: latency.map(|latency| latency.p50), p99: latency.map(|latency| latency.p99) }
    }
}

/// The live form as JSON.
#[must_use]
pub fn live(snapshot: &Snapshot, history: &History, options: &PageOptions, selection: Selection, node: &str) -> String {
    let now = history.seconds();
    // A page that knows of later seconds than there were talks of a process that is gone: it gets everything.
    let missing = now.checked_sub(options.since).unwrap_or(u64::MAX);
    let proxies = snapshot.proxies.iter().map(|proxy| proxy_of(proxy, history, missing, selection)).collect();
    let live = Live {
        now,
        node,
        uptime: snapshot.process.uptime.as_secs(),
        stopping: snapshot.process.stopping,
        process: process_of(&snapshot.process, history, now.saturating_sub(missing)),
        proxies,
    };
    serde_json::to_string(&live).unwrap_or_default()
}

fn process_of(process: &ProcessView, history: &History, since: u64) -> Process {
    Process {
        workers: process.workers,
        connections: process.connections,
        connections_max: process.connections_max,
        connection_rate: process.connection_rate.now,
        request_rate: process.request_rate.now,
        bytes_out_rate: process.bytes_out_rate.now,
        idle: process.idle_percent,
        memory: process.memory_bytes,
        reloads: process.reloads,
        bytes_out: history.bytes_out_after(since).collect(),
    }
}

fn proxy_of<'a>(proxy: &'a ProxyView, history: &History, missing: u64, selection: Selection) -> Proxy<'a> {
    let past = history.proxy(&proxy.name);
    let server = |server: &'a ServerView| {
        let series = past.and_then(|past| past.server(&server.farm.name));
        server_of(server, proxy.http, Points::of(series, missing, false), selection)
    };
    Proxy {
        id: proxy.id,
        name: &proxy.name,
        mode: proxy.mode(),
        description: proxy.description.as_deref(),
        front: proxy.frontend.as_ref().map(|frontend| {
            let series = past.and_then(|past| past.frontend.as_ref());
            front_of(proxy, frontend, series, missing, selection)
        }),
        back: proxy.backend.as_ref().map(|backend| {
            let series = past.and_then(|past| past.backend.as_ref());
            back_of(proxy, backend, series, missing, selection)
        }),
        servers: proxy.servers.iter().filter(|view| server_shown(view, selection)).map(server).collect(),
    }
}

fn front_of(
    proxy: &ProxyView,
    frontend: &FrontendView,
    series: Option<&Series>,
    missing: u64,
    selection: Selection,
) -> Front {
    let totals = &frontend.totals;
    let rate = if proxy.http { frontend.request_rate } else { frontend.session_rate };
    Front {
        state: frontend.state.name(),
        sessions: frontend.sessions.now,
        limit: frontend.sessions_limit,
        rate: rate.now,
        rate_max: rate.max,
        total: if proxy.http { totals.requests } else { totals.sessions },
        denied: totals.denied_requests + totals.denied_connections + totals.denied_sessions,
        errors: totals.request_errors,
        bytes_in: totals.bytes_in,
        bytes_out: totals.bytes_out,
        listeners: proxy
            .listeners
            .iter()
            .filter(|_| selection.legends)
            .filter_map(|listener| listener.place.shown())
            .collect(),
        latency: series.and_then(Series::latency).into(),
        points: Points::of(series, missing, true),
    }
}

fn back_of(
    proxy: &ProxyView,
    backend: &BackendView,
    series: Option<&Series>,
    missing: u64,
    selection: Selection,
) -> Back {
    let totals = &backend.totals;
    let rate = if proxy.http { backend.request_rate } else { backend.session_rate };
    Back {
        up: backend.farm.is_up || proxy.servers.is_empty(),
        sessions: backend.farm.streams,
        limit: backend.sessions_limit,
        queue: backend.farm.queued_total,
        rate: rate.now,
        rate_max: rate.max,
        total: if proxy.http { totals.requests } else { totals.sessions },
        errors: if proxy.http { totals.server_errors() } else { totals.connection_errors + totals.response_errors },
        retries: totals.retries,
        redispatches: totals.redispatches,
        algorithm: if selection.legends { backend.algorithm } else { "" },
        latency: series.and_then(Series::latency).into(),
        points: Points::of(series, missing, true),
    }
}

fn server_of(server: &ServerView, http: bool, points: Points, selection: Selection) -> Server<'_> {
    let farm = &server.farm;
    let totals = &server.totals;
    Server {
        id: farm.number,
        name: &farm.name,
        status: farm.status.to_string(),
        condition: Condition::of(farm).name(),
        backup: farm.backup,
        weight: farm.weight,
        sessions: server.sessions.now,
        limit: farm.maxconn,
        queue: farm.queued,
        rate: if http { server.request_rate.now } else { server.session_rate.now },
        total: if http { totals.requests } else { totals.sessions },
        errors: if http { totals.server_errors() } else { totals.connection_errors + totals.response_errors },
        time: server.times.response.mean,
        change: farm.last_change_s,
        throttle: farm.throttle,
        check: farm.check.as_ref().map(check_of),
        address: selection.legends.then(|| server.place.shown()).flatten(),
        points,
    }
}

fn check_of(check: &balance::CheckView) -> Check {
    let mut code = check.status.info().to_owned();
    if let Some(number) = check.code.filter(|number| *number > 0) {
        code.push_str(&format!(" {number}"));
    }
    if let Some(duration) = check.duration_ms {
        code.push_str(&format!(" in {duration} ms"));
    }
    let text = match check.info.as_str() {
        "" => check.status.description().to_owned(),
        info => format!("{}: {info}", check.status.description()),
    };
    Check { code, text }
}
