//! The command line: nutcracker's options, and some of ours.

use std::{fs, net::SocketAddr, path::PathBuf};

use clap::Parser;
use kvproxy::nutcracker::{self, PoolConfig};

/// The name of a pool that is given by options.
const POOL: &str = "proxy";

/// Serve many stores as one: a nutcracker.yml (-c), or a list of servers.
///
/// Any plain Redis client connects and sees one server. Keys are spread as twemproxy spreads them; commands of several keys are split
/// and their replies put together.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true)]
pub struct ProxyArguments {
    /// The configuration.
    #[arg(short = 'c', long, value_name = "FILE", default_value = "conf/nutcracker.yml")]
    pub conf_file: PathBuf,
    /// Without a configuration: where clients connect, as host:port or a path.
    #[arg(long, value_name = "ADDRESS", requires = "server")]
    listen: Option<String>,
    /// Without a configuration: a server, as host:port; once for each.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "conf_file")]
    server: Vec<String>,
    /// How many threads serve.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,
    /// Bytes that a client may leave unread before it is closed, as `256mb`.
    #[arg(long, value_name = "BYTES", default_value = "256mb", value_parser = memory)]
    pub client_output_limit: usize,
    /// Only look whether the configuration is right.
    #[arg(short = 't', long)]
    pub test_conf: bool,
    /// Run in the background.
    #[arg(short = 'd', long)]
    pub daemonize: bool,
    /// Say what is counted.
    #[arg(short = 'D', long)]
    pub describe_stats: bool,
    /// Print the version.
    #[arg(short = 'V', long)]
    pub version: bool,
    /// How much is logged: taken, and everything that matters is logged.
    #[arg(short = 'v', long, value_name = "0-11", default_value_t = 5)]
    verbose: u8,
    /// The file that messages go to (stderr).
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The port of statistics; 0 for none.
    #[arg(short = 's', long, value_name = "PORT", default_value_t = 22222)]
    stats_port: u16,
    /// The address of statistics.
    #[arg(short = 'a', long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    stats_addr: String,
    /// How often statistics are gathered, in milliseconds: taken, they are never older than a tenth of a second.
    #[arg(short = 'i', long, value_name = "MS", default_value_t = 30_000)]
    stats_interval: u64,
    /// The file that the number of the process is written to.
    #[arg(short = 'p', long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// The size of a buffer: taken, buffers grow as they must.
    #[arg(short = 'm', long, value_name = "BYTES", default_value_t = 16_384)]
    mbuf_size: u64,
}

impl ProxyArguments {
    /// The pools.
    pub fn pools(&self) -> Result<Vec<PoolConfig>, String> {
        if self.server.is_empty() {
            let path = &self.conf_file;
            let text = fs::read_to_string(path)
                .map_err(|error| format!("conf: failed to open configuration '{}': {error}", path.display()))?;
            return nutcracker::parse(&text).map_err(|error| format!("{}: {error}", path.display()));
        }
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:22121");
        let mut text =
            format!("{POOL}:\n  listen: {listen}\n  redis: true\n  hash: murmur\n  hash_tag: \"{{}}\"\n  servers:\n");
        for server in &self.server {
            text.push_str(&format!("   - {server}:1\n"));
        }
        nutcracker::parse(&text).map_err(|error| format!("--listen, --server: {}", error.problem))
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
