//! Which host has which servers of a new cluster, and what a host gets that joins one. No replica is on its master's host where there
//! is another one.

use serde::{Deserialize, Serialize};

use crate::{
    change::Refusal,
    model::{Address, Cluster, Proxy, Server},
};

/// What a host has to offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// How its agent is called.
    pub host: String,
    /// Where its proxy listens.
    pub proxy: Address,
    /// Where stores may listen.
    pub places: Vec<Address>,
}

/// What a new cluster is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Groups.
    pub groups: u32,
    /// Replicas of each master.
    pub replicas: u32,
    /// How many of them must have a write.
    pub ack: u32,
}

/// Places are given out by number.
struct Places<'a> {
    offers: &'a [Offer],
    next: Vec<usize>,
}

impl Places<'_> {
    fn take(&mut self, host: usize, id: String) -> Result<Server, Refusal> {
        let full = || Refusal::NoPlace(self.offers.get(host).map(|offer| offer.host.clone()).unwrap_or_default());
        let (offer, next) = self.offers.get(host).zip(self.next.get_mut(host)).ok_or_else(full)?;
        let address = offer.places.get(*next).cloned().ok_or_else(|| Refusal::NoPlace(offer.host.clone()))?;
        *next += 1;
        Ok(Server { address, id, host: offer.host.clone() })
    }
}

/// A new cluster on some hosts: masters are shared out among them, and each replica is on another host than its master, if there is one.
///
/// # Errors
///
/// A host has too few places.
pub fn begin(offers: &[Offer], wanted: Wanted, mut id: impl FnMut() -> String) -> Result<Cluster, Refusal> {
    let count = offers.len().max(1);
    let mut places = Places { offers, next: vec![0; offers.len()] };
    let mut cluster = Cluster {
        hosts: offers.iter().map(|offer| offer.host.clone()).collect(),
        replicas_wanted: wanted.replicas,
        ..Cluster::default()
    };
    cluster.proxies = offers.iter().map(proxy_of).collect();
    for number in 0..wanted.groups {
        let first = number as usize % count;
        let mut servers = vec![places.take(first, id())?];
        // Fewer hosts than servers of a group: those that are left join later hosts, unless there is one host alone and nobody to wait for.
        for replica in 0..wanted.replicas as usize {
            let others = count - 1;
            let host = if others == 0 { first } else { (first + 1 + replica % others) % count };
            servers.push(places.take(host, id())?);
        }
        cluster = cluster.with_group(number + 1, servers, wanted.ack)?;
    }
    cluster = cluster.with_slots_shared_out()?;
    // All of that is the first change.
    cluster.epoch = 1;
    cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
    Ok(cluster)
}

fn proxy_of(offer: &Offer) -> Proxy {
    Proxy { address: offer.proxy.clone(), host: offer.host.clone() }
}

impl Cluster {
    /// With one more host: it votes, has a proxy, and gets replicas of groups that lack some.
    ///
    /// # Errors
    ///
    /// It is there already, or has too few places.
    pub fn with_host(&self, offer: &Offer, mut id: impl FnMut() -> String) -> Result<Self, Refusal> {
        if self.hosts.contains(&offer.host) {
            return Err(Refusal::HostExists(offer.host.clone()));
        }
        let mut next = Self { epoch: self.epoch + 1, ..self.clone() };
        next.hosts.push(offer.host.clone());
        next.proxies.push(proxy_of(offer));
        let taken = |address: &Address| self.servers().any(|(_, server)| server.address == *address);
        let mut places = offer.places.iter().filter(|place| !taken(place)).cloned();
        for group in next.groups.values_mut() {
            let is_here = group.servers.iter().any(|server| server.host == offer.host);
            if is_here || group.servers.len() as u64 > u64::from(self.replicas_wanted) {
                continue;
            }
            let address = places.next().ok_or_else(|| Refusal::NoPlace(offer.host.clone()))?;
            group.servers.push(Server { address, id: id(), host: offer.host.clone() });
        }
        Ok(next)
    }

    /// Who votes.
    #[must_use]
    pub fn voters(&self) -> Vec<String> {
        if !self.hosts.is_empty() {
            return self.hosts.clone();
        }
        // One that was begun before hosts were written down.
        let mut hosts: Vec<String> = self.servers().map(|(_, server)| server.host.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(number: u16) -> Offer {
        let address = |port| Address::new(format!("10.0.0.{number}"), port);
        let places = (6_380..6_400).map(address).collect();
        Offer { host: format!("10.0.0.{number}"), proxy: address(6_379), places }
    }

    fn ids() -> impl FnMut() -> String {
        let mut last = 0;
        move || {
            last += 1;
            format!("n{last}")
        }
    }

    #[test]
    fn masters_are_shared_out_and_replicas_are_elsewhere() {
        for (hosts, groups, replicas) in [(3, 2, 1), (3, 3, 2), (2, 5, 2), (4, 1, 6), (5, 7, 1)] {
            let offers: Vec<Offer> = (1..=hosts).map(offer).collect();
            let wanted = Wanted { groups, replicas, ack: 1 };
            let cluster = begin(&offers, wanted, ids()).unwrap();
            assert_eq!((cluster.epoch, cluster.hosts.len(), cluster.proxies.len()), (1, hosts.into(), hosts.into()));
            let mut masters = vec![0; hosts.into()];
            for group in cluster.groups.values() {
                assert_eq!(group.servers.len() as u32, replicas + 1);
                let host = &group.server(&group.master).unwrap().host;
                masters[offers.iter().position(|offer| offer.host == *host).unwrap()] += 1;
                assert!(group.replicas().all(|server| server.host != *host), "{hosts} {groups} {replicas}");
            }
            assert!(masters.iter().max().unwrap() - masters.iter().min().unwrap() <= 1);
        }
        let alone = begin(&[offer(1)], Wanted { groups: 2, replicas: 1, ack: 1 }, ids()).unwrap();
        assert_eq!(alone.servers().count(), 4);
        let narrow = Offer { places: Vec::new(), ..offer(1) };
        assert!(matches!(begin(&[narrow], Wanted { groups: 1, replicas: 0, ack: 0 }, ids()), Err(Refusal::NoPlace(_))));
    }

    #[test]
    fn a_host_that_joins_gets_what_is_lacking() {
        let mut cluster = begin(&[offer(1)], Wanted { groups: 2, replicas: 0, ack: 0 }, ids()).unwrap();
        cluster.replicas_wanted = 1;
        let joined = cluster.with_host(&offer(2), ids()).unwrap();
        assert_eq!((joined.epoch, joined.voters().len()), (2, 2));
        assert!(joined.groups.values().all(|group| group.servers.len() == 2));
        let third = joined.with_host(&offer(3), ids()).unwrap();
        assert_eq!((third.servers().count(), third.voters().len(), third.proxies.len()), (4, 3, 3));
        assert!(matches!(third.with_host(&offer(3), ids()), Err(Refusal::HostExists(_))));
    }
}
