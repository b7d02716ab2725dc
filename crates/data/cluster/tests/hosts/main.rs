//! A cluster of three hosts in a simulation: hosts that die and sleep, processes that are killed and stopped, links that are cut,
//! messages that are slow, lost or come twice, clocks that differ, a coordinator that is away. At each moment one server of a group at
//! most serves, and whoever serves has all that was acknowledged; when everything is healed, all groups serve again. Meanwhile slots move
//! between the groups, several ranges at once: of each range one server at most serves, whichever group it is of.
//!
//! `SEEDS=100000 cargo test --release -p cluster --test hosts` is the long mode. A seed that fails is printed: `SEED=N` runs it alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod clients;
mod exchanged;
mod faults;
mod histories;
mod host;
mod log;
mod moves;
mod planted;
mod redis;
mod replicate;
mod runs;
mod set_back;
mod tell;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster::{
    Address, Cluster, GroupId, Server,
    controller::{Action, Decision},
    heights::AllHeights,
    keeper::{Counting, Observation, Patience, RedisOrder, Role, Step},
    model::ServerKind,
    record::RecordCopy,
    voter::{ClockReading, Voter},
};
use histories::Histories;
use host::{Agent, COMMIT_MS, Pending, commit_of};
use log::{UNITS, slots_of};
use moves::{Mover, Part, ROUND_MS};
use planted::Planted;
use redis::{Desk, Proxy, WRITING_MS};
use tell::is_told_of;
use world::{COORDINATOR, Commit, HOSTS, Message, Network, Random, Record, Store, name, number_of};

/// How long faults happen, and how long everything has to become well again.
const FAULTS_MS: u64 = 30_000;
const HEALED_MS: u64 = 20_000;

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
    /// The address that it tells.
    address: String,
    /// What its disk has of the record.
    copy: RecordCopy,
    disk_full_until: u64,
    /// What its disk has of how far servers were.
    heights: AllHeights,
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
    /// By unit.
    acknowledged: [BTreeSet<u64>; UNITS],
    commits: u64,
    written: u64,
    entries: u64,
    elections: u64,
    readdressed: u64,
    /// How many addresses hosts have been given.
    addresses: u64,
    switches: u64,
    served: [u64; UNITS],
    served_by: [String; UNITS],
    movers: Vec<Mover>,
    /// Where there are Redis servers: the proxies.
    desk: Desk,
    planted: Option<Planted>,
    last_sent: BTreeMap<(usize, usize), u64>,
    patience: Patience,
    wants_faults: bool,
    is_overloaded: bool,
    /// Folders are set back to copies of before, one at a time while all is well.
    set_backs: Option<set_back::SetBacks>,
    /// The name service has the names of two hosts exchanged.
    exchanged: Option<exchanged::Exchanged>,
    /// When cut links are whole again; 0: none is cut.
    healed_at: u64,
    histories: Histories,
}

/// What groups are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    /// All of stores; each host has an agent.
    Stores,
    /// Some of Redis servers; one host has the agent and the proxies.
    Mixed,
}

impl World {
    fn new(seed: u64, kinds: Kinds) -> Self {
        let mut random = Random::new(seed);
        let groups = 1 + random.below(3) as u32;
        let replicas = 1 + random.below(2) as usize;
        let agents = if kinds == Kinds::Mixed { 1 } else { HOSTS };
        let mut cluster = Cluster { hosts: (0..agents).map(name).collect(), ..Cluster::default() };
        let mut stores = Vec::new();
        for group in 1..=groups {
            let is_redis = kinds == Kinds::Mixed && (group == 1 || random.one_in(2));
            let kind = if is_redis { ServerKind::Redis } else { ServerKind::Store };
            let ack = if is_redis { random.below(2) as u32 } else { 1 };
            let servers: Vec<Server> = (0..=replicas)
                .map(|number| {
                    let host = (group as usize + number) % HOSTS;
                    let address = Address::new(name(host), 1_000 + group as u16);
                    Server { id: format!("g{group}{}", name(host)), address, host: name(host), kind }
                })
                .collect();
            stores.extend(servers.iter().map(|server| Store::new(server.clone(), group, number_of(&server.host))));
            cluster = cluster.with_group(group, servers, ack).unwrap();
        }
        cluster = cluster.with_slots_shared_out().unwrap();
        cluster.epoch = 1;
        cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
        let proxies = if kinds == Kinds::Mixed { vec![Proxy::new(1), Proxy::new(2)] } else { Vec::new() };
        let mut desk = Desk::default();
        desk.proxies = proxies;
        let record = Record { revision: 1, cluster: Arc::new(cluster), state_version: 1, ..Record::default() };
        let host = |number: usize, random: &mut Random| Host {
            address: name(number),
            agent: None,
            runs: 0,
            agent_at: 0,
            asleep_until: 0,
            ahead: random.below(100_000),
            rate: 985 + random.below(31),
            is_starting: false,
            copy: RecordCopy::default(),
            disk_full_until: 0,
            heights: AllHeights::default(),
        };
        let hosts = (0..HOSTS).map(|number| host(number, &mut random)).collect();
        Self {
            random,
            now: 0,
            network: Network::new(),
            record,
            coordinator_away_until: 0,
            hosts,
            stores,
            acknowledged: Default::default(),
            commits: 0,
            written: 0,
            entries: 0,
            elections: 0,
            readdressed: 0,
            addresses: 0,
            switches: 0,
            served: [0; UNITS],
            served_by: Default::default(),
            movers: Vec::new(),
            desk,
            planted: None,
            last_sent: BTreeMap::new(),
            patience: Patience::default(),
            wants_faults: true,
            is_overloaded: false,
            set_backs: None,
            exchanged: None,
            healed_at: 0,
            histories: Histories::default(),
        }
    }

