//! [`Control`] of the edge that runs.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Instant,
};

use balance::{CheckKind, OperationalState, ServerId, WeightChange};
use haproxycfg::model::{ServerAddress, ServerPort};
use live::{
    Instance, ListenerOrder, LiveProxy, LiveResolvers, LiveServer, PORT_FIXED, Shared, ShutCause, Tables,
    caches::LiveCache,
    capture::Capture,
    changes::{Change, Tone},
    counters::ProcessTraffic,
    dynamic,
    files::FileNumbers,
    limits::hard_maxconn,
    variables,
};
use net::Target;

use super::{
    RunningEdge, change_notes, clear, collect,
    control::{
        Control, CookieChange, FrontendChange, Health, PortChange, ProcessChange, ProxyName, Refusal, ResolversView,
        ServerChange, ServerRef, ThreadView, VariableView, moved,
    },
    view::{Detail, ProcessView, Product, Snapshot},
};

/// The running edge, held on to in the instance of the moment.
#[derive(Debug)]
pub struct LiveControl<'a> {
    edge: &'a RunningEdge,
    shared: &'a Shared,
    instance: Arc<Instance>,
    product: Product,
}

impl<'a> LiveControl<'a> {
    /// Holds on to what runs now.
    #[must_use]
    pub fn new(edge: &'a RunningEdge) -> Self {
        let shared = &*edge.shared;
        Self { edge, shared, instance: shared.instance(), product: Product::default() }
    }

    fn server(&self, server: ServerRef) -> Result<(&Arc<LiveProxy>, Arc<LiveServer>, ServerId), Refusal> {
        let proxy = self.instance.proxies.get(server.proxy).ok_or_else(|| Refusal::new("No such backend."))?;
        let live = proxy.servers.get(server.server).ok_or_else(|| Refusal::new("No such server."))?;
        Ok((proxy, live, ServerId::new(server.server)))
    }

    fn place_of(&self, proxy: usize, wanted: impl Fn(&LiveServer) -> bool) -> Option<ServerRef> {
        let servers = &self.instance.proxies.get(proxy)?.servers;
        let place = |server: &LiveServer| wanted(server).then_some(server.index.0 as usize);
        servers.find_map(place).map(|server| ServerRef { proxy, server })
    }

    fn apply(
        &self,
        proxy: &LiveProxy,
        live: &LiveServer,
        id: ServerId,
        change: ServerChange,
    ) -> Result<Option<String>, Refusal> {
        let now_ms = self.now_ms();
        match change {
            ServerChange::Ready => proxy.with_farm(|farm| farm.set_ready(id, now_ms)),
            ServerChange::Drain => proxy.with_farm(|farm| farm.set_drain(id, now_ms)),
            ServerChange::Maintain => proxy.with_farm(|farm| farm.set_maint(id, now_ms)),
            ServerChange::Health(health) => force_health(proxy, live, id, health, now_ms)?,
            ServerChange::Checks(enabled) => proxy
                .with_farm(|farm| farm.set_check_enabled(id, CheckKind::Health, enabled))
                .map_err(|error| Refusal::new(error.to_string()))?,
            ServerChange::Weight(weight) => WeightChange::parse(&weight)
                .and_then(|weight| proxy.with_farm(|farm| farm.set_weight(id, weight, now_ms)))
                .map_err(|error| Refusal::new(error.to_string()))?,
            ServerChange::MaxConn(limit) => proxy.with_farm(|farm| farm.set_maxconn(id, limit, now_ms)),
            ServerChange::Address { ip, port } => {
                let said = change_address(live, ip, port);
                proxy.with_farm(|farm| farm.set_resolved(id, now_ms));
                return Ok(Some(said));
            }
            ServerChange::CheckAddress { ip, port } => {
                let checked = proxy.farm().server_stats(id, now_ms).is_some_and(|stats| stats.check_enabled);
                if !checked {
                    return Err(Refusal::new("health checks are not enabled on this server"));
                }
                let mut place = live.check_place.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(ip) = ip {
                    place.address = Some(ServerAddress::Ip(ip));
                }
                if let Some(port) = port {
                    // As in HAProxy, 0 is the server's own port.
                    place.port = Some(port).filter(|port| *port > 0);
                }
            }
            ServerChange::AgentChecks(enabled) => proxy
                .with_farm(|farm| farm.set_check_enabled(id, CheckKind::Agent, enabled))
                .map_err(|error| Refusal::new(error.to_string()))?,
            ServerChange::Agent(works) => {
                if !proxy.with_farm(|farm| farm.force_agent(id, works, "changed from CLI", now_ms)) {
                    return Err(Refusal::new("agent checks are not enabled on this server."));
                }
            }
            ServerChange::AgentAddress { ip, port } => {
                let mut agent = live.agent.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(ip) = ip {
                    agent.place.address = Some(ServerAddress::Ip(ip));
                }
                if let Some(port) = port {
                    agent.place.port = Some(port).filter(|port| *port > 0);
                }
            }
            ServerChange::AgentSend(text) => {
                live.agent.lock().unwrap_or_else(PoisonError::into_inner).question = text.into_bytes();
            }
            ServerChange::HostName(name) => return change_name(&self.instance, proxy, live, id, &name).map(Some),
            ServerChange::ShutSessions => live.shut_sessions(ShutCause::Administrator),
        }
        Ok(None)
    }
}

