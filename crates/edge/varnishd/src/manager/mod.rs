//! The manager's process, from its options to its end.

mod clients;
mod daemon;
mod instance;
mod programs;
mod rights;
mod sockets;
mod state;
mod worker;

use std::{
    fs,
    io::{self, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use varnishcli::{ChildState, LineReader, Parameters, Status, VclState, execute};
use vsm::{VsmError, WorkingDirectory, counters::Mgt};

pub use clients::addresses;
pub use daemon::is_detached;
pub use programs::Text;
pub use sockets::Reservation;
pub use state::Manager;
pub use worker::WORKER;

use crate::Frontend;

/// The file of the secret, in the working directory.
const SECRET_FILE: &str = "_.secret";
const SECRET_BYTES: usize = 256;
/// How often the uptime is published.
const UPTIME_TIME: Duration = Duration::from_millis(500);
/// What a failure of the options ends with.
const WRONG_OPTIONS: u8 = 2;

/// What varnishd's options say about the manager.
#[derive(Debug)]
pub struct Options {
    /// `-n`: the working directory.
    pub folder: PathBuf,
    /// `-a`, `-s`, `-i`.
    pub frontend: Frontend,
    /// What keeps the ports of `-a`.
    pub reservations: Vec<Reservation>,
    /// `-p`, `-t`, `-r`.
    pub parameters: Parameters,
    /// `-f`, `-b`: programs with their names; the last one is the active one.
    pub programs: Vec<(String, Text)>,
    /// Whether it compiles the programs, and ends (`-C`).
    pub only_compiles: bool,
    /// `-T`, `-M`, `-S`, `-d`, `-I`.
    pub clients: Clients,
    /// `-P`
    pub pidfile: Option<PathBuf>,
    /// Whether it stays in the foreground (`-F`, `-d`).
    pub is_foreground: bool,
    /// Lines of the banner.
    pub identity: Vec<String>,
}

/// Who may manage it.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// `-T`: where clients connect; none for nowhere.
    pub listen: Option<String>,
    /// `-M`: clients that are connected to.
    pub call: Vec<String>,
    /// `-S`
    pub secret: Secret,
    /// `-d`: standard input is a client, and the worker waits for `start`.
    pub terminal: bool,
    /// `-I`: commands of a file, first.
    pub commands: Option<PathBuf>,
}

/// What clients must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Secret {
    /// A secret that is made for this instance.
    #[default]
    Own,
    /// That of a file.
    File(PathBuf),
    /// Nothing.
    None,
}

/// The manager, for all threads of its process.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Manager>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Manager> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the manager until it is told to end.
#[must_use]
pub fn run(options: Options) -> ExitCode {
    if !options.is_foreground && !options.only_compiles && !daemon::is_detached() {
        return daemon::detach();
    }
    if options.only_compiles {
        return match compile(options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => refuse(&why),
        };
    }
    match begin(options) {
        Ok(Some(running)) => running.wait(),
        Ok(None) => ExitCode::SUCCESS,
        Err(why) => refuse(&why),
    }
}

fn refuse(why: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "Error: {}", why.trim_end());
    ExitCode::from(WRONG_OPTIONS)
}

struct Running {
    shared: Shared,
    pidfile: Option<PathBuf>,
    terminal: bool,
}

/// Tries the programs, beside whatever instance runs.
fn compile(options: Options) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("varnishd-compile-{}", std::process::id()));
    let tried = begin(Options { folder: folder.clone(), pidfile: None, ..options });
    // It is only a folder for the time being.
    let _ = fs::remove_dir_all(&folder);
    tried.map(drop)
}

fn begin(options: Options) -> Result<Option<Running>, String> {
    let directory = WorkingDirectory::create(&options.folder).map_err(|error| in_words(&options.folder, &error))?;
    let pidfile = match &options.pidfile {
        Some(path) => Some(take_pidfile(path)?),
        None => None,
    };
    if let Some(owner) = options.frontend.becomes {
        rights::give_folder(&options.folder.join(vsm::MANAGER_FOLDER), owner)?;
    }
    let mut publisher = directory.manager().map_err(|error| error.to_string())?;
    // Tools show it in their first line.
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = options.frontend.identity.as_deref().unwrap_or(&hostname);
    publisher.publish("Arg", "-i", name.as_bytes()).map_err(|error| error.to_string())?;
    let counters = publisher.counters::<Mgt>("MGT").map(Arc::new).map_err(|error| error.to_string())?;
    let mut manager = Manager {
        shared: None,
        publisher: Some(publisher),
        counters: Some(Arc::clone(&counters)),
        secret: None,
        directory,
        frontend: options.frontend,
        identity: options.identity,
        parameters: options.parameters,
        entries: Vec::new(),
        active: None,
        worker: None,
        state: ChildState::Stopped,
        panic: None,
        exit_code: 0,
    };
    manager.clear_worker_memory();
    for (name, text) in &options.programs {
        manager.load(name, text, VclState::Auto).map_err(|failure| failure.text)?;
        manager.active = Some(name.clone());
    }
    if options.only_compiles {
        let _ = writeln!(io::stderr(), "The program is valid. There is no C code to print: VCL is run as it is.");
        return Ok(None);
    }
    worker::named("uptime", move || {
        let began = Instant::now();
        loop {
            counters.set(Mgt::uptime, began.elapsed().as_secs());
            std::thread::sleep(UPTIME_TIME);
        }
    })
    .map_err(|error| error.to_string())?;
    let listeners = begin_clients(&mut manager, &options.clients)?;
    let shared = Shared(Arc::new(Mutex::new(manager)));
    shared.lock().shared = Some(shared.clone());
    serve_clients(&shared, listeners, &options.clients)?;
    let end_at_signal = shared.clone();
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("signals cannot be waited for: {error}"))?;
    let pidfile_path = options.pidfile.clone();
    worker::named("signals", move || {
        if signals.forever().next().is_some() {
            end(&end_at_signal, pidfile_path.as_deref());
        }
    })
    .map_err(|error| error.to_string())?;
    if let Some(path) = &options.clients.commands {
        run_commands(&mut shared.lock(), path)?;
    }
    if options.clients.terminal {
        println!("Debugging mode, enter \"start\" to start child");
    } else {
        let mut manager = shared.lock();
        if manager.active.is_some() && manager.state == ChildState::Stopped {
            manager.launch()?;
        }
    }
    // NOTE: ports are kept for the worker as long as this process lives.
    std::mem::forget(options.reservations);
    // And so is the lock of the file with its number.
    std::mem::forget(pidfile);
    daemon::tell_ready();
    Ok(Some(Running { shared, pidfile: options.pidfile, terminal: options.clients.terminal }))
}

