//! What an agent decides: whether it leads the others and, while it does, what is to be done about all groups. The agent has the sockets,
//! threads and processes, and only carries out; the simulation of hosts carries out the same.
//!
//! Contract, in the order of a turn:
//!
//! 1. `handle_*` takes what was heard: answers of servers ([`Controller::handle_observed`], with the pauses and removals that they confirm;
//!    [`Controller::handle_round`]: they may be told more), ends of processes, voters' reports, what copies do, what proxies have done.
//! 2. [`Controller::poll_leader`] says what is to be done about leading, until it has nothing more.
//! 3. [`Controller::poll_proxies`] says what the proxies of this host are told, until it has nothing more, and
//!    [`Controller::poll_programs`] which of its programs that have ended start again. Who does not lead asks both, too.
//! 4. While it leads, [`Controller::poll`] says what is to be done, in this order. A server's orders come before its [`Action::Ask`], and
//!    are made of the cluster as it is then. What is to be written is written one after the other until one cannot be or has changed the
//!    epoch: the others were decided for the cluster as it was. [`Controller::handle_written`] takes each that was written. What is not
//!    done is said again as long as it is to be done, except for what [`Action`] says is said once.
//! 5. [`Controller::will`] says what voters are to be told, after that.
//!
//! `now` is milliseconds of a clock that never goes back, and goes on while the host sleeps. It is the same in all of a turn.

mod addresses;
mod clearing;
mod consent;
mod decision;
mod leader;
pub mod losses;
mod moves;
pub mod pending;
mod proxies;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pending::{Moment, Pending, PendingRecord};

use crate::{
    ballot::{Belief, Incarnation, VoterReport, Will},
    fence::{Cause, Fence},
    heights::AllHeights,
    keeper::{HoldReason, Keeper, Observation, Patience, Situation, Step},
    leading::Leader,
    model::{Address, Cluster, Epoch, GroupId, InSync},
    moving::Landscape,
    slots::{Move, Phase, SlotRange},
};

pub use clearing::Cleared;
pub use consent::{ProgramAction, ProgramSeen};
pub use decision::{Decision, FAILOVER, IS_MASTER};
pub use leader::{LeaderAction, Silence};
pub use moves::{CopyNews, CopyNumber, MoveSeen};
pub use proxies::{ProxiesSeen, ProxyAction};

/// Who has most to do with a change is told of it before the others; after so many milliseconds these are told in any case.
const TOLD_FIRST_MS: u64 = 500;

/// How often a server is asked how it is, unless somebody says otherwise, in milliseconds.
const ASK_EACH_MS: u64 = 100;

/// How often voters are told how far servers are, in milliseconds: what a folder lacks that was set back to a copy of before that is noticed.
const HEIGHTS_EACH_MS: u64 = 200;

/// Ends of processes that are remembered, so that each is heard of once.
const ENDED_MAX: usize = 256;

/// What the coordinator has, as it was read last.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its slots that are on their way.
    pub moving: &'a [(Move, Phase)],
    /// Who leads.
    pub leader: Option<&'a Leader>,
    /// Who of each group is in sync, and the version of that.
    pub in_sync: &'a BTreeMap<GroupId, (InSync, u64)>,
    /// The voters' present runs.
    pub incarnations: &'a BTreeMap<String, Incarnation>,
    /// What waits for a person.
    pub pending: &'a PendingRecord,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A step for a server of a group: to be told how the cluster is, to follow, to be a master, to count, to pause.
    Step(GroupId, Step),
    /// Commands that wait at a Redis, for keys and for as long as they like, are ended there.
    Unblock(Address),
    /// Something for people to know.
    Note(String),
    /// A copy of slots is to begin.
    StartCopy {
        /// By this it is called from now on.
        number: CopyNumber,
        /// What moves.
        what: Move,
        /// The master that has the slots.
        source: Address,
        /// The master that gets them.
        target: Address,
    },
    /// A copy is to end, if it has not ended by itself.
    StopCopy(CopyNumber),
    /// Tell a copy whether commands on its slots wait, before anything else is done.
    SetPaused {
        /// Which.
        number: CopyNumber,
        /// Whether they do.
        is_paused: bool,
    },
    /// A copy is to be so fast from now on; nothing: as fast as it can.
    SetRate {
        /// Which.
        number: CopyNumber,
        /// Bytes a second.
        bytes_per_second: Option<u64>,
    },
    /// Commands on slots are to wait at a store, for a time. This is said once.
    PauseSlots {
        /// Which store.
        server: Address,
        /// The slots.
        slots: SlotRange,
        /// For how long.
        ms: u64,
        /// What tells this pause from all others.
        number: u64,
    },
    /// They wait no longer. This is said once.
    EndPause {
        /// Which store.
        server: Address,
        /// Which pause.
        number: u64,
    },
    /// Keys of slots are to be removed that are another group's.
    Clear {
        /// Where.
        server: Address,
        /// The slots.
        slots: SlotRange,
        /// A store removes so many keys at most, a Redis looks at so many.
        count: u32,
        /// Where a Redis' walk over its keys (SCAN) goes on.
        cursor: Option<String>,
    },
    /// A server's round begins: what was said for it since the last one, in that order, then questions how it is, and what it does and takes
    /// if that is wanted. [`Controller::handle_round`] says when it is over.
    Ask {
        /// Which.
        server: Address,
        /// Whether that is wanted.
        wants_figures: bool,
    },
    /// Slots are to move until all groups have the same share.
    SpreadSlots,
    /// Something is to be written down.
    Write(Decision),
}

