//! Redis servers, which know no slots, orders or terms, and the proxies that clients reach them by. A Redis does what it is asked by
//! whoever asks; its replicas get its writes some time after clients have their answers. Where there are such groups, one host has the
//! agent and all proxies.
//!
//! What proxies send to it comes soon, or when it goes on: nothing overtakes what another connection has sent long before. What copies
//! slots has a name there, and ends the connection of the one before it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster::{
    Address, Cluster, GroupId,
    controller::{Cleared, ProxiesSeen, ProxyAction},
    fence::Orders,
    keeper::{Count, Counting, Observation, RedisOrder, Role},
};

use super::{
    World,
    log::{UNITS, WRITES_MAX, What, slots_of},
    moves::{Part, ROUND_MS},
    planted::Planted,
    world::Message,
};

/// How often a proxy looks whether what it reads has changed.
const READ_EACH_MS: u64 = 20;
/// What the coordinator, a file of the agent's, takes to write something.
pub const WRITING_MS: u64 = 20;
/// The host that the agent and the proxies run on.
const PROXIES_AT: usize = 0;

/// What a proxy has sent and has no answer to.
struct Flight {
    server: usize,
    unit: usize,
    id: u64,
}

/// A proxy, as far as it is about Redis servers.
pub struct Proxy {
    pub address: Address,
    pub stopped_until: u64,
    cluster: Arc<Cluster>,
    orders: Orders,
    lease: (u64, u64),
    flights: BTreeMap<u64, Flight>,
    /// What must have been answered before its orders are done.
    goals: BTreeSet<u64>,
    /// Until when what it hears counts.
    trusted_until: u64,
    /// What it has heard later: request, and what became of it.
    late: Vec<(u64, Option<bool>)>,
}

impl Proxy {
    pub fn new(number: u16) -> Self {
        Self {
            address: Address::new("p", number),
            stopped_until: 0,
            cluster: Arc::default(),
            orders: Orders::default(),
            lease: (0, 0),
            flights: BTreeMap::new(),
            goals: BTreeSet::new(),
            trusted_until: 0,
            late: Vec::new(),
        }
    }

    /// What it hears by now does not count. What is under way while it holds requests comes to nobody then.
    fn look_at_trust(&mut self, clock: u64) -> bool {
        let is_over = clock >= self.trusted_until;
        if is_over {
            for request in std::mem::take(&mut self.goals) {
                self.flights.remove(&request);
            }
        }
        is_over
    }

    fn done(&self) -> u64 {
        if self.goals.is_empty() { self.orders.stamp } else { 0 }
    }
}

/// What the agent lets proxies read, and what they have of it.
#[derive(Default)]
pub struct Desk {
    pub proxies: Vec<Proxy>,
    written: Option<(Orders, Arc<Cluster>)>,
    lease: (u64, u64),
    requests: u64,
    /// Acknowledged writes that went with a Redis: nobody has to have them.
    pub forgiven: BTreeSet<u64>,
    /// When a Redis was started anew last, perhaps with less than it had.
    began_at: BTreeMap<usize, u64>,
    /// Acknowledged writes that all in sync with a Redis have had: none of them is lost with their master.
    solid: [BTreeSet<u64>; UNITS],
}

impl World {
    pub fn is_redis(&self, server: usize) -> bool {
        !self.stores[server].server.kind.is_store()
    }

    /// Whether a unit is of a group of Redis servers.
    pub fn is_redis_unit(&self, unit: usize) -> bool {
        let cluster = &self.record.cluster;
        let group = cluster.slots.owner(slots_of(unit).first).and_then(|owner| cluster.groups.get(&owner));
        group.is_some_and(|group| !group.kind().is_store())
    }

    /// The agent has proxies told.
    pub fn tell_proxies(&mut self, host: usize) {
        if self.desk.proxies.is_empty() {
            return;
        }
        let clock = self.hosts[host].clock(self.now);
        let Some(mut agent) = self.hosts[host].agent.take() else { return };
        let is_forgotten =
            |proxy: &&Proxy| self.planted == Some(Planted::SilentProxyIsForgotten) && self.now < proxy.stopped_until;
        let running = self.desk.proxies.iter().filter(|proxy| !is_forgotten(proxy));
        let running: BTreeSet<Address> = running.map(|proxy| proxy.address.clone()).collect();
        let (cluster, given_up) = (Arc::clone(&agent.record.cluster), BTreeSet::new());
        let seen = ProxiesSeen { running: &running, given_up: &given_up };
        while let Some(action) = agent.controller.poll_proxies(clock, &cluster, seen) {
            match action {
                ProxyAction::WriteOrders(orders) => {
                    self.desk.written = Some((orders, Arc::clone(&cluster)));
                    agent.controller.handle_orders_written(&cluster, &given_up);
                }
                ProxyAction::WriteLease { stamp, until } => self.desk.lease = (stamp, until),
                ProxyAction::Ask(proxy) => {
                    let proxy = self.desk.proxies.iter().position(|one| one.address == proxy).unwrap();
                    self.send((host, PROXIES_AT), Message::AskProxy { proxy });
                }
            }
        }
        self.hosts[host].agent = Some(agent);
    }