fn name(index: usize, proxy: &LiveProxy) -> ProxyName {
    let settings = proxy.settings();
    ProxyName {
        index,
        id: settings.id,
        name: Arc::clone(&settings.name),
        frontend: settings.kind.has_frontend(),
        backend: settings.kind.has_backend(),
        stopped: settings.disabled || proxy.stopped.load(Relaxed),
    }
}

impl Control for LiveControl<'_> {
    fn patterns(&self) -> Option<&sample::PatternReferences> {
        Some(&self.instance.config.patterns)
    }

    fn process(&self) -> ProcessView {
        collect::collect_process(self.shared, &self.instance, &self.product)
    }

    fn snapshot(&self, wanted: &dyn Fn(&ProxyName) -> bool, detail: Detail) -> Snapshot {
        collect::collect(self.shared, &self.instance, &self.product, |index, proxy| wanted(&name(index, proxy)), detail)
    }

    fn proxies(&self) -> Vec<ProxyName> {
        self.instance.proxies.iter().enumerate().map(|(index, proxy)| name(index, proxy)).collect()
    }

    fn server_named(&self, proxy: usize, name: &str) -> Option<ServerRef> {
        self.place_of(proxy, |server| *server.config.name == *name)
    }

    fn server_numbered(&self, proxy: usize, id: u32) -> Option<ServerRef> {
        self.place_of(proxy, |server| server.config.id == id)
    }

    fn weight(&self, server: ServerRef) -> (u32, u32) {
        let Ok((proxy, _, id)) = self.server(server) else { return (0, 0) };
        let stats = proxy.farm().server_stats(id, self.now_ms());
        stats.map_or((0, 0), |stats| (stats.user_weight, stats.initial_weight))
    }

    fn asks_agent(&self, server: ServerRef) -> bool {
        self.server(server).is_ok_and(|(proxy, _, id)| proxy.farm().is_agent_enabled(id))
    }

    fn change_server(&self, server: ServerRef, change: ServerChange) -> Result<Option<String>, Refusal> {
        let (proxy, live, id) = self.server(server)?;
        let said = self.apply(proxy, &live, id, change.clone())?;
        change_notes::note_server(&self.shared.process.changes, &proxy.settings().name, &live.config.name, &change);
        Ok(said)
    }

    fn add_server(&self, proxy: usize, name: &str, words: &[&str]) -> Result<(), Refusal> {
        let proxy = self.instance.proxies.get(proxy).ok_or_else(|| Refusal::new("No such backend."))?;
        dynamic::add(&self.instance, proxy, name, words).map_err(|refusal| Refusal(refusal.0))?;
        let backend = &proxy.settings().name;
        self.shared.process.changes.note(Tone::Neutral, Some(backend), format!("{backend}/{name} was added"));
        Ok(())
    }

    fn remove_server(&self, server: ServerRef) -> Result<(), Refusal> {
        let (proxy, live, _) = self.server(server)?;
        dynamic::remove(proxy, &live).map_err(|refusal| Refusal(refusal.0))?;
        let (backend, name) = (&proxy.settings().name, &live.config.name);
        self.shared.process.changes.note(Tone::Neutral, Some(backend), format!("{backend}/{name} was removed"));
        Ok(())
    }

    fn is_dynamic(&self, proxy: usize) -> bool {
        self.instance.proxies.get(proxy).is_some_and(|proxy| proxy.farm().is_dynamic())
    }

    fn change_cookie(&self, proxy: usize, change: CookieChange) {
        let Some(proxy) = self.instance.proxies.get(proxy) else { return };
        match change {
            CookieChange::Dynamic(enabled) => proxy.dynamic_cookie.enable(enabled),
            CookieChange::Key(key) => proxy.dynamic_cookie.set_key(key),
        }
    }

    fn threads(&self) -> Vec<ThreadView> {
        let process = &self.shared.process;
        let runtimes = process.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let thread = |(index, traffic): (usize, &ProcessTraffic)| {
            let runtime = runtimes.get(index).and_then(Option::as_ref);
            ThreadView {
                parks: runtime.map_or(0, |runtime| runtime.worker_park_count(0)),
                tasks: runtime.map_or(0, |runtime| wide(runtime.num_alive_tasks())),
                ready: runtime.map_or(0, |runtime| wide(runtime.global_queue_depth())),
                busy_ms: traffic.busy.value() / 1_000_000,
                accepted: traffic.connections.value(),
                open: traffic.open.value(),
                requests: traffic.requests.value(),
                bytes_out: traffic.bytes_out.value(),
                taken_over: traffic.borrowed.value(),
            }
        };
        process.traffic.iter().take(process.workers).enumerate().map(thread).collect()
    }

    fn change_frontend(&self, proxy: usize, change: FrontendChange) -> Result<bool, Refusal> {
        let proxy = self.instance.proxies.get(proxy).ok_or_else(|| Refusal::new("No such frontend."))?;
        let changed = match change {
            FrontendChange::MaxConn(limit) => proxy.maxconn.swap(limit, Relaxed) != limit,
            FrontendChange::Pause => !proxy.paused.swap(true, Relaxed),
            FrontendChange::Resume => proxy.paused.swap(false, Relaxed),
            FrontendChange::Stop => !proxy.stopped.swap(true, Relaxed),
        };
        let order = match change {
            FrontendChange::MaxConn(_) => None,
            FrontendChange::Pause => Some(ListenerOrder::Suspend),
            FrontendChange::Resume => Some(ListenerOrder::Resume),
            FrontendChange::Stop => Some(ListenerOrder::Stop),
        };
        if let (Some(order), true) = (order, changed) {
            self.edge.listeners.steer(proxy, order);
        }
        self.shared.process.room.notify_waiters();
        if changed {
            change_notes::note_frontend(&self.shared.process.changes, &proxy.settings().name, change);
        }
        Ok(changed)
    }

    fn change_process(&self, change: ProcessChange) -> Result<(), Refusal> {
        match change {
            ProcessChange::MaxConn(limit) => {
                let hard = hard_maxconn(&self.instance.config);
                if limit > hard {
                    return Err(Refusal::new("Value out of range."));
                }
                self.shared.process.maxconn.store(if limit == 0 { hard } else { limit }, Relaxed);
                self.shared.process.room.notify_waiters();
            }
            ProcessChange::CompressionRate(kilobytes) => {
                self.shared.process.compression.rate_max.store(u64::from(kilobytes) * 1_024, Relaxed);
            }
            ProcessChange::ConnectionRate(limit) => {
                self.shared.process.connection_rate_limit.store(limit, Relaxed);
            }
            ProcessChange::TlsRate(limit) => {
                self.shared.process.tls_rate_limit.store(limit, Relaxed);
            }
            ProcessChange::SessionRate(limit) => {
                self.shared.process.session_rate_limit.store(limit, Relaxed);
            }
        }
        change_notes::note_process(&self.shared.process.changes, change);
        Ok(())
    }

    fn clear_counters(&self, all: bool) {
        clear::clear(&self.instance, all);
    }

    fn captures(&self, wanted: &dyn Fn(&ProxyName) -> bool) -> (u64, Vec<Capture>) {
        let proxies = self.instance.proxies.iter().enumerate().filter(|(index, proxy)| wanted(&name(*index, proxy)));
        let captures = proxies.flat_map(|(_, proxy)| [proxy.invalid_request.last(), proxy.invalid_response.last()]);
        (self.shared.process.captures.load(Relaxed), captures.flatten().collect())
    }

    fn variable(&self, name: &str) -> Option<VariableView> {
        let value = variables::find(&self.shared.process, name)?;
        Some(VariableView { kind: value.kind().name(), text: value.into_text().map(|text| text.to_vec()) })
    }

    fn set_variable(&self, name: &str, is_format: bool, text: &str) -> Result<(), Refusal> {
        variables::set_by_command(&self.instance.config, &self.shared.process, name, is_format, text)
            .map_err(Refusal::new)
    }

    fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.instance.tables)
    }

    fn peers(&self) -> Vec<Arc<live::peering::LiveSection>> {
        self.shared.peers.sections()
    }

    fn changes_after(&self, number: u64) -> Vec<Change> {
        self.shared.process.changes.after(number)
    }

    fn now_ms(&self) -> u64 {
        self.shared.process.milliseconds(Instant::now())
    }

    fn edge(&self) -> Option<&live::Shared> {
        Some(self.shared)
    }

    fn certificates(&self) -> Vec<acme::Status> {
        self.shared.process.certificates.status()
    }

    fn renew_certificate(&self, name: &str) -> Result<(), acme::RenewError> {
        self.shared.process.certificates.renew(name)
    }

    fn resolvers(&self) -> Vec<ResolversView> {
        let view = |section: &Arc<LiveResolvers>| {
            let names = section.config.nameservers.iter().map(|nameserver| Arc::clone(&nameserver.name));
            ResolversView {
                name: Arc::clone(&section.config.name),
                nameservers: names.zip(section.counters()).collect(),
            }
        };
        self.instance.resolvers.iter().map(view).collect()
    }

    fn caches(&self) -> Vec<Arc<LiveCache>> {
        self.instance.caches.clone()
    }

    fn files(&self) -> Vec<FileNumbers> {
        collect::files(&self.instance).collect()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.instance.config.global.environment.clone().into_iter().collect()
    }
}

