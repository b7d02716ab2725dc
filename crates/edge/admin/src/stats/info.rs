//! What `show info` says of the process: one table for every form it is shown in.

use std::fmt::Write as _;

use super::{
    value::{Nature, Origin, Tags, Value, write_json_string},
    view::{ProcessView, RateView},
};

/// How a field is exported to Prometheus behind `haproxy_process_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoMetric {
    /// Name.
    pub name: &'static str,
    /// `counter`, otherwise a gauge.
    pub counter: bool,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct InfoField {
    /// HAProxy's name.
    pub name: &'static str,
    /// What kind of value it is.
    pub tags: Tags,
    /// What it says.
    pub doc: &'static str,
    /// Its Prometheus metric.
    pub metric: Option<InfoMetric>,
    value: fn(&ProcessView, bool) -> Value,
}

const PRODUCT: Tags = Tags::service(Origin::Product, Nature::Output);
const CONFIG: Tags = Tags::service(Origin::Config, Nature::Gauge);
const CONFIG_TEXT: Tags = Tags::service(Origin::Config, Nature::Output);
const KEY: Tags = Tags::process(Origin::Key, Nature::Gauge);
const STATUS: Tags = Tags::process(Origin::Status, Nature::Gauge);
const DURATION: Tags = Tags::process(Origin::Metric, Nature::Duration);
const LIMIT: Tags = Tags::process(Origin::Config, Nature::Limit);
const GAUGE: Tags = Tags::process(Origin::Metric, Nature::Gauge);
const COUNTER: Tags = Tags::process(Origin::Metric, Nature::Counter);
const MAX: Tags = Tags::process(Origin::Metric, Nature::Max);
const RATE: Tags = Tags::process(Origin::Metric, Nature::Rate);
const AVERAGE: Tags = Tags::process(Origin::Metric, Nature::Average);

macro_rules! fields {
    ($($name:literal $tags:ident $($kind:ident $metric:literal)? : $doc:literal => $value:expr;)*) => {
        /// Every field in order.
        pub const FIELDS: &[InfoField] = &[
            $(InfoField {
                name: $name,
                tags: $tags,
                doc: $doc,
                metric: fields!(@metric $($kind $metric)?),
                value: $value,
            },)*
        ];
    };
    (@metric gauge $metric:literal) => { Some(InfoMetric { name: $metric, counter: false }) };
    (@metric counter $metric:literal) => { Some(InfoMetric { name: $metric, counter: true }) };
    (@metric) => { None };
}

/// Nothing like it is in the edge yet.
const ZERO: fn(&ProcessView, bool) -> Value = |_, _| Value::U32(0);

