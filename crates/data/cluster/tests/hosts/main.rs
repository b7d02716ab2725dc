//! A cluster of three hosts in a simulation: hosts that die and sleep, processes that are killed and stopped, links that are cut,
//! messages that are slow, lost or come twice, clocks that differ, a coordinator that is away. At each moment one server of a group at
//! most serves, and whoever serves has all that was acknowledged; when everything is healed, all groups serve again.
//!
//! `SEEDS=100000 cargo test --release -p cluster --test hosts` is the long mode. A seed that fails is printed: `SEED=N` runs it alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod faults;
mod host;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster::{
    Address, Cluster, GroupId, Server,
    keeper::{Counting, Observation, Patience, Role, Step},
    model::ServerKind,
    voter::{ClockReading, Voter},
};
use host::{Agent, COMMIT_MS, Pending};
use world::{COORDINATOR, Commit, HOSTS, Message, Network, Random, Record, Store, name, number_of};

/// How long faults happen, and how long everything has to become well again.
const FAULTS_MS: u64 = 30_000;
const HEALED_MS: u64 = 20_000;
/// Seeds of a usual run.
const SEEDS: u64 = 25;

struct Host {
    agent: Option<Agent>,
    runs: u64,
    /// It is to be started then.
    agent_at: u64,
    /// Nothing of it runs before then, and its clock goes on.
    asleep_until: u64,
    /// Its clock: so much ahead, and so many thousandths quicker.
    ahead: u64,
    rate: u64,
    is_starting: bool,
}

impl Host {
    fn clock(&self, now: u64) -> u64 {
        self.ahead + now * self.rate / 1_000
    }
}

