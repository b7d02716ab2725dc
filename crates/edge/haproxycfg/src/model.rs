//! What a checked configuration says: the typed result that the edge runs.
//!
//! Nothing here is raw text any more. Names have become indexes, defaults have been applied, expressions are
//! compiled. A `listen` section is one [`Proxy`] with both sides, as in HAProxy.

use std::{collections::BTreeMap, net::IpAddr, net::SocketAddr, sync::Arc, time::Duration};

use sample::{Condition, Expression as Expr, LogFormat};

/// A place in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File as given on the command line.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

/// Index of a proxy in [`Config::proxies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyIndex(pub u32);

/// Index of a server in [`Proxy::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(pub u32);

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The `global` sections.
    pub global: Global,
    /// Every frontend, backend and listen section in order of appearance.
    pub proxies: Vec<Proxy>,
    /// `userlist` sections by name.
    pub userlists: BTreeMap<String, Userlist>,
}

/// Process-wide settings.
#[derive(Clone, Debug, Default)]
pub struct Global {
    /// `nbthread`: workers; `None` means one per usable core.
    pub nbthread: Option<u32>,
    /// `cpu-map`: cores by worker, from 1; 0 stands for all workers.
    pub cpu_map: Vec<(u32, Vec<usize>)>,
    /// `maxconn`: connections of the process.
    pub maxconn: Option<u32>,
    /// `maxconnrate`, `maxsessrate`: per second; 0 is no limit.
    pub maxconnrate: u32,
    /// Sessions a second; 0 is no limit.
    pub maxsessrate: u32,
    /// `daemon`.
    pub daemon: bool,
    /// `master-worker`.
    pub master_worker: bool,
    /// `pidfile`.
    pub pidfile: Option<String>,
    /// `user` or `uid`.
    pub user: Option<Identity>,
    /// `group` or `gid`.
    pub group: Option<Identity>,
    /// `chroot`.
    pub chroot: Option<String>,
    /// `ulimit-n`.
    pub ulimit_n: Option<u64>,
    /// `set-dumpable`.
    pub set_dumpable: bool,
    /// `node`, or the host's name.
    pub node: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `localpeer`.
    pub localpeer: Option<String>,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `log-tag`.
    pub log_tag: Option<String>,
    /// `log-send-hostname`; empty text (no argument) is the name of the machine.
    pub log_send_hostname: Option<String>,
    /// `stats socket` lines.
    pub stats_sockets: Vec<StatsSocket>,
    /// `stats timeout`.
    pub stats_timeout: Option<Duration>,
    /// `stats maxconn`.
    pub stats_maxconn: Option<u32>,
    /// `hard-stop-after`.
    pub hard_stop_after: Option<Duration>,
    /// `grace`.
    pub grace: Option<Duration>,
    /// `spread-checks`: percent.
    pub spread_checks: u32,
    /// `max-spread-checks`.
    pub max_spread_checks: Option<Duration>,
    /// `server-state-base`, `server-state-file`.
    pub server_state_base: Option<String>,
    /// The global server state file.
    pub server_state_file: Option<String>,
    /// `set-var`, `set-var-fmt` on the proc scope.
    pub set_vars: Vec<SetVariable>,
    /// `setenv`, `presetenv` and so on have acted on this environment while parsing.
    pub environment: BTreeMap<String, String>,
    /// `default-path` and others that only steer the parser are not kept.
    /// The `tune.*` settings.
    pub tune: Tune,
    /// `external-check` allowed.
    pub external_check: bool,
    /// `strict-limits`.
    pub strict_limits: bool,
    /// `zero-warning`.
    pub zero_warning: bool,
    /// `quiet`.
    pub quiet: bool,
    /// `unix-bind` defaults.
    pub unix_bind: UnixOptions,
    /// `h1-case-adjust` and its file: from lower case to wanted case.
    pub h1_case_adjust: BTreeMap<String, String>,
}

/// A user or group by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Looked up at start.
    Name(String),
    /// As it is.
    Number(u32),
}

/// `tune.*`.
#[derive(Clone, Debug)]
pub struct Tune {
    /// `tune.bufsize`: bytes.
    pub bufsize: usize,
    /// `tune.maxrewrite`: bytes.
    pub maxrewrite: usize,
    /// `tune.http.maxhdr`: fields.
    pub http_maxhdr: usize,
    /// `tune.http.logurilen`: bytes.
    pub http_logurilen: usize,
    /// `tune.http.cookielen`: bytes.
    pub http_cookielen: usize,
    /// `tune.maxaccept`: connections a wake-up.
    pub maxaccept: u32,
    /// `tune.pipesize`: bytes; 0 is the system's.
    pub pipesize: usize,
    /// `tune.idletimer`.
    pub idletimer: Duration,
    /// `tune.rcvbuf.client`, `.server`, `tune.sndbuf.client`, `.server`: bytes; 0 is the system's.
    pub rcvbuf_client: usize,
    /// See above.
    pub rcvbuf_server: usize,
    /// See above.
    pub sndbuf_client: usize,
    /// See above.
    pub sndbuf_server: usize,
    /// `tune.idle-pool.shared`.
    pub idle_pool_shared: bool,
    /// `tune.pool-low-fd-ratio`: percent.
    pub pool_low_fd_ratio: u32,
    /// `tune.pool-high-fd-ratio`: percent.
    pub pool_high_fd_ratio: u32,
    /// `tune.vars.*-max-size`: bytes; 0 is no limit. Order: global, proc, sess, txn, reqres.
    pub vars_max_size: [usize; 5],
    /// Tidegate's: `tune.ring.size`, bytes of the transaction ring of each worker; 0 turns it off.
    pub ring_size: usize,
    /// Tidegate's: `tune.splice.min`, body bytes from which splice is used; 0 turns it off.
    pub splice_min: u64,
}