fields! {
    "Name" PRODUCT: "Name of the program" => |process, _| Value::Text(process.product.name.clone());
    "Version" PRODUCT: "Version of the program" => |process, _| Value::Text(process.product.version.clone());
    "Release_date" PRODUCT: "Day of this version" => |process, _| Value::Text(process.product.release_date.clone());
    "Nbthread" CONFIG gauge "nbthread": "Worker threads" => |process, _| Value::U32(process.workers);
    "Nbproc" CONFIG gauge "nbproc": "Processes that serve, always 1" => |_, _| Value::U32(1);
    "Process_num" KEY gauge "relative_process_id": "Number of this process, always 1" => |_, _| Value::U32(1);
    "Pid" STATUS: "Process id" => |process, _| Value::U32(process.pid);
    "Uptime" DURATION: "Time since the start in days, hours, minutes and seconds" => |process, _| Value::text(uptime(process.uptime.as_secs()));
    "Uptime_sec" DURATION gauge "uptime_seconds": "Seconds since the start" => |process, float| seconds(process.uptime, float);
    "Memmax_MB" LIMIT: "Megabytes that the process may use, 0 for no limit" => |process, _| Value::u32_from(process.memory_max_mb);
    "PoolAlloc_MB" GAUGE: "Megabytes of memory in use" => |process, _| Value::u32_from(process.memory_bytes >> 20);
    "PoolUsed_MB" GAUGE: "Megabytes of memory in use" => |process, _| Value::u32_from(process.memory_bytes >> 20);
    "PoolFailed" COUNTER counter "pool_failures_total": "Times that memory ran out" => ZERO;
    "Ulimit-n" LIMIT gauge "max_fds": "Descriptors that the process may open" => |process, _| Value::u32_from(process.descriptors_max);
    "Maxsock" LIMIT gauge "max_sockets": "Sockets that the process may open" => |process, _| Value::u32_from(process.descriptors_max);
    "Maxconn" LIMIT gauge "max_connections": "Client connections allowed at a time" => |process, _| Value::U32(process.connections_max);
    "Hard_maxconn" LIMIT gauge "hard_max_connections": "Most that Maxconn can be set to" => |process, _| Value::U32(process.connections_hard_max);
    "CurrConns" GAUGE gauge "current_connections": "Client connections now" => |process, _| Value::u32_from(process.connections);
    "CumConns" COUNTER counter "connections_total": "Client connections so far, those to stats sockets among them" => |process, _| Value::u32_from(process.connections_total + process.commands.1);
    "CumReq" COUNTER counter "requests_total": "Requests so far, connections to stats sockets among them" => |process, _| Value::u32_from(process.requests_total + process.commands.1);
    "MaxSslConns" MAX gauge "max_ssl_connections": "TLS connections allowed at a time" => |process, _| Value::U32(process.tls.connections_max);
    "CurrSslConns" GAUGE gauge "current_ssl_connections": "TLS connections now" => |process, _| Value::u32_from(process.tls.connections);
    "CumSslConns" COUNTER counter "ssl_connections_total": "TLS connections so far" => |process, _| Value::u32_from(process.tls.connections_total);
    "Maxpipes" LIMIT gauge "max_pipes": "Pipes allowed for splicing, 0 for no limit" => ZERO;
    "PipesUsed" GAUGE counter "pipes_used_total": "Pipes in use" => |process, _| Value::U32(process.pipes);
    "PipesFree" GAUGE counter "pipes_free_total": "Pipes kept for later" => ZERO;
    "ConnRate" RATE gauge "current_connection_rate": "Client connections in the last second" => |process, float| rate(process.connection_rate, float);
    "ConnRateLimit" LIMIT gauge "limit_connection_rate": "Client connections allowed in a second" => |process, _| Value::U32(process.connection_rate_limit);
    "MaxConnRate" MAX gauge "max_connection_rate": "Most client connections in a second" => |process, _| Value::u32_from(process.connection_rate.max);
    "SessRate" RATE gauge "current_session_rate": "Sessions in the last second" => |process, float| rate(process.session_rate, float);
    "SessRateLimit" LIMIT gauge "limit_session_rate": "Sessions allowed in a second" => |process, _| Value::U32(process.session_rate_limit);
    "MaxSessRate" RATE gauge "max_session_rate": "Most sessions in a second" => |process, _| Value::u32_from(process.session_rate.max);
    "SslRate" RATE gauge "current_ssl_rate": "TLS connections in the last second" => |process, float| rate(process.tls.client_rate, float);
    "SslRateLimit" LIMIT gauge "limit_ssl_rate": "TLS connections allowed in a second" => |process, _| Value::U32(process.tls.client_rate_limit);
    "MaxSslRate" MAX gauge "max_ssl_rate": "Most TLS connections in a second" => |process, _| Value::u32_from(process.tls.client_rate.max);
    "SslFrontendKeyRate" GAUGE gauge "current_frontend_ssl_key_rate": "TLS keys made for clients in the last second" => |process, _| Value::u32_from(process.tls.client_keys.now);
    "SslFrontendMaxKeyRate" MAX gauge "max_frontend_ssl_key_rate": "Most TLS keys made for clients in a second" => |process, _| Value::u32_from(process.tls.client_keys.max);
    "SslFrontendSessionReuse_pct" GAUGE gauge "frontend_ssl_reuse": "Percent of clients' TLS connections that needed no new key" => |process, _| Value::u32_from(process.tls.reuse_percent());
    "SslBackendKeyRate" RATE gauge "current_backend_ssl_key_rate": "TLS keys made for servers in the last second" => |process, float| rate(process.tls.server_keys, float);
    "SslBackendMaxKeyRate" MAX gauge "max_backend_ssl_key_rate": "Most TLS keys made for servers in a second" => |process, _| Value::u32_from(process.tls.server_keys.max);
    "SslCacheLookups" COUNTER counter "ssl_cache_lookups_total": "TLS sessions looked for" => |process, _| Value::u32_from(process.tls.lookups);
    "SslCacheMisses" COUNTER counter "ssl_cache_misses_total": "TLS sessions looked for and not found" => |process, _| Value::u32_from(process.tls.misses);
    "CompressBpsIn" RATE counter "http_comp_bytes_in_total": "Bytes given to compression in the last second" => |process, float| rate(process.compression_in, float);
    "CompressBpsOut" RATE counter "http_comp_bytes_out_total": "Bytes that compression made in the last second" => |process, float| rate(process.compression_out, float);
    "CompressBpsRateLim" LIMIT gauge "limit_http_comp": "Bytes that compression may make in a second" => |process, _| Value::u32_from(process.compression_rate_limit);
    "ZlibMemUsage" GAUGE gauge "current_zlib_memory": "Bytes of memory used by compression" => |_, _| Value::Empty;
    "MaxZlibMemUsage" LIMIT gauge "max_zlib_memory": "Bytes of memory that compression may use" => |_, _| Value::Empty;
    "Tasks" GAUGE gauge "current_tasks": "Tasks of the runtime" => |process, _| Value::U32(process.tasks);
    "Run_queue" GAUGE gauge "current_run_queue": "Tasks that are ready to run" => |process, _| Value::U32(process.tasks_ready);
    "Idle_pct" AVERAGE gauge "idle_time_percent": "Percent of the last second that workers had nothing to do" => |process, _| Value::U32(process.idle_percent.unwrap_or(100));
    "node" CONFIG_TEXT: "Name of the node" => |process, _| Value::text(process.node.clone());
    "description" CONFIG_TEXT: "Description of the node" => |process, _| process.description.clone().map_or(Value::Empty, Value::text);
    "Stopping" GAUGE gauge "stopping": "1 once the process is on its way out" => |process, _| Value::U32(u32::from(process.stopping));
    "Jobs" GAUGE gauge "jobs": "Connections and listeners that keep the process alive" => |process, _| Value::u32_from(process.connections + process.commands.0 + u64::from(process.listeners));
    "Unstoppable Jobs" GAUGE gauge "unstoppable_jobs": "Connections of the master that do not keep the process alive" => ZERO;
    "Listeners" GAUGE gauge "listeners": "Open listeners" => |process, _| Value::U32(process.listeners);
    "ActivePeers" GAUGE gauge "active_peers": "Peers that are in touch" => |process, _| Value::u32_from(process.peers.0 as u64);
    "ConnectedPeers" GAUGE gauge "connected_peers": "Peers that are connected" => |process, _| Value::u32_from(process.peers.1 as u64);
    "DroppedLogs" GAUGE counter "dropped_logs_total": "Log lines that could not be sent" => |process, _| Value::u32_from(process.logs_dropped);
    "BusyPolling" GAUGE gauge "busy_polling_enabled": "1 if workers poll without sleeping" => ZERO;
    "FailedResolutions" GAUGE counter "failed_resolutions": "Names that did not resolve" => |process, _| Value::u32_from(process.resolutions_failed);
    "TotalBytesOut" GAUGE counter "bytes_out_total": "Bytes sent so far" => |process, _| Value::U64(process.bytes_out);
    "TotalSplicdedBytesOut" GAUGE counter "spliced_bytes_out_total": "Bytes sent through a pipe so far" => |process, _| Value::U64(process.bytes_spliced);
    "BytesOutRate" RATE gauge "bytes_out_rate": "Bytes sent in the last second" => |process, _| Value::U64(process.bytes_out_rate.now);
    "DebugCommandsIssued" GAUGE: "Debug commands given so far" => ZERO;
    "CumRecvLogs" COUNTER counter "recv_logs_total": "Log messages received" => |process, _| Value::u32_from(process.logs_received);
    "Build info" PRODUCT gauge "build_info": "Version of the program" => |process, _| Value::Text(process.product.version.clone());
    "Memmax_bytes" LIMIT gauge "max_memory_bytes": "Bytes that the process may use, 0 for no limit" => |process, _| Value::u32_from(process.memory_max_mb << 20);
    "PoolAlloc_bytes" GAUGE gauge "pool_allocated_bytes": "Bytes of memory in use" => |process, _| Value::U64(process.memory_bytes);
    "PoolUsed_bytes" GAUGE gauge "pool_used_bytes": "Bytes of memory in use" => |process, _| Value::U64(process.memory_bytes);
    "Start_time_sec" DURATION gauge "start_time_seconds": "Start of the process in seconds since the epoch" => |process, float| seconds(process.started, float);
    "Tainted" STATUS: "Bits for experimental features that were used" => |process, _| Value::text(hexadecimal(process.tainted));
}