    fn send(&mut self, way: (usize, usize), message: Message) {
        self.network.send(&mut self.random, self.now, way, message);
    }

    /// One connection of a host: what is sent later comes later. Says whether it comes at all.
    fn send_in_order(&mut self, (connection, server): (usize, usize), (from, message): (usize, Message)) -> bool {
        let to = self.stores[server].host;
        let before = self.last_sent.get(&(connection, server)).copied().unwrap_or(0);
        let at = self.network.send_after(&mut self.random, (self.now, before), (from, to), message);
        self.last_sent.insert((connection, server), at.max(before));
        at > 0
    }

    /// The same, of which nothing is lost as long as the link is whole.
    fn send_surely(&mut self, way: (usize, usize), what: (usize, Message)) {
        let lost = std::mem::take(&mut self.network.lost);
        self.send_in_order(way, what);
        self.network.lost = lost;
    }

    fn next_number(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn store_runs(&self, index: usize) -> bool {
        let store = &self.stores[index];
        !store.is_dead && self.now >= store.stopped_until && self.now >= self.hosts[store.host].asleep_until
    }

    fn store_clock(&self, index: usize) -> u64 {
        self.hosts[self.stores[index].host].clock(self.now)
    }

    pub fn commit(&mut self, host: usize, commit: Commit, decision: Option<Decision>) {
        self.commits += 1;
        let (number, now) = (self.commits, self.now);
        let run = self.hosts[host].runs;
        if let Some(agent) = &mut self.hosts[host].agent {
            agent.pending = Some(Pending { number, sent_at: now, decision });
        }
        // What waits in the coordinator may be done much later, when whoever asked has given it up.
        let late = if self.network.slow > 0 && self.random.one_in(8) { self.random.below(4_000) } else { 0 };
        if self.is_embedded() {
            let at = now + self.random.below(WRITING_MS);
            self.network.put(at, host, COORDINATOR, Message::Commit { from: host, run, number, commit });
        } else if !self.network.is_cut(host, COORDINATOR) {
            let at = now + 5 + self.random.below(20) + late;
            self.network.put(at, host, COORDINATOR, Message::Commit { from: host, run, number, commit });
        }
    }

    /// Whether the coordinator is a file of the only agent: it is there as long as that is.
    fn is_embedded(&self) -> bool {
        self.record.cluster.hosts.len() == 1
    }

    fn deliver(&mut self) {
        while let Some((from, to, message)) = self.network.due(self.now) {
            let is_own = self.is_embedded() && (from == COORDINATOR || to == COORDINATOR);
            if self.network.is_cut(from, to) && !is_own {
                self.break_mover(&message);
                self.lose_write(&message);
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

    /// A connection by which slots are filled has ended with something on its way.
    pub fn break_mover(&mut self, message: &Message) {
        if let Message::Fill { mover, .. } | Message::Admit { mover, .. } = message {
            self.movers[*mover].has_failed = true;
        }
    }

    fn coordinate(&mut self, message: Message) {
        let Message::Commit { from, run, number, commit } = message else { return };
        if self.now < self.coordinator_away_until && !self.is_embedded() {
            return;
        }
        let told = match &commit {
            Commit::InSync { group, in_sync, .. } => format!("in sync of {group}: {in_sync:?}"),
            Commit::State { cluster, .. } => {
                format!("epoch {} {:?} {:?}", cluster.epoch, cluster.moving(), cluster.addresses)
            }
            Commit::Lead { leader, .. } => format!("{leader:?}"),
            Commit::StartVoter { host, .. } => format!("voter {host}"),
            Commit::Pending { pending, .. } => format!("{pending:?}"),
        };
        let before = Arc::clone(&self.record.cluster);
        let is_hand_over = matches!(commit, Commit::State { is_hand_over: true, .. });
        let done = self.record.commit(commit);
        if done {
            self.look_what_went(&before, is_hand_over);
        }
        let has_moved = |unit: &usize| {
            let slot = slots_of(*unit).first;
            before.slots.owner(slot) != self.record.cluster.slots.owner(slot)
        };
        self.switches += (0..UNITS).filter(has_moved).count() as u64;
        if crate::number("TELL").is_some_and(|tell| tell > 1) {
            eprintln!("{} commit {number} of {from}: {told}: {done}", self.now);
        }
        let reply = Message::Committed { run, number, done, record: Box::new(self.record.clone()) };
        if self.is_embedded() {
            self.network.put(self.now, COORDINATOR, from, reply);
            return;
        }
        self.send((COORDINATOR, from), reply);
        for host in 0..HOSTS {
            let watch = Message::Watch { record: Box::new(self.record.clone()) };
            self.send((COORDINATOR, host), watch);
        }
    }

    /// What was lost on the way to an agent is told again once nothing is lost any more.
    fn tell_agents_of_the_record(&mut self) {
        for host in 0..HOSTS {
            let watch = Message::Watch { record: Box::new(self.record.clone()) };
            self.network.put(self.now + 5, COORDINATOR, host, watch);
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
                let (address, is_redis) = (self.stores[server].server.address.clone(), self.is_redis(server));
                let Some(agent) = &mut self.hosts[to].agent else { return };
                // Rounds that take too long are given up.
                let first_asked_at = seen.asked_at;
                if agent.controller.term() == Some(term) && clock <= seen.asked_at + ROUND_MS {
                    // A Redis knows no epoch: what it is told it does.
                    let epoch = if is_redis { agent.record.cluster.epoch } else { seen.epoch };
                    let late = self.planted == Some(Planted::AnswersCountLate);
                    let asked_at = if late { clock } else { seen.asked_at };
                    let seen = Observation { asked_at, answered_at: clock, epoch, ..seen };
                    agent.controller.handle_observed(&agent.record.cluster, &address, seen, clock);
                    agent.round_is_over(&address, first_asked_at, true);
                }
            }
            message @ (Message::Paused { .. } | Message::Cleared { .. }) => self.hear_of_moves(to, &message),
            message @ (Message::Written { .. } | Message::AskProxy { .. }) => self.hear_at_proxy(message),
            Message::ProxyDone { proxy, done } => self.hear_proxy_done(to, (proxy, done)),
            Message::Commit { .. } => {}
            message => {
                let Some(server) = message.server() else { return };

                if self.stores[server].is_dead {
                    self.break_mover(&message);
                    if let Message::Write { proxy, request, .. } = message {
                        self.answer_write(server, (proxy, request), None);
                    }
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
        }
    }

    fn take_outcome(&mut self, host: usize, (run, number): (u64, u64), done: bool, record: &Record) {
        if self.hosts[host].runs != run {
            return;
        }
        let clock = self.hosts[host].clock(self.now);
        if self.hosts[host].is_starting {
            if !done {
                // What a process before this one had sent came first.
                (self.hosts[host].is_starting, self.hosts[host].agent_at) = (false, self.now);
                return;
            }
            if !self.begins_by(host, record) {
                (self.hosts[host].is_starting, self.hosts[host].agent_at) = (false, self.now + 300);
                return;
            }
            let incarnation = record.voters[&name(host)];
            let given = if self.planted == Some(Planted::ForgetsVotes) { 0 } else { clock };
            let mut voter = Voter::new(incarnation, self.patience, given, self.patience.lease_ms);
            if !self.histories.is_on {
                voter.learn(&record.cluster);
            }
            if self.planted != Some(Planted::ForgetsHeights) {
                voter.remember(&self.hosts[host].heights);
            }
            voter.note_leader(record.leader.as_ref().map_or(0, |leader| leader.0.term));
            let mut agent = Agent::new(host, (record.clone(), voter), (self.patience, self.planted), clock);
            agent.learns_at_once = !self.histories.is_on;
            self.hosts[host].agent = Some(agent);
            self.hosts[host].is_starting = false;
            return;
        }
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.take_record(record);
        if let Some(pending) = agent.pending.take_if(|pending| pending.number == number) {
            agent.committed(done, pending.decision.as_ref(), clock);
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
            Message::Question { from, term, asked_at, .. } if self.is_redis(server) => {
                let seen = self.observe_redis(server, asked_at);
                self.send((host, from), Message::Answer { term, server, seen });
            }
            message @ Message::Redis { .. } => self.obey_redis(message),
            message @ Message::Write { .. } => self.write_to_redis(message),
            Message::Question { from, term, asked_at, .. } => {
                let store = &mut self.stores[server];
                if term < store.term {
                    let known = store.term;
                    if self.histories.is_on
                        && let Some(agent) = &mut self.hosts[from].agent
                    {
                        agent.controller.handle_stale_term(known);
                    }
                    return;
                }
                store.term = term;
                let serves = store.serves(clock) || self.planted == Some(Planted::SaysItServes);
                let role = store.master.clone();
                let is_linked = store.is_linked;
                let early = if self.planted == Some(Planted::EarlyEnd) { self.random.below(3) } else { 0 };
                let says_more = self.planted == Some(Planted::ServesWithLess);
                let had = if says_more && store.master.is_none() { store.longest } else { 0 };
                let seen = Observation {
                    asked_at,
                    answered_at: 0,
                    role: role.map_or(Role::Master, |master| Role::Replica { master, is_linked }),
                    offset: (store.log.len().max(had) as u64).saturating_sub(early),
                    durable: (store.log.len() as u64).saturating_sub(early),
                    epoch: store.epoch,
                    counting: store.counting.clone(),
                    followers: store.replicas.keys().cloned().collect(),
                    run: store.run.clone(),
                    serves,
                    pauses: store.pauses.iter().filter(|pause| clock < pause.2).map(|pause| pause.0).collect(),
                    bond: store.bond.filter(|_| store.master.is_some() && !says_more),
                    histories: store.histories.clone(),
                };
                self.send((host, from), Message::Answer { term, server, seen });
            }
            Message::Step { term, step, cluster, .. } => self.obey(server, term, step, &cluster),
            message @ (Message::Admit { .. } | Message::Fill { .. }) => self.fill(&message),
            message => self.obey_mover(&message, clock),
        }
    }

    fn obey(&mut self, server: usize, term: u64, step: Step, cluster: &Arc<Cluster>) {
        if number("TELL").is_some_and(|tell| tell > 1) {
            eprintln!(
                "{} {} is told {step:?} in epoch {}, term {term}",
                self.now, self.stores[server].run, cluster.epoch
            );
        }
        let planted = self.planted;
        let store = &mut self.stores[server];
        if !store.takes_term(term) {
            return;
        }
        match step {
            Step::Tell { .. } => store.learn(cluster, planted),
            Step::Follow { master, since, keeps, .. } => {
                let id = id_of(cluster, &master);
                store.follow((master, id), since, keeps);
            }
            Step::Promote { .. } => {
                (store.master, store.is_linked, store.acknowledged) = (None, false, 0);
                (store.bond, store.is_bound) = (None, false);
                store.replicas.clear();
            }
            Step::Count { serial, count, .. } => store.count(Counting { term, serial, count }),
            _ => {}
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
                agent.committed(false, None, clock);
            }
            agent.give_up_rounds(clock);
            if now.is_multiple_of(100) {
                self.ask_masters(host);
                self.tell_others(host);
            }
            let Some(agent) = &mut self.hosts[host].agent else { continue };
            // The loop waits for the coordinator.
            if agent.pending.is_some() {
                continue;
            }
            if let Some(commit) = agent.stand(host, clock) {
                self.commit(host, commit, None);
                continue;
            }
            let leads = agent.controller.term().is_some();
            self.tell_proxies(host);
            if leads {
                self.lead(host, clock);
            }
        }
    }

    fn ask_masters(&mut self, host: usize) {
        let Some(agent) = &self.hosts[host].agent else { return };
        let id = |master: &Address| id_of(agent.voter.cluster(), master);
        let masters: Vec<(GroupId, Address, Option<String>)> =
            agent.voter.masters().map(|(group, master)| (group, master.clone(), id(master))).collect();
        for (group, master, id) in masters {
            let Some(server) = self.reached(&master, id.as_deref()) else { continue };
            let to = self.stores[server].host;
            self.send((host, to), Message::AskClock { from: host, group, server });
        }
    }

    fn lead(&mut self, host: usize, clock: u64) {
        let now = self.now;
        let Some(mut agent) = self.hosts[host].agent.take() else { return };
        let term = agent.controller.term().unwrap();
        self.look_at_copies(&mut agent, clock);
        agent.controller.handle_addresses(self.told_addresses());
        let planted = self.planted;
        let (cluster, guard) = (Arc::clone(&agent.record.cluster), agent.guard());
        let (mut writes, mut cleared) = (Vec::new(), BTreeMap::<Address, Vec<Part>>::new());
        for action in agent.poll(clock, planted) {
            if is_told_of(&action) {
                eprintln!("{now} {host} ({clock}): {action:?}");
            }
            match action {
                Action::Write(decision) => writes.push(decision),
                Action::Ask { server, .. } => {
                    agent.rounds.insert(server.clone(), clock);
                    let id = id_of(&cluster, &server);
                    let Some(server) = self.reached(&server, id.as_deref()) else { continue };
                    let question = Message::Question { from: host, server, term, asked_at: clock };
                    self.send_in_order((host, server), (host, question));
                }
                Action::Step(_, step) => self.send_step(host, term, clock, (step, &cluster)),
                Action::Clear { server, slots, cursor, .. } => {
                    cleared.entry(server).or_default().push((slots, cursor));
                }
                action => self.conduct_move((host, &mut agent), clock, action),
            }
        }
        for (server, parts) in cleared {
            self.have_cleared((host, &mut agent), clock, (&server, parts));
        }
        // One at a time, as the outcome is waited for.
        let chosen = writes.first().cloned();
        self.elections += u64::from(matches!(chosen, Some(Decision::Master { .. })));
        self.readdressed += u64::from(matches!(chosen, Some(Decision::Readdress(_))));
        let mut commit = chosen.map(|decision| (commit_of(&agent, &decision, guard.clone()), Some(decision)));
        if commit.is_none()
            && let Some((slots, event)) = agent.requests.pop()
            && let Ok(next) = cluster.with_slots(slots, event)
        {
            commit = Some((Commit::State { cluster: next, in_sync: Vec::new(), guard, is_hand_over: false }, None));
        }
        let is_news = agent.tell_will(host, clock);
        self.hosts[host].agent = Some(agent);
        if is_news {
            self.tell_others(host);
        }
        if let Some((commit, decision)) = commit {
            self.commit(host, commit, decision);
        }
    }

    fn send_step(&mut self, host: usize, term: u64, clock: u64, (step, cluster): (Step, &Arc<Cluster>)) {
        let server = step.server().unwrap();
        let id = id_of(cluster, server);
        let Some(server) = self.reached(server, id.as_deref()) else { return };
        if self.is_redis(server) {
            let orders = RedisOrder::of(&step).unwrap().1;
            let message = Message::Redis { from: host, server, term, orders, asked_at: clock };
            self.send_in_order((host, server), (host, message));
            return;
        }
        let message = match step {
            Step::Pause { ms, number, .. } => {
                Message::Pause { from: host, server, term, number, unit: None, ms, asked_at: clock }
            }
            Step::EndPause { number, .. } => Message::EndPause { server, term, number },
            step => Message::Step { server, term, step, cluster: Arc::clone(cluster) },
        };
        self.send_in_order((host, server), (host, message));
    }

    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.now += 10;
            self.start_agents();
            self.faults();
            self.disturb_records();
            self.deliver();
            self.keep_records();
            self.keep_heights();
            self.agents();
            self.movers();
            self.replicate();
            self.proxies();
            self.clients();
            self.look_what_is_solid();
            if !self.wants_faults && self.now.is_multiple_of(1_000) {
                self.tell_agents_of_the_record();
            }
            if number("TELL").is_some() && self.now.is_multiple_of(1_000) {
                self.tell();
            }
        }
    }

    fn run(&mut self) {
        self.run_until(FAULTS_MS);
        self.heal();
        self.run_until(FAULTS_MS + HEALED_MS - 3_000);
        self.served = [0; UNITS];
        self.run_until(FAULTS_MS + HEALED_MS);
        for (unit, served) in self.served.iter().enumerate() {
            let least = if self.is_redis_unit(unit) { 10 } else { 200 };
            assert!(*served > least, "unit {unit} is not served when everything is well again ({served} of 300)");
        }
        let moving = self.record.cluster.moving();
        assert!(moving.is_empty(), "slots are still on their way: {moving:?}");
    }
}

/// Which node a server is.
fn id_of(cluster: &Cluster, address: &Address) -> Option<String> {
    cluster.servers().find(|(_, server)| server.address == *address).map(|(_, server)| server.id.clone())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