fn action_of(group: GroupId, step: Step) -> Action {
    match step {
        Step::WriteInSync(in_sync) => Action::Write(Decision::InSync(group, in_sync)),
        Step::Elect { master, reason, may_lose } => Action::Write(Decision::Master { group, master, reason, may_lose }),
        Step::Renew { reason } => Action::Write(Decision::Renew { group, reason }),
        step => Action::Step(group, step),
    }
}

/// A process that has ended, as its host says.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// Whose it was.
    pub server: &'a Address,
    /// Its run, if that is known.
    pub run: Option<&'a str>,
    /// The run of the server's process as it was heard last. What another agent tells may be long ago.
    pub known: Option<&'a str>,
}

/// Decides.
#[derive(Clone, Debug)]
pub struct Controller {
    host: String,
    patience: Patience,
    /// The term that it leads in.
    term: Option<u64>,
    /// The latest term that a store has told of.
    told_term: u64,
    belief: Belief,
    keepers: BTreeMap<GroupId, Keeper>,
    /// What proxies may send to Redis servers.
    pub fence: Fence,
    /// Whether there is something that copies slots.
    pub can_copy: bool,
    ended: VecDeque<String>,
    /// Groups whose masters get no votes, because slots of theirs are handed over.
    held: BTreeSet<GroupId>,
    /// Who is told of which change before others, and until when they wait for that.
    first: Option<(Vec<(Address, Epoch)>, u64)>,
    moves: moves::Moves,
    /// What the proxies of this host were told.
    told: proxies::Told,
    /// Nothing is written before then: the coordinator does not answer.
    writes_from: u64,
    /// What waits for a person.
    pub pending: Pending,
    /// Groups of which something may be lost by what is decided in this turn.
    losing: BTreeSet<GroupId>,
    /// Restarts of this host's programs that were confirmed and done, by number. Who leads makes no difference.
    released: BTreeMap<Address, u64>,
    rounds: rounds::Rounds,
    /// Which server each address was of, and by which epoch.
    places: (Epoch, BTreeMap<Address, String>),
    /// How often a server is asked how it is, in milliseconds.
    pub ask_each_ms: u64,
    standing: leader::Standing,
    /// What hosts tell of their addresses.
    addresses: addresses::Told,
    /// How far servers were, as voters remember it.
    heights: AllHeights,
    /// What voters are told of that, and since when.
    told_heights: (AllHeights, u64),
}

impl Controller {
    /// That of a host's agent, which leads nobody yet.
    #[must_use]
    pub fn new(host: &str, patience: Patience, fence: Fence) -> Self {
        Self {
            host: host.to_owned(),
            patience,
            term: None,
            told_term: 0,
            belief: Belief::default(),
            keepers: BTreeMap::new(),
            fence,
            can_copy: true,
            ended: VecDeque::new(),
            held: BTreeSet::new(),
            first: None,
            moves: moves::Moves::default(),
            told: proxies::Told::default(),
            writes_from: 0,
            pending: Pending::default(),
            losing: BTreeSet::new(),
            released: BTreeMap::new(),
            rounds: rounds::Rounds::default(),
            places: Default::default(),
            ask_each_ms: ASK_EACH_MS,
            standing: leader::Standing::default(),
            addresses: addresses::Told::default(),
            heights: AllHeights::default(),
            told_heights: (AllHeights::default(), 0),
        }
    }

