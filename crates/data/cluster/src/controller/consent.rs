//! The cluster's policy, between what is decided and what is said to be done: some of it waits for a person, some is left to one.

use super::{
    Action, Controller, Decision, Record,
    losses::NewLoss,
    pending::{Moment, Pending, Subject},
};
use crate::{
    fence::Cause,
    keeper::{Keeper, Role, Step},
    model::{Address, Cluster, GroupId, ServerKind},
    policy::{self, Mode},
};

/// How many times the patience with a master it may take until a new leader proposes again what the one before has proposed.
const PATIENCES: u64 = 3;

/// A program of some host that has ended, or was held back when its agent began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSeen {
    /// Where it listens.
    pub address: Address,
    /// It waits until it may start.
    pub is_held: bool,
    /// It runs.
    pub is_running: bool,
    /// The confirmation that it was started by last; 0: none.
    pub released: u64,
}

impl ProgramSeen {
    fn restart(address: &Address) -> Subject {
        Subject { action: policy::Action::Restart, group: None, server: Some(address.clone()) }
    }
}

/// What is to be done about programs that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramAction {
    /// A program of this host is started again.
    Start(Address),
    /// Something for people to know.
    Note(String),
}

impl Controller {
    /// Begins with what the leader before has left.
    pub(super) fn take_pending_over(&mut self, record: Record<'_>, now: u64) {
        let patience_ms = PATIENCES * (self.patience.master_ms + self.patience.lease_ms);
        self.pending = Pending::taken_over(record.pending.clone(), now, patience_ms);
    }

    fn admits(&mut self, (subject, what): (Subject, &str), at: Moment, cluster: &Cluster) -> (bool, Option<String>) {
        let mode = cluster.policy.mode(subject.action);
        let (may, is_new) = self.pending.admits(mode, subject, what, at);
        let note = match mode {
            Mode::Ask => format!("this waits for a person (`tidegate cluster action pending`): {what}"),
            _ => format!("the policy leaves this to a person: {what}"),
        };
        (may, is_new.then_some(note))
    }

    fn passes(&mut self, proposal: (Subject, &str), at: Moment, cluster: &Cluster, actions: &mut Vec<Action>) -> bool {
        let (may, note) = self.admits(proposal, at, cluster);
        actions.extend(note.map(Action::Note));
        may
    }

    /// Whether a step is done now.
    pub(super) fn may_do(
        &mut self,
        (group, step): (GroupId, &Step),
        at: Moment,
        cluster: &Cluster,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Step::Follow { server, master, .. } = step else { return true };
        if !self.pending.record.replaced.contains(server) {
            return true;
        }
        let subject = Subject { action: policy::Action::Rejoin, group: Some(group), server: Some(server.clone()) };
        let is_store = cluster.kind_of(server).is_store();
        let alone = if is_store { "set aside in its folder" } else { "lost: a Redis sets nothing aside" };
        let what =
            format!("group {group}: {server}, the former master, follows {master}; what it has alone is {alone}");
        let may = self.passes((subject.clone(), &what), at, cluster, actions);
        if may {
            self.pending.done(&subject);
            self.pending.record.replaced.remove(server);
        }
        may
    }

    /// What of a decision is written now: nothing, or what must be known first and the decision.
    pub(super) fn admitted(
        &mut self,
        decision: Decision,
        at: Moment,
        record: Record<'_>,
        actions: &mut Vec<Action>,
    ) -> Vec<Decision> {
        let cluster = record.cluster;
        let Decision::Master { group, master, reason, may_lose } = &decision else { return vec![decision] };
        // Who was asked for as the master need not be confirmed as well.
        let keeper = self.keepers.get(group);
        if keeper.is_some_and(|keeper| keeper.handing_over_to().is_some()) {
            return vec![decision];
        }
        let is_asked_for = keeper.is_some_and(Keeper::takes_last_resort);
        let former = cluster.groups.get(group).map(|group| group.master.clone());
        let what = format!("group {group}: {master} becomes the master: {reason}");
        let subject = Subject { action: policy::Action::Failover, group: Some(*group), server: former.clone() };
        if !is_asked_for && !self.passes((subject, &what), at, cluster, actions) {
            return Vec::new();
        }
        // The former one is asked about when it comes back: that is to be known then.
        self.pending.record.replaced.extend(former);
        if *may_lose {
            let ends = cluster.groups.get(group).map_or(0, |group| group.config_epoch);
            self.note_loss(NewLoss { group: *group, ends, at: at.date, what: &what });
        }
        self.pending.record.replaced.remove(master);
        self.unwritten_pending(record).into_iter().chain([decision]).collect()
    }

    /// Has the coordinator know what waits, if it does not.
    fn unwritten_pending(&self, record: Record<'_>) -> Option<Decision> {
        let wanted = self.pending_record(record.cluster);
        (wanted != *record.pending).then_some(Decision::Pending(wanted))
    }

