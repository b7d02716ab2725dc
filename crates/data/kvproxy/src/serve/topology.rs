//! Where a proxy learns which server has which slots: a file that somebody replaces, a running cluster, or Sentinel.

use std::{
    fmt, fs,
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use commands::cluster::Topology;
use mio::Waker;
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

use super::{orders, worker::Shared};
use crate::{nutcracker::Address, proxy::Orders};

/// How often is looked for changes when nobody asks for that.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two looks at others.
const LEAST: Duration = Duration::from_millis(20);
/// How long a server may take to tell.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a topology at most.
const TEXT_MAX: usize = 4 * 1024 * 1024;

/// Where it is learned.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file with lines as `CLUSTER NODES` has them; who changes it renames another one to its name.
    File(PathBuf),
    /// Any node of a cluster that runs.
    Cluster {
        /// Nodes that are asked first.
        seeds: Vec<Address>,
        /// The servers' password, and whose it is if not their default user's.
        credentials: Option<(Option<String>, String)>,
    },
    /// Sentinels that look after one group.
    Sentinel {
        /// The group's name.
        group: String,
        /// The Sentinels.
        sentinels: Vec<Address>,
        /// The replicas are wanted too: they may be read from.
        with_replicas: bool,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Cluster { seeds, .. } => {
                let seeds: Vec<String> = seeds.iter().map(Address::to_string).collect();
                write!(formatter, "the cluster of {}", seeds.join(", "))
            }
            Self::Sentinel { group, .. } => write!(formatter, "Sentinel's group '{group}'"),
        }
    }
}

/// Why it is not known.
#[derive(Debug, thiserror::Error)]
#[error("which server has which slots cannot be learned from {place}: {reason}")]
pub struct TopologyUnknown {
    place: String,
    reason: String,
}

/// How the cluster is.
#[derive(Clone, Debug)]
pub struct View {
    /// Which server has which slots.
    pub topology: Topology,
    /// What is ordered about servers that know no slots; nothing where there cannot be any.
    pub orders: Option<Orders>,
}

/// Learns it again and again.
#[derive(Debug)]
pub struct Teacher {
    source: Source,
    /// Nodes that have been heard of.
    known: Vec<Address>,
    /// What the file was when it was last read: its number, its time and its length.
    read: Option<(u64, i64, i64, u64)>,
    /// What was last said to have failed.
    said: Option<String>,
}

impl Teacher {
    /// Of a source.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, known: Vec::new(), read: None, said: None }
    }

    /// How it is, if that may have changed.
    ///
    /// # Errors
    /// Nobody can be asked, or what they say makes no sense.
    pub fn learn(&mut self) -> Result<Option<View>, TopologyUnknown> {
        let outcome = match &self.source {
            Source::File(path) => {
                let path = path.clone();
                self.learn_from_file(&path)
            }
            Source::Cluster { seeds, credentials } => {
                let all: Vec<Address> = self.known.iter().chain(seeds).cloned().collect();
                let outcome = first_of(&all, |address| of_node(address, credentials.as_ref()));
                outcome.map(|topology| {
                    let nodes = topology.nodes.iter().filter(|node| !node.has_failed && !node.host.is_empty());
                    self.known = nodes.map(|node| Address::Tcp { host: node.host.clone(), port: node.port }).collect();
                    Some(View { topology, orders: None })
                })
            }
            Source::Sentinel { group, sentinels, with_replicas } => {
                let topology = first_of(sentinels, |address| of_sentinel(address, group, *with_replicas));
                topology.map(|topology| Some(View { topology, orders: None }))
            }
        };
        outcome.map_err(|reason| TopologyUnknown { place: self.source.to_string(), reason })
    }

    fn learn_from_file(&mut self, path: &PathBuf) -> Result<Option<View>, String> {
        let failed = |error: std::io::Error| super::sockets::plain(&error);
        let metadata = fs::metadata(path).map_err(failed)?;
        let is = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len());
        if self.read == Some(is) {
            return Ok(None);
        }
        if metadata.len() > TEXT_MAX as u64 {
            return Err(format!("it has more than {TEXT_MAX} bytes"));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let (orders, nodes) = orders::read(&text, path)?;
        let topology = Topology::parse(&nodes).map_err(|error| error.to_string())?;
        self.read = Some(is);
        Ok(Some(View { topology, orders: Some(orders) }))
    }

    /// Looks until when servers that know no slots may be used, if there are any.
    pub(super) fn look_at_lease(&self, shared: &Shared) {
        if let Source::File(path) = &self.source
            && shared.has_plain.load(Ordering::Relaxed)
        {
            *shared.lease.lock().unwrap_or_else(PoisonError::into_inner) = orders::read_lease(path);
        }
    }

    /// Learns until the process ends, and tells all threads.
    pub(super) fn teach(mut self, shared: &Shared, wakers: &[Arc<Waker>]) {
        let mut last = Instant::now();
        while !shared.stops.load(Ordering::Relaxed) {
            std::thread::sleep(LEAST);
            let is_asked = shared.refresh.swap(false, Ordering::Relaxed);
            if !is_asked && !matches!(self.source, Source::File(_)) && last.elapsed() < INTERVAL {
                continue;
            }
            last = Instant::now();
            let learned = self.learn();
            self.look_at_lease(shared);
            match learned {
                Ok(None) => {}
                Ok(Some(view)) => {
                    self.said = None;
                    if shared.set_view(view) {
                        wakers.iter().for_each(|waker| drop(waker.wake()));
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if self.said.as_ref() != Some(&error) {
                        let mut messages = shared.messages.lock().unwrap_or_else(PoisonError::into_inner);
                        messages.push(format!("{error}; what was known before is still used"));
                        self.said = Some(error);
                    }
                }
            }
        }
    }
}

