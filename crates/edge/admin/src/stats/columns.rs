//! The statistics of frontends, listeners, servers and backends: one table for every form they are shown in.
//!
//! Names and order are HAProxy's, whose users count on both. Positions are part of the interface: a new column goes to
//! the end.

use super::value::{Nature, Origin, Tags};

/// What a row of statistics is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// The client side of a proxy.
    Frontend,
    /// The server side of a proxy.
    Backend,
    /// A server.
    Server,
    /// A listener.
    Listener,
}

impl Object {
    /// The number in the `type` column, which is also the bit asked for by `show stat <iid> <type> <sid>`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Frontend => 0,
            Self::Backend => 1,
            Self::Server => 2,
            Self::Listener => 3,
        }
    }

    /// The letter in the typed output.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Frontend => 'F',
            Self::Backend => 'B',
            Self::Server => 'S',
            Self::Listener => 'L',
        }
    }

    /// The word in the JSON output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
            Self::Listener => "Listener",
        }
    }
}

/// A set of [`Object`]s, written as a text of their letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects(u8);

impl Objects {
    const fn new(letters: &str) -> Self {
        let letters = letters.as_bytes();
        let mut bits = 0;
        let mut index = 0;
        while index < letters.len() {
            #[expect(
                clippy::indexing_slicing,
                reason = "index is below the length, and the function runs at compile time"
            )]
            let object = match letters[index] {
                b'F' => Object::Frontend,
                b'B' => Object::Backend,
                b'S' => Object::Server,
                _ => Object::Listener,
            };
            bits |= 1 << object.number();
            index += 1;
        }
        Self(bits)
    }

    /// Whether an object is in the set.
    #[must_use]
    pub const fn contains(self, object: Object) -> bool {
        self.0 & (1 << object.number()) != 0
    }
}

/// How a column is exported to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name behind `haproxy_frontend_` and its siblings.
    pub name: &'static str,
    /// Of which objects.
    pub objects: Objects,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// HAProxy's name.
    pub name: &'static str,
    /// Which objects have it.
    pub objects: Objects,
    /// What kind of value it is.
    pub tags: Tags,
    /// What it says.
    pub doc: &'static str,
    /// Its Prometheus metric.
    pub metric: Option<Metric>,
}

const KEY: Tags = Tags::service(Origin::Key, Nature::Gauge);
const NAME: Tags = Tags::service(Origin::Key, Nature::Name);
const GAUGE: Tags = Tags::process(Origin::Metric, Nature::Gauge);
const MAX: Tags = Tags::process(Origin::Metric, Nature::Max);
const LIMIT: Tags = Tags::process(Origin::Config, Nature::Limit);
const COUNTER: Tags = Tags::process(Origin::Metric, Nature::Counter);
const RATE: Tags = Tags::process(Origin::Metric, Nature::Rate);
const AVERAGE: Tags = Tags::process(Origin::Metric, Nature::Average);
const AGE: Tags = Tags::process(Origin::Metric, Nature::Age);
const DURATION: Tags = Tags::process(Origin::Metric, Nature::Duration);
const OUTPUT: Tags = Tags::process(Origin::Metric, Nature::Output);
const STATUS: Tags = Tags::process(Origin::Status, Nature::Gauge);
const CONFIG: Tags = Tags::service(Origin::Config, Nature::Gauge);
const CONFIG_NAME: Tags = Tags::service(Origin::Config, Nature::Name);
const PROCESS_KEY: Tags = Tags::process(Origin::Key, Nature::Gauge);

macro_rules! columns {
    ($($variant:ident $name:literal $tags:ident $objects:literal $($metric:literal of $exported:literal)? : $doc:literal;)*) => {
        /// A column of the statistics; the discriminant is its position.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Column {
            $(#[doc = concat!("`", $name, "`: ", $doc, ".")] $variant,)*
        }

        const DEFINITIONS: &[Definition] = &[
            $(Definition {
                name: $name,
                objects: Objects::new($objects),
                tags: $tags,
                doc: $doc,
                metric: columns!(@metric $($metric of $exported)?),
            },)*
        ];

        impl Column {
            /// Every column in order.
            pub const ALL: &'static [Column] = &[$(Column::$variant,)*];
        }
    };
    (@metric $metric:literal of $exported:literal) => {
        Some(Metric { name: $metric, objects: Objects::new($exported) })
    };
    (@metric) => { None };
}

