//! What hosts stand on: chance, messages that are slow, lost or come twice, cut links, and a coordinator that may be away.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use cluster::{
    Address, Cluster, Epoch, GroupId, Server,
    ballot::Incarnation,
    controller::{self, pending::PendingRecord},
    history::History,
    keeper::{Bond, Counting, LogHistory, Observation, RedisOrder, Step},
    leading::Leader,
    model::InSync,
    plan::Move,
    slots::Phase,
    voter::Vote,
};

use super::{
    host::SeenView,
    log::{Log, UNITS, slots_of},
    planted::Planted,
};

/// How many hosts there are. The coordinator has the number behind the last one.
pub const HOSTS: usize = 3;
pub const COORDINATOR: usize = HOSTS;

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What the coordinator has, with versions.
#[derive(Clone, Default)]
pub struct Record {
    pub revision: u64,
    pub cluster: Arc<Cluster>,
    pub state_version: u64,
    pub in_sync: BTreeMap<GroupId, (InSync, u64)>,
    pub leader: Option<(Leader, u64)>,
    pub voters: BTreeMap<String, Incarnation>,
    pub pending: (PendingRecord, u64),
    /// The changes behind it.
    pub history: Arc<History>,
    /// What its changes are told from those of other branches by.
    pub branch: u64,
}

/// What is to be written, and under which conditions.
#[derive(Clone)]
pub enum Commit {
    Lead { leader: Leader, seen: u64 },
    StartVoter { host: usize, seen: u64 },
    State { cluster: Cluster, in_sync: Vec<(GroupId, InSync)>, guard: Guard, is_hand_over: bool },
    InSync { group: GroupId, in_sync: InSync, seen: u64, guard: Guard },
    Pending { pending: PendingRecord, seen: u64, guard: Guard },
}

/// What a leader has seen.
#[derive(Clone)]
pub struct Guard {
    pub state_version: u64,
    pub leader_version: u64,
    pub voters: BTreeMap<String, Incarnation>,
}

impl Record {
    /// What decisions are made by.
    pub fn known<'a>(&'a self, moving: &'a [(Move, Phase)]) -> controller::Record<'a> {
        controller::Record {
            cluster: &self.cluster,
            moving,
            leader: self.leader.as_ref().map(|leader| &leader.0),
            in_sync: &self.in_sync,
            incarnations: &self.voters,
            pending: &self.pending.0,
        }
    }

    fn allows(&self, guard: &Guard) -> bool {
        self.state_version == guard.state_version && self.is_led(guard)
    }

    fn is_led(&self, guard: &Guard) -> bool {
        self.leader.as_ref().map(|leader| leader.1) == Some(guard.leader_version)
            && guard.voters.iter().all(|(host, version)| self.voters.get(host) == Some(version))
    }

    /// Does it, or not.
    pub fn commit(&mut self, commit: Commit) -> bool {
        let next = self.revision + 1;
        let makes_epoch = matches!(commit, Commit::State { .. });
        let is_change = makes_epoch || matches!(commit, Commit::Lead { .. } | Commit::InSync { .. });
        let done = match commit {
            Commit::Lead { leader, seen } => {
                let is_seen = self.leader.as_ref().map_or(0, |leader| leader.1) == seen;
                if is_seen {
                    self.leader = Some((leader, next));
                }
                is_seen
            }
            Commit::StartVoter { host, seen } => {
                let is_seen = self.voters.get(&name(host)).copied().unwrap_or(0) == seen;
                if is_seen {
                    self.voters.insert(name(host), next);
                }
                is_seen
            }
            Commit::State { cluster, in_sync, guard, .. } => {
                let is_next = |(group, next): &(GroupId, InSync)| {
                    self.in_sync.get(group).is_some_and(|(known, _)| known.serial + 1 == next.serial)
                };
                let allowed = self.allows(&guard) && in_sync.iter().all(is_next);
                if allowed {
                    assert_eq!(cluster.epoch, self.cluster.epoch + 1, "an epoch for each change");
                    self.in_sync.extend(in_sync.into_iter().map(|(group, in_sync)| (group, (in_sync, next))));
                    (self.cluster, self.state_version) = (Arc::new(cluster), next);
                }
                allowed
            }
            Commit::InSync { group, in_sync, seen, guard } => {
                let known = self.in_sync.get(&group).map_or(0, |known| known.1);
                let allowed = self.allows(&guard) && known == seen;
                if allowed {
                    self.in_sync.insert(group, (in_sync, next));
                }
                allowed
            }
            Commit::Pending { pending, seen, guard } => {
                let allowed = self.is_led(&guard) && self.pending.1 == seen;
                if allowed {
                    self.pending = (pending, next);
                }
                allowed
            }
        };
        self.revision = if done { next } else { self.revision };
        if done && is_change {
            self.count_change(makes_epoch);
        }
        done
    }
}