fn force_health(
    proxy: &LiveProxy,
    live: &LiveServer,
    id: ServerId,
    health: Health,
    now_ms: u64,
) -> Result<(), Refusal> {
    if live.config.track.is_some() {
        return Err(Refusal::new("cannot change health on a tracking server."));
    }
    let state = match health {
        Health::Up => OperationalState::Running,
        Health::Stopping => OperationalState::Stopping,
        Health::Down => OperationalState::Stopped,
    };
    let known = proxy.with_farm(|farm| farm.force_health(id, state, now_ms));
    if known { Ok(()) } else { Err(Refusal::new("No such server.")) }
}

/// Gives a server another host name; what there is to say about it.
fn change_name(
    instance: &Instance,
    proxy: &LiveProxy,
    live: &LiveServer,
    id: ServerId,
    name: &str,
) -> Result<String, Refusal> {
    let failed = |why: &str| Refusal::new(format!("set server <b>/<s> fqdn failed because {why}."));
    let section = live.config.resolvers.and_then(|index| instance.resolvers.get(index.0 as usize));
    let section = section.ok_or_else(|| failed("no resolution is configured"))?;
    if live.config.service.is_some() {
        return Err(failed("SRV resolution is configured"));
    }
    let old = live.host().unwrap_or_else(|| "(null)".into());
    if *old == *name {
        return Ok("no need to change the FDQN".to_owned());
    }
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:_-".contains(&byte));
    let Some(parsed) = dns::Name::parse(name.as_bytes()).filter(|_| is_name(name)) else {
        return Ok(format!("invalid fqdn '{name}'"));
    };
    let (backend, server) = (&proxy.settings().name, &live.config.name);
    if !section.rename(live, &parsed) {
        return Ok(format!("could not update {backend}/{server} FQDN"));
    }
    live.rename(Some(name));
    proxy.with_farm(|farm| farm.set_hostname(id, Some(name)));
    Ok(format!("{backend}/{server} changed its FQDN from {old} to {name}"))
}

/// Moves a server; what there is to say about it.
fn change_address(server: &LiveServer, ip: Option<IpAddr>, port: Option<PortChange>) -> String {
    let Target::Inet(current) = server.target() else {
        return "Update for the current server address family is only supported through configuration file".to_owned();
    };
    let map = match server.port_rule() {
        ServerPort::Fixed(_) => None,
        ServerPort::Same => Some(0),
        ServerPort::Offset(offset) => Some(offset),
    };
    let (wanted, wanted_map, said) = moved(current, map, server.check_place().port.is_some(), ip, port);
    if wanted_map != map {
        server.port_map.store(wanted_map.unwrap_or(PORT_FIXED), Relaxed);
    }
    if wanted != current || wanted_map != map {
        server.retarget(Target::Inet(wanted));
    }
    said
}
