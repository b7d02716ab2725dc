//! A server with its state, and where its connections, its checks and its agent's questions go.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use haproxycfg::model::{self, ProxyIndex, ServerIndex, ServerProtocol};
use net::Target;
use telemetry::Gauge;

use crate::{counters::SideCounters, process::Process, server_tls::ServerConnector};

/// A server that runs.
#[derive(Debug)]
pub struct LiveServer {
    /// The process it runs in.
    pub process: Arc<Process>,
    /// Unique in the process; kept over a reload that leaves the server as it is.
    pub key: u64,
    /// Its backend.
    pub proxy: ProxyIndex,
    /// Its place there and in the farm.
    pub index: ServerIndex,
    /// What the configuration says.
    pub config: model::Server,
    /// Where it is depends on what the client connected to (no port, or `0.0.0.0`).
    pub is_relative: bool,
    /// Where connections go now: resolved, or changed at run time.
    pub target: RwLock<Target>,
    /// Counts changes of `target`, so that pooled connections to the old one are dropped.
    pub target_epoch: AtomicU64,
    /// Its host name now: that of the configuration, of a command, or of the service that it is a part of.
    pub host: Mutex<Option<Arc<str>>>,
    /// The port that it has when its address is known again.
    pub lost_port: AtomicU16,
    /// What a command made of the port: [`PORT_AS_CONFIGURED`], [`PORT_FIXED`], or what is added to the client's.
    pub port_map: AtomicI32,
    /// Where its checks go, if not where it is; a command may change it.
    pub check_place: Mutex<CheckPlace>,
    /// How its agent is asked; a command may change it.
    pub agent: Mutex<Agent>,
    /// Numbers.
    pub side: Arc<SideCounters>,
    /// Connections open to it, in use or idle.
    pub connections: Arc<Gauge>,
    /// Idle connections in all workers' pools.
    pub idle: Arc<Gauge>,
    /// Connections with a first request of which nothing has been heard: FastCGI's alone are counted.
    pub unanswered: Arc<Gauge>,
    /// How many requests its application takes on a connection of FastCGI, as that has said; 0 if it has not.
    pub fcgi_requests_max: AtomicU32,
    /// Its application is being asked that.
    pub is_asked_values: AtomicBool,
    /// `lastsess`: milliseconds since the process started, 0 for never.
    pub last_session_ms: AtomicU64,
    /// Counts the times its sessions were ordered to shut down, with the last cause in the lowest byte; sessions
    /// compare, also those that began before a reload.
    pub shutdown_epoch: Arc<AtomicU64>,
    /// `del server`: one of the configuration that is no longer there.
    pub is_gone: AtomicBool,
    /// A server that came at run time tracks it, or did.
    pub is_followed: AtomicBool,
    /// What TLS is spoken with it by.
    pub tls: Option<Arc<ServerConnector>>,
}

/// Why the sessions of a server are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutCause {
    /// An administrator wants it.
    Administrator,
    /// The server went down (`on-marked-down shutdown-sessions`).
    ServerDown,
    /// A server that they were in place of came up (`on-marked-up shutdown-backup-sessions`).
    ServerUp,
}

/// [`LiveServer::port_map`]: no command has changed it.
pub const PORT_AS_CONFIGURED: i32 = i32::MIN;

/// [`LiveServer::port_map`]: it is that of the target.
pub const PORT_FIXED: i32 = i32::MAX;

/// What of a check's destination is not the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPlace {
    /// The address.
    pub address: Option<model::ServerAddress>,
    /// The port.
    pub port: Option<u16>,
}

/// How a server's agent is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Where.
    pub place: CheckPlace,
    /// What it is sent; may be empty.
    pub question: Vec<u8>,
}

impl Agent {
    /// As the configuration says: what it says of checks goes for the agent too.
    #[must_use]
    pub fn of(server: &model::Server) -> Self {
        let address = server.agent_address.map(model::ServerAddress::Ip).or_else(|| server.check_address.clone());
        let place = CheckPlace { address, port: server.agent_port.or(server.check_port) };
        Self { place, question: server.agent_send.clone() }
    }
}

/// What TLS is spoken with a server by.
pub(crate) fn connector(server: &model::Server) -> Option<Arc<ServerConnector>> {
    // That it can be made was seen when the configuration was checked.
    server.tls.as_ref().and_then(|tls| ServerConnector::new(&tls.options, tls.fingerprint)).map(Arc::new)
}

impl LiveServer {
    /// A server of which nothing is known yet but its configuration.
    #[must_use]
    pub fn new(
        process: &Arc<Process>,
        proxy: ProxyIndex,
        index: ServerIndex,
        config: model::Server,
        workers: usize,
    ) -> Self {
        Self {
            process: Arc::clone(process),
            key: process.next_server_key.fetch_add(1, Relaxed),
            proxy,
            index,
            target: RwLock::new(target(&config)),
            target_epoch: AtomicU64::new(0),
            is_relative: is_relative(&config),
            host: Mutex::new(config.fqdn.as_deref().map(Into::into)),
            lost_port: AtomicU16::new(configured_port(&config)),
            port_map: AtomicI32::new(PORT_AS_CONFIGURED),
            check_place: Mutex::new(CheckPlace { address: config.check_address.clone(), port: config.check_port }),
            agent: Mutex::new(Agent::of(&config)),
            side: Arc::new(SideCounters::new(workers)),
            connections: Arc::default(),
            idle: Arc::default(),
            unanswered: Arc::default(),
            fcgi_requests_max: AtomicU32::new(0),
            is_asked_values: AtomicBool::new(false),
            last_session_ms: AtomicU64::new(0),
            shutdown_epoch: Arc::default(),
            is_gone: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
            tls: connector(&config),
            config,
        }
    }

