//! The worker process: makes instances, starts worker threads and hands instances to them.

use std::{
    io,
    net::UdpSocket,
    os::fd::OwnedFd,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use admin::{
    cli::{Access, LiveHost, serve_socket},
    stats::{RunningEdge, sampler},
};
use checks::{CheckBoard, FarmEvents};
use haproxycfg::model::{BindAddress, Config, Namespace, Server};
use live::{
    FarmObserver, Instance, Process, Shared,
    assemble::Assembly,
    changes::Tone,
    resolve::{self, Known},
};
use logs::{AdminLog, Identity, Outputs};
use net::{Stream, Target};
use proxy::Neighbours;
use runtime::{
    Listener, WorkerOptions, Workers,
    process::{DrainReason, Load, Service},
};
use tokio::sync::oneshot;

use super::{
    EdgeOptions, Owner,
    accept::{self, Command, Start},
    certificates::{self, Listeners},
    folders, life,
    management::{Assemble, Managed, Management},
    pages::OwnPages,
    payload::Payload,
    quic::QuicShared,
    ways::Ways,
};
use crate::server_state::{self, SavedStates};

/// The edge in its worker process.
pub struct EdgeService {
    shared: Option<Arc<Shared>>,
    process: Arc<Process>,
    outputs: Arc<Outputs>,
    identity: Identity,
    admin: Arc<AdminLog>,
    seed: u64,
    workers: Option<Workers<Command>>,
    background: Vec<tokio::task::JoinHandle<()>>,
    peers: Option<tokio::task::JoinHandle<()>>,
    takes_over: bool,
    board: Arc<CheckBoard>,
    quic: Arc<QuicShared>,
    events: Arc<FarmEvents>,
    ways: Arc<Ways>,
    host: Option<Arc<LiveHost>>,
    resolver: Option<resolve::Watch>,
    saved: Option<SavedStates>,
    management: Option<Management>,
    /// Folders with files, until the first configuration runs.
    folders: Option<Vec<Arc<live::files::LiveFolder>>>,
}

impl EdgeService {
    /// Opens what is out of reach once privileges are given up.
    ///
    /// # Errors
    /// When the first configuration cannot be read.
    pub fn open(options: &EdgeOptions, first: &Load) -> Result<Self, String> {
        let config = Payload::from_bytes(&first.blob)?.parse().config.ok_or("the configuration is not valid")?;
        let saved = Some(SavedStates::read(&config, server_state::warn));
        let seed = random_seed();
        let console =
            options.console && !options.is_quiet(Some(&config)) && (options.foreground || !config.global.daemon);
        let outputs = Arc::new(Outputs::new());
        let admin = Arc::new(AdminLog::new(Arc::clone(&outputs), console));
        let board = Arc::<CheckBoard>::default();
        let ways = Arc::new(Ways::new(Arc::clone(&admin)));
        let sessions = Arc::<Ways>::clone(&ways);
        let mut process =
            Process::new(first.workers, Instant::now(), SystemTime::now(), Arc::clone(&outputs), sessions);
        process.plugins = live::plugins::PluginHost::new(options.plugins);
        let process = Arc::new(process);
        let identity = Identity::new(&config.global);
        let _ = telemetry::local_offset(0);
        // Now, while their files are within reach.
        open_namespaces(&process, &config);
        let folders = folders::open(&process, &config).map_err(|error| error.to_string())?;
        publish(&process, &config)?;
        for trouble in process.certificates.open(&config, certificates::owner(&config)) {
            runtime::log::write(
                runtime::log::Level::Warning,
                format_args!("cannot keep certificates there: {trouble}"),
            );
        }
        outputs.set_rings(&config.rings);
        outputs.renew_files(config.global.tune.log_file_bufsize);
        for proxy in &config.proxies {
            // Opened now so that they still are after chroot.
            let _ = logs::LogTargets::new(&proxy.logs, None, &identity, &outputs);
        }
        Ok(Self {
            shared: None,
            process,
            events: Arc::new(FarmEvents::new(Arc::clone(&admin), Arc::clone(&board))),
            admin,
            outputs,
            identity,
            seed,
            workers: None,
            background: Vec::new(),
            peers: None,
            takes_over: options.takes_over,
            board,
            quic: Arc::default(),
            ways,
            host: None,
            resolver: None,
            saved,
            management: options.management.clone(),
            folders: Some(folders),
        })
    }

    /// What stands behind the stats sockets of what runs.
    fn host_of(&self, shared: &Arc<Shared>) -> Arc<LiveHost> {
        let edge = RunningEdge::new(Arc::clone(shared), Arc::<Ways>::clone(&self.ways));
        let workers = Arc::<Ways>::clone(&self.ways);
        Arc::new(LiveHost { edge: Arc::new(edge), workers, libraries: crate::libraries::loaded() })
    }

    /// What makes instances beside the running one.
    fn assembler(&self, workers: usize) -> Box<Assemble<'static>> {
        let observer: Arc<dyn FarmObserver> = Arc::<FarmEvents>::clone(&self.events);
        let (process, identity, seed) = (Arc::clone(&self.process), self.identity.clone(), self.seed);
        Box::new(move |config, beside| {
            let assembly = Assembly {
                process: &process,
                observer: &observer,
                identity: &identity,
                generation: 0,
                workers,
                previous: None,
                beside,
                seed,
            };
            assembly.apart(config)
        })
    }

    fn start_workers(&mut self, load: &Load, host: &Arc<LiveHost>) -> Result<(), String> {
        let shared = &host.edge.shared;
        let global = &shared.instance().config.global.clone();
        let mut cpu_map = vec![Vec::new(); load.workers];
        for (worker, cores) in &global.cpu_map {
            for (index, map) in cpu_map.iter_mut().enumerate() {
                if *worker == 0 || *worker as usize == index + 1 {
                    map.clone_from(cores);
                }
            }
        }
        let options = WorkerOptions {
            count: load.workers,
            cpu_map,
            max_accept: global.tune.maxaccept as usize,
            ..WorkerOptions::default()
        };
        let start = Start {
            shared: Arc::clone(shared),
            outputs: Arc::clone(&self.outputs),
            neighbours: Neighbours {
                pages: Arc::new(OwnPages(Arc::clone(&host.edge))),
                others: Arc::<Ways>::clone(&self.ways),
                network: Arc::new(net::connect::System),
            },
            host: Arc::clone(host),
            seed: self.seed,
            board: Arc::clone(&self.board),
            quic: Arc::clone(&self.quic),
        };
        let workers = Workers::start(options, move |context| accept::run(context, start.clone()))
            .map_err(|error| format!("cannot start worker threads: {error}"))?;
        self.workers = Some(workers);
        Ok(())
    }

    fn start_background(&mut self, edge: &Arc<RunningEdge>) {
        let shared = &edge.shared;
        let lookup = Arc::new(resolve::SystemLookup);
        match resolve::Watch::start(Arc::clone(shared), Arc::clone(&self.admin), lookup, resolve::HOLD_DEFAULT) {
            Ok(watch) => self.resolver = Some(watch),
            Err(error) => self.admin.console(
                logs::Severity::Warning,
                &format!("cannot start the resolver thread ({error}): servers keep the addresses of their names"),
            ),
        }
        self.background.push(tokio::task::spawn_local(sampler::run(Arc::clone(edge))));
        self.background.push(tokio::task::spawn_local(live::upkeep::keep_published(Arc::clone(shared))));
        self.background.push(tokio::task::spawn_local(live::upkeep::expire(Arc::clone(shared))));
        self.background.push(tokio::task::spawn_local(live::upkeep::tend_caches(Arc::clone(shared))));
        let peers = live::peering::run(Arc::clone(&shared.peers), Arc::clone(&self.process));
        self.peers = Some(tokio::task::spawn_local(peers));
    }
}

