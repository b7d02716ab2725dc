//! A worker's main task: takes configurations, accepts connections, drains.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use admin::cli::{Access, AskSessions, LiveHost, serve_socket};
use checks::CheckBoard;
use haproxycfg::model::ProxyIndex;
use live::{
    Instance, ListenerOrder, LiveProxy, Process, Shared,
    peering::{Arrival as PeerArrival, Hub},
};
use logs::{Inlet, Outputs, WorkerLog};
use net::{Socket, Stream};
use proxy::{
    CloseIdleRequest, IdleConnectionRequest, Neighbours, Order, Worker, keep_parking,
    session::{self, Arrival, Counted},
};
use runtime::{Accepted, AcceptorHandle, AcceptorSeed, DatagramSeed, Peer, WorkerContext};
use tokio::{sync::oneshot, task::spawn_local};

use super::{
    listeners::Owner,
    quic::{QuicListeners, QuicShared},
    sessions::answer_about_sessions,
};

/// How often idle server connections are looked after.
const SWEEP_TIME: Duration = Duration::from_secs(1);
/// `stats maxconn`, unless it says otherwise.
const STATS_CONNECTIONS_DEFAULT: u64 = 10;
/// A listener that waits for room looks again after this time at the latest.
const ROOM_TIME: Duration = Duration::from_millis(100);

