//! Rows of the statistics: the values of every column for a frontend, listener, server or backend.

use std::sync::Arc;

use balance::OperationalState;

use super::{
    columns::{COLUMNS, Column, Object},
    value::Value,
    view::{BackendView, Condition, FrontendView, ListenerView, ProxyView, ServerView, Times, Totals},
};

/// The values of one object.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub object: Object,
    cells: Vec<Value>,
}

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Addresses, cookies and algorithms as well.
    pub legends: bool,
    /// Servers in maintenance are left out, and backends say how many of theirs are up.
    pub hide_maintenance: bool,
    /// Servers that are down are left out, likewise.
    pub hide_down: bool,
    /// Only rows of one proxy, of some types, or of one server or listener.
    pub only: Option<Only>,
}

/// `show stat <iid> <type> <sid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only {
    /// The proxy's number, -1 for every one.
    pub proxy: i64,
    /// Bits of types.
    pub types: i64,
    /// The server's or listener's number, -1 for every one.
    pub service: i64,
}

impl Selection {
    fn wants(self, object: Object) -> bool {
        self.only.is_none_or(|only| only.types & (1 << object.number()) != 0)
    }

    fn wants_service(self, object: Object, id: u32) -> bool {
        self.wants(object) && self.only.is_none_or(|only| only.service == -1 || only.service == i64::from(id))
    }

    /// Whether a proxy has rows at all.
    #[must_use]
    pub fn wants_proxy(self, id: u32) -> bool {
        self.only.is_none_or(|only| only.proxy == -1 || only.proxy == i64::from(id))
    }
}

impl Row {
    fn new(object: Object, proxy: &ProxyView, service: Value, id: u32) -> Self {
        let mut row = Self { object, cells: vec![Value::Empty; COLUMNS] };
        row.set(Column::ProxyName, shared(&proxy.name));
        row.set(Column::ServiceName, service);
        row.set(Column::Mode, Value::Text(proxy.mode().into()));
        row.set(Column::Process, Value::U32(1));
        row.set(Column::ProxyId, Value::U32(proxy.id));
        row.set(Column::ServiceId, Value::U32(id));
        row.set(Column::Type, Value::U32(object.number()));
        row
    }

    /// The value of a column.
    #[must_use]
    pub fn value(&self, column: Column) -> &Value {
        self.cells.get(column.position()).unwrap_or(&Value::Empty)
    }

    /// Every column with its value.
    pub fn cells(&self) -> impl Iterator<Item = (Column, &Value)> {
        Column::ALL.iter().copied().zip(&self.cells)
    }

    fn set(&mut self, column: Column, value: Value) {
        debug_assert!(column.definition().objects.contains(self.object), "{column:?} of {:?}", self.object);
        if let Some(cell) = self.cells.get_mut(column.position()) {
            *cell = value;
        }
    }

    fn count(&mut self, column: Column, value: u64) {
        self.set(column, Value::U64(value));
    }

    fn level(&mut self, column: Column, value: u64) {
        self.set(column, Value::u32_from(value));
    }