    /// Proxies read what they are told, and send what clients write.
    pub fn proxies(&mut self) {
        if self.now < self.hosts[PROXIES_AT].asleep_until {
            return;
        }
        let clock = self.hosts[PROXIES_AT].clock(self.now);
        for index in 0..self.desk.proxies.len() {
            if self.now < self.desk.proxies[index].stopped_until {
                continue;
            }
            if self.now.is_multiple_of(READ_EACH_MS) {
                self.read_orders(index);
            }
            let proxy = &self.desk.proxies[index];
            let has_lease = clock < proxy.lease.1 && proxy.orders.stamp >= proxy.lease.0;
            if has_lease {
                (0..UNITS).for_each(|unit| self.send_write(index, unit));
            }
        }
    }

    fn read_orders(&mut self, index: usize) {
        let Some((orders, cluster)) = self.desk.written.clone() else { return };
        let dead = |server: usize| orders.dead.contains(&self.stores[server].server.address);
        let (lease, planted) = (self.desk.lease, self.planted);
        let clock = self.hosts[PROXIES_AT].clock(self.now);
        let proxy = &mut self.desk.proxies[index];
        let is_over = planted != Some(Planted::ProxyBelievesLateAnswers) && proxy.look_at_trust(clock);
        proxy.lease = lease;
        if proxy.orders == orders && proxy.cluster.epoch == cluster.epoch {
            self.trust(index, clock);
            return;
        }
        if is_over && proxy.orders.stamp != orders.stamp {
            // Its connections end.
            (proxy.flights, proxy.late) = (BTreeMap::new(), Vec::new());
        }
        let is_held = |unit: usize| orders.held.iter().any(|range| range.overlaps(slots_of(unit)));
        let mut concerned: BTreeSet<Address> = BTreeSet::new();
        for of in [&proxy.cluster, &cluster] {
            let owners =
                (0..UNITS).filter(|unit| is_held(*unit)).filter_map(|unit| of.slots.owner(slots_of(unit).first));
            concerned.extend(owners.filter_map(|owner| of.groups.get(&owner)).map(|group| group.master.clone()));
        }
        // Connections to who is given up are closed: their answers come to nobody.
        proxy.flights.retain(|_, flight| !dead(flight.server));
        let is_concerned = |flight: &Flight| concerned.contains(&self.stores[flight.server].server.address);
        let goals = proxy.flights.iter().filter(|(_, flight)| is_concerned(flight)).map(|(number, _)| *number);
        proxy.goals = if planted == Some(Planted::ProxySaysDoneAtOnce) { BTreeSet::new() } else { goals.collect() };
        (proxy.orders, proxy.cluster) = (orders, cluster);
        self.trust(index, clock);
    }

    /// What a proxy hears counts as long as it has a lease, and what it has heard since the one before if its orders are the same.
    fn trust(&mut self, index: usize, clock: u64) {
        let proxy = &mut self.desk.proxies[index];
        let (stamp, until) = proxy.lease;
        if proxy.orders.stamp < stamp || clock >= until {
            return;
        }
        proxy.trusted_until = until.max(proxy.trusted_until);
        for (request, taken) in std::mem::take(&mut proxy.late) {
            self.hear_of_write(index, request, taken);
        }
    }