columns! {
    ProxyName "pxname" NAME "FLSB": "Name of the proxy";
    ServiceName "svname" NAME "FLSB": "Name of the server or listener, or FRONTEND or BACKEND";
    QueueNow "qcur" GAUGE "SB" "current_queue" of "SB": "Requests that wait in the queue now";
    QueueMax "qmax" MAX "SB" "max_queue" of "SB": "Most requests that ever waited in the queue";
    SessionsNow "scur" GAUGE "FLSB" "current_sessions" of "FLSB": "Sessions now";
    SessionsMax "smax" MAX "FLSB" "max_sessions" of "FLSB": "Most sessions at a time";
    SessionsLimit "slim" LIMIT "FLSB" "limit_sessions" of "FLSB": "Sessions allowed at a time: maxconn, or a backend's fullconn";
    SessionsTotal "stot" COUNTER "FLSB" "sessions_total" of "FLSB": "Sessions so far";
    BytesIn "bin" COUNTER "FLSB" "bytes_in_total" of "FLSB": "Bytes received from clients";
    BytesOut "bout" COUNTER "FLSB" "bytes_out_total" of "FLSB": "Bytes sent to clients";
    DeniedRequests "dreq" COUNTER "FLB" "requests_denied_total" of "FLB": "Requests refused by a rule";
    DeniedResponses "dresp" COUNTER "FLSB" "responses_denied_total" of "FLSB": "Responses refused by a rule";
    RequestErrors "ereq" COUNTER "FL" "request_errors_total" of "FL": "Requests that were invalid or never complete";
    ConnectionErrors "econ" COUNTER "SB" "connection_errors_total" of "SB": "Connections to servers that failed";
    ResponseErrors "eresp" COUNTER "SB" "response_errors_total" of "SB": "Responses that were invalid or broke off";
    Retries "wretr" COUNTER "SB" "retry_warnings_total" of "SB": "Connections tried again";
    Redispatches "wredis" COUNTER "SB" "redispatch_warnings_total" of "SB": "Requests sent to another server after a failure";
    Status "status" STATUS "FLSB" "status" of "FLSB": "State";
    Weight "weight" AVERAGE "SB" "weight" of "SB": "Weight in effect; a backend's is that of its usable servers";
    Active "act" STATUS "SB" "active_servers" of "B": "Usable active servers, or whether the server is an active one";
    Backup "bck" STATUS "SB" "backup_servers" of "B": "Usable backup servers, or whether the server is a backup";
    ChecksFailed "chkfail" COUNTER "S" "check_failures_total" of "S": "Failed checks while the server was up";
    Downs "chkdown" COUNTER "SB" "check_up_down_total" of "SB": "Times it went down";
    LastChange "lastchg" AGE "SB" "check_last_change_seconds" of "SB": "Seconds since it last went up or down";
    Downtime "downtime" COUNTER "SB" "downtime_seconds_total" of "SB": "Seconds it was down in all";
    QueueLimit "qlimit" CONFIG "S" "queue_limit" of "S": "Requests that may wait for the server: maxqueue";
    Process "pid" PROCESS_KEY "FLSB": "Number of the process, always 1";
    ProxyId "iid" KEY "FLSB": "Number of the proxy";
    ServiceId "sid" KEY "FLSB": "Number of the server or listener in its proxy";
    Throttle "throttle" AVERAGE "S" "current_throttle" of "S": "Percent of its weight that a server in slow start may use";
    Balanced "lbtot" COUNTER "SB" "loadbalanced_total" of "SB": "Times a server was chosen by balancing";
    Tracked "tracked" CONFIG_NAME "S": "The server whose checks count for this one";
    Type "type" CONFIG "FLSB": "0 frontend, 1 backend, 2 server, 3 listener";
    Rate "rate" RATE "FSB": "Sessions in the last second";
    RateLimit "rate_lim" LIMIT "F" "limit_session_rate" of "F": "Sessions allowed in a second: rate-limit sessions";
    RateMax "rate_max" MAX "FSB" "max_session_rate" of "FSB": "Most sessions in a second";
    CheckStatus "check_status" OUTPUT "S" "check_status" of "S": "Result of the last check; a star when one runs";
    CheckCode "check_code" OUTPUT "S" "check_code" of "S": "Status code that the last check received";
    CheckDuration "check_duration" DURATION "S" "check_duration_seconds" of "S": "Milliseconds that the last check took";
    Responses1xx "hrsp_1xx" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with a 1xx status";
    Responses2xx "hrsp_2xx" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with a 2xx status";
    Responses3xx "hrsp_3xx" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with a 3xx status";
    Responses4xx "hrsp_4xx" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with a 4xx status";
    Responses5xx "hrsp_5xx" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with a 5xx status";
    ResponsesOther "hrsp_other" COUNTER "FSB" "http_responses_total" of "FSB": "Responses with another status or none";
    ObservedFailures "hanafail" COUNTER "S": "Times that observed traffic counted as failed checks";
    RequestRate "req_rate" RATE "F": "HTTP requests in the last second";
    RequestRateMax "req_rate_max" MAX "F" "http_requests_rate_max" of "F": "Most HTTP requests in a second";
    Requests "req_tot" COUNTER "FSB" "http_requests_total" of "FB": "HTTP requests so far";
    ClientAborts "cli_abrt" COUNTER "SB" "client_aborts_total" of "SB": "Transfers that the client broke off";
    ServerAborts "srv_abrt" COUNTER "SB" "server_aborts_total" of "SB": "Transfers that the server broke off";
    CompressionIn "comp_in" COUNTER "FB" "http_comp_bytes_in_total" of "FB": "Bytes given to compression";
    CompressionOut "comp_out" COUNTER "FB" "http_comp_bytes_out_total" of "FB": "Bytes that compression made of them";
    CompressionBypassed "comp_byp" COUNTER "FB" "http_comp_bytes_bypassed_total" of "FB": "Bytes that compression left alone";
    CompressedResponses "comp_rsp" COUNTER "FB" "http_comp_responses_total" of "FB": "Responses that were compressed";
    LastSession "lastsess" AGE "SB" "last_session_seconds" of "SB": "Seconds since the last session, -1 for none yet";
    LastCheck "last_chk" OUTPUT "S": "What the last check saw";
    LastAgentCheck "last_agt" OUTPUT "S": "What the last agent check saw";
    QueueTime "qtime" AVERAGE "SB" "queue_time_average_seconds" of "SB": "Mean milliseconds in the queue over the last 1024 requests";
    ConnectTime "ctime" AVERAGE "SB" "connect_time_average_seconds" of "SB": "Mean milliseconds to connect over the last 1024 requests";
    ResponseTime "rtime" AVERAGE "SB" "response_time_average_seconds" of "SB": "Mean milliseconds until the response began over the last 1024 requests";
    TotalTime "ttime" AVERAGE "SB" "total_time_average_seconds" of "SB": "Mean milliseconds from request to end over the last 1024 requests";
    AgentStatus "agent_status" OUTPUT "S": "Result of the last agent check; a star when one runs";
    AgentCode "agent_code" OUTPUT "S": "Code of the last agent check";
    AgentDuration "agent_duration" DURATION "S": "Milliseconds that the last agent check took";
    CheckDescription "check_desc" OUTPUT "S": "The result of the last check in words";
    AgentDescription "agent_desc" OUTPUT "S": "The result of the last agent check in words";
    CheckRise "check_rise" CONFIG "S": "Good checks that bring the server up";
    CheckFall "check_fall" CONFIG "S": "Failed checks that take the server down";
    CheckHealth "check_health" CONFIG "S": "Health, from 0 to rise + fall - 1; up from rise on";
    AgentRise "agent_rise" CONFIG "S": "Good agent checks that bring the server up";
    AgentFall "agent_fall" CONFIG "S": "Failed agent checks that take the server down";
    AgentHealth "agent_health" CONFIG "S": "Health by agent checks";
    Address "addr" CONFIG "LS": "Address and port, for those who may see them";
    Cookie "cookie" CONFIG_NAME "SB": "The server's cookie value or the backend's cookie name, for those who may see them";
    Mode "mode" CONFIG "FLSB": "tcp or http";
    Algorithm "algo" CONFIG "B": "Balancing algorithm, for those who may see it";
    ConnectionRate "conn_rate" RATE "F": "Connections in the last second";
    ConnectionRateMax "conn_rate_max" MAX "F" "connections_rate_max" of "F": "Most connections in a second";
    Connections "conn_tot" COUNTER "F" "connections_total" of "F": "Connections accepted so far";
    Intercepted "intercepted" COUNTER "F" "intercepted_requests_total" of "F": "Requests answered without a server";
    DeniedConnections "dcon" COUNTER "FL" "denied_connections_total" of "FL": "Connections refused by a tcp-request connection rule";
    DeniedSessions "dses" COUNTER "FL" "denied_sessions_total" of "FL": "Sessions refused by a tcp-request session rule";
    FailedRewrites "wrew" COUNTER "FLSB" "failed_header_rewriting_total" of "FLSB": "Changes of headers that failed";
    Connects "connect" COUNTER "SB" "connection_attempts_total" of "SB": "Connections opened to servers";
    Reuses "reuse" COUNTER "SB" "connection_reuses_total" of "SB": "Requests sent on a connection that stood already";
    CacheLookups "cache_lookups" COUNTER "FB" "http_cache_lookups_total" of "FB": "Requests looked for in the cache";
    CacheHits "cache_hits" COUNTER "FB" "http_cache_hits_total" of "FB": "Requests answered from the cache";
    Idle "srv_icur" GAUGE "S" "idle_connections_current" of "S": "Idle connections to the server";
    IdleLimit "src_ilim" LIMIT "S" "idle_connections_limit" of "S": "Idle connections that may be kept: pool-max-conn";
    QueueTimeMax "qtime_max" MAX "SB" "max_queue_time_seconds" of "SB": "Most milliseconds in the queue";
    ConnectTimeMax "ctime_max" MAX "SB" "max_connect_time_seconds" of "SB": "Most milliseconds to connect";
    ResponseTimeMax "rtime_max" MAX "SB" "max_response_time_seconds" of "SB": "Most milliseconds until the response began";
    TotalTimeMax "ttime_max" MAX "SB" "max_total_time_seconds" of "SB": "Most milliseconds from request to end";
    InternalErrors "eint" COUNTER "FLSB" "internal_errors_total" of "FLSB": "Errors of the edge itself";
    IdleUnsafe "idle_conn_cur" GAUGE "S" "unsafe_idle_connections_current" of "S": "Idle connections not yet proven safe to reuse";
    IdleSafe "safe_conn_cur" GAUGE "S" "safe_idle_connections_current" of "S": "Idle connections proven safe to reuse";
    Used "used_conn_cur" GAUGE "S" "used_connections_current" of "S": "Connections in use";
    Needed "need_conn_est" GAUGE "S" "need_connections_current" of "S": "Connections that are thought to be needed";
    UserWeight "uweight" AVERAGE "SB" "uweight" of "SB": "Weight as set; a backend's is that of its usable servers";
    ServersByStatus "agg_server_status" GAUGE "B" "agg_server_status" of "B": "Servers by state, for Prometheus";
    ServersByCheck "agg_server_check_status" GAUGE "B" "agg_server_check_status" of "B": "Servers by state under its older name, for Prometheus";
    ServersByCheckResult "agg_check_status" GAUGE "B" "agg_check_status" of "B": "Servers by result of the last check, for Prometheus";
    TlsSessions "ssl_sess" COUNTER "FLSB": "TLS sessions established";
    TlsReused "ssl_reused_sess" COUNTER "FLSB": "TLS sessions resumed";
    TlsFailed "ssl_failed_handshake" COUNTER "FLSB": "TLS handshakes that failed";
    Http2Headers "h2_headers_rcvd" COUNTER "FB": "HTTP/2 frames of headers received";
    Http2Data "h2_data_rcvd" COUNTER "FB": "HTTP/2 frames of data received";
    Http2Settings "h2_settings_rcvd" COUNTER "FB": "HTTP/2 frames of settings received";
    Http2Resets "h2_rst_stream_rcvd" COUNTER "FB": "HTTP/2 streams that the other side reset";
    Http2Goaways "h2_goaway_rcvd" COUNTER "FB": "HTTP/2 farewells received";
    Http2ConnectionErrors "h2_detected_conn_protocol_errors" COUNTER "FB": "HTTP/2 errors of whole connections";
    Http2StreamErrors "h2_detected_strm_protocol_errors" COUNTER "FB": "HTTP/2 errors of single streams";
    Http2ResetsSent "h2_rst_stream_resp" COUNTER "FB": "HTTP/2 streams reset";
    Http2GoawaysSent "h2_goaway_resp" COUNTER "FB": "HTTP/2 farewells sent";
    Http2Connections "h2_open_connections" GAUGE "FB": "HTTP/2 connections now";
    Http2Streams "h2_backend_open_streams" GAUGE "FB": "HTTP/2 streams now";
    Http2ConnectionsTotal "h2_total_connections" COUNTER "FB": "HTTP/2 connections so far";
    Http2StreamsTotal "h2_backend_total_streams" COUNTER "FB": "HTTP/2 streams so far";
    Http1Connections "h1_open_connections" GAUGE "FB": "HTTP/1 connections now";
    Http1Streams "h1_open_streams" GAUGE "FB": "HTTP/1 exchanges now";
    Http1ConnectionsTotal "h1_total_connections" COUNTER "FB": "HTTP/1 connections so far";
    Http1StreamsTotal "h1_total_streams" COUNTER "FB": "HTTP/1 exchanges so far";
    Http1BytesIn "h1_bytes_in" COUNTER "FB": "Bytes received on HTTP/1 connections; a backend's are those passed on to clients";
    Http1BytesOut "h1_bytes_out" COUNTER "FB": "Bytes sent on HTTP/1 connections; a backend's are those received from clients";
    Http1SplicedIn "h1_spliced_bytes_in" COUNTER "FB": "Bytes that a pipe took from HTTP/1 connections";
    Http1SplicedOut "h1_spliced_bytes_out" COUNTER "FB": "Bytes that a pipe gave to HTTP/1 connections";
}