    /// Counters that objects have in common; which of them this one has is up to the table.
    fn totals(&mut self, totals: &Totals, http: bool) {
        let [one, two, three, four, five, other] = totals.responses;
        let always = [
            (Column::BytesIn, totals.bytes_in),
            (Column::BytesOut, totals.bytes_out),
            (Column::DeniedRequests, totals.denied_requests),
            (Column::DeniedResponses, totals.denied_responses),
            (Column::RequestErrors, totals.request_errors),
            (Column::ConnectionErrors, totals.connection_errors),
            (Column::ResponseErrors, totals.response_errors),
            (Column::Retries, totals.retries),
            (Column::Redispatches, totals.redispatches),
            (Column::ClientAborts, totals.client_aborts),
            (Column::ServerAborts, totals.server_aborts),
            (Column::DeniedConnections, totals.denied_connections),
            (Column::DeniedSessions, totals.denied_sessions),
            (Column::FailedRewrites, totals.failed_rewrites),
            (Column::Connects, totals.connects),
            (Column::Reuses, totals.reuses),
            (Column::InternalErrors, totals.internal_errors),
            (Column::CompressionIn, totals.compression_in),
            (Column::CompressionOut, totals.compression_out),
            (Column::CompressionBypassed, totals.compression_bypassed),
            (Column::CompressedResponses, totals.compressed_responses),
        ];
        let with_http = [
            (Column::Responses1xx, one),
            (Column::Responses2xx, two),
            (Column::Responses3xx, three),
            (Column::Responses4xx, four),
            (Column::Responses5xx, five),
            (Column::ResponsesOther, other),
            (Column::Requests, totals.requests),
            (Column::Intercepted, totals.intercepted),
            (Column::CacheLookups, totals.cache_lookups),
            (Column::CacheHits, totals.cache_hits),
        ];
        let http = with_http.into_iter().filter(|_| http);
        for (column, value) in always.into_iter().chain(http) {
            if column.definition().objects.contains(self.object) {
                self.count(column, value);
            }
        }
    }

    /// What HAProxy's protocols count beside proxies. What the edge does not have is 0.
    fn protocols(&mut self, http1: Option<&Http1>) {
        for column in [Column::TlsSessions, Column::TlsReused, Column::TlsFailed] {
            self.count(column, 0);
        }
        let Some(http1) = http1 else { return };
        for column in Column::HTTP2 {
            self.count(*column, 0);
        }
        for (column, value) in [
            (Column::Http1Connections, http1.connections),
            (Column::Http1Streams, http1.streams),
            (Column::Http1ConnectionsTotal, http1.connections_total),
            (Column::Http1StreamsTotal, http1.streams_total),
            (Column::Http1BytesIn, http1.bytes_in),
            (Column::Http1BytesOut, http1.bytes_out),
            (Column::Http1SplicedIn, http1.spliced_in),
            (Column::Http1SplicedOut, http1.spliced_out),
        ] {
            self.count(column, value);
        }
    }

    fn times(&mut self, times: &Times) {
        for (mean, max, time) in [
            (Column::QueueTime, Column::QueueTimeMax, times.queue),
            (Column::ConnectTime, Column::ConnectTimeMax, times.connect),
            (Column::ResponseTime, Column::ResponseTimeMax, times.response),
            (Column::TotalTime, Column::TotalTimeMax, times.total),
        ] {
            self.level(mean, time.mean);
            self.level(max, time.max);
        }
    }

    fn last_session(&mut self, last: Option<u64>) {
        let seconds = last.map_or(-1, |seconds| i32::try_from(seconds).unwrap_or(i32::MAX));
        self.set(Column::LastSession, Value::S32(seconds));
    }

    /// The row of a frontend.
    #[must_use]
    pub fn frontend(proxy: &ProxyView, frontend: &FrontendView) -> Self {
        let mut row = Self::new(Object::Frontend, proxy, Value::Text("FRONTEND".into()), 0);
        row.totals(&frontend.totals, proxy.http);
        row.level(Column::SessionsNow, frontend.sessions.now);
        row.level(Column::SessionsMax, frontend.sessions.max);
        row.set(Column::SessionsLimit, Value::U32(frontend.sessions_limit));
        row.count(Column::SessionsTotal, frontend.totals.sessions);
        row.set(Column::Status, Value::Text(frontend.state.name().into()));
        row.level(Column::Rate, frontend.session_rate.now);
        row.set(Column::RateLimit, Value::U32(frontend.session_rate_limit));
        row.level(Column::RateMax, frontend.session_rate.max);
        row.level(Column::RequestRate, frontend.request_rate.now);
        row.level(Column::RequestRateMax, frontend.request_rate.max);
        row.count(Column::Requests, frontend.totals.requests);
        row.level(Column::ConnectionRate, frontend.connection_rate.now);
        row.level(Column::ConnectionRateMax, frontend.connection_rate.max);
        row.count(Column::Connections, frontend.totals.connections);
        row.protocols(Some(&Http1::of_frontend(proxy, frontend)));
        row
    }

