//! Wrong histories: a coordinator that is set back to what a backup has, disks that take no writes, and somebody who rescues the cluster of what
//! the folders of its hosts know. What the plan calls safe is there afterwards.

use std::sync::Arc;

use cluster::{
    history::History,
    leading::Leader,
    record::{self, RecordCopy, Standing},
    rescue::{self, HostFound, Loss, ServerFound},
};

use super::{
    World,
    log::{UNITS, slots_of},
    planted::Planted,
    world::{HOSTS, Record, name, number_of},
};

/// What there is of all that in a world; nothing of it happens in most.
#[derive(Default)]
pub struct Histories {
    pub is_on: bool,
    /// What is in the archive.
    backup: Option<Record>,
    /// When somebody comes who looks whether a rescue is needed; 0: never.
    rescue_at: u64,
    pub rescues: u64,
    pub set_back: u64,
    pub said_lost: u64,
}

impl Record {
    /// One change later.
    pub fn count_change(&mut self, makes_epoch: bool) {
        let mark = format!("{}-{}", self.branch, self.revision);
        self.history = Arc::new(self.history.next(&mark, makes_epoch));
    }

    /// What a folder keeps of it.
    pub fn copy(&self, at: u64) -> RecordCopy {
        RecordCopy {
            at,
            cluster: (*self.cluster).clone(),
            in_sync: self.in_sync.iter().map(|(group, (in_sync, _))| (*group, in_sync.clone())).collect(),
            term: self.leader.as_ref().map_or(0, |(leader, _)| leader.term),
            history: History::clone(&self.history),
            ..RecordCopy::default()
        }
    }
}

impl World {
    /// Hosts write down what their agents have heard, and vote by what is written.
    pub fn keep_records(&mut self) {
        if !self.histories.is_on {
            return;
        }
        for host in &mut self.hosts {
            let Some(agent) = &mut host.agent else { continue };
            if host.copy.history.head() != agent.record.history.head() && self.now >= host.disk_full_until {
                host.copy = agent.record.copy(self.now);
            }
            let is_kept = host.copy.cluster.epoch >= agent.record.cluster.epoch;
            if is_kept || self.planted == Some(Planted::VotesWithoutDisk) {
                agent.voter.learn(&agent.record.cluster);
            }
        }
    }

    /// Whether a host begins by a record.
    pub fn begins_by(&self, host: usize, known: &Record) -> bool {
        let copy = &self.hosts[host].copy;
        if !self.histories.is_on {
            return true;
        }
        if self.planted == Some(Planted::EpochsTellHistories) {
            return known.cluster.epoch >= copy.cluster.epoch;
        }
        record::standing(copy, &known.copy(self.now)) == Standing::Continues
    }

    /// What goes wrong with records, and who comes to mend it.
    pub fn disturb_records(&mut self) {
        if !self.histories.is_on {
            return;
        }
        if self.histories.rescue_at > 0 && self.now >= self.histories.rescue_at {
            self.histories.rescue_at = 0;
            let members: Vec<usize> = self.record.cluster.hosts.iter().map(|host| number_of(host)).collect();
            if members.iter().any(|host| !self.begins_by(*host, &self.record)) {
                self.rescue(None, true);
            }
        }
        if !self.wants_faults {
            return;
        }
        if self.random.one_in(200) {
            self.histories.backup = Some(self.record.clone());
        }
        if self.random.one_in(300) {
            let host = self.random.below(HOSTS as u64) as usize;
            self.hosts[host].disk_full_until = self.now + self.random.below(8_000);
        }
        if self.histories.rescue_at == 0 && self.random.one_in(1_000) {
            self.set_coordinator_back();
        } else if self.histories.rescue_at == 0 && self.random.one_in(1_200) {
            // The coordinator is gone for good, and one host with it, perhaps.
            let host = self.random.below(HOSTS as u64) as usize;
            let goes = self.record.cluster.hosts.len() == HOSTS && self.is_known_without(host);
            self.rescue(Some(host).filter(|_| goes), false);
        }
    }

    /// NOTE: who is in sync and who has which slots is on the leader's disk before it counts, and not on those of most hosts, as who is master is: a
    /// host that alone knows of such a change is not left out (docs/rescue-a-cluster.md says so).
    fn is_known_without(&self, host: usize) -> bool {
        let copies = (0..HOSTS).filter(|other| *other != host).map(|other| &self.hosts[other].copy);
        let Some(latest) = copies.max_by_key(|copy| copy.history.number) else { return false };
        let has_slots = latest.cluster.slots == self.record.cluster.slots;
        has_slots
            && self.record.in_sync.iter().all(|(group, (in_sync, _))| {
                let known = latest.in_sync.get(group);
                known.is_none_or(|known| known.config_epoch != in_sync.config_epoch || known.members == in_sync.members)
                    && (known.is_some() || latest.cluster.groups[group].config_epoch != in_sync.config_epoch)
            })
    }

