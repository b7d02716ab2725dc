//! Prometheus' text format with the metric names of HAProxy's own exporter.

use std::fmt::Write as _;

use balance::{CheckResult, CheckStatus};

use crate::stats::{
    columns::{Column, Object},
    files::NUMBERS,
    info::{self, InfoMetric},
    row::{Row, Selection},
    text::{decode_url, escape_label},
    value::{Nature, Value},
    view::{Condition, ListenerState, ProxyView, ServerView, Snapshot, TableView},
};

/// Value of `Content-Type` for this format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Which metrics are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent scope of the query")]
pub struct Filter {
    process: bool,
    frontends: bool,
    listeners: bool,
    backends: bool,
    servers: bool,
    tables: bool,
    hide_maintenance: bool,
}

/// A query that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid query of the Prometheus exporter")]
pub struct BadQuery;

impl Filter {
    /// Everything.
    pub const ALL: Self = Self {
        process: true,
        frontends: true,
        listeners: true,
        backends: true,
        servers: true,
        tables: true,
        hide_maintenance: false,
    };

    const NOTHING: Self = Self {
        process: false,
        frontends: false,
        listeners: false,
        backends: false,
        servers: false,
        tables: false,
        hide_maintenance: false,
    };

    /// What a query string (behind the `?`) asks for: any number of `scope=` with `global`, `frontend`, `listener`,
    /// `backend`, `server`, `sticktable`, `*` or nothing, and `no-maint`.
    ///
    /// # Errors
    /// An unknown scope or a broken escape.
    pub fn parse(query: &[u8]) -> Result<Self, BadQuery> {
        let query = query.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut scopes: Option<Self> = None;
        let mut hide_maintenance = false;
        for parameter in query.split(|byte| *byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let mut parts = parameter.splitn(2, |byte| *byte == b'=');
            let key = decode_url(parts.next().unwrap_or_default(), true).ok_or(BadQuery)?;
            let value = parts.next().map(|value| decode_url(value, true).ok_or(BadQuery)).transpose()?;
            match (key.as_slice(), value.as_deref()) {
                (b"no-maint", _) => hide_maintenance = true,
                (b"scope", value) => {
                    let scopes = scopes.get_or_insert(Self::NOTHING);
                    match value.ok_or(BadQuery)? {
                        b"" => *scopes = Self::NOTHING,
                        b"*" => *scopes = Self::ALL,
                        b"global" => scopes.process = true,
                        b"frontend" => scopes.frontends = true,
                        b"listener" => scopes.listeners = true,
                        b"backend" => scopes.backends = true,
                        b"server" => scopes.servers = true,
                        b"sticktable" => scopes.tables = true,
                        _ => return Err(BadQuery),
                    }
                }
                _ => {}
            }
        }
        Ok(Self { hide_maintenance, ..scopes.unwrap_or(Self::ALL) })
    }
}

/// The metrics of a snapshot.
#[must_use]
pub fn prometheus(snapshot: &Snapshot, filter: Filter) -> String {
    let mut out = String::with_capacity(65_536);
    if filter.process {
        process(&mut out, snapshot);
        certificates(&mut out, snapshot);
        files(&mut out, snapshot);
    }
    let rows = Rows::of(snapshot, filter);
    if filter.frontends {
        object(&mut out, "haproxy_frontend_", Object::Frontend, &rows.frontends);
    }
    if filter.listeners {
        object(&mut out, "haproxy_listener_", Object::Listener, &rows.listeners);
    }
    if filter.backends {
        object(&mut out, "haproxy_backend_", Object::Backend, &rows.backends);
    }
    if filter.servers {
        object(&mut out, "haproxy_server_", Object::Server, &rows.servers);
    }
    if filter.tables {
        tables(&mut out, snapshot);
    }
    out
}

/// A row with what its state is told from.
struct Entry<'a> {
    labels: String,
    row: Row,
    proxy: &'a ProxyView,
    server: Option<&'a ServerView>,
}

struct Rows<'a> {
    frontends: Vec<Entry<'a>>,
    listeners: Vec<Entry<'a>>,
    backends: Vec<Entry<'a>>,
    servers: Vec<Entry<'a>>,
}

impl<'a> Rows<'a> {
    fn of(snapshot: &'a Snapshot, filter: Filter) -> Self {
        let mut rows = Self { frontends: vec![], listeners: vec![], backends: vec![], servers: vec![] };
        let selection = Selection::default();
        for proxy in &snapshot.proxies {
            let of_proxy = format!("proxy=\"{}\"", escape_label(&proxy.name));
            let entry = |labels: String, row| Entry { labels, row, proxy, server: None };
            if let Some(frontend) = proxy.frontend.as_ref().filter(|_| filter.frontends) {
                rows.frontends.push(entry(of_proxy.clone(), Row::frontend(proxy, frontend)));
            }
            for listener in proxy.listeners.iter().filter(|_| filter.listeners && proxy.listeners_shown) {
                let labels = format!("{of_proxy},listener=\"{}\"", escape_label(&listener.name));
                rows.listeners.push(entry(labels, Row::listener(proxy, listener, selection)));
            }
            if let Some(backend) = proxy.backend.as_ref().filter(|_| filter.backends) {
                rows.backends.push(entry(of_proxy.clone(), Row::backend(proxy, backend, selection)));
            }
            for server in proxy.servers.iter().filter(|_| filter.servers) {
                if filter.hide_maintenance && server.farm.admin.is_maint() {
                    continue;
                }
                let labels = format!("{of_proxy},server=\"{}\"", escape_label(&server.farm.name));
                let row = Row::server(proxy, server, selection);
                rows.servers.push(Entry { labels, row, proxy, server: Some(server) });
            }
        }
        rows
    }
}