    /// The row of a listener.
    #[must_use]
    pub fn listener(proxy: &ProxyView, listener: &ListenerView, selection: Selection) -> Self {
        let mut row = Self::new(Object::Listener, proxy, shared(&listener.name), listener.id);
        row.totals(&listener.totals, proxy.http);
        row.level(Column::SessionsNow, listener.sessions.now);
        row.level(Column::SessionsMax, listener.sessions.max);
        row.set(Column::SessionsLimit, Value::U32(listener.sessions_limit));
        row.count(Column::SessionsTotal, listener.totals.connections);
        row.set(Column::Status, Value::Text(listener.state.name().into()));
        row.protocols(None);
        if selection.legends {
            row.set(Column::Address, listener.place.shown().map_or(Value::Empty, Value::text));
        }
        row
    }

    /// The row of a server.
    #[must_use]
    pub fn server(proxy: &ProxyView, server: &ServerView, selection: Selection) -> Self {
        let farm = &server.farm;
        let mut row = Self::new(Object::Server, proxy, Value::text(farm.name.clone()), farm.number);
        row.totals(&server.totals, proxy.http);
        row.times(&server.times);
        row.last_session(server.last_session);
        row.set(Column::QueueNow, Value::U32(farm.queued));
        row.set(Column::QueueMax, Value::U32(farm.queue_max));
        row.level(Column::SessionsNow, server.sessions.now);
        row.level(Column::SessionsMax, server.sessions.max);
        row.count(Column::SessionsTotal, server.totals.sessions);
        row.count(Column::Balanced, farm.chosen);
        if farm.maxconn > 0 {
            row.set(Column::SessionsLimit, Value::U32(farm.maxconn));
        }
        if farm.maxqueue > 0 {
            row.set(Column::QueueLimit, Value::U32(farm.maxqueue));
        }
        if let Ok(limit) = u32::try_from(server.idle_limit) {
            row.set(Column::IdleLimit, Value::U32(limit));
        }
        row.set(Column::Status, Value::text(farm.status.to_string()));
        row.level(Column::LastChange, farm.last_change_s);
        row.set(Column::Weight, Value::U32(farm.weight));
        row.set(Column::UserWeight, Value::U32(farm.user_weight));
        row.set(Column::Active, Value::U32(u32::from(!farm.backup)));
        row.set(Column::Backup, Value::U32(u32::from(farm.backup)));
        row.level(Column::Rate, server.session_rate.now);
        row.level(Column::RateMax, server.session_rate.max);
        if let Some(percent) = farm.throttle {
            row.set(Column::Throttle, Value::U32(percent));
        }
        if let Some(tracked) = &farm.track {
            row.set(Column::Tracked, Value::text(tracked.clone()));
        }
        if server.observed {
            row.count(Column::ObservedFailures, farm.failed_observations);
        }
        row.level(Column::Idle, server.idle);
        // Connections of ours are idle only once a whole response has been read, which is what HAProxy calls safe.
        row.level(Column::IdleUnsafe, 0);
        row.level(Column::IdleSafe, server.idle);
        row.level(Column::Used, server.used.now);
        row.level(Column::Needed, server.used.max);
        row.check(farm);
        row.protocols(None);
        if selection.legends {
            if let Some(address) = server.place.shown() {
                row.set(Column::Address, Value::text(address));
            }
            if let Some(cookie) = &server.cookie {
                row.set(Column::Cookie, Value::text(cookie.clone()));
            }
        }
        row
    }

