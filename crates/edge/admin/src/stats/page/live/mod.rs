//! What the page draws, in a form that stays small: names and addresses come once, points only of what is unfolded,
//! servers only where they are unfolded or not well, and what is 0 is left out.

mod cache;
mod points;
mod servers;
mod shape;

use live::changes::Change;
use serde::Serialize;

use self::{
    cache::Cache,
    points::{Missing, Points},
    servers::{Kind, Kinds, Server, server_of},
};
use super::options::PageOptions;
use crate::stats::{
    history::{FLOW_SECONDS, History, Point, Series},
    row::{Selection, server_shown},
    view::{BackendView, FrontendState, FrontendView, ProxyView, ServerView, Snapshot},
};

/// Servers that are not well of a backend that is folded.
const UNWELL_MAX: usize = 4;
/// Pairs of frontends and backends, those with most requests.
const FLOWS_MAX: usize = 64;

/// What the page sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The edge.
    pub snapshot: &'a Snapshot,
    /// Its past.
    pub history: &'a History,
    /// What changed since the page asked last.
    pub changes: &'a [Change],
    /// What it asks for.
    pub options: &'a PageOptions,
    /// Which servers it may see.
    pub selection: Selection,
    /// The node's name, if it is to be shown.
    pub node: &'a str,
}

#[derive(Debug, Serialize)]
struct Live<'a> {
    /// Seconds since the sampler began; what `;since=` counts in.
    now: u64,
    /// When the last second ended, in seconds since the epoch.
    at: u64,
    /// Seconds that the points cover together.
    window: u64,
    /// Seconds of each point.
    step: u64,
    node: &'a str,
    uptime: u64,
    stopping: bool,
    process: Process,
    /// Proxies in their order.
    states: Vec<State>,
    flow_seconds: u32,
    /// Number of a frontend, of a backend, and requests of the last [`FLOW_SECONDS`].
    flows: Vec<(u32, u32, u64)>,
    changes: Vec<ShownChange<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    pid: u32,
    workers: u32,
    connections: u64,
    connections_max: u32,
    idle: Option<u32>,
    #[serde(flatten)]
    now: Now,
    points: Points,
}

#[derive(Debug, Serialize)]
struct State {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Front>,
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<Back>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<Server>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<Cache>,
}

#[derive(Debug, Serialize)]
struct Front {
    /// If it is not open.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(flatten)]
    now: Now,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<FrontMore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Points>,
}

#[derive(Debug, Serialize)]
struct FrontMore {
    total: u64,
    denied: u64,
    bad: u64,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Debug, Serialize)]
struct Back {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    down: bool,
    #[serde(skip_serializing_if = "is_zero")]
    queue: u32,
    #[serde(skip_serializing_if = "Kinds::all_well")]
    kinds: Kinds,
    #[serde(flatten)]
    now: Now,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<BackMore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<Points>,
}

#[derive(Debug, Serialize)]
struct BackMore {
    total: u64,
    retries: u64,
    redispatches: u64,
    connect_errors: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// What a line about a side shows.
#[derive(Debug, Default, Serialize)]
struct Now {
    /// Requests, or sessions in TCP mode, of the last second.
    #[serde(skip_serializing_if = "is_zero")]
    rate: u32,
    /// Sessions now.
    #[serde(skip_serializing_if = "is_nothing")]
    sessions: u64,
    /// Whether it may have no more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    /// Of the last minute: answers with 1xx to 5xx, and requests without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    mix: Option<[u32; 6]>,
    /// Of the last minute: requests, or sessions in TCP mode, and those that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    minute: Option<(u32, u32)>,
    /// Microseconds of the last seconds; absent while nothing was served.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<u64>,
}

impl Now {
    fn of(series: Option<&Series>) -> Self {
        let Some(series) = series else { return Self::default() };
        let Point { requests, errors, answers, .. } = series.last_minute();
        let latency = series.latency();
        Self {
            rate: series.last_second().requests,
            mix: (answers != [0; 6]).then_some(answers),
            minute: (requests + errors > 0).then_some((requests, errors)),
            p50: latency.map(|latency| latency.p50),
            p99: latency.map(|latency| latency.p99),
            ..Self::default()
        }
    }
}

#[derive(Debug, Serialize)]
struct ShownChange<'a> {
    number: u64,
    /// Seconds since the epoch.
    at: u64,
    tone: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<&'a str>,
    text: &'a str,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn is_nothing(value: &u64) -> bool {
    *value == 0
}

/// The live form as JSON.
#[must_use]
pub fn live(sight: &Sight<'_>) -> String {
    let Sight { snapshot, history, options, selection, .. } = *sight;
    let now = history.seconds();
    // A page that knows of later seconds than there were talks of a process that is gone: it gets everything.
    let since = if options.since > now { 0 } else { options.since };
    let missing = Missing { window: options.window, since, now };
    let live = Live {
        now,
        at: history.ended_at().as_secs(),
        window: options.window.seconds(),
        step: options.window.step(),
        node: sight.node,
        uptime: snapshot.process.uptime.as_secs(),
        stopping: snapshot.process.stopping,
        process: process_of(sight, missing),
        states: snapshot.proxies.iter().map(|proxy| state_of(proxy, sight, missing)).collect(),
        flow_seconds: FLOW_SECONDS,
        flows: flows_of(sight),
        changes: sight.changes.iter().map(change_of).collect(),
    };
    let mut text = serde_json::to_string(&live).unwrap_or_default();
    let (shape, name) = shape::shape(snapshot, selection);
    if options.shape.as_ref() != Some(&name) && text.pop() == Some('}') {
        text.push_str(&format!(",\"shape\":\"{name}\",\"proxies\":{shape}}}"));
    }
    text
}

