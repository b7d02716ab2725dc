//! `resolvers` sections that run: the machine of crate `dns`, with sockets, servers and those who wait.
//!
//! A section runs as one task on the control thread. Workers reach its machine for a moment, to take an answer that is
//! there or to leave their waker (`do-resolve`). What follows for servers is done at once, while the section is locked: a
//! farm's lock may be taken under that of a section, never the other way round.
//!
//! A reload makes new sections. Those before serve who still waits for them, and end with their instance.

pub(crate) mod transport;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    task::{Context, Poll, Waker},
    time::Instant,
};

use balance::{AdminState, ServerId, WeightChange};
use dns::{Asked, Counters, Hold, Name, Network, Section, ServerKey, Servers, Settings, Updater, WaiterKey};
use haproxycfg::model::{Config, ProxyIndex, Resolvers, ResolversIndex, ServerIndex};
use logs::{AdminLog, LogLevel, Severity};
use net::Target;
use tokio::sync::Notify;

use self::transport::Transports;
use crate::{
    process::Process,
    proxy::{Farm, LiveProxy},
    server::LiveServer,
};

/// A `resolvers` section that runs.
#[derive(Debug)]
pub struct LiveResolvers {
    /// What the configuration says of it.
    pub config: Resolvers,
    process: Arc<Process>,
    state: Mutex<State>,
    /// Told when there is something to do for its task.
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    section: Section,
    /// The servers that it resolves, by their keys.
    servers: Vec<(ProxyIndex, ServerIndex)>,
    waiting: HashMap<WaiterKey, Waiting>,
    next_waiter: WaiterKey,
}

/// Who waits, and what it was told.
#[derive(Debug)]
enum Waiting {
    Still(Option<Waker>),
    Told(Option<IpAddr>),
}

impl LiveResolvers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.process.milliseconds(Instant::now())
    }

    /// The numbers of its name servers, in the order of the configuration.
    #[must_use]
    pub fn counters(&self) -> Vec<Counters> {
        let state = self.lock();
        (0..self.config.nameservers.len()).map(|nameserver| state.section.counters(nameserver)).collect()
    }

    /// Looks a name up for one that waits; `None` when that cannot be a name.
    #[must_use]
    pub fn ask(self: &Arc<Self>, name: &[u8], prefer_ipv4: bool) -> Option<Asking> {
        let Some(name) = Name::parse(name) else {
            self.process.resolutions_failed.fetch_add(1, Relaxed);
            return None;
        };
        let mut state = self.lock();
        state.next_waiter += 1;
        let waiter = state.next_waiter;
        let known = match state.section.ask(waiter, &name, prefer_ipv4, self.now_ms()) {
            Asked::Known(address) => Waiting::Told(address),
            Asked::Waits => {
                self.wake.notify_one();
                Waiting::Still(None)
            }
        };
        state.waiting.insert(waiter, known);
        drop(state);
        Some(Asking { section: Arc::clone(self), waiter })
    }

    /// Gives a server of this section another name (`set server fqdn`); false when it has its name from a service.
    #[must_use]
    pub fn rename(&self, server: &LiveServer, name: &Name) -> bool {
        let mut state = self.lock();
        let (place, now_ms) = ((server.proxy, server.index), self.now_ms());
        let renamed = match state.servers.iter().position(|known| *known == place) {
            Some(key) => state.section.set_host(key, name.clone(), now_ms),
            // It has had an address only so far.
            None => {
                let key = state.servers.len();
                state.servers.push(place);
                state.section.add_server(key, group(server), options(server), name.clone(), now_ms);
                true
            }
        };
        self.wake.notify_one();
        renamed
    }

    /// Lets go of all servers: another configuration has them.
    pub fn release_servers(&self) {
        self.lock().section.release_servers();
        self.wake.notify_one();
    }
}

impl Drop for LiveResolvers {
    fn drop(&mut self) {
        // Its task finds it gone, and ends.
        self.wake.notify_one();
    }
}

/// An answer that is waited for.
#[derive(Debug)]
pub struct Asking {
    section: Arc<LiveResolvers>,
    waiter: WaiterKey,
}

impl Future for Asking {
    type Output = Option<IpAddr>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.section.lock();
        match state.waiting.get_mut(&self.waiter) {
            Some(Waiting::Still(waker)) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Waiting::Told(address)) => Poll::Ready(*address),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.section.lock();
        if matches!(state.waiting.remove(&self.waiter), Some(Waiting::Still(_))) {
            state.section.forget(self.waiter);
        }
    }
}

