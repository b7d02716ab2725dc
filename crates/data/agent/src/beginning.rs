//! A new cluster: ports, groups, the programs' list, and the first change.

use std::net::TcpListener;

use cluster::{Address, Cluster, Server, model::Proxy};

use crate::{
    error::AgentError,
    options::{Options, Shape},
    processes::{Declared, Program},
};

/// How the machine is called while there is only one.
pub const HOST_NAME: &str = "local";

/// A cluster that has just been thought of.
#[derive(Debug)]
pub struct Begun {
    /// What it is.
    pub cluster: Cluster,
    /// What is to run for it.
    pub programs: Vec<Declared>,
}

/// Thinks of a cluster of the wanted shape.
///
/// # Errors
///
/// The shape makes no sense, or the machine has no free port.
pub fn begin(options: &Options) -> Result<Begun, AgentError> {
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
    let proxy = Address::new(&options.host, options.port);
    free(&proxy).map_err(|problem| AgentError::Other(format!("{problem} (--port chooses another one)")))?;
    let mut ports = Ports { host: options.host.clone(), next: options.port };
    let mut programs = vec![Declared {
        name: format!("proxy-{}", options.port),
        program: Program::Proxy,
        address: proxy.clone(),
        arguments: Vec::new(),
    }];
    let mut cluster = Cluster { proxies: vec![Proxy { address: proxy, host: HOST_NAME.into() }], ..Cluster::default() };
    for id in 1..=groups {
        let mut servers = Vec::new();
        for _ in 0..=replicas {
            let declared = store(ports.take()?);
            servers.push(server(&declared)?);
            programs.push(declared);
        }
        cluster = cluster.with_group(id, servers, ack)?;
    }
    let mut cluster = cluster.with_slots_shared_out()?;
    // All of that is the first change.
    cluster.epoch = 1;
    cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
    Ok(Begun { cluster, programs })
}

/// A store that is to run.
#[must_use]
pub fn store(address: Address) -> Declared {
    let name = format!("store-{}", address.port());
    Declared { name, program: Program::Store, address, arguments: Vec::new() }
}

/// A server of the cluster, with a name nobody has.
///
/// # Errors
///
/// The system gives no random number.
pub fn server(declared: &Declared) -> Result<Server, AgentError> {
    let mut bytes = [0; 20];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| AgentError::Other(format!("the system gives no random number: {error}")))?;
    let id = bytes.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
    Ok(Server { address: declared.address.clone(), id, host: HOST_NAME.into() })
}

fn free(address: &Address) -> Result<(), String> {
    let bound = TcpListener::bind((address.host(), address.port()));
    bound.map(drop).map_err(|error| format!("nobody can listen on {address}: {error}"))
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