impl Default for Tune {
    fn default() -> Self {
        Self {
            bufsize: 16_384,
            maxrewrite: 1_024,
            http_maxhdr: 101,
            http_logurilen: 1_024,
            http_cookielen: 63,
            maxaccept: 64,
            pipesize: 0,
            idletimer: Duration::from_secs(1),
            rcvbuf_client: 0,
            rcvbuf_server: 0,
            sndbuf_client: 0,
            sndbuf_server: 0,
            idle_pool_shared: true,
            pool_low_fd_ratio: 20,
            pool_high_fd_ratio: 25,
            vars_max_size: [0; 5],
            ring_size: 256 * 1024,
            splice_min: 65_536,
        }
    }
}

/// A `stats socket` line.
#[derive(Clone, Debug)]
pub struct StatsSocket {
    /// Where to listen.
    pub bind: Bind,
    /// `level`.
    pub level: CliLevel,
    /// `expose-fd listeners`.
    pub expose_fd_listeners: bool,
}

/// What a user of the stats socket may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CliLevel {
    /// Only non-sensitive counters.
    User,
    /// Everything that changes nothing.
    #[default]
    Operator,
    /// Everything.
    Admin,
}

/// A `userlist` section.
#[derive(Clone, Debug, Default)]
pub struct Userlist {
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// Users of each group.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// A user of a [`Userlist`].
#[derive(Clone, Debug)]
pub struct User {
    /// The password, in clear or in crypt(3) form.
    pub password: Password,
    /// Groups the user is in.
    pub groups: Vec<String>,
}

/// A stored password.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// `insecure-password`.
    Clear(String),
    /// `password`: `$1$`, `$5$`, `$6$` and what else crypt(3) knows.
    Crypt(String),
}

impl std::fmt::Debug for Password {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Password(..)")
    }
}

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
    pub monitor_uri: Option<String>,
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
    /// `retries`.
    pub retries: u32,
    /// `retry-on`, by HAProxy's words (`conn-failure`, `503`, ...).
    pub retry_on: Vec<RetryOn>,
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
    /// `persist rdp-cookie`, `ignore-persist`, `force-persist` rules: condition and whether it forces.
    pub persist_rules: Vec<PersistRule>,
    /// `load-server-state-from-file`.
    pub load_server_state: LoadServerState,
    /// `server-state-file-name`; the backend's name otherwise.
    pub server_state_file_name: Option<String>,
    /// `clitcpka-cnt`, `-idle`, `-intvl`.
    pub client_keepalive: TcpKeepalive,
    /// `srvtcpka-cnt`, `-idle`, `-intvl`.
    pub server_keepalive: TcpKeepalive,
    /// `email-alert` and the like are refused by the parser and so are not here.
    /// Whether `option httpclose`, `http-server-close` or keep-alive rules connections.
    pub connection_mode: ConnectionMode,
    /// The acls declared in the section, by name, for `show` commands: name and source text.
    pub acl_names: Vec<String>,
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

/// `timeout` lines; `None` is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeouts {
    /// `timeout client`.
    pub client: Option<Duration>,
    /// `timeout client-fin`.
    pub client_fin: Option<Duration>,
    /// `timeout connect`.
    pub connect: Option<Duration>,
    /// `timeout http-keep-alive`.
    pub http_keep_alive: Option<Duration>,
    /// `timeout http-request`.
    pub http_request: Option<Duration>,
    /// `timeout queue`.
    pub queue: Option<Duration>,
    /// `timeout server`.
    pub server: Option<Duration>,
    /// `timeout server-fin`.
    pub server_fin: Option<Duration>,
    /// `timeout tarpit`.
    pub tarpit: Option<Duration>,
    /// `timeout tunnel`.
    pub tunnel: Option<Duration>,
    /// `timeout check`.
    pub check: Option<Duration>,
}