/// Makes the sections of an instance, with the servers that they resolve.
#[must_use]
pub fn assemble(
    config: &Config,
    proxies: &[Arc<LiveProxy>],
    process: &Arc<Process>,
    seed: u64,
) -> Vec<Arc<LiveResolvers>> {
    let now_ms = process.milliseconds(Instant::now());
    let make = |(place, config): (u32, &Resolvers)| {
        let seed = seed.wrapping_mul(u64::from(place).wrapping_mul(2).wrapping_add(3));
        let mut section = Section::new(settings(config), seed);
        let mut servers = Vec::new();
        for proxy in proxies {
            for server in proxy.servers.iter() {
                if server.config.resolvers == Some(ResolversIndex(place))
                    && add_server(&mut section, servers.len(), &server, now_ms)
                {
                    servers.push((proxy.index, server.index));
                }
            }
        }
        let state = State { section, servers, waiting: HashMap::new(), next_waiter: 0 };
        Arc::new(LiveResolvers {
            config: config.clone(),
            process: Arc::clone(process),
            state: Mutex::new(state),
            wake: Arc::default(),
        })
    };
    (0..).zip(&config.resolvers).map(make).collect()
}

fn settings(config: &Resolvers) -> Settings {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Settings {
        nameservers: config.nameservers.len(),
        payload_size: config.accepted_payload_size,
        retries: config.resolve_retries,
        resolve_ms: milliseconds(config.timeout_resolve),
        retry_ms: milliseconds(config.timeout_retry),
        hold: Hold {
            nx: milliseconds(config.hold_nx),
            other: milliseconds(config.hold_other),
            refused: milliseconds(config.hold_refused),
            timeout: milliseconds(config.hold_timeout),
            valid: milliseconds(config.hold_valid),
            obsolete: milliseconds(config.hold_obsolete),
        },
    }
}

/// The servers of which no two are to get the same address.
fn group(server: &LiveServer) -> usize {
    server.proxy.0 as usize
}

fn options(server: &LiveServer) -> dns::Options {
    let config = &server.config;
    dns::Options {
        prefer_ipv4: config.prefer_ipv4,
        networks: config
            .resolve
            .networks
            .iter()
            .map(|(address, bits)| Network { address: *address, bits: *bits })
            .collect(),
        allow_duplicates: config.resolve.allow_duplicates,
        ignore_weight: config.resolve.ignore_weight,
    }
}

/// Has a server resolved; false when its address is no name.
fn add_server(section: &mut Section, key: ServerKey, server: &LiveServer, now_ms: u64) -> bool {
    let (group, options) = (group(server), options(server));
    let host = server.host().and_then(|host| Name::parse(host.as_bytes()));
    if let Some(service) = &server.config.service {
        let Some(service) = Name::parse(service.as_bytes()) else { return false };
        let known = host.zip(Some(server.port()));
        section.add_service_server(key, group, options, &service, known, now_ms);
        return true;
    }
    let Some(host) = host else { return false };
    section.add_server(key, group, options, host, now_ms);
    true
}

impl LiveResolvers {
    /// Does what is due; milliseconds until something will be.
    pub(crate) fn turn(&self, proxies: &[Arc<LiveProxy>], log: &AdminLog, transports: &mut Transports) -> Option<u64> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let State { section, servers, waiting, .. } = &mut *state;
        if section.poll_timeout().is_some_and(|due_ms| due_ms <= now_ms) {
            section.handle_timeout(now_ms, &mut Known { proxies, log, servers, config: &self.config, now_ms });
        }
        while let Some(transmit) = section.poll_transmit() {
            let was_sent = transports.send(transmit.nameserver, transmit.message);
            section.handle_sent(transmit.nameserver, transmit.id, was_sent);
        }
        let mut wakers = Vec::new();
        while let Some((waiter, address)) = section.poll_answer() {
            if let Some(Waiting::Still(Some(waker))) = waiting.insert(waiter, Waiting::Told(address)) {
                wakers.push(waker);
            }
        }
        let due_ms = section.poll_timeout();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        due_ms.map(|due_ms| due_ms.saturating_sub(now_ms))
    }

    /// Takes what a name server has sent.
    pub(crate) fn handle_response(
        &self,
        proxies: &[Arc<LiveProxy>],
        log: &AdminLog,
        (nameserver, message): (usize, &[u8]),
    ) {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let State { section: machine, servers, .. } = &mut *state;
        let mut known = Known { proxies, log, servers, config: &self.config, now_ms };
        machine.handle_response(nameserver, message, now_ms, &mut known);
    }

    /// Told when there is something to do for its task.
    pub(crate) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }
}

