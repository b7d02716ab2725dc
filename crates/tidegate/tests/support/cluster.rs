//! A cluster that `tidegate cluster up` runs, and somebody who writes to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use super::{Folder, RedisClient, host, wait_within};

/// Many processes start on a machine that may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An address with some free ports above it.
pub fn free_ports() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(40_000);
    SocketAddr::new(host().parse().unwrap(), NEXT.fetch_add(100, SeqCst))
}

/// A cluster that runs.
pub struct Cluster {
    pub agent: Child,
    pub address: SocketAddr,
    pub folder: Arc<Folder>,
}

impl Cluster {
    pub fn up(arguments: &[&str]) -> Self {
        Self::up_at(free_ports(), Arc::new(Folder::new()), arguments)
    }

    pub fn up_at(address: SocketAddr, folder: Arc<Folder>, arguments: &[&str]) -> Self {
        let agent = Self::spawn(address, &folder, arguments);
        let cluster = Self { agent, address, folder };
        wait_within(PATIENCE, "the cluster serves and all replicas are in sync", || cluster.is_well());
        cluster
    }

    pub fn spawn(address: SocketAddr, folder: &Folder, arguments: &[&str]) -> Child {
        Self::spawn_as("up", address, folder, arguments)
    }

    /// Runs a cluster by `up`, or by a command that does the same.
    pub fn spawn_as(command: &str, address: SocketAddr, folder: &Folder, arguments: &[&str]) -> Child {
        let output = fs::OpenOptions::new().create(true).append(true).open(folder.0.join("up.out")).unwrap();
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["cluster", command, "--host", &address.ip().to_string(), "--port", &address.port().to_string()])
            .args(["--dir", &folder.0.display().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("cluster").args(words).arg("--dir").arg(&self.folder.0);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// A command that must succeed, and what it says.
    #[track_caller]
    pub fn done(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command that must be refused, with this reason.
    #[track_caller]
    pub fn refused(&self, words: &[&str], reason: &str) {
        let output = self.command(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(reason),
            "{words:?} is not refused because '{reason}': {output:?}"
        );
    }

    pub fn try_status(&self) -> Option<Value> {
        let output = self.command(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).ok()
    }

    pub fn is_well(&self) -> bool {
        self.command(&["check"]).status.success() && RedisClient::connect_if_listens(self.address)
    }

    pub fn status(&self) -> Value {
        self.try_status().expect("the agent answers")
    }

    /// Address and process of a group's master.
    pub fn master(&self, group: usize) -> (String, u32) {
        let status = self.status();
        let servers = status["groups"][group]["servers"].as_array().unwrap();
        let master = servers.iter().find(|server| server["role"] == "master").unwrap();
        (master["address"].as_str().unwrap().to_owned(), master["pid"].as_u64().unwrap() as u32)
    }

    pub fn pids(&self) -> BTreeSet<u64> {
        let status = self.status();
        let groups = status["groups"].as_array().unwrap();
        groups
            .iter()
            .flat_map(|group| group["servers"].as_array().unwrap())
            .chain(status["proxies"].as_array().unwrap())
            .map(|server| server["pid"].as_u64().unwrap())
            .collect()
    }

    /// Kills all of it at once, as the loss of power would.
    pub fn lose_power(&mut self) {
        let pids = self.pids();
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
        pids.iter().for_each(|pid| super::signal_process(u32::try_from(*pid).unwrap(), rustix::process::Signal::KILL));
        let is_there = |pid: &u64| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        super::wait_until("all have ended", || !pids.iter().any(is_there));
    }

    /// The folder that a store's process has its data in.
    pub fn data_of(&self, pid: u32) -> PathBuf {
        let words = String::from_utf8(fs::read(format!("/proc/{pid}/cmdline")).unwrap()).unwrap();
        let mut words = words.split('\0').skip_while(|word| *word != "--dir");
        PathBuf::from(words.nth(1).expect("the folder of its data"))
    }

    pub fn wait_well(&self) {
        wait_within(PATIENCE, "everything is as it should be again", || self.is_well());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.0.join("logs/agent.log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            let output = fs::read_to_string(self.folder.0.join("up.out")).unwrap_or_default();
            eprintln!("the agent said:\n{}{output}", self.log());
        }
        // Those that it has started go with it, if it still can.
        if self.agent.try_wait().is_ok_and(|ended| ended.is_none()) {
            super::signal_process(self.agent.id(), rustix::process::Signal::TERM);
        } else {
            self.agent = Self::spawn(self.address, &self.folder, &[]);
            // It adopts what runs before it answers anybody.
            while self.try_status().is_none() && self.agent.try_wait().is_ok_and(|ended| ended.is_none()) {
                thread::sleep(Duration::from_millis(20));
            }
            super::signal_process(self.agent.id(), rustix::process::Signal::TERM);
        }
        let _ = self.agent.wait();
    }
}

/// Writes that were acknowledged, and when: seconds since 1970, as logs have it.
pub type Acknowledged = BTreeMap<u64, f64>;

fn clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Writes keys one after the other, all of the slot of `{tag}`, and remembers which were acknowledged.
pub struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<(Acknowledged, Vec<String>)>,
}

impl Writer {
    pub fn start(address: SocketAddr, tag: &'static str) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stops, counts) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let thread = thread::spawn(move || {
            let (mut done, mut errors) = (Acknowledged::new(), Vec::new());
            let mut client = None;
            for number in 0.. {
                if stops.load(SeqCst) {
                    break;
                }
                // Others want to run too.
                thread::sleep(Duration::from_millis(2));
                let open = client.get_or_insert_with(|| RedisClient::connect(address));
                let reply = open.try_command(&["SET", &format!("{{{tag}}}{number}"), &number.to_string()]);
                match reply.as_ref().map(|value| value.as_error()) {
                    None => {
                        errors.push("the connection was lost".to_owned());
                        client = None;
                    }
                    Some(Some(error)) => errors.push(String::from_utf8_lossy(error).into_owned()),
                    Some(None) => {
                        done.insert(number, clock());
                        counts.fetch_add(1, SeqCst);
                    }
                }
            }
            (done, errors)
        });
        Self { stop, acknowledged, thread }
    }

    /// Waits for so many more.
    pub fn wait_more(&self, count: u64) {
        let goal = self.acknowledged.load(SeqCst) + count;
        wait_within(PATIENCE, "writes go on", || self.acknowledged.load(SeqCst) >= goal);
    }

    /// What was acknowledged, and the errors.
    pub fn end(self) -> (Acknowledged, Vec<String>) {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

#[track_caller]
pub fn nothing_is_lost(address: SocketAddr, tag: &str, done: &Acknowledged) {
    let mut client = RedisClient::connect(address);
    let is_lost = |number: &u64| client.text(&["GET", &format!("{{{tag}}}{number}")]) != number.to_string();
    let lost: Vec<u64> = done.keys().copied().filter(is_lost).collect();
    let told: Vec<String> = lost.iter().take(20).map(|number| format!("{number} at {:.3}", done[number])).collect();
    assert!(
        lost.is_empty(),
        "{} acknowledged writes of {{{tag}}} are lost, the first: {}",
        lost.len(),
        told.join(", ")
    );
}