    /// A client writes, if what it writes to is a Redis' and does not wait.
    fn send_write(&mut self, index: usize, unit: usize) {
        if !self.random.one_in(20) || self.written >= WRITES_MAX {
            return;
        }
        let proxy = &self.desk.proxies[index];
        let slots = slots_of(unit);
        let group = proxy.cluster.slots.owner(slots.first).and_then(|owner| proxy.cluster.groups.get(&owner));
        let Some(group) = group.filter(|group| !group.kind().is_store()) else { return };
        let master = group.master.clone();
        if proxy.orders.held.iter().any(|range| range.overlaps(slots)) || proxy.orders.dead.contains(&master) {
            return;
        }
        let server = self.index_of(&master);
        self.written += 1;
        self.desk.requests += 1;
        let (request, id) = (self.desk.requests, self.written);
        if crate::number("WATCH") == Some(id) {
            let proxy = &self.desk.proxies[index];
            eprintln!(
                "{} {index} sends {id} to {master}, orders {:?}, lease {:?}",
                self.now, proxy.orders, proxy.lease
            );
        }
        let message = Message::Write { proxy: index, request, server, unit, id };
        // A link is whole or broken: nothing of it is lost, and what is on it does not take long.
        let (lost, slow) = (std::mem::take(&mut self.network.lost), std::mem::take(&mut self.network.slow));
        let is_sent = self.send_in_order((1_000 + index, server), (PROXIES_AT, message));
        (self.network.lost, self.network.slow) = (lost, slow);
        if is_sent {
            self.desk.proxies[index].flights.insert(request, Flight { server, unit, id });
        }
    }

    /// A write has come to a Redis. Whether it is the one that has the unit it does not know.
    pub fn write_to_redis(&mut self, message: Message) {
        let Message::Write { proxy, request, server, unit, id } = message else { return };
        let clock = self.store_clock(server);
        let number = self.next_number();
        let group = self.record.cluster.slots.owner(slots_of(unit).first);
        let address = &self.stores[server].server.address;
        let is_rightful = group
            .and_then(|group| self.record.cluster.groups.get(&group))
            .is_some_and(|group| group.master == *address);
        let store = &mut self.stores[server];
        if store.pauses.iter().any(|(_, _, until)| clock < *until) {
            let (host, at) = (store.host, self.now + 10);
            self.network.put(at, PROXIES_AT, host, Message::Write { proxy, request, server, unit, id });
            return;
        }
        if crate::number("WATCH") == Some(id) {
            eprintln!(
                "{} {} gets {id}, stopped until {}, rightful {is_rightful}",
                self.now, store.run, store.stopped_until
            );
        }
        let is_taken = store.master.is_none() && store.replicas.len() >= store.needs_replicas;
        if is_taken {
            store.log.push(number, What::Write { unit, id });
        }
        self.answer_write(server, (proxy, request), is_taken.then_some(is_rightful));
    }

    pub fn answer_write(&mut self, server: usize, (proxy, request): (usize, u64), taken: Option<bool>) {
        let host = self.stores[server].host;
        let (lost, slow) = (std::mem::take(&mut self.network.lost), std::mem::take(&mut self.network.slow));
        let answer = Message::Written { proxy, request, taken };
        let at = self.network.send_after(&mut self.random, (self.now, 0), (host, PROXIES_AT), answer);
        (self.network.lost, self.network.slow) = (lost, slow);
        if at == 0 {
            // The connection has ended with it.
            self.forget_flight(proxy, request);
        }
    }

    fn forget_flight(&mut self, proxy: usize, request: u64) {
        let proxy = &mut self.desk.proxies[proxy];
        proxy.flights.remove(&request);
        proxy.goals.remove(&request);
    }

    /// A write that was on its way when its connection ended.
    pub fn lose_write(&mut self, message: &Message) {
        match *message {
            Message::Write { proxy, request, .. } | Message::Written { proxy, request, .. } => {
                self.forget_flight(proxy, request);
            }
            _ => {}
        }
    }

    /// What a proxy hears.
    pub fn hear_at_proxy(&mut self, message: Message) {
        let (Message::Written { proxy, .. } | Message::AskProxy { proxy }) = message else { return };
        let until = self.desk.proxies[proxy].stopped_until;
        if self.now < until {
            self.network.put(until, PROXIES_AT, PROXIES_AT, message);
            return;
        }
        match message {
            Message::AskProxy { .. } => {
                let done = self.desk.proxies[proxy].done();
                self.send((PROXIES_AT, PROXIES_AT), Message::ProxyDone { proxy, done });
            }
            Message::Written { request, taken, .. } => {
                let clock = self.hosts[PROXIES_AT].clock(self.now);
                let planted = self.planted;
                let one = &mut self.desk.proxies[proxy];
                if clock >= one.trusted_until && planted != Some(Planted::ProxyBelievesLateAnswers) {
                    one.late.push((request, taken));
                } else {
                    self.hear_of_write(proxy, request, taken);
                }
            }
            _ => {}
        }
    }