/// Number of columns.
pub const COLUMNS: usize = DEFINITIONS.len();

const _: () = assert!(Column::ALL.len() == COLUMNS);

impl Column {
    /// Behind it come those of protocols.
    pub const LAST_OF_PROXIES: Self = Self::ServersByCheckResult;

    /// Those of HTTP/2.
    pub const HTTP2: &'static [Self] = &[
        Self::Http2Headers,
        Self::Http2Data,
        Self::Http2Settings,
        Self::Http2Resets,
        Self::Http2Goaways,
        Self::Http2ConnectionErrors,
        Self::Http2StreamErrors,
        Self::Http2ResetsSent,
        Self::Http2GoawaysSent,
        Self::Http2Connections,
        Self::Http2Streams,
        Self::Http2ConnectionsTotal,
        Self::Http2StreamsTotal,
    ];

    /// Its position.
    #[must_use]
    pub const fn position(self) -> usize {
        self as usize
    }

    /// What the table says of it.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "a column's discriminant is its position in the table")]
    pub const fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.definition().name
    }

    /// What kind of value it is for an object. HAProxy tags a few of a backend's numbers otherwise.
    #[must_use]
    pub fn tags(self, object: Object) -> Tags {
        match (self, object) {
            (Self::Active | Self::Backup | Self::Rate | Self::RateMax, Object::Backend) => GAUGE,
            _ => self.definition().tags,
        }
    }

    /// The column of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|column| column.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for column in Column::ALL {
            assert_eq!(Column::named(column.name()), Some(*column));
        }
    }

    #[test]
    fn what_is_exported_exists() {
        for column in Column::ALL {
            let definition = column.definition();
            for object in [Object::Frontend, Object::Backend, Object::Server, Object::Listener] {
                let exported = definition.metric.is_some_and(|metric| metric.objects.contains(object));
                assert!(!exported || definition.objects.contains(object), "{}", definition.name);
            }
        }
    }
}