fn in_words(folder: &Path, error: &VsmError) -> String {
    match error {
        VsmError::InUse { pid, .. } => {
            format!("Varnishd is already running (pid={pid}) (pidfile={}/_.pid)", folder.display())
        }
        VsmError::Io { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    }
}

/// Writes the process' number into a file, which stays locked as long as the process lives.
fn take_pidfile(path: &Path) -> Result<fs::File, String> {
    let shown = path.display();
    let cannot = |error: io::Error| {
        let text = error.to_string();
        format!("Could not open pid-file ({shown}): {}", text.split(" (os error").next().unwrap_or(&text))
    };
    let mut options = fs::OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(cannot)?;
    if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        let pid = fs::read_to_string(path).unwrap_or_default();
        return Err(format!("Varnishd is already running (pid={}) (pidfile={shown})", pid.trim()));
    }
    file.set_len(0).map_err(cannot)?;
    writeln!(file, "{}", std::process::id()).map_err(cannot)?;
    Ok(file)
}

/// Finds or makes the secret, and opens what clients connect to.
fn begin_clients(manager: &mut Manager, clients: &Clients) -> Result<Vec<TcpListener>, String> {
    let mut listeners = Vec::new();
    if let Some(word) = &clients.listen {
        let addresses = addresses(word, None)?;
        listeners = clients::listen(&addresses).map_err(|error| format!("Could not open {word}: {error}"))?;
    }
    manager.secret = match &clients.secret {
        Secret::None => None,
        Secret::File(path) => {
            let why = |what: &str| format!("{what} secret-file \"{}\"", path.display());
            match fs::read(path) {
                Ok(content) if content.is_empty() => return Err(why("Empty")),
                Ok(_) => Some(fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
                Err(error) => return Err(format!("{}: {error}", why("Can not open"))),
            }
        }
        Secret::Own => {
            let mut secret = [0; SECRET_BYTES];
            rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
                .map_err(|error| format!("there are no random bytes for a secret: {error}"))?;
            Some(manager.directory.write_private(SECRET_FILE, &secret).map_err(|error| error.to_string())?)
        }
    };
    let mut places = String::new();
    for listener in &listeners {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        places.push_str(&format!("{} {}\n", address.ip(), address.port()));
    }
    let secret = manager.secret.as_ref().map(|path| path.to_string_lossy().into_owned());
    if let Some(publisher) = &mut manager.publisher {
        for (name, text) in [("-T", Some(places).filter(|places| !places.is_empty())), ("-S", secret)] {
            if let Some(text) = text {
                // Texts end with a zero there.
                let bytes = [text.as_bytes(), b"\0"].concat();
                publisher.publish("Arg", name, &bytes).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(listeners)
}

fn serve_clients(shared: &Shared, listeners: Vec<TcpListener>, clients: &Clients) -> Result<(), String> {
    for listener in listeners {
        clients::accept(listener, shared.clone()).map_err(|error| error.to_string())?;
    }
    for word in &clients.call {
        let addresses =
            addresses(word, None).map_err(|why| format!("Could not resolve -M argument to address: {why}"))?;
        clients::call(addresses, shared.clone()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs the commands of a file. A `-` before one says that it may fail.
fn run_commands(manager: &mut Manager, path: &Path) -> Result<(), String> {
    let text = fs::read(path).map_err(|error| format!("Can't open -I file '{}': {error}", path.display()))?;
    let mut lines = LineReader::default();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let may_fail = line.first() == Some(&b'-');
        lines.push(line);
        while let Some(words) = lines.next(true) {
            let words = words.map_err(|error| format!("-I file: {error}"))?;
            let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            if words.first().is_none_or(|first| first.starts_with('#')) {
                continue;
            }
            let reply = execute(&words, manager, SystemTime::now());
            if reply.status != Status::Ok as u16 && !may_fail {
                let text = String::from_utf8_lossy(&reply.text);
                return Err(format!("-I file: {} {}\n{text}", words.join(" "), reply.status));
            }
        }
    }
    Ok(())
}

impl Running {
    fn wait(self) -> ExitCode {
        if self.terminal {
            clients::terminal(&self.shared);
            end(&self.shared, self.pidfile.as_deref());
        }
        loop {
            std::thread::park();
        }
    }
}

/// Ends the worker and this process.
fn end(shared: &Shared, pidfile: Option<&Path>) -> ! {
    let mut manager = shared.lock();
    manager.stop_worker();
    // Nobody can be told if they stay.
    let _ = pidfile.map(fs::remove_file);
    let _ = fs::remove_file(manager.directory.path().join("_.pid"));
    manager.publisher = None;
    std::process::exit(manager.exit_code)
}