    /// A client has its answer.
    fn hear_of_write(&mut self, proxy: usize, request: u64, taken: Option<bool>) {
        let Some(flight) = self.desk.proxies[proxy].flights.remove(&request) else { return };
        self.desk.proxies[proxy].goals.remove(&request);
        let Some(is_rightful) = taken else { return };
        let run = &self.stores[flight.server].run;
        assert!(is_rightful, "{run} has written {} to unit {}, which is another one's", flight.id, flight.unit);
        self.acknowledged[flight.unit].insert(flight.id);
        self.served[flight.unit] += 1;
    }

    pub fn hear_proxy_done(&mut self, host: usize, (proxy, done): (usize, u64)) {
        let address = self.desk.proxies[proxy].address.clone();
        let clock = self.hosts[host].clock(self.now);
        let done = if self.planted == Some(Planted::HoldsAreDoneAtOnce) { u64::MAX } else { done };
        let Some(agent) = &mut self.hosts[host].agent else { return };
        agent.controller.handle_proxy(&address, Some(done), clock);
    }

    /// What a Redis says of itself.
    pub fn observe_redis(&self, server: usize, asked_at: u64) -> Observation {
        let store = &self.stores[server];
        let is_linked = store.is_linked;
        let role = store.master.clone().map_or(Role::Master, |master| Role::Replica { master, is_linked });
        let count = Count { ack: u32::try_from(store.needs_replicas).unwrap(), members: Vec::new() };
        Observation {
            asked_at,
            answered_at: 0,
            role,
            offset: store.log.len() as u64,
            durable: 0,
            epoch: 0,
            counting: Some(Counting { count, ..Counting::default() }),
            followers: Vec::new(),
            run: store.run.clone(),
            serves: true,
            pauses: Vec::new(),
            bond: None,
            histories: Vec::new(),
        }
    }

    /// It does what it is told, by whomever.
    pub fn obey_redis(&mut self, message: Message) {
        let Message::Redis { from, server, term, orders, asked_at } = message else { return };
        let clock = self.store_clock(server);
        for order in orders {
            let store = &mut self.stores[server];
            match order {
                RedisOrder::NeedReplicas { count, .. } => store.needs_replicas = count as usize,
                RedisOrder::Follow(master) if store.master.as_ref() != Some(&master) => {
                    (store.master, store.is_linked) = (Some(master), false);
                    store.replicas.clear();
                }
                RedisOrder::Follow(_) => {}
                RedisOrder::FollowNobody => {
                    if store.master.take().is_some() {
                        store.replicas.clear();
                    }
                    store.is_linked = false;
                }
                RedisOrder::Pause { ms, number } => {
                    store.pauses.push((number, None, clock + ms));
                    let host = store.host;
                    let until = asked_at + ms;
                    self.send((host, from), Message::Paused { term, server, number, asked_at, until });
                }
                RedisOrder::EndPause => store.pauses.clear(),
            }
        }
    }

    /// It removes what it is told to, of whosever slots: here all of it by the last step of its walk, which may be the first one.
    pub fn clear_at_redis(&mut self, server: usize, parts: &[Part]) -> Vec<(u16, Cleared)> {
        let mut done = Vec::new();
        for (part, from) in parts {
            let from = from.clone().unwrap();
            if from == "0" && self.random.one_in(2) {
                done.push((part.first, Cleared::Walked { from, next: "7".into() }));
                continue;
            }
            for unit in (0..UNITS).filter(|unit| part.overlaps(slots_of(*unit))) {
                let number = self.next_number();
                let store = &mut self.stores[server];
                if !store.log.state(unit).is_empty() {
                    store.log.push(number, What::Clear { unit });
                }
            }
            done.push((part.first, Cleared::Walked { from, next: "0".into() }));
        }
        done
    }

    /// A Redis is started again with what it had on its disk, which may be less than it had.
    pub fn redis_begins_anew(&mut self, server: usize) {
        let kept = match self.random.below(4) {
            0 => 0,
            1 => {
                self.stores[server].log.len() - self.random.below(30).min(self.stores[server].log.len() as u64) as usize
            }
            _ => self.stores[server].log.len(),
        };
        // Connections end with a process, and what was on them.
        for message in self.network.take_out(|message| message.server() == Some(server)) {
            self.break_mover(&message);
            self.lose_write(&message);
        }
        let had = self.states_of(server);
        let store = &mut self.stores[server];
        store.log.cut(kept);
        (store.master, store.needs_replicas) = (None, 0);
        self.note_lost(server, &had);
        self.desk.began_at.insert(server, self.now);
    }

