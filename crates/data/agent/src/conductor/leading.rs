//! Who leads, and what the leader tells voters and hears from other agents.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{
    Address,
    controller::{Exit, LeaderAction, Silence},
    leading::Leader,
};

use coord::CoordError;

use super::Conductor;
use crate::{
    board::{Ended, Running, View},
    error::AgentError,
    watching::Heard,
};

/// After so long, in milliseconds, an agent says itself how the cluster is instead of passing that on to the leader.
const LEADER_GONE_MS: u64 = 1_500;

impl Conductor {
    /// Whether this agent leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.controller.term().is_some()
    }

    /// Whether the leader has not been heard for so long that nobody waits for its answer.
    pub(super) fn is_leader_gone(&self) -> bool {
        let now = self.now();
        !self.leads() && now >= self.board.look().leader_heard_at + LEADER_GONE_MS
    }

    /// Begins to lead if nobody does, and stops if somebody else does.
    pub(super) fn stand_for_leader(&mut self) {
        loop {
            let now = self.now();
            let others_ms = self.board.others_silent_ms();
            let heard_at = self.board.look().leader_heard_at;
            let silence = Silence { own_ms: now.saturating_sub(heard_at), others_ms: &others_ms };
            let Some(action) = self.controller.poll_leader(now, self.records.known(), silence) else { return };
            match action {
                LeaderAction::Follow => {
                    let leader = self.records.leader().map(|leader| leader.host.clone()).unwrap_or_default();
                    self.note(&format!("this agent leads no more: {leader} does"));
                    self.forget_what_was_led();
                }
                LeaderAction::ReadAgain => self.read_again(),
                LeaderAction::BeginAnew => {
                    self.note(
                        "stores know of a later term than the coordinator: it was restored from a backup, most likely",
                    );
                    self.forget_what_was_led();
                }
                LeaderAction::Claim(term) => self.claim(term),
            }
        }
    }

    fn claim(&mut self, term: u64) {
        let host = self.options.host_name().to_owned();
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
        let now = self.now();
        let will = self.controller.handle_claimed(term, self.records.known(), now);
        if let Some(mover) = &self.mover {
            mover.lead(term);
        }
        self.links.clear();
        self.board.lead(Some(will));
    }

    /// All that was for leading goes.
    fn forget_what_was_led(&mut self) {
        self.links.clear();
        self.silent.clear();
        self.copies.clear();
        let now = self.now();
        self.board.change(|board| board.leader_heard_at = now);
        self.board.lead(None);
    }

    /// Something was not written. Who was too slow reads again; what a coordinator that does not answer has done is heard later.
    pub(super) fn not_written(&mut self, error: &AgentError) {
        match error {
            AgentError::Coordinator(CoordError::Unavailable { .. }) => {
                let now = self.now();
                self.controller.handle_unavailable(now);
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
                if let Err(error) = self.records.look_at(&changes) {
                    self.note(&error.to_string());
                    return;
                }
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
        self.controller.handle_report(&view.host, &view.report, now);
        for Ended { server, run } in &view.ended {
            let known = self.known_run(server);
            let exit = Exit { server, run: Some(run), known: known.as_deref() };
            let Some(is_of_now) = self.controller.handle_told_exit(&self.records.cluster, exit, now) else { continue };
            self.note(&format!("{server} has ended, says {}", view.host));
            if is_of_now {
                self.silent.insert(server.clone(), "its process has ended".into());
            }
        }
    }

    /// The process of a server of this host has ended.
    pub(super) fn take_exit(&mut self, server: &Address, run: Option<&str>, now: u64) {
        let known = self.known_run(server);
        let exit = Exit { server, run, known: known.as_deref() };
        if self.controller.handle_exit(&self.records.cluster, exit, now) {
            self.silent.insert(server.clone(), "its process has ended".into());
        }
    }

    /// The run of a master's process as this host's voter has heard it last.
    fn known_run(&self, server: &Address) -> Option<String> {
        self.board.look().runs.get(server).map(|(run, _)| run.clone())
    }

    /// Tells voters what is wanted of them, this host's own first.
    pub(super) fn tell_will(&mut self) {
        let Some(will) = self.controller.will() else { return };
        self.board.lead(Some(will));
        let now = self.now();
        let given_up = self.controller.given_up(&self.records.cluster, now);
        if self.board.look().own.given_up != given_up {
            self.board.change(|board| board.own.given_up = given_up);
        }
        let report = self.board.look().voter.report(now);
        self.controller.handle_report(self.options.host_name(), &report, now);
    }

    /// Tells other agents which programs run here.
    pub(super) fn tell_of_programs(&mut self) {
        let held: BTreeSet<&Address> = self.processes.held().collect();
        let programs: BTreeMap<String, Running> = self
            .processes
            .declared()
            .map(|one| {
                let (pid, starts) = (self.processes.pid(&one.address), self.processes.starts(&one.address));
                let released = self.controller.released(&one.address);
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