/// `option` lines that are on or off. `None` where `no option` differs from silence.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent `option` keyword")]
pub struct Options {
    /// `option abortonclose`.
    pub abortonclose: bool,
    /// `option accept-invalid-http-request`.
    pub accept_invalid_http_request: bool,
    /// `option accept-invalid-http-response`.
    pub accept_invalid_http_response: bool,
    /// `option allbackups`.
    pub allbackups: bool,
    /// `option checkcache`.
    pub checkcache: bool,
    /// `option clitcpka`.
    pub clitcpka: bool,
    /// `option srvtcpka`.
    pub srvtcpka: bool,
    /// `option contstats`.
    pub contstats: bool,
    /// `option disable-h2-upgrade`.
    pub disable_h2_upgrade: bool,
    /// `option dontlog-normal`.
    pub dontlog_normal: bool,
    /// `option dontlognull`.
    pub dontlognull: bool,
    /// `option log-separate-errors`.
    pub log_separate_errors: bool,
    /// `option logasap`.
    pub logasap: bool,
    /// `option forwardfor`.
    pub forwardfor: Option<ForwardFor>,
    /// `option originalto`.
    pub originalto: Option<ForwardFor>,
    /// `option http-buffer-request`.
    pub http_buffer_request: bool,
    /// `option http-ignore-probes`.
    pub http_ignore_probes: bool,
    /// `option http-no-delay`.
    pub http_no_delay: bool,
    /// `option http-pretend-keepalive`.
    pub http_pretend_keepalive: bool,
    /// `option http-use-proxy-header`.
    pub http_use_proxy_header: bool,
    /// `option http_proxy` was removed in 2.5 and is an error.
    /// `option independent-streams`.
    pub independent_streams: bool,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// `option nolinger`.
    pub nolinger: bool,
    /// `option persist`.
    pub persist: bool,
    /// `option prefer-last-server`.
    pub prefer_last_server: bool,
    /// `option redispatch [interval]`: 0 is off, HAProxy's default with the option is -1 (the last retry).
    pub redispatch: i32,
    /// `option socket-stats`.
    pub socket_stats: bool,
    /// `option splice-auto`, `splice-request`, `splice-response`.
    pub splice_auto: bool,
    /// `option splice-request`.
    pub splice_request: bool,
    /// `option splice-response`.
    pub splice_response: bool,
    /// `option tcp-smart-accept`.
    pub tcp_smart_accept: bool,
    /// `option tcp-smart-connect`.
    pub tcp_smart_connect: bool,
    /// `option transparent`.
    pub transparent: bool,
    /// `option idle-close-on-response`.
    pub idle_close_on_response: bool,
    /// `option h1-case-adjust-bogus-client`.
    pub h1_case_adjust_bogus_client: bool,
    /// `option h1-case-adjust-bogus-server`.
    pub h1_case_adjust_bogus_server: bool,
    /// `option http-restrict-req-hdr-names`.
    pub restrict_request_header_names: RestrictNames,
}

/// `option http-restrict-req-hdr-names`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestrictNames {
    /// `preserve`.
    #[default]
    Preserve,
    /// `delete`.
    Delete,
    /// `reject`.
    Reject,
}

/// `option forwardfor` and `originalto`.
#[derive(Clone, Debug)]
pub struct ForwardFor {
    /// `except`: a network whose clients get no header.
    pub except: Option<(IpAddr, u8)>,
    /// `header`; `X-Forwarded-For` or `X-Original-To` otherwise.
    pub header: String,
    /// `if-none`.
    pub if_none: bool,
}

/// A listening socket.
#[derive(Clone, Debug, Default)]
pub struct Bind {
    /// Where it is in the configuration.
    pub location: Location,
    /// Address.
    pub address: BindAddress,
    /// `name`.
    pub name: Option<String>,
    /// `id`.
    pub id: Option<u32>,
    /// How workers share it.
    pub accept: AcceptMode,
    /// `accept-proxy`.
    pub accept_proxy: bool,
    /// `accept-netscaler-cip` is refused by the parser.
    /// `maxconn`.
    pub maxconn: Option<u32>,
    /// `backlog`.
    pub backlog: Option<u32>,
    /// `interface`.
    pub interface: Option<String>,
    /// `transparent`.
    pub transparent: bool,
    /// `v4v6`, `v6only`.
    pub v6only: Option<bool>,
    /// `tfo`.
    pub tfo: bool,
    /// `defer-accept`.
    pub defer_accept: bool,
    /// `mss`.
    pub mss: Option<u32>,
    /// `tcp-ut`.
    pub tcp_user_timeout: Option<Duration>,
    /// `nice`.
    pub nice: i32,
    /// `mode`, `user`, `group`, `uid`, `gid` of a unix socket.
    pub unix: UnixOptions,
    /// `level` (stats sockets).
    pub level: Option<CliLevel>,
    /// `process`/`thread`: workers that serve it; empty is all.
    pub threads: Vec<u32>,
}

/// Ownership and mode of a unix socket.
#[derive(Clone, Debug, Default)]
pub struct UnixOptions {
    /// `prefix` (only `unix-bind`).
    pub prefix: Option<String>,
    /// `mode`: octal.
    pub mode: Option<u32>,
    /// `user` or `uid`.
    pub user: Option<Identity>,
    /// `group` or `gid`.
    pub group: Option<Identity>,
}

