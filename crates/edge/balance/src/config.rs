//! The checked configuration of a farm and of its servers.
//!
//! These types carry HAProxy's settings after parsing: numbers are in range and defaults are filled in. Parsing text
//! into them is the business of `haproxycfg`.

use crate::{ServerId, probe::Window};

/// Greatest weight a server line may give.
pub const WEIGHT_MAX: u32 = 256;
/// Delay between two checks when `inter` is not given, in milliseconds.
pub const CHECK_INTER_MS_DEFAULT: u32 = 2_000;
/// Good checks needed to go up when `rise` is not given.
pub const CHECK_RISE_DEFAULT: u32 = 2;
/// Bad checks needed to go down when `fall` is not given.
pub const CHECK_FALL_DEFAULT: u32 = 3;
/// Consecutive observed errors that trigger `on-error` when `error-limit` is not given.
pub const ERROR_LIMIT_DEFAULT: u32 = 10;

/// What `balance` chooses by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// `balance roundrobin`: weighted turns, weights may change at run time.
    #[default]
    RoundRobin,
    /// `balance static-rr`: weighted turns over a table that is fixed until a server changes state.
    StaticRr,
    /// `balance leastconn`: the server with the fewest connections for its weight.
    LeastConn,
    /// `balance first`: the first server, by id, that still has a free slot.
    First,
    /// `balance random(draws)`: the least loaded of some servers drawn by weight.
    Random {
        /// Servers drawn before choosing, at least 1. HAProxy's default is 2.
        draws: u32,
    },
    /// `balance source`: hash of the client's address.
    Source,
    /// `balance uri`: hash of the request's URI.
    Uri(UriOptions),
    /// `balance url_param`: hash of one parameter of the query string, or of the body of a POST.
    UrlParam {
        /// Name of the parameter.
        name: Vec<u8>,
        /// `check_post`: look in the body of a POST as well. HAProxy 2.6 always looks there.
        check_post: bool,
    },
    /// `balance hdr(name)`: hash of a request header.
    Header {
        /// Name of the header.
        name: Vec<u8>,
        /// `use_domain_only`: only the middle part of a host name counts.
        use_domain_only: bool,
    },
    /// `balance rdp-cookie(name)`: hash of a cookie in the RDP protocol.
    RdpCookie {
        /// Name of the cookie, `mstshash` by default.
        name: Vec<u8>,
    },
    /// `balance hash <expression>`: hash of the result of a sample expression.
    Expression,
}

impl Algorithm {
    /// The word that the statistics show for this algorithm.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RoundRobin => "roundrobin",
            Self::StaticRr => "static-rr",
            Self::LeastConn => "leastconn",
            Self::First => "first",
            Self::Random { .. } => "random",
            Self::Source => "source",
            Self::Uri(_) => "uri",
            Self::UrlParam { .. } => "url_param",
            Self::Header { .. } => "hdr",
            Self::RdpCookie { .. } => "rdp-cookie",
            Self::Expression => "hash",
        }
    }

    /// Whether the choice follows from a key, so that `Request::key` matters.
    pub fn is_hash(&self) -> bool {
        match self {
            Self::RoundRobin | Self::StaticRr | Self::LeastConn | Self::First | Self::Random { .. } => false,
            Self::Source
            | Self::Uri(_)
            | Self::UrlParam { .. }
            | Self::Header { .. }
            | Self::RdpCookie { .. }
            | Self::Expression => true,
        }
    }
}

/// Which part of the URI `balance uri` hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UriOptions {
    /// `whole`: the query string counts too.
    pub whole: bool,
    /// `path-only`: scheme and authority of an absolute URI are left out.
    pub path_only: bool,
    /// `len`: hash at most this many bytes.
    pub len: Option<u32>,
    /// `depth`: stop at the slash that follows this many directories.
    pub depth: Option<u32>,
}

/// How a hash becomes a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashType {
    /// `map-based`: modulo over a table of the servers. Smooth, but most keys move when a server comes or goes.
    #[default]
    MapBased,
    /// `consistent`: nearest point on a ring. Few keys move.
    Consistent,
}

/// The function of `hash-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFunction {
    /// `sdbm`, the default.
    #[default]
    Sdbm,
    /// `djb2`.
    Djb2,
    /// `wt6`.
    Wt6,
    /// `crc32`.
    Crc32,
    /// `none`: the key's bytes are read as a number. HAProxy has it from 2.7 on.
    None,
}

/// A `hash-type` line.
///
/// NOTE: `hash-type consistent` without a function means sdbm *with* avalanche; `hash-type map-based` means sdbm
/// without. No line at all is `HashConfig::default()`, map-based sdbm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashConfig {
    /// Table or ring.
    pub hash_type: HashType,
    /// The function applied to the key.
    pub function: HashFunction,
    /// Whether the result is mixed once more so that every bit of the key changes it.
    pub avalanche: bool,
}

/// How HAProxy names the section in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyType {
    /// A `backend` section.
    #[default]
    Backend,
    /// A `listen` section.
    Proxy,
}

impl ProxyType {
    /// The word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Proxy => "proxy",
        }
    }
}

