//! Programs that are to run: they are started, and started again when they end, after a pause that grows. The list is a file of the
//! folder (`processes.json`). A program that runs already is adopted, so they outlive their agent: it is known by its command line,
//! which names the folder.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use cluster::Address;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{
    error::AgentError,
    options::{Folder, Options},
    secrets::Secret,
};

/// The first pause before a program is started again, in milliseconds.
const PAUSE_MIN_MS: u64 = 100;
/// The longest.
const PAUSE_MAX_MS: u64 = 10_000;
/// One that has run for so long did not fail at its start.
const STEADY_MS: u64 = 10_000;
/// The option by which a store learns of its agent.
const AGENT_SOCKET: &str = "--cluster-agent-socket";
/// Words behind that of a store that is to copy nothing before an agent leads.
const WAITS: [&str; 2] = ["--cluster-wait-for-agent", "yes"];
/// How long a program may take to end before it is killed: a store writes what is in memory alone.
const END_PATIENCE_MS: u64 = 30_000;

/// What a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// `tidegate store`.
    Store,
    /// `tidegate proxy`.
    Proxy,
    /// `redis-server`, or Valkey's.
    Redis,
}

/// Words of each redis-server. They stay as they are in what the system shows, by which it is found again (`set-proc-title`). What it has
/// is on the disk each second, so one that is started again does not come back empty.
const REDIS_WORDS: [&str; 8] =
    ["--appendonly", "yes", "--save", "", "--repl-diskless-sync-delay", "0", "--set-proc-title", "no"];

/// A program that is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Its name, which no other one has: that of its log, and of a store's folder.
    pub name: String,
    /// What it is.
    pub program: Program,
    /// Where it listens.
    pub address: Address,
    /// Further words of its command line.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// It was asked for by itself and belongs to no group yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loose: bool,
}

impl Declared {
    /// Whether both are the same program at the same place, whatever they are called.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.program == other.program && self.address == other.address
    }

    /// All words of its command line after the program's name, but for those that differ between versions of this program.
    fn words(&self, folder: &Folder, secret: &Secret) -> Vec<String> {
        let (host, port) = (self.address.host().to_owned(), self.address.port().to_string());
        let path = |path: PathBuf| path.display().to_string();
        let own: Vec<String> = match self.program {
            Program::Store => {
                let dir = path(folder.store(&self.name));
                let file = secret.password.is_some().then(|| path(folder.stores_secret()));
                let words = ["--bind", &host, "--port", &port, "--dir", &dir, "--cluster-enabled", "yes"];
                // So a master knows it by the name that the agent gives it, whatever its connections come from.
                let known_as = ["--replica-announce-ip", &host, "--replica-announce-port", &port];
                let open: &[&str] = if secret.is_open { &["--protected-mode", "no"] } else { &[] };
                let words = words.iter().chain(&known_as).chain(open).map(|word| (*word).to_owned());
                ["store".to_owned()].into_iter().chain(file).chain(words).collect()
            }
            Program::Redis => {
                let dir = path(folder.store(&self.name));
                // The same lines as those of stores: redis.conf has them. They come first, as redis-server wants its file.
                let file = secret.password.is_some().then(|| path(folder.stores_secret()));
                let open: &[&str] = if secret.is_open { &["--protected-mode", "no"] } else { &[] };
                let words = ["--bind", &host, "--port", &port, "--dir", &dir];
                let words = words.iter().chain(&REDIS_WORDS).chain(open).map(|word| (*word).to_owned());
                file.into_iter().chain(words).collect()
            }
            Program::Proxy => {
                let (listen, topology) = (self.address.to_string(), path(folder.topology()));
                let words = ["proxy", "--listen", &listen, "--topology", &topology, "--stats-port", "0"];
                let file = secret.password.is_some().then(|| path(folder.proxies_secret()));
                let password = file.into_iter().flat_map(|file| ["--password-file".to_owned(), file]);
                words.map(str::to_owned).into_iter().chain(password).collect()
            }
        };
        own.into_iter().chain(self.arguments.iter().cloned()).collect()
    }
}

#[derive(Debug)]
enum State {
    /// It is to be started then.
    Waiting { until: u64 },
    /// It has ended, and is started when somebody says so.
    Held,
    /// It runs.
    Running { process: Process, since: u64 },
    /// It was told to end, and is killed then.
    Ending { process: Process, until: u64 },
    /// It has ended as it was told to.
    Ended,
}

