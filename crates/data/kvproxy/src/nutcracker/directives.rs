//! The directives of a pool.

use std::{collections::HashSet, fmt, path::PathBuf, time::Duration};

use super::{
    ConfigError, milliseconds,
    table::DIRECTIVES,
    yaml::{RawPool, Setting, Text},
};
use crate::{
    hashes::Hash,
    policy::{ReadFrom, ServerLimits},
    ring::{Distribution, Member},
};

/// The port that memcached has, which names of servers leave out.
const MEMCACHED_PORT: u16 = 11_211;
/// The most connections to a server, and the longest queue of a listener.
pub(super) const COUNT_MAX: u64 = 65_535;

/// Where somebody listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// By TCP.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// By a unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Who may connect, as `chmod` takes it.
        mode: Option<u32>,
    },
}

impl Address {
    /// The host; empty for a unix socket.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix { .. } => "",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Self::Unix { path, .. } => write!(formatter, "{}", path.display()),
        }
    }
}

/// A server of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where it listens.
    pub address: Address,
    /// How many keys it gets, relative to the others.
    pub weight: u32,
    /// What its points on the circle are computed from, and what statistics call it.
    pub name: String,
}

/// A pool: clients come in at one address, and servers are behind it.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The line of its name.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// `listen`.
    pub listen: Address,
    /// `hash`.
    pub hash: Hash,
    /// `hash_tag`.
    pub hash_tag: Option<[u8; 2]>,
    /// `distribution`.
    pub distribution: Distribution,
    /// `timeout`: of a connection's opening, and of an answer.
    pub timeout: Option<Duration>,
    /// `backlog`.
    pub backlog: i32,
    /// `client_connections`; 0 is any number.
    pub client_connections: usize,
    /// `tcpkeepalive`, to servers.
    pub tcpkeepalive: bool,
    /// `reuseport`.
    pub reuseport: bool,
    /// `redis_auth`: servers are given it, and clients have to know it.
    pub redis_auth: Option<String>,
    /// The user of the servers that the password is of; their default user if there is none.
    pub user: Option<String>,
    /// `redis_db`: of the servers. Clients see number 0.
    pub redis_db: u32,
    /// `preconnect`.
    pub preconnect: bool,
    /// `auto_eject_hosts`: keys of a server that failed go to others for a while.
    pub auto_eject_hosts: bool,
    /// `server_connections`.
    pub server_connections: usize,
    /// `server_retry_timeout`: for how long.
    pub server_retry_timeout: Duration,
    /// `server_failure_limit`: after so many failures in a row.
    pub server_failure_limit: u32,
    /// `servers`.
    pub servers: Vec<ServerConfig>,
    /// Servers are spread by slots, and told of while the proxy runs.
    pub slots: Option<SlotsConfig>,
    /// What a server that is slow or dead may cost.
    pub limits: ServerLimits,
}

/// How servers that are spread by slots are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsConfig {
    /// For how long a request that cannot be sent is tried again.
    pub retry_for: Duration,
    /// All slots are always on one server.
    pub of_one_server: bool,
    /// Where reads go.
    pub read_from: ReadFrom,
}

