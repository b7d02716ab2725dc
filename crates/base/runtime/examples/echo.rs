//! A service that echoes lines: the smallest role, and the one that the tests of this crate drive.
//!
//! `echo CONFIGURATION [--single] [--daemon] [--pidfile FILE] [--control PATH|ADDRESS] [--sf PID] [--st PID] [-x SOCKET]`
//!
//! The configuration is a file of lines:
//!
//! ```text
//! workers 2
//! listen 127.0.0.1:7000 [shared|dispatch]     also unix@PATH, abns@NAME, fd@N, sockpair@N
//! greeting hello                              put before every echoed line
//! user nobody
//! chroot /var/empty
//! hard-stop-after 1000                        milliseconds
//! sockets /run/echo.sock                      hands the listening sockets to who asks `_getsocks` there
//! pause-refuses                              pausing refuses connections
//! fail-check TEXT, fail-load TEXT, crash-at-check, crash-at-load
//! check-waits-for PATH                        until there is such a file
//! ```
//!
//! A client that sends `LINE` gets `GREETING LINE PID WORKER UID`; a client that sends `abort` ends the process, and
//! one that sends `panic` the connection.

use runtime::process::{
    CheckReason, DrainReason, EndOldProcesses, Load, Mode, OldProcesses, Options, Plan, ProcessSettings, Role, Service,
    run, transfer, user_group_id, user_id,
};
use runtime::{
    AcceptMode, Accepted, Acceptor, AcceptorHandle, AcceptorSeed, Address, ListenSpec, Listener, Stream, WorkerContext,
    WorkerOptions, Workers,
};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;

struct Echo {
    configuration: PathBuf,
}

#[derive(Debug, Default)]
struct Configuration {
    workers: usize,
    listeners: Vec<ListenSpec>,
    greeting: String,
    user: Option<String>,
    settings: ProcessSettings,
    sockets: Option<PathBuf>,
    fail_check: Option<String>,
    fail_load: Option<String>,
    /// Whether a pause refuses connections.
    suspends: bool,
    crash_at_load: bool,
    crash_at_check: bool,
    check_waits_for: Option<PathBuf>,
}

fn parse(text: &str) -> Result<Configuration, String> {
    let mut configuration = Configuration { workers: 1, greeting: "echo".to_owned(), ..Configuration::default() };
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" => {}
            "workers" => configuration.workers = rest.parse().map_err(|_| format!("bad number: {rest}"))?,
            "listen" => configuration.listeners.push(parse_listener(rest)?),
            "greeting" => configuration.greeting = rest.to_owned(),
            "user" => configuration.user = Some(rest.to_owned()),
            "chroot" => configuration.settings.chroot = Some(rest.into()),
            "hard-stop-after" => {
                let ms = rest.parse().map_err(|_| format!("bad number: {rest}"))?;
                configuration.settings.hard_stop_after = Some(Duration::from_millis(ms));
            }
            "sockets" => configuration.sockets = Some(rest.into()),
            "fail-check" => configuration.fail_check = Some(rest.to_owned()),
            "pause-refuses" => configuration.suspends = true,
            "fail-load" => configuration.fail_load = Some(rest.to_owned()),
            "crash-at-check" => configuration.crash_at_check = true,
            "check-waits-for" => configuration.check_waits_for = Some(rest.into()),
            "crash-at-load" => configuration.crash_at_load = true,
            _ => return Err(format!("unknown word: {word}")),
        }
    }
    Ok(configuration)
}

fn parse_listener(text: &str) -> Result<ListenSpec, String> {
    let mut words = text.split(' ');
    let address = words.next().unwrap_or_default();
    let number = |text: &str| text.parse().map_err(|_| format!("bad number: {text}"));
    let address = match address.split_once('@') {
        Some(("unix", path)) => Address::Unix(path.into()),
        Some(("abns", name)) => Address::Abstract(name.to_owned()),
        Some(("fd", text)) => Address::Inherited(number(text)?),
        Some(("sockpair", text)) => Address::SocketPair(number(text)?),
        _ => Address::Ip(address.parse().map_err(|_| format!("bad address: {address}"))?),
    };
    let mut spec = ListenSpec::new(text, address);
    for word in words {
        match word {
            "shared" => spec.mode = AcceptMode::Shared,
            "dispatch" => spec.mode = AcceptMode::Dispatch,
            "tfo" => spec.tcp_fast_open = true,
            "defer-accept" => spec.defer_accept = true,
            "tcp-ut" => spec.tcp_user_timeout = Some(Duration::from_secs(5)),
            "mss" => spec.maxseg = Some(1200),
            "lo" => spec.interface = Some("lo".to_owned()),
            _ => return Err(format!("unknown word: {word}")),
        }
    }
    Ok(spec)
}