pub enum Message {
    /// To the coordinator, by a host's agent of a run.
    Commit {
        from: usize,
        run: u64,
        number: u64,
        commit: Commit,
    },
    /// The outcome, with what the coordinator has then.
    Committed {
        run: u64,
        number: u64,
        done: bool,
        record: Box<Record>,
    },
    /// What has changed.
    Watch {
        record: Box<Record>,
    },
    View(Box<SeenView>),
    AskClock {
        from: usize,
        group: GroupId,
        server: usize,
    },
    Clock {
        group: GroupId,
        server: usize,
        run: String,
        clock_us: u64,
    },
    Vote {
        server: usize,
        voter: usize,
        run: String,
        vote: Vote,
    },
    Step {
        server: usize,
        term: u64,
        step: Step,
        cluster: Arc<Cluster>,
    },
    Question {
        from: usize,
        server: usize,
        term: u64,
        asked_at: u64,
    },
    Answer {
        term: u64,
        server: usize,
        seen: Observation,
    },
    /// Have commands wait: on a unit's slots, or on all.
    Pause {
        from: usize,
        server: usize,
        term: u64,
        number: u64,
        unit: Option<usize>,
        ms: u64,
        asked_at: u64,
    },
    Paused {
        term: u64,
        server: usize,
        number: u64,
        asked_at: u64,
        until: u64,
    },
    EndPause {
        server: usize,
        term: u64,
        number: u64,
    },
    /// Remove what there is of slots that are another one's.
    Clear {
        from: usize,
        server: usize,
        term: u64,
        parts: Vec<super::moves::Part>,
        asked_at: u64,
    },
    Cleared {
        term: u64,
        server: usize,
        parts: Vec<(u16, controller::Cleared)>,
        asked_at: u64,
    },
    /// A Redis is told something, in this order.
    Redis {
        from: usize,
        server: usize,
        term: u64,
        orders: Vec<RedisOrder>,
        asked_at: u64,
    },
    /// A proxy has a Redis write something.
    Write {
        proxy: usize,
        request: u64,
        server: usize,
        unit: usize,
        id: u64,
    },
    /// Whether it has, and whether that was its to write.
    Written {
        proxy: usize,
        request: u64,
        taken: Option<bool>,
    },
    /// Which orders a proxy has done.
    AskProxy {
        proxy: usize,
    },
    ProxyDone {
        proxy: usize,
        done: u64,
    },
    /// What fills a unit at a store comes for it.
    Admit {
        server: usize,
        mover: usize,
    },
    /// Something that it has read at the source, and up to where it has read.
    Fill {
        server: usize,
        mover: usize,
        what: super::log::What,
        upto: usize,
    },
}

impl Message {
    /// The server that it is for, if it is for one.
    pub fn server(&self) -> Option<usize> {
        match self {
            Self::AskClock { server, .. }
            | Self::Vote { server, .. }
            | Self::Step { server, .. }
            | Self::Question { server, .. }
            | Self::Pause { server, .. }
            | Self::EndPause { server, .. }
            | Self::Clear { server, .. }
            | Self::Redis { server, .. }
            | Self::Write { server, .. }
            | Self::Admit { server, .. }
            | Self::Fill { server, .. } => Some(*server),
            _ => None,
        }
    }
}

pub struct Network {
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    messages: BTreeMap<u64, (usize, usize, Message)>,
    number: u64,
    /// Whether the link between two places is cut.
    pub cut: [[bool; HOSTS + 1]; HOSTS + 1],
    /// How many of a thousand messages are lost.
    pub lost: u64,
    /// Messages may be slower by so much.
    pub slow: u64,
}

impl Network {
    pub fn new() -> Self {
        Self {
            queue: BinaryHeap::new(),
            messages: BTreeMap::new(),
            number: 0,
            cut: [[false; HOSTS + 1]; HOSTS + 1],
            lost: 0,
            slow: 0,
        }
    }

