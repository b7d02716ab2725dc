//! A group in a simulation: servers that are killed and stopped, messages that are slow or lost, an agent that dies. At each moment one
//! server at most serves, and whoever serves has all that was acknowledged. `CLUSTER_SEEDS=100000` is the long mode.

use super::*;
use crate::model::{Server, ServerKind};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[derive(Clone)]
struct Store {
    address: Address,
    log: Vec<u64>,
    master: Option<Address>,
    is_linked: bool,
    epoch: u64,
    is_told_master: bool,
    lease_until: Option<u64>,
    ack: u32,
    paused_until: u64,
    stopped_until: u64,
    dead_until: u64,
}

impl Store {
    fn runs(&self, now: u64) -> bool {
        now >= self.stopped_until && now >= self.dead_until
    }

    fn serves(&self, now: u64) -> bool {
        let has_lease = self.lease_until.is_some_and(|until| now < until) && now >= self.paused_until;
        self.runs(now) && self.master.is_none() && self.is_told_master && has_lease
    }
}

enum Message {
    Step(Step, Epoch, Address),
    Question(Address, u64),
    Answer(Address, Observation),
    Paused(Address, u64),
}

struct World {
    random: Random,
    now: u64,
    stores: Vec<Store>,
    cluster: Cluster,
    in_sync: InSync,
    keeper: Keeper,
    messages: Vec<(u64, Message)>,
    acknowledged: Vec<u64>,
    written: u64,
    elections: u32,
    served: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let address = |port| Address::new("h", port);
        let servers: Vec<Server> = (1..=3)
            .map(|port| Server {
                address: address(port),
                id: format!("n{port}"),
                host: "h".into(),
                kind: ServerKind::Store,
            })
            .collect();
        let cluster = Cluster::default().with_group(1, servers.clone(), 1).unwrap();
        let store = |server: &Server| Store {
            address: server.address.clone(),
            log: Vec::new(),
            master: None,
            is_linked: false,
            epoch: 0,
            is_told_master: false,
            lease_until: None,
            ack: 0,
            paused_until: 0,
            stopped_until: 0,
            dead_until: 0,
        };
        Self {
            random: Random(seed),
            now: 0,
            stores: servers.iter().map(store).collect(),
            cluster,
            in_sync: InSync::default(),
            keeper: Keeper::new(1, Patience::default(), 0),
            messages: Vec::new(),
            acknowledged: Vec::new(),
            written: 0,
            elections: 0,
            served: 0,
        }
    }

    fn send(&mut self, message: Message) {
        let delay = if self.random.below(20) == 0 { self.random.below(3_000) } else { 1 + self.random.below(30) };
        if self.random.below(100) != 0 {
            self.messages.push((self.now + delay, message));
        }
    }

    fn store(&mut self, address: &Address) -> &mut Store {
        self.stores.iter_mut().find(|store| store.address == *address).unwrap()
    }

    fn obey(&mut self, step: Step, epoch: Epoch, master: &Address) {
        let now = self.now;
        match step {
            Step::Tell { server } => {
                let store = self.store(&server);
                if epoch >= store.epoch {
                    if epoch > store.epoch {
                        store.paused_until = 0;
                    }
                    store.epoch = epoch;
                    store.is_told_master = *master == server;
                    store.lease_until = store.lease_until.or(Some(0));
                }
            }
            Step::Follow { server, master } => {
                let store = self.store(&server);
                if store.master.as_ref() != Some(&master) {
                    (store.master, store.is_linked) = (Some(master), false);
                }
            }
            Step::Promote { server } => self.store(&server).master = None,
            Step::SetAck { server, ack } => self.store(&server).ack = ack,
            Step::Grant { server, epoch, since_us, ms } => {
                let store = self.store(&server);
                if store.epoch == epoch {
                    store.lease_until = store.lease_until.max(Some(since_us / 1000 + ms));
                }
            }
            Step::Pause { server, ms } => {
                self.store(&server).paused_until = now + ms;
                self.send(Message::Paused(server, now));
            }
            Step::EndPause { server } => self.store(&server).paused_until = 0,
            Step::WriteInSync(_) | Step::Elect { .. } => unreachable!(),
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.messages).into_iter().partition(|(at, _)| *at <= now);
        self.messages = later;
        let due: Vec<(u64, Message)> = due;
        for (_, message) in due {
            let to = match &message {
                Message::Step(step, ..) => Some(server_of(step).clone()),
                Message::Question(server, _) => Some(server.clone()),
                _ => None,
            };
            if let Some(to) = to {
                let store = self.store(&to);
                if now < store.dead_until {
                    continue;
                }
                // It lies in the socket of a stopped process until that goes on.
                if now < store.stopped_until {
                    let until = store.stopped_until;
                    self.messages.push((until, message));
                    continue;
                }
            }
            match message {
                Message::Step(step, epoch, master) => self.obey(step, epoch, &master),
                Message::Question(server, asked_at) => {
                    let store = self.store(&server).clone();
                    let role = store
                        .master
                        .map_or(Role::Master, |master| Role::Replica { master, is_linked: store.is_linked });
                    let (offset, epoch, ack) = (store.log.len() as u64, store.epoch, store.ack);
                    let seen = Observation { asked_at, answered_at: 0, role, offset, epoch, ack, clock_us: now * 1000 };
                    self.send(Message::Answer(server, seen));
                }
                Message::Answer(server, seen) => {
                    // Rounds that take too long are given up.
                    if now <= seen.asked_at + 400 {
                        self.keeper.handle_observed(&server, Observation { answered_at: now, ..seen });
                    }
                }
                Message::Paused(server, at) => self.keeper.handle_paused(&server, now, at),
            }
        }
    }

    fn decide(&mut self) {
        let now = self.now;
        for step in self.keeper.poll_steps(now, &self.cluster, &self.in_sync) {
            match step {
                Step::WriteInSync(in_sync) => self.in_sync = in_sync,
                Step::Elect { master, .. } => {
                    self.cluster = self.cluster.with_master(1, &master).unwrap();
                    self.elections += 1;
                }
                step => {
                    let master = self.cluster.groups[&1].master.clone();
                    self.send(Message::Step(step, self.cluster.epoch, master));
                }
            }
        }
    }

    fn replicate(&mut self) {
        for index in 0..self.stores.len() {
            let store = self.stores[index].clone();
            let Some(master) = store.master.clone() else { continue };
            let source = self.store(&master).clone();
            if store.runs(self.now) && source.runs(self.now) && source.master.is_none() && self.random.below(4) == 0 {
                let is_prefix = source.log.starts_with(&store.log);
                let known = if is_prefix { store.log.len() } else { 0 };
                let upto = known + self.random.below((source.log.len() - known) as u64 + 1) as usize;
                self.stores[index].log = source.log[..if is_prefix { upto } else { source.log.len() }].to_vec();
                self.stores[index].is_linked = true;
            } else if !source.runs(self.now) || source.master.is_some() {
                self.stores[index].is_linked = false;
            }
        }
    }

    fn clients(&mut self) {
        let serving: Vec<usize> = (0..self.stores.len()).filter(|index| self.stores[*index].serves(self.now)).collect();
        assert!(serving.len() <= 1, "two serve at {}: {serving:?}", self.now);
        let Some(index) = serving.first().copied() else { return };
        self.served += 1;
        let master = self.stores[index].clone();
        for id in &self.acknowledged {
            assert!(
                master.log.contains(id),
                "{} serves at {} without the acknowledged write {id}",
                master.address,
                self.now
            );
        }
        let replicas: Vec<&Store> = self
            .stores
            .iter()
            .filter(|store| store.master.as_ref() == Some(&master.address) && store.is_linked)
            .collect();
        for (place, id) in master.log.iter().enumerate() {
            let count = replicas.iter().filter(|store| store.log.get(place) == Some(id)).count();
            if count >= master.ack as usize && !self.acknowledged.contains(id) {
                self.acknowledged.push(*id);
            }
        }
        if self.random.below(8) == 0 {
            self.written += 1;
            let id = self.written;
            self.stores[index].log.push(id);
        }
    }

    fn faults(&mut self) {
        if self.random.below(150) != 0 {
            return;
        }
        let (index, now) = (self.random.below(3) as usize, self.now);
        match self.random.below(3) {
            0 => {
                let store = &mut self.stores[index];
                if store.runs(now) {
                    // What is on the disk stays: role and log.
                    store.dead_until = now + 300;
                    (store.epoch, store.is_told_master, store.lease_until, store.is_linked) = (0, false, None, false);
                    (store.ack, store.paused_until) = (0, 0);
                    let address = store.address.clone();
                    self.messages.retain(
                        |(_, message)| !matches!(message, Message::Step(step, ..) if *server_of(step) == address),
                    );
                    self.keeper.handle_exited(&address, now);
                }
            }
            1 => {
                let pause = self.random.below(4_000);
                self.stores[index].stopped_until = now + pause;
            }
            // The agent dies, and knows nothing when it is back.
            _ if self.random.below(4) == 0 => {
                self.keeper = Keeper::new(1, Patience::default(), now);
                self.messages.retain(|(_, message)| !matches!(message, Message::Answer(..) | Message::Paused(..)));
            }
            _ => {
                let to = self.stores[index].address.clone();
                let group = self.cluster.groups[&1].clone();
                let in_sync = self.in_sync.clone();
                let _ = self.keeper.hand_over(&to, &group, &in_sync, now);
            }
        }
    }

    fn run(&mut self, until: u64) {
        while self.now < until {
            self.now += 10;
            if self.now.is_multiple_of(100) {
                let servers: Vec<Address> = self.stores.iter().map(|store| store.address.clone()).collect();
                servers.into_iter().for_each(|server| self.send(Message::Question(server, self.now)));
            }
            self.faults();
            self.deliver();
            self.decide();
            self.replicate();
            self.clients();
        }
    }
}

