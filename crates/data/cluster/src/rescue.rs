//! A cluster whose coordinator is gone: what is made of what hosts know.
//!
//! Each host has a copy of the record in its folder, which is on its disk before the host votes by that record. A master has served only
//! by votes of most hosts, so of most hosts one has the record by which the last master of each group has served, or a later one. With
//! fewer hosts that is not sure, and those that are not here may even serve on: whoever rescues must be told so.
//!
//! What is made begins much later than anything that the lost coordinator can have written: servers and agents that come back with what
//! it said know less, and are told better.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    hosts::NewAddresses,
    model::{Address, Cluster, Epoch, Group, GroupId, InSync, Server},
};

/// So many epochs later a rescued cluster begins.
const EPOCHS_LATER: Epoch = 1_000_000;
/// The same for terms of leaders.
const TERMS_LATER: u64 = 1_000_000;

/// What a folder has of the coordinator's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCopy {
    /// When it was written: seconds since 1970.
    pub at: u64,
    /// The cluster.
    pub cluster: Cluster,
    /// Who of groups is in sync.
    #[serde(default)]
    pub in_sync: BTreeMap<GroupId, InSync>,
    /// Since when that is so: seconds since 1970.
    #[serde(default)]
    pub in_sync_since: BTreeMap<GroupId, u64>,
    /// The term of the last leader.
    #[serde(default)]
    pub term: u64,
}

/// A host that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFound {
    /// Its name.
    pub host: String,
    /// Its address.
    pub address: String,
    /// What its folder has.
    pub copy: Option<RecordCopy>,
    /// Its servers that answer, by their names.
    pub servers: BTreeMap<String, ServerFound>,
}

/// A server that answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFound {
    /// Up to where its log goes.
    pub offset: u64,
    /// How many keys it has.
    pub keys: u64,
}

/// What may be lost of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// Nothing that was acknowledged.
    Nothing,
    /// Some of it, for this reason.
    Some(String),
    /// No server of it is there: its keys are not served.
    All,
}

/// What becomes of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerRescue {
    /// Where it is.
    pub address: Address,
    /// Its host.
    pub host: String,
    /// What it has; nothing: it is not there.
    pub found: Option<ServerFound>,
    /// It was the master, by the record.
    pub was_master: bool,
    /// It was in sync with the master, by the record.
    pub was_in_sync: bool,
}

/// What becomes of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupRescue {
    /// Which.
    pub id: GroupId,
    /// Its servers.
    pub servers: Vec<ServerRescue>,
    /// Who is the master.
    pub master: Address,
    /// Since when it is known who was in sync: seconds since 1970.
    pub in_sync_since: Option<u64>,
    /// What may be lost.
    pub loss: Loss,
}

/// What is made of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rescue {
    /// The record.
    pub cluster: Cluster,
    /// The term after which leaders begin.
    pub term: u64,
    /// When what it is made of was written.
    pub at: u64,
    /// The epoch of that.
    pub epoch: Epoch,
    /// The groups.
    pub groups: Vec<GroupRescue>,
    /// Hosts that had votes and are not there, with their addresses.
    pub missing: Vec<(String, String)>,
    /// How many hosts had votes.
    pub voters: usize,
    /// Most hosts that had votes are there.
    pub has_majority: bool,
}

/// Why nothing is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRescue {
    /// Nobody has a record.
    #[error("no host that is there has a copy of the cluster's record (record.json in its folder)")]
    NoCopy,
    /// They are of different clusters.
    #[error(
        "hosts {0} and {1} belong to different clusters: no server of one is known to the other. Rescue each by itself"
    )]
    Different(String, String),
}

impl Rescue {
    /// The words that a person types who wants this.
    #[must_use]
    pub fn words(&self) -> String {
        if self.has_majority {
            return "rescue".to_owned();
        }
        format!("rescue without {} of {} hosts", self.missing.len(), self.voters)
    }

    /// What of it a person agrees to: who becomes master, what is lost by that, who is not there. Another one is to be looked at first.
    #[must_use]
    pub fn gist(&self) -> String {
        let group = |group: &GroupRescue| format!("{}={} {:?}", group.id, group.master, group.loss);
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        format!("epoch {}; {}; without {:?}", self.epoch, groups.join("; "), self.missing)
    }
}