    fn check(&mut self, farm: &balance::ServerStats) {
        if farm.check_enabled {
            self.count(Column::ChecksFailed, farm.failed_checks);
            self.count(Column::Downs, farm.went_down);
            self.level(Column::Downtime, farm.down_time_s);
        }
        if let Some(agent) = &farm.agent {
            let star = if agent.in_progress { "* " } else { "" };
            self.set(Column::AgentStatus, Value::text(format!("{star}{}", agent.status.info())));
            if let Some(code) = agent.code {
                self.set(Column::AgentCode, Value::U32(code.into()));
            }
            if let Some(duration) = agent.duration_ms {
                self.count(Column::AgentDuration, duration);
            }
            self.set(Column::AgentDescription, Value::Text(agent.status.description().into()));
            self.set(Column::LastAgentCheck, Value::text(agent.info.clone()));
            self.set(Column::AgentRise, Value::U32(agent.config.rise));
            self.set(Column::AgentFall, Value::U32(agent.config.fall));
            self.set(Column::AgentHealth, Value::U32(agent.health));
        }
        let Some(check) = &farm.check else { return };
        let star = if check.in_progress { "* " } else { "" };
        self.set(Column::CheckStatus, Value::text(format!("{star}{}", check.status.info())));
        if let Some(code) = check.code {
            self.set(Column::CheckCode, Value::U32(code.into()));
        }
        if let Some(duration) = check.duration_ms {
            self.count(Column::CheckDuration, duration);
        }
        self.set(Column::CheckDescription, Value::Text(check.status.description().into()));
        self.set(Column::LastCheck, Value::text(check.info.clone()));
        self.set(Column::CheckRise, Value::U32(check.config.rise));
        self.set(Column::CheckFall, Value::U32(check.config.fall));
        self.set(Column::CheckHealth, Value::U32(check.health));
    }

    /// The row of a backend.
    #[must_use]
    pub fn backend(proxy: &ProxyView, backend: &BackendView, selection: Selection) -> Self {
        let farm = &backend.farm;
        let mut row = Self::new(Object::Backend, proxy, Value::Text("BACKEND".into()), 0);
        row.totals(&backend.totals, proxy.http);
        row.times(&backend.times);
        row.last_session(backend.last_session);
        row.set(Column::QueueNow, Value::U32(farm.queued));
        row.set(Column::QueueMax, Value::U32(farm.queue_max));
        row.set(Column::SessionsNow, Value::U32(farm.streams));
        row.set(Column::SessionsMax, Value::U32(farm.streams_max));
        row.set(Column::SessionsLimit, Value::U32(backend.sessions_limit));
        row.count(Column::SessionsTotal, backend.totals.sessions);
        row.count(Column::Balanced, farm.chosen);
        row.set(Column::Status, Value::text(backend_status(proxy, backend, selection)));
        row.set(Column::Weight, Value::U32(farm.weight));
        row.set(Column::UserWeight, Value::U32(user_weight(proxy, backend)));
        row.set(Column::Active, Value::U32(farm.active));
        row.set(Column::Backup, Value::U32(farm.backup));
        row.count(Column::Downs, farm.went_down);
        row.level(Column::LastChange, farm.last_change_s);
        if !proxy.servers.is_empty() {
            row.level(Column::Downtime, farm.down_time_s);
        }
        row.level(Column::Rate, backend.session_rate.now);
        row.level(Column::RateMax, backend.session_rate.max);
        for column in [Column::ServersByStatus, Column::ServersByCheck, Column::ServersByCheckResult] {
            row.set(column, Value::U32(0));
        }
        row.protocols(Some(&Http1::of_backend(proxy, backend)));
        if selection.legends {
            row.set(Column::Algorithm, Value::Text(backend.algorithm.into()));
            if let Some(cookie) = &backend.cookie {
                row.set(Column::Cookie, Value::text(cookie.clone()));
            }
        }
        row
    }
}

/// What is known of HTTP/1 on one side of a proxy; all zero in TCP mode.
#[derive(Default)]
struct Http1 {
    connections: u64,
    streams: u64,
    connections_total: u64,
    streams_total: u64,
    bytes_in: u64,
    bytes_out: u64,
    spliced_in: u64,
    spliced_out: u64,
}

