//! What goes wrong: processes that are killed and stopped, hosts that die, sleep and are cut off, a coordinator that is away.

use std::collections::BTreeMap;

use cluster::{
    Address,
    controller::Exit,
    slots::{Move, Phase, SlotEvent},
};

use super::{
    World,
    host::COMMIT_MS,
    log::{UNITS, slots_of},
    planted::Planted,
    world::{Commit, HOSTS, name},
};

impl World {
    /// Agents begin that are not there.
    pub fn start_agents(&mut self) {
        for host in 0..HOSTS {
            if !self.record.cluster.hosts.contains(&name(host)) {
                continue;
            }
            let is_due = self.now >= self.hosts[host].agent_at && self.now >= self.hosts[host].asleep_until;
            if self.hosts[host].agent.is_none() && is_due && !self.hosts[host].is_starting {
                self.hosts[host].runs += 1;
                self.hosts[host].is_starting = true;
                let seen = self.record.voters.get(&name(host)).copied().unwrap_or(0);
                self.commit(host, Commit::StartVoter { host, seen }, None);
                // Asked again if nothing is heard.
                self.hosts[host].agent_at = self.now + COMMIT_MS;
            } else if self.hosts[host].is_starting && self.now >= self.hosts[host].agent_at {
                self.hosts[host].is_starting = false;
            }
        }
    }

    pub fn kill_store(&mut self, index: usize) {
        if self.stores[index].is_dead {
            return;
        }
        let (address, run) = (self.stores[index].server.address.clone(), self.stores[index].run.clone());
        let host = self.stores[index].host;
        self.stores[index].is_dead = true;
        self.stores[index].back_at = self.now + 100 + self.random.below(600);
        let clock = self.hosts[host].clock(self.now);
        if self.now < self.hosts[host].asleep_until {
            return;
        }
        let is_redis = self.is_redis(index);
        // Its agent notices, if there is one.
        if let Some(agent) = self.hosts[host].agent.as_mut().filter(|_| is_redis) {
            let exit = Exit { server: &address, run: None, known: None };
            agent.controller.handle_exit(&agent.record.cluster, exit, clock);
        } else if let Some(agent) = &mut self.hosts[host].agent {
            agent.ended.push_back((index, address.clone(), run.clone()));
            agent.hear_ended(&address, &run, clock);
            self.tell_others(host);
        }
    }

    pub fn faults(&mut self) {
        for index in 0..self.stores.len() {
            let host = self.stores[index].host;
            // Where no agent is, somebody else starts them.
            let has_agent = self.hosts[host].agent.is_some() || !self.record.cluster.hosts.contains(&name(host));
            let is_up = has_agent && self.now >= self.hosts[host].asleep_until;
            let is_up = is_up && self.is_called_as_it_listens(index);
            if self.stores[index].is_dead && self.now >= self.stores[index].back_at && is_up {
                let planted = self.planted;
                self.stores[index].start_anew(planted);
                if self.is_redis(index) {
                    self.redis_begins_anew(index);
                }
            }
        }
        if self.now >= self.healed_at && self.healed_at > 0 {
            self.join_all();
        }
        if self.is_overloaded {
            self.overload();
        }
        self.set_something_back();
        if !self.wants_faults {
            return;
        }
        self.disturb_a_pause();
        self.disturb_a_hold();
        self.disturb_a_beginning();
        if !self.random.one_in(90) {
            return;
        }
        let host = self.random.below(HOSTS as u64) as usize;
        let index = self.random.below(self.stores.len() as u64) as usize;
        match self.random.below(18) {
            0 | 1 => self.kill_store(index),
            2 => self.stores[index].stopped_until = self.now + self.random.below(5_000),
            3 => {
                // The whole host dies, with all that runs on it.
                self.kill_host(host);
            }
            4 => self.kill_agent(host, 10),
            5 => self.hosts[host].asleep_until = self.now + self.random.below(6_000),
            6 => {
                // A host is cut off from everybody.
                (0..=HOSTS).filter(|other| *other != host).for_each(|other| self.network.set_cut(host, other, true));
                self.healed_at = self.now + 500 + self.random.below(5_000);
            }
            7 => {
                let other = self.random.below(HOSTS as u64 + 1) as usize;
                if other != host {
                    self.network.set_cut(host, other, true);
                    self.healed_at = self.healed_at.max(self.now + 500 + self.random.below(5_000));
                }
            }
            8 => self.coordinator_away_until = self.now + self.random.below(6_000),
            9 | 10 => self.promote_something(index),
            11..=16 => self.move_something(),
            17 if !self.desk.proxies.is_empty() && self.random.one_in(2) => self.stop_proxy(),
            17 if self.desk.proxies.is_empty() && self.random.one_in(2) => self.readdress(host),
            17 if self.desk.proxies.is_empty() && self.random.one_in(3) => {
                (0..HOSTS).for_each(|host| self.readdress(host));
            }
            // Everything loses power at the same time.
            _ if self.random.one_in(6) => (0..HOSTS).for_each(|host| self.kill_host(host)),
            _ => self.kill_master(index),
        }
        self.network.lost = self.random.below(30);
        self.network.slow = if self.random.one_in(2) { self.random.below(3_000) } else { 0 };
    }