/// What the control thread tells a worker.
pub enum Command {
    /// Serve this instance, with these listeners instead of the ones before.
    Load {
        /// The instance.
        instance: Arc<Instance>,
        /// This worker's share of the listeners.
        seeds: Vec<AcceptorSeed>,
        /// How many workers there are.
        workers: usize,
        /// Answered when new connections are served by the instance.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Wake the connections whose server has this key: something is to be told them.
    WakeServer(u64),
    /// Stop (or go on) accepting.
    Pause(bool),
    /// Steer the listeners of a frontend of this load of the configuration.
    Steer {
        /// Which load.
        generation: u64,
        /// The frontend.
        proxy: ProxyIndex,
        /// What they are to do.
        order: ListenerOrder,
    },
    /// Tell about sessions, or end one.
    AskSessions(AskSessions),
    /// Give an idle connection to another worker.
    LendIdle(IdleConnectionRequest),
    /// Close idle connections to servers: descriptors are short.
    CloseIdle(CloseIdleRequest),
    /// Accept nothing any more, and end when the last connection has.
    Drain {
        /// Another process serves from now on.
        is_replaced: bool,
    },
    /// End all connections now.
    Abort,
}

/// What every worker is started with.
#[derive(Clone)]
pub struct Start {
    /// The process.
    pub shared: Arc<Shared>,
    /// Sockets of the logs.
    pub outputs: Arc<Outputs>,
    /// Whom workers turn to.
    pub neighbours: Neighbours,
    /// What stands behind the stats sockets.
    pub host: Arc<LiveHost>,
    /// Seed of random numbers.
    pub seed: u64,
    /// Tells checks that are urgent.
    pub board: Arc<CheckBoard>,
    /// What listeners of QUIC share.
    pub quic: Arc<QuicShared>,
}

/// Runs a worker until it is told to finish and its last connection has ended.
pub async fn run(mut context: WorkerContext<Command>, start: Start) {
    let log = WorkerLog::new(Arc::clone(&start.outputs));
    let flusher = spawn_local(log.clone().run());
    let seed = start.seed ^ (context.index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let worker = Rc::new(Worker::new(context.index, Arc::clone(&start.shared), log, seed, start.neighbours.clone()));
    start.shared.process.watch_runtime(context.index, tokio::runtime::Handle::current().metrics());
    let sweeper = spawn_local(sweep(Rc::clone(&worker)));
    let keeper = spawn_local(keep_parking(Rc::clone(&worker)));
    let mut handles: Vec<(Owner, AcceptorHandle)> = Vec::new();
    let mut quic = QuicListeners::new(Arc::clone(&start.quic));
    let mut checks = None;
    while let Some(command) = next_command(&worker, &mut context).await {
        match command {
            Command::Load { instance, seeds, workers, done } => {
                let (over_quic, seeds) = divide(seeds);
                let prepared = quic.prepare(&worker, &instance, over_quic).map_err(|error| error.to_string());
                let listening = prepared.and_then(|quic| Ok((quic, listen(&worker, &start.host, &instance, seeds)?)));
                let result = listening.map(|(serving, new)| {
                    checks = Some(checks::start(&instance, &start.board, worker.ring.clone(), worker.index, workers));
                    worker.adopt(instance);
                    quic.serve(serving);
                    // NOTE: the new ones accept before the old ones stop, so that nobody has to wait.
                    for (_, old) in std::mem::replace(&mut handles, new) {
                        old.stop();
                    }
                });
                // Whoever asked may have gone.
                let _ = done.send(result);
            }
            Command::WakeServer(key) => {
                worker.registry.tell(Order::Continue, |handle| handle.is_at(key));
            }
            Command::AskSessions(ask) => answer_about_sessions(&worker, &ask),
            Command::LendIdle(plea) => plea.grant(&worker),
            Command::CloseIdle(request) => request.carry_out(&worker),
            Command::Pause(paused) => {
                let order = if paused { ListenerOrder::Suspend } else { ListenerOrder::Resume };
                handles.iter().for_each(|(_, handle)| steer(handle, order));
                quic.steer(order, |_| true);
            }
            Command::Steer { generation, proxy, order } if generation == worker.instance().generation => {
                let owned = |owner: &Owner| matches!(owner, Owner::Proxy { proxy: owner, .. } if *owner == proxy);
                handles.iter().filter(|(owner, _)| owned(owner)).for_each(|(_, handle)| steer(handle, order));
                quic.steer(order, |frontend| frontend == proxy);
            }
            // That configuration is gone, and its listeners with it.
            Command::Steer { .. } => {}
            Command::Drain { is_replaced } => {
                checks = None;
                quic.stop(is_replaced);
                drain(&worker, &mut handles);
            }
            Command::Abort => {
                worker.tell(Order::Abort, |_| true);
            }
        }
    }
    drop(checks);
    if !worker.draining.get() {
        quic.stop(false);
    }
    drain(&worker, &mut handles);
    all_ended(&worker).await;
    sweeper.abort();
    keeper.abort();
    worker.log.flush();
    flusher.abort();
}

/// Seeds of datagrams, and those of connections.
fn divide(seeds: Vec<AcceptorSeed>) -> (Vec<DatagramSeed>, Vec<AcceptorSeed>) {
    let (mut datagrams, mut connections) = (Vec::new(), Vec::new());
    for seed in seeds {
        match seed.into_datagrams() {
            Ok(seed) => datagrams.push(seed),
            Err(seed) => connections.push(seed),
        }
    }
    (datagrams, connections)
}

fn steer(handle: &AcceptorHandle, order: ListenerOrder) {
    match order {
        ListenerOrder::Suspend => handle.suspend(),
        ListenerOrder::Resume => {
            if let Err(error) = handle.resume() {
                runtime::log::write(runtime::log::Level::Alert, format_args!("a listener cannot go on: {error}"));
            }
        }
        ListenerOrder::Stop => {
            handle.suspend();
            handle.stop();
        }
    }
}

/// The next command; none when there will be none, or when a worker that drains has nothing left.
async fn next_command(worker: &Worker, context: &mut WorkerContext<Command>) -> Option<Command> {
    if !worker.draining.get() {
        return context.commands.recv().await;
    }
    tokio::select! {
        command = context.commands.recv() => command,
        () = all_ended(worker) => None,
    }
}

/// Accepts nothing any more, and has every connection end when what it is about has been done.
fn drain(worker: &Worker, handles: &mut Vec<(Owner, AcceptorHandle)>) {
    for (_, handle) in handles.drain(..) {
        handle.stop();
    }
    if !worker.draining.replace(true) {
        worker.servers.borrow_mut().clear();
        worker.tell(Order::Finish, |_| true);
    }
}

async fn all_ended(worker: &Worker) {
    while worker.running.get() > 0 {
        worker.ended.notified().await;
    }
}

async fn sweep(worker: Rc<Worker>) {
    let mut ticks = tokio::time::interval(SWEEP_TIME);
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut counted = Duration::ZERO;
    loop {
        ticks.tick().await;
        let now = std::time::Instant::now();
        worker.servers.borrow_mut().sweep(now);
        worker.parking.expire(now);
        if !worker.instance().config.global.no_memory_trimming {
            worker.parking.tidy();
        }
        let busy = metrics.worker_total_busy_duration(0);
        let since = busy.saturating_sub(std::mem::replace(&mut counted, busy));
        worker.traffic().busy.add(u64::try_from(since.as_nanos()).unwrap_or(0));
    }
}

fn listen(
    worker: &Rc<Worker>,
    host: &Arc<LiveHost>,
    instance: &Arc<Instance>,
    seeds: Vec<AcceptorSeed>,
) -> Result<Vec<(Owner, AcceptorHandle)>, String> {
    let mut handles = Vec::with_capacity(seeds.len());
    let receivers = &worker.shared.process.log_receivers;
    for seed in seeds {
        let spec = seed.spec().clone();
        let Some(owner) = Owner::of(&spec.name) else { continue };
        let acceptor = seed.open().map_err(|error| format!("cannot accept on {}: {error}", spec.name))?;
        handles.push((owner, acceptor.handle()));
        match owner {
            Owner::Proxy { proxy, bind } => {
                let Some(frontend) = instance.proxy(proxy).cloned() else { continue };
                spawn_local(accept(Rc::clone(worker), Arc::clone(instance), frontend, bind, acceptor));
            }
            Owner::StatsSocket(index) => {
                let Some(access) = instance.config.global.stats_sockets.get(index).map(Access::of) else { continue };
                spawn_local(accept_commands(
                    Rc::clone(worker),
                    Arc::clone(host),
                    Arc::clone(instance),
                    access,
                    acceptor,
                ));
            }
            Owner::LogForward { section, bind } => {
                let Some(section) = instance.config.log_forwards.get(section) else { continue };
                let inlet = section.binds.get(bind).and_then(|bind| receivers.inlet(&section.name, bind));
                let Some(inlet) = inlet else { continue };
                spawn_local(accept_logs(Rc::clone(worker), inlet, acceptor));
            }
            // Nobody accepts from these.
            Owner::LogDatagrams { .. } => {}
            Owner::Peers(index) => {
                let Some(peers) = instance.config.peers.get(index) else { continue };
                spawn_local(accept_peers(Arc::clone(&worker.shared.peers), Arc::clone(&peers.name), acceptor));
            }
        }
    }
    Ok(handles)
}

async fn accept(
    worker: Rc<Worker>,
    instance: Arc<Instance>,
    frontend: Arc<LiveProxy>,
    bind: usize,
    mut acceptor: runtime::Acceptor,
) {
    let _accepting = worker.count_running();
    let listener_limit = u64::from(frontend.settings().binds.get(bind).and_then(|bind| bind.maxconn).unwrap_or(0));
    loop {
        wait_for_room(&frontend, bind, listener_limit).await;
        let Some(Accepted { stream, peer, guard }) = acceptor.accept().await else { return };
        let source = match peer {
            Peer::Ip(address) => Some(address),
            Peer::Unix => None,
        };
        let Ok(stream) = into_stream(stream) else { continue };
        let counted = Counted::enter(&worker, &frontend, bind);
        let arrival = Arrival { stream, source, destination: None, counted, guard, running: worker.count_running() };
        let serving = session::serve(Rc::clone(&worker), Arc::clone(&instance), Arc::clone(&frontend), bind, arrival);
        spawn_local(worker.clocked(serving));
    }
}

fn into_stream(stream: runtime::Stream) -> std::io::Result<Stream> {
    match stream {
        runtime::Stream::Tcp(stream) => {
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(tokio::net::TcpStream::from_std(stream)?))
        }
        runtime::Stream::Unix(stream) => Ok(Stream::Unix(tokio::net::UnixStream::from_std(stream)?)),
    }
}

/// Waits until `maxconn` of the process, the frontend and the listener allow one more connection. Those that come
/// meanwhile wait in the kernel's queue.
async fn wait_for_room(frontend: &LiveProxy, bind: usize, listener_limit: u64) {
    let process = &frontend.process;
    loop {
        if !is_crowded(frontend, bind, listener_limit) {
            return;
        }
        process.waiting_listeners.fetch_add(1, Relaxed);
        // Whatever ends may make room; what `set maxconn` changes is seen at the next look.
        let _ = tokio::time::timeout(ROOM_TIME, process.room.notified()).await;
        process.waiting_listeners.fetch_sub(1, Relaxed);
    }
}

/// Whether there is no room for one more connection.
pub fn is_crowded(frontend: &LiveProxy, bind: usize, listener_limit: u64) -> bool {
    let process = &frontend.process;
    let full = |now: u64, limit: u64| limit > 0 && now >= limit;
    let side = &frontend.frontend;
    let rate_limit = u64::from(frontend.settings().rate_limit_sessions);
    let listener = frontend.listeners.get(bind).map_or(0, |live| live.side.sessions.value());
    full(side.sessions.value(), u64::from(frontend.maxconn.load(Relaxed)))
        || full(process.connections.value(), u64::from(process.maxconn.load(Relaxed)))
        || full(listener, listener_limit)
        || too_fast(process)
        || frontend.listeners.get(bind).is_some_and(|live| live.tls.is_some()) && tls_too_fast(process)
        || rate_limit > 0
            && full(
                process.per_second(side, |traffic| traffic.sessions.value(), &side.session_rate).unsigned_abs(),
                rate_limit,
            )
}

/// Whether connections or sessions of the whole process come as fast as they may.
fn too_fast(process: &Process) -> bool {
    let now = || process.milliseconds(std::time::Instant::now());
    let connections = || process.traffic.sum(|part| part.connections.value());
    // A connection of the process is a session of some frontend: both are counted at the same place.
    [
        (&process.connection_rate_limit, &process.rates.connections),
        (&process.session_rate_limit, &process.rates.connections),
    ]
    .into_iter()
    .any(|(limit, rate)| {
        let limit = u64::from(limit.load(Relaxed));
        limit > 0 && rate.rate(connections(), now()) >= limit
    })
}

/// Whether clients come as fast as they may that speak TLS.
fn tls_too_fast(process: &Process) -> bool {
    let limit = u64::from(process.tls_rate_limit.load(Relaxed));
    let accepted = || process.traffic.sum(|part| part.tls_accepted.value());
    limit > 0 && process.rates.tls_clients.rate(accepted(), process.milliseconds(std::time::Instant::now())) >= limit
}

/// Senders of log lines are served by the thread of logs.
async fn accept_logs(worker: Rc<Worker>, inlet: Inlet, mut acceptor: runtime::Acceptor) {
    let _accepting = worker.count_running();
    loop {
        inlet.wait_for_room().await;
        let Some(Accepted { stream, .. }) = acceptor.accept().await else { return };
        inlet.hand_over(match stream {
            runtime::Stream::Tcp(stream) => Socket::Tcp(stream),
            runtime::Stream::Unix(stream) => Socket::Unix(stream),
        });
    }
}

/// Peers are served by the control thread.
async fn accept_peers(hub: Arc<Hub>, section: Arc<str>, mut acceptor: runtime::Acceptor) {
    while let Some(Accepted { stream, .. }) = acceptor.accept().await {
        let socket = match stream {
            // An update should not wait for the acknowledgement of the one before.
            runtime::Stream::Tcp(stream) => stream.set_nodelay(true).map(|()| Socket::Tcp(stream)),
            runtime::Stream::Unix(stream) => Ok(Socket::Unix(stream)),
        };
        if let Ok(socket) = socket {
            hub.hand_over(PeerArrival { section: Arc::clone(&section), socket });
        }
    }
}

async fn accept_commands(
    worker: Rc<Worker>,
    host: Arc<LiveHost>,
    instance: Arc<Instance>,
    access: Access,
    mut acceptor: runtime::Acceptor,
) {
    let most = instance.config.global.stats_maxconn.map_or(STATS_CONNECTIONS_DEFAULT, u64::from);
    let process = Arc::clone(&worker.shared.process);
    loop {
        // Those that come meanwhile wait in the kernel's queue.
        while process.commands.value() >= most {
            tokio::time::sleep(ROOM_TIME).await;
        }
        let Some(Accepted { stream, guard, .. }) = acceptor.accept().await else { return };
        let Ok(stream) = into_stream(stream) else { continue };
        let host = Arc::clone(&host);
        process.commands.increment();
        process.commands_total.fetch_add(1, Relaxed);
        let process = Arc::clone(&process);
        // A drain waits for answers to commands.
        let running = worker.count_running();
        spawn_local(async move {
            let _running = running;
            serve_socket(host, stream, access).await;
            process.commands.decrement();
            drop(guard);
        });
    }
}
