//! The cluster of the demo: stores in groups behind one address, somebody who writes to it without a pause, and what goes wrong with it
//! when asked.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use agent::{http, options::Folder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster_command::at;

/// How many counters are written: enough for each group to have its share.
const COUNTERS: u64 = 1_000;
/// How far above the proxy's port the page is: the stores have those between.
const PAGE_ABOVE: u16 = 20;
/// A pause between two writes: the machine is for more than this.
const WRITE_PAUSE: Duration = Duration::from_micros(500);
/// How long an answer may take before it counts as a failure.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the cluster may take for what is asked of it.
const DONE_TIME_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether something is done.
const LOOK_TIME: Duration = Duration::from_millis(50);

/// A cluster that runs.
pub struct DemoCluster {
    agent: Child,
    /// The proxy's.
    port: u16,
    folder: PathBuf,
    load: Arc<Load>,
    /// Something is under way that the next key has to wait for.
    is_busy: Arc<AtomicBool>,
}

/// What the writer has seen.
#[derive(Debug, Default)]
struct Load {
    is_over: AtomicBool,
    answered: AtomicU64,
    /// Writes that were on their way when a master died: nobody can tell whether they were done.
    unknown: AtomicU64,
    /// The longest wait since it was last told, in microseconds.
    longest_us: AtomicU64,
}

impl DemoCluster {
    /// Starts one with its proxy at a port. `start` starts a process of the demo.
    pub fn start(folder: &Path, port: u16, start: impl FnOnce(&[&str]) -> io::Result<Child>) -> Result<Self, String> {
        let folder = folder.join("cluster");
        let (dir, port_text, api) =
            (folder.display().to_string(), port.to_string(), format!("127.0.0.1:{}", port + PAGE_ABOVE));
        let words =
            ["cluster", "up", "--groups", "2", "--replicas", "1", "--ack", "1", "--dir", &dir, "--port", &port_text];
        let agent = start(&[&words[..], &["--api", &api]].concat()).map_err(|error| format!("the cluster: {error}"))?;
        let cluster = Self { agent, port, folder, load: Arc::default(), is_busy: Arc::default() };
        let load = Arc::clone(&cluster.load);
        let folder = cluster.folder.clone();
        cluster.do_in_background(move || {
            wait(&folder, |status| at(status, "state") == "ok" && is_in_sync(status))?;
            let writer = Arc::clone(&load);
            let write = move || write(&writer, port);
            thread::Builder::new().name("demo-load".into()).spawn(write).map_err(|error| error.to_string())?;
            Ok(format!(
                "A client writes to it now, without a pause. Look at it: http://{api}/\n\
                 Type 6 and Enter to kill a master, 7 to add a group and move slots to it; then see that nothing is lost."
            ))
        });
        Ok(cluster)
    }

    /// Kills the master of the first group, and tells when another one has taken its place.
    pub fn kill_master(&self) {
        let (folder, load, port) = (self.folder.clone(), Arc::clone(&self.load), self.port);
        self.do_in_background(move || {
            let (former, pid) = master(&status(&folder)?).ok_or("the first group has no master that runs here")?;
            load.begin();
            kill(pid)?;
            println!("The master {former} (process {pid}) of group 1 is killed.");
            let after = wait(&folder, |status| {
                master(status).is_some_and(|(address, _)| address != former)
                    && is_in_sync(status)
                    && at(status, "state") == "ok"
            })?;
            let successor = master(&after).map(|(address, _)| address).unwrap_or_default();
            Ok(format!("{successor} has taken its place, and {former} follows it. {}", load.told(port)))
        });
    }

    /// Adds a group, moves a share of the slots to it, and tells when that is done.
    pub fn add_group(&self) {
        let (folder, load, port) = (self.folder.clone(), Arc::clone(&self.load), self.port);
        self.do_in_background(move || {
            load.begin();
            let added = ask(&folder, "POST", "/api/groups", &json!({}))?;
            let group = at(&added, "group").as_u64().unwrap_or(0);
            println!("Group {group} is added.");
            wait(&folder, |status| at(status, "state") == "ok" && is_in_sync(status))?;
            ask(&folder, "POST", "/api/rebalance", &json!({}))?;
            let after = wait(&folder, |status| {
                at(status, "moves").as_array().is_some_and(Vec::is_empty)
                    && groups(status).all(|group| at(group, "slots").as_u64().unwrap_or(0) > 0)
            })?;
            let shares: Vec<String> =
                groups(&after).map(|group| format!("group {} has {}", at(group, "id"), at(group, "slots"))).collect();
            Ok(format!("Slots have moved: {}. {}", shares.join(", "), load.told(port)))
        });
    }

    /// Does something by a thread, and prints what came of it; refuses a second thing.
    fn do_in_background(&self, work: impl FnOnce() -> Result<String, String> + Send + 'static) {
        if self.is_busy.swap(true, Relaxed) {
            println!("One thing after the other: the last one is not done yet.");
            return;
        }
        let is_busy = Arc::clone(&self.is_busy);
        let started = thread::Builder::new().name("demo-cluster".into()).spawn(move || {
            let done = work();
            // Who reads that it is done may ask for the next thing at once.
            is_busy.store(false, Relaxed);
            match done {
                Ok(text) => println!("{text}"),
                Err(problem) => println!("The cluster: {problem}"),
            }
        });
        if let Err(error) = started {
            self.is_busy.store(false, Relaxed);
            println!("The cluster: {error}");
        }
    }

