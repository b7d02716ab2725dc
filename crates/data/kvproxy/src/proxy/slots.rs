//! Servers that are spread by slots: which has which, as somebody told or as they say themselves.

use commands::cluster::{SLOTS, Topology};
use keyspace::slot::cluster_slot;

use super::{Link, LinkFailure, LinkState, Pool, Proxy, Server, own::Purpose};
use crate::{
    nutcracker::{Address, ServerConfig, SlotsConfig},
    policy::ReadFrom,
};

/// Nobody has the slot.
const NOBODY: u16 = u16::MAX;
/// Servers that a pool has at most: redirections to ever new ones are not followed.
const SERVERS_MAX: usize = 4_096;

/// Which server has which slot.
#[derive(Debug)]
pub struct Slots {
    owners: Box<[u16]>,
    /// The servers that have slots.
    servers: Vec<usize>,
    /// The servers that have failed, as whoever told of the cluster says.
    failed: Vec<usize>,
    /// The replicas of each server, by its place.
    replicas: Vec<Vec<usize>>,
    /// Where reads go.
    pub read_from: ReadFrom,
    /// When servers were last asked for their role, in milliseconds.
    pub watched_at: Option<u64>,
    /// For how many milliseconds a request that cannot be sent is tried again.
    pub retry_for: u64,
    /// All slots are always on one server, so keys of one command may have any.
    pub of_one_server: bool,
    /// Whoever says which server has which slot knows all servers.
    pub says_all: bool,
}

impl Slots {
    /// Nobody has any.
    #[must_use]
    pub fn new(config: SlotsConfig) -> Self {
        Self {
            owners: vec![NOBODY; SLOTS].into(),
            servers: Vec::new(),
            failed: Vec::new(),
            replicas: Vec::new(),
            read_from: config.read_from,
            watched_at: None,
            retry_for: u64::try_from(config.retry_for.as_millis()).unwrap_or(u64::MAX),
            of_one_server: config.of_one_server,
            says_all: false,
        }
    }

    /// The replicas of a server that may be alive.
    #[must_use]
    pub fn replicas_of(&self, server: usize) -> &[usize] {
        self.replicas.get(server).map_or(&[], Vec::as_slice)
    }

    /// How many slots have no server.
    #[must_use]
    pub fn unserved(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == NOBODY).count()
    }

    /// The server of a slot.
    #[inline]
    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.owners.get(usize::from(slot)).filter(|owner| **owner != NOBODY).map(|owner| usize::from(*owner))
    }

    /// The servers that have slots.
    #[must_use]
    pub fn servers(&self) -> &[usize] {
        &self.servers
    }

    fn set(&mut self, slot: u16, server: usize) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = u16::try_from(server).unwrap_or(NOBODY);
        }
        self.list_servers();
    }

    fn set_all(&mut self, owners: Vec<u16>) {
        self.owners = owners.into();
        self.list_servers();
    }

    fn list_servers(&mut self) {
        let mut has = vec![false; SERVERS_MAX];
        for owner in &self.owners {
            if let Some(place) = has.get_mut(usize::from(*owner)) {
                *place = true;
            }
        }
        self.servers = has.iter().enumerate().filter(|(_, has)| **has).map(|(place, _)| place).collect();
    }
}

impl Pool {
    /// The servers that have keys, where all are asked.
    pub fn with_keys(&self) -> Vec<usize> {
        match &self.slots {
            Some(slots) => slots.servers().to_vec(),
            None => {
                let alive = self.servers.iter().enumerate().filter(|(_, server)| server.ejected_until == 0);
                alive.map(|(place, _)| place).collect()
            }
        }
    }

    /// What keys that belong together have in common: their slot, or their server.
    pub(super) fn together(&self, key: &[u8], server: usize) -> usize {
        match &self.slots {
            Some(slots) if !slots.of_one_server => usize::from(cluster_slot(key)),
            _ => server,
        }
    }

    /// What keys have in common that one request may carry to a server.
    pub(super) fn part_of(&self, key: &[u8], server: usize) -> usize {
        let is_store = self.servers.get(server).is_some_and(|server| server.is_store == Some(true));
        if is_store { server } else { self.together(key, server) }
    }
}

