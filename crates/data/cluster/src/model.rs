//! What a cluster is: groups of servers, who has which slot, and the proxies.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{pace::MoveBounds, policy::Policy, settings::StoreSettings, slots::SlotMap};

pub use crate::slots::GroupId;

/// A change of the cluster by number; 0 is before the first.
pub type Epoch = u64;

/// Where a server listens: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: u16,
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address: host:port is expected, such as 127.0.0.1:6380")]
pub struct NoAddress(String);

impl Address {
    /// A host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let wrong = || NoAddress(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b',' && byte != b'@';
        if host.is_empty() || port == 0 || !host.bytes().all(is_plain) {
            return Err(wrong());
        }
        Ok(Self::new(host, port))
    }
}

impl TryFrom<String> for Address {
    type Error = NoAddress;

    fn try_from(text: String) -> Result<Self, NoAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

/// What a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// A store of ours: it knows slots, epochs and leases.
    #[default]
    Store,
    /// A Redis or a Valkey, without its own cluster: it knows none of these, so clients reach it through proxies alone.
    Redis,
}

impl ServerKind {
    /// Whether it is a store of ours.
    #[must_use]
    pub fn is_store(&self) -> bool {
        *self == Self::Store
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Store => "store",
            Self::Redis => "redis",
        })
    }
}

/// A store, or a Redis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// Its name among the nodes of the cluster: 40 hexadecimal digits.
    pub id: String,
    /// The machine that it runs on, as its agent is called.
    pub host: String,
    /// What it is. All servers of a group are of one kind.
    #[serde(default, skip_serializing_if = "ServerKind::is_store")]
    pub kind: ServerKind,
}

/// A master and its replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// All of them.
    pub servers: Vec<Server>,
    /// Which of them is the master.
    pub master: Address,
    /// How many replicas must have a write before it is acknowledged.
    pub ack: u32,
    /// With fewer replicas in sync than `ack`: writes wait, instead of going on with those that are left.
    #[serde(default)]
    pub is_strict: bool,
    /// The epoch in which its master became the master.
    pub config_epoch: Epoch,
    /// The same master was the master before that, at another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reign: Option<Reign>,
}

/// A master's time that goes on though its epoch is another one: its host has got another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reign {
    /// The epoch in which the time began.
    pub began: Epoch,
    /// The group's epoch ([`Group::config_epoch`]) of which that is said: of a later one it says nothing.
    pub of: Epoch,
}

impl Group {
    /// The epoch in which the time of its master began: what that has acknowledged since is in its log, whatever its address.
    #[must_use]
    pub fn reign(&self) -> Epoch {
        self.reign.filter(|reign| reign.of == self.config_epoch).map_or(self.config_epoch, |reign| reign.began)
    }

    /// The server at an address.
    #[must_use]
    pub fn server(&self, address: &Address) -> Option<&Server> {
        self.servers.iter().find(|server| server.address == *address)
    }

    /// What its servers are.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        self.servers.first().map_or(ServerKind::Store, |server| server.kind)
    }

    /// All but the master.
    pub fn replicas(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.address != self.master)
    }
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The change that made it so.
    pub epoch: Epoch,
    /// The groups.
    pub groups: BTreeMap<GroupId, Group>,
    /// Who has which slot.
    pub slots: SlotMap,
    /// The proxies.
    #[serde(default)]
    pub proxies: Vec<Proxy>,
    /// How fast slots move.
    #[serde(default)]
    pub moves: MoveBounds,
    /// What agents do by themselves.
    #[serde(default, skip_serializing_if = "Policy::is_usual")]
    pub policy: Policy,
    /// The machines, as their agents are called: each has a vote. None is one machine that has no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The addresses of machines by their names. One that is not here is called by its address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, String>,
    /// Settings of stores.
    #[serde(default, skip_serializing_if = "StoreSettings::is_empty")]
    pub settings: StoreSettings,
}

/// How the machine of a cluster is called that has no other one.
pub const LONE_HOST: &str = "local";

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// Where clients connect.
    pub address: Address,
    /// The machine that it runs on.
    pub host: String,
    /// It takes no clients: it is not to run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_offline: bool,
}

/// Who of a group has all that was acknowledged. It belongs to a master's time: what is written of an older one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSync {
    /// The epoch in which the master became the master.
    pub config_epoch: Epoch,
    /// The replicas.
    pub members: Vec<Address>,
    /// So many of them have each acknowledged write; nothing: as many as the group says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<u32>,
    /// One more with each write: what was asked for and has not been heard of is known to be done with when another one is done.
    #[serde(default)]
    pub serial: u64,
}

impl Cluster {
    /// The group of a server.
    #[must_use]
    pub fn group_of(&self, address: &Address) -> Option<GroupId> {
        self.groups.iter().find(|(_, group)| group.server(address).is_some()).map(|(id, _)| *id)
    }

    /// What a server is; what is not in the cluster is taken for a store.
    #[must_use]
    pub fn kind_of(&self, address: &Address) -> ServerKind {
        let mut servers = self.groups.values().flat_map(|group| &group.servers);
        servers.find(|server| server.address == *address).map_or(ServerKind::Store, |server| server.kind)
    }

    /// Whose votes count.
    #[must_use]
    pub fn voters(&self) -> Vec<&str> {
        if self.hosts.is_empty() { vec![LONE_HOST] } else { self.hosts.iter().map(String::as_str).collect() }
    }

    /// How many votes are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters().len() / 2 + 1
    }

    /// The address of a host. A machine that has no name has that of its first proxy, or of its first server.
    #[must_use]
    pub fn address_of<'a>(&'a self, host: &'a str) -> Option<&'a str> {
        if let Some(address) = self.addresses.get(host) {
            return Some(address);
        }
        if self.hosts.iter().any(|known| known == host) {
            return Some(host);
        }
        let proxies = self.proxies.iter().filter(|proxy| proxy.host == host).map(|proxy| &proxy.address);
        let servers = self.servers().map(|(_, server)| server).filter(|server| server.host == host);
        proxies.chain(servers.map(|server| &server.address)).map(Address::host).next()
    }

    /// The host that has an address.
    #[must_use]
    pub fn host_with(&self, address: &str) -> Option<&str> {
        self.hosts.iter().map(String::as_str).find(|host| self.address_of(host) == Some(address))
    }

    /// The hosts that new servers of a group go to, the best first: those that have none of it, then those with the fewest servers.
    #[must_use]
    pub fn hosts_for(&self, group: Option<GroupId>) -> Vec<&str> {
        let count_on = |host: &str, only: Option<GroupId>| {
            let servers = self.servers().filter(|(id, _)| only.is_none_or(|only| only == *id));
            servers.filter(|(_, server)| server.host == host).count()
        };
        let mut hosts = self.voters();
        hosts.sort_by_key(|host| (group.map_or(0, |group| count_on(host, Some(group))), count_on(host, None)));
        hosts
    }

    /// All servers with their groups.
    pub fn servers(&self) -> impl Iterator<Item = (GroupId, &Server)> {
        self.groups.iter().flat_map(|(id, group)| group.servers.iter().map(|server| (*id, server)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        for good in ["127.0.0.1:6380", "store-1.example:1", "::1:6379"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in ["", "a", ":1", "a:", "a:0", "a:65536", "a b:1", "a,b:1"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