/// Settings of one backend that concern choosing, queueing and health.
#[derive(Clone, Debug)]
pub struct FarmConfig {
    /// The section's name, for messages.
    pub name: String,
    /// The section's kind, for messages.
    pub proxy_type: ProxyType,
    /// `balance`.
    pub algorithm: Algorithm,
    /// `hash-type`.
    pub hash: HashConfig,
    /// `hash-balance-factor`, in percent; 0 is off, otherwise above 100.
    pub hash_balance_factor: u32,
    /// `option allbackups`: all backup servers share the load when no active one is left.
    pub allbackups: bool,
    /// `option redispatch [interval]`: `None` is off, `Some(-1)` is the default interval.
    pub redispatch: Option<i32>,
    /// `option persist`: keep to the server of a cookie even when it is down.
    pub persist: bool,
    /// `fullconn`: connections at which a server with `minconn` may use all of its `maxconn`; with 0 it always may.
    /// HAProxy's default, a tenth of the `maxconn` of all frontends that lead here, is for the caller to compute.
    pub fullconn: u32,
    /// `option log-health-checks`.
    pub log_health_checks: bool,
    /// `spread-checks`, 0 to 50 percent.
    pub spread_checks: u32,
    /// Seed of the farm's own random numbers (random draws, spread of checks).
    pub seed: u64,
}

impl Default for FarmConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            proxy_type: ProxyType::Backend,
            algorithm: Algorithm::RoundRobin,
            hash: HashConfig::default(),
            hash_balance_factor: 0,
            allbackups: false,
            redispatch: None,
            persist: false,
            fullconn: 0,
            log_health_checks: false,
            spread_checks: 0,
            seed: 0,
        }
    }
}

/// Settings of active health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckConfig {
    /// Delay between checks while the server is fully up, in milliseconds.
    pub inter_ms: u32,
    /// Delay while it is on its way up or down.
    pub fastinter_ms: Option<u32>,
    /// Delay while it is fully down.
    pub downinter_ms: Option<u32>,
    /// Good checks needed to go up, at least 1.
    pub rise: u32,
    /// Bad checks needed to go down, at least 1.
    pub fall: u32,
    /// Results are counted in a window instead, as Varnish does; `rise` and `fall` follow from it.
    pub window: Option<Window>,
}

impl Default for CheckConfig {
    fn default() -> Self {
        Self {
            inter_ms: CHECK_INTER_MS_DEFAULT,
            fastinter_ms: None,
            downinter_ms: None,
            rise: CHECK_RISE_DEFAULT,
            fall: CHECK_FALL_DEFAULT,
            window: None,
        }
    }
}

/// Which traffic counts as evidence of health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// No `observe`.
    #[default]
    None,
    /// `observe layer4`: connections.
    Layer4,
    /// `observe layer7`: responses as well.
    Layer7,
}

impl Observe {
    /// Whether any traffic does.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::None
    }
}

/// What to do after `error-limit` consecutive errors in observed traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// `fastinter`: check soon.
    Fastinter,
    /// `fail-check`: count one failed check, and check soon.
    #[default]
    FailCheck,
    /// `sudden-death`: as if all but the last failing check had happened.
    SuddenDeath,
    /// `mark-down`: the server is down at once.
    MarkDown,
}

/// Settings of one server line.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's name.
    pub name: String,
    /// `id`; 0 takes the next free one in order of declaration, as HAProxy does.
    pub id: u32,
    /// `weight`, 0 to 256.
    pub weight: u32,
    /// `backup`.
    pub backup: bool,
    /// `maxconn`; 0 is no limit.
    pub maxconn: u32,
    /// `minconn`; 0 is not set.
    pub minconn: u32,
    /// `maxqueue`; 0 is no limit.
    pub maxqueue: u32,
    /// `slowstart`, in milliseconds; HAProxy counts in whole seconds, rounded up.
    pub slowstart_ms: u64,
    /// `disabled`: starts in maintenance.
    pub disabled: bool,
    /// `check` and its settings; `None` without `check`.
    pub check: Option<CheckConfig>,
    /// Settings of `agent-check`, if an agent is asked.
    pub agent: Option<CheckConfig>,
    /// `observe`.
    pub observe: Observe,
    /// `error-limit`.
    pub error_limit: u32,
    /// `on-error`.
    pub on_error: OnError,
    /// `on-marked-down shutdown-sessions`.
    pub shutdown_sessions_on_marked_down: bool,
    /// `on-marked-up shutdown-backup-sessions`.
    pub shutdown_backup_sessions_on_marked_up: bool,
    /// The host name when the address is resolved at run time, for messages.
    pub hostname: Option<String>,
    /// `track`: the followed server as `backend/server`. Its changes are brought in by `Farm::follow`.
    pub track: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            id: 0,
            weight: 1,
            backup: false,
            maxconn: 0,
            minconn: 0,
            maxqueue: 0,
            slowstart_ms: 0,
            disabled: false,
            check: None,
            agent: None,
            observe: Observe::None,
            error_limit: ERROR_LIMIT_DEFAULT,
            on_error: OnError::FailCheck,
            shutdown_sessions_on_marked_down: false,
            shutdown_backup_sessions_on_marked_up: false,
            hostname: None,
            track: None,
        }
    }
}

/// One server wanted by persistence (cookie, stick table) or by `use-server`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// The wanted server.
    pub server: ServerId,
    /// `force-persist` applies: take it even when it is down, and stay in its queue.
    pub even_if_down: bool,
}
