//! The command line: nutcracker's options, and some of ours.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Parser;
use kvproxy::{
    nutcracker::{self, Address, PoolConfig, SlotsConfig},
    policy::{ReadFrom, ServerLimits},
    serve::Source,
};

/// The name of a pool that is given by options.
const POOL: &str = "proxy";
/// Where clients connect if nobody says.
const LISTEN: &str = "127.0.0.1:22121";

/// Serve many stores as one: a nutcracker.yml (-c), or a list of servers.
///
/// Any plain Redis client connects and sees one server. The proxy spreads keys as twemproxy does. It splits commands with several keys
/// and puts the replies together.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true)]
pub struct ProxyArguments {
    /// The configuration.
    #[arg(short = 'c', long, value_name = "FILE", default_value = "conf/nutcracker.yml")]
    pub conf_file: PathBuf,
    /// Without a configuration: the address for clients, as host:port or a path (127.0.0.1:22121).
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Without a configuration: a server, as host:port; repeat it for each server.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "conf_file")]
    server: Vec<String>,
    /// Without a configuration: a node of a running Redis or Valkey Cluster, as host:port; the proxy learns the other nodes from it.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["conf_file", "server"])]
    cluster: Vec<String>,
    /// Without a configuration: serve the master of a group that Sentinel names: group@host:port; repeat it for each Sentinel.
    #[arg(long, value_name = "GROUP@ADDRESS", conflicts_with_all = ["conf_file", "server", "cluster"])]
    sentinel: Vec<String>,
    /// Without a configuration: a file that says which server has which slots, in the lines of CLUSTER NODES. The proxy reads it again
    /// when another file takes its place.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["conf_file", "server", "cluster", "sentinel"])]
    topology: Option<PathBuf>,
    /// With --cluster, --sentinel or --topology: how many milliseconds to retry a request that was not sent, or that only reads.
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    retry_for: u64,
    /// With --cluster, --sentinel or --topology: how many milliseconds to wait for a server's answer.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout: u64,
    /// With --cluster, --sentinel or --topology: the servers' password. Clients need the same password.
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// A file whose first line is the password. Unlike --password, it does not appear in the list of processes.
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// With a password: the ACL user it belongs to. Clients log in as the same user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// With --cluster, --sentinel or --topology: the server for reads: master, prefer-replica, or nearest (by latency). Replicas may be behind.
    #[arg(long, value_name = "POLICY", default_value_t)]
    read_from: ReadFrom,
    /// After so many failures in a row, requests for a server fail at once until it answers; 0: never. Has no effect with auto_eject_hosts,
    /// which gives the server's keys to others.
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().breaker_failures)]
    breaker_failures: u32,
    /// How often the proxy tries such a server again, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    breaker_probe: u64,
    /// How many requests may wait for a server, in each thread. Further requests fail at once.
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().waiting_max)]
    server_queue: usize,
    /// How many bytes of requests each connection to a server keeps for retries. At the limit, clients wait.
    #[arg(long, value_name = "BYTES", default_value = "64mb", value_parser = memory)]
    retry_memory: usize,
    /// On SIGTERM, how many milliseconds the proxy still accepts clients while its health check already fails.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    shutdown_notice: u64,
    /// On SIGTERM, how many milliseconds the proxy waits for the answers to its clients' requests.
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    shutdown_timeout: u64,
    /// How many threads serve clients.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,
    /// How many bytes a client may leave unread before the proxy closes it, as `256mb`.
    #[arg(long, value_name = "BYTES", default_value = "256mb", value_parser = memory)]
    pub client_output_limit: usize,
    /// Check the configuration, and end.
    #[arg(short = 't', long)]
    pub test_conf: bool,
    /// Run in the background.
    #[arg(short = 'd', long)]
    pub daemonize: bool,
    /// Describe the statistics, and end.
    #[arg(short = 'D', long)]
    pub describe_stats: bool,
    /// Print the version.
    #[arg(short = 'V', long)]
    pub version: bool,
    /// Accepted for compatibility with nutcracker, without effect: the proxy logs all important events.
    #[arg(short = 'v', long, value_name = "0-11", default_value_t = 5)]
    verbose: u8,
    /// The file for messages (stderr).
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The port of statistics; 0 for none.
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 22222)]
    stats_port: u16,
    /// The address of statistics.
    #[arg(short = 'a', long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    stats_addr: String,
    /// Accepted for compatibility, without effect: statistics are never older than 100 milliseconds.
    #[arg(short = 'i', long, value_name = "MS", default_value_t = 30_000)]
    stats_interval: u64,
    /// The file for the process number.
    #[arg(short = 'p', long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Accepted for compatibility, without effect: buffers grow as needed.
    #[arg(short = 'm', long, value_name = "BYTES", default_value_t = 16_384)]
    mbuf_size: u64,
}

impl ProxyArguments {
    /// How long clients may still come after the process is told to end, and how long those that are here have.
    pub fn shutdown(&self) -> (Duration, Duration) {
        (Duration::from_millis(self.shutdown_notice), Duration::from_millis(self.shutdown_timeout))
    }