/// Where to listen or to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// TCP.
    Inet(SocketAddr),
    /// `unix@path` or a path.
    Unix(String),
    /// `abns@name`.
    Abstract(String),
    /// `fd@N`.
    Descriptor(i32),
}

impl Default for BindAddress {
    fn default() -> Self {
        Self::Descriptor(-1)
    }
}

/// How workers share a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptMode {
    /// A socket for each worker; the kernel spreads connections by hash.
    #[default]
    Reuseport,
    /// One socket, exclusive wake-up.
    Shared,
    /// One acceptor gives each connection to the worker with the fewest.
    Dispatch,
}

/// `balance` and `hash-type`.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    /// Which server is chosen.
    pub algorithm: Algorithm,
    /// `hash-type` method: consistent, or map-based.
    pub consistent: bool,
    /// `hash-type` function.
    pub function: HashFunction,
    /// `hash-type ... avalanche`.
    pub avalanche: bool,
    /// `hash-balance-factor`: percent; 0 is off.
    pub hash_balance_factor: u32,
}

/// `balance`'s algorithms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// `roundrobin`.
    #[default]
    RoundRobin,
    /// `static-rr`.
    StaticRoundRobin,
    /// `leastconn`.
    LeastConnections,
    /// `first`.
    First,
    /// `source`.
    Source,
    /// `uri`.
    Uri {
        /// `whole`.
        whole: bool,
        /// `len`: bytes; 0 is all.
        len: usize,
        /// `depth`: slashes; 0 is all.
        depth: usize,
        /// `path-only`.
        path_only: bool,
    },
    /// `url_param`.
    UrlParam {
        /// The parameter.
        name: String,
        /// `check_post`.
        check_post: bool,
    },
    /// `hdr()`.
    Header {
        /// The field.
        name: String,
        /// `use_domain_only`.
        use_domain_only: bool,
    },
    /// `random()`.
    Random {
        /// Draws.
        draws: u32,
    },
}

/// `hash-type` functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// `sdbm`.
    #[default]
    Sdbm,
    /// `djb2`.
    Djb2,
    /// `wt6`.
    Wt6,
    /// `crc32`.
    Crc32,
}

/// A `server` line, `default-server` applied.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent keyword of the server line")]
pub struct Server {
    /// Where it is in the configuration.
    pub location: Location,
    /// Its name.
    pub name: Arc<str>,
    /// `id`, or the next free number in the backend.
    pub id: u32,
    /// Host name, when the address was given as one.
    pub fqdn: Option<String>,
    /// Address; `None` until a host name resolves (`init-addr none`).
    pub address: ServerAddress,
    /// How the port of the connection follows from the configuration.
    pub port: ServerPort,
    /// `weight`.
    pub weight: u32,
    /// `backup`.
    pub backup: bool,
    /// `disabled`.
    pub disabled: bool,
    /// `maxconn`; 0 is no limit.
    pub maxconn: u32,
    /// `minconn`; 0 is none.
    pub minconn: u32,
    /// `maxqueue`; 0 is no limit.
    pub maxqueue: u32,
    /// `slowstart`.
    pub slowstart: Duration,
    /// `cookie`: its value.
    pub cookie: Option<String>,
    /// `redir`.
    pub redir: Option<String>,
    /// `check`.
    pub check: bool,
    /// `inter`, `fastinter`, `downinter`.
    pub inter: Duration,
    /// See `inter`.
    pub fastinter: Option<Duration>,
    /// See `inter`.
    pub downinter: Option<Duration>,
    /// `rise`.
    pub rise: u32,
    /// `fall`.
    pub fall: u32,
    /// `port`: of checks.
    pub check_port: Option<u16>,
    /// `addr`: of checks.
    pub check_address: Option<ServerAddress>,
    /// `check-send-proxy`.
    pub check_send_proxy: bool,
    /// `check-via-socks4` and others are refused by the parser.
    /// `observe`.
    pub observe: Option<ObserveLayer>,
    /// `on-error`.
    pub on_error: OnError,
    /// `error-limit`.
    pub error_limit: u32,
    /// `on-marked-down shutdown-sessions`.
    pub on_marked_down_shutdown_sessions: bool,
    /// `on-marked-up shutdown-backup-sessions`.
    pub on_marked_up_shutdown_backup_sessions: bool,
    /// `send-proxy`, `send-proxy-v2`.
    pub send_proxy: Option<SendProxy>,
    /// `source`.
    pub source: Option<SourceAddress>,
    /// `pool-max-conn`; -1 is no limit, 0 keeps none.
    pub pool_max_conn: i32,
    /// `pool-purge-delay`.
    pub pool_purge_delay: Duration,
    /// `pool-low-conn`.
    pub pool_low_conn: u32,
    /// `max-reuse`; -1 is no limit.
    pub max_reuse: i32,
    /// `init-addr` order.
    pub init_addr: Vec<InitAddr>,
    /// `resolve-prefer`.
    pub prefer_ipv4: bool,
    /// `tcp-ut`.
    pub tcp_user_timeout: Option<Duration>,
    /// `tfo`.
    pub tfo: bool,
    /// `track`: backend and server.
    pub track: Option<(ProxyIndex, ServerIndex)>,
    /// `proto` other than `h1` is refused by the parser.
    /// `log-proto` and others belong to rings.
    /// `non-stick`.
    pub non_stick: bool,
}