struct World {
    random: Random,
    now: u64,
    network: Network,
    record: Record,
    coordinator_away_until: u64,
    hosts: Vec<Host>,
    stores: Vec<Store>,
    acknowledged: BTreeMap<GroupId, BTreeSet<u64>>,
    commits: u64,
    written: u64,
    elections: u64,
    served: BTreeMap<GroupId, u64>,
    served_by: BTreeMap<GroupId, String>,
    last_sent: BTreeMap<(usize, usize), u64>,
    patience: Patience,
    wants_faults: bool,
    /// When cut links are whole again; 0: none is cut.
    healed_at: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let groups = 1 + random.below(3) as u32;
        let replicas = 1 + random.below(2) as usize;
        let mut cluster = Cluster { hosts: (0..HOSTS).map(name).collect(), ..Cluster::default() };
        let mut stores = Vec::new();
        for group in 1..=groups {
            let servers: Vec<Server> = (0..=replicas)
                .map(|number| {
                    let host = (group as usize + number) % HOSTS;
                    let address = Address::new(name(host), 1_000 + group as u16);
                    Server { id: format!("g{group}{}", name(host)), address, host: name(host), kind: ServerKind::Store }
                })
                .collect();
            stores.extend(servers.iter().map(|server| Store::new(server.clone(), group, number_of(&server.host))));
            cluster = cluster.with_group(group, servers, 1).unwrap();
        }
        cluster.epoch = 1;
        cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
        let record = Record { revision: 1, cluster: Arc::new(cluster), state_version: 1, ..Record::default() };
        let host = |random: &mut Random| Host {
            agent: None,
            runs: 0,
            agent_at: 0,
            asleep_until: 0,
            ahead: random.below(100_000),
            rate: 985 + random.below(31),
            is_starting: false,
        };
        let hosts = (0..HOSTS).map(|_| host(&mut random)).collect();
        Self {
            random,
            now: 0,
            network: Network::new(),
            record,
            coordinator_away_until: 0,
            hosts,
            stores,
            acknowledged: BTreeMap::new(),
            commits: 0,
            written: 0,
            elections: 0,
            served: BTreeMap::new(),
            served_by: BTreeMap::new(),
            last_sent: BTreeMap::new(),
            patience: Patience::default(),
            wants_faults: true,
            healed_at: 0,
        }
    }

    fn send(&mut self, way: (usize, usize), message: Message) {
        self.network.send(&mut self.random, self.now, way, message);
    }

    /// One connection: what is sent later comes later.
    fn send_in_order(&mut self, (from, server): (usize, usize), message: Message) {
        let to = self.stores[server].host;
        let before = self.last_sent.get(&(from, server)).copied().unwrap_or(0);
        let at = self.network.send_after(&mut self.random, (self.now, before), (from, to), message);
        self.last_sent.insert((from, server), at.max(before));
    }

    fn store_runs(&self, index: usize) -> bool {
        let store = &self.stores[index];
        !store.is_dead && self.now >= store.stopped_until && self.now >= self.hosts[store.host].asleep_until
    }

    fn store_clock(&self, index: usize) -> u64 {
        self.hosts[self.stores[index].host].clock(self.now)
    }

    fn commit(&mut self, host: usize, commit: Commit) {
        self.commits += 1;
        let (number, now) = (self.commits, self.now);
        let run = self.hosts[host].runs;
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.pending = Some(Pending { number, sent_at: now });
        }
        // What waits in the coordinator may be done much later, when whoever asked has given it up.
        let late = if self.network.slow > 0 && self.random.one_in(8) { self.random.below(4_000) } else { 0 };
        if !self.network.is_cut(host, COORDINATOR) {
            let at = now + 5 + self.random.below(20) + late;
            self.network.put(at, host, COORDINATOR, Message::Commit { from: host, run, number, commit });
        }
    }

    fn start_agents(&mut self) {
        for host in 0..HOSTS {
            let is_due = self.now >= self.hosts[host].agent_at && self.now >= self.hosts[host].asleep_until;
            if self.hosts[host].agent.is_none() && is_due && !self.hosts[host].is_starting {
                self.hosts[host].runs += 1;
                self.hosts[host].is_starting = true;
                self.commit(host, Commit::StartVoter { host });
                // Asked again if nothing is heard.
                self.hosts[host].agent_at = self.now + COMMIT_MS;
            } else if self.hosts[host].is_starting && self.now >= self.hosts[host].agent_at {
                self.hosts[host].is_starting = false;
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((from, to, message)) = self.network.due(self.now) {
            if self.network.is_cut(from, to) {
                continue;
            }
            if to == COORDINATOR {
                self.coordinate(message);
                continue;
            }
            if self.now < self.hosts[to].asleep_until {
                let until = self.hosts[to].asleep_until;
                self.network.put(until, from, to, message);
                continue;
            }
            self.receive(from, to, message);
        }
    }

    fn coordinate(&mut self, message: Message) {
        let Message::Commit { from, run, number, commit } = message else { return };
        if self.now < self.coordinator_away_until {
            return;
        }
        let told = match &commit {
            Commit::InSync { group, in_sync, .. } => format!("in sync of {group}: {in_sync:?}"),
            Commit::State { cluster, .. } => format!("epoch {}", cluster.epoch),
            Commit::Lead { leader, .. } => format!("{leader:?}"),
            Commit::StartVoter { host } => format!("voter {host}"),
        };
        let done = self.record.commit(commit);
        if crate::number("TELL").is_some_and(|tell| tell > 1) {
            eprintln!("{} commit {number} of {from}: {told}: {done}", self.now);
        }
        let reply = Message::Committed { run, number, done, record: Box::new(self.record.clone()) };
        self.send((COORDINATOR, from), reply);
        for host in 0..HOSTS {
            let watch = Message::Watch { record: Box::new(self.record.clone()) };
            self.send((COORDINATOR, host), watch);
        }
    }

    fn receive(&mut self, from: usize, to: usize, message: Message) {
        let now = self.now;
        let clock = self.hosts[to].clock(now);
        match message {
            Message::Committed { run, number, done, record } => self.take_outcome(to, (run, number), done, &record),
            Message::Watch { record } => {
                if let Some(agent) = &mut self.hosts[to].agent {
                    agent.take_record(&record);
                }
            }
            Message::View(view) => {
                let Some(agent) = &mut self.hosts[to].agent else { return };
                if agent.hear(*view, clock) {
                    self.tell_others(to);
                }
            }
            Message::Clock { group, server, run, clock_us } => {
                let address = self.stores[server].server.address.clone();
                let Some(agent) = &mut self.hosts[to].agent else { return };
                agent.runs.insert(address.clone(), run.clone());
                let reading = ClockReading { clock_us, heard_at: clock };
                if let Some(vote) = agent.voter.vote(group, &address, &run, reading) {
                    let host = self.stores[server].host;
                    self.send((to, host), Message::Vote { server, voter: to, run, vote });
                }
            }
            Message::Answer { term, server, seen } => {
                let address = self.stores[server].server.address.clone();
                let group = self.stores[server].group;
                let Some(agent) = &mut self.hosts[to].agent else { return };
                // Rounds that take too long are given up.
                if agent.term == Some(term)
                    && clock <= seen.asked_at + 400
                    && let Some(keeper) = agent.keepers.get_mut(&group)
                {
                    keeper.handle_observed(&address, Observation { answered_at: clock, ..seen });
                }
            }
            Message::Paused { term, server, until } => {
                let address = self.stores[server].server.address.clone();
                let group = self.stores[server].group;
                let Some(agent) = &mut self.hosts[to].agent else { return };
                if agent.term == Some(term)
                    && let Some(keeper) = agent.keepers.get_mut(&group)
                {
                    keeper.handle_paused(&address, clock, until);
                }
            }
            Message::AskClock { server, .. }
            | Message::Vote { server, .. }
            | Message::Step { server, .. }
            | Message::Question { server, .. } => {
                if self.stores[server].is_dead {
                    return;
                }
                if now < self.stores[server].stopped_until {
                    // It lies in the socket of a stopped process until that goes on.
                    let until = self.stores[server].stopped_until;
                    self.network.put(until, from, to, message);
                    return;
                }
                self.ask_store(server, message);
            }
            Message::Commit { .. } => {}
        }
    }

    fn take_outcome(&mut self, host: usize, (run, number): (u64, u64), done: bool, record: &Record) {
        if self.hosts[host].runs != run {
            return;
        }
        let clock = self.hosts[host].clock(self.now);
        if self.hosts[host].is_starting {
            let incarnation = record.voters[&name(host)];
            let mut voter = Voter::new(incarnation, self.patience, clock, self.patience.lease_ms);
            voter.learn(&record.cluster);
            voter.note_leader(record.leader.as_ref().map_or(0, |leader| leader.0.term));
            let agent = Agent::new(record.clone(), voter, self.patience, clock);
            self.hosts[host].agent = Some(agent);
            self.hosts[host].is_starting = false;
            return;
        }
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.take_record(record);
        if agent.pending.as_ref().is_some_and(|pending| pending.number == number) {
            agent.pending = None;
            agent.committed(done);
        }
    }

    fn ask_store(&mut self, server: usize, message: Message) {
        let (host, clock) = (self.stores[server].host, self.store_clock(server));
        match message {
            Message::AskClock { from, group, .. } => {
                let run = self.stores[server].run.clone();
                self.send((host, from), Message::Clock { group, server, run, clock_us: clock * 1_000 });
            }
            Message::Vote { voter, run, vote, .. } => self.stores[server].take_vote(&name(voter), &run, &vote),
            Message::Question { from, term, asked_at, .. } => {
                let store = &mut self.stores[server];
                if term < store.term {
                    return;
                }
                store.term = term;
                let serves = store.serves(clock);
                let role = store.master.clone();
                let is_linked = store.is_linked;
                let seen = Observation {
                    asked_at,
                    answered_at: 0,
                    role: role.map_or(Role::Master, |master| Role::Replica { master, is_linked }),
                    offset: store.log.len() as u64,
                    epoch: store.epoch,
                    counting: store.counting.clone(),
                    followers: store.replicas.keys().cloned().collect(),
                    run: store.run.clone(),
                    serves,
                };
                self.send((host, from), Message::Answer { term, server, seen });
            }
            Message::Step { term, step, cluster, .. } => self.obey(server, term, step, &cluster),
            _ => {}
        }
    }

    fn obey(&mut self, server: usize, term: u64, step: Step, cluster: &Cluster) {
        if number("TELL").is_some_and(|tell| tell > 1) {
            eprintln!(
                "{} {} is told {step:?} in epoch {}, term {term}",
                self.now, self.stores[server].run, cluster.epoch
            );
        }
        let clock = self.store_clock(server);
        let store = &mut self.stores[server];
        if term < store.term {
            return;
        }
        store.term = term;
        match step {
            Step::Tell { .. } => store.learn(cluster),
            Step::Follow { master, .. } => {
                if store.master.as_ref() != Some(&master) {
                    (store.master, store.is_linked) = (Some(master), false);
                    store.replicas.clear();
                }
            }
            Step::Promote { .. } => {
                (store.master, store.is_linked) = (None, false);
                store.replicas.clear();
            }
            Step::Count { serial, count, .. } => store.count(Counting { term, serial, count }),
            Step::Pause { ms, .. } => {
                store.paused_until = clock + ms;
            }
            Step::EndPause { .. } => store.paused_until = 0,
            Step::WriteInSync(_) | Step::Elect { .. } | Step::Renew { .. } => {}
        }
    }

    fn tell_others(&mut self, host: usize) {
        let clock = self.hosts[host].clock(self.now);
        let Some(agent) = &self.hosts[host].agent else { return };
        let view = agent.view(host, clock);
        for other in (0..HOSTS).filter(|other| *other != host) {
            self.send((host, other), Message::View(Box::new(view.clone())));
        }
    }

    fn agents(&mut self) {
        for host in 0..HOSTS {
            if self.now < self.hosts[host].asleep_until {
                continue;
            }
            let (now, clock) = (self.now, self.hosts[host].clock(self.now));
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            if agent.pending.as_ref().is_some_and(|pending| now >= pending.sent_at + COMMIT_MS) {
                agent.pending = None;
                agent.committed(false);
            }
            if now.is_multiple_of(100) {
                self.ask_masters(host);
                self.tell_others(host);
            }
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            if let Some(commit) = agent.stand(host, clock) {
                self.commit(host, commit);
                continue;
            }
            // The loop waits for the coordinator.
            if agent.term.is_none() || agent.pending.is_some() {
                continue;
            }
            self.lead(host, clock);
        }
    }

    fn ask_masters(&mut self, host: usize) {
        let Some(agent) = &self.hosts[host].agent else { return };
        let masters: Vec<(GroupId, Address)> =
            agent.voter.masters().map(|(group, master)| (group, master.clone())).collect();
        for (group, master) in masters {
            let server = self.stores.iter().position(|store| store.server.address == master).unwrap();
            let to = self.stores[server].host;
            self.send((host, to), Message::AskClock { from: host, group, server });
        }
    }

    fn lead(&mut self, host: usize, clock: u64) {
        let now = self.now;
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let Some(term) = agent.term else { return };
        let steps = agent.poll(clock);
        let cluster = Arc::clone(&agent.record.cluster);
        let guard = agent.guard();
        let mut decision = None;
        for (group, step) in steps {
            let agent = self.hosts[host].agent.as_ref().unwrap();
            let is_told_elsewhere =
                matches!(step, Step::Tell { .. } | Step::Follow { .. } | Step::Promote { .. } | Step::Count { .. });
            if !is_told_elsewhere && number("TELL").is_some_and(|tell| tell > 1) {
                eprintln!("{now} {host} wants {step:?} of group {group}");
            }
            match step {
                Step::WriteInSync(in_sync) => {
                    let seen = agent.record.in_sync.get(&group).map_or(0, |known| known.1);
                    decision.get_or_insert(Commit::InSync { group, in_sync, seen, guard: guard.clone() });
                }
                Step::Elect { master, .. } => {
                    self.elections += 1;
                    let next = cluster.with_master(group, &master).unwrap();
                    decision = Some(Commit::State { cluster: next, guard: guard.clone() });
                }
                Step::Renew { .. } => {
                    decision.get_or_insert(Commit::State { cluster: cluster.renewed(), guard: guard.clone() });
                }
                step => {
                    let address = server_of(&step);
                    let server = self.stores.iter().position(|store| store.server.address == *address).unwrap();
                    let to = self.stores[server].host;
                    if let Step::Pause { ms, .. } = &step {
                        // Counted from before it was sent: it is not over sooner.
                        let until = clock + ms;
                        let told = self.network.is_cut(host, to) || !self.store_runs(server);
                        if !told {
                            self.stores[server].paused_until = self.store_clock(server) + ms;
                            self.send((to, host), Message::Paused { term, server, until });
                        }
                        continue;
                    }
                    self.send_in_order(
                        (host, server),
                        Message::Step { server, term, step, cluster: Arc::clone(&cluster) },
                    );
                }
            }
        }
        let agent = self.hosts[host].agent.as_mut().unwrap();
        let is_news = agent.tell_will(host, clock);
        if is_news {
            self.tell_others(host);
        }
        if now.is_multiple_of(100) {
            for server in 0..self.stores.len() {
                self.send_in_order((host, server), Message::Question { from: host, server, term, asked_at: clock });
            }
        }
        if let Some(commit) = decision {
            self.commit(host, commit);
        }
    }

    fn replicate(&mut self) {
        for index in 0..self.stores.len() {
            let Some(master) = self.stores[index].master.clone() else { continue };
            let source = self.stores.iter().position(|store| store.server.address == master).unwrap();
            let is_cut = self.network.is_cut(self.stores[index].host, self.stores[source].host);
            let both_run = self.store_runs(index) && self.store_runs(source);
            let address = self.stores[index].server.address.clone();
            if both_run && !is_cut && self.stores[source].master.is_none() {
                if !self.random.one_in(4) {
                    continue;
                }
                let log = self.stores[source].log.clone();
                let is_prefix = log.starts_with(&self.stores[index].log);
                let known = self.stores[index].log.len();
                let upto = if is_prefix {
                    known + self.random.below((log.len() - known) as u64 + 1) as usize
                } else {
                    log.len()
                };
                self.stores[index].log = log[..upto].to_vec();
                self.stores[index].is_linked = true;
                self.stores[source].replicas.insert(address, upto);
            } else if !both_run || self.stores[source].master.is_some() || self.random.one_in(50) {
                self.stores[index].is_linked = false;
                self.stores[source].replicas.remove(&address);
            }
        }
    }

    fn clients(&mut self) {
        let groups: Vec<GroupId> = self.record.cluster.groups.keys().copied().collect();
        for group in groups {
            let serving: Vec<usize> = (0..self.stores.len())
                .filter(|index| self.stores[*index].group == group && self.store_runs(*index))
                .filter(|index| self.stores[*index].serves(self.store_clock(*index)))
                .collect();
            assert!(
                serving.len() <= 1,
                "two of group {group} serve at {}: {:?}",
                self.now,
                serving.iter().map(|index| self.stores[*index].server.address.to_string()).collect::<Vec<_>>()
            );
            let Some(index) = serving.first().copied() else { continue };
            *self.served.entry(group).or_default() += 1;
            let acknowledged = self.acknowledged.entry(group).or_default();
            let store = &self.stores[index];
            // What it has acknowledged itself it has.
            let was = self.served_by.insert(group, store.run.clone());
            if was.as_ref() != Some(&store.run) || self.now.is_multiple_of(1_000) {
                let has: BTreeSet<u64> = store.log.iter().copied().collect();
                if let Some(lost) = acknowledged.iter().find(|id| !has.contains(id)) {
                    panic!("{} serves at {} without the acknowledged write {lost}", store.server.address, self.now);
                }
            }
            let safe = store.safe();
            let tells = number("TELL").is_some_and(|tell| tell > 1);
            for id in store.log.iter().take(safe).rev() {
                if !acknowledged.insert(*id) {
                    break;
                }
                if tells {
                    eprintln!(
                        "{} {} acknowledges {id}: {:?} replicas {:?} log {}",
                        self.now,
                        store.run,
                        store.counting,
                        store.replicas,
                        store.log.len()
                    );
                }
            }
            if self.random.one_in(8) && self.written < 4_000 {
                self.written += 1;
                let id = self.written;
                self.stores[index].log.push(id);
            }
        }
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.now += 10;
            self.start_agents();
            self.faults();
            self.deliver();
            self.agents();
            self.replicate();
            self.clients();
            if number("TELL").is_some() && self.now.is_multiple_of(1_000) {
                self.tell();
            }
        }
    }

    /// What `TELL=1` shows.
    fn tell(&self) {
        let leaders: Vec<usize> = (0..HOSTS)
            .filter(|host| self.hosts[*host].agent.as_ref().is_some_and(|agent| agent.term.is_some()))
            .collect();
        eprintln!(
            "{} epoch {} leaders {leaders:?} lost {} slow {}",
            self.now, self.record.cluster.epoch, self.network.lost, self.network.slow
        );
        for (group, found) in &self.record.cluster.groups {
            let in_sync = self.record.in_sync.get(group).map(|known| known.0.of(found).members).unwrap_or_default();
            eprintln!(
                "  group {group}: {} in sync {in_sync:?} acknowledged {}",
                found.master,
                self.acknowledged.get(group).map_or(0, BTreeSet::len)
            );
        }
    }

    fn run(&mut self) {
        self.run_until(FAULTS_MS);
        self.heal();
        self.run_until(FAULTS_MS + HEALED_MS - 3_000);
        self.served.clear();
        self.run_until(FAULTS_MS + HEALED_MS);
        for group in self.record.cluster.groups.keys() {
            let served = self.served.get(group).copied().unwrap_or(0);
            assert!(served > 200, "group {group} does not serve when everything is well again ({served} of 300)");
        }
    }
}

fn server_of(step: &Step) -> &Address {
    match step {
        Step::Tell { server }
        | Step::Follow { server, .. }
        | Step::Promote { server }
        | Step::Count { server, .. }
        | Step::Pause { server, .. }
        | Step::EndPause { server } => server,
        Step::WriteInSync(_) | Step::Elect { .. } | Step::Renew { .. } => unreachable!(),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn one_serves_nothing_is_lost_and_all_is_well_again() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("SEEDS").unwrap_or(SEEDS) + 1,
    };
    let (mut elections, mut acknowledged, mut count) = (0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run()));
        assert!(result.is_ok(), "SEED={seed}");
        elections += world.elections;
        acknowledged += world.acknowledged.values().map(BTreeSet::len).sum::<usize>() as u64;
        count += 1;
    }
    // Else nothing was tested.
    assert!(elections >= count && acknowledged > 100 * count, "{elections} elections, {acknowledged} writes");
}
