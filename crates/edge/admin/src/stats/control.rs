//! What the statistics page and the stats socket may ask of the running edge and change in it.
//!
//! Both speak to [`Control`] and not to the edge itself, so that what they say and what they understand can be tested
//! without one.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use live::{Tables, caches::LiveCache, capture::Capture, changes::Change, files::FileNumbers};

use super::view::{Detail, ProcessView, Snapshot};

/// A proxy, as far as commands have to know it to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyName {
    /// Its place among all proxies.
    pub index: usize,
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it has a client side.
    pub frontend: bool,
    /// Whether it has a server side.
    pub backend: bool,
    /// `disabled`, or shut down since.
    pub stopped: bool,
}

/// A server: its backend's place and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRef {
    /// Place of the backend among all proxies.
    pub proxy: usize,
    /// Place of the server in it.
    pub server: usize,
}

/// A wanted health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Up.
    Up,
    /// Up, but without new visitors.
    Stopping,
    /// Down.
    Down,
}

/// A wanted port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortChange {
    /// This one.
    Fixed(u16),
    /// That of the client's connection, with this added.
    Offset(i32),
    /// Text that is none.
    Unreadable(String),
}

/// A change of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// Ready: out of maintenance and drain.
    Ready,
    /// No new visitors.
    Drain,
    /// Maintenance.
    Maintain,
    /// A forced health.
    Health(Health),
    /// Checks on or off.
    Checks(bool),
    /// A weight, `50` or `50%`.
    Weight(String),
    /// `maxconn`.
    MaxConn(u32),
    /// Another address or port; tells what changed.
    Address {
        /// The address.
        ip: Option<IpAddr>,
        /// The port.
        port: Option<PortChange>,
    },
    /// Another address or port of its checks.
    CheckAddress {
        /// The address.
        ip: Option<IpAddr>,
        /// The port.
        port: Option<u16>,
    },
    /// What the agent would say: whether the server works.
    Agent(bool),
    /// Questions to the agent on or off.
    AgentChecks(bool),
    /// Another address or port of the agent.
    AgentAddress {
        /// The address.
        ip: Option<IpAddr>,
        /// The port.
        port: Option<u16>,
    },
    /// What the agent is sent.
    AgentSend(String),
    /// Another host name.
    HostName(String),
    /// The end of all its sessions.
    ShutSessions,
}

/// A change of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontendChange {
    /// `maxconn`.
    MaxConn(u32),
    /// Accepts no more until resumed; whether it did before.
    Pause,
    /// Accepts again; whether it did not before.
    Resume,
    /// Accepts never again.
    Stop,
}

/// A change of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    /// `maxconn`; 0 is the greatest that is allowed.
    MaxConn(u32),
    /// Connections a second; 0 is no limit.
    ConnectionRate(u32),
    /// `set rate-limit http-compression global`: kilobytes a second.
    CompressionRate(u32),
    /// Sessions a second; 0 is no limit.
    SessionRate(u32),
    /// `set rate-limit ssl-sessions global`.
    TlsRate(u32),
}

/// A change of a backend's dynamic cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieChange {
    /// On or off.
    Dynamic(bool),
    /// The secret.
    Key(String),
}

/// What a worker thread does and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadView {
    /// Times it had nothing to do.
    pub parks: u64,
    /// Tasks that live.
    pub tasks: u64,
    /// Tasks that wait to run.
    pub ready: u64,
    /// Milliseconds it was busy.
    pub busy_ms: u64,
    /// Connections so far.
    pub accepted: u64,
    /// Connections now.
    pub open: u64,
    /// Requests so far.
    pub requests: u64,
    /// Bytes to clients so far.
    pub bytes_out: u64,
    /// Idle server connections that other workers lent it.
    pub taken_over: u64,
}

/// A variable, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableView {
    /// Its type.
    pub kind: &'static str,
    /// Its value as text, if it has such a form.
    pub text: Option<Vec<u8>>,
}

