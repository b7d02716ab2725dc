//! Hosts that have come back with other addresses. What they run is the same as before, in the same folders; it is called otherwise from
//! then on, in one change of the record.
//!
//! Nobody may believe two addresses at once. So a host's servers are silent at the former address before they are looked for at the
//! other one: its agent ends what still runs there. A master is called otherwise only when it is sure that it cannot serve by votes for
//! the former address, as when another one takes its place. A replica that may be needed (its master serves, and counts it among those
//! in sync) is first written off by its master, as when it dies.

use super::{Controller, Decision, Record};
use crate::{
    hosts::{NewAddresses, Renamed},
    model::{Address, Cluster, Group, GroupId, LONE_HOST, Server},
    policy::{Action, Mode},
};

/// How long, in milliseconds, a replica that is in sync may take to get the place of a master that is there again at another address.
const SUCCESSION_MS: u64 = 2_000;
/// How much longer than votes last hosts with other addresses are waited for, so that all that have come are called otherwise at once.
const GATHERED_MS: u64 = 2_500;

/// What hosts tell of their addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    addresses: NewAddresses,
    /// Since when some of them are not what the record says.
    differs_since: Option<u64>,
    /// What is called otherwise by the last decision about that.
    decided: Renamed,
}

impl Controller {
    /// Agents that are there have told these addresses of their hosts.
    pub fn handle_addresses(&mut self, addresses: NewAddresses) {
        self.addresses.addresses = addresses;
    }

    /// Hosts that tell another address than the record has.
    fn changed<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = (&'a String, &'a String)> {
        let is_known = |host: &str| match cluster.hosts.is_empty() {
            true => host == LONE_HOST,
            false => cluster.hosts.iter().any(|known| known == host),
        };
        self.addresses.addresses.iter().filter(move |(host, address)| {
            is_known(host) && cluster.address_of(host).is_some_and(|known| known != address.as_str())
        })
    }

    /// Whether a group's master gets no votes, as its host has another address and nobody answers at the former one.
    pub(super) fn has_left_its_place(&self, now: u64, cluster: &Cluster, group: &Group) -> bool {
        let Some(master) = group.server(&group.master) else { return false };
        let has_changed = self.changed(cluster).any(|(host, _)| *host == master.host);
        has_changed && self.fresh(cluster, &master.address, now).is_none()
    }

    /// Hosts that are called by their other addresses now.
    pub(super) fn poll_addresses(&mut self, now: u64, record: Record<'_>) -> Option<Decision> {
        let cluster = record.cluster;
        let changed: NewAddresses =
            self.changed(cluster).map(|(host, address)| (host.clone(), address.clone())).collect();
        if changed.is_empty() {
            self.addresses.differs_since = None;
            return None;
        }
        let since = *self.addresses.differs_since.get_or_insert(now);
        let mut ready = changed.clone();
        ready.retain(|host, _| self.is_ready(now, record, host, &changed));
        let is_gathered = now >= since + self.patience.lease_ms + self.patience.margin_ms + GATHERED_MS;
        if ready.len() < changed.len() && !is_gathered {
            return None;
        }
        // Whoever has the address of another one waits until that one has told its own.
        while !ready.is_empty() && cluster.with_addresses(&ready).is_err() {
            ready.pop_last();
        }
        if ready.is_empty() {
            return None;
        }
        self.addresses.decided = cluster.renamed(&ready);
        Some(Decision::Readdress(ready))
    }

    /// The last decision about addresses was written: what waits for a person is about the same servers as before.
    pub(super) fn handle_readdressed(&mut self) {
        let renamed = std::mem::take(&mut self.addresses.decided);
        self.pending.record = self.pending.record.readdressed(|address| renamed.of(address));
    }

    fn is_ready(&self, now: u64, record: Record<'_>, host: &str, changed: &NewAddresses) -> bool {
        let (cluster, renamed) = (record.cluster, record.cluster.renamed(changed));
        let mut servers = cluster.servers().filter(|(_, server)| server.host == host && renamed.has(&server.address));
        servers.all(|(id, server)| self.may_be_renamed(now, record, (id, server), |address| renamed.has(address)))
    }

    fn may_be_renamed(
        &self,
        now: u64,
        record: Record<'_>,
        (id, server): (GroupId, &Server),
        is_renamed: impl Fn(&Address) -> bool,
    ) -> bool {
        let (Some(group), Some(keeper)) = (record.cluster.groups.get(&id), self.keepers.get(&id)) else { return false };
        if !keeper.had_time(now) || keeper.fresh(&server.address, now).is_some() {
            return false;
        }
        if !group.kind().is_store() {
            // It is silent: its agent, the only one, has ended it. No votes are given to it.
            return true;
        }
        let in_sync = record.in_sync.get(&id).map(|(in_sync, _)| in_sync.of(group)).unwrap_or_default();
        if group.master != server.address {
            let is_master_there = keeper.fresh(&group.master, now).is_some();
            return !is_master_there || !in_sync.members.contains(&server.address);
        }
        let Some(fenced_from) = keeper.fenced_from().filter(|from| now >= *from) else { return false };
        let may_follow = |member: &&Address| !is_renamed(member) && keeper.fresh(member, now).is_some();
        let has_successor = in_sync.members.iter().any(|member| may_follow(&member));
        let succeeds = record.cluster.policy.mode(Action::Failover) == Mode::Auto && has_successor;
        !succeeds || now >= fenced_from + SUCCESSION_MS
    }
}