/// Where a server of the running instance is, if it is still the same host.
fn known(instance: &Instance, backend: &str, server: &Server) -> Option<Known> {
    let live = instance.backend(backend)?.servers.named(&server.name)?;
    if live.config.fqdn != server.fqdn || live.config.service != server.service {
        return None;
    }
    let address = match live.target() {
        Target::Inet(address) => Some(address.ip()),
        _ => None,
    };
    let host = live.host().filter(|_| server.service.is_some());
    let service_host = host.map(|host| (host.to_string(), live.port()));
    Some(Known { address, is_saved: false, service_host })
}

/// Opens the network namespaces of servers. One that is not there shows when it is used; the master has looked.
fn open_namespaces(process: &Process, config: &Config) {
    for server in config.proxies.iter().flat_map(|proxy| &proxy.servers) {
        if let Some(Namespace::Named(name)) = &server.namespace {
            let _ = process.namespaces.open(name);
        }
    }
}

/// Begins to publish the log and the counters, if the configuration wants it.
fn publish(process: &Process, config: &Config) -> Result<(), String> {
    process.publish(config.global.publication.as_ref()).map_err(|error| format!("varnish-workdir: {}", said(&error)))
}

/// An error with what it comes from.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// The sockets of the `dgram-bind` lines of each `log-forward` section.
fn log_datagrams(config: &Config, listeners: &[Listener]) -> io::Result<Vec<Vec<UdpSocket>>> {
    let of_section = |wanted: usize| {
        let is_own = move |listener: &&Listener| matches!(Owner::of(&listener.spec.name), Some(Owner::LogDatagrams { section, .. }) if section == wanted);
        let descriptors = listeners.iter().filter(is_own).flat_map(Listener::descriptors);
        descriptors.map(|descriptor| descriptor.try_clone_to_owned().map(UdpSocket::from)).collect()
    };
    (0..config.log_forwards.len()).map(of_section).collect()
}

