//! What waits for a person, as the cluster's policy says. A filter between what is decided and what is done: whoever decides says it
//! again until it is done, so nothing is kept here but what people have said to it.

use std::collections::BTreeMap;

use cluster::{
    Address, GroupId,
    policy::{Action, Mode},
};
use serde_json::{Value, json};

/// How long an action is shown that nobody proposes any more, in milliseconds.
const FORGOTTEN_AFTER_MS: u64 = 3_000;

/// What an action is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// What would be done.
    pub action: Action,
    /// With whom: a group, a server of it, or both.
    pub group: Option<GroupId>,
    /// A server.
    pub server: Option<Address>,
}

/// What a person has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Open,
    Confirmed,
    Refused,
}

#[derive(Clone, Debug)]
struct Proposal {
    number: u64,
    what: String,
    answer: Answer,
    proposed_at: u64,
    seen_at: u64,
}

/// Everything that waits.
#[derive(Debug, Default)]
pub struct Pending {
    all: BTreeMap<Subject, Proposal>,
    last_number: u64,
}

impl Pending {
    /// Whether an action is done now; says also whether it is proposed for the first time.
    pub fn admits(&mut self, mode: Mode, subject: Subject, what: &str, now: u64) -> (bool, bool) {
        match mode {
            Mode::Auto => (true, false),
            // It is shown, and cannot be confirmed: that is what `off` is.
            Mode::Off => (false, self.propose(subject, what, now).1),
            Mode::Ask => {
                let (answer, is_new) = self.propose(subject, what, now);
                (answer == Answer::Confirmed, is_new)
            }
        }
    }

    fn propose(&mut self, subject: Subject, what: &str, now: u64) -> (Answer, bool) {
        if let Some(known) = self.all.get_mut(&subject) {
            known.seen_at = now;
            return (known.answer, false);
        }
        self.last_number += 1;
        let proposal = Proposal {
            number: self.last_number,
            what: what.to_owned(),
            answer: Answer::Open,
            proposed_at: now,
            seen_at: now,
        };
        self.all.insert(subject, proposal);
        (Answer::Open, true)
    }

    /// An action is done: it is proposed anew the next time.
    pub fn done(&mut self, subject: &Subject) {
        self.all.remove(subject);
    }

    /// Forgets what nobody proposes any more.
    pub fn forget(&mut self, now: u64) {
        self.all.retain(|_, proposal| now < proposal.seen_at + FORGOTTEN_AFTER_MS);
    }

    /// A person confirms or refuses an action. Says what it is.
    ///
    /// # Errors
    ///
    /// There is none of that number.
    pub fn answer(&mut self, number: u64, is_confirmed: bool) -> Result<(Subject, String), String> {
        let found = self.all.iter_mut().find(|(_, proposal)| proposal.number == number);
        let (subject, proposal) = found.ok_or_else(|| {
            format!("nothing of number {number} waits for anybody (see `tidegate cluster action pending`)")
        })?;
        proposal.answer = if is_confirmed { Answer::Confirmed } else { Answer::Refused };
        Ok((subject.clone(), proposal.what.clone()))
    }

    /// All of it.
    pub fn shown(&self, mode: impl Fn(Action) -> Mode, now: u64) -> Value {
        let shown = self.all.iter().map(|(subject, proposal)| {
            let state = match (mode(subject.action), proposal.answer) {
                (Mode::Off, _) => "off",
                (_, Answer::Open) => "waits",
                (_, Answer::Confirmed) => "confirmed",
                (_, Answer::Refused) => "refused",
            };
            json!({
                "number": proposal.number,
                "action": subject.action,
                "group": subject.group,
                "server": subject.server,
                "what": proposal.what,
                "state": state,
                "since_ms": now.saturating_sub(proposal.proposed_at),
            })
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failover(group: GroupId) -> Subject {
        Subject { action: Action::Failover, group: Some(group), server: None }
    }

    #[test]
    fn what_waits_is_done_when_it_is_confirmed() {
        let mut pending = Pending::default();
        assert_eq!(pending.admits(Mode::Auto, failover(1), "x", 0), (true, false));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", 0), (false, true));
        assert_eq!(pending.admits(Mode::Ask, failover(2), "y", 5), (false, true));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", 9), (false, false));
        assert!(pending.answer(7, true).is_err());
        assert_eq!(pending.answer(1, false).unwrap(), (failover(1), "x".to_owned()));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", 10), (false, false));
        assert_eq!(pending.answer(1, true).unwrap().1, "x");
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", 11), (true, false));
        pending.done(&failover(1));
        assert_eq!(pending.admits(Mode::Ask, failover(1), "x", 12), (false, true));
        // The master is there again: nobody proposes it any more.
        pending.forget(FORGOTTEN_AFTER_MS + 12);
        assert_eq!(pending.shown(|_| Mode::Ask, 20), json!([]));
        // What is off is shown, and confirming it changes nothing.
        pending.admits(Mode::Off, failover(1), "x", 30);
        pending.answer(4, true).unwrap();
        assert_eq!(pending.admits(Mode::Off, failover(1), "x", 31), (false, false));
        assert_eq!(pending.shown(|_| Mode::Off, 31)[0]["state"], "off");
    }
}