    fn states_of(&mut self, server: usize) -> [BTreeSet<u64>; UNITS] {
        std::array::from_fn(|unit| self.stores[server].log.state(unit).clone())
    }

    /// A Redis has less than it had: what it was told to remove aside, that is promised no more.
    pub fn note_lost(&mut self, server: usize, had: &[BTreeSet<u64>; UNITS]) {
        for (unit, had) in had.iter().enumerate() {
            let has = self.stores[server].log.state(unit).clone();
            self.desk.solid[unit].retain(|id| !had.contains(id) || has.contains(id));
        }
    }

    /// A replica takes over what its master has, and loses what that has not.
    pub fn follow_redis(&mut self, server: usize, source: usize, upto: usize) {
        let is_more = self.stores[server].log.is_prefix_of(&self.stores[source].log);
        let had = (!is_more).then(|| self.states_of(server));
        let mut log = std::mem::take(&mut self.stores[server].log);
        log.follow(&self.stores[source].log, upto);
        self.stores[server].log = log;
        if let Some(had) = had {
            self.note_lost(server, &had);
        }
    }

    /// What all that are in sync have.
    pub fn look_what_is_solid(&mut self) {
        if self.desk.proxies.is_empty() {
            return;
        }
        for unit in 0..UNITS {
            let owner = self.record.cluster.slots.owner(slots_of(unit).first);
            let Some(group) = owner.filter(|_| self.is_redis_unit(unit)) else {
                self.desk.solid[unit].clear();
                continue;
            };
            let members =
                self.record.in_sync.get(&group).map(|known| known.0.of(&self.record.cluster.groups[&group]).members);
            let members: Vec<usize> = members.unwrap_or_default().iter().map(|member| self.index_of(member)).collect();
            self.desk.solid[unit].clear();
            let Some((first, others)) = members.split_first() else { continue };
            let mut solid = self.stores[*first].log.state(unit).clone();
            for other in others {
                let has = self.stores[*other].log.state(unit);
                solid.retain(|id| has.contains(id));
            }
            solid.retain(|id| self.acknowledged[unit].contains(id));
            self.desk.solid[unit] = solid;
        }
    }

    /// The cluster has changed: what a Redis' master has not given to its replicas goes with it, if it is gone, and nothing else goes.
    pub fn look_what_went(&mut self, before: &Cluster, is_hand_over: bool) {
        if self.desk.proxies.is_empty() {
            return;
        }
        let after = Arc::clone(&self.record.cluster);
        for unit in 0..UNITS {
            let slot = slots_of(unit).first;
            let (Some(was), Some(is)) = (before.slots.owner(slot), after.slots.owner(slot)) else { continue };
            let master_of = |cluster: &Cluster, group: GroupId| cluster.groups[&group].master.clone();
            let (old, new) = (master_of(before, was), master_of(&after, is));
            let is_concerned =
                old != new && (before.kind_of(&old) != after.kind_of(&new) || !after.kind_of(&new).is_store());
            if !is_concerned {
                continue;
            }
            let server = self.index_of(&new);
            let has = self.stores[server].log.state(unit).clone();
            let lost: Vec<u64> = self.acknowledged[unit].iter().filter(|id| !has.contains(id)).copied().collect();
            let what = format!("at {} unit {unit} goes from {old} to {new}", self.now);
            // Since it was last asked, and while the change was being written down, it may have lost what it had.
            let has_begun = self.desk.began_at.get(&server).is_some_and(|at| self.now <= at + ROUND_MS + WRITING_MS);
            if (was != is || is_hand_over) && !has_begun {
                // What it has lost itself when it was started anew aside.
                let former = self.index_of(&old);
                let had = self.stores[former].log.state(unit);
                let lost: Vec<&u64> = lost.iter().filter(|id| had.contains(id)).collect();
                assert!(lost.is_empty(), "{what} without the acknowledged writes {lost:?}");
            }
            let solid = self.desk.solid[unit].iter().find(|id| !has.contains(id));
            assert!(solid.is_none(), "{what} without {solid:?}, which all in sync have had");
            self.acknowledged[unit].retain(|id| !lost.contains(id));
            self.desk.forgiven.extend(lost);
        }
    }
}