fn header(out: &mut String, prefix: &str, name: &str, doc: &str, counter: bool) {
    let kind = if counter { "counter" } else { "gauge" };
    let _ = write!(out, "# HELP {prefix}{name} {doc}.\n# TYPE {prefix}{name} {kind}\n");
}

fn sample(out: &mut String, prefix: &str, name: &str, labels: &str, value: &Value) {
    out.push_str(prefix);
    out.push_str(name);
    if !labels.is_empty() {
        let _ = write!(out, "{{{labels}}}");
    }
    out.push(' ');
    match value {
        Value::Empty | Value::Text(_) => out.push_str("NaN"),
        Value::Float(value) => {
            let _ = write!(out, "{value:.6}");
        }
        number => number.write_plain(out),
    }
    out.push('\n');
}

fn process(out: &mut String, snapshot: &Snapshot) {
    const PREFIX: &str = "haproxy_process_";
    for field in info::FIELDS {
        let Some(InfoMetric { name, counter }) = field.metric else { continue };
        header(out, PREFIX, name, field.doc, counter);
        if name == "build_info" {
            let labels = format!("version=\"{}\"", escape_label(&snapshot.process.product.version));
            sample(out, PREFIX, name, &labels, &Value::U32(1));
        } else {
            sample(out, PREFIX, name, "", &field.value(&snapshot.process));
        }
    }
}

/// Certificates that come by themselves; HAProxy has no such metrics.
fn certificates(out: &mut String, snapshot: &Snapshot) {
    type Of = fn(&acme::Status) -> u64;
    const PREFIX: &str = "tidegate_certificate_";
    const METRICS: [(&str, &str, bool, Of); 4] = [
        (
            "expiry_timestamp_seconds",
            "When the certificate ends, in seconds since 1970; 0 for a temporary one",
            false,
            |it| it.ends.and_then(|ends| u64::try_from(ends).ok()).unwrap_or(0),
        ),
        ("failures", "Attempts to renew the certificate that failed since the last one that did not", false, |it| {
            it.failures.into()
        }),
        ("renewal_failures_total", "Attempts to renew the certificate that failed", true, |it| it.failed),
        ("renewals_total", "Times that the certificate was renewed", true, |it| it.renewed),
    ];
    if snapshot.certificates.is_empty() {
        return;
    }
    for (name, doc, counter, value) in METRICS {
        header(out, PREFIX, name, doc, counter);
        for status in &snapshot.certificates {
            let (certificate, section) = (escape_label(&status.name), escape_label(&status.section));
            let labels = format!("certificate=\"{certificate}\",section=\"{section}\"");
            sample(out, PREFIX, name, &labels, &Value::U64(value(status)));
        }
    }
}

/// Files that backends answer with; HAProxy has no such metrics.
fn files(out: &mut String, snapshot: &Snapshot) {
    const PREFIX: &str = "tidegate_files_";
    if snapshot.files.is_empty() {
        return;
    }
    for number in NUMBERS {
        header(out, PREFIX, number.metric, number.doc, number.counter);
        for backend in &snapshot.files {
            let labels = format!("proxy=\"{}\"", escape_label(&backend.backend));
            sample(out, PREFIX, number.metric, &labels, &Value::U64((number.value)(backend)));
        }
    }
}

fn tables(out: &mut String, snapshot: &Snapshot) {
    const PREFIX: &str = "haproxy_sticktable_";
    let mut metric = |name: &str, doc: &str, value: fn(&TableView) -> u32| {
        header(out, PREFIX, name, doc, false);
        for table in &snapshot.tables {
            let labels = format!("name=\"{}\",type=\"{}\"", escape_label(&table.name), table.key);
            sample(out, PREFIX, name, &labels, &Value::U32(value(table)));
        }
    };
    if !snapshot.tables.is_empty() {
        metric("size", "Entries that the stick table may have", |table| table.size);
        metric("used", "Entries that the stick table has", |table| table.used);
    }
}

/// The class of status codes that a column counts.
fn response_class(column: Column) -> Option<&'static str> {
    Some(match column {
        Column::Responses1xx => "1xx",
        Column::Responses2xx => "2xx",
        Column::Responses3xx => "3xx",
        Column::Responses4xx => "4xx",
        Column::Responses5xx => "5xx",
        Column::ResponsesOther => "other",
        _ => return None,
    })
}

