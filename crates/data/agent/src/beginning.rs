//! A new cluster: ports, groups, the first change; and the programs that servers and proxies are.

use std::net::TcpListener;

use cluster::{Address, Cluster, Server, ServerKind, model::Proxy};

use crate::{
    chance,
    error::AgentError,
    options::{Options, Shape},
    probe,
    processes::{Declared, Program},
    said,
};

/// The machine of a server that nobody here has started, and nobody starts: it was there before.
pub const ELSEWHERE: &str = "elsewhere";
/// Bytes of chance in a server's name.
const ID_BYTES: usize = 20;
/// Digits of a server's name that stand in that of its program.
const ID_SHOWN: usize = 6;

/// A host that a cluster begins on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The address that its stores and its proxy listen on.
    pub address: String,
    /// Its proxy's port.
    pub port: u16,
    /// It is this one.
    pub is_own: bool,
}

/// A host, and the ports that are left.
struct HostPorts {
    name: String,
    ports: Ports,
}

impl HostPorts {
    fn of(host: &Host) -> Self {
        let ports = Ports { host: host.address.clone(), next: host.port, is_own: host.is_own };
        Self { name: host.name.clone(), ports }
    }
}

/// Thinks of a cluster of the wanted shape.
///
/// # Errors
///
/// The shape makes no sense, or the machine has no free port.
pub fn begin(options: &Options, hosts: &[Host]) -> Result<Cluster, AgentError> {
    let shape = &options.shape;
    let takes_redis = !options.redis.is_empty();
    let usual = if takes_redis { 0 } else { Shape::GROUPS };
    let groups = shape.groups.unwrap_or(if options.adopted.is_some() { 1 } else { usual });
    let replicas = shape.replicas.unwrap_or(Shape::REPLICAS);
    let ack = shape.ack.unwrap_or(Shape::ACK.min(replicas));
    if takes_redis && !options.etcd.is_empty() {
        return Err(AgentError::Other(
            "--redis with --etcd: groups of Redis servers are for clusters whose agent and proxies run on one host yet"
                .into(),
        ));
    }
    if groups == 0 && !takes_redis {
        return Err(AgentError::Other("--groups is 0: a cluster has one group at least".into()));
    }
    if ack > replicas {
        return Err(AgentError::Other(format!(
            "--ack {ack} with {replicas} replicas of each master: it cannot wait for more than there are"
        )));
    }
    let mut places: Vec<HostPorts> = hosts.iter().map(HostPorts::of).collect();
    let mut cluster = Cluster::default();
    if !options.etcd.is_empty() {
        cluster.hosts = hosts.iter().map(|host| host.name.clone()).collect();
        cluster.addresses = hosts.iter().map(|host| (host.name.clone(), host.address.clone())).collect();
    }
    for host in hosts {
        let address = Address::new(&host.address, host.port);
        let taken =
            |error| AgentError::Other(format!("nobody can listen on {address}: {error} (--port chooses another one)"));
        if host.is_own {
            free(&address).map_err(taken)?;
        }
        cluster.proxies.push(Proxy { address, host: host.name.clone(), is_offline: false });
    }
    let adopted = options.adopted.as_ref();
    if let (Some(store), Some(place)) = (adopted, places.first_mut()) {
        place.ports.next = place.ports.next.max(store.address.port());
    }
    let count = places.len();
    if takes_redis {
        // It has all keys, so it has all slots: the other groups get theirs by moves.
        cluster = cluster.with_group(1, redis_group(options)?, 0)?.with_slots_shared_out()?;
    }
    let first = if takes_redis { 2 } else { 1 };
    for id in (first..).take(usize::try_from(groups).unwrap_or(usize::MAX)) {
        // Masters and replicas go round: those of a group are on different hosts, and masters are spread.
        let servers: Result<Vec<Server>, AgentError> = (0..=replicas)
            .map(|number| {
                if let Some(store) = adopted.filter(|_| id == 1 && number == 0) {
                    return Ok(store.clone());
                }
                let turn = (id as usize - 1 + number as usize) % count;
                let place = places.get_mut(turn).ok_or_else(|| AgentError::Other("there is no host".into()))?;
                server(place.ports.take()?, &place.name)
            })
            .collect();
        cluster = cluster.with_group(id, servers?, ack)?;
    }
    let mut cluster = if takes_redis { cluster } else { cluster.with_slots_shared_out()? };
    // All of that is the first change.
    cluster.epoch = 1;
    cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
    said::with_settings(options, cluster)
}

/// Running Redis servers as the first group, the master first.
fn redis_group(options: &Options) -> Result<Vec<Server>, AgentError> {
    let found = probe::servers(&options.redis, options.redis_credentials.as_ref()).and_then(probe::as_group);
    let found = found.map_err(|problem| AgentError::Other(format!("--redis: {problem}")))?;
    found.into_iter().map(|one| foreign(one.address)).collect()
}

/// A running Redis as a server of the cluster.
///
/// # Errors
///
/// The system gives no random number.
pub fn foreign(address: Address) -> Result<Server, AgentError> {
    Ok(Server { host: ELSEWHERE.into(), kind: ServerKind::Redis, ..server(address, ELSEWHERE)? })
}

/// The program of a server. Its name says which server it is: one that gets the port of another one later gets no data of that.
#[must_use]
pub fn program_of(server: &Server) -> Declared {
    let id = server.id.get(..ID_SHOWN).unwrap_or(&server.id);
    let program = match server.kind {
        ServerKind::Store => Program::Store,
        ServerKind::Redis => Program::Redis,
    };
    let name = format!("{}-{}-{id}", server.kind, server.address.port());
    Declared { name, program, address: server.address.clone(), arguments: Vec::new(), is_loose: false }
}

/// The program of a proxy.
#[must_use]
pub fn proxy(address: &Address) -> Declared {
    let name = format!("proxy-{}", address.port());
    Declared { name, program: Program::Proxy, address: address.clone(), arguments: Vec::new(), is_loose: false }
}

/// A server of the cluster, with a name nobody has.
///
/// # Errors
///
/// The system gives no random number.
pub fn server(address: Address, host: &str) -> Result<Server, AgentError> {
    let id = chance::digits::<ID_BYTES>().map_err(|error| AgentError::Other(error.to_string()))?;
    Ok(Server { address, id, host: host.to_owned(), kind: ServerKind::Store })
}

/// Whether a program can listen there.
///
/// # Errors
///
/// It cannot, and why.
pub fn free(address: &Address) -> std::io::Result<()> {
    TcpListener::bind((address.host(), address.port())).map(drop)
}

/// Ports that nobody listens on.
#[derive(Debug)]
pub struct Ports {
    /// The address.
    pub host: String,
    /// The last one that was given.
    pub next: u16,
    /// It is this machine's: it can be tried whether somebody listens.
    pub is_own: bool,
}

impl Ports {
    /// The next one.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn take(&mut self) -> Result<Address, AgentError> {
        loop {
            let none = || AgentError::Other(format!("no free port above {}: choose a lower --port", self.next));
            self.next = self.next.checked_add(1).ok_or_else(none)?;
            let address = Address::new(&self.host, self.next);
            if !self.is_own || free(&address).is_ok() {
                return Ok(address);
            }
        }
    }
}