    pub fn kill_host(&mut self, host: usize) {
        self.kill_agent(host, 500);
        for index in 0..self.stores.len() {
            if self.stores[index].host == host && !self.stores[index].is_dead {
                self.stores[index].is_dead = true;
                self.stores[index].back_at = self.now;
            }
        }
    }

    /// A host dies, and comes back with another address and the same folder.
    fn readdress(&mut self, host: usize) {
        self.kill_host(host);
        self.addresses += 1;
        self.hosts[host].address = format!("{}-{}", name(host), self.addresses);
    }

    /// The addresses that agents tell which are there.
    pub fn told_addresses(&self) -> BTreeMap<String, String> {
        let told = self.hosts.iter().enumerate().filter(|(_, host)| host.runs > 0);
        told.map(|(number, host)| (name(number), host.address.clone())).collect()
    }

    /// The store that listens at an address.
    pub fn found(&self, address: &Address) -> Option<usize> {
        self.stores.iter().position(|store| store.server.address == *address)
    }

    /// The store that a new connection to an address leads to: the one that is meant, or nobody.
    pub fn reached(&self, address: &Address, meant: Option<&str>) -> Option<usize> {
        let Some(exchanged) = &self.exchanged else { return self.found(address) };
        let found = self.found(&exchanged.leads_to(address))?;
        let is_meant = meant == Some(&self.stores[found].server.id);
        (is_meant || self.planted == Some(Planted::TakesWhatIsMeantForOthers)).then_some(found)
    }

    /// Whether a store may be started: its agent knows it by the address that its host has. It listens there from then on.
    fn is_called_as_it_listens(&mut self, index: usize) -> bool {
        let host = &self.hosts[self.stores[index].host];
        let Some(agent) = &host.agent else { return true };
        let id = &self.stores[index].server.id;
        let Some((_, server)) = agent.record.cluster.servers().find(|(_, server)| server.id == *id) else {
            return false;
        };
        let (is_here, address) = (server.address.host() == host.address, server.address.clone());
        if is_here && self.stores[index].is_dead {
            self.stores[index].server.address = address;
        }
        is_here
    }

    fn kill_master(&mut self, index: usize) {
        let master = self.record.cluster.groups[&self.stores[index].group].master.clone();
        if let Some(index) = self.stores.iter().position(|store| store.server.address == master) {
            self.kill_store(index);
        }
    }

    pub fn kill_agent(&mut self, host: usize, least: u64) {
        self.hosts[host].agent = None;
        self.hosts[host].is_starting = false;
        self.hosts[host].runs += 1;
        self.hosts[host].agent_at = self.now + least + self.random.below(2_000);
    }

    fn promote_something(&mut self, index: usize) {
        let leads =
            |host: &usize| self.hosts[*host].agent.as_ref().is_some_and(|agent| agent.controller.term().is_some());
        let Some(host) = (0..HOSTS).find(leads) else { return };
        let (group, address) = (self.stores[index].group, self.stores[index].server.address.clone());
        let clock = self.hosts[host].clock(self.now);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let found = agent.record.cluster.groups[&group].clone();
        let in_sync = agent.record.in_sync.get(&group).map(|known| known.0.clone()).unwrap_or_default();
        if let Some(keeper) = agent.controller.keeper_mut(group) {
            let _ = keeper.hand_over(&address, &found, &in_sync, clock);
        }
    }

