//! What waits for a person, as the cluster's policy says. What that is [`cluster::controller`] decides; here it is shown, and people answer.

use std::time::{SystemTime, UNIX_EPOCH};

use cluster::{
    Address, GroupId,
    controller::{ProgramAction, ProgramSeen, pending::ProposalSeen},
    policy::{Action, Mode},
};
use serde_json::{Value, json};

use super::{Conductor, requests};
use crate::{
    board::{FRESH_MS, Running},
    error::AgentError,
};

/// Milliseconds since 1970.
pub(super) fn date_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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
        let date = date_ms();
        let shown = |proposal: ProposalSeen<'_>| {
            json!({
                "number": proposal.number,
                "action": proposal.subject.action,
                "group": proposal.subject.group,
                "server": proposal.subject.server,
                "what": proposal.what,
                "state": proposal.state,
                "since_ms": date.saturating_sub(proposal.since),
            })
        };
        self.controller.pending.proposals(self.records.cluster.policy).map(shown).collect()
    }

    /// Has the coordinator know what waits.
    fn write_pending(&mut self) -> Result<(), AgentError> {
        let record = self.controller.pending_record(&self.records.cluster);
        if record == *self.records.known().pending { Ok(()) } else { self.records.write_pending(record) }
    }

    /// Somebody takes note of what may have been lost: it is told no more. Nothing if no loss has that number.
    fn note_loss(&mut self, number: u64, is_plan: bool) -> Result<Option<String>, requests::Problem> {
        let before = self.controller.pending.record.clone();
        let Some((next, loss)) = before.without_loss(number) else { return Ok(None) };
        let what = format!("noted, and told no more: {}", loss.what);
        if !is_plan {
            self.controller.pending.record = next;
            if let Err(error) = self.write_pending() {
                self.controller.pending.record = before;
                return Err(error.into());
            }
            self.note(&what);
        }
        Ok(Some(what))
    }

    /// What an answer to what waits would do.
    pub(super) fn plan_answer(&mut self, number: u64, is_confirmed: bool) -> Result<String, requests::Problem> {
        if is_confirmed && let Some(what) = self.note_loss(number, true)? {
            return Ok(what);
        }
        let before = self.controller.pending.record.clone();
        let found = self.controller.pending.answer(number, is_confirmed);
        self.controller.pending.record = before;
        let (_, what) = found.map_err(|error| requests::Problem::NotThere(error.to_string()))?;
        Ok(format!("{}: {what}", if is_confirmed { "confirmed" } else { "refused" }))
    }

    /// Says something to what waits; it counts once it is written down.
    pub(super) fn answer_pending(&mut self, number: u64, is_confirmed: bool) -> Result<String, requests::Problem> {
        if is_confirmed && let Some(what) = self.note_loss(number, false)? {
            return Ok(what);
        }
        let before = self.controller.pending.record.clone();
        let found = self.controller.pending.answer(number, is_confirmed);
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
            self.controller.pending.record = before;
            return Err(problem);
        }
        let what = format!("{}: {what}", if is_confirmed { "confirmed" } else { "refused" });
        self.note(&what);
        Ok(what)
    }

    /// What waited for a person before the agent was started waits on: it is not started with the others.
    pub(super) fn hold_what_waits(&mut self) {
        for address in cluster::controller::Controller::programs_to_hold(self.records.known()) {
            self.processes.hold(&address);
        }
    }

    /// Lets programs of this host start again that have ended, if they may.
    pub(super) fn let_programs_start(&mut self) {
        let (held, all) = (self.processes.held().cloned().collect::<Vec<Address>>(), self.programs_seen());
        for action in self.controller.poll_programs(self.moment(), self.records.known(), (&all, &held)) {
            match action {
                ProgramAction::Start(address) => {
                    let now = self.now();
                    self.processes.release(&address, now);
                }
                ProgramAction::Note(text) => self.note(&text),
            }
        }
    }

    /// The programs of all hosts that were heard lately.
    fn programs_seen(&self) -> Vec<ProgramSeen> {
        let now = self.now();
        let board = self.board.look();
        let fresh = board.peers.values().filter(|peer| peer.heard_at + FRESH_MS >= now).map(|peer| &peer.view);
        let seen = |(address, running): (&String, &Running)| {
            let (is_held, is_running, released) = (running.is_held, running.pid.is_some(), running.released);
            Some(ProgramSeen { address: address.parse().ok()?, is_held, is_running, released })
        };
        std::iter::once(&board.own).chain(fresh).flat_map(|view| &view.programs).filter_map(seen).collect()
    }

    /// A group is about to be added. It is written down before it is there: whoever leads then gives it its share.
    pub(super) fn note_grown(&mut self, group: GroupId) -> Result<(), AgentError> {
        if self.records.cluster.policy.mode(Action::Rebalance) == Mode::Off {
            return Ok(());
        }
        self.controller.pending.record.grown = Some(group);
        self.write_pending()
    }
}
