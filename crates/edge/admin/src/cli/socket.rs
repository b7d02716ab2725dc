//! The stats sockets of the edge that runs.

use std::{
    collections::HashSet,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use runtime::process::transfer::{self, SentSocket};
use rustix::{
    net::sockopt::socket_acceptconn,
    process::{PidfdFlags, PidfdGetfdFlags, Resource, getpid, getrlimit, pidfd_getfd, pidfd_open},
};
use tokio::{
    sync::mpsc::unbounded_channel,
    time::{Instant, sleep, timeout, timeout_at},
};

use haproxycfg::model::{BindAddress, CliLevel, SeverityOutput, StatsSocket};
use live::Shared;
use net::{Socket, Stream, Target};

use super::{
    descriptors::{self, Owners},
    serve::{End, Host, Options, serve},
    session::Context,
    sessions::{AskSessions, SessionView},
};
use crate::stats::{RunningEdge, live_control::LiveControl};

/// How long a worker may take to tell about its sessions.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How often a silent conversation looks whether the process is about to end, and how long it then waits for a command.
const LOOK_TIME: Duration = Duration::from_millis(200);
/// Listening sockets are opened early: none has a higher number than this.
const DESCRIPTORS_MAX: u64 = 1 << 16;

/// Asks every worker about its sessions.
pub trait AskWorkers: Send + Sync {
    /// Called on any thread; must not block.
    fn ask_sessions(&self, ask: AskSessions);
}

/// What stands behind the stats sockets of the edge that runs.
pub struct LiveHost {
    /// The edge.
    pub edge: Arc<RunningEdge>,
    /// Its workers.
    pub workers: Arc<dyn AskWorkers>,
    /// Files that the program was loaded from, as `show libs` lists them.
    pub libraries: String,
}

impl Host for LiveHost {
    fn with_context<R>(&self, work: impl FnOnce(&Context<'_>) -> R) -> R {
        let shared = &self.edge.shared;
        let instance = shared.instance();
        let sockets = instance.config.global.stats_sockets.iter();
        let now = basics::clock::since_1970();
        let control = LiveControl::new(&self.edge);
        work(&Context {
            control: &control,
            sockets: sockets.map(|socket| (address(&socket.bind.address), socket.level)).collect(),
            rings: shared.process.outputs.rings(),
            buffer: shared.process.outputs.buffer(),
            libraries: self.libraries.clone(),
            startup_logs: shared.process.startup_logs.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            now,
            offset: telemetry::local_offset(i64::try_from(now.as_secs()).unwrap_or(0)),
        })
    }

    async fn sessions(&self) -> Vec<SessionView> {
        let (sender, mut answers) = unbounded_channel();
        self.ask(AskSessions::List(sender));
        let (mut sessions, deadline) = (Vec::new(), Instant::now() + ANSWER_TIME);
        // Each worker drops its end when it has answered; one that is busy for long is left out.
        while let Ok(Some(some)) = timeout_at(deadline, answers.recv()).await {
            sessions.extend(some);
        }
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    async fn descriptors(&self, which: Option<i32>) -> String {
        let (sender, answer) = tokio::sync::oneshot::channel();
        let owners = owners(&self.edge.shared);
        // The system is asked for each number: that is not for a worker to wait for.
        let asking = std::thread::Builder::new().name("show-fd".into()).spawn(move || {
            // Whoever asked may have gone.
            let _ = sender.send(descriptors::list(which, &owners));
        });
        drop(asking);
        answer.await.unwrap_or_default()
    }

    async fn shut_session(&self, id: u64) -> bool {
        let (sender, mut answers) = unbounded_channel();
        self.ask(AskSessions::Shut(id, sender));
        matches!(timeout(ANSWER_TIME, answers.recv()).await, Ok(Some(())))
    }

    async fn settled(&self) {
        let (sender, mut answers) = unbounded_channel::<()>();
        self.ask(AskSessions::Wait(sender));
        // One that is busy for long is not waited for.
        let _ = timeout(ANSWER_TIME, answers.recv()).await;
    }

    async fn ending(&self) {
        while !self.edge.shared.process.stopping.load(Relaxed) {
            sleep(LOOK_TIME).await;
        }
        // Who has just connected is about to say something.
        sleep(LOOK_TIME).await;
    }
}

impl LiveHost {
    fn ask(&self, ask: AskSessions) {
        self.workers.ask_sessions(ask);
    }
}

/// Whose addresses sockets have.
fn owners(shared: &Shared) -> Owners {
    let instance = shared.instance();
    let mut owners = Owners::default();
    for proxy in &instance.proxies {
        let settings = proxy.settings();
        for bind in &settings.binds {
            if let BindAddress::Inet(address) = bind.address {
                owners.frontends.push((address, settings.name.to_string()));
            }
        }
        for server in proxy.servers.iter() {
            if let Target::Inet(address) = server.target() {
                owners.servers.insert(address, format!("{}/{}", settings.name, server.config.name));
            }
        }
    }
    owners
}

/// An address as HAProxy lists it.
#[must_use]
pub fn address(address: &BindAddress) -> String {
    match address {
        BindAddress::Inet(address) if address.is_ipv4() => format!("ipv4@{address}"),
        BindAddress::Inet(address) => format!("ipv6@{address}"),
        BindAddress::Quic(address) if address.is_ipv4() => format!("quic4@{address}"),
        BindAddress::Quic(address) => format!("quic6@{address}"),
        BindAddress::Unix(path) => format!("unix@{path}"),
        BindAddress::Abstract(name) => format!("abns@{name}"),
        BindAddress::Descriptor(number) => format!("fd@{number}"),
    }
}

/// What a stats socket allows.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// To whom.
    pub level: CliLevel,
    /// How the importance of answers is shown.
    pub severity: SeverityOutput,
    /// Whether it gives the listening sockets away (`expose-fd listeners`).
    pub gives_sockets: bool,
}

impl Access {
    /// That of a `stats socket` line.
    #[must_use]
    pub fn of(socket: &StatsSocket) -> Self {
        Self { level: socket.level, severity: socket.severity, gives_sockets: socket.expose_fd_listeners }
    }

    /// That of a master, who has a word with workers for others.
    #[must_use]
    pub fn of_master() -> Self {
        Self { level: CliLevel::Admin, severity: SeverityOutput::None, gives_sockets: true }
    }
}

/// Serves a client of a stats socket.
pub async fn serve_socket(host: Arc<LiveHost>, stream: Stream, access: Access) {
    let timeout = host.edge.shared.instance().config.global.stats_timeout;
    let options = Options { level: access.level, severity: access.severity, timeout };
    let host = &*host;
    // A client that left early or fell silent is no one's problem but its own.
    let mut stream = stream;
    if let Ok(End::SendSockets) = serve(&mut stream, host, options).await
        && access.gives_sockets
        && let Ok(Socket::Unix(stream)) = stream.into_socket()
    {
        send_sockets(stream);
    }
}

/// Gives the listening sockets of this process to the one that asked. It blocks, so it does that on a thread.
fn send_sockets(mut stream: UnixStream) {
    let sending = std::thread::Builder::new().name("send-sockets".into()).spawn(move || {
        let sockets = listening_sockets();
        let named: Vec<SentSocket<'_>> =
            sockets.iter().map(|(socket, interface)| SentSocket { descriptor: socket.as_fd(), interface }).collect();
        let _ = transfer::send(&mut stream, &named);
    });
    // Without a thread the other process hears the connection end, and binds anew.
    drop(sending);
}

/// Every socket of this process that listens, once, with the interface that it is bound to.
///
/// NOTE: The sockets are found among the descriptors rather than kept here: a copy that is kept would go on listening
/// after the workers have let go of theirs, with no one to accept from it.
fn listening_sockets() -> Vec<(OwnedFd, String)> {
    let Ok(process) = pidfd_open(getpid(), PidfdFlags::empty()) else { return Vec::new() };
    let most = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for number in 0..i32::try_from(most).unwrap_or(i32::MAX) {
        let Ok(descriptor) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        if !matches!(socket_acceptconn(&descriptor), Ok(true)) {
            continue;
        }
        let socket = socket2::SockRef::from(&descriptor);
        let is_new = socket.cookie().is_ok_and(|cookie| seen.insert(cookie));
        let interface = socket.device().ok().flatten().unwrap_or_default();
        if is_new {
            found.push((descriptor, String::from_utf8_lossy(&interface).trim_end_matches('\0').to_owned()));
        }
    }
    found
}