    pub fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut[a][b]
    }

    pub fn set_cut(&mut self, a: usize, b: usize, is_cut: bool) {
        self.cut[a][b] = is_cut;
        self.cut[b][a] = is_cut;
    }

    /// A message that comes after a while, or never.
    pub fn send(&mut self, random: &mut Random, now: u64, way: (usize, usize), message: Message) {
        self.send_after(random, (now, 0), way, message);
    }

    /// The same, not before a time. Says when it comes; 0 if never.
    pub fn send_after(
        &mut self,
        random: &mut Random,
        (now, least): (u64, u64),
        (from, to): (usize, usize),
        message: Message,
    ) -> u64 {
        if self.is_cut(from, to) || random.below(1_000) < self.lost {
            return 0;
        }
        let usual = 1 + random.below(if from == to { 2 } else { 15 });
        let slow = if self.slow > 0 && random.one_in(20) { random.below(self.slow) } else { 0 };
        let at = (now + usual + slow).max(least);
        self.put(at, from, to, message);
        at
    }

    pub fn put(&mut self, at: u64, from: usize, to: usize, message: Message) {
        self.number += 1;
        self.queue.push(Reverse((at, self.number, to)));
        self.messages.insert(self.number, (from, to, message));
    }

    /// The next message that has come.
    pub fn due(&mut self, now: u64) -> Option<(usize, usize, Message)> {
        loop {
            let Reverse((at, number, _)) = *self.queue.peek()?;
            if at > now {
                return None;
            }
            self.queue.pop();
            if let Some(message) = self.messages.remove(&number) {
                return Some(message);
            }
        }
    }

    /// Takes out all that is on its way and is such a message.
    pub fn take_out(&mut self, is_meant: impl Fn(&Message) -> bool) -> Vec<Message> {
        let meant = self.messages.extract_if(.., |_, (_, _, message)| is_meant(message));
        meant.map(|(_, (_, _, message))| message).collect()
    }
}

pub fn name(host: usize) -> String {
    format!("h{host}")
}

pub fn number_of(name: &str) -> usize {
    name[1..].parse().unwrap()
}

/// A store, as far as it matters here.
pub struct Store {
    pub server: Server,
    pub group: GroupId,
    pub host: usize,
    pub run: String,
    runs: u64,
    pub log: Log,
    /// The histories that the log tells.
    pub histories: Vec<LogHistory>,
    /// Up to where of its log its writes were acknowledged.
    pub acknowledged: usize,
    pub master: Option<Address>,
    /// Which node its master is, as it was told.
    pub master_id: Option<String>,
    pub is_linked: bool,
    /// What it was told of its master, which its folder keeps.
    pub bond: Option<Bond>,
    /// It copies no master that lacks what it has.
    pub is_bound: bool,
    /// How long its log was before its folder was set back.
    pub longest: usize,
    pub epoch: Epoch,
    /// The change that made it the master, as it knows; nothing: it is none.
    pub master_since: Option<Epoch>,
    voters: Vec<String>,
    votes: BTreeMap<String, u64>,
    pub term: u64,
    pub counting: Option<Counting>,
    /// The cluster as it was told.
    cluster: Option<Arc<Cluster>>,
    /// Number, unit or all, and end.
    pub pauses: Vec<(u64, Option<usize>, u64)>,
    /// Who fills which unit.
    pub movers: BTreeMap<usize, usize>,
    pub stopped_until: u64,
    pub is_dead: bool,
    pub back_at: u64,
    /// What it knows its replicas to have.
    pub replicas: BTreeMap<Address, usize>,
    /// A Redis refuses writes while fewer follow it.
    pub needs_replicas: usize,
}

impl Store {
    pub fn new(server: Server, group: GroupId, host: usize) -> Self {
        let run = format!("{}-0", server.id);
        Self {
            server,
            group,
            host,
            run,
            runs: 0,
            log: Log::default(),
            histories: Vec::new(),
            acknowledged: 0,
            master: None,
            master_id: None,
            is_linked: false,
            bond: None,
            is_bound: false,
            longest: 0,
            epoch: 0,
            master_since: None,
            voters: Vec::new(),
            votes: BTreeMap::new(),
            term: 0,
            counting: None,
            cluster: None,
            pauses: Vec::new(),
            movers: BTreeMap::new(),
            stopped_until: 0,
            is_dead: false,
            back_at: 0,
            replicas: BTreeMap::new(),
            needs_replicas: 0,
        }
    }

    /// A new process, with what is on the disk: role, log, and the term that it was told last.
    pub fn start_anew(&mut self, planted: Option<Planted>) {
        self.runs += 1;
        self.term = if planted == Some(Planted::ForgetsTerm) { 0 } else { self.term };
        self.run = format!("{}-{}", self.server.id, self.runs);
        (self.epoch, self.master_since, self.is_linked) = (0, None, false);
        (self.counting, self.stopped_until, self.is_dead) = (None, 0, false);
        (self.cluster, self.pauses, self.movers, self.acknowledged) = (None, Vec::new(), BTreeMap::new(), 0);
        (self.voters, self.votes, self.replicas) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    }