/// Whether a column only says something of HTTP.
fn http_only(column: Column) -> bool {
    response_class(column).is_some()
        || matches!(
            column,
            Column::RequestRateMax
                | Column::Requests
                | Column::Intercepted
                | Column::CacheLookups
                | Column::CacheHits
                | Column::CompressionIn
                | Column::CompressionOut
                | Column::CompressionBypassed
                | Column::CompressedResponses
        )
}

/// Whether a column holds milliseconds, which Prometheus wants as seconds.
fn in_milliseconds(column: Column) -> bool {
    matches!(
        column,
        Column::QueueTime
            | Column::ConnectTime
            | Column::ResponseTime
            | Column::TotalTime
            | Column::QueueTimeMax
            | Column::ConnectTimeMax
            | Column::ResponseTimeMax
            | Column::TotalTimeMax
            | Column::CheckDuration
    )
}

fn object(out: &mut String, prefix: &str, object: Object, entries: &[Entry<'_>]) {
    let mut headed = "";
    for column in Column::ALL.iter().copied() {
        let definition = column.definition();
        let Some(metric) = definition.metric.filter(|metric| metric.objects.contains(object)) else { continue };
        let mut body = String::new();
        for entry in entries.iter().filter(|entry| entry.proxy.http || !http_only(column)) {
            samples(&mut body, prefix, metric.name, column, entry);
        }
        if body.is_empty() {
            continue;
        }
        if headed != metric.name {
            let doc = if response_class(column).is_some() {
                "HTTP responses so far by class of status"
            } else {
                definition.doc
            };
            header(out, prefix, metric.name, doc, definition.tags.nature == Nature::Counter);
            headed = metric.name;
        }
        out.push_str(&body);
    }
}

fn samples(out: &mut String, prefix: &str, name: &str, column: Column, entry: &Entry<'_>) {
    let labels = &entry.labels;
    let value = entry.row.value(column);
    let mut states = |states: &mut dyn Iterator<Item = (&'static str, u32)>| {
        for (state, count) in states {
            sample(out, prefix, name, &format!("{labels},state=\"{state}\""), &Value::U32(count));
        }
    };
    let one_of = |is: bool| u32::from(is);
    match column {
        Column::Status if entry.row.object == Object::Server => {
            let is = entry.server.map(|server| Condition::of(&server.farm));
            states(&mut Condition::ALL.iter().map(|state| (state.name(), one_of(is == Some(*state)))));
        }
        Column::Status if entry.row.object == Object::Listener => {
            let is = value.as_text().unwrap_or_default();
            states(&mut ListenerState::ALL.iter().map(|state| (state.name(), one_of(state.name() == is))));
        }
        Column::Status => {
            let up = !matches!(value.as_text(), Some("STOP" | "DOWN"));
            states(&mut [("DOWN", one_of(!up)), ("UP", one_of(up))].into_iter());
        }
        Column::ServersByStatus | Column::ServersByCheck => {
            let servers = &entry.proxy.servers;
            let count = |state| servers.iter().filter(|server| Condition::of(&server.farm) == state).count();
            let all = if servers.is_empty() { &[] } else { &Condition::ALL[..] };
            states(&mut all.iter().map(|state| (state.name(), u32::try_from(count(*state)).unwrap_or(u32::MAX))));
        }
        Column::ServersByCheckResult => {
            let checks = || entry.proxy.servers.iter().filter_map(ServerView::checked);
            let count = |status| u32::try_from(checks().filter(|found| *found == status).count()).unwrap_or(u32::MAX);
            if !entry.proxy.servers.is_empty() {
                states(&mut check_results().map(|status| (status.info(), count(status))));
            }
        }
        Column::CheckStatus => {
            if let Some(is) = entry.server.and_then(ServerView::checked) {
                states(&mut check_results().map(|status| (status.info(), one_of(is == status))));
            }
        }
        Column::CheckCode => {
            if entry.server.is_some_and(|server| server.checked().is_some()) {
                sample(out, prefix, name, labels, if value.is_empty() { &Value::U32(0) } else { value });
            }
        }
        Column::CheckDuration if value.is_empty() => {}
        _ if in_milliseconds(column) => {
            sample(out, prefix, name, labels, &Value::Float(milliseconds(value)));
        }
        _ => match response_class(column) {
            Some(class) => sample(out, prefix, name, &format!("{labels},code=\"{class}\""), value),
            None => sample(out, prefix, name, labels, value),
        },
    }
}

/// Every result that says something of a server, in HAProxy's order.
fn check_results() -> impl Iterator<Item = CheckStatus> {
    let telling = |status: &CheckStatus| !matches!(status.result(), CheckResult::Unknown | CheckResult::Neutral);
    (0..=u8::MAX).filter_map(CheckStatus::from_code).filter(telling)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds beyond 2^52 do not occur")]
fn milliseconds(value: &Value) -> f64 {
    value.number().unwrap_or(0) as f64 / 1_000.0
}
