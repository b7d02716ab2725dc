//! Names looked up again while running.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use balance::ServerId;
use haproxycfg::model::ServerPort;
use logs::{AdminLog, LogLevel, Severity};
use net::Target;
use tokio::time::Instant;

use super::lookup::{Lookup, preferred};
use crate::{Instance, LiveProxy, LiveServer, Shared};

/// How long an answer counts before the name is looked up again.
pub const HOLD_DEFAULT: Duration = Duration::from_secs(10);

/// The thread that looks names up; it ends some time after this value is dropped.
#[derive(Debug)]
pub struct Watch {
    /// Closed to end the thread.
    _alive: mpsc::Sender<()>,
}

impl Watch {
    /// Looks the names of the running instance's servers up every `hold`.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn start(shared: Arc<Shared>, log: Arc<AdminLog>, lookup: Arc<dyn Lookup>, hold: Duration) -> io::Result<Self> {
        let (alive, ended) = mpsc::channel();
        thread::Builder::new().name("resolver".into()).spawn(move || {
            while ended.recv_timeout(hold) == Err(RecvTimeoutError::Timeout) {
                look_again(&shared.instance(), &log, &*lookup);
            }
        })?;
        Ok(Self { _alive: alive })
    }
}

/// Looks every name up once, and moves the servers whose name has left their address.
pub fn look_again(instance: &Instance, log: &AdminLog, lookup: &dyn Lookup) {
    let mut answers: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for proxy in instance.proxies.iter().filter(|proxy| !proxy.settings().disabled) {
        for server in proxy.servers.iter() {
            // Those with `resolvers` are looked after by a section.
            let Some(host) = server.config.fqdn.as_deref().filter(|_| server.config.resolvers.is_none()) else {
                continue;
            };
            let addresses = answers.entry(host.to_owned()).or_insert_with(|| {
                lookup.lookup(host).unwrap_or_else(|_| {
                    instance.process.resolutions_failed.fetch_add(1, Relaxed);
                    Vec::new()
                })
            });
            update(proxy, &server, addresses, log);
        }
    }
}

fn update(proxy: &LiveProxy, server: &LiveServer, addresses: &[IpAddr], log: &AdminLog) {
    let before = server.target();
    let current = match &before {
        Target::Inet(address) => Some(*address),
        Target::Unresolved => None,
        // Someone has sent it elsewhere for good.
        Target::Unix(_) | Target::Abstract(_) => return,
    };
    if current.is_some_and(|current| addresses.contains(&current.ip())) {
        return;
    }
    // A name that has no address at the moment changes nothing.
    let Some(address) = preferred(addresses, server.config.prefer_ipv4) else { return };
    let port = current.map_or_else(|| configured_port(server), |current| current.port());
    let old = current.map_or_else(|| "(none)".to_owned(), |current| current.ip().to_string());
    log.both(
        &proxy.log_targets,
        LogLevel::Notice,
        Severity::Warning,
        format_args!(
            "{}/{} changed its IP from {old} to {address} by libc.",
            proxy.settings().name,
            server.config.name
        ),
    );
    server.retarget(Target::Inet(SocketAddr::new(address, port)));
    if current.is_none() {
        let now_ms = proxy.process.milliseconds(Instant::now().into_std());
        proxy.with_farm(|farm| farm.set_resolved(ServerId::new(server.index.0 as usize), now_ms));
    }
}

fn configured_port(server: &LiveServer) -> u16 {
    match server.config.port {
        ServerPort::Fixed(port) => port,
        ServerPort::Same | ServerPort::Offset(_) => 0,
    }
}