    /// Follows a master, and keeps what it has, or need not until it has once had all that the master has.
    pub fn follow(&mut self, (master, id): (Address, Option<String>), since: Epoch, keeps: bool) {
        self.master_id = id;
        if self.master.as_ref() == Some(&master) && self.bond.is_some_and(|bond| bond.since == since) {
            self.is_bound |= keeps;
            return;
        }
        (self.master, self.is_linked, self.is_bound) = (Some(master), false, keeps);
        self.bond = Some(Bond { since, refusal: None });
        self.replicas.clear();
    }

    pub fn learn(&mut self, cluster: &Arc<Cluster>, planted: Option<Planted>) {
        if cluster.epoch < self.epoch {
            return;
        }
        if cluster.epoch > self.epoch && planted == Some(Planted::ChangesEndPauses) {
            self.pauses.clear();
        }
        self.epoch = cluster.epoch;
        self.cluster = Some(Arc::clone(cluster));
        let group = &cluster.groups[&self.group];
        let since = (group.master == self.server.address).then_some(group.config_epoch);
        if since != self.master_since {
            self.votes.clear();
        }
        if let Some(since) = since.filter(|_| since != self.master_since) {
            let id = format!("{}-{since}", self.run);
            self.histories.push(LogHistory { id, from: self.log.len() as u64 });
        }
        self.master_since = since;
        self.voters = cluster.voters().into_iter().map(str::to_owned).collect();
        let voters = self.voters.clone();
        self.votes.retain(|voter, _| voters.contains(voter));
        let owned: Vec<bool> = (0..UNITS).map(|unit| self.owns(unit)).collect();
        self.pauses.retain(|(_, unit, _)| unit.map_or(owned.contains(&true), |unit| owned[unit]));
        self.movers.retain(|unit, _| !owned[*unit]);
    }

    /// Whether a unit's slots are its own, as it knows.
    pub fn owns(&self, unit: usize) -> bool {
        let owner = self.cluster.as_ref().and_then(|cluster| cluster.slots.owner(slots_of(unit).first));
        self.master_since.is_some() && owner == Some(self.group)
    }

    fn is_paused(&self, unit: usize, clock: u64) -> bool {
        self.pauses.iter().any(|(_, of, until)| of.is_none_or(|of| of == unit) && clock < *until)
    }

    /// Whether it would answer a client who asks for a unit.
    pub fn serves_unit(&self, unit: usize, clock: u64) -> bool {
        self.owns(unit) && self.serves(clock) && !self.is_paused(unit, clock)
    }

    pub fn take_vote(&mut self, voter: &str, run: &str, vote: &Vote) {
        let Some(since) = self.master_since else { return };
        if run == self.run
            && vote.epoch <= self.epoch
            && vote.epoch >= since
            && self.voters.iter().any(|own| own == voter)
        {
            let until = vote.since_us / 1_000 + vote.ms;
            let known = self.votes.entry(voter.to_owned()).or_default();
            *known = until.max(*known);
        }
    }

    /// Whether it would answer a client, by its own clock.
    pub fn serves(&self, clock: u64) -> bool {
        let mut until: Vec<u64> = self.voters.iter().map(|voter| self.votes.get(voter).copied().unwrap_or(0)).collect();
        until.sort_unstable_by(|a, b| b.cmp(a));
        let lease = until.get(self.voters.len() / 2).copied().unwrap_or(0);
        self.master.is_none() && self.master_since.is_some() && clock < lease
    }

    /// Whether it does what the leader of a term says.
    pub fn takes_term(&mut self, term: u64) -> bool {
        let is_taken = term >= self.term;
        self.term = self.term.max(term);
        is_taken
    }

    /// Takes an order whose acknowledgements count, unless it is older than what is known.
    pub fn count(&mut self, told: Counting) {
        let is_older = |known: &Counting| (told.term, told.serial) < (known.term, known.serial);
        if !self.counting.as_ref().is_some_and(is_older) {
            self.counting = Some(told);
        }
    }

    /// How much of its log it may acknowledge.
    pub fn safe(&self) -> usize {
        let Some(Counting { count, .. }) = &self.counting else { return self.log.len() };
        let mut ends: Vec<usize> =
            count.members.iter().map(|member| self.replicas.get(member).copied().unwrap_or(0)).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let place = (count.ack as usize).checked_sub(1);
        place.map_or(self.log.len(), |place| ends.get(place).copied().unwrap_or(0))
    }
}