fn server_of(step: &Step) -> &Address {
    match step {
        Step::Tell { server }
        | Step::Follow { server, .. }
        | Step::Promote { server }
        | Step::SetAck { server, .. }
        | Step::Grant { server, .. }
        | Step::Pause { server, .. }
        | Step::EndPause { server } => server,
        Step::WriteInSync(_) | Step::Elect { .. } => unreachable!(),
    }
}

#[test]
fn one_serves_and_nothing_acknowledged_is_lost() {
    let seeds = std::env::var("CLUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let (mut elections, mut served) = (0, 0);
    for seed in 1..=seeds {
        let mut world = World::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(30_000)));
        assert!(result.is_ok(), "seed {seed}");
        elections += world.elections;
        served += world.served;
    }
    // Else nothing was tested.
    assert!(elections > 5 && served > 1_000, "{elections} {served}");
}

#[test]
fn a_lease_is_given_again_some_times_while_it_lasts_and_not_for_each_answer() {
    let address = Address::new("h", 1);
    let server = Server { address: address.clone(), id: "n1".into(), host: "h".into(), kind: ServerKind::Store };
    let cluster = Cluster::default().with_group(1, vec![server], 0).unwrap();
    let patience = Patience::default();
    let mut keeper = Keeper::new(1, patience, 0);
    let mut granted = Vec::new();
    for now in 0..5_000 {
        let seen = Observation {
            asked_at: now,
            answered_at: now,
            role: Role::Master,
            offset: 0,
            epoch: cluster.epoch,
            ack: 0,
            clock_us: now * 1_000,
        };
        keeper.handle_observed(&address, seen);
        let steps = keeper.poll_steps(now, &cluster, &InSync::default());
        granted.extend(steps.iter().any(|step| matches!(step, Step::Grant { .. })).then_some(now));
    }
    let longest = granted.windows(2).map(|two| two[1] - two[0]).max().unwrap();
    assert!(longest <= patience.lease_ms / 4, "{longest} ms without one");
    assert!(granted.len() <= 40, "{} in 5 s", granted.len());
}