    /// Whether requests go to it over TLS.
    #[must_use]
    #[inline]
    pub fn speaks_tls(&self) -> bool {
        self.config.tls.as_ref().is_some_and(|tls| tls.of_requests)
    }

    /// Whether FastCGI is spoken with it.
    #[must_use]
    #[inline]
    pub fn speaks_fastcgi(&self) -> bool {
        self.config.protocol == Some(ServerProtocol::Fcgi)
    }

    /// Where its checks go now, if not where it is.
    #[must_use]
    pub fn check_place(&self) -> CheckPlace {
        self.check_place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where its agent is asked now, as far as that is not the server's own place.
    #[must_use]
    pub fn agent_place(&self) -> CheckPlace {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).place.clone()
    }

    /// What its agent is sent now.
    #[must_use]
    pub fn agent_question(&self) -> Vec<u8> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).question.clone()
    }

    /// Where connections go now.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How its port follows from the client's.
    #[must_use]
    #[inline]
    pub fn port_rule(&self) -> model::ServerPort {
        match self.port_map.load(Relaxed) {
            PORT_AS_CONFIGURED => self.config.port,
            PORT_FIXED => model::ServerPort::Fixed(0),
            offset => model::ServerPort::Offset(offset),
        }
    }

    /// Whether where connections go depends on the client: [`LiveServer::is_relative`], or a command said so.
    #[must_use]
    #[inline]
    pub fn leads_elsewhere(&self) -> bool {
        self.is_relative || !matches!(self.port_map.load(Relaxed), PORT_AS_CONFIGURED | PORT_FIXED)
    }

    /// Sends connections elsewhere from now on; pooled ones to the old place are dropped.
    pub fn retarget(&self, target: Target) {
        *self.target.write().unwrap_or_else(PoisonError::into_inner) = target;
        self.target_epoch.fetch_add(1, Relaxed);
        // There may be another application.
        self.fcgi_requests_max.store(0, Relaxed);
    }

    /// Its host name now.
    #[must_use]
    pub fn host(&self) -> Option<Arc<str>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it another host name.
    pub fn rename(&self, host: Option<&str>) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = host.map(Into::into);
    }

    /// Its port, also while it has no address.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self.target() {
            Target::Inet(address) => address.port(),
            Target::Unresolved => self.lost_port.load(Relaxed),
            Target::Unix(_) | Target::Abstract(_) => 0,
        }
    }

    /// Gives it another port.
    pub fn set_port(&self, port: u16) {
        self.lost_port.store(port, Relaxed);
        if let Target::Inet(address) = self.target()
            && address.port() != port
        {
            self.retarget(Target::Inet(SocketAddr::new(address.ip(), port)));
        }
    }

    /// Its address is not known any more.
    pub fn lose_address(&self) {
        self.lost_port.store(self.port(), Relaxed);
        if self.target() != Target::Unresolved {
            self.retarget(Target::Unresolved);
        }
    }

    /// Ends every session that this server serves (`shutdown sessions server`, `on-marked-down shutdown-sessions`), with
    /// this cause in their termination states.
    pub fn shut_sessions(&self, cause: ShutCause) {
        let next = |epoch: u64| (((epoch >> 8) + 1) << 8) | cause as u64;
        let _ = self.shutdown_epoch.fetch_update(Relaxed, Relaxed, |epoch| Some(next(epoch)));
        self.process.sessions.wake_sessions_of(self.key);
    }

    /// What [`LiveServer::shut_cause`] compares with.
    #[must_use]
    #[inline]
    pub fn shut_mark(&self) -> u64 {
        self.shutdown_epoch.load(Relaxed)
    }

    /// Why its sessions have been ordered to end since the mark was taken, if they have.
    #[must_use]
    #[inline]
    pub fn shut_cause(&self, mark: u64) -> Option<ShutCause> {
        let epoch = self.shutdown_epoch.load(Relaxed);
        if epoch == mark {
            return None;
        }
        Some(match epoch.to_le_bytes() {
            [cause, ..] if cause == ShutCause::ServerDown as u8 => ShutCause::ServerDown,
            [cause, ..] if cause == ShutCause::ServerUp as u8 => ShutCause::ServerUp,
            _ => ShutCause::Administrator,
        })
    }
}

/// Whether where a server is depends on what the client connected to.
#[must_use]
pub fn is_relative(server: &model::Server) -> bool {
    match server.address {
        model::ServerAddress::Ip(ip) if ip.is_unspecified() => true,
        model::ServerAddress::Ip(_) | model::ServerAddress::Unresolved => {
            !matches!(server.port, model::ServerPort::Fixed(_))
        }
        model::ServerAddress::Unix(_) | model::ServerAddress::Abstract(_) => false,
    }
}

/// The port that the configuration gives a server, 0 for none.
#[must_use]
pub fn configured_port(server: &model::Server) -> u16 {
    match (&server.service_host, &server.port) {
        (Some((_, port)), _) | (None, model::ServerPort::Fixed(port)) => *port,
        (None, model::ServerPort::Same | model::ServerPort::Offset(_)) => 0,
    }
}

/// Where the configuration says that a server is.
#[must_use]
pub fn target(server: &model::Server) -> Target {
    let port = configured_port(server);
    match &server.address {
        model::ServerAddress::Unresolved => Target::Unresolved,
        model::ServerAddress::Ip(ip) => Target::Inet(SocketAddr::new(*ip, port)),
        model::ServerAddress::Unix(path) => Target::Unix(path.clone()),
        model::ServerAddress::Abstract(name) => Target::Abstract(name.clone()),
    }
}