impl Proxy {
    /// Takes over how a cluster is. Servers that have failed are given up. One that is not among the nodes is not: who told may not
    /// have heard of it yet.
    pub fn set_topology(&mut self, pool: usize, topology: &Topology) {
        let mut owners = vec![NOBODY; SLOTS];
        let mut has_failed: Vec<Option<bool>> = vec![None; SERVERS_MAX];
        let mut replicas: Vec<Vec<usize>> = Vec::new();
        let places: Vec<Option<usize>> =
            topology.nodes.iter().map(|node| self.server_at(pool, &node.host, node.port)).collect();
        for (node, server) in topology.nodes.iter().zip(&places) {
            let Some(server) = *server else { continue };
            if let Some(master) = node.master.and_then(|place| *places.get(place)?).filter(|_| !node.has_failed) {
                replicas.resize_with(replicas.len().max(master + 1), Vec::new);
                replicas.get_mut(master).into_iter().for_each(|known| known.push(server));
            }
            if let Some(failed) = has_failed.get_mut(server) {
                // An address may have had another node before.
                *failed = Some(failed.unwrap_or(true) && node.has_failed);
            }
            for (first, last) in &node.slots {
                for slot in usize::from(*first)..=usize::from(*last) {
                    if let Some(owner) = owners.get_mut(slot) {
                        *owner = server as u16;
                    }
                }
            }
        }
        let Some(slots) = self.pools.get_mut(pool).and_then(|pool| pool.slots.as_mut()) else { return };
        let failed = has_failed.iter().enumerate().filter(|(_, failed)| **failed == Some(true));
        slots.failed = failed.map(|(server, _)| server).collect();
        slots.replicas = replicas;
        let is_changed = *slots.owners != *owners;
        if is_changed {
            slots.set_all(owners);
            self.hold_all(pool);
            self.wake_parked();
        }
        let is_gone = |link: &Link| {
            link.pool == pool && link.state != LinkState::Closed && has_failed.get(link.server) == Some(&Some(true))
        };
        let gone: Vec<usize> = self.links.iter().filter(|(_, link)| is_gone(link)).map(|(index, _)| index).collect();
        for index in gone {
            self.link_failed(index, &LinkFailure::Other("the cluster has given the server up".into()));
        }
    }

    /// Whether a server has failed, as whoever told of the cluster says. One that says otherwise has not heard of it yet.
    pub(super) fn has_failed(&self, pool: usize, server: usize) -> bool {
        let slots = self.pools.get(pool).and_then(|pool| pool.slots.as_ref());
        slots.is_some_and(|slots| slots.failed.contains(&server))
    }

    /// A server has said that another one has a slot.
    pub(super) fn learn(&mut self, pool: usize, slot: u16, server: usize) {
        if let Some(slots) = self.pools.get_mut(pool).and_then(|pool| pool.slots.as_mut()) {
            slots.set(slot, server);
        }
    }

    /// The place of the server at an address, which is a new one if none is there yet.
    pub(super) fn server_at(&mut self, pool: usize, host: &str, port: u16) -> Option<usize> {
        let known = self.pools.get_mut(pool)?;
        let address = Address::Tcp { host: host.to_owned(), port };
        if let Some(place) = known.config.servers.iter().position(|server| server.address == address) {
            return Some(place);
        }
        let place = known.servers.len();
        if place >= SERVERS_MAX || host.is_empty() {
            return None;
        }
        let links = (0..known.config.server_connections)
            .map(|_| self.links.insert(Link::new(pool, place, None).keeping(known.slots.is_some())))
            .collect();
        known.config.servers.push(ServerConfig { name: address.to_string(), address, weight: 1 });
        known.servers.push(Server::with_links(links));
        Some(place)
    }

    /// Requests of a client that follow others wait until those are answered: these may go to another server than what comes.
    fn hold_all(&mut self, pool: usize) {
        for (_, client) in &mut self.clients {
            let is_listening = client.own.as_ref().is_some_and(|own| matches!(own.purpose, Purpose::Listening { .. }));
            if client.pool == pool && !client.is_settled() && !is_listening {
                client.holds = true;
            }
        }
    }
}