impl PoolConfig {
    /// The servers as the circle takes them.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.servers.iter().map(|server| Member { name: server.name.clone(), weight: server.weight }).collect()
    }

    /// One whose servers are spread by slots; they become known later.
    ///
    /// # Errors
    /// The address is none.
    pub fn of_slots(name: &str, listen: &str, slots: SlotsConfig) -> Result<Self, String> {
        let mut pool = Self::with_defaults(&Text { line: 0, text: name.to_owned() });
        pool.listen = listen_of(listen)?;
        (pool.slots, pool.tcpkeepalive) = (Some(slots), true);
        Ok(pool)
    }

    pub(super) fn read(raw: RawPool) -> Result<Self, ConfigError> {
        let name = raw.name;
        let mut given = Given { listen: None, speaks_redis: false };
        let mut pool = Self::with_defaults(&name);
        let mut seen = HashSet::new();
        for (key, setting) in raw.directives {
            let wrong = |problem: &str| ConfigError::at(key.line, format!("directive \"{}\" {problem}", key.text));
            if !seen.insert(key.text.clone()) {
                return Err(wrong("is a duplicate"));
            }
            let Some(directive) = DIRECTIVES.iter().find(|directive| directive.name == key.text) else {
                let nearest = basics::nearest(&key.text, DIRECTIVES.iter().map(|directive| directive.name));
                let hint = nearest.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
                return Err(wrong(&format!("is unknown{hint}")));
            };
            let setter = directive.set;
            match setting {
                Setting::List(list) if setter.is_none() => {
                    for server in list {
                        let read = server_of(&server.text);
                        let read = read.map_err(|problem| {
                            ConfigError::at(server.line, format!("directive \"servers\" {problem}"))
                        });
                        pool.servers.push(read?);
                    }
                }
                Setting::List(_) => return Err(wrong("takes one value, no list")),
                Setting::One(value) => match setter {
                    Some(set) => set(&mut pool, &value.text, &mut given).map_err(|problem| wrong(&problem))?,
                    None => return Err(wrong("takes a list: lines that begin with \"- \"")),
                },
            }
        }
        pool.finish(given, &name)
    }

    fn with_defaults(name: &Text) -> Self {
        Self {
            line: name.line,
            name: name.text.clone(),
            listen: Address::Tcp { host: String::new(), port: 0 },
            hash: Hash::Fnv1aOf64,
            hash_tag: None,
            distribution: Distribution::Ketama,
            timeout: None,
            backlog: 512,
            client_connections: 0,
            tcpkeepalive: false,
            reuseport: false,
            redis_auth: None,
            user: None,
            redis_db: 0,
            preconnect: false,
            auto_eject_hosts: false,
            server_connections: 1,
            server_retry_timeout: milliseconds(30_000),
            server_failure_limit: 2,
            servers: Vec::new(),
            slots: None,
            limits: ServerLimits::default(),
        }
    }

    /// Looks whether everything is there and fits together.
    fn finish(mut self, given: Given, name: &Text) -> Result<Self, ConfigError> {
        let wrong = |problem: String| Err(ConfigError::at(name.line, problem));
        let pool = &name.text;
        let Some(listen) = given.listen else {
            return wrong(format!("pool '{pool}': directive \"listen:\" is missing"));
        };
        self.listen = listen;
        if !given.speaks_redis {
            return wrong(format!(
                "pool '{pool}' is one of memcached, which Tidegate does not speak: add \"redis: true\" if its servers speak \
                 Redis' protocol, else leave this pool to nutcracker"
            ));
        }
        if self.servers.is_empty() {
            return wrong(format!("pool '{pool}' has no servers"));
        }
        if self.server_connections == 0 {
            return wrong("directive \"server_connections:\" cannot be 0".to_owned());
        }
        let mut names = HashSet::new();
        for server in &self.servers {
            if !names.insert(server.name.as_str()) {
                return wrong(format!("pool '{pool}' has servers with same name '{}'", server.name));
            }
        }
        Ok(self)
    }
}

/// What has no default.
pub(super) struct Given {
    pub(super) listen: Option<Address>,
    pub(super) speaks_redis: bool,
}

pub(super) fn number(text: &str, most: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if number <= most => Ok(number),
        Ok(number) => Err(format!("is too large: {number}, at most {most}")),
        Err(_) => Err(format!("is not a number: '{text}'")),
    }
}

pub(super) fn count(text: &str) -> Result<usize, String> {
    number(text, COUNT_MAX).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is not \"true\" or \"false\": '{text}'")),
    }
}

/// `host:port`, or a path and who may connect.
pub(super) fn listen_of(text: &str) -> Result<Address, String> {
    if text.starts_with('/') {
        let (path, mode) = match text.split_once(' ') {
            None => (text, None),
            Some((path, mode)) => {
                let mode = u32::from_str_radix(mode.trim(), 8).ok().filter(|mode| *mode <= 0o777);
                let problem = "has an invalid file permission in \"socket_path permission\" format string";
                (path, Some(mode.ok_or(problem)?))
            }
        };
        return Ok(Address::Unix { path: path.into(), mode });
    }
    let problem = || format!("has an invalid \"hostname:port\" format string: '{text}'");
    let (host, port) = text.rsplit_once(':').ok_or_else(problem)?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("has an invalid port in \"hostname:port\" format string: '{text}'"))?;
    Ok(Address::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// `host:port:weight [name]`, or a path in place of host and port.
fn server_of(text: &str) -> Result<ServerConfig, String> {
    const FORM: &str = "\"hostname:port:weight [name]\" or \"/path/unix_socket:weight [name]\" format string";
    let (place, name) = match text.split_once(' ') {
        Some((place, name)) => (place, Some(name.trim()).filter(|name| !name.is_empty())),
        None => (text, None),
    };
    let invalid = || format!("has an invalid {FORM}: '{text}'");
    let (place, weight) = place.rsplit_once(':').ok_or_else(invalid)?;
    let weight = weight.parse::<u32>().map_err(|_| format!("has an invalid weight in {FORM}: '{text}'"))?;
    if weight == 0 {
        return Err(format!("has a zero weight in {FORM}: '{text}'"));
    }
    if weight > 1_000_000 {
        return Err(format!("has a weight beyond 1000000 in {FORM}: '{text}'"));
    }
    let (address, usual_name) = if place.starts_with('/') {
        (Address::Unix { path: place.into(), mode: None }, place.to_owned())
    } else {
        let (host, port) = place.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| format!("has an invalid port in {FORM}: '{text}'"))?;
        let usual = if port == MEMCACHED_PORT { host.to_owned() } else { place.to_owned() };
        (Address::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port }, usual)
    };
    Ok(ServerConfig { address, weight, name: name.map_or(usual_name, str::to_owned) })
}