fn change_of(change: &Change) -> ShownChange<'_> {
    ShownChange {
        number: change.number,
        at: change.at.as_secs(),
        tone: change.tone.name(),
        proxy: change.proxy.as_deref(),
        text: &change.text,
    }
}

fn process_of(sight: &Sight<'_>, missing: Missing) -> Process {
    let process = &sight.snapshot.process;
    let series = sight.history.process();
    let mut points = Points::of(series, missing);
    points.bytes = sight.history.sent_after(missing.window, missing.since).collect();
    Process {
        pid: process.pid,
        workers: process.workers,
        connections: process.connections,
        connections_max: process.connections_max,
        idle: process.idle_percent,
        now: Now { sessions: process.connections, ..Now::of(Some(series)) },
        points,
    }
}

fn state_of(proxy: &ProxyView, sight: &Sight<'_>, missing: Missing) -> State {
    let past = sight.history.proxy(&proxy.name);
    let is_open = sight.options.open.contains(&proxy.id);
    let mut shown: Vec<_> = proxy.servers.iter().filter(|view| server_shown(view, sight.selection)).collect();
    let kinds = Kinds::count(&shown);
    if !is_open {
        shown.retain(|server| !Kind::of(&server.farm).is_well());
        shown.sort_by_key(|server| Kind::of(&server.farm).urgency());
        shown.truncate(UNWELL_MAX);
    }
    let server = |server: &ServerView| {
        let series = past.and_then(|past| past.server(&server.farm.name));
        let points = series.map(|series| Points::of_server(series, missing)).unwrap_or_default();
        server_of(server, proxy.http, series.map_or(0, |series| series.last_second().requests), points)
    };
    State {
        id: proxy.id,
        front: proxy.frontend.as_ref().map(|frontend| {
            let series = past.and_then(|past| past.frontend.as_ref());
            front_of(frontend, proxy.http, series, is_open.then_some(missing))
        }),
        back: proxy.backend.as_ref().map(|backend| {
            let series = past.and_then(|past| past.backend.as_ref());
            let is_down = !backend.farm.is_up && !proxy.servers.is_empty();
            Back { down: is_down, kinds, ..back_of(backend, proxy.http, series, is_open.then_some(missing)) }
        }),
        servers: shown.into_iter().map(server).collect(),
        cache: Cache::of(proxy, is_open),
    }
}

fn front_of(frontend: &FrontendView, http: bool, series: Option<&Series>, missing: Option<Missing>) -> Front {
    let totals = &frontend.totals;
    let (sessions, limit) = (frontend.sessions.now, frontend.sessions_limit);
    Front {
        state: (frontend.state != FrontendState::Open).then(|| frontend.state.name()),
        now: Now { sessions, full: limit > 0 && sessions >= u64::from(limit), ..Now::of(series) },
        more: missing.map(|_| FrontMore {
            total: series.map_or(if http { totals.requests } else { totals.sessions }, Series::total),
            denied: totals.denied_requests + totals.denied_connections + totals.denied_sessions,
            bad: totals.request_errors,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
        }),
        points: missing.zip(series).map(|(missing, series)| Points::of(series, missing)),
    }
}

fn back_of(backend: &BackendView, http: bool, series: Option<&Series>, missing: Option<Missing>) -> Back {
    let totals = &backend.totals;
    Back {
        down: false,
        queue: backend.farm.queued_total,
        kinds: Kinds::default(),
        now: Now { sessions: u64::from(backend.farm.streams), ..Now::of(series) },
        more: missing.map(|_| BackMore {
            total: series.map_or(if http { totals.requests } else { totals.sessions }, Series::total),
            retries: totals.retries,
            redispatches: totals.redispatches,
            connect_errors: totals.connection_errors,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
        }),
        points: missing.zip(series).map(|(missing, series)| Points::of(series, missing)),
    }
}

/// The pairs whose frontend and backend the page may see.
fn flows_of(sight: &Sight<'_>) -> Vec<(u32, u32, u64)> {
    let number = |name: &str, is_side: fn(&ProxyView) -> bool| {
        sight.snapshot.proxies.iter().find(|proxy| *proxy.name == *name && is_side(proxy)).map(|proxy| proxy.id)
    };
    let flow = |(from, to, requests): (&str, &str, u64)| {
        Some((number(from, |proxy| proxy.frontend.is_some())?, number(to, |proxy| proxy.backend.is_some())?, requests))
    };
    let mut flows: Vec<_> = sight.history.flows().filter_map(flow).collect();
    flows.sort_unstable_by_key(|(from, to, requests)| (std::cmp::Reverse(*requests), *from, *to));
    flows.truncate(FLOWS_MAX);
    flows
}