    /// The pools.
    pub fn pools(&self) -> Result<Vec<PoolConfig>, String> {
        let mut pools = self.pools_of_servers()?;
        for pool in &mut pools {
            pool.limits = ServerLimits {
                breaker_failures: self.breaker_failures,
                breaker_probe: Duration::from_millis(self.breaker_probe.max(1)),
                waiting_max: self.server_queue.max(1),
                kept_bytes_max: self.retry_memory,
            };
        }
        if self.read_from != ReadFrom::Master && pools.iter().any(|pool| pool.slots.is_none()) {
            return Err(format!(
                "--read-from {}: the replicas of listed servers are not known; use --cluster, --sentinel or --topology",
                self.read_from
            ));
        }
        Ok(pools)
    }

    fn pools_of_servers(&self) -> Result<Vec<PoolConfig>, String> {
        if self.source()?.is_some() {
            let listen = self.listen.as_deref().unwrap_or(LISTEN);
            let slots = SlotsConfig {
                retry_for: Duration::from_millis(self.retry_for),
                of_one_server: !self.sentinel.is_empty(),
                read_from: self.read_from,
            };
            let mut pool =
                PoolConfig::of_slots(POOL, listen, slots).map_err(|problem| format!("--listen {problem}"))?;
            pool.redis_auth = self.password()?;
            if self.user.is_some() && pool.redis_auth.is_none() {
                return Err("--user needs --password or --password-file".into());
            }
            pool.user.clone_from(&self.user);
            pool.timeout = Some(Duration::from_millis(self.timeout.max(1)));
            return Ok(vec![pool]);
        }
        if self.server.is_empty() {
            let path = &self.conf_file;
            let text = fs::read_to_string(path)
                .map_err(|error| format!("conf: failed to open configuration '{}': {error}", path.display()))?;
            return nutcracker::parse(&text).map_err(|error| format!("{}: {error}", path.display()));
        }
        let listen = self.listen.as_deref().unwrap_or(LISTEN);
        let mut text =
            format!("{POOL}:\n  listen: {listen}\n  redis: true\n  hash: murmur\n  hash_tag: \"{{}}\"\n  servers:\n");
        for server in &self.server {
            text.push_str(&format!("   - {server}:1\n"));
        }
        nutcracker::parse(&text).map_err(|error| format!("--listen, --server: {}", error.problem))
    }

    /// The servers' password, from wherever it is given.
    fn password(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.password_file else { return Ok(self.password.clone()) };
        let text = fs::read_to_string(path)
            .map_err(|error| format!("--password-file {} cannot be read: {error}", path.display()))?;
        let line = text.lines().next().filter(|line| !line.is_empty()).map(str::to_owned);
        line.map(Some).ok_or_else(|| format!("--password-file {}: its first line is empty", path.display()))
    }

    /// Where is learned which server has which slots, if servers are spread so.
    pub fn source(&self) -> Result<Option<Source>, String> {
        if let Some(path) = &self.topology {
            return Ok(Some(Source::File(path.clone())));
        }
        if !self.cluster.is_empty() {
            let seeds = self.cluster.iter().map(|text| address("--cluster", text)).collect::<Result<_, _>>()?;
            let credentials = self.password()?.map(|password| (self.user.clone(), password));
            return Ok(Some(Source::Cluster { seeds, credentials }));
        }
        let (mut group, mut sentinels) = (None, Vec::new());
        for text in &self.sentinel {
            let (name, place) = text.split_once('@').ok_or("--sentinel takes GROUP@HOST:PORT")?;
            if group.replace(name).is_some_and(|known| known != name) {
                return Err("--sentinel: all Sentinels look after one group, so its name is the same".into());
            }
            sentinels.push(address("--sentinel", place)?);
        }
        let with_replicas = self.read_from != ReadFrom::Master;
        Ok(group.map(|group| Source::Sentinel { group: group.to_owned(), sentinels, with_replicas }))
    }

    /// Where statistics are served.
    pub fn statistics(&self) -> Result<Option<SocketAddr>, String> {
        if self.stats_port == 0 {
            return Ok(None);
        }
        let address = self.stats_addr.parse().map_err(|_| format!("-a is no address: '{}'", self.stats_addr))?;
        Ok(Some(SocketAddr::new(address, self.stats_port)))
    }
}

fn address(option: &str, text: &str) -> Result<Address, String> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("{option} takes HOST:PORT, not '{text}'"))?;
    let port = port.parse().map_err(|_| format!("{option}: '{port}' is no port"))?;
    Ok(Address::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port })
}

/// A number of bytes with a unit, as redis.conf has them.
fn memory(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let units = [("gb", 1usize << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1), ("", 1)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let digits = lower.strip_suffix(unit)?;
        digits.parse::<usize>().ok()?.checked_mul(*factor)
    });
    parsed.ok_or_else(|| "a number of bytes is expected, such as 256mb".to_owned())
}
