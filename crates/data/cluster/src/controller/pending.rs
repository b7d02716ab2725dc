//! What waits for a person, as the cluster's policy says. A filter between what is decided and what is to be done: what has not passed is
//! decided again until it has.
//!
//! The coordinator has a record of it, so it survives the agent and a change of the leader. Most of it could be derived anew: a master
//! that is dead is still dead. What could not: what people have said, the numbers that they say it by, and which masters were replaced
//! and which groups were added while the policy asked. So the whole record is written, by the agent that leads, when it changes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::losses::Loss;
use crate::{
    model::{Address, GroupId},
    policy::{Action, Mode, Policy},
};

/// How long an action is shown that nobody proposes any more, in milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 3_000;

/// What an action is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// What would be done.
    pub action: Action,
    /// With whom: a group, a server of it, or both.
    pub group: Option<GroupId>,
    /// A server: the master that is replaced, or what is started.
    pub server: Option<Address>,
}

/// What a person has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Open,
    Confirmed,
    Refused,
}

/// An action that waits, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalSeen<'a> {
    /// Its number, by which people confirm it.
    pub number: u64,
    /// What it is about.
    pub subject: &'a Subject,
    /// What would be done, for people.
    pub what: &'a str,
    /// `waits`, `confirmed`, `refused`, or `off`: the policy leaves it to a person.
    pub state: &'static str,
    /// When it was proposed: milliseconds since 1970.
    pub since: u64,
}

/// An action that somebody has proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Proposal {
    number: u64,
    #[serde(flatten)]
    subject: Subject,
    what: String,
    answer: Answer,
    /// When it was proposed: milliseconds since 1970.
    since: u64,
}

/// What the coordinator has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingRecord {
    pub(super) last_number: u64,
    proposals: Vec<Proposal>,
    /// Masters that were replaced and do not follow their successors yet.
    pub replaced: BTreeSet<Address>,
    /// A group that was added and has not got its share yet.
    pub grown: Option<GroupId>,
    /// What may have been lost, as far as nobody has taken note of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
}

impl PendingRecord {
    fn of(&self, subject: &Subject) -> Option<&Proposal> {
        self.proposals.iter().find(|proposal| proposal.subject == *subject)
    }

    /// The number of an action that a person has confirmed.
    #[must_use]
    pub fn confirmed(&self, subject: &Subject) -> Option<u64> {
        self.of(subject).filter(|proposal| proposal.answer == Answer::Confirmed).map(|proposal| proposal.number)
    }

    /// The same where servers are called otherwise.
    #[must_use]
    pub fn readdressed(&self, named: impl Fn(&Address) -> Address) -> Self {
        let proposals = self.proposals.iter().map(|proposal| {
            let server = proposal.subject.server.as_ref().map(&named);
            Proposal { subject: Subject { server, ..proposal.subject.clone() }, ..proposal.clone() }
        });
        let replaced = self.replaced.iter().map(&named);
        Self { proposals: proposals.collect(), replaced: replaced.collect(), ..self.clone() }
    }

    /// Servers about which an action was proposed, and not confirmed.
    pub fn unconfirmed(&self, action: Action) -> impl Iterator<Item = &Address> {
        let open = self.proposals.iter().filter(|proposal| proposal.answer != Answer::Confirmed);
        open.filter(move |proposal| proposal.subject.action == action)
            .filter_map(|proposal| proposal.subject.server.as_ref())
    }
}

/// The time, by both of an agent's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Milliseconds of the clock that decisions are made by.
    pub now: u64,
    /// Milliseconds since 1970, for people.
    pub date: u64,
}

/// Everything that waits, as the leader has it.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// What the coordinator is to have.
    pub record: PendingRecord,
    /// When each was proposed last, by its number.
    seen: BTreeMap<u64, u64>,
}

impl Pending {
    /// What another leader has left. It may take so long until all of it is proposed again.
    #[must_use]
    pub fn taken_over(record: PendingRecord, now: u64, patience_ms: u64) -> Self {
        let seen = record.proposals.iter().map(|proposal| (proposal.number, now + patience_ms)).collect();
        Self { record, seen }
    }

    /// Whether an action is done now; says also whether it is proposed for the first time.
    pub fn admits(&mut self, mode: Mode, subject: Subject, what: &str, at: Moment) -> (bool, bool) {
        match mode {
            Mode::Auto => (true, false),
            // It is shown, and cannot be confirmed: that is what `off` is.
            Mode::Off => (false, self.propose(subject, what, at).1),
            Mode::Ask => {
                let (answer, is_new) = self.propose(subject, what, at);
                (answer == Answer::Confirmed, is_new)
            }
        }
    }

    fn propose(&mut self, subject: Subject, what: &str, at: Moment) -> (Answer, bool) {
        if let Some(known) = self.record.proposals.iter_mut().find(|proposal| proposal.subject == subject) {
            let seen = self.seen.entry(known.number).or_default();
            *seen = at.now.max(*seen);
            // Another replica may be the best one by now.
            if known.what != what {
                what.clone_into(&mut known.what);
            }
            return (known.answer, false);
        }
        self.record.last_number += 1;
        let number = self.record.last_number;
        self.seen.insert(number, at.now);
        let proposal = Proposal { number, subject, what: what.to_owned(), answer: Answer::Open, since: at.date };
        self.record.proposals.push(proposal);
        (Answer::Open, true)
    }