    /// Something happens to one of the groups between which slots are being handed over: what may be lost is lost then.
    fn disturb_a_pause(&mut self) {
        let pausing = self
            .hosts
            .iter()
            .filter_map(|host| host.agent.as_ref())
            .find_map(|agent| agent.controller.pausing().next());
        let Some(what) = pausing.filter(|_| self.random.one_in(25)) else { return };
        let group = if self.random.one_in(2) { what.from } else { what.to };
        let of_group: Vec<usize> = (0..self.stores.len()).filter(|index| self.stores[*index].group == group).collect();
        let index = of_group[self.random.below(of_group.len() as u64) as usize];
        match self.random.below(6) {
            0 | 1 => self.kill_master(index),
            2 => self.promote_something(index),
            3 => self.stores[index].stopped_until = self.now + self.random.below(3_000),
            4 => self.move_something(),
            _ => self.kill_store(index),
        }
    }

    /// Servers are silent now and then, for about as long as a master is waited for.
    fn overload(&mut self) {
        for index in 0..self.stores.len() {
            if self.now >= self.stores[index].stopped_until && self.random.one_in(100) {
                self.stores[index].stopped_until = self.now + self.random.below(2_500);
            }
        }
    }

    /// Something happens while proxies are waited for.
    fn disturb_a_hold(&mut self) {
        let agents = self.hosts.iter().filter_map(|host| host.agent.as_ref());
        let is_held = agents.into_iter().any(|agent| agent.controller.fence.causes().next().is_some());
        if !is_held || !self.random.one_in(15) {
            return;
        }
        let index = self.random.below(self.stores.len() as u64) as usize;
        match self.random.below(8) {
            0 => self.kill_agent(0, 10),
            1 => self.stores[index].stopped_until = self.now + self.random.below(3_000),
            2 => self.kill_master(index),
            _ => self.stop_proxy(),
        }
    }

    /// While slots leave a Redis the agent dies, another one begins at once, and a proxy is stopped for about as long as its lease.
    fn disturb_a_beginning(&mut self) {
        let leaves = |(what, phase): &(Move, Phase)| {
            *phase == Phase::Copying && self.is_redis_unit(super::log::unit_of(what.slots.first))
        };
        if self.desk.proxies.is_empty() || !self.record.cluster.moving().iter().any(leaves) || !self.random.one_in(60) {
            return;
        }
        self.kill_agent(0, 10);
        self.hosts[0].agent_at = self.now + 10;
        let proxy = self.random.below(self.desk.proxies.len() as u64) as usize;
        self.desk.proxies[proxy].stopped_until = self.now + 700 + self.random.below(1_000);
    }

    /// A proxy is stopped, for longer than a lease or for a moment.
    fn stop_proxy(&mut self) {
        let proxy = self.random.below(self.desk.proxies.len() as u64) as usize;
        let most = if self.random.one_in(2) { 300 } else { 5_000 };
        self.desk.proxies[proxy].stopped_until = self.now + self.random.below(most);
    }

    /// A unit is to go to another group, or to stay where it is.
    fn move_something(&mut self) {
        let leads =
            |host: &usize| self.hosts[*host].agent.as_ref().is_some_and(|agent| agent.controller.term().is_some());
        let Some(host) = (0..HOSTS).find(leads) else { return };
        let wanted = 1 + self.random.below(4);
        for _ in 0..wanted {
            let slots = slots_of(self.random.below(UNITS as u64) as usize);
            let to = 1 + self.random.below(self.record.cluster.groups.len() as u64) as u32;
            let event = if self.random.one_in(6) { SlotEvent::Cancel } else { SlotEvent::Begin(to) };
            if let Some(agent) = &mut self.hosts[host].agent {
                agent.requests.push((slots, event));
            }
        }
    }

    fn join_all(&mut self) {
        self.healed_at = 0;
        for a in 0..=HOSTS {
            (0..=HOSTS).for_each(|b| self.network.set_cut(a, b, false));
        }
    }

    pub fn heal(&mut self) {
        self.join_all();
        (self.network.lost, self.network.slow) = (0, 0);
        self.coordinator_away_until = 0;
        self.hosts.iter_mut().for_each(|host| host.asleep_until = host.asleep_until.min(self.now));
        self.desk.proxies.iter_mut().for_each(|proxy| proxy.stopped_until = proxy.stopped_until.min(self.now));
        self.stores.iter_mut().for_each(|store| store.stopped_until = store.stopped_until.min(self.now));
        self.wants_faults = false;
        self.heal_records();
    }
}
