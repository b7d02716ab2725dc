//! A cluster whose coordinator is gone: what is made of what hosts know.
//!
//! Each host has a copy of the record in its folder, which is on its disk before the host votes by that record. A master has served only
//! by votes of most hosts, so of most hosts one has the record by which the last master of each group has served, or a later one. With
//! fewer hosts that is not sure, and those that are not here may even serve on: whoever rescues must be told so.
//!
//! What is made begins much later than anything that the lost coordinator can have written: servers and agents that come back with what
//! it said know less, and are told better.
//!
//! A server whose log ends before where it was, as hosts remember it ([`crate::heights`]), has lost a part of its disk: it is the master only if
//! nobody else is there, and nothing is said to be safe then.
//!
//! Records may have different histories ([`crate::history`]): hosts that were rescued without the others, or that began by a coordinator
//! of before. Then the branch counts that most hosts are on, and nothing is said to be safe.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    heights::AllHeights,
    history::{ChangeNumber, History, Rescued},
    hosts::NewAddresses,
    model::{Address, Cluster, Epoch, Group, GroupId, InSync, Server},
    record::{self, RecordCopy, Standing},
};

/// So many epochs later a rescued cluster begins.
const EPOCHS_LATER: Epoch = 1_000_000;
/// The same for terms of leaders.
const TERMS_LATER: u64 = 1_000_000;

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
    /// How far servers were, as its folder has it.
    #[serde(default)]
    pub heights: AllHeights,
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
    /// Up to where its log was, at least, if hosts remember more than it has: its folder was set back.
    pub had: Option<u64>,
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

/// A record that has another history than the one that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// The hosts that have it.
    pub hosts: Vec<String>,
    /// When it was written: seconds since 1970.
    pub at: u64,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its last change.
    pub number: ChangeNumber,
    /// The last change that it has in common with the record that counts.
    pub after: ChangeNumber,
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
    /// The last change of that.
    pub number: ChangeNumber,
    /// The hosts that have it, or one of before it.
    pub hosts: Vec<String>,
    /// Records with other histories.
    pub branches: Vec<Branch>,
    /// The groups.
    pub groups: Vec<GroupRescue>,
    /// Hosts that had votes and are not there, with their addresses.
    pub missing: Vec<(String, String)>,
    /// How many hosts had votes.
    pub voters: usize,
    /// Most hosts that had votes are there.
    pub has_majority: bool,
    /// What the record is to remember of all that.
    #[serde(skip)]
    rescued: Rescued,
    /// The changes before it.
    #[serde(skip)]
    before: History,
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
        let hosts = format!(" without {} of {} hosts", self.missing.len(), self.voters);
        let hosts = if self.has_majority { "" } else { &hosts };
        let given_up: Vec<String> = self.branches.iter().map(Branch::name).collect();
        let branches = if given_up.is_empty() { String::new() } else { format!(" without {}", given_up.join(" and ")) };
        format!("rescue{hosts}{branches}")
    }

    /// The changes behind what is made. `mark`: see [`History::next`].
    #[must_use]
    pub fn history(&self, mark: &str) -> History {
        self.before.rescued(mark, self.rescued.clone())
    }

    /// What of it a person agrees to: who becomes master, what is lost by that, who is not there. Another one is to be looked at first.
    #[must_use]
    pub fn gist(&self) -> String {
        let group = |group: &GroupRescue| format!("{}={} {:?}", group.id, group.master, group.loss);
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        let change = format!("epoch {} change {}", self.epoch, self.number);
        format!("{change}; {}; without {:?} {:?}", groups.join("; "), self.missing, self.branches)
    }
}

impl Branch {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> String {
        format!("the branch of {}", self.hosts.join(", "))
    }
}

/// A record, and who has it.
#[derive(Clone, Copy)]
struct Known<'a> {
    of: &'a str,
    copy: &'a RecordCopy,
    is_of_host: bool,
}

impl Known<'_> {
    /// Whether another record has all that this one has.
    fn is_part_of(&self, other: &Self) -> bool {
        // Who was not there when few hosts were rescued may have served on, whatever the record says.
        let is_unseen = |rescue: &Rescued| {
            !rescue.has_majority && !rescue.hosts.iter().any(|host| host == self.of) && self.is_of_host
        };
        let known = |rescue: &&Rescued| !self.copy.history.rescues.iter().any(|known| known.head == rescue.head);
        let has_joined = other.copy.cluster.hosts.iter().any(|host| host == self.of);
        record::standing(self.copy, other.copy) == Standing::Continues
            && (has_joined || !other.copy.history.rescues.iter().filter(known).any(is_unseen))
    }
}