    /// An action is done: it is proposed anew the next time.
    pub fn done(&mut self, subject: &Subject) {
        self.record.proposals.retain(|proposal| proposal.subject != *subject);
    }

    /// A group has another master.
    pub(super) fn failover_done(&mut self, group: GroupId) {
        let is_it = |subject: &Subject| subject.action == Action::Failover && subject.group == Some(group);
        self.record.proposals.retain(|proposal| !is_it(&proposal.subject));
    }

    /// Forgets what nobody proposes any more.
    pub fn forget(&mut self, now: u64) {
        let seen = &self.seen;
        let is_seen = |number: &u64| seen.get(number).is_some_and(|seen| now < seen + FORGOTTEN_AFTER_MS);
        self.record.proposals.retain(|proposal| is_seen(&proposal.number));
        let proposals = &self.record.proposals;
        self.seen.retain(|number, _| proposals.iter().any(|proposal| proposal.number == *number));
    }

    /// A person confirms or refuses an action. Says what it is.
    ///
    /// # Errors
    ///
    /// There is none of that number.
    pub fn answer(&mut self, number: u64, is_confirmed: bool) -> Result<(Subject, String), NoSuchAction> {
        let found = self.record.proposals.iter_mut().find(|proposal| proposal.number == number);
        let proposal = found.ok_or(NoSuchAction(number))?;
        proposal.answer = if is_confirmed { Answer::Confirmed } else { Answer::Refused };
        Ok((proposal.subject.clone(), proposal.what.clone()))
    }

    /// All of it.
    pub fn proposals(&self, policy: Policy) -> impl Iterator<Item = ProposalSeen<'_>> {
        self.record.proposals.iter().map(move |proposal| {
            let state = match (policy.mode(proposal.subject.action), proposal.answer) {
                (Mode::Off, _) => "off",
                (_, Answer::Open) => "waits",
                (_, Answer::Confirmed) => "confirmed",
                (_, Answer::Refused) => "refused",
            };
            let Proposal { number, subject, what, since, .. } = proposal;
            ProposalSeen { number: *number, subject, what, state, since: *since }
        })
    }
}

/// Nothing of a number waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing of number {0} waits for anybody (see `tidegate cluster action pending`)")]
pub struct NoSuchAction(u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn failover(group: GroupId) -> Subject {
        let server = Some(format!("127.0.0.1:{group}").parse().unwrap());
        Subject { action: Action::Failover, group: Some(group), server }
    }

    fn at(now: u64) -> Moment {
        Moment { now, date: 1_000_000 + now }
    }

    #[test]
    fn what_waits_is_done_when_it_is_confirmed() {
        let mut pending = Pending::default();
        assert_eq!(pending.admits(Mode::Auto, failover(1), "x", at(0)), (true, false));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", at(0)), (false, true));
        assert_eq!(pending.admits(Mode::Ask, failover(2), "y", at(5)), (false, true));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", at(9)), (false, false));
        assert_eq!(pending.answer(7, true), Err(NoSuchAction(7)));
        assert_eq!(pending.answer(1, false).unwrap(), (failover(1), "x".to_owned()));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", at(10)), (false, false));
        assert_eq!(pending.answer(1, true).unwrap().1, "x");
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", at(11)), (true, false));
        pending.done(&failover(1));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", at(12)), (false, true));
        // The master is there again: nobody proposes it any more.
        pending.forget(FORGOTTEN_AFTER_MS + 12);
        assert_eq!(pending.proposals(Policy::default()).count(), 0);
        // What is off is shown, and confirming it changes nothing.
        pending.admits(Mode::Off, failover(1), "x", at(30));
        pending.answer(4, true).unwrap();
        assert_eq!(pending.admits(Mode::Off, failover(1), "x", at(31)), (false, false));
        let shown = pending.proposals(Policy::default().with(Action::Failover, Mode::Off)).next().unwrap();
        assert_eq!((shown.state, shown.since), ("off", 1_000_030));
    }

    #[test]
    fn the_next_leader_knows_what_was_said() {
        let mut pending = Pending::default();
        pending.admits(Mode::Ask, failover(1), "x", at(0));
        pending.admits(Mode::Ask, failover(2), "y", at(0));
        pending.answer(2, true).unwrap();
        pending.record.replaced.insert("127.0.0.1:9".parse().unwrap());
        pending.record.grown = Some(3);
        let text = serde_json::to_string(&pending.record).unwrap();
        let record: PendingRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(record, pending.record);
        assert_eq!((record.confirmed(&failover(1)), record.confirmed(&failover(2))), (None, Some(2)));
        assert_eq!(record.unconfirmed(Action::Failover).count(), 1);
        // Its clock begins anew, and it may need a while to see that a master is dead.
        let mut next = Pending::taken_over(record, 0, 20_000);
        next.forget(20_000);
        assert_eq!(next.admits(Mode::Ask, failover(2), "y", at(20_000)), (true, false));
        assert_eq!(next.admits(Mode::Ask, failover(3), "z", at(20_000)), (false, true));
        assert!(next.answer(3, true).is_ok());
        next.forget(20_000 + FORGOTTEN_AFTER_MS);
        assert_eq!(next.proposals(Policy::default()).count(), 0);
        // A record of nothing, or of a version that knew less.
        assert_eq!(serde_json::from_str::<PendingRecord>("{}").unwrap(), PendingRecord::default());
    }
}