/// Makes a cluster of what hosts know, and of a record that was kept elsewhere.
///
/// # Errors
///
/// Nobody knows anything, or they know different clusters.
pub fn rescue(found: &[HostFound], kept: Option<&RecordCopy>) -> Result<Rescue, NoRescue> {
    let copies = found.iter().filter_map(|host| Some((host.host.as_str(), host.copy.as_ref()?)));
    let copies: Vec<(&str, &RecordCopy)> = copies.chain(kept.map(|kept| ("the kept record", kept))).collect();
    let (of, latest) = *copies.iter().max_by_key(|(_, copy)| copy.cluster.epoch).ok_or(NoRescue::NoCopy)?;
    let base = &with_latest_in_sync(latest, &copies);
    let names = |cluster: &Cluster| cluster.servers().map(|(_, server)| server.id.clone()).collect::<BTreeSet<_>>();
    let known = names(&base.cluster);
    if let Some((other, _)) = copies.iter().find(|(_, copy)| names(&copy.cluster).is_disjoint(&known)) {
        return Err(NoRescue::Different(of.to_owned(), (*other).to_owned()));
    }
    let is_here = |host: &str| found.iter().any(|found| found.host == host);
    let before = &base.cluster;
    let voters = before.voters();
    let missing: Vec<(String, String)> = voters
        .iter()
        .filter(|host| !is_here(host))
        .map(|host| ((*host).to_owned(), before.address_of(host).unwrap_or_default().to_owned()))
        .collect();
    let has_majority = voters.len() - missing.len() >= before.majority();
    let mut cluster = readdressed(before, found);
    cluster.epoch = before.epoch + EPOCHS_LATER;
    cluster.hosts.retain(|host| is_here(host));
    let all_found = Found { found, has_majority, has_kept: kept.is_some_and(|kept| kept == latest) };
    let groups: Vec<GroupRescue> = before
        .groups
        .iter()
        .filter_map(|(id, group)| {
            let after = cluster.groups.get(id)?;
            Some(all_found.group(*id, (group, after), base))
        })
        .collect();
    for one in &groups {
        if let Some(group) = cluster.groups.get_mut(&one.id) {
            group.master = one.master.clone();
            group.config_epoch = cluster.epoch;
        }
    }
    let term = copies.iter().map(|(_, copy)| copy.term).max().unwrap_or(0) + TERMS_LATER;
    let (at, epoch, voters) = (base.at, before.epoch, voters.len());
    Ok(Rescue { cluster, term, at, epoch, groups, missing, voters, has_majority })
}

/// A record with the latest that anybody knows of who is in sync: that changes within an epoch.
fn with_latest_in_sync(record: &RecordCopy, copies: &[(&str, &RecordCopy)]) -> RecordCopy {
    let mut record = record.clone();
    for (_, copy) in copies {
        for (id, in_sync) in &copy.in_sync {
            let rank = |in_sync: &InSync| (in_sync.config_epoch, in_sync.serial);
            if record.in_sync.get(id).is_none_or(|known| rank(known) < rank(in_sync)) {
                record.in_sync.insert(*id, in_sync.clone());
                match copy.in_sync_since.get(id) {
                    Some(since) => _ = record.in_sync_since.insert(*id, *since),
                    None => _ = record.in_sync_since.remove(id),
                }
            }
        }
    }
    record
}

/// With the addresses that hosts have now. One that has the address of a host that is not there gets it all the same.
fn readdressed(cluster: &Cluster, found: &[HostFound]) -> Cluster {
    let told = found.iter().filter(|host| cluster.address_of(&host.host).is_some_and(|known| known != host.address));
    let told: NewAddresses = told.map(|host| (host.host.clone(), host.address.clone())).collect();
    let mut here = cluster.clone();
    here.hosts.retain(|host| found.iter().any(|found| found.host == *host));
    here.with_addresses(&told).map_or_else(|_| cluster.clone(), |next| Cluster { hosts: cluster.hosts.clone(), ..next })
}

struct Found<'a> {
    found: &'a [HostFound],
    has_majority: bool,
    /// The record is one that was kept elsewhere: hosts may have known a later one.
    has_kept: bool,
}

