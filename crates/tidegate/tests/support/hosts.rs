//! Three hosts, each a network name space with an etcd and an agent of `tidegate cluster up`; a bridge between them, in one of its own.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    process::Signal,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use serde_json::Value;

use super::{RedisClient, is_installed, signal_process, wait_within};

/// Three etcds, three agents and six stores start on a machine that may be busy.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How many hosts.
pub const COUNT: usize = 3;
/// The password of stores and proxies.
pub const PASSWORD: &str = "open sesame";

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The hosts, by numbers from 0.
pub struct Hosts {
    name: String,
    folder: PathBuf,
    /// Which network they are in: the third number of their addresses.
    network: AtomicU64,
    /// One etcd, on a machine of its own that all networks reach, instead of one on each host.
    has_own_etcd: AtomicBool,
}

impl Hosts {
    /// Makes the network; `None` where that is not allowed, or no etcd is installed.
    pub fn new() -> Option<Self> {
        if !is_installed("etcd") {
            eprintln!("skipped: etcd is not installed (.ci/tools installs it)");
            return None;
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tg{}{}", std::process::id(), ["", "b", "c", "d"][NEXT.fetch_add(1, SeqCst) as usize % 4]);
        // Three etcds that wait for one disk are slow.
        let place = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let folder = place.join(format!("tidegate-hosts-{name}"));
        let hosts = Self { folder, name, network: AtomicU64::new(0), has_own_etcd: AtomicBool::new(false) };
        let switch = hosts.switch();
        let mut steps = vec![
            format!("netns add {switch}"),
            format!("-n {switch} link add bridge type bridge"),
            format!("-n {switch} link set bridge up"),
        ];
        for host in 0..COUNT {
            let (space, address) = (hosts.space(host), hosts.address(host));
            steps.extend([
                format!("netns add {space}"),
                format!("-n {space} link add eth0 type veth peer name port{host} netns {switch}"),
                format!("-n {switch} link set port{host} master bridge"),
                format!("-n {switch} link set port{host} up"),
                format!("-n {space} address add {address}/24 dev eth0"),
                format!("-n {space} link set lo up"),
                format!("-n {space} link set eth0 up"),
            ]);
        }
        for step in steps {
            if let Err(reason) = ip(&step) {
                eprintln!("skipped: no network of our own: {reason}");
                return None;
            }
        }
        fs::create_dir_all(&hosts.folder).unwrap();
        fs::write(hosts.folder.join("password"), format!("{PASSWORD}\n")).unwrap();
        Some(hosts)
    }

    fn switch(&self) -> String {
        format!("{}s", self.name)
    }

    fn space(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    /// A host's address.
    pub fn address(&self, host: usize) -> String {
        format!("10.77.{}.{}", self.network.load(SeqCst), host + 1)
    }

    /// A host's name in the cluster, as its folder has it.
    pub fn host_name(&self, host: usize) -> String {
        let text = fs::read_to_string(self.dir(host).join("host.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Which host has a name.
    pub fn number(&self, name: &str) -> usize {
        (0..COUNT).find(|host| self.host_name(*host) == name).unwrap()
    }

    /// Gives all hosts addresses of another network; nothing runs on them meanwhile.
    pub fn readdress(&self) {
        let before: Vec<String> = (0..COUNT).map(|host| self.address(host)).collect();
        self.network.fetch_add(1, SeqCst);
        for (host, before) in before.iter().enumerate() {
            self.readdress_one(host, before, &self.address(host));
        }
    }

    /// Gives a host another address.
    pub fn readdress_one(&self, host: usize, before: &str, after: &str) {
        ip(&format!("-n {} address del {before}/24 dev eth0", self.space(host))).unwrap();
        ip(&format!("-n {} address add {after}/24 dev eth0", self.space(host))).unwrap();
    }

    /// Where clients of a host connect.
    pub fn proxy(&self, host: usize) -> SocketAddr {
        format!("{}:6379", self.address(host)).parse().unwrap()
    }

    /// The folder of a host's agent.
    pub fn dir(&self, host: usize) -> PathBuf {
        self.folder.join(format!("host{host}"))
    }

    fn urls(&self, host: usize) -> Vec<String> {
        if self.has_own_etcd.load(SeqCst) {
            return vec![format!("http://10.77.{}.100:2379", self.network.load(SeqCst))];
        }
        (0..COUNT).map(|other| format!("http://{}:2379", self.address((host + other) % COUNT))).collect()
    }

    fn spawn(&self, host: usize, name: &str, words: &[String]) {
        self.spawn_in(&self.space(host), &format!("{name}{host}"), words);
    }

    fn spawn_in(&self, space: &str, name: &str, words: &[String]) {
        let output = fs::OpenOptions::new().create(true).append(true).open(self.folder.join(format!("{name}.out")));
        let output = output.unwrap();
        // It replaces itself by the program; whatever runs in the name space is ended with it.
        let child = Command::new("ip")
            .args(["netns", "exec", space])
            .args(words)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        // Nobody asks after it: it is reaped when it ends.
        thread::spawn(move || {
            let mut child = child;
            let _ = child.wait();
        });
    }

    /// Starts an etcd on a machine of its own, which is there in the first networks.
    pub fn start_own_etcd(&self) {
        self.has_own_etcd.store(true, SeqCst);
        let (switch, data) = (self.switch(), self.folder.join("etcd"));
        for network in 0..4 {
            ip(&format!("-n {switch} address add 10.77.{network}.100/24 dev bridge")).unwrap();
        }
        ip(&format!("-n {switch} link set lo up")).unwrap();
        let words = format!(
            "etcd --name own --data-dir {} --listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://127.0.0.1:2379 \
             --listen-peer-urls http://127.0.0.1:2380 --log-level error",
            data.display()
        );
        self.spawn_in(&switch, "etcd", &words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }

    /// Has hosts know names, as /etc/hosts does.
    pub fn name_addresses(&self, lines: &str) {
        for host in 0..COUNT {
            let place = PathBuf::from("/etc/netns").join(self.space(host));
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("hosts"), format!("127.0.0.1 localhost\n{lines}")).unwrap();
        }
    }

    /// Starts a host's etcd.
    pub fn start_etcd(&self, host: usize) {
        self.start_etcd_of(host, &[0, 1, 2]);
    }

    /// Where a host's etcd keeps what it has.
    pub fn etcd_dir(&self, host: usize) -> PathBuf {
        self.folder.join(format!("etcd{host}"))
    }

    /// Etcds that know nothing, on some hosts.
    pub fn start_new_etcds(&self, members: &[usize]) {
        for host in members {
            let _ = fs::remove_dir_all(self.etcd_dir(*host));
        }
        members.iter().for_each(|host| self.start_etcd_of(*host, members));
    }

    fn start_etcd_of(&self, host: usize, members: &[usize]) {
        let (own, data) = (self.address(host), self.etcd_dir(host));
        // What one before it has left in the system goes a moment after it.
        wait_within(PATIENCE, "the ports of etcd are free", || {
            let is_free = |port| std::net::TcpListener::bind((own.as_str(), port)).is_ok();
            self.on(host, || is_free(2379) && is_free(2380))
        });
        let all: Vec<String> =
            members.iter().map(|host| format!("h{host}=http://{}:2380", self.address(*host))).collect();
        let words = format!(
            "etcd --name h{host} --data-dir {} --listen-client-urls http://{own}:2379 --advertise-client-urls http://{own}:2379 \
             --listen-peer-urls http://{own}:2380 --initial-advertise-peer-urls http://{own}:2380 --initial-cluster {} \
             --heartbeat-interval 100 --election-timeout 500 --log-level error",
            data.display(),
            all.join(",")
        );
        self.spawn(host, "etcd", &words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    }

    /// Runs `tidegate cluster up` on a host.
    pub fn start_agent(&self, host: usize, more: &[&str]) {
        self.start_agent_at(host, &self.address(host), more);
    }

    /// The same, by another address, or a name.
    pub fn start_agent_at(&self, host: usize, address: &str, more: &[&str]) {
        self.start_agent_by(env!("CARGO_BIN_EXE_tidegate"), host, address, more);
    }

    /// The same, by another program than that of the tests.
    pub fn start_agent_by(&self, program: &str, host: usize, address: &str, more: &[&str]) {
        let mut words: Vec<String> = vec![program.into(), "cluster".into(), "up".into()];
        words.extend(["--etcd".into(), self.urls(host).join(","), "--host".into(), address.into()]);
        words.extend(["--dir".into(), self.dir(host).display().to_string()]);
        words.extend(["--requirepass-file".into(), self.folder.join("password").display().to_string()]);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        self.spawn(host, "up", &words);
    }

    /// Puts a program in place that only a host has, as a package does: what was there before is removed.
    pub fn install(&self, host: usize) -> String {
        let path = self.folder.join(format!("tidegate{host}"));
        let _ = fs::remove_file(&path);
        let program = env!("CARGO_BIN_EXE_tidegate");
        fs::hard_link(program, &path).or_else(|_| fs::copy(program, &path).map(drop)).unwrap();
        path.display().to_string()
    }

    /// Starts all of a host.
    pub fn start(&self, host: usize, more: &[&str]) {
        self.start_etcd(host);
        self.start_agent(host, more);
    }

    /// What a host's `up` has said.
    pub fn said(&self, host: usize) -> String {
        fs::read_to_string(self.folder.join(format!("up{host}.out"))).unwrap_or_default()
    }

    /// The processes of a host: those that run in its name space.
    pub fn pids(&self, host: usize) -> Vec<u32> {
        self.pids_in(&self.space(host))
    }

    fn pids_in(&self, space: &str) -> Vec<u32> {
        let output = Command::new("ip").args(["netns", "pids", space]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// The etcds that run.
    pub fn etcds(&self) -> Vec<u32> {
        let is_etcd =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "etcd");
        (0..COUNT).flat_map(|host| self.pids(host)).filter(is_etcd).collect()
    }

    /// Kills all that runs on a host, as a power failure would.
    pub fn kill(&self, host: usize) {
        wait_within(PATIENCE, "everything on a host is dead", || {
            let pids = self.pids(host);
            pids.iter().for_each(|pid| signal_process(*pid, Signal::KILL));
            pids.is_empty()
        });
    }

    /// Pulls a host's cable, or puts it in again.
    pub fn set_connected(&self, host: usize, is_connected: bool) {
        let state = if is_connected { "up" } else { "down" };
        ip(&format!("-n {} link set port{host} {state}", self.switch())).unwrap();
    }

    /// A command about the cluster, by the agent of a host.
    pub fn command(&self, host: usize, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("cluster").args(words).arg("--dir").arg(self.dir(host));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The same, run on that host: what the command itself connects to is reached from there.
    pub fn command_there(&self, host: usize, words: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(host), env!("CARGO_BIN_EXE_tidegate"), "cluster"]);
        command.args(words).arg("--dir").arg(self.dir(host));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The same by the coordinator, as from a host that has no folder of the cluster.
    pub fn command_by_coordinator(&self, host: usize, words: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(host), env!("CARGO_BIN_EXE_tidegate"), "cluster"]);
        command.args(words).args(["--coordinator", &self.urls(host).join(",")]);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// How the cluster is, as an agent says.
    pub fn status(&self, host: usize) -> Option<Value> {
        serde_json::from_slice(&self.command(host, &["status", "--json"]).stdout).ok()
    }

    /// The host whose agent leads, as that of another one says.
    pub fn leader(&self, host: usize) -> Option<usize> {
        let status = self.status(host)?;
        let agents = status["agents"].as_array()?;
        let leader = agents.iter().find(|agent| agent["leads"] == true)?;
        Some(self.number(leader["host"].as_str()?))
    }

    /// Address, host and process of a group's master.
    pub fn master(&self, host: usize, group: usize) -> (SocketAddr, usize, u32) {
        let status = self.status(host).expect("an agent answers");
        let servers = status["groups"][group]["servers"].as_array().unwrap();
        let master = servers.iter().find(|server| server["role"] == "master").unwrap();
        let place = self.number(master["host"].as_str().unwrap());
        (master["address"].as_str().unwrap().parse().unwrap(), place, master["pid"].as_u64().unwrap() as u32)
    }

    /// Waits until everything is as it should be, as all agents say.
    #[track_caller]
    pub fn wait_well(&self) {
        wait_within(PATIENCE, "everything is as it should be, on all hosts", || {
            (0..COUNT).all(|host| self.command(host, &["check"]).status.success())
        });
    }

    /// Does something on a host: sockets that are made there stay there.
    #[track_caller]
    pub fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        let place = fs::File::open(format!("/run/netns/{}", self.space(host))).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            worker.join().unwrap()
        })
    }

    /// A client on a host, with the password.
    #[track_caller]
    pub fn client(&self, host: usize, address: SocketAddr) -> RedisClient {
        let mut client = self.on(host, || RedisClient::connect(address));
        assert_eq!(client.text(&["AUTH", PASSWORD]), "OK");
        client
    }

    /// Somebody on a host who writes by its proxy, all keys of the slot of `{tag}`.
    pub fn writer(&self, host: usize, tag: &'static str) -> HostWriter {
        let (space, address) = (self.space(host), self.proxy(host));
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stops, counts) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = thread::spawn(move || {
            let place = fs::File::open(format!("/run/netns/{space}")).unwrap();
            move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let (mut done, mut client) = (BTreeSet::new(), None);
            for number in 0.. {
                if stops.load(SeqCst) {
                    break;
                }
                // Others want to run too.
                thread::sleep(Duration::from_millis(2));
                // Its own host may have lost its power.
                if client.is_none()
                    && std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err()
                {
                    continue;
                }
                let open = client.get_or_insert_with(|| {
                    let mut open = RedisClient::connect(address);
                    open.try_command(&["AUTH", PASSWORD]);
                    open
                });
                match open.try_command(&["SET", &format!("{{{tag}}}{number}"), &number.to_string()]) {
                    Some(reply) if reply.as_error().is_none() => {
                        done.insert(number);
                        counts.fetch_add(1, SeqCst);
                    }
                    Some(_) => {}
                    None => client = None,
                }
            }
            done
        });
        HostWriter { tag, stop, count, thread }
    }

    /// Whether all that a writer was told is there, as a host's proxy says.
    #[track_caller]
    pub fn nothing_is_lost(&self, host: usize, tag: &str, done: &BTreeSet<u64>) {
        let mut client = self.client(host, self.proxy(host));
        for number in done {
            let found = client.text(&["GET", &format!("{{{tag}}}{number}")]);
            assert_eq!(found, number.to_string(), "an acknowledged write is lost: {{{tag}}}{number}");
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if thread::panicking() {
            for host in 0..COUNT {
                let said = ["up", "etcd"].map(|name| self.folder.join(format!("{name}{host}.out")));
                for path in [self.dir(host).join("logs/agent.log")].into_iter().chain(said) {
                    eprintln!("== {}\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default());
                }
            }
        }
        for host in 0..COUNT {
            while !self.pids(host).is_empty() {
                self.pids(host).iter().for_each(|pid| signal_process(*pid, Signal::KILL));
                thread::sleep(Duration::from_millis(10));
            }
            let _ = ip(&format!("netns delete {}", self.space(host)));
            let _ = fs::remove_dir_all(PathBuf::from("/etc/netns").join(self.space(host)));
        }
        self.pids_in(&self.switch()).iter().for_each(|pid| signal_process(*pid, Signal::KILL));
        let _ = ip(&format!("netns delete {}", self.switch()));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Somebody who writes.
pub struct HostWriter {
    pub tag: &'static str,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: JoinHandle<BTreeSet<u64>>,
}

impl HostWriter {
    /// Waits for so many more.
    #[track_caller]
    pub fn wait_more(&self, count: u64) {
        let goal = self.count.load(SeqCst) + count;
        wait_within(PATIENCE, "writes go on", || self.count.load(SeqCst) >= goal);
    }

    /// What was acknowledged.
    pub fn end(self) -> BTreeSet<u64> {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}