impl Role for Echo {
    type Service = EchoService;

    fn check(&mut self, _reason: CheckReason) -> Result<Plan, String> {
        let text = std::fs::read_to_string(&self.configuration)
            .map_err(|error| format!("{}: {error}", self.configuration.display()))?;
        let mut configuration = parse(&text)?;
        if let Some(text) = configuration.fail_check {
            return Err(text);
        }
        if configuration.crash_at_check {
            std::process::abort();
        }
        while configuration.check_waits_for.as_ref().is_some_and(|path| !path.exists()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(name) = &configuration.user {
            // NOTE: here and not in the worker, which may not see /etc/passwd any more.
            let find = |result: std::io::Result<Option<u32>>| {
                result.map_err(|error| error.to_string())?.ok_or(format!("unknown user: {name}"))
            };
            configuration.settings.uid = Some(find(user_id(name))?);
            configuration.settings.gid = Some(find(user_group_id(name))?);
        }
        Ok(Plan {
            blob: text.into_bytes(),
            listeners: configuration.listeners,
            workers: configuration.workers,
            settings: configuration.settings,
            programs: runtime::process::Programs::default(),
        })
    }

    fn open(&mut self, _first: &Load) -> Result<EchoService, String> {
        Ok(EchoService { workers: None })
    }
}

enum Command {
    Load(Arc<Configuration>, Vec<AcceptorSeed>, oneshot::Sender<Result<(), String>>),
    Pause(bool),
}

struct EchoService {
    workers: Option<Workers<Command>>,
}

impl Service for EchoService {
    async fn load(&mut self, load: Load) -> Result<(), String> {
        let text = String::from_utf8(load.blob).map_err(|error| error.to_string())?;
        let configuration = Arc::new(parse(&text)?);
        if configuration.crash_at_load {
            std::process::abort();
        }
        if let Some(text) = &configuration.fail_load {
            return Err(text.clone());
        }
        let workers = match &mut self.workers {
            Some(workers) => workers,
            slot => {
                let options = WorkerOptions { count: load.workers, ..WorkerOptions::default() };
                slot.insert(Workers::start(options, worker).map_err(|error| error.to_string())?)
            }
        };
        workers.resize(load.workers).map_err(|error| error.to_string())?;
        if let Some(path) = &configuration.sockets {
            hand_sockets_on(path.clone(), load.listeners.iter().map(clone_listener).collect())?;
        }
        let shares = workers.distribute(&load.listeners).map_err(|error| error.to_string())?;
        let mut answers = Vec::new();
        for (index, share) in shares.into_iter().enumerate() {
            let (answer, answered) = oneshot::channel();
            workers.send(index, Command::Load(Arc::clone(&configuration), share, answer));
            answers.push(answered);
        }
        for answer in answers {
            answer.await.map_err(|_| "a worker is gone".to_owned())??;
        }
        Ok(())
    }

    async fn drain(&mut self, _reason: DrainReason) {
        if let Some(workers) = &mut self.workers {
            workers.join().await;
        }
    }

    fn pause(&mut self, paused: bool) {
        if let Some(workers) = &self.workers {
            workers.broadcast(|_| Command::Pause(paused));
        }
    }
}

type OwnedListener = (String, Vec<std::os::fd::OwnedFd>);

fn clone_listener(listener: &Listener) -> OwnedListener {
    let descriptors = listener.descriptors().filter_map(|socket| socket.try_clone_to_owned().ok()).collect();
    (listener.spec.interface.clone().unwrap_or_default(), descriptors)
}

/// Answers `_getsocks` on a thread of its own.
fn hand_sockets_on(path: PathBuf, listeners: Vec<OwnedListener>) -> Result<(), String> {
    use std::os::fd::AsFd as _;
    let _ = std::fs::remove_file(&path);
    let server = std::os::unix::net::UnixListener::bind(&path).map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let mut line = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut line);
            let sockets: Vec<transfer::SentSocket<'_>> = listeners
                .iter()
                .flat_map(|(interface, sockets)| sockets.iter().map(move |socket| (interface, socket)))
                .map(|(interface, socket)| transfer::SentSocket { descriptor: socket.as_fd(), interface })
                .collect();
            if line == "_getsocks\n" {
                let _ = transfer::send(&mut stream, &sockets);
            }
        }
    });
    Ok(())
}