/// A seed that differs from process to process.
fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64),
    }
}

impl Service for EdgeService {
    async fn load(&mut self, load: Load) -> Result<(), String> {
        let payload = Payload::from_bytes(&load.blob)?;
        let parsed = payload.parse();
        let text = super::render(&parsed);
        let mut config = parsed.config.ok_or_else(|| text.clone())?;
        let previous = self.shared.as_ref().map(|shared| shared.instance());
        let saved = self.saved.take();
        resolve::settle(&mut config, &payload.addresses, &|backend, server| match &previous {
            Some(previous) => known(previous, backend, server),
            None => saved.as_ref()?.known(backend, server),
        });
        open_namespaces(&self.process, &config);
        // NOTE: they are opened before; whether they can be entered shows now, as the user that serves.
        let folders = folders::open(&self.process, &config).map_err(|error| error.to_string())?;
        publish(&self.process, &config)?;
        self.identity = Identity::new(&config.global);
        self.outputs.set_rings(&config.rings);
        self.outputs.renew_files(config.global.tune.log_file_bufsize);
        let observer: Arc<dyn FarmObserver> = Arc::<FarmEvents>::clone(&self.events);
        let assembly = Assembly {
            process: &self.process,
            observer: &observer,
            identity: &self.identity,
            generation: load.generation,
            workers: load.workers,
            previous: previous.as_deref(),
            beside: &[],
            seed: self.seed,
        };
        let instance = assembly.build(config);
        drop((folders, self.folders.take()));
        live::upkeep::show_published(&instance)
            .map_err(|error| format!("cannot publish counters: {}", said(&error)))?;
        tell_cache_troubles(&instance);
        if let Some(saved) = saved {
            saved.apply(&instance);
        }
        let managed = match self.management.take() {
            Some(management) => Some(Managed::begin(management, &instance, &assembly)?),
            None => None,
        };
        checks::prepare(&instance);
        resolve::mark_unresolved(&instance);
        for section in previous.iter().flat_map(|previous| &previous.resolvers) {
            section.release_servers();
        }
        resolve::run_all(&instance, &self.admin);
        match &self.shared {
            Some(_) => {
                if let Some(workers) = &mut self.workers {
                    workers.resize(load.workers).map_err(|error| format!("cannot start worker threads: {error}"))?;
                }
            }
            None => {
                let process = Arc::clone(&self.process);
                let shared = Arc::new(Shared::new(process, Arc::default(), Arc::clone(&instance)));
                let host = self.host_of(&shared);
                self.start_workers(&load, &host)?;
                self.events.begin(&shared);
                self.ways.begin(&shared);
                self.start_background(&host.edge);
                self.host = Some(host);
                self.shared = Some(shared);
            }
        }
        let start = live::peering::Start {
            // A later load of the same process keeps its tables; another process of the same master, or of one that ends,
            // will come and teach.
            has_predecessor: previous.is_none() && (load.generation > 1 || self.takes_over),
            seed: self.seed,
        };
        if let Some(shared) = &self.shared {
            let local: Vec<_> = (0..instance.config.peers.len())
                .map(|index| load.listeners.iter().find(|it| Owner::of(&it.spec.name) == Some(Owner::Peers(index))))
                .collect();
            shared.peers.load(&instance.config, &instance.tables, &local, &start);
        }
        let datagrams = log_datagrams(&instance.config, &load.listeners)
            .map_err(|error| format!("cannot share a socket of a log-forward section: {error}"))?;
        self.process.log_receivers.load(&instance.config, datagrams, &self.identity, &self.outputs)?;
        open_mail(&self.quic, &instance.config);
        let Some(workers) = &mut self.workers else { return Err("there are no worker threads".into()) };
        let shares = workers.distribute(&load.listeners).map_err(|error| format!("cannot share listeners: {error}"))?;
        self.ways.renew(workers.weak_senders());
        let mut answers = Vec::new();
        for (index, seeds) in shares.into_iter().enumerate() {
            let (done, answer) = oneshot::channel();
            workers.send(index, Command::Load { instance: Arc::clone(&instance), seeds, workers: load.workers, done });
            answers.push(answer);
        }
        for answer in answers {
            answer.await.map_err(|_| "a worker thread has ended".to_owned())??;
        }
        *self.process.startup_logs.lock().unwrap_or_else(PoisonError::into_inner) = text;
        if let Some(shared) = &self.shared {
            shared.replace(Arc::clone(&instance));
            // Once the instance runs, so that what comes meanwhile is served by it.
            let listeners = Listeners { shared: Arc::clone(shared), log: Arc::clone(&self.admin) };
            self.process.certificates.load(&instance.config, Arc::new(listeners));
        }
        if let Some(managed) = managed {
            tokio::task::spawn_local(managed.run(self.assembler(load.workers)));
        }
        if let Some(previous) = previous {
            self.process.changes.note_reload(&previous.config, &instance.config);
            self.process.reloads.fetch_add(1, Relaxed);
            drop(previous);
            self.outputs.close_unused();
        } else {
            self.process.changes.note(Tone::Neutral, None, format!("Process {} started", std::process::id()));
        }
        Ok(())
    }

