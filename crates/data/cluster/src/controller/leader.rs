//! Whether it leads the other agents.

use super::{Controller, Record};
use crate::{
    ballot::{Belief, Will},
    leading::{Candidacy, Leader},
};

/// How often an agent thinks of leading, in milliseconds.
const STAND_EACH_MS: u64 = 100;

/// How long nobody has heard of the leader, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Silence<'a> {
    /// This agent.
    pub own_ms: u64,
    /// Others that were heard lately.
    pub others_ms: &'a [u64],
}

/// What is to be done about leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderAction {
    /// Another agent leads. All that was for leading is dropped: copies, links to servers.
    Follow,
    /// Stores know of a later term than the coordinator: it is to be read again, as whoever leads since then may have written so.
    ReadAgain,
    /// They still do: it was restored from a backup, most likely. All that was for leading is dropped, and a later term begins.
    BeginAnew,
    /// Try to begin this term; then [`Controller::handle_claimed`], if nobody was quicker.
    Claim(u64),
}

/// When it thought of leading, and what it waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    stood_at: Option<u64>,
    has_read_again: bool,
}

impl Controller {
    /// What is to be done next about leading; nothing: no more now.
    pub fn poll_leader(&mut self, now: u64, record: Record<'_>, silence: Silence<'_>) -> Option<LeaderAction> {
        if self.has_lost(record.leader) {
            self.standing.has_read_again = false;
            self.handle_lost();
            return Some(LeaderAction::Follow);
        }
        let is_refused = self.is_refused();
        let is_early = self.standing.stood_at.is_some_and(|at| now < at + STAND_EACH_MS);
        if self.term.is_some() && !is_refused || is_early || !self.may_write(now) {
            return None;
        }
        if is_refused && !std::mem::replace(&mut self.standing.has_read_again, true) {
            return Some(LeaderAction::ReadAgain);
        }
        if is_refused {
            self.standing.has_read_again = false;
            self.handle_lost();
            return Some(LeaderAction::BeginAnew);
        }
        self.standing.stood_at = Some(now);
        let candidacy = Candidacy {
            host: &self.host,
            leader: record.leader,
            is_own_term: false,
            told_term: self.told_term,
            silent_ms: silence.own_ms,
            patience_ms: self.patience.master_ms,
            others_silent_ms: silence.others_ms,
            hosts: &record.cluster.hosts,
        };
        candidacy.term_to_claim().map(LeaderAction::Claim)
    }

    /// Whether it leads and another agent does so by now.
    fn has_lost(&self, leader: Option<&Leader>) -> bool {
        self.term.is_some() && self.term != leader.map(|leader| leader.term)
    }

    /// Whether stores refuse what it says, as they have heard of a later term than the coordinator has.
    fn is_refused(&self) -> bool {
        self.term.is_some_and(|term| self.told_term > term)
    }

    /// It leads no more. What it knew of groups was for that.
    fn handle_lost(&mut self) {
        self.term = None;
        self.first = None;
        self.pending = super::Pending::default();
        self.forget_groups();
    }

    /// The term has begun, with what the record has of it. Gives what voters are told first.
    pub fn handle_claimed(&mut self, term: u64, record: Record<'_>, now: u64) -> Will {
        self.term = Some(term);
        self.belief = Belief::new(term);
        self.forget_groups();
        self.take_pending_over(record, now);
        Will { term, ..Will::default() }
    }
}