#[derive(Debug)]
enum Process {
    Own(Child),
    /// Another agent has started it.
    Adopted(Pid),
}

#[derive(Debug)]
struct Supervised {
    what: Declared,
    state: State,
    pause_ms: u64,
    starts: u64,
}

/// Something that has happened to a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Happening {
    /// It runs, by an agent before this one.
    Adopted(Address, u32),
    /// It was started.
    Started(Address, u32),
    /// It has ended by itself, and is started again when it is released.
    Ended(Address, String),
    /// It cannot be started.
    Failed(Address, String),
}

/// Where programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Tidegate: stores and proxies.
    pub tidegate: PathBuf,
    /// `redis-server`, or Valkey's: a path, or a name that is looked for where commands are.
    pub redis: PathBuf,
}

/// How programs are started.
#[derive(Clone, Copy, Debug)]
struct HowStarted<'a> {
    programs: &'a Programs,
    stores_wait: bool,
    /// What a store's command line says besides what it is.
    settings: &'a [String],
}

/// The programs of a folder.
#[derive(Debug)]
pub struct Processes {
    folder: Folder,
    secret: Secret,
    programs: Programs,
    /// Stores that are started copy nothing before an agent leads.
    stores_wait: bool,
    /// Words of stores' command lines that say their settings: they differ from start to start.
    settings: BTreeMap<Address, Vec<String>>,
    all: Vec<Supervised>,
}

/// Reads the list of programs; one that is not there is empty.
///
/// # Errors
///
/// The file cannot be read.
pub fn declared(folder: &Folder) -> Result<Vec<Declared>, AgentError> {
    let path = folder.processes();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(AgentError::File { path, source }),
    };
    let unreadable = |error: serde_json::Error| AgentError::Unreadable {
        place: path.display().to_string(),
        problem: error.to_string(),
    };
    serde_json::from_str(&text).map_err(unreadable)
}

/// Writes the list of programs.
///
/// # Errors
///
/// The disk fails.
pub fn declare(folder: &Folder, all: &[Declared]) -> Result<(), AgentError> {
    let path = folder.processes();
    let text = serde_json::to_string_pretty(all).unwrap_or_default();
    replace(&path, text.as_bytes()).map_err(|source| AgentError::File { path, source })
}

/// Puts a file in the place of another one, so that whoever reads gets one of the two.
///
/// # Errors
///
/// The disk fails.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is on the disk, too.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// The same for what is written anew after a crash in any case: the disk is not waited for.
///
/// # Errors
///
/// The file cannot be written.
pub fn replace_quickly(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(&new, path)
}

impl Processes {
    /// Those of a list, none of which runs as far as is known.
    #[must_use]
    pub fn new(options: &Options, declared: Vec<Declared>) -> Self {
        let (folder, secret) = (options.folder.clone(), options.secret.clone());
        let programs = Programs { tidegate: options.program.clone(), redis: options.redis_program.clone() };
        let settings = BTreeMap::new();
        let mut processes = Self { folder, secret, programs, stores_wait: false, settings, all: Vec::new() };
        declared.into_iter().for_each(|what| processes.add(what));
        processes
    }

    /// The same, of which stores copy nothing before an agent leads.
    #[must_use]
    pub fn waiting(options: &Options, declared: Vec<Declared>) -> Self {
        Self { stores_wait: true, ..Self::new(options, declared) }
    }

    /// What stores are started with from now on, besides what they are.
    pub fn set_settings(&mut self, settings: BTreeMap<Address, Vec<String>>) {
        self.settings = settings;
    }

    /// One more.
    pub fn add(&mut self, what: Declared) {
        self.all.push(Supervised { what, state: State::Waiting { until: 0 }, pause_ms: PAUSE_MIN_MS, starts: 0 });
    }

    /// The process of a program that listens there.
    #[must_use]
    pub fn pid(&self, address: &Address) -> Option<u32> {
        // One that ends may have a successor already.
        let mut at_address = self.all.iter().filter(|one| one.what.address == *address);
        let found = at_address.clone().find(|one| !one.is_ending()).or_else(|| at_address.next())?;
        match &found.state {
            State::Running { process, .. } | State::Ending { process, .. } => Some(process.pid()),
            State::Waiting { .. } | State::Held | State::Ended => None,
        }
    }