    async fn drain(&mut self, reason: DrainReason) {
        self.process.stopping.store(true, Relaxed);
        self.process.certificates.stop();
        if let Some(shared) = &self.shared {
            life::stopped(&self.admin, &shared.instance());
        }
        self.resolver = None;
        for task in self.background.drain(..) {
            task.abort();
        }
        let receivers = &self.process.log_receivers;
        receivers.retire();
        let peers = self.shared.as_ref().map(|shared| Arc::clone(&shared.peers)).unwrap_or_default();
        match &mut self.workers {
            // A successor is taught while connections end.
            Some(workers) => {
                let is_replaced = reason == DrainReason::Replaced;
                workers.broadcast(|_| Command::Drain { is_replaced });
                tokio::join!(workers.ends(), peers.stop());
            }
            None => peers.stop().await,
        }
        if let Some(peers) = self.peers.take() {
            peers.abort();
        }
        self.process.log_receivers.finish().await;
    }

    fn legacy(&mut self) -> Option<Vec<u8>> {
        let instance = self.shared.as_ref()?.instance();
        let len_max = usize::try_from(instance.config.global.tune.stick_handover_max).unwrap_or(usize::MAX);
        if len_max == 0 {
            return None;
        }
        let now = self.process.milliseconds(Instant::now());
        let (bytes, left_out) = instance.tables.handover(&instance.config, len_max, now)?;
        if left_out > 0 {
            runtime::log::write(
                runtime::log::Level::Warning,
                format_args!(
                    "{left_out} entries of stick tables are not handed over: they take more than tune.stick-table.handover"
                ),
            );
        }
        Some(bytes)
    }

    fn inherit(&mut self, legacy: Vec<u8>) {
        if let Some(shared) = &self.shared {
            tokio::task::spawn_local(live::upkeep::inherit(Arc::clone(shared), legacy));
        }
    }

    fn talker(&self) -> Box<dyn Fn(OwnedFd)> {
        let host = self.host.clone();
        Box::new(move |socket| {
            let stream = std::os::unix::net::UnixStream::from(socket);
            if let (Some(host), Ok(stream)) = (&host, tokio::net::UnixStream::from_std(stream)) {
                tokio::task::spawn_local(serve_socket(Arc::clone(host), Stream::Unix(stream), Access::of_master()));
            }
        })
    }

    async fn hard_stop(&mut self) {
        if let Some(shared) = &self.shared {
            life::hard_stopped(&self.admin, &shared.instance());
        }
        if let Some(workers) = &mut self.workers {
            workers.broadcast(|_| Command::Abort);
            workers.ends().await;
        }
    }

    fn hang_up(&mut self) {
        if let Some(shared) = &self.shared {
            life::states(&self.admin, &shared.instance());
        }
    }

    fn pause(&mut self, paused: bool) {
        if let Some(shared) = &self.shared {
            life::paused(&self.admin, &shared.instance(), paused);
        }
        if let Some(workers) = &self.workers {
            workers.broadcast(|_| Command::Pause(paused));
        }
    }
}

/// Has datagrams of QUIC come here that other processes get for this one, if there is QUIC.
fn open_mail(quic: &Arc<QuicShared>, config: &Config) {
    let mut binds = config.proxies.iter().flat_map(|proxy| &proxy.binds);
    if quic.has_mail() || !binds.any(|bind| matches!(bind.address, BindAddress::Quic(_))) {
        return;
    }
    if let Err(error) = quic.open_mail() {
        let message = format_args!("connections of QUIC cannot outlive an upgrade: {error}");
        runtime::log::write(runtime::log::Level::Warning, message);
    }
}

/// Says which caches are in memory alone although they have a disk: the site works, and begins cold after a restart.
fn tell_cache_troubles(instance: &Instance) {
    for proxy in &instance.proxies {
        if let Some(trouble) = proxy.shared_cache.as_ref().and_then(|cache| cache.disk_trouble.as_ref()) {
            let name = &proxy.settings.name;
            let message = format_args!("shared-cache of '{name}' keeps nothing on disk: {trouble}");
            runtime::log::write(runtime::log::Level::Warning, message);
        }
    }
}
