//! A frontend, backend or listen section.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use balance::RetryOn;
use sample::{Condition, LogFormat};

use super::{
    Balance, Bind, Capture, CaptureCookie, CheckConfig, Compression, Cookie, ErrorReply, FileService, Filter,
    HttpAction, Location, LogTarget, MailAlert, Options, PersistRule, ProxyIndex, Redirect, Rule, Server,
    SourceAddress, Stats, StickRule, TableIndex, TcpAction, Timeouts, UseBackend, UseServer,
};

/// What a proxy is, which says which of its fields have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyKind {
    /// Accepts connections.
    Frontend,
    /// Has servers.
    #[default]
    Backend,
    /// Both.
    Listen,
}

impl ProxyKind {
    /// Whether it accepts connections.
    #[must_use]
    pub fn has_frontend(self) -> bool {
        self != Self::Backend
    }

    /// Whether it has servers.
    #[must_use]
    pub fn has_backend(self) -> bool {
        self != Self::Frontend
    }

    /// HAProxy's word for it in messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Backend => "backend",
            Self::Listen => "proxy",
        }
    }
}

/// `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Bytes.
    #[default]
    Tcp,
    /// HTTP/1.
    Http,
}

/// A frontend, backend or listen section.
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    /// `id`, or the next free number.
    pub id: u32,
    /// `id` was given.
    pub is_id_forced: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Which sides it has.
    pub kind: ProxyKind,
    /// Where its section begins.
    pub location: Location,
    /// `mode`.
    pub mode: Mode,
    /// `disabled`.
    pub disabled: bool,
    /// `description`.
    pub description: Option<String>,
    /// `bind` lines, address ranges expanded.
    pub binds: Vec<Bind>,
    /// `maxconn` of the frontend.
    pub maxconn: Option<u32>,
    /// `rate-limit sessions`: a second; 0 is no limit.
    pub rate_limit_sessions: u32,
    /// `backlog`.
    pub backlog: Option<u32>,
    /// `fullconn`; `None` means computed as HAProxy does.
    pub fullconn: Option<u32>,
    /// `timeout` lines.
    pub timeouts: Timeouts,
    /// `option` lines.
    pub options: Options,
    /// `balance` and `hash-type`.
    pub balance: Balance,
    /// `server` lines.
    pub servers: Vec<Server>,
    /// `cookie`.
    pub cookie: Option<Cookie>,
    /// `default_backend`; a `listen` section without one uses itself.
    pub default_backend: Option<ProxyIndex>,
    /// `use_backend` lines in order.
    pub use_backend: Vec<UseBackend>,
    /// `use-server` lines in order.
    pub use_server: Vec<UseServer>,
    /// `http-request` rules, and `reqadd`-like successors in order.
    pub http_request: Vec<Rule<HttpAction>>,
    /// `http-response` rules.
    pub http_response: Vec<Rule<HttpAction>>,
    /// `http-after-response` rules.
    pub http_after_response: Vec<Rule<HttpAction>>,
    /// `redirect` lines: evaluated after `http_request`.
    pub redirects: Vec<Rule<Redirect>>,
    /// `tcp-request connection`.
    pub tcp_request_connection: Vec<Rule<TcpAction>>,
    /// `tcp-request session`.
    pub tcp_request_session: Vec<Rule<TcpAction>>,
    /// `tcp-request content`.
    pub tcp_request_content: Vec<Rule<TcpAction>>,
    /// `tcp-request inspect-delay`.
    pub tcp_request_inspect_delay: Option<Duration>,
    /// `tcp-response content`.
    pub tcp_response_content: Vec<Rule<TcpAction>>,
    /// `tcp-response inspect-delay`.
    pub tcp_response_inspect_delay: Option<Duration>,
    /// `monitor-uri`.
    pub monitor_uri: Option<Vec<u8>>,
    /// `vcl`.
    pub accelerator: Option<Arc<super::Accelerator>>,
    /// `shared-cache`.
    pub shared_cache: Option<Arc<super::SharedCache>>,
    /// `root`, `alias` and what goes with them.
    pub files: FileService,
    /// `cgi` lines in order.
    pub cgi: Vec<super::Cgi>,
    /// `use-fcgi-app`: what its servers run that speak FastCGI.
    pub fcgi_app: Option<Arc<super::FcgiApp>>,
    /// `monitor fail`.
    pub monitor_fail: Vec<Condition>,
    /// `errorfile`, `errorloc*`, `http-error` by status.
    pub error_replies: BTreeMap<u16, ErrorReply>,
    /// `stats` lines.
    pub stats: Option<Stats>,
    /// `capture request header`, `declare capture request`.
    pub request_captures: Vec<Capture>,
    /// `capture response header`.
    pub response_captures: Vec<Capture>,
    /// `capture cookie`.
    pub capture_cookie: Option<CaptureCookie>,
    /// `log` lines, `log global` resolved.
    pub logs: Vec<LogTarget>,
    /// `log-tag`.
    pub log_tag: Option<String>,
    /// `log-format`, `option httplog`, `option tcplog`; `None`: connections are logged with HAProxy's short text.
    pub log_format: Option<LogFormat>,
    /// `error-log-format`.
    pub error_log_format: Option<LogFormat>,
    /// `log-format-sd`.
    pub log_format_sd: Option<LogFormat>,
    /// `unique-id-format`.
    pub unique_id_format: Option<LogFormat>,
    /// `unique-id-header`.
    pub unique_id_header: Option<String>,
    /// What checks of its servers send and expect.
    pub check: CheckConfig,
    /// `email-alert`.
    pub mail: Option<Box<MailAlert>>,
    /// `retries`.
    pub retries: u32,
    /// `retry-on`.
    pub retry_on: RetryOn,
    /// `http-reuse`.
    pub http_reuse: HttpReuse,
    /// `http-send-name-header`.
    pub http_send_name_header: Option<String>,
    /// `max-keep-alive-queue`; `None` is no limit.
    pub max_keep_alive_queue: Option<u32>,
    /// `max-session-srv-conns`.
    pub max_session_srv_conns: u32,
    /// `source` of the backend.
    pub source: Option<SourceAddress>,
    /// `dispatch`: a single destination without balancing.
    pub dispatch: Option<SocketAddr>,
    /// `persist rdp-cookie`: what fetches the cookie.
    pub rdp_persistence: Option<Arc<sample::Expression>>,
    /// `ignore-persist`, `force-persist` rules: condition and whether it forces.
    pub persist_rules: Vec<PersistRule>,
    /// `stick-table`.
    pub stick_table: Option<TableIndex>,
    /// `stick match`, `on` and `store-request` in order.
    pub sticking_rules: Vec<StickRule>,
    /// `stick store-response` in order.
    pub store_response_rules: Vec<StickRule>,
    /// `load-server-state-from-file`.
    pub load_server_state: LoadServerState,
    /// `server-state-file-name`; the backend's name otherwise.
    pub server_state_file_name: Option<String>,
    /// `clitcpka-cnt`, `-idle`, `-intvl`.
    pub client_keepalive: TcpKeepalive,
    /// `srvtcpka-cnt`, `-idle`, `-intvl`.
    pub server_keepalive: TcpKeepalive,
    /// `compression`.
    pub compression: Option<Compression>,
    /// `filter` lines, with the one that `compression` implies.
    pub filters: Vec<Filter>,
    /// Whether `option httpclose`, `http-server-close` or keep-alive rules connections.
    pub connection_mode: ConnectionMode,
}

/// How connections are kept; the last one named in the section wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionMode {
    /// `option http-keep-alive` (the default).
    #[default]
    KeepAlive,
    /// `option http-server-close`.
    ServerClose,
    /// `option httpclose`.
    Close,
}

/// Probes of TCP keep-alive; what is not given is the system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Probes without an answer after which the connection is closed.
    pub count: Option<u32>,
    /// Time without data before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
}

/// `http-reuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpReuse {
    /// `never`.
    Never,
    /// `safe`.
    #[default]
    Safe,
    /// `aggressive`.
    Aggressive,
    /// `always`.
    Always,
}

/// `load-server-state-from-file`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadServerState {
    /// `none`.
    #[default]
    None,
    /// `global`.
    Global,
    /// `local`.
    Local,
}