    /// The term that it leads in.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.term
    }

    /// Whether most hosts have said whom they listen to, and how far servers were.
    #[must_use]
    pub fn is_believed(&self, record: Record<'_>) -> bool {
        self.belief.since(record.cluster, record.incarnations).is_some()
    }

    /// Who looks after groups.
    #[must_use]
    pub fn keepers(&self) -> &BTreeMap<GroupId, Keeper> {
        &self.keepers
    }

    /// Who looks after a group, if it was looked at yet.
    pub fn keeper_mut(&mut self, group: GroupId) -> Option<&mut Keeper> {
        self.keepers.get_mut(&group)
    }

    fn keeper(&mut self, group: GroupId, now: u64) -> &mut Keeper {
        let patience = self.patience;
        self.keepers.entry(group).or_insert_with(|| Keeper::new(group, patience, now))
    }

    /// What slots on their way are looked at with.
    #[must_use]
    fn landscape<'a>(&'a self, cluster: &'a Cluster, pause_number: u64) -> Landscape<'a> {
        Landscape {
            cluster,
            keepers: &self.keepers,
            fence: &self.fence,
            patience: self.patience,
            can_copy: self.can_copy,
            pause_number,
        }
    }

    /// What a server has said lately.
    #[must_use]
    pub fn fresh(&self, cluster: &Cluster, server: &Address, now: u64) -> Option<&Observation> {
        self.keepers.get(&cluster.group_of(server)?)?.fresh(server, now)
    }

    fn forget_groups(&mut self) {
        self.keepers.clear();
        self.held.clear();
        self.moves = self.moves.forgotten();
        self.rounds = rounds::Rounds::default();
    }

    /// A store has told of a term that is later than this agent's.
    pub fn handle_stale_term(&mut self, known: u64) {
        self.told_term = self.told_term.max(known);
    }

    /// A voter has said whom it listens to, and what it promises.
    pub fn handle_report(&mut self, voter: &str, report: &VoterReport, now: u64) {
        self.belief.note(voter, report, now);
        self.heights.take(&report.heights);
        for (group, promise) in &report.promises {
            if let Some(keeper) = self.keepers.get_mut(group) {
                keeper.handle_promise(voter, report.incarnation, promise, now);
            }
        }
    }

    /// Another agent has told of the end of a process. If that is news, says whether it is the server's process of now.
    pub fn handle_told_exit(&mut self, cluster: &Cluster, exit: Exit<'_>, now: u64) -> Option<bool> {
        let run = exit.run?;
        if self.term.is_none() || self.ended.iter().any(|known| known == run) {
            return None;
        }
        self.ended.push_back(run.to_owned());
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
        Some(self.handle_exit(cluster, exit, now))
    }

    /// The process of a server has ended. Says whether it is the one of now, so that the server is not there.
    pub fn handle_exit(&mut self, cluster: &Cluster, exit: Exit<'_>, now: u64) -> bool {
        let group = cluster.group_of(exit.server).filter(|_| self.term.is_some());
        let Some(group) = group else { return false };
        match exit.run {
            // It may have been started anew since.
            Some(run) if exit.known.is_some_and(|known| known != run) => {
                self.keeper(group, now).note_ended(run, now);
                false
            }
            run => {
                self.keeper(group, now).handle_exited(exit.server, run, now);
                true
            }
        }
    }

    /// A server has answered.
    pub fn handle_observed(&mut self, cluster: &Cluster, server: &Address, seen: Observation, now: u64) {
        if let Some(group) = cluster.group_of(server) {
            self.keeper(group, now).handle_observed(server, seen);
        }
    }

    /// A server has confirmed a pause that it was asked for at a time: its commands wait until another.
    pub fn handle_paused(
        &mut self,
        cluster: &Cluster,
        server: &Address,
        (number, asked_at, until): (u64, u64, u64),
        now: u64,
    ) {
        self.handle_move_paused(number, asked_at, until);
        if let Some(group) = cluster.group_of(server) {
            self.keeper(group, now).handle_paused(server, number, now, until);
        }
    }

    /// A change was written that concerns these servers most: who becomes a master, or gets slots, knows it before who has been that or
    /// had them, so that clients are sent back and forth as little as can be. Of several that are told at once each is told first.
    fn tell_first(&mut self, servers: impl IntoIterator<Item = Address>, epoch: Epoch, now: u64) {
        let mut first = self.first.take().map(|(first, _)| first).unwrap_or_default();
        first.extend(servers.into_iter().map(|server| (server, epoch)));
        self.first = Some((first, now + TOLD_FIRST_MS));
    }

    /// Whether others wait until somebody has been told.
    fn is_telling(&self) -> bool {
        self.first.is_some()
    }

    fn look_who_was_told(&mut self, cluster: &Cluster, now: u64) {
        let knows = |server: &Address, epoch| self.fresh(cluster, server, now).is_some_and(|seen| seen.epoch >= epoch);
        let is_over = |(first, until): &(Vec<(Address, Epoch)>, u64)| {
            now >= *until || first.iter().all(|(server, epoch)| knows(server, *epoch))
        };
        if self.first.as_ref().is_some_and(is_over) {
            self.first = None;
        }
    }

    fn may_tell(&self, server: &Address) -> bool {
        self.first.as_ref().is_none_or(|(first, _)| first.iter().any(|(told, _)| told == server))
    }

    /// What is to be done now.
    pub fn poll(&mut self, at: Moment, record: Record<'_>) -> Vec<Action> {
        if self.term.is_none() {
            return Vec::new();
        }
        let (now, cluster) = (at.now, record.cluster);
        self.look_who_is_where(cluster);
        let (mut actions, mut orders) = (Vec::new(), Vec::new());
        let (mut of_slots, mut others) = (Vec::new(), Vec::new());
        let all = [self.poll_groups(now, record), self.poll_moves(now, record)];
        for action in all.into_iter().flatten() {
            match action {
                Action::Write(decision @ Decision::Slots(..)) => of_slots.push(Action::Write(decision)),
                Action::Write(decision) => others.push(decision),
                Action::Step(group, step) if !self.may_do((group, &step), at, cluster, &mut actions) => {}
                action if action.server().is_some() => orders.push(action),
                action => actions.push(action),
            }
        }
        let rounds = self.poll_rounds(now, cluster, orders);
        let (asked, orders): (Vec<_>, Vec<_>) =
            rounds.into_iter().partition(|action| matches!(action, Action::Ask { .. }));
        actions.extend(orders);
        let may_write = self.may_write(now);
        if may_write {
            // Commands wait for these: they are written before servers are asked.
            actions.extend(of_slots);
        }
        actions.extend(asked);
        if !may_write {
            return actions;
        }
        let mut writes = Vec::new();
        for decision in others {
            writes.extend(self.admitted(decision, at, record, &mut actions));
        }
        writes.extend(self.poll_addresses(now, record));
        self.poll_share(at, record, &mut actions);
        writes.extend(self.keep_pending(now, record));
        actions.extend(writes.into_iter().map(Action::Write));
        actions
    }

    /// Where an address is another server's now, what was heard by it is not about who is there.
    fn look_who_is_where(&mut self, cluster: &Cluster) {
        if self.places.0 == cluster.epoch {
            return;
        }
        let now: BTreeMap<Address, String> =
            cluster.servers().map(|(_, server)| (server.address.clone(), server.id.clone())).collect();
        let (_, before) = std::mem::replace(&mut self.places, (cluster.epoch, now));
        for (address, _) in before.iter().filter(|(address, id)| self.places.1.get(address) != Some(id)) {
            self.rounds.forget(address);
            self.keepers.values_mut().for_each(|keeper| keeper.forget_server(address));
        }
    }

    /// What is to be done about all groups.
    fn poll_groups(&mut self, now: u64, record: Record<'_>) -> Vec<Action> {
        let Some(term) = self.term else { return Vec::new() };
        let cluster = record.cluster;
        self.keepers.retain(|group, _| cluster.groups.contains_key(group));
        self.look_who_was_told(cluster, now);
        let believed_since = self.belief.since(cluster, record.incarnations);
        // What is of a later master than the record's is of another cluster, or of one that was made anew.
        self.heights.retain(|id, known| cluster.groups.get(&id).is_some_and(|group| known.reign <= group.reign()));
        let (known, mut seen) = (self.heights.clone(), Vec::new());
        let mut actions = Vec::new();
        for (id, group) in &cluster.groups {
            let in_sync = record.in_sync.get(id).map(|(in_sync, _)| in_sync.clone()).unwrap_or_default();
            let is_held = self.held.contains(id) || self.has_left_its_place(now, cluster, group);
            let held_since = self.fence.done_at(Cause::Master(*id));
            let keeper = self.keeper(*id, now);
            keeper.hold_leases(is_held);
            let steps = if group.kind().is_store() {
                let incarnations = record.incarnations;
                let heights = known.of(*id);
                let situation = Situation { cluster, in_sync: &in_sync, incarnations, term, believed_since, heights };
                let steps = keeper.poll_steps(now, situation);
                seen.extend(keeper.heights(group).map(|heights| (*id, heights)));
                steps
            } else {
                let steps = keeper.poll_redis_steps(now, cluster, &in_sync, held_since);
                let wanted = keeper.wants_hold();
                self.hold_group(cluster, *id, wanted, &mut actions);
                if wanted == Some(HoldReason::HandOver) && held_since.is_none() {
                    // What waits there for a key is under way otherwise, for as long as it likes.
                    actions.push(Action::Unblock(group.master.clone()));
                }
                steps
            };
            let may_tell = |step: &Step| !matches!(step, Step::Tell { server } if !self.may_tell(server));
            actions.extend(steps.into_iter().filter(may_tell).map(|step| action_of(*id, step)));
        }
        drop(known);
        for (id, heights) in seen {
            self.heights.take_group(id, &heights);
        }
        if now >= self.told_heights.1 + HEIGHTS_EACH_MS {
            self.told_heights = (self.heights.clone(), now);
        }
        actions
    }

    /// Has requests to a group of Redis servers wait, or not, as its keeper wants it.
    fn hold_group(&mut self, cluster: &Cluster, id: GroupId, wanted: Option<HoldReason>, actions: &mut Vec<Action>) {
        let cause = Cause::Master(id);
        let Some(group) = cluster.groups.get(&id) else { return };
        let Some(wanted) = wanted else {
            if self.fence.release(cause) {
                actions.push(Action::Note(format!("group {id}: requests wait no longer")));
            }
            return;
        };
        if !self.fence.holds(cause) {
            let why = match wanted {
                HoldReason::GivenUp => format!("{} is given up", group.master),
                HoldReason::HandOver => "it gets another master".to_owned(),
                HoldReason::Promotion => format!("{} does not know yet that it is the master", group.master),
            };
            actions.push(Action::Note(format!("group {id}: requests wait at the proxies: {why}")));
        }
        let dead = (wanted == HoldReason::GivenUp).then(|| group.master.clone());
        self.fence.hold(cause, cluster.slots.owned_by(id), dead);
    }

    /// A host that has come and gets a vote now. One at a time, and only while all masters know how the cluster is: a majority of the hosts
    /// that a master knows and one of those that are have a host in common then.
    #[must_use]
    pub fn host_to_take_in<'a>(
        &self,
        now: u64,
        cluster: &Cluster,
        mut hosts: impl Iterator<Item = &'a String>,
    ) -> Option<&'a String> {
        if self.term.is_none() || cluster.hosts.is_empty() {
            return None;
        }
        let all_know = self.do_masters_know(now, cluster);
        hosts.find(|host| all_know && !cluster.hosts.contains(host))
    }

    /// Whether all masters serve and know how the cluster is: who votes may change then, by one host.
    #[must_use]
    pub fn do_masters_know(&self, now: u64, cluster: &Cluster) -> bool {
        cluster.groups.values().filter(|group| group.kind().is_store()).all(|group| {
            let seen = self.fresh(cluster, &group.master, now);
            seen.is_some_and(|seen| seen.epoch == cluster.epoch && seen.serves)
        })
    }

    /// What voters are told; nothing while it does not lead.
    #[must_use]
    pub fn will(&self) -> Option<Will> {
        let term = self.term?;
        let asks = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.ask()?)));
        let verdicts = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.verdict()?.clone())));
        let heights = self.told_heights.0.clone();
        Some(Will { term, asks: asks.collect(), verdicts: verdicts.collect(), heights })
    }

    /// Servers that do not answer and are no masters: whoever waits for an answer of theirs waits in vain. A master that is silent is
    /// waited for until another one has its place.
    #[must_use]
    pub fn given_up(&self, cluster: &Cluster, now: u64) -> BTreeSet<Address> {
        let is_silent = |(id, server): (GroupId, &crate::Server)| {
            let is_master = cluster.groups.get(&id).is_some_and(|group| group.master == server.address);
            let keeper = self.keepers.get(&id).filter(|keeper| keeper.had_time(now));
            !is_master && keeper.is_some_and(|keeper| keeper.fresh(&server.address, now).is_none())
        };
        let silent = cluster.servers().filter(|(id, server)| is_silent((*id, server)));
        silent.map(|(_, server)| server.address.clone()).collect()
    }
}