    /// What the coordinator is to have of what waits for a person.
    #[must_use]
    pub fn pending_record(&self, cluster: &Cluster) -> super::pending::PendingRecord {
        let mut wanted = self.pending.record.clone();
        // Nobody asks later who was replaced if nobody is to be asked: no failover waits for this to be written.
        if cluster.policy.mode(policy::Action::Rejoin) == Mode::Auto {
            wanted.replaced.clear();
        }
        wanted
    }

    /// The same at the end of a turn.
    pub(super) fn keep_pending(&mut self, now: u64, record: Record<'_>) -> Option<Decision> {
        self.pending.forget(now);
        self.settle_losses(record.cluster);
        self.pending.record.replaced.retain(|server| record.cluster.group_of(server).is_some());
        self.unwritten_pending(record)
    }

    /// A group that was added gets its share of the slots, once it is whole, if the policy says so.
    pub(super) fn poll_share(&mut self, at: Moment, record: Record<'_>, actions: &mut Vec<Action>) {
        let Some(group) = self.pending.record.grown else { return };
        let cluster = record.cluster;
        let is_off = cluster.policy.mode(policy::Action::Rebalance) == Mode::Off;
        if is_off || !cluster.groups.contains_key(&group) || cluster.slots.count_of(group) > 0 {
            self.pending.record.grown = None;
            return;
        }
        if !record.moving.is_empty() || !self.serves(cluster, group, at.now) {
            return;
        }
        let subject = Subject { action: policy::Action::Rebalance, group: Some(group), server: None };
        let what = format!("group {group} was added: slots move to it until all groups have the same share");
        if self.passes((subject.clone(), &what), at, cluster, actions) {
            self.pending.done(&subject);
            self.pending.record.grown = None;
            actions.push(Action::SpreadSlots);
        }
    }

    /// Whether a group's master has the votes of most hosts. A Redis needs none: its proxies have a lease, and these are told.
    #[must_use]
    pub fn serves(&self, cluster: &Cluster, id: GroupId, now: u64) -> bool {
        let Some(group) = cluster.groups.get(&id) else { return false };
        let Some(seen) = self.fresh(cluster, &group.master, now) else { return false };
        if group.kind() == ServerKind::Redis {
            return !self.fence.holds(Cause::Master(id)) && seen.role == Role::Master;
        }
        seen.role == Role::Master && seen.epoch == cluster.epoch && seen.serves
    }

    /// What waited for a person before this agent was started waits on: programs that are not started with the others.
    pub fn programs_to_hold(record: Record<'_>) -> Vec<Address> {
        let is_auto = record.cluster.policy.mode(policy::Action::Restart) == Mode::Auto;
        let waiting = record.pending.unconfirmed(policy::Action::Restart).filter(|_| !is_auto);
        waiting.cloned().collect()
    }

    /// What is to be done about programs that have ended: `all` are those of all hosts, `held` are this host's that wait until they may
    /// start. The leader proposes to start them; what a person has said to that, all agents read in the record. Who does not lead asks
    /// this, too.
    pub fn poll_programs(
        &mut self,
        at: Moment,
        record: Record<'_>,
        (all, held): (&[ProgramSeen], &[Address]),
    ) -> Vec<ProgramAction> {
        let mode = record.cluster.policy.mode(policy::Action::Restart);
        let mut actions = Vec::new();
        if mode != Mode::Auto && self.term.is_some() {
            for program in all {
                actions.extend(self.propose_restart(program, at, record.cluster).map(ProgramAction::Note));
            }
        }
        for address in held {
            let confirmed = record.pending.confirmed(&ProgramSeen::restart(address));
            let may = match (mode, confirmed) {
                (Mode::Auto, _) => true,
                // A confirmation is good for one start.
                (Mode::Ask, Some(number)) => self.released.insert(address.clone(), number) != Some(number),
                _ => false,
            };
            if may {
                actions.push(ProgramAction::Start(address.clone()));
            }
        }
        actions
    }

    /// The confirmation that a program of this host was started by last; 0: none.
    #[must_use]
    pub fn released(&self, program: &Address) -> u64 {
        self.released.get(program).copied().unwrap_or_default()
    }

    fn propose_restart(&mut self, program: &ProgramSeen, at: Moment, cluster: &Cluster) -> Option<String> {
        let subject = ProgramSeen::restart(&program.address);
        let confirmed = self.pending.record.confirmed(&subject);
        let is_used = confirmed.is_some_and(|number| program.released == number);
        if !program.is_held || is_used {
            // It was started, though it may have ended again since: that is to be confirmed anew.
            if is_used || program.is_running {
                self.pending.done(&subject);
            }
            return None;
        }
        let what = format!("{} has ended by itself and is started again", program.address);
        self.admits((subject, &what), at, cluster).1
    }
}
