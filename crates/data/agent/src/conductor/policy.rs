//! The cluster's policy, between what is decided and what is done: some of it waits for a person, some is left to one.

use std::time::{SystemTime, UNIX_EPOCH};

use cluster::{
    Address, GroupId,
    controller::Decision,
    keeper::Step,
    policy::{Action, Mode},
};
use serde_json::Value;

use super::{Conductor, requests, status};
use crate::{
    board::{FRESH_MS, Running},
    error::AgentError,
    pending::{Moment, Pending, Subject},
};

/// How many times the patience with a master it may take until a new leader proposes again what the one before has proposed.
const PATIENCES: u64 = 3;

fn date_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn restart_of(address: &Address) -> Subject {
    Subject { action: Action::Restart, group: None, server: Some(address.clone()) }
}

impl Conductor {
    /// The whole path of the agent's socket.
    pub(super) fn socket(&self) -> String {
        let path = self.options.folder.socket();
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    /// What waits for a person, for people and programs.
    #[must_use]
    pub fn shown_pending(&self) -> Value {
        let policy = self.records.cluster.policy;
        self.pending.shown(|action| policy.mode(action), date_ms())
    }

    /// Begins with what the leader before has left.
    pub(super) fn take_pending_over(&mut self) {
        let patience = &self.options.patience;
        let patience_ms = PATIENCES * (patience.master_ms + patience.lease_ms);
        self.pending = Pending::taken_over(self.records.pending().clone(), self.now(), patience_ms);
    }

    /// Has the coordinator know what waits, and what was said to it.
    pub(super) fn write_pending(&mut self) -> Result<(), AgentError> {
        let mut record = self.pending.record.clone();
        // Nobody asks later who was replaced if nobody is to be asked: no failover waits for this to be written.
        if self.records.cluster.policy.mode(Action::Rejoin) == Mode::Auto {
            record.replaced.clear();
        }
        if record == *self.records.pending() { Ok(()) } else { self.records.write_pending(record) }
    }

    /// The same, at the end of a turn: what cannot be written now is written in a later one.
    pub(super) fn keep_pending(&mut self, now: u64) {
        self.pending.forget(now);
        let cluster = &self.records.cluster;
        self.pending.record.replaced.retain(|server| cluster.group_of(server).is_some());
        if self.controller.may_write(now)
            && let Err(error) = self.write_pending()
        {
            self.note(&format!("what waits for a person is not written down: {error}"));
            self.not_written(&error);
        }
    }

    /// Says something to what waits; it counts once it is written down.
    pub(super) fn answer_pending(&mut self, number: u64, is_confirmed: bool) -> Result<String, requests::Problem> {
        let before = self.pending.record.clone();
        let found = self.pending.answer(number, is_confirmed);
        let (subject, what) = found.map_err(|error| requests::Problem::NotThere(error.to_string()))?;
        let is_off = self.records.cluster.policy.mode(subject.action) == Mode::Off;
        let done = if is_confirmed && is_off {
            Err(requests::Problem::Refused(format!(
                "the policy says that {0} is off: `tidegate cluster policy set {0} ask` lets it be confirmed",
                subject.action
            )))
        } else {
            self.write_pending().map_err(Into::into)
        };
        if let Err(problem) = done {
            self.pending.record = before;
            return Err(problem);
        }
        let what = format!("{}: {what}", if is_confirmed { "confirmed" } else { "refused" });
        self.note(&what);
        Ok(what)
    }

    fn admits(&mut self, subject: Subject, what: &str, now: u64) -> bool {
        let mode = self.records.cluster.policy.mode(subject.action);
        let (may, is_new) = self.pending.admits(mode, subject, what, Moment { now, date: date_ms() });
        if is_new && mode == Mode::Ask {
            self.note(&format!("this waits for a person (`tidegate cluster action pending`): {what}"));
        } else if is_new {
            self.note(&format!("the policy leaves this to a person: {what}"));
        }
        may
    }

    /// Whether a decision is written now.
    pub(super) fn is_admitted(&mut self, decision: &Decision, now: u64) -> bool {
        let Decision::Master { group, master, reason } = decision else { return true };
        let is_wanted = self.controller.keepers().get(group).is_some_and(|keeper| keeper.handing_over_to().is_some());
        // Who was asked for as the master need not be confirmed as well.
        if is_wanted {
            return true;
        }
        let what = format!("group {group}: {master} becomes the master: {reason}");
        self.admits(self.failover_of(*group), &what, now) && self.note_replaced(*group, master)
    }

    /// Whether a step is done now.
    pub(super) fn may_do(&mut self, group: GroupId, step: &Step, now: u64) -> bool {
        match step {
            Step::Follow { server, master } if self.pending.record.replaced.contains(server) => {
                let subject = Subject { action: Action::Rejoin, group: Some(group), server: Some(server.clone()) };
                let is_store = self.records.cluster.kind_of(server).is_store();
                let alone = if is_store { "set aside in its folder" } else { "lost: a Redis sets nothing aside" };
                let what = format!(
                    "group {group}: {server}, the former master, follows {master}; what it has alone is {alone}"
                );
                let may = self.admits(subject.clone(), &what, now);
                if may {
                    self.pending.done(&subject);
                    self.pending.record.replaced.remove(server);
                }
                may
            }
            _ => true,
        }
    }

    /// That somebody takes the place of the master that a group has now.
    pub(super) fn failover_of(&self, group: GroupId) -> Subject {
        let server = self.records.cluster.groups.get(&group).map(|group| group.master.clone());
        Subject { action: Action::Failover, group: Some(group), server }
    }

    /// A group is about to have another master: its former one is asked about when it comes back. Says whether that will be known then.
    fn note_replaced(&mut self, group: GroupId, master: &Address) -> bool {
        let former = self.failover_of(group).server;
        self.pending.record.replaced.extend(former);
        self.pending.record.replaced.remove(master);
        let written = self.write_pending();
        if let Err(error) = &written {
            self.note(&format!("group {group}: nothing is decided: {error}"));
            self.not_written(error);
        }
        written.is_ok()
    }

    /// What waited for a person before the agent was started waits on: it is not started with the others.
    pub(super) fn hold_what_waits(&mut self) {
        if self.records.cluster.policy.mode(Action::Restart) == Mode::Auto {
            return;
        }
        for address in self.records.pending().unconfirmed(Action::Restart) {
            self.processes.hold(address);
        }
    }

    /// Lets programs of this host start again that have ended, if they may. The leader proposes it; what a person has said to that, all
    /// agents read in the record.
    pub(super) fn let_held_start(&mut self, now: u64) {
        let mode = self.records.cluster.policy.mode(Action::Restart);
        if mode != Mode::Auto && self.leads() {
            self.propose_restarts(now);
        }
        let held: Vec<Address> = self.processes.held().cloned().collect();
        for address in held {
            let confirmed = self.records.pending().confirmed(&restart_of(&address));
            let may = match (mode, confirmed) {
                (Mode::Auto, _) => true,
                // A confirmation is good for one start.
                (Mode::Ask, Some(number)) => self.released.insert(address.clone(), number) != Some(number),
                _ => false,
            };
            if may {
                self.processes.release(&address, now);
            }
        }
    }

    fn propose_restarts(&mut self, now: u64) {
        let board = self.board.look();
        let fresh = board.peers.values().filter(|peer| peer.heard_at + FRESH_MS >= now).map(|peer| &peer.view);
        let views = std::iter::once(&board.own).chain(fresh);
        let all: Vec<(Address, Running)> = views
            .flat_map(|view| &view.programs)
            .filter_map(|(address, running)| Some((address.parse().ok()?, running.clone())))
            .collect();
        drop(board);
        for (address, running) in all {
            let subject = restart_of(&address);
            let confirmed = self.pending.record.confirmed(&subject);
            let is_used = confirmed.is_some_and(|number| running.released == number);
            if !running.is_held || is_used {
                // It was started, though it may have ended again since: that is to be confirmed anew.
                if is_used || running.pid.is_some() {
                    self.pending.done(&subject);
                }
                continue;
            }
            self.admits(subject, &format!("{address} has ended by itself and is started again"), now);
        }
    }

    /// Gives a group that was added its share of the slots, once it is whole, if the policy says so.
    pub(super) fn give_share(&mut self, now: u64) {
        let Some(group) = self.pending.record.grown else { return };
        let cluster = &self.records.cluster;
        if cluster.policy.mode(Action::Rebalance) == Mode::Off
            || !cluster.groups.contains_key(&group)
            || cluster.slots.count_of(group) > 0
        {
            self.pending.record.grown = None;
            return;
        }
        if !self.records.moving().is_empty() || !status::group_serves(self, group) {
            return;
        }
        let subject = Subject { action: Action::Rebalance, group: Some(group), server: None };
        let what = format!("group {group} was added: slots move to it until all groups have the same share");
        if self.admits(subject.clone(), &what, now) {
            self.pending.done(&subject);
            self.pending.record.grown = None;
            requests::give_share(self);
        }
    }

    /// A group is about to be added. It is written down before it is there: whoever leads then gives it its share.
    pub(super) fn note_grown(&mut self, group: GroupId) -> Result<(), AgentError> {
        if self.records.cluster.policy.mode(Action::Rebalance) == Mode::Off {
            return Ok(());
        }
        self.pending.record.grown = Some(group);
        self.write_pending()
    }
}
