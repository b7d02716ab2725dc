//! Runs the `echo` example as real processes and talks to it.

#![allow(dead_code, reason = "each test program uses a part of it")]

use runtime::process::MasterStatus;
use runtime::process::control::{Reply, Target, request};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Where cargo puts the example beside the tests.
pub fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/echo");
    assert!(path.exists(), "the example is not built: cargo build -p runtime --examples");
    path
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Tries until it holds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder that goes when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-runtime-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running echo service. Ended when dropped.
pub struct Service {
    pub folder: Folder,
    pub port: u16,
    pub child: Option<Child>,
    /// The process to command: the master, or the single process.
    pub pid: u32,
}

/// What to start.
pub struct Setup {
    pub folder: Folder,
    pub port: u16,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub input: Option<OwnedFd>,
}

impl Setup {
    pub fn new(configuration: &str) -> Self {
        let setup = Self {
            folder: Folder::new(),
            port: free_port(),
            program: example(),
            arguments: Vec::new(),
            environment: Vec::new(),
            input: None,
        };
        setup.configure(configuration);
        setup
    }

    /// Writes the configuration; `PORT` and `DIR` stand for this service's.
    pub fn configure(&self, configuration: &str) {
        configure(&self.folder.0, self.port, configuration);
    }

    /// Runs a copy of the program, which can be replaced.
    pub fn own_program(mut self) -> Self {
        let path = self.folder.0.join("echo");
        copy_program(&self.program, &path);
        self.program = path;
        self
    }

    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        let folder = self.folder.0.to_str().unwrap();
        self.arguments = arguments.iter().map(|word| word.replace("DIR", folder)).collect();
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn command(&self) -> Command {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.0.join("log")).unwrap();
        let mut command = Command::new(&self.program);
        command.arg(self.folder.0.join("configuration")).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        command
    }

    /// Starts and waits until it serves.
    pub fn start(self) -> Service {
        let mut service = self.start_without_waiting();
        wait_until("the service serves", || {
            assert!(service.is_running(), "it ended: {}", service.log());
            TcpStream::connect(service.address()).is_ok() && (service.log().contains("serves") || service.is_single())
        });
        service
    }

    pub fn start_without_waiting(mut self) -> Service {
        let mut command = self.command();
        if let Some(input) = self.input.take() {
            command.stdin(input);
        }
        let child = command.spawn().unwrap();
        let pid = child.id();
        Service { folder: self.folder, port: self.port, child: Some(child), pid }
    }
}

/// Copies a program by another process: a descriptor of ours that is open for writing might be inherited by a process
/// that another test starts just then, and the program could not be run until that process has closed it.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

fn configure(folder: &Path, port: u16, configuration: &str) {
    let text = configuration.replace("PORT", &port.to_string()).replace("DIR", folder.to_str().unwrap());
    let temporary = folder.join("configuration.new");
    std::fs::write(&temporary, text).unwrap();
    std::fs::rename(temporary, folder.join("configuration")).unwrap();
}

impl Service {
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn configure(&self, configuration: &str) {
        configure(&self.folder.0, self.port, configuration);
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }

    fn is_single(&self) -> bool {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|word| word == b"--single")
    }

    pub fn signal(&self, signal: i32) {
        kill(self.pid, signal);
    }

    /// Sends a command to the master.
    #[track_caller]
    pub fn ask(&self, line: &str) -> Reply {
        request(&Target::Pid(self.pid), line).unwrap_or_else(|error| panic!("{line}: {error}\n{}", self.log()))
    }

    #[track_caller]
    pub fn reload(&self) {
        let reply = self.ask("reload");
        assert!(reply.success, "{}", reply.text);
    }

    pub fn status(&self) -> MasterStatus {
        serde_json::from_str(&self.ask("status").text).unwrap()
    }

    /// The process that serves.
    pub fn worker(&self) -> u32 {
        self.status().workers.first().map_or(0, |worker| worker.pid)
    }

    /// Sends a line over a new connection and returns the answer.
    pub fn echo(&self, line: &str) -> std::io::Result<Answer> {
        Connection::open(self.address())?.echo(line)
    }

    /// Replaces the program on disk by another one with the same content, or with this one.
    pub fn replace_program(&self, content: Option<&[u8]>) {
        use std::os::unix::fs::PermissionsExt as _;
        let new = self.folder.0.join("echo.new");
        match content {
            Some(content) => {
                let file = self.folder.0.join("content");
                std::fs::write(&file, content).unwrap();
                copy_program(&file, &new);
            }
            None => copy_program(&example(), &new),
        }
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, self.folder.0.join("echo")).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let mut status = None;
        wait_until("the service ends", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// The processes that the master has started and that have not ended.
    pub fn children(&self) -> Vec<u32> {
        let list = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| exists(*pid)).collect()
    }

    pub fn descriptors(pid: u32) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.map(|link| link.to_string_lossy().into_owned()).collect()
    }

    /// Resident memory in kilobytes, without pages of files, which come and go.
    pub fn resident_kb(pid: u32) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let log = self.log();
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
            let end = Instant::now() + PATIENCE;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            if std::thread::panicking() {
                eprintln!("--- log of the service\n{log}");
            }
        }
    }
}