    /// How often a program was started by this agent.
    #[must_use]
    pub fn starts(&self, address: &Address) -> u64 {
        self.all.iter().find(|one| one.what.address == *address).map_or(0, |one| one.starts)
    }

    /// All that are to run.
    pub fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.all.iter().filter(|one| !one.is_ending()).map(|one| &one.what)
    }

    /// One belongs to the cluster from now on; says whether it did not before.
    pub fn bind(&mut self, address: &Address) -> bool {
        let mut loose = self.all.iter_mut().filter(|one| one.what.address == *address && one.what.is_loose);
        loose.next().is_some_and(|one| {
            one.what.is_loose = false;
            true
        })
    }

    /// One belongs to the cluster no more, and goes on running; says whether it did before.
    pub fn loosen(&mut self, address: &Address) -> bool {
        let mut bound =
            self.all.iter_mut().filter(|one| one.what.address == *address && !one.is_ending() && !one.what.is_loose);
        bound.next().is_some_and(|one| {
            one.what.is_loose = true;
            true
        })
    }

    /// Those that are started next.
    pub fn due(&self, now: u64) -> impl Iterator<Item = &Declared> {
        let is_due = move |one: &&Supervised| matches!(one.state, State::Waiting { until } if until <= now);
        self.all.iter().filter(is_due).map(|one| &one.what)
    }

    /// One that does not run is not started before `until`.
    pub fn put_off(&mut self, address: &Address, until: u64) {
        let (folder, secret) = (&self.folder, &self.secret);
        for one in self.all.iter_mut().filter(|one| one.what.address == *address) {
            if matches!(one.state, State::Waiting { .. })
                && running(&one.what.words(folder, secret), AGENT_SOCKET).is_none()
            {
                one.state = State::Waiting { until };
            }
        }
    }

    /// Those that wait to be released.
    pub fn held(&self) -> impl Iterator<Item = &Address> {
        self.all.iter().filter(|one| matches!(one.state, State::Held)).map(|one| &one.what.address)
    }

    /// One that does not run waits to be released before it is started.
    pub fn hold(&mut self, address: &Address) {
        let (folder, secret) = (&self.folder, &self.secret);
        for one in self.all.iter_mut().filter(|one| one.what.address == *address) {
            if matches!(one.state, State::Waiting { .. })
                && running(&one.what.words(folder, secret), AGENT_SOCKET).is_none()
            {
                one.state = State::Held;
            }
        }
    }

    /// One is started again, after its pause.
    pub fn release(&mut self, address: &Address, now: u64) {
        for one in self.all.iter_mut().filter(|one| one.what.address == *address) {
            if let State::Held = one.state {
                one.wait(now);
            }
        }
    }

    /// Tells one to end; it is not started again.
    pub fn stop(&mut self, address: &Address, now: u64) {
        let (folder, secret) = (&self.folder, &self.secret);
        for one in self.all.iter_mut().filter(|one| one.what.address == *address) {
            one.adopt(now, (folder, secret));
            one.stop(now);
        }
    }

    /// Tells all to end.
    pub fn stop_all(&mut self, now: u64) {
        self.all.iter_mut().for_each(|one| one.stop(now));
    }

    /// Whether all have ended that were told to.
    #[must_use]
    pub fn all_ended(&self) -> bool {
        self.all.iter().all(|one| matches!(one.state, State::Ended))
    }

    /// Takes those off that have ended as they were told to.
    pub fn forget_ended(&mut self) {
        self.all.retain(|one| !matches!(one.state, State::Ended));
    }

    /// Looks after all of them.
    pub fn check(&mut self, now: u64) -> Vec<Happening> {
        let mut happenings = Vec::new();
        for one in &mut self.all {
            let settings = self.settings.get(&one.what.address).map(Vec::as_slice).unwrap_or_default();
            let how = HowStarted { programs: &self.programs, stores_wait: self.stores_wait, settings };
            if let Some(happening) = one.check(now, (&self.folder, &self.secret), how) {
                happenings.push(happening);
            }
        }
        happenings
    }
}

impl Process {
    fn pid(&self) -> u32 {
        match self {
            Self::Own(child) => child.id(),
            Self::Adopted(pid) => pid.as_raw_nonzero().get().unsigned_abs(),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid().cast_signed()) {
            // One that has just ended is what was wanted.
            let _ = kill_process(pid, signal);
        }
    }