impl Http1 {
    fn of_frontend(proxy: &ProxyView, frontend: &FrontendView) -> Self {
        if !proxy.http {
            return Self::default();
        }
        let totals = &frontend.totals;
        Self {
            connections: frontend.sessions.now,
            streams: frontend.requests_in_flight,
            connections_total: totals.connections,
            streams_total: totals.requests,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            spliced_in: totals.spliced_in,
            spliced_out: totals.spliced_out,
        }
    }

    fn of_backend(proxy: &ProxyView, backend: &BackendView) -> Self {
        if !proxy.http {
            return Self::default();
        }
        let totals = &backend.totals;
        let used: u64 = proxy.servers.iter().map(|server| server.used.now).sum();
        let idle: u64 = proxy.servers.iter().map(|server| server.idle).sum();
        let sum = |of: fn(&Totals) -> u64| -> u64 {
            // Where `dispatch` leads there is no server that counts.
            let all = (proxy.servers.is_empty() && totals.connects > 0).then(|| of(totals));
            all.unwrap_or_else(|| proxy.servers.iter().map(|server| of(&server.totals)).sum())
        };
        Self {
            connections: used + idle,
            streams: used,
            connections_total: totals.connects,
            streams_total: totals.connects + totals.reuses,
            // A backend's peers are its servers: they send what goes out to clients. What is answered here is not theirs.
            bytes_in: sum(|server| server.bytes_out),
            bytes_out: sum(|server| server.bytes_in),
            spliced_in: totals.spliced_out,
            spliced_out: totals.spliced_in,
        }
    }
}

fn backend_status(proxy: &ProxyView, backend: &BackendView, selection: Selection) -> String {
    let state = if backend.farm.is_up || proxy.servers.is_empty() { "UP" } else { "DOWN" };
    if !selection.hide_down && !selection.hide_maintenance {
        return state.to_owned();
    }
    let up = proxy.servers.iter().filter(|server| server.farm.state != OperationalState::Stopped).count();
    format!("{state} ({up}/{})", proxy.servers.len())
}

/// The weights that users gave to the servers in use: the active ones, or when none is left the backups, of which
/// only the first serves without `option allbackups`.
fn user_weight(proxy: &ProxyView, backend: &BackendView) -> u32 {
    let backups = backend.farm.active == 0;
    let serving = if backups && !backend.allbackups { 1 } else { proxy.servers.len() };
    let usable = |server: &&ServerView| Condition::of(&server.farm) == Condition::Up && server.farm.backup == backups;
    let weights = proxy.servers.iter().filter(usable).take(serving).map(|server| server.farm.user_weight);
    weights.fold(0, u32::saturating_add)
}

fn shared(text: &Arc<str>) -> Value {
    Value::text(&**text)
}

/// Whether a server has a row.
#[must_use]
pub fn server_shown(server: &ServerView, selection: Selection) -> bool {
    selection.wants_service(Object::Server, server.farm.number)
        && !(selection.hide_maintenance && server.farm.admin.is_maint())
        && !(selection.hide_down && server.hidden_when_down())
}

/// The rows of a proxy in HAProxy's order.
#[must_use]
pub fn proxy_rows(proxy: &ProxyView, selection: Selection) -> Vec<Row> {
    if !selection.wants_proxy(proxy.id) {
        return Vec::new();
    }
    let mut rows = Vec::new();
    if let Some(frontend) = proxy.frontend.as_ref().filter(|_| selection.wants(Object::Frontend)) {
        rows.push(Row::frontend(proxy, frontend));
    }
    for listener in proxy.listeners.iter().filter(|_| proxy.listeners_shown) {
        if selection.wants_service(Object::Listener, listener.id) {
            rows.push(Row::listener(proxy, listener, selection));
        }
    }
    let servers = proxy.servers.iter().filter(|server| server_shown(server, selection));
    rows.extend(servers.map(|server| Row::server(proxy, server, selection)));
    if let Some(backend) = proxy.backend.as_ref().filter(|_| selection.wants(Object::Backend)) {
        rows.push(Row::backend(proxy, backend, selection));
    }
    rows
}