fn first_of<T>(addresses: &[Address], ask: impl Fn(&Address) -> Result<T, String>) -> Result<T, String> {
    let mut reason = "nobody is there to be asked".to_owned();
    for address in addresses {
        match ask(address) {
            Ok(answer) => return Ok(answer),
            Err(error) => reason = format!("{address}: {error}"),
        }
    }
    Err(reason)
}

/// What a node of a cluster says.
fn of_node(address: &Address, credentials: Option<&(Option<String>, String)>) -> Result<Topology, String> {
    let auth = credentials.map(|(user, password)| {
        ["AUTH"].into_iter().chain(user.as_deref()).chain([password.as_str()]).collect::<Vec<&str>>()
    });
    let commands: Vec<&[&str]> = auth.iter().map(Vec::as_slice).chain([["CLUSTER", "NODES"].as_slice()]).collect();
    let reply = ask(address, &commands)?;
    let text = reply.as_bytes().map(String::from_utf8_lossy).ok_or("the reply to CLUSTER NODES is no text")?;
    // A node that nobody has spoken to knows no address of its own.
    let mine = |line: &str| match line.split_once(" :") {
        Some((id, rest)) if !id.contains(' ') => format!("{id} {}:{rest}\n", address.host()),
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(mine).collect();
    Topology::parse(&text).map_err(|error| error.to_string())
}

/// Where Sentinel says that a group's master is: it has all slots. With its replicas that are alive, if these are wanted.
fn of_sentinel(address: &Address, group: &str, with_replicas: bool) -> Result<Topology, String> {
    let reply = ask(address, &[&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", group]])?;
    let words = reply.as_slice().ok_or_else(|| format!("it knows no group '{group}'"))?;
    let [host, port] = words else { return Err("the reply has not two words".into()) };
    let text =
        |word: &Value| word.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    let mut lines = format!("master {}:{}@0 master - 0 0 1 connected 0-16383\n", text(host), text(port));
    if with_replicas {
        let replicas = ask(address, &[&["SENTINEL", "SLAVES", group]])?;
        for (number, replica) in replicas.as_slice().unwrap_or_default().iter().enumerate() {
            let fields = replica.as_slice().unwrap_or_default();
            let field = |name: &str| {
                let at = fields.iter().step_by(2).position(|word| word.as_bytes() == Some(name.as_bytes()))?;
                fields.get(at * 2 + 1).map(text)
            };
            let is_alive = field("flags").is_some_and(|flags| {
                !flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down" | "disconnected"))
            });
            if let (Some(ip), Some(port), true) = (field("ip"), field("port"), is_alive) {
                lines.push_str(&format!("replica{number} {ip}:{port}@0 slave master 0 0 1 connected\n"));
            }
        }
    }
    Topology::parse(&lines).map_err(|error| error.to_string())
}

/// The reply to the last of some commands; all of them have to succeed.
fn ask(address: &Address, commands: &[&[&str]]) -> Result<Value, String> {
    let plain = |error: std::io::Error| super::sockets::plain(&error);
    let Address::Tcp { host, port } = address else { return Err("it is no address of TCP".into()) };
    let mut places = (host.as_str(), *port).to_socket_addrs().map_err(plain)?;
    let place = places.next().ok_or("it has no address")?;
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE).map_err(plain)?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(plain)?;
    let mut request = Vec::new();
    commands.iter().for_each(|words| resp::encode_command(&mut request, words));
    stream.write_all(&request).map_err(plain)?;
    let mut buffer = Vec::new();
    let mut left = commands.len();
    let mut parser = ReplyParser::new();
    loop {
        match parser.parse(&buffer, &ReplyLimits::default()) {
            Ok(ReplyProgress::Complete { value, consumed }) => {
                if let Some(error) = value.as_error() {
                    return Err(String::from_utf8_lossy(error).into_owned());
                }
                buffer.drain(..consumed);
                parser = ReplyParser::new();
                left -= 1;
                if left == 0 {
                    return Ok(value);
                }
                continue;
            }
            Ok(_) if buffer.len() > TEXT_MAX => return Err(format!("its reply has more than {TEXT_MAX} bytes")),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let mut piece = [0; 16 * 1024];
        match stream.read(&mut piece).map_err(plain)? {
            0 => return Err("it has closed the connection".into()),
            count => buffer.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
}