/// Records that no other one goes on from, each with those who have it or what it goes on from; the one that counts first.
fn tips<'a>(known: &[Known<'a>]) -> Vec<(Known<'a>, Vec<Known<'a>>)> {
    let is_over = |(place, one): &(usize, &Known)| {
        let others = known.iter().enumerate().filter(|(other, _)| other != place);
        others.into_iter().any(|(at, other)| one.is_part_of(other) && (at < *place || !other.is_part_of(one)))
    };
    let last = known.iter().enumerate().filter(|one| !is_over(one)).map(|(_, one)| *one);
    let last: Vec<Known> = last.collect();
    let on = |tip: &Known<'a>| {
        let is_on_it = |one: &&Known| {
            let mut parts = last.iter().filter(|tip| one.is_part_of(tip));
            parts.next().is_some_and(|first| std::ptr::eq(first.copy, tip.copy) && parts.next().is_none())
        };
        known.iter().filter(is_on_it).copied().collect::<Vec<_>>()
    };
    let mut tips: Vec<(Known, Vec<Known>)> = last.iter().map(|tip| (*tip, on(tip))).collect();
    tips.sort_by_key(|(tip, on)| {
        let hosts = on.iter().filter(|one| one.is_of_host).count();
        std::cmp::Reverse((hosts, unsettled(tip.copy).is_empty(), tip.copy.history.number, tip.copy.cluster.epoch))
    });
    tips
}

/// Hosts that a rescue of few hosts went without, and that have not been members since.
fn unsettled(copy: &RecordCopy) -> Vec<String> {
    let Some(rescue) = copy.history.rescues.iter().rev().find(|rescue| !rescue.has_majority) else { return Vec::new() };
    let now = copy.cluster.voters();
    let is_away = |host: &&String| !now.contains(&host.as_str()) && !rescue.hosts.contains(host);
    rescue.voters.iter().filter(is_away).cloned().collect()
}

