//! Machines of a cluster: they come, they go, and they get other addresses. A machine is known by its name, which it keeps in its folder
//! with its data; its address is a property of it.

use std::collections::BTreeMap;

use crate::{
    change::Refusal,
    model::{Address, Cluster, Epoch, InSync, Proxy, Reign},
};

/// The addresses that hosts have from now on, by their names.
pub type NewAddresses = BTreeMap<String, String>;

/// Servers and proxies that are the same as before at other addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renamed(BTreeMap<Address, Address>);

impl Renamed {
    /// What an address is called now.
    #[must_use]
    pub fn of(&self, address: &Address) -> Address {
        self.0.get(address).unwrap_or(address).clone()
    }

    /// Whether an address is another one now.
    #[must_use]
    pub fn has(&self, address: &Address) -> bool {
        self.0.contains_key(address)
    }

    /// Who of a group is in sync, by the new addresses; nothing if they are the same as before. `since`: the epoch in which its master
    /// became the master, by the new record.
    #[must_use]
    pub fn in_sync(&self, in_sync: &InSync, since: Epoch) -> Option<InSync> {
        let members: Vec<Address> = in_sync.members.iter().map(|member| self.of(member)).collect();
        let is_same = members == in_sync.members && since == in_sync.config_epoch;
        // NOTE: the next number. What was asked for before and was not heard of cannot be written after this, and does not count any more.
        (!is_same).then(|| InSync { config_epoch: since, members, ack: in_sync.ack, serial: in_sync.serial + 1 })
    }
}

impl Cluster {
    /// What is called otherwise when hosts have other addresses: the servers and proxies that listen on the former ones.
    #[must_use]
    pub fn renamed(&self, new: &NewAddresses) -> Renamed {
        let servers = self.servers().map(|(_, server)| (&server.host, &server.address));
        let proxies = self.proxies.iter().map(|proxy| (&proxy.host, &proxy.address));
        let renamed = servers.chain(proxies).filter_map(|(host, address)| {
            let now = new.get(host)?;
            (self.address_of(host) == Some(address.host()) && now != address.host())
                .then(|| (address.clone(), Address::new(now, address.port())))
        });
        Renamed(renamed.collect())
    }

    /// With hosts that have other addresses. A group whose master is among their servers counts as one with another master: nobody who was
    /// told of the former address is believed any more.
    ///
    /// # Errors
    ///
    /// Two hosts would have the same address.
    pub fn with_addresses(&self, new: &NewAddresses) -> Result<Self, Refusal> {
        let renamed = self.renamed(new);
        let mut next = self.next();
        let epoch = next.epoch;
        for group in next.groups.values_mut() {
            group.servers.iter_mut().for_each(|server| server.address = renamed.of(&server.address));
            if renamed.has(&group.master) {
                group.reign = Some(Reign { began: group.reign(), of: epoch });
                group.config_epoch = epoch;
            }
            group.master = renamed.of(&group.master);
        }
        next.proxies.iter_mut().for_each(|proxy| proxy.address = renamed.of(&proxy.address));
        next.addresses.extend(new.iter().map(|(host, address)| (host.clone(), address.clone())));
        for host in new.keys() {
            let address = next.address_of(host).unwrap_or_default();
            if let Some(other) =
                next.hosts.iter().find(|other| *other != host && next.address_of(other) == Some(address))
            {
                return Err(Refusal::AddressTaken { host: other.clone(), address: address.to_owned() });
            }
        }
        Ok(next)
    }

    /// With one more machine, which has a vote from then on, and its proxy.
    ///
    /// # Errors
    ///
    /// It is there already, or its address or the proxy's is taken.
    pub fn with_host(&self, proxy: Proxy, address: &str) -> Result<Self, Refusal> {
        if self.hosts.contains(&proxy.host) {
            return Err(Refusal::HostExists(proxy.host));
        }
        if let Some(host) = self.host_with(address) {
            return Err(Refusal::AddressTaken { host: host.to_owned(), address: address.to_owned() });
        }
        let host = proxy.host.clone();
        // One that was left out of a rescue has its proxy still.
        let has_proxy = self.proxy(&proxy.address).is_some_and(|known| known.host == host);
        let mut next = if has_proxy { self.next() } else { self.with_proxy(proxy)? };
        next.addresses.insert(host.clone(), address.to_owned());
        next.hosts.push(host);
        Ok(next)
    }