/// The servers of a section in the instance that runs.
struct Known<'a> {
    proxies: &'a [Arc<LiveProxy>],
    log: &'a AdminLog,
    servers: &'a [(ProxyIndex, ServerIndex)],
    config: &'a Resolvers,
    now_ms: u64,
}

impl Known<'_> {
    fn find(&self, server: ServerKey) -> Option<(&Arc<LiveProxy>, Arc<LiveServer>)> {
        let (proxy, server) = self.servers.get(server)?;
        let proxy = self.proxies.get(proxy.0 as usize)?;
        Some((proxy, proxy.server(*server)?))
    }

    fn with_farm(&self, server: ServerKey, work: impl FnOnce(&mut Farm, ServerId)) {
        if let Some((proxy, live)) = self.find(server) {
            proxy.with_farm(|farm| work(farm, ServerId::new(live.index.0 as usize)));
        }
    }
}

impl Servers for Known<'_> {
    fn address(&self, server: ServerKey) -> Option<IpAddr> {
        match self.find(server)?.1.target() {
            Target::Inet(address) => Some(address.ip()),
            Target::Unresolved | Target::Unix(_) | Target::Abstract(_) => None,
        }
    }

    fn set_address(&mut self, server: ServerKey, address: IpAddr, by: Updater) {
        let old = self.address(server);
        let Some((proxy, live)) = self.find(server).filter(|_| old != Some(address)) else { return };
        let by = match by {
            Updater::NameServer(place) => {
                let nameserver = self.config.nameservers.get(place).map(|nameserver| &*nameserver.name);
                format!("{}/{}", self.config.name, nameserver.unwrap_or_default())
            }
            Updater::Cache => "DNS cache".to_owned(),
            Updater::Additional => "DNS additional record".to_owned(),
        };
        let old = old.map_or_else(|| "(none)".to_owned(), |old| old.to_string());
        let (backend, name) = (&proxy.settings().name, &live.config.name);
        let text = format_args!("{backend}/{name} changed its IP from {old} to {address} by {by}.");
        self.log.both(&proxy.log_targets, LogLevel::Notice, Severity::Warning, text);
        live.retarget(Target::Inet(SocketAddr::new(address, live.port())));
    }

    fn clear_address(&mut self, server: ServerKey) {
        if let Some((_, live)) = self.find(server) {
            live.lose_address();
        }
    }

    fn is_unresolved(&self, server: ServerKey) -> bool {
        self.find(server).is_some_and(|(proxy, live)| {
            let id = ServerId::new(live.index.0 as usize);
            proxy.farm().admin_state(id).is_some_and(|state| state.contains(AdminState::RESOLUTION_MAINT))
        })
    }

    fn set_unresolved(&mut self, server: ServerKey, cause: &str) {
        self.with_farm(server, |farm, id| farm.set_unresolved(id, cause, self.now_ms));
    }

    fn set_resolved(&mut self, server: ServerKey, by_answer: bool) {
        self.with_farm(server, |farm, id| farm.set_resolved(id, self.now_ms));
        if let Some((proxy, live)) = self.find(server).filter(|_| by_answer) {
            let (backend, name) = (&proxy.settings().name, &live.config.name);
            let text = format_args!("Server {backend}/{name} administratively READY thanks to valid DNS answer.");
            self.log.both(&proxy.log_targets, LogLevel::Notice, Severity::Warning, text);
        }
    }

    fn set_host(&mut self, server: ServerKey, host: Option<&str>) {
        let Some((proxy, live)) = self.find(server) else { return };
        live.rename(host);
        if let Some(host) = host {
            let (backend, name) = (&proxy.settings().name, &live.config.name);
            let text = format!("{backend}/{name} changed its FQDN from (null) to {host} by 'SRV record'");
            self.log.log(&proxy.log_targets, LogLevel::Notice, &text);
        }
        self.with_farm(server, |farm, id| farm.set_hostname(id, host));
    }

    fn port(&self, server: ServerKey) -> u16 {
        self.find(server).map_or(0, |(_, live)| live.port())
    }

    fn set_port(&mut self, server: ServerKey, port: u16) {
        if let Some((_, live)) = self.find(server) {
            live.set_port(port);
        }
    }

    fn set_weight(&mut self, server: ServerKey, weight: u16) {
        // An algorithm that cannot follow changes keeps the weight that it has.
        self.with_farm(server, |farm, id| {
            let _ = farm.set_weight(id, WeightChange::Absolute(i64::from(weight)), self.now_ms);
        });
    }
}