/// Address of a server, without the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// Not resolved yet.
    Unresolved,
    /// IP.
    Ip(IpAddr),
    /// Path of a unix socket.
    Unix(String),
    /// Abstract unix socket.
    Abstract(String),
}

/// Port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPort {
    /// `:80`.
    Fixed(u16),
    /// None given: the port that the client connected to.
    Same,
    /// `:+10` or `:-10`: relative to the client's.
    Offset(i32),
}

/// `init-addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitAddr {
    /// `last`.
    Last,
    /// `libc`.
    Libc,
    /// `none`.
    None,
    /// An address.
    Ip(IpAddr),
}

/// `send-proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendProxy {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// `observe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveLayer {
    /// Connections.
    Layer4,
    /// Responses.
    Layer7,
}

/// `on-error`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// `fastinter`.
    Fastinter,
    /// `fail-check`.
    #[default]
    FailCheck,
    /// `sudden-death`.
    SuddenDeath,
    /// `mark-down`.
    MarkDown,
}

/// `source`.
#[derive(Clone, Debug)]
pub struct SourceAddress {
    /// Address and port to bind before connecting; port 0 is any.
    pub address: SocketAddr,
    /// `addr:low-high`.
    pub ports: Option<(u16, u16)>,
    /// `interface`.
    pub interface: Option<String>,
    /// `usesrc`.
    pub usesrc: Option<UseSource>,
}

/// `usesrc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UseSource {
    /// `client`.
    Client,
    /// `clientip`.
    ClientIp,
    /// An address.
    Address(SocketAddr),
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

/// A word of `retry-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// `conn-failure`.
    ConnFailure,
    /// `empty-response`.
    EmptyResponse,
    /// `junk-response`.
    JunkResponse,
    /// `response-timeout`.
    ResponseTimeout,
    /// `0rtt-rejected`.
    ZeroRttRejected,
    /// A status.
    Status(u16),
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

/// `cookie` of a backend.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent keyword")]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// What is done with it.
    pub mode: CookieMode,
    /// `indirect`.
    pub indirect: bool,
    /// `nocache`.
    pub nocache: bool,
    /// `postonly`.
    pub postonly: bool,
    /// `preserve`.
    pub preserve: bool,
    /// `httponly`.
    pub httponly: bool,
    /// `secure`.
    pub secure: bool,
    /// `domain`.
    pub domains: Vec<String>,
    /// `maxidle`.
    pub maxidle: Option<Duration>,
    /// `maxlife`.
    pub maxlife: Option<Duration>,
    /// `dynamic`, with `dynamic-cookie-key`.
    pub dynamic_key: Option<String>,
    /// `attr`.
    pub attributes: Vec<String>,
}

/// What is done with the persistence cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieMode {
    /// Only read.
    #[default]
    Passive,
    /// `rewrite`.
    Rewrite,
    /// `insert`.
    Insert,
    /// `prefix`.
    Prefix,
}

/// `use_backend`.
#[derive(Clone, Debug)]
pub struct UseBackend {
    /// The backend, or text that names it.
    pub target: BackendTarget,
    /// When; `None` is always.
    pub condition: Option<Condition>,
}

/// Which backend.
#[derive(Clone, Debug)]
pub enum BackendTarget {
    /// Known at parse.
    Static(ProxyIndex),
    /// A log-format string whose text names it.
    Dynamic(LogFormat),
}

/// `use-server`.
#[derive(Clone, Debug)]
pub struct UseServer {
    /// The server, or text that names it.
    pub target: ServerTarget,
    /// When.
    pub condition: Option<Condition>,
}

/// Which server.
#[derive(Clone, Debug)]
pub enum ServerTarget {
    /// Known at parse.
    Static(ServerIndex),
    /// A log-format string whose text names it.
    Dynamic(LogFormat),
}

/// `ignore-persist` and `force-persist`.
#[derive(Clone, Debug)]
pub struct PersistRule {
    /// Whether it forces persistence to a down server; otherwise it ignores persistence.
    pub force: bool,
    /// When.
    pub condition: Option<Condition>,
}

/// A rule: what, when and where it stands.
#[derive(Clone, Debug)]
pub struct Rule<A> {
    /// What.
    pub action: A,
    /// When; `None` is always.
    pub condition: Option<Condition>,
    /// Where.
    pub location: Location,
}