/// Why a change was not made, in HAProxy's words, without a line break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// For these reasons.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A `resolvers` section.
#[derive(Clone, Debug)]
pub struct ResolversView {
    /// Its name.
    pub name: Arc<str>,
    /// Its name servers by name, with their numbers.
    pub nameservers: Vec<(Arc<str>, dns::Counters)>,
}

/// The running edge, as far as it can be asked and changed from outside.
///
/// An implementation holds on to one instance, so that places stay those of the same proxies and servers for as long as
/// it lives; make a new one for each command.
pub trait Control {
    /// Numbers of the process.
    fn process(&self) -> ProcessView;

    /// Numbers of the process and of every proxy that is wanted by its name.
    fn snapshot(&self, wanted: &dyn Fn(&ProxyName) -> bool, detail: Detail) -> Snapshot;

    /// Every proxy in the order of the configuration, disabled ones too.
    fn proxies(&self) -> Vec<ProxyName>;

    /// The server of that name.
    fn server_named(&self, proxy: usize, name: &str) -> Option<ServerRef>;

    /// The server of that number.
    fn server_numbered(&self, proxy: usize, id: u32) -> Option<ServerRef>;

    /// A server's weight: as set, and in the configuration.
    fn weight(&self, server: ServerRef) -> (u32, u32);

    /// Whether an agent is asked about a server.
    fn asks_agent(&self, server: ServerRef) -> bool;

    /// Changes a server; what there is to say about it.
    ///
    /// # Errors
    /// Why it was not changed.
    fn change_server(&self, server: ServerRef, change: ServerChange) -> Result<Option<String>, Refusal>;

    /// Adds a server to a backend: the words behind its name.
    ///
    /// # Errors
    /// What is wrong with them.
    fn add_server(&self, proxy: usize, name: &str, words: &[&str]) -> Result<(), Refusal>;

    /// Takes a server away.
    ///
    /// # Errors
    /// Why it stays.
    fn remove_server(&self, server: ServerRef) -> Result<(), Refusal>;

    /// Whether servers of a backend may come and go.
    fn is_dynamic(&self, proxy: usize) -> bool;

    /// Changes a frontend; false if it was like that already.
    ///
    /// # Errors
    /// Why it was not changed.
    fn change_frontend(&self, proxy: usize, change: FrontendChange) -> Result<bool, Refusal>;

    /// Changes the process.
    ///
    /// # Errors
    /// Why it was not changed.
    fn change_process(&self, change: ProcessChange) -> Result<(), Refusal>;

    /// Changes the dynamic cookies of a backend.
    fn change_cookie(&self, proxy: usize, change: CookieChange);

    /// What each worker thread does.
    fn threads(&self) -> Vec<ThreadView>;

    /// Forgets the greatest values, or all counts.
    fn clear_counters(&self, all: bool);

    /// How many invalid messages there were, and those that are kept of the proxies that are wanted.
    fn captures(&self, wanted: &dyn Fn(&ProxyName) -> bool) -> (u64, Vec<Capture>);

    /// A variable of the process.
    fn variable(&self, name: &str) -> Option<VariableView>;

    /// Sets a variable of the process to what an expression or a format makes.
    ///
    /// # Errors
    /// What is wrong with the name or the text.
    fn set_variable(&self, name: &str, is_format: bool, text: &str) -> Result<(), Refusal>;

    /// The lists of patterns: of files and of ACLs.
    fn patterns(&self) -> Option<&sample::PatternReferences>;

    /// Stick tables.
    fn tables(&self) -> Arc<Tables> {
        Arc::default()
    }

    /// The `peers` sections that run.
    fn peers(&self) -> Vec<Arc<live::peering::LiveSection>> {
        Vec::new()
    }

    /// What changed after the change of that number, the oldest first.
    fn changes_after(&self, _: u64) -> Vec<Change> {
        Vec::new()
    }

    /// Milliseconds since the start of the process.
    fn now_ms(&self) -> u64 {
        0
    }