pub fn kill(pid: u32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::from_named_raw(signal).unwrap());
}

pub fn exists(pid: u32) -> bool {
    // A zombie has ended.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// `GREETING LINE PID WORKER UID`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub greeting: String,
    pub line: String,
    pub pid: u32,
    pub worker: usize,
    pub uid: u32,
}

/// A connection to a service, over whatever.
pub struct Connection<S> {
    stream: BufReader<S>,
}

impl Connection<TcpStream> {
    pub fn open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Whether an answer is there already.
    pub fn is_answered(&mut self) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let answered = matches!(stream.peek(&mut [0]), Ok(1));
        stream.set_nonblocking(false).unwrap();
        answered
    }
}

impl<S: std::io::Read + std::io::Write> Connection<S> {
    pub fn over(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub fn echo(&mut self, line: &str) -> std::io::Result<Answer> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
        self.answer()
    }

    pub fn send(&mut self, line: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    pub fn answer(&mut self) -> std::io::Result<Answer> {
        let mut text = String::new();
        if self.stream.read_line(&mut text)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[greeting, line, pid, worker, uid] = words.as_slice() else {
            return Err(std::io::Error::other(format!("strange answer: {text}")));
        };
        Ok(Answer {
            greeting: greeting.to_owned(),
            line: line.to_owned(),
            pid: pid.parse().unwrap(),
            worker: worker.parse().unwrap(),
            uid: uid.parse().unwrap(),
        })
    }

    /// Whether the other side has closed it.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// Clients that connect again and again, each time with one line.
pub struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<Tally>>,
    done: Arc<AtomicUsize>,
}

/// What clients have seen.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    pub answered: usize,
    /// The connection could not be made.
    pub refused: usize,
    /// It was made, but then broke.
    pub broken: Vec<String>,
}

impl Clients {
    pub fn start(address: SocketAddr, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicUsize::new(0));
        let threads = (0..count)
            .map(|_| {
                let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
                std::thread::spawn(move || {
                    let mut tally = Tally::default();
                    while !stop.load(Ordering::Relaxed) {
                        match Connection::open(address) {
                            Err(_) => tally.refused += 1,
                            Ok(mut connection) => match connection.echo("line") {
                                Ok(_) => tally.answered += 1,
                                Err(error) => tally.broken.push(error.to_string()),
                            },
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    tally
                })
            })
            .collect();
        Self { stop, threads, done }
    }

    /// Waits until this many more lines have been tried, so that a test goes on under load.
    pub fn go_on_for(&self, count: usize) {
        let goal = self.done.load(Ordering::Relaxed) + count;
        wait_until("the clients go on", || self.done.load(Ordering::Relaxed) >= goal);
    }

    pub fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads {
            let tally = thread.join().unwrap();
            sum.answered += tally.answered;
            sum.refused += tally.refused;
            sum.broken.extend(tally.broken);
        }
        sum
    }
}

/// Nothing went wrong for anyone.
#[track_caller]
pub fn assert_flawless(tally: &Tally) {
    assert!(tally.refused == 0 && tally.broken.is_empty(), "{tally:?}");
    assert!(tally.answered > 0);
}

pub const SIGHUP: i32 = 1;
pub const SIGINT: i32 = 2;
pub const SIGKILL: i32 = 9;
pub const SIGUSR1: i32 = 10;
pub const SIGUSR2: i32 = 12;
pub const SIGTERM: i32 = 15;
pub const SIGTTIN: i32 = 21;
pub const SIGTTOU: i32 = 22;