/// Actions of `http-request`, `http-response` and `http-after-response`. The parser refuses those that do not belong.
#[derive(Clone, Debug)]
pub enum HttpAction {
    /// `allow`.
    Allow,
    /// `deny`.
    Deny(Reply),
    /// `tarpit`.
    Tarpit(Reply),
    /// `reject`.
    Reject,
    /// `silent-drop`.
    SilentDrop,
    /// `return`.
    Return(Reply),
    /// `redirect`.
    Redirect(Redirect),
    /// `auth`.
    Auth {
        /// `realm`.
        realm: Option<String>,
    },
    /// `add-header`.
    AddHeader(String, LogFormat),
    /// `set-header`.
    SetHeader(String, LogFormat),
    /// `del-header`.
    DelHeader(HeaderMatch),
    /// `replace-header`.
    ReplaceHeader {
        /// The field.
        name: String,
        /// What to match in the whole value.
        regex: sample::Regex,
        /// Text with `\1` references, as a log-format string.
        format: LogFormat,
    },
    /// `replace-value`.
    ReplaceValue {
        /// The field.
        name: String,
        /// What to match in each comma-separated value.
        regex: sample::Regex,
        /// Text.
        format: LogFormat,
    },
    /// `replace-path`.
    ReplacePath(sample::Regex, LogFormat),
    /// `replace-pathq`.
    ReplacePathq(sample::Regex, LogFormat),
    /// `replace-uri`.
    ReplaceUri(sample::Regex, LogFormat),
    /// `set-method`.
    SetMethod(LogFormat),
    /// `set-path`.
    SetPath(LogFormat),
    /// `set-pathq`.
    SetPathq(LogFormat),
    /// `set-query`.
    SetQuery(LogFormat),
    /// `set-uri`.
    SetUri(LogFormat),
    /// `set-status`.
    SetStatus {
        /// Status.
        status: u16,
        /// `reason`.
        reason: Option<String>,
    },
    /// `set-var`, `set-var-fmt`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
    /// `capture`.
    Capture {
        /// What.
        expr: Expr,
        /// Slot in the captures of the frontend.
        slot: usize,
        /// Bytes kept; `usize::MAX` when only the slot's own length limits them.
        len: usize,
    },
    /// `set-log-level`; `None` is `silent`.
    SetLogLevel(Option<u8>),
    /// `set-nice` and `set-tos`, `set-mark`: by value.
    SetTos(u8),
    /// `set-mark`.
    SetMark(u32),
    /// `set-src`, `set-src-port`, `set-dst`, `set-dst-port`.
    SetAddress(AddressPart, Expr),
    /// `set-timeout server|tunnel`.
    SetTimeout(TimeoutKind, TimeoutValue),
    /// `strict-mode`.
    StrictMode(bool),
    /// `disable-l7-retry`.
    DisableL7Retry,
    /// `early-hint`.
    EarlyHint(String, LogFormat),
    /// `wait-for-body`.
    WaitForBody {
        /// `time`.
        time: Duration,
        /// `at-least`: bytes; 0 is the whole body or a full buffer.
        at_least: usize,
    },
    /// `normalize-uri`.
    NormalizeUri(NormalizeUri),
    /// `use-service prometheus-exporter`.
    PrometheusExporter,
}

/// `normalize-uri`'s normalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalizeUri {
    /// `fragment-encode`.
    FragmentEncode,
    /// `fragment-strip`.
    FragmentStrip,
    /// `path-merge-slashes`.
    PathMergeSlashes,
    /// `path-strip-dot`.
    PathStripDot,
    /// `path-strip-dotdot`; `full`.
    PathStripDotdot {
        /// `full`.
        full: bool,
    },
    /// `percent-decode-unreserved`; `strict`.
    PercentDecodeUnreserved {
        /// `strict`.
        strict: bool,
    },
    /// `percent-to-uppercase`; `strict`.
    PercentToUppercase {
        /// `strict`.
        strict: bool,
    },
    /// `query-sort-by-name`.
    QuerySortByName,
}

/// What `set-timeout` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// `server`.
    Server,
    /// `tunnel`.
    Tunnel,
}

/// To what `set-timeout` changes it.
#[derive(Clone, Debug)]
pub enum TimeoutValue {
    /// Known at parse.
    Fixed(Duration),
    /// Milliseconds from an expression.
    Expr(Expr),
}

/// What `set-src` and its siblings change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPart {
    /// `set-src`.
    Source,
    /// `set-src-port`.
    SourcePort,
    /// `set-dst`.
    Destination,
    /// `set-dst-port`.
    DestinationPort,
}

/// `del-header`'s matching.
#[derive(Clone, Debug)]
pub enum HeaderMatch {
    /// The name.
    Name(String),
    /// `-m beg`.
    Prefix(String),
    /// `-m end`.
    Suffix(String),
    /// `-m sub`.
    Contains(String),
    /// `-m reg`.
    Regex(sample::Regex),
}

/// `set-var`.
#[derive(Clone, Debug)]
pub struct SetVariable {
    /// Which.
    pub name: sample::VariableName,
    /// To what.
    pub value: VariableValue,
    /// `set-var(name,condition...)`: only when all hold.
    pub conditions: Vec<VariableCondition>,
}

