//! A new cluster: ports, groups, the first change; and the programs that servers and proxies are.

use std::net::TcpListener;

use cluster::{Address, Cluster, Server, ServerKind, model::Proxy};

use crate::{
    error::AgentError,
    options::{Options, Shape},
    processes::{Declared, Program},
};

/// How the machine is called while there is only one.
pub const HOST_NAME: &str = "local";
/// Digits of a server's name that stand in that of its program.
const ID_SHOWN: usize = 6;

/// Thinks of a cluster of the wanted shape.
///
/// # Errors
///
/// The shape makes no sense, or the machine has no free port.
pub fn begin(options: &Options) -> Result<Cluster, AgentError> {
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
    let address = Address::new(&options.host, options.port);
    let taken =
        |error| AgentError::Other(format!("nobody can listen on {address}: {error} (--port chooses another one)"));
    free(&address).map_err(taken)?;
    let mut ports = Ports { host: options.host.clone(), next: options.port };
    let proxy = Proxy { address, host: HOST_NAME.into(), is_offline: false };
    let mut cluster = Cluster { proxies: vec![proxy], ..Cluster::default() };
    for id in 1..=groups {
        let servers: Result<Vec<Server>, AgentError> = (0..=replicas).map(|_| server(ports.take()?)).collect();
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
pub fn server(address: Address) -> Result<Server, AgentError> {
    let mut bytes = [0; 20];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| AgentError::Other(format!("the system gives no random number: {error}")))?;
    let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
    Ok(Server { address, id, host: HOST_NAME.into(), kind: ServerKind::Store })
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
            if free(&address).is_ok() {
                return Ok(address);
            }
        }
    }
}