    /// How it ended; nothing while it runs.
    fn ended(&mut self) -> Option<String> {
        match self {
            Self::Own(child) => match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            },
            Self::Adopted(pid) => (!is_running(*pid)).then(|| "it is gone".to_owned()),
        }
    }
}

/// Whether a process is there and no mere entry that nobody has fetched.
fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

impl Supervised {
    fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. } | State::Ended)
    }

    /// Takes over a process that an agent before this one has left, if this one has not looked for it yet.
    fn adopt(&mut self, now: u64, (folder, secret): (&Folder, &Secret)) {
        if matches!(self.state, State::Waiting { .. })
            && let Some(pid) = running(&self.what.words(folder, secret), AGENT_SOCKET)
        {
            self.state = State::Running { process: Process::Adopted(pid), since: now };
        }
    }

    fn stop(&mut self, now: u64) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        if let State::Running { process, .. } = state {
            process.signal(Signal::TERM);
            self.state = State::Ending { process, until: now + END_PATIENCE_MS };
        } else if let State::Ending { .. } = state {
            self.state = state;
        }
    }

    fn check(&mut self, now: u64, (folder, secret): (&Folder, &Secret), how: HowStarted<'_>) -> Option<Happening> {
        let address = self.what.address.clone();
        match &mut self.state {
            State::Ended | State::Held => None,
            State::Waiting { until } if now < *until => None,
            State::Waiting { .. } => {
                if let Some(pid) = running(&self.what.words(folder, secret), AGENT_SOCKET) {
                    self.state = State::Running { process: Process::Adopted(pid), since: now };
                    return Some(Happening::Adopted(address, pid.as_raw_nonzero().get().unsigned_abs()));
                }
                match start(&self.what, (folder, secret), how) {
                    Ok(child) => {
                        let pid = child.id();
                        self.starts += 1;
                        self.state = State::Running { process: Process::Own(child), since: now };
                        Some(Happening::Started(address, pid))
                    }
                    Err(error) => {
                        self.wait(now);
                        Some(Happening::Failed(address, error.to_string()))
                    }
                }
            }
            State::Running { process, since } => {
                let how = process.ended()?;
                if now >= *since + STEADY_MS {
                    self.pause_ms = PAUSE_MIN_MS;
                }
                self.state = State::Held;
                Some(Happening::Ended(address, how))
            }
            State::Ending { process, until } => {
                if process.ended().is_some() {
                    self.state = State::Ended;
                } else if now >= *until {
                    process.signal(Signal::KILL);
                    *until = now + END_PATIENCE_MS;
                }
                None
            }
        }
    }

    fn wait(&mut self, now: u64) {
        self.state = State::Waiting { until: now + self.pause_ms };
        self.pause_ms = (self.pause_ms * 2).min(PAUSE_MAX_MS);
    }
}

/// The process with these words behind its program's name, with or without more from another one on.
fn running(words: &[String], later: &str) -> Option<Pid> {
    let entries = fs::read_dir("/proc").ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut found = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).skip(1);
        let is_same = words.iter().all(|word| found.next() == Some(word.as_bytes()))
            && found.next().is_none_or(|word| word == later.as_bytes());
        Pid::from_raw(pid).filter(|pid| is_same && is_running(*pid))
    })
}

fn start(what: &Declared, (folder, secret): (&Folder, &Secret), how: HowStarted<'_>) -> io::Result<Child> {
    let log_path = folder.log_of(&what.name);
    if let Some(parent) = log_path.parent() {
        fs::create_dir_all(parent)?;
    }
    if what.program != Program::Proxy {
        fs::create_dir_all(folder.store(&what.name))?;
    }
    let log = OpenOptions::new().create(true).append(true).open(&log_path)?;
    let program = if what.program == Program::Redis { &how.programs.redis } else { &how.programs.tidegate };
    let mut command = Command::new(program);
    command.args(what.words(folder, secret));
    if what.program == Program::Store {
        command.args([AGENT_SOCKET.as_ref(), folder.socket().as_os_str()]);
        command.args(WAITS.iter().filter(|_| how.stores_wait)).args(how.settings);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // What the terminal sends to its foreground does not reach it: the agent ends it, in order.
    command.process_group(0);
    command.spawn()
}
