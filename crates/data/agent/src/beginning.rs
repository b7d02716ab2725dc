//! A new cluster: ports, groups, the first change; and the programs that servers and proxies are.

use std::net::TcpListener;

use cluster::{Address, Cluster, Server, ServerKind, model::Proxy};

use crate::{
    error::AgentError,
    options::{Options, Shape},
    processes::{Declared, Program},
};

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
struct Place {
    name: String,
    ports: Ports,
}

impl Place {
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
    let groups = shape.groups.unwrap_or(Shape::GROUPS);
    let replicas = shape.replicas.unwrap_or(Shape::REPLICAS);
    let ack = shape.ack.unwrap_or(Shape::ACK.min(replicas));
    if groups == 0 {
        return Err(AgentError::Other("--groups is 0: a cluster has one group at least".into()));
    }
    if ack > replicas {
        return Err(AgentError::Other(format!(
            "--ack {ack} with {replicas} replicas of each master: it cannot wait for more than there are"
        )));
    }
    let mut places: Vec<Place> = hosts.iter().map(Place::of).collect();
    let mut cluster = Cluster::default();
    if !options.etcd.is_empty() {
        cluster.hosts = hosts.iter().map(|host| host.name.clone()).collect();
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
    let count = places.len();
    for id in 1..=groups {
        // Masters and replicas go round: those of a group are on different hosts, and masters are spread.
        let servers: Result<Vec<Server>, AgentError> = (0..=replicas)
            .map(|number| {
                let turn = (id as usize - 1 + number as usize) % count;
                let place = places.get_mut(turn).ok_or_else(|| AgentError::Other("there is no host".into()))?;
                server(place.ports.take()?, &place.name)
            })
            .collect();
        cluster = cluster.with_group(id, servers?, ack)?;
    }
    let mut cluster = cluster.with_slots_shared_out()?;
    // All of that is the first change.
    cluster.epoch = 1;
    cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
    Ok(cluster)
}

/// The program of a server. Its name says which server it is: one that gets the port of another one later gets no data of that.
#[must_use]
pub fn store(server: &Server) -> Declared {
    let id = server.id.get(..ID_SHOWN).unwrap_or(&server.id);
    let name = format!("store-{}-{id}", server.address.port());
    Declared { name, program: Program::Store, address: server.address.clone(), arguments: Vec::new(), is_loose: false }
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
    let mut bytes = [0; 20];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| AgentError::Other(format!("the system gives no random number: {error}")))?;
    let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
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