/// A condition of `set-var(name,condition...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableCondition {
    /// `ifexists`: the variable was set before, even if unset since.
    Exists,
    /// `ifnotexists`.
    NotExists,
    /// `ifempty`: the new value is empty; integers never are.
    Empty,
    /// `ifnotempty`.
    NotEmpty,
    /// `ifset`: the variable has a value.
    Set,
    /// `ifnotset`.
    NotSet,
    /// `ifgt`: the variable's value is greater than the new one; both are integers.
    Greater,
    /// `iflt`: the variable's value is less than the new one; both are integers.
    Less,
}

/// What a variable is set to.
#[derive(Clone, Debug)]
pub enum VariableValue {
    /// `set-var`.
    Expr(Expr),
    /// `set-var-fmt`.
    Format(LogFormat),
}

/// A response made by the edge: `return`, `deny`, `tarpit`, `http-error`.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Status; `None`: the action's own (403 for deny, 200 for return, 500 for tarpit).
    pub status: Option<u16>,
    /// `content-type`.
    pub content_type: Option<String>,
    /// Body.
    pub body: ReplyBody,
    /// `hdr`.
    pub headers: Vec<(String, LogFormat)>,
}

/// Where the body of a [`Reply`] comes from.
#[derive(Clone, Debug, Default)]
pub enum ReplyBody {
    /// The proxy's error reply for that status (`default-errorfiles`, or nothing said).
    #[default]
    ErrorPage,
    /// None.
    Empty,
    /// `errorfile`: a whole response as in the file.
    Raw(Arc<[u8]>),
    /// `file`, `string`.
    Fixed(Arc<[u8]>),
    /// `lf-file`, `lf-string`.
    Format(LogFormat),
}

/// What replaces the built-in page of a status.
#[derive(Clone, Debug)]
pub enum ErrorReply {
    /// `errorfile`: a whole response.
    Raw(Arc<[u8]>),
    /// `errorloc`, `errorloc302`, `errorloc303`.
    Redirect {
        /// 302 or 303.
        status: u16,
        /// Where to.
        location: String,
    },
    /// `http-error`.
    Reply(Box<Reply>),
}

/// `redirect`.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// What the location is made of.
    pub kind: RedirectKind,
    /// `code`: 301, 302, 303, 307, 308.
    pub code: u16,
    /// `drop-query`.
    pub drop_query: bool,
    /// `append-slash`.
    pub append_slash: bool,
    /// `ignore-empty`.
    pub ignore_empty: bool,
    /// `set-cookie`, `clear-cookie`: the whole value of Set-Cookie.
    pub set_cookie: Option<String>,
}

/// How the location of a redirect is made.
#[derive(Clone, Debug)]
pub enum RedirectKind {
    /// `location`.
    Location(LogFormat),
    /// `prefix`.
    Prefix(LogFormat),
    /// `scheme`.
    Scheme(LogFormat),
}

/// Actions of `tcp-request` and `tcp-response`.
#[derive(Clone, Debug)]
pub enum TcpAction {
    /// `accept`.
    Accept,
    /// `reject`.
    Reject,
    /// `close` (tcp-response).
    Close,
    /// `silent-drop`.
    SilentDrop,
    /// `expect-proxy layer4`.
    ExpectProxy,
    /// `set-var`, `set-var-fmt`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
    /// `capture`.
    Capture {
        /// What.
        expr: Expr,
        /// Slot.
        slot: usize,
        /// Bytes kept.
        len: usize,
    },
    /// `set-src` and siblings.
    SetAddress(AddressPart, Expr),
    /// `set-tos`.
    SetTos(u8),
    /// `set-mark`.
    SetMark(u32),
    /// `set-log-level`.
    SetLogLevel(Option<u8>),
    /// `set-priority-class`, `set-priority-offset`: whether it is the class, and its value.
    SetPriority {
        /// The class; otherwise the offset.
        class: bool,
        /// Value.
        expr: Expr,
    },
    /// `switch-mode http`.
    SwitchModeHttp,
}

/// `stats` lines of a proxy.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// `stats uri`; `/haproxy?stats` by default.
    pub uri: String,
    /// `stats auth`: user and password.
    pub auth: Vec<(String, Password)>,
    /// `stats realm`.
    pub realm: Option<String>,
    /// `stats refresh`.
    pub refresh: Option<Duration>,
    /// `stats hide-version`.
    pub hide_version: bool,
    /// `stats show-node`.
    pub show_node: Option<String>,
    /// `stats show-desc`.
    pub show_desc: Option<String>,
    /// `stats show-legends`.
    pub show_legends: bool,
    /// `stats show-modules`.
    pub show_modules: bool,
    /// `stats scope`: names; empty is all. `.` is the proxy itself.
    pub scope: Vec<String>,
    /// `stats admin` conditions: whoever meets one may act. `Some(None)` is always.
    pub admin: Vec<Option<Condition>>,
    /// `stats http-request` rules.
    pub rules: Vec<Rule<HttpAction>>,
}

/// `capture request header`.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The field; `None` for a declared slot.
    pub name: Option<String>,
    /// Bytes kept.
    pub len: usize,
}