/// Makes a cluster of what hosts know, of a record that was kept elsewhere, and of what the coordinator has, which they do not go on by.
///
/// # Errors
///
/// Nobody knows anything, or they know different clusters.
pub fn rescue(
    found: &[HostFound],
    kept: Option<&RecordCopy>,
    coordinator: Option<&RecordCopy>,
) -> Result<Rescue, NoRescue> {
    let copies = found.iter().filter_map(|host| Some((host.host.as_str(), host.copy.as_ref()?)));
    let copies = copies.map(|(of, copy)| Known { of, copy, is_of_host: true });
    let other = |of, copy| Known { of, copy, is_of_host: false };
    let kept_one = kept.map(|kept| other("the kept record", kept));
    let of_coordinator = coordinator.map(|copy| other("the coordinator", copy));
    let copies: Vec<Known> =
        copies.chain(kept_one).chain(of_coordinator).filter(|one| one.copy.cluster.epoch > 0).collect();
    let tips = tips(&copies);
    let (latest, on) = tips.first().ok_or(NoRescue::NoCopy)?;
    let base = &with_latest_in_sync(latest.copy, on);
    let names = |cluster: &Cluster| cluster.servers().map(|(_, server)| server.id.clone()).collect::<BTreeSet<_>>();
    let known = names(&base.cluster);
    if let Some(other) = copies.iter().find(|one| names(&one.copy.cluster).is_disjoint(&known)) {
        return Err(NoRescue::Different(latest.of.to_owned(), other.of.to_owned()));
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
    let names = |on: &[Known]| on.iter().map(|one| one.of.to_owned()).collect::<Vec<_>>();
    let branches: Vec<Branch> = tips.iter().skip(1).map(|(tip, on)| branch(latest.copy, tip.copy, names(on))).collect();
    let mut cluster = readdressed(before, found);
    // NOTE: later than all of them: servers that know another branch are told better, too, and what hosts remember of another time's master is no
    // more about this one.
    let remembered = found.iter().map(|host| host.heights.epoch());
    let known = copies.iter().map(|one| one.copy.cluster.epoch).chain(remembered);
    cluster.epoch = known.max().unwrap_or(0) + EPOCHS_LATER;
    cluster.settings.renew(cluster.epoch);
    cluster.hosts.retain(|host| is_here(host));
    let doubts = doubts(base, (&missing, has_majority), &branches, kept.is_some_and(|kept| kept == latest.copy));
    let all_found = Found { found, doubts: doubts.join("; ") };
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
    let rescued = Rescued {
        seen: copies.iter().filter(|one| one.is_of_host).map(|one| one.copy.history.head()).collect(),
        hosts: found.iter().map(|host| host.host.clone()).collect(),
        voters: voters.iter().map(|host| (*host).to_owned()).collect(),
        has_majority,
        in_sync: base.in_sync.clone(),
        ..Rescued::default()
    };
    Ok(Rescue {
        cluster,
        term: copies.iter().map(|one| one.copy.term).max().unwrap_or(0) + TERMS_LATER,
        at: base.at,
        epoch: before.epoch,
        number: base.history.number,
        hosts: names(on),
        branches,
        groups,
        missing,
        voters: voters.len(),
        has_majority,
        rescued,
        before: latest.copy.history.clone(),
    })
}

fn branch(latest: &RecordCopy, copy: &RecordCopy, hosts: Vec<String>) -> Branch {
    let (epoch, number) = (copy.cluster.epoch, copy.history.number);
    Branch { hosts, at: copy.at, epoch, number, after: copy.history.agreed_up_to(&latest.history) }
}

/// Why what was acknowledged may not be in what a record says.
fn doubts(
    base: &RecordCopy,
    (missing, has_majority): (&[(String, String)], bool),
    branches: &[Branch],
    is_kept: bool,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if !has_majority && !missing.is_empty() {
        doubts.push("hosts that are not here may know a later master, or serve on".to_owned());
    } else if is_kept {
        doubts.push("the record was kept elsewhere: there may have been another master since".to_owned());
    }
    let away = unsettled(base);
    if !away.is_empty() {
        doubts.push(format!("the record came of a rescue without {}, which may have served on", away.join(", ")));
    }
    for branch in branches {
        doubts.push(format!(
            "{} has another history since change {} (epoch {} now): what was acknowledged there alone is set aside",
            branch.hosts.join(", "),
            branch.after,
            branch.epoch
        ));
    }
    doubts
}

/// A record with the latest that anybody knows of who is in sync: that changes within an epoch.
fn with_latest_in_sync(record: &RecordCopy, known: &[Known]) -> RecordCopy {
    let mut record = record.clone();
    for Known { copy, .. } in known {
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
    /// Why anything may be lost; empty: nothing speaks for that.
    doubts: String,
}

impl Found<'_> {
    fn server(&self, server: &Server) -> Option<ServerFound> {
        self.found.iter().find(|host| host.host == server.host)?.servers.get(&server.id).copied()
    }

    fn group(&self, id: GroupId, (before, after): (&Group, &Group), base: &RecordCopy) -> GroupRescue {
        let in_sync = base.in_sync.get(&id).map(|in_sync| in_sync.of(before)).unwrap_or_default();
        let mut heights = AllHeights::default();
        self.found.iter().for_each(|host| _ = heights.take(&host.heights));
        let heights = heights.of(id).filter(|known| known.reign == before.reign());
        let had = |server: &Server| {
            let had = *heights?.of.get(&server.id)?;
            self.server(server).filter(|found| found.offset < had).map(|_| had)
        };
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
                had: had(was),
            })
            .collect();
        let (master, loss) = self.choose(before, after, &in_sync, &servers);
        GroupRescue { id, servers, master, in_sync_since: base.in_sync_since.get(&id).copied(), loss }
    }

    /// A loss for a reason, and for all that speaks against the record.
    fn loss(&self, why: &str) -> Loss {
        match [why, &self.doubts].iter().filter(|why| !why.is_empty()).copied().collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => Loss::Nothing,
            why => Loss::Some(why),
        }
    }

    fn choose(&self, before: &Group, after: &Group, in_sync: &InSync, servers: &[ServerRescue]) -> (Address, Loss) {
        let offset = |server: &&ServerRescue| server.found.map_or(0, |found| found.offset);
        if !before.kind().is_store() {
            return (after.master.clone(), self.loss(""));
        }
        let with = |best: &ServerRescue| {
            let longer = servers.iter().filter(|server| offset(server) > offset(&best)).max_by_key(offset);
            let why = longer.map_or(String::new(), |longer| {
                format!(
                    "the log of {} goes on to {}: by the record that was not acknowledged",
                    longer.address,
                    offset(&longer)
                )
            });
            (best.address.clone(), self.loss(&why))
        };
        // One that has less than a replica in sync has lost what it had on its disk.
        let most = servers.iter().filter(|server| server.was_in_sync).map(|server| offset(&server)).max().unwrap_or(0);
        let is_whole = |server: &&ServerRescue| server.found.is_some() && server.had.is_none();
        let stays = |server: &&ServerRescue| server.was_master && is_whole(server) && offset(server) >= most;
        if let Some(master) = servers.iter().find(stays) {
            return with(master);
        }
        let here = |server: &&ServerRescue| server.found.is_some();
        let members: Vec<&ServerRescue> = servers.iter().filter(is_whole).filter(|server| server.was_in_sync).collect();
        let needed = in_sync.needed(before);
        let is_complete = needed > 0 && members.len() + needed > in_sync.members.len();
        if let Some(best) = members.iter().copied().max_by_key(offset).filter(|_| is_complete) {
            return with(best);
        }
        let Some(best) = servers.iter().filter(here).max_by_key(offset) else {
            return (after.master.clone(), Loss::All);
        };
        let set_back = best.had.map(|had| format!("its folder was set back: its log went on to {had} at least"));
        if let Some(why) = set_back {
            return (best.address.clone(), self.loss(&why));
        }
        let why = match (needed, best.was_in_sync) {
            (0, true) => {
                "writes were acknowledged without a replica: the last ones before the master was lost may be gone"
            }
            (_, false) => "it was not in sync with its master: what was written since it was is gone",
            _ => "replicas that may have had more are not here",
        };
        (best.address.clone(), self.loss(why))
    }
}

#[cfg(test)]
mod tests;