impl Found<'_> {
    fn server(&self, server: &Server) -> Option<ServerFound> {
        self.found.iter().find(|host| host.host == server.host)?.servers.get(&server.id).copied()
    }

    fn group(&self, id: GroupId, (before, after): (&Group, &Group), base: &RecordCopy) -> GroupRescue {
        let in_sync = base.in_sync.get(&id).map(|in_sync| in_sync.of(before)).unwrap_or_default();
        let servers: Vec<ServerRescue> = before
            .servers
            .iter()
            .zip(&after.servers)
            .map(|(was, is)| ServerRescue {
                address: is.address.clone(),
                host: is.host.clone(),
                found: self.server(was),
                was_master: was.address == before.master,
                was_in_sync: in_sync.members.contains(&was.address),
            })
            .collect();
        let (master, loss) = self.choose(before, after, &in_sync, &servers);
        GroupRescue { id, servers, master, in_sync_since: base.in_sync_since.get(&id).copied(), loss }
    }

    fn choose(&self, before: &Group, after: &Group, in_sync: &InSync, servers: &[ServerRescue]) -> (Address, Loss) {
        let is_unsure = |text: &str| match (self.has_majority, self.has_kept) {
            (false, _) => Some(format!("{text}hosts that are not here may know a later master, or serve on")),
            (_, true) => Some(format!("{text}the record was kept elsewhere: there may have been another master since")),
            _ => None,
        };
        let offset = |server: &&ServerRescue| server.found.map_or(0, |found| found.offset);
        // One that has less than a replica in sync has lost what it had on its disk.
        let most = servers.iter().filter(|server| server.was_in_sync).map(|server| offset(&server)).max().unwrap_or(0);
        let stays = |server: &&ServerRescue| server.was_master && server.found.is_some() && offset(server) >= most;
        if servers.iter().any(|server| stays(&server)) || !before.kind().is_store() {
            return (after.master.clone(), is_unsure("").map_or(Loss::Nothing, Loss::Some));
        }
        let here = |server: &&ServerRescue| server.found.is_some();
        let members: Vec<&ServerRescue> = servers.iter().filter(here).filter(|server| server.was_in_sync).collect();
        let needed = in_sync.needed(before);
        let is_complete = needed > 0 && members.len() + needed > in_sync.members.len();
        if let Some(best) = members.iter().copied().max_by_key(offset).filter(|_| is_complete) {
            return (best.address.clone(), is_unsure("").map_or(Loss::Nothing, Loss::Some));
        }
        let Some(best) = servers.iter().filter(here).max_by_key(offset) else {
            return (after.master.clone(), Loss::All);
        };
        let why = match (needed, best.was_in_sync) {
            (0, true) => {
                "writes were acknowledged without a replica: the last ones before the master was lost may be gone"
            }
            (_, false) => "it was not in sync with its master: what was written since it was is gone",
            _ => "replicas that may have had more are not here",
        };
        (best.address.clone(), Loss::Some(is_unsure(&format!("{why}; ")).unwrap_or_else(|| why.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::two_groups;

    /// Groups 1 (on a and b) and 2 (on b and c); the masters first.
    fn copy() -> RecordCopy {
        let mut cluster = two_groups();
        cluster.epoch = 7;
        cluster.hosts = ["a", "b", "c"].map(str::to_owned).into();
        let places = ["a", "b", "b", "c"];
        for group in cluster.groups.values_mut() {
            for server in &mut group.servers {
                server.host = places[usize::from(server.address.port()) - 1].to_owned();
                server.address = Address::new(server.host.clone(), server.address.port());
            }
            group.master = group.servers[0].address.clone();
        }
        let members = |id: GroupId| vec![cluster.groups[&id].servers[1].address.clone()];
        let in_sync = |id| InSync { config_epoch: 1, members: members(id), ack: Some(1), serial: 3 };
        let in_sync = BTreeMap::from([(1, in_sync(1)), (2, in_sync(2))]);
        RecordCopy { at: 100, in_sync, in_sync_since: BTreeMap::from([(1, 90)]), term: 4, cluster }
    }

    fn host(name: &str, copy: Option<RecordCopy>, servers: &[(&str, u64)]) -> HostFound {
        let servers = servers.iter().map(|(id, offset)| ((*id).to_owned(), ServerFound { offset: *offset, keys: 1 }));
        HostFound { host: name.to_owned(), address: name.to_owned(), copy, servers: servers.collect() }
    }

    fn shown(rescue: &Rescue) -> Vec<String> {
        let group = |group: &GroupRescue| format!("{} {:?}", group.master, group.loss);
        rescue.groups.iter().map(group).collect()
    }

    #[test]
    fn a_replica_in_sync_takes_the_place_of_a_master_that_is_gone() {
        let found = [host("b", Some(copy()), &[("n2", 50), ("n3", 70)]), host("c", Some(copy()), &[("n4", 70)])];
        let rescue = rescue(&found, None).unwrap();
        assert_eq!(shown(&rescue), ["b:2 Nothing", "b:3 Nothing"]);
        assert_eq!((rescue.words().as_str(), rescue.missing.len(), rescue.voters), ("rescue", 1, 3));
        let cluster = &rescue.cluster;
        assert_eq!((cluster.epoch, rescue.term, cluster.hosts.len()), (1_000_007, 1_000_004, 2));
        assert!(cluster.groups.values().all(|group| group.config_epoch == cluster.epoch && group.servers.len() == 2));
    }

    #[test]
    fn who_was_in_sync_last_counts_whoever_knows_it() {
        // Replica b:2 was found out of sync within the epoch: what was acknowledged since is nowhere but on the master, which is gone.
        let mut alone = copy();
        alone.in_sync.insert(1, InSync { config_epoch: 1, members: Vec::new(), ack: Some(0), serial: 4 });
        for records in [[alone.clone(), copy()], [copy(), alone]] {
            let [b, c] = records;
            let found = [host("b", Some(b), &[("n2", 50), ("n3", 70)]), host("c", Some(c), &[("n4", 70)])];
            let rescue = rescue(&found, None).unwrap();
            assert!(matches!(rescue.groups[0].loss, Loss::Some(_)), "{:?}", rescue.groups[0]);
            assert_eq!(rescue.groups[1].loss, Loss::Nothing);
        }
    }

    #[test]
    fn the_latest_record_counts_and_addresses_are_those_of_now() {
        let mut later = copy();
        later.cluster = later.cluster.with_master(1, &Address::new("b", 2)).unwrap();
        let mut found = [
            host("a", Some(copy()), &[("n1", 90)]),
            host("b", Some(later), &[("n2", 50), ("n3", 70)]),
            host("c", None, &[("n4", 70)]),
        ];
        found[1].address = "y".into();
        let rescue = rescue(&found, None).unwrap();
        assert_eq!(
            shown(&rescue),
            ["y:2 Nothing", "y:3 Nothing"],
            "the former master has more, and nobody may have it"
        );
        assert_eq!(rescue.cluster.address_of("b"), Some("y"));
    }

    #[test]
    fn what_may_be_lost_is_said() {
        // Fewer than most of the hosts.
        let alone = [host("b", Some(copy()), &[("n2", 50), ("n3", 70)])];
        let found = rescue(&alone, None).unwrap();
        assert_eq!(found.words(), "rescue without 2 of 3 hosts");
        assert!(found.groups.iter().all(|group| matches!(group.loss, Loss::Some(_))));
        // Not in sync; without acknowledgements; nobody is there.
        let mut copy = copy();
        let disk = [
            host("a", Some(copy.clone()), &[("n1", 9)]),
            host("b", Some(copy.clone()), &[("n2", 50), ("n3", 70)]),
            host("c", Some(copy.clone()), &[]),
        ];
        assert_eq!(shown(&rescue(&disk, None).unwrap())[0], "b:2 Nothing", "its disk has lost what its replica has");
        copy.in_sync.get_mut(&1).unwrap().members.clear();
        let two = |copy: &RecordCopy| {
            let found = [host("b", Some(copy.clone()), &[("n2", 50)]), host("c", Some(copy.clone()), &[])];
            shown(&rescue(&found, None).unwrap())
        };
        let shown = two(&copy);
        assert!(shown[0].contains("not in sync") && shown[1] == "b:3 All", "{shown:?}");
        copy.in_sync.get_mut(&1).unwrap().members = vec![Address::new("b", 2)];
        copy.in_sync.get_mut(&1).unwrap().ack = Some(0);
        assert!(two(&copy)[0].contains("without a replica"));
    }

    #[test]
    fn nothing_is_made_of_nothing_or_of_two_clusters() {
        assert_eq!(rescue(&[host("b", None, &[])], None), Err(NoRescue::NoCopy));
        let mut other = copy();
        other.cluster.groups.values_mut().for_each(|group| {
            group.servers.iter_mut().for_each(|server| server.id = format!("x{}", server.id));
        });
        let found = [host("b", Some(copy()), &[]), host("c", Some(other), &[])];
        assert!(matches!(rescue(&found, None), Err(NoRescue::Different(..))));
        // A record that was kept elsewhere will do, and says less.
        let kept = rescue(&[host("a", None, &[("n1", 1)])], Some(&copy())).unwrap();
        assert_eq!(kept.groups[0].master, Address::new("a", 1));
        assert!(matches!(kept.groups[0].loss, Loss::Some(_)));
    }
}