    /// Without a machine: its vote, its replicas and its proxies.
    ///
    /// # Errors
    ///
    /// It is not there, has a master, or has replicas for which writes wait.
    pub fn without_host(&self, host: &str) -> Result<Self, Refusal> {
        if !self.hosts.iter().any(|known| known == host) {
            return Err(Refusal::NoHost(host.to_owned()));
        }
        if self.hosts.len() == 1 {
            return Err(Refusal::OnlyHost(host.to_owned()));
        }
        let mut next = self.clone();
        for (id, server) in self.servers().filter(|(_, server)| server.host == host) {
            if self.groups.get(&id).is_some_and(|group| group.master == server.address) {
                let (host, server) = (host.to_owned(), server.address.clone());
                return Err(Refusal::HostHasMaster { host, group: id, server });
            }
            next = next.without_server(id, &server.address, None)?;
        }
        next.hosts.retain(|known| known != host);
        next.addresses.remove(host);
        next.proxies.retain(|proxy| proxy.host != host);
        Ok(Self { epoch: self.epoch + 1, ..next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::two_groups,
        model::{GroupId, ServerKind},
    };

    /// Group 1 on hosts a (master) and b, group 2 on b (master) and c; a proxy on each.
    fn three_hosts() -> Cluster {
        let mut cluster = two_groups();
        cluster.hosts = ["a", "b", "c"].map(str::to_owned).into();
        let place = |number: u16| ["a", "b", "b", "c"][usize::from(number) - 1];
        for group in cluster.groups.values_mut() {
            for server in &mut group.servers {
                server.host = place(server.address.port()).to_owned();
                server.address = Address::new(server.host.clone(), server.address.port());
            }
            group.master = group.servers[0].address.clone();
        }
        let proxy = |host: &str| Proxy { address: Address::new(host, 9), host: host.to_owned(), is_offline: false };
        cluster.proxies = ["a", "b", "c"].map(proxy).into();
        cluster
    }

    fn new(pairs: &[(&str, &str)]) -> NewAddresses {
        pairs.iter().map(|(host, address)| ((*host).to_owned(), (*address).to_owned())).collect()
    }

    fn shown(cluster: &Cluster, id: GroupId) -> String {
        let group = &cluster.groups[&id];
        let servers: Vec<String> = group.servers.iter().map(|server| server.address.to_string()).collect();
        format!("{} of {} since {}", group.master, servers.join(" "), group.config_epoch)
    }

    #[test]
    fn hosts_with_other_addresses_are_the_same_hosts() {
        let cluster = three_hosts();
        let moved = cluster.with_addresses(&new(&[("a", "x"), ("c", "z")])).unwrap();
        assert_eq!(shown(&moved, 1), "x:1 of x:1 b:2 since 2");
        assert_eq!(shown(&moved, 2), "b:3 of b:3 z:4 since 1", "its master is where it was");
        let proxies: Vec<String> = moved.proxies.iter().map(|proxy| proxy.address.to_string()).collect();
        assert_eq!(proxies, ["x:9", "b:9", "z:9"]);
        assert_eq!((moved.address_of("a"), moved.host_with("z"), moved.host_with("a")), (Some("x"), Some("c"), None));
        // Once more, and two that change their addresses for each other's.
        let swapped = moved.with_addresses(&new(&[("a", "b"), ("b", "x")])).unwrap();
        assert_eq!(shown(&swapped, 1), "b:1 of b:1 x:2 since 3");
        assert!(moved.with_addresses(&new(&[("a", "b")])).is_err());
        // Their masters' time has not ended by that; it does when somebody else is the master.
        let reigns = |cluster: &Cluster| [1, 2].map(|id| cluster.groups[&id].reign());
        assert_eq!(swapped.groups[&1].config_epoch, 3);
        assert_eq!(reigns(&swapped), [1, 1]);
        let other = swapped.with_master(1, &Address::new("x", 2)).unwrap();
        assert_eq!(reigns(&other), [4, 1]);
        assert_eq!(reigns(&other.with_addresses(&new(&[("b", "q")])).unwrap()), [4, 1]);
        let text = serde_json::to_string(&moved).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap(), moved);
    }

    #[test]
    fn who_is_in_sync_is_called_by_the_new_addresses() {
        let cluster = three_hosts();
        let addresses = new(&[("a", "x"), ("b", "y")]);
        let (renamed, next) = (cluster.renamed(&addresses), cluster.with_addresses(&addresses).unwrap());
        let in_sync = |member: &str, config_epoch, serial| InSync {
            config_epoch,
            members: vec![member.parse().unwrap()],
            ack: Some(1),
            serial,
        };
        let since = |id: GroupId| next.groups[&id].config_epoch;
        assert_eq!(renamed.in_sync(&in_sync("b:2", 1, 7), since(1)), Some(in_sync("y:2", 2, 8)));
        assert_eq!(renamed.in_sync(&in_sync("c:4", 1, 7), since(2)), Some(in_sync("c:4", 2, 8)));
        let one = new(&[("a", "x")]);
        let next = cluster.with_addresses(&one).unwrap();
        assert_eq!(cluster.renamed(&one).in_sync(&in_sync("c:4", 1, 7), next.groups[&2].config_epoch), None);
    }

    #[test]
    fn a_machine_without_a_name_has_an_address_too() {
        let mut cluster = two_groups();
        for group in cluster.groups.values_mut() {
            group.servers.iter_mut().for_each(|server| server.host = "local".into());
        }
        cluster.proxies.iter_mut().for_each(|proxy| proxy.host = "local".into());
        cluster.proxies.push(Proxy { address: Address::new("0.0.0.0", 11), host: "local".into(), is_offline: false });
        assert_eq!(cluster.address_of("local"), Some("127.0.0.1"));
        let moved = cluster.with_addresses(&new(&[("local", "10.0.0.5")])).unwrap();
        assert_eq!(shown(&moved, 1), "10.0.0.5:1 of 10.0.0.5:1 10.0.0.5:2 since 2");
        assert_eq!((moved.proxies[1].address.host(), moved.address_of("local")), ("0.0.0.0", Some("10.0.0.5")));
        assert_eq!(moved.kind_of(&Address::new("10.0.0.5", 1)), ServerKind::Store);
    }

    #[test]
    fn a_host_that_has_come_may_go_again() {
        let cluster = three_hosts();
        let proxy = |host: &str| Proxy { address: Address::new("w", 9), host: host.to_owned(), is_offline: false };
        assert!(matches!(cluster.with_host(proxy("a"), "w"), Err(Refusal::HostExists(_))));
        assert!(matches!(cluster.with_host(proxy("d"), "b"), Err(Refusal::AddressTaken { .. })));
        let more = cluster.with_host(proxy("d"), "w").unwrap();
        assert_eq!((more.epoch, more.hosts.len(), more.majority(), more.address_of("d")), (2, 4, 3, Some("w")));
        // A rescue that goes without a host takes its vote, and leaves its proxy.
        let rescued = Cluster { hosts: cluster.hosts.clone(), ..more.clone() };
        let back = rescued.with_host(proxy("d"), "w").unwrap();
        assert_eq!((&back.hosts, &back.proxies), (&more.hosts, &more.proxies));
        let fewer = more.without_host("d").unwrap();
        assert_eq!((fewer.epoch, &fewer.hosts, &fewer.addresses), (3, &cluster.hosts, &cluster.addresses));
        assert_eq!(fewer.proxies, cluster.proxies);
        for (host, expected) in [
            ("x", "there is no host x"),
            ("a", "host a has the master of group 1, a:1"),
            ("c", "without c:4 group 2 has 0 replicas"),
        ] {
            let text = cluster.without_host(host).unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
        let lone = Cluster { hosts: vec!["d".into()], ..Cluster::default() };
        assert!(matches!(lone.without_host("d"), Err(Refusal::OnlyHost(_))));
    }
}