    /// Ends the writing, and gives the agent away: told to end, it ends its stores.
    pub fn end(self) -> Child {
        self.load.is_over.store(true, Relaxed);
        self.agent
    }
}

impl Load {
    fn begin(&self) {
        self.longest_us.store(0, Relaxed);
    }

    /// What became of the writes: each that was answered must have been counted.
    fn told(&self, port: u16) -> String {
        let (answered, unknown) = (self.answered.load(Relaxed), self.unknown.load(Relaxed));
        let counted = counted(port);
        let lost = match counted {
            Ok(counted) if counted >= answered => "none is lost".to_owned(),
            Ok(counted) => format!("{} ARE LOST", answered - counted),
            Err(error) => format!("what is there cannot be read: {error}"),
        };
        let sent = match unknown {
            0 => String::new(),
            1 => " One was on its way to the master that died: its client heard so, and sent it again.".to_owned(),
            count => {
                format!(" {count} were on their way to a master that died: their client heard so, and sent them again.")
            }
        };
        let longest = self.longest_us.load(Relaxed) / 1000;
        format!("{answered} writes were answered, {lost}; the longest took {longest} ms.{sent}")
    }
}

fn kill(pid: u64) -> Result<(), String> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("it has no process")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("it cannot be killed: {error}"))
}

fn ask(folder: &Path, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    http::ask(folder, method, path, body).map_err(|error| error.to_string())
}

fn status(folder: &Path) -> Result<Value, String> {
    ask(folder, "GET", "/api/status", &Value::Null)
}

fn groups(status: &Value) -> impl Iterator<Item = &Value> {
    at(status, "groups").as_array().into_iter().flatten()
}

fn servers(group: &Value) -> impl Iterator<Item = &Value> {
    at(group, "servers").as_array().into_iter().flatten()
}

/// The first group's master, and its process.
fn master(status: &Value) -> Option<(String, u64)> {
    let server = servers(groups(status).next()?).find(|server| at(server, "role") == "master")?;
    Some((at(server, "address").as_str()?.to_owned(), at(server, "pid").as_u64()?))
}

fn is_in_sync(status: &Value) -> bool {
    groups(status).flat_map(servers).all(|server| at(server, "in_sync") == true)
}

/// Waits until the cluster is so, and says how it is then.
fn wait(folder: &Path, is_done: impl Fn(&Value) -> bool) -> Result<Value, String> {
    let begun = Instant::now();
    loop {
        match status(folder) {
            Ok(status) if is_done(&status) => return Ok(status),
            Err(error) if begun.elapsed() >= DONE_TIME_MAX => return Err(error),
            _ if begun.elapsed() >= DONE_TIME_MAX => {
                let dir = Folder::new(folder.to_owned()).log();
                return Err(format!("it takes too long; {} says why", dir.display()));
            }
            _ => thread::sleep(LOOK_TIME),
        }
    }
}

/// Counts up, one write after the other, until it is over.
fn write(load: &Load, port: u16) {
    let mut connection = None;
    for number in 0u64.. {
        if load.is_over.load(Relaxed) {
            return;
        }
        let begun = Instant::now();
        let written = count(&mut connection, port, number % COUNTERS);
        if load.is_over.load(Relaxed) {
            return;
        }
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        load.longest_us.fetch_max(took, Relaxed);
        if written.is_ok() {
            load.answered.fetch_add(1, Relaxed);
        } else {
            load.unknown.fetch_add(1, Relaxed);
            connection = None;
        }
        thread::sleep(WRITE_PAUSE);
    }
}

fn connect(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn count(connection: &mut Option<BufReader<TcpStream>>, port: u16, counter: u64) -> io::Result<()> {
    let reader = match connection {
        Some(reader) => reader,
        None => connection.insert(connect(port)?),
    };
    write!(reader.get_mut(), "INCR counter:{counter}\r\n")?;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.starts_with(':') { Ok(()) } else { Err(io::Error::other(line)) }
}

/// All counters together.
fn counted(port: u16) -> io::Result<u64> {
    let mut reader = connect(port)?;
    let names: String = (0..COUNTERS).map(|counter| format!(" counter:{counter}")).collect();
    write!(reader.get_mut(), "MGET{names}\r\n")?;
    let (mut line, mut sum) = (String::new(), 0);
    reader.read_line(&mut line)?;
    if !line.starts_with('*') {
        return Err(io::Error::other(line));
    }
    for _ in 0..COUNTERS {
        line.clear();
        reader.read_line(&mut line)?;
        if line.starts_with("$-1") {
            continue;
        }
        line.clear();
        reader.read_line(&mut line)?;
        sum += line.trim_end().parse::<u64>().map_err(io::Error::other)?;
    }
    Ok(sum)
}