/// `capture cookie`.
#[derive(Clone, Debug)]
pub struct CaptureCookie {
    /// Name, or its beginning.
    pub name: String,
    /// Bytes kept.
    pub len: usize,
    /// Whether `name` is only the beginning; otherwise it was given with a `=` behind it, which is not part of it.
    pub prefix: bool,
}

/// A `log` line.
#[derive(Clone, Debug)]
pub struct LogTarget {
    /// Where to.
    pub destination: LogDestination,
    /// `len`: bytes a line.
    pub len: usize,
    /// `format`.
    pub format: LogLineFormat,
    /// `sample <range>:<size>`: which of how many.
    pub sample: Option<(Vec<(u32, u32)>, u32)>,
    /// Facility, 0 to 23.
    pub facility: u8,
    /// Least important level that is sent, 0 (emerg) to 7 (debug).
    pub level: u8,
    /// Levels more important than this one are sent as this.
    pub minlevel: u8,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// Syslog over UDP.
    Udp(SocketAddr),
    /// Syslog over UDP to a host that is looked up at start.
    UdpHost {
        /// Its name.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Syslog over a unix datagram socket.
    Unix(String),
    /// Syslog over an abstract unix datagram socket.
    Abstract(String),
    /// `stdout`, `stderr`, `fd@N`.
    Descriptor(i32),
    /// `ring@name`.
    Ring(String),
}

/// `format` of a `log` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLineFormat {
    /// No `format`: as HAProxy does, `rfc3164` with `log-send-hostname` and `local` without.
    #[default]
    Unspecified,
    /// `local`.
    Local,
    /// `rfc3164`.
    Rfc3164,
    /// `rfc5424`.
    Rfc5424,
    /// `priority`.
    Priority,
    /// `short`.
    Short,
    /// `timed`.
    Timed,
    /// `iso`.
    Iso,
    /// `raw`.
    Raw,
}

/// What the checks of a backend's servers do.
#[derive(Clone, Debug, Default)]
pub struct CheckConfig {
    /// Steps after the connection; empty is a plain TCP check.
    pub steps: Vec<CheckStep>,
    /// `option httpchk` is on.
    pub http: bool,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// `http-check send-state`.
    pub send_state: bool,
}

/// A step of a check.
#[derive(Clone, Debug)]
pub enum CheckStep {
    /// `http-check connect`, `tcp-check connect`.
    Connect {
        /// `port`.
        port: Option<u16>,
        /// `addr`.
        address: Option<IpAddr>,
        /// `send-proxy`.
        send_proxy: bool,
        /// `linger`.
        linger: bool,
        /// `default`: with `send-proxy` of the server line.
        default: bool,
    },
    /// `http-check send`, and the request line of `option httpchk`.
    SendHttp {
        /// `meth`.
        method: String,
        /// `uri` or `uri-lf`.
        uri: LogFormat,
        /// `ver`.
        version: String,
        /// `hdr`.
        headers: Vec<(String, LogFormat)>,
        /// `body` or `body-lf`.
        body: Option<LogFormat>,
    },
    /// `http-check expect`.
    ExpectHttp(CheckExpect),
    /// `comment` of the step before.
    Comment(String),
    /// `set-var`.
    SetVar(SetVariable),
    /// `unset-var`.
    UnsetVar(sample::VariableName),
}

/// `http-check expect`.
#[derive(Clone, Debug)]
pub struct CheckExpect {
    /// `!`.
    pub negate: bool,
    /// What.
    pub what: CheckExpectation,
    /// `min-recv`: bytes.
    pub min_recv: Option<usize>,
    /// `ok-status`, `error-status`, `tout-status` by HAProxy's codes.
    pub ok_status: Option<String>,
    /// See above.
    pub error_status: Option<String>,
    /// See above.
    pub timeout_status: Option<String>,
    /// `on-success`, `on-error`: log-format strings of the description.
    pub on_success: Option<LogFormat>,
    /// See above.
    pub on_error: Option<LogFormat>,
    /// `status-code`.
    pub status_code: Option<Expr>,
}

/// What a check expects.
#[derive(Clone, Debug)]
pub enum CheckExpectation {
    /// `status`: ranges.
    Status(Vec<(u16, u16)>),
    /// `rstatus`.
    StatusRegex(sample::Regex),
    /// `string`.
    Body(Vec<u8>),
    /// `rstring`.
    BodyRegex(sample::Regex),
    /// `string-lf`.
    BodyFormat(LogFormat),
    /// `hdr`, `fhdr`: name and value matches.
    Header {
        /// `fhdr`: the whole value, commas included.
        full: bool,
        /// Name.
        name: StringMatch,
        /// Value.
        value: Option<StringMatch>,
    },
}

/// A text match of a check.
#[derive(Clone, Debug)]
pub enum StringMatch {
    /// `-m str`.
    Exact(LogFormat),
    /// `-m beg`.
    Prefix(LogFormat),
    /// `-m end`.
    Suffix(LogFormat),
    /// `-m sub`.
    Contains(LogFormat),
    /// `-m reg`.
    Regex(sample::Regex),
}