/// The connections of a worker, and a bell for the end of the last.
#[derive(Default)]
struct Connections {
    count: Cell<usize>,
    none_left: Notify,
}

async fn worker(mut context: WorkerContext<Command>) {
    let connections = Rc::new(Connections::default());
    let mut handles: Vec<AcceptorHandle> = Vec::new();
    let mut suspends = false;
    while let Some(command) = context.commands.recv().await {
        match command {
            Command::Load(configuration, seeds, answer) => {
                suspends = configuration.suspends;
                let mut opened = Vec::new();
                let mut result = Ok(());
                for seed in seeds {
                    match seed.open() {
                        Ok(acceptor) => opened.push(acceptor),
                        Err(error) => result = Err(error.to_string()),
                    }
                }
                if result.is_ok() {
                    let new = opened.iter().map(Acceptor::handle).collect();
                    for acceptor in opened {
                        let (configuration, connections) = (Arc::clone(&configuration), Rc::clone(&connections));
                        spawn_local(accept(acceptor, configuration, connections, context.index));
                    }
                    for old in std::mem::replace(&mut handles, new) {
                        old.stop();
                    }
                }
                let _ = answer.send(result);
            }
            Command::Pause(true) if suspends => handles.iter().for_each(AcceptorHandle::suspend),
            Command::Pause(true) => handles.iter().for_each(AcceptorHandle::pause),
            Command::Pause(false) => {
                for handle in &handles {
                    if let Err(error) = handle.resume() {
                        println!("cannot go on: {error}");
                    }
                }
            }
        }
    }
    for handle in handles {
        handle.stop();
    }
    // The accepting tasks count as connections, so that what they still take is waited for.
    while connections.count.get() > 0 {
        connections.none_left.notified().await;
    }
}

struct Counted(Rc<Connections>);

impl Counted {
    fn new(connections: &Rc<Connections>) -> Self {
        connections.count.set(connections.count.get() + 1);
        Self(Rc::clone(connections))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.none_left.notify_one();
    }
}

fn accept(
    mut acceptor: Acceptor,
    configuration: Arc<Configuration>,
    connections: Rc<Connections>,
    index: usize,
) -> impl Future<Output = ()> {
    let accepting = Counted::new(&connections);
    async move {
        while let Some(Accepted { stream, guard, .. }) = acceptor.accept().await {
            let (configuration, counted) = (Arc::clone(&configuration), Counted::new(&connections));
            spawn_local(async move {
                let _alive = (counted, guard);
                let _ = match stream {
                    Stream::Tcp(stream) => match tokio::net::TcpStream::from_std(stream) {
                        Ok(stream) => echo(stream, &configuration, index).await,
                        Err(error) => Err(error),
                    },
                    Stream::Unix(stream) => match tokio::net::UnixStream::from_std(stream) {
                        Ok(stream) => echo(stream, &configuration, index).await,
                        Err(error) => Err(error),
                    },
                };
            });
        }
        drop(accepting);
    }
}

#[expect(clippy::panic, reason = "a client asked for it")]
async fn echo(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    configuration: &Configuration,
    index: usize,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        match line.trim() {
            "abort" => std::process::abort(),
            "panic" => panic!("asked to"),
            text => {
                let uid = rustix::process::geteuid().as_raw();
                let answer = format!("{} {text} {} {index} {uid}\n", configuration.greeting, std::process::id());
                stream.write_all(answer.as_bytes()).await?;
            }
        }
        line.clear();
    }
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<(Echo, Options), String> {
    let configuration = words.next().ok_or("no configuration")?.into();
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or(format!("{word} wants an argument"));
        match word.as_str() {
            "--single" => options.mode = Mode::Single,
            "--daemon" => options.daemon = true,
            "--pidfile" => options.pidfile = Some(next()?.into()),
            "--control" => {
                let word = next()?;
                let address = word.parse().map_or_else(|_| Address::Unix(word.into()), Address::Ip);
                options.control.push(ListenSpec::new("control", address));
            }
            "-x" => options.take_sockets_from = Some(next()?.into()),
            "--sf" | "--st" => {
                let how = if word == "--sf" { EndOldProcesses::Finish } else { EndOldProcesses::Terminate };
                let pid = next()?.parse().map_err(|_| "bad process number".to_owned())?;
                options.old_processes = Some(OldProcesses { pids: vec![pid], how });
            }
            _ => return Err(format!("unknown option: {word}")),
        }
    }
    Ok((Echo { configuration }, options))
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)) {
        Ok((role, options)) => run(role, options),
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