/// As C's `%#x`.
fn hexadecimal(bits: u32) -> String {
    if bits == 0 { "0".to_owned() } else { format!("{bits:#x}") }
}

fn rate(rate: RateView, float: bool) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a rate is far below 2^52")]
    let exact = rate.now as f64;
    if float { Value::Float(exact) } else { Value::u32_from(rate.now) }
}

fn seconds(time: std::time::Duration, float: bool) -> Value {
    if float { Value::Float(time.as_secs_f64()) } else { Value::u32_from(time.as_secs()) }
}

/// `1d 2h03m04s`.
#[must_use]
pub fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{days}d {hours}h{minutes:02}m{:02}s", seconds % 60)
}

/// In which form fields are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InfoForm {
    /// `Name: value`.
    #[default]
    Plain,
    /// With position, tags and type.
    Typed,
    /// JSON.
    Json,
}

/// `show info`.
#[must_use]
pub fn show_info(process: &ProcessView, form: InfoForm, descriptions: bool, float: bool) -> String {
    let mut out = String::with_capacity(4_096);
    let json = form == InfoForm::Json;
    if json {
        out.push('[');
    }
    let mut first = true;
    for (position, field) in FIELDS.iter().enumerate() {
        let value = (field.value)(process, float);
        if value.is_empty() {
            continue;
        }
        match form {
            InfoForm::Plain => {
                let _ = write!(out, "{}: ", field.name);
                value.write_csv(&mut out);
            }
            InfoForm::Typed => {
                let _ = write!(out, "{position}.{}.1:", field.name);
                field.tags.write_letters(&mut out);
                let _ = write!(out, ":{}:", value.type_name());
                value.write_plain(&mut out);
            }
            InfoForm::Json => {
                if !std::mem::take(&mut first) {
                    out.push(',');
                }
                let _ = write!(out, r#"{{"field":{{"pos":{position},"name":"#);
                write_json_string(&mut out, field.name);
                out.push_str(r#"},"processNum":1,"tags":"#);
                field.tags.write_json(&mut out);
                let _ = write!(out, r#","value":{{"type":"{}","value":"#, value.type_name());
                value.write_json(&mut out);
                out.push_str("}}");
            }
        }
        if !json {
            if descriptions {
                let _ = write!(out, ":\"{}\"", field.doc);
            }
            out.push('\n');
        }
    }
    if json {
        out.push(']');
    }
    out
}

impl InfoField {
    /// Its value.
    #[must_use]
    pub fn value(&self, process: &ProcessView) -> Value {
        (self.value)(process, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let process =
            ProcessView { workers: 4, uptime: std::time::Duration::from_millis(93_784_500), ..Default::default() };
        let plain = show_info(&process, InfoForm::Plain, false, false);
        assert!(plain.contains("\nNbthread: 4\n") && plain.contains("\nUptime: 1d 2h03m04s\n"), "{plain}");
        assert!(!plain.contains("description"), "an empty field is left out");
        let described = show_info(&process, InfoForm::Plain, true, true);
        assert!(described.contains("\nUptime_sec: 93784.5:\"Seconds since the start\"\n"), "{described}");
        let typed = show_info(&process, InfoForm::Typed, false, false);
        assert!(typed.contains("\n3.Nbthread.1:CGS:u32:4\n") && typed.contains("\n7.Uptime.1:MDP:str:1d "), "{typed}");
        let json: serde_json::Value = serde_json::from_str(&show_info(&process, InfoForm::Json, false, false)).unwrap();
        assert_eq!(json[3]["field"]["name"], "Nbthread");
        assert_eq!(json[3]["value"]["value"], 4);
        assert_eq!(json[3]["tags"]["origin"], "Config");
    }
}
