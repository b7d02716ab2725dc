//! Who leads, and what the leader tells voters and hears from other agents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cluster::{
    Address, GroupId, Server,
    ballot::{Belief, VoterReport, Will},
    leading::{Candidacy, Leader},
};

use coord::CoordError;

use super::Conductor;
use crate::{
    board::{Ended, Running, View},
    error::AgentError,
    pending::Pending,
    watching::Heard,
};

/// How often an agent thinks of leading, in milliseconds.
const STAND_EACH_MS: u64 = 100;
/// How long a coordinator that has not answered is left alone, in milliseconds.
const UNAVAILABLE_MS: u64 = 500;
/// Ends of processes that are remembered, so that each is heard of once.
const ENDED_MAX: usize = 256;

/// What an agent knows as the leader.
#[derive(Debug, Default)]
pub struct Leading {
    /// The term that it has begun.
    pub(super) term: Option<u64>,
    /// Who listens to it.
    pub(super) belief: Belief,
    /// The latest term that a store has told of.
    told_term: u64,
    /// When it thought of leading last.
    stood_at: u64,
    /// Nothing is written before then: the coordinator does not answer.
    writes_from: u64,
    ended: VecDeque<Ended>,
}

impl Conductor {
    /// Whether this agent leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leading.term.is_some()
    }

    /// Begins to lead if nobody does, and stops if somebody else does.
    pub(super) fn stand_for_leader(&mut self) {
        let now = self.now();
        if self.leading.term.is_some() && self.leading.term != self.records.led_term() {
            self.follow();
        }
        let is_refused = self.leading.term.is_some_and(|term| self.leading.told_term > term);
        if self.leading.term.is_some() && !is_refused
            || now < self.leading.stood_at + STAND_EACH_MS
            || !self.may_write(now)
        {
            return;
        }
        self.leading.stood_at = now;
        if is_refused {
            // Whoever leads since that term may have written so: then it is followed.
            self.read_again();
            if self.leading.term != self.records.led_term() {
                return;
            }
            self.note(&format!(
                "stores know of term {}, which the coordinator does not: it was restored from a backup, most likely",
                self.leading.told_term
            ));
            self.forget_what_was_led();
        }
        let host = self.options.host_name().to_owned();
        let others = self.board.others_silent_ms();
        let heard_at = self.board.look().leader_heard_at;
        let candidacy = Candidacy {
            host: &host,
            leader: self.records.leader(),
            is_own_term: false,
            told_term: self.leading.told_term,
            silent_ms: now.saturating_sub(heard_at),
            patience_ms: self.options.patience.master_ms,
            others_silent_ms: &others,
            hosts: &self.records.cluster.hosts,
        };
        let Some(term) = candidacy.term_to_claim() else { return };
        let api = self.site.map(|address| address.to_string()).unwrap_or_default();
        match self.records.lead(Leader { host: host.clone(), term, api }) {
            Ok(()) => {
                self.note(&format!("{host} leads the cluster, in term {term}"));
                self.begin_to_lead(term);
            }
            Err(error) => {
                self.note(&format!("{host} does not lead: {error}"));
                self.not_written(&error);
            }
        }
    }

    fn begin_to_lead(&mut self, term: u64) {
        // What others did before that was read up to now; what comes is heard.
        self.read_again();
        if self.records.led_term() != Some(term) {
            return;
        }
        self.leading.term = Some(term);
        self.leading.belief = Belief::new(term);
        self.take_pending_over();
        if let Some(mover) = &self.mover {
            mover.lead(term);
        }
        self.links.clear();
        self.keepers.clear();
        self.board.lead(Some(Will { term, ..Will::default() }));
    }

    fn follow(&mut self) {
        let leader = self.records.leader().map(|leader| leader.host.clone()).unwrap_or_default();
        self.note(&format!("this agent leads no more: {leader} does"));
        self.forget_what_was_led();
    }

    /// A store refuses what an agent of this term says, as it has heard of a later one.
    pub(super) fn handle_stale_term(&mut self, known: u64) {
        self.leading.told_term = self.leading.told_term.max(known);
    }

    fn forget_what_was_led(&mut self) {
        self.leading.term = None;
        self.links.clear();
        self.keepers.clear();
        self.silent.clear();
        self.pending = Pending::default();
        self.moves = super::moves::Moves::default();
        let now = self.now();
        self.board.change(|board| board.leader_heard_at = now);
        self.board.lead(None);
    }

    /// Whether the coordinator is asked to write something. When it has not answered, others are served for a moment.
    pub(super) fn may_write(&self, now: u64) -> bool {
        now >= self.leading.writes_from
    }

    /// Something was not written. Who was too slow reads again; what a coordinator that does not answer has done is heard later.
    pub(super) fn not_written(&mut self, error: &AgentError) {
        match error {
            AgentError::Coordinator(CoordError::Unavailable { .. }) => {
                self.leading.writes_from = self.now() + UNAVAILABLE_MS;
            }
            _ => self.read_again(),
        }
    }

    /// Reads the coordinator again: somebody may have been quicker.
    pub(super) fn read_again(&mut self) {
        if let Err(error) = self.records.refresh() {
            self.note(&format!("the coordinator cannot be read: {error}"));
        }
    }

    pub(super) fn handle_coordinator(&mut self, heard: Heard) {
        match heard {
            Heard::Everything => self.read_again(),
            Heard::Changes(changes) => {
                for change in changes {
                    if let Err(error) = self.records.take_change(&change) {
                        self.note(&format!("{}: {error}", change.key));
                    }
                }
            }
        }
    }

    /// Another agent has said how it is.
    pub(super) fn handle_peer(&mut self, view: &View) {
        if !self.leads() {
            return;
        }
        let now = self.now();
        self.take_report(&view.host, &view.report, now);
        for ended in &view.ended {
            if !self.leading.ended.contains(ended) {
                self.leading.ended.push_back(ended.clone());
                if self.leading.ended.len() > ENDED_MAX {
                    self.leading.ended.pop_front();
                }
                self.note(&format!("{} has ended, says {}", ended.server, view.host));
                self.take_exit(&ended.server, Some(&ended.run), now);
            }
        }
    }

    fn take_report(&mut self, voter: &str, report: &VoterReport, now: u64) {
        self.leading.belief.note(voter, report, now);
        for (group, promise) in &report.promises {
            if let Some(keeper) = self.keepers.get_mut(group) {
                keeper.handle_promise(voter, report.incarnation, promise, now);
            }
        }
    }

    /// The process of a server has ended.
    pub(super) fn take_exit(&mut self, address: &Address, run: Option<&str>, now: u64) {
        if !self.leads() {
            return;
        }
        let Some(group) = self.records.cluster.group_of(address) else { return };
        // What another agent tells may be long ago: the process may have been started anew since.
        let known = self.board.look().runs.get(address).map(|(known, _)| known.clone());
        match run {
            Some(run) if known.is_some_and(|known| known != run) => self.keeper(group, now).note_ended(run, now),
            _ => {
                self.silent.insert(address.clone(), "its process has ended".into());
                self.keeper(group, now).handle_exited(address, run, now);
            }
        }
    }

    /// Tells voters what is wanted of them, this host's own first.
    pub(super) fn tell_will(&mut self) {
        let Some(term) = self.leading.term else { return };
        let asks = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.ask()?)));
        let verdicts = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.verdict()?.clone())));
        let will = Will { term, asks: asks.collect(), verdicts: verdicts.collect() };
        self.board.lead(Some(will));
        let now = self.now();
        let given_up = self.given_up(now);
        if self.board.look().own.given_up != given_up {
            self.board.change(|board| board.own.given_up = given_up);
        }
        let report = self.board.look().voter.report(now);
        let host = self.options.host_name().to_owned();
        self.take_report(&host, &report, now);
    }

    /// Servers that do not answer and are no masters: whoever waits for an answer of theirs waits in vain. A master that is silent is
    /// waited for until another one has its place.
    fn given_up(&self, now: u64) -> BTreeSet<Address> {
        let silent = |(id, server): &(GroupId, &Server)| {
            let is_master = self.records.cluster.groups.get(id).is_some_and(|group| group.master == server.address);
            let keeper = self.keepers.get(id).filter(|keeper| keeper.had_time(now));
            !is_master && keeper.is_some_and(|keeper| keeper.fresh(&server.address, now).is_none())
        };
        self.records.cluster.servers().filter(silent).map(|(_, server)| server.address.clone()).collect()
    }

    /// Tells other agents which programs run here.
    pub(super) fn tell_of_programs(&mut self) {
        let held: BTreeSet<&Address> = self.processes.held().collect();
        let programs: BTreeMap<String, Running> = self
            .processes
            .declared()
            .map(|one| {
                let (pid, starts) = (self.processes.pid(&one.address), self.processes.starts(&one.address));
                let released = self.released.get(&one.address).copied().unwrap_or_default();
                (one.address.to_string(), Running { pid, starts, is_held: held.contains(&one.address), released })
            })
            .collect();
        if self.board.look().own.programs != programs {
            self.board.change(|board| board.own.programs = programs);
        }
    }

    /// How a program runs, on whatever host.
    #[must_use]
    pub fn running(&self, address: &Address) -> Option<Running> {
        let board = self.board.look();
        let name = address.to_string();
        let others = board.peers.values().filter_map(|peer| peer.view.programs.get(&name));
        board.own.programs.get(&name).into_iter().chain(others).next().cloned()
    }
}