    /// The edge, to replace certificates of listeners.
    fn edge(&self) -> Option<&live::Shared> {
        None
    }

    /// Certificates that come by themselves.
    fn certificates(&self) -> Vec<acme::Status> {
        Vec::new()
    }

    /// Asks for a certificate now.
    ///
    /// # Errors
    /// Why not.
    fn renew_certificate(&self, name: &str) -> Result<(), acme::RenewError> {
        Err(acme::RenewError::Unknown(name.to_owned()))
    }

    /// The `resolvers` sections with the numbers of their name servers.
    fn resolvers(&self) -> Vec<ResolversView> {
        Vec::new()
    }

    /// `cache` sections.
    fn caches(&self) -> Vec<Arc<LiveCache>> {
        Vec::new()
    }

    /// Numbers of the files of backends.
    fn files(&self) -> Vec<FileNumbers> {
        Vec::new()
    }

    /// Environment variables as the configuration sees them.
    fn environment(&self) -> Vec<(String, String)>;
}

/// Where a server is after its address or port was changed, and what HAProxy says about that; `map` is what is added to the
/// client's port to make its own, if it has none of its own. Checks have no client, so they need a port then.
#[must_use]
pub fn moved(
    current: SocketAddr,
    map: Option<i32>,
    has_check_port: bool,
    ip: Option<IpAddr>,
    port: Option<PortChange>,
) -> (SocketAddr, Option<i32>, String) {
    let mut wanted = current;
    let mut said = Vec::new();
    match ip {
        Some(ip) if ip == current.ip() => said.push("no need to change the addr".to_owned()),
        Some(ip) => {
            said.push(format!("IP changed from '{}' to '{ip}'", current.ip()));
            wanted.set_ip(ip);
        }
        None => {}
    }
    // HAProxy keeps what is added in 16 bits without a sign.
    let was = map.map_or_else(|| current.port().to_string(), |offset| format!("+{}", offset.rem_euclid(1 << 16)));
    let mut wanted_map = map;
    match port {
        Some(PortChange::Fixed(port)) if map.is_none() && port == current.port() => {
            said.push("no need to change the port".to_owned());
        }
        Some(PortChange::Fixed(port)) => {
            said.push(format!("port changed from '{was}' to '{port}'"));
            wanted.set_port(port);
            wanted_map = None;
        }
        Some(PortChange::Offset(offset)) if map == Some(offset) => said.push("no need to change the port".to_owned()),
        Some(PortChange::Offset(_)) if map.is_none() && !has_check_port => said.push(
            "can't change <port> to port map because it is incompatible with current health check port configuration \
             (use 'port' statement from the 'server' directive."
                .to_owned(),
        ),
        Some(PortChange::Offset(offset)) => {
            said.push(format!("port changed from '{was}' to '{offset:+}'"));
            wanted_map = Some(offset);
        }
        Some(PortChange::Unreadable(text)) => said.push(format!("problem converting port '{text}' to an int")),
        None => {}
    }
    (wanted, wanted_map, said.join(", "))
}

/// Finds a proxy by name, or by number after a `#`.
pub fn find_proxy(control: &dyn Control, name: &str, wanted: impl Fn(&ProxyName) -> bool) -> Option<ProxyName> {
    let mut proxies = control.proxies().into_iter().filter(|proxy| wanted(proxy));
    match name.strip_prefix('#') {
        Some(number) => {
            let id: u32 = number.parse().ok()?;
            proxies.find(|proxy| proxy.id == id)
        }
        None => proxies.find(|proxy| *proxy.name == *name),
    }
}

/// Finds a server by name, or by number after a `#`.
pub fn find_server(control: &dyn Control, proxy: usize, name: &str) -> Option<ServerRef> {
    match name.strip_prefix('#') {
        Some(number) => control.server_numbered(proxy, number.parse().ok()?),
        None => control.server_named(proxy, name),
    }
}