    fn all_lose_power(&mut self) {
        (0..HOSTS).for_each(|host| self.kill_host(host));
        self.network.take_out(|_| true);
    }

    /// All lose power, and the coordinator comes back as it was; the folder of its leader of then, too.
    fn set_coordinator_back(&mut self) {
        let Some(backup) = self.histories.backup.take() else { return };
        if backup.cluster.hosts != self.record.cluster.hosts || backup.history.head() == self.record.history.head() {
            return;
        }
        self.all_lose_power();
        self.histories.set_back += 1;
        // What is known of most hosts stays known: with two folders that are old nobody could tell.
        let leader = backup.leader.as_ref().map(|(leader, _)| number_of(&leader.host));
        let last = self.record.history.head();
        let members = self.record.cluster.hosts.iter().map(|host| number_of(host));
        let others: Vec<usize> = members.filter(|host| Some(*host) != leader).collect();
        let is_known =
            others.len() + 1 == HOSTS && others.iter().all(|host| self.hosts[*host].copy.history.head() == last);
        if let Some(leader) = leader.filter(|_| is_known) {
            self.hosts[leader].copy = backup.copy(self.now);
        }
        self.record = Record { branch: backup.branch + self.now, ..backup };
        self.histories.rescue_at = self.now + 4_000 + self.random.below(6_000);
    }

    /// The cluster is made anew of what folders know. `goes`: a host that is gone for good.
    fn rescue(&mut self, goes: Option<usize>, has_coordinator: bool) {
        self.all_lose_power();
        let here = |host: &usize| Some(*host) != goes && self.record.cluster.hosts.contains(&name(*host));
        let found: Vec<HostFound> = (0..HOSTS)
            .filter(here)
            .map(|host| HostFound {
                host: name(host),
                address: self.hosts[host].address.clone(),
                copy: Some(self.hosts[host].copy.clone()),
                heights: self.hosts[host].heights.clone(),
                servers: self
                    .stores
                    .iter()
                    .filter(|store| store.host == host)
                    .map(|store| (store.server.id.clone(), ServerFound { offset: store.log.len() as u64, keys: 0 }))
                    .collect(),
            })
            .collect();
        let known = self.record.copy(self.now);
        let Ok(plan) = rescue::rescue(&found, None, has_coordinator.then_some(&known)) else { return };
        self.histories.rescues += 1;
        for group in &plan.groups {
            let id = group.servers.iter().zip(&plan.cluster.groups[&group.id].servers);
            let id =
                id.filter(|(server, _)| server.address == group.master).map(|(_, server)| server.id.clone()).next();
            let master = self.stores.iter().position(|store| Some(&store.server.id) == id.as_ref()).unwrap();
            for unit in (0..UNITS).filter(|unit| plan.cluster.slots.owner(slots_of(*unit).first) == Some(group.id)) {
                let has = self.stores[master].log.state(unit).clone();
                let lost: Vec<u64> = self.acknowledged[unit].iter().filter(|id| !has.contains(id)).copied().collect();
                let is_said = matches!(group.loss, Loss::Some(_));
                assert!(
                    lost.is_empty() || is_said,
                    "at {} a rescue calls group {} safe with {} of {:?}, without the acknowledged writes {lost:?} of unit {unit}",
                    self.now,
                    group.id,
                    group.master,
                    group.servers
                );
                self.histories.said_lost += lost.len() as u64;
                self.acknowledged[unit].retain(|id| has.contains(id));
                self.desk.forgiven.extend(lost);
            }
        }
        if let Some(host) = goes {
            self.stores.iter_mut().filter(|store| store.host == host).for_each(|store| store.back_at = u64::MAX);
        }
        let revision = self.record.revision + 1;
        let leader = Leader { host: plan.cluster.hosts[0].clone(), term: plan.term, api: String::new() };
        let history = plan.history(&format!("r{}-{}", self.now, self.histories.rescues));
        self.record = Record {
            revision,
            cluster: Arc::new(plan.cluster),
            state_version: revision,
            leader: Some((leader, revision)),
            history: Arc::new(history),
            branch: self.record.branch + self.now,
            ..Record::default()
        };
        self.histories.backup = None;
    }

    /// When nothing goes wrong any more, whoever is needed comes soon.
    pub fn heal_records(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.disk_full_until = 0);
        if self.histories.rescue_at > 0 {
            self.histories.rescue_at = self.now + 100;
        }
    }
}
