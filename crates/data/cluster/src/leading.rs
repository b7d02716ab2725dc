//! Who of the agents leads the others: runs keepers and moves, and writes what changes.
//!
//! The coordinator's record `leader` says who, with a term that grows by one each time. Whoever leads writes under the condition that
//! this record is still its own, so at no time two can. It is no lease: an agent that leads goes on doing so, whatever becomes of the
//! coordinator, until another one has taken its place. That is tried by who has not heard from the leader for some time, if most hosts
//! have not either.

use serde::{Deserialize, Serialize};

/// The record `leader`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Who.
    pub host: String,
    /// Since when: one more than that of the leader before.
    pub term: u64,
    /// Where its REST is.
    pub api: String,
}

/// What an agent knows when it thinks of leading.
#[derive(Clone, Debug)]
pub struct Candidacy<'a> {
    /// Who it is.
    pub host: &'a str,
    /// The leader that the coordinator names.
    pub leader: Option<&'a Leader>,
    /// Whether the leader's term began by this very process.
    pub is_own_term: bool,
    /// The latest term that a store has told of. It is later than the coordinator's if that was restored from a backup: stores refuse
    /// agents of a term that is not later.
    pub told_term: u64,
    /// For how long the leader has not been heard, in milliseconds.
    pub silent_ms: u64,
    /// After how long a leader is given up.
    pub patience_ms: u64,
    /// The same, by what others have said lately: for how long each of them has not heard of the leader.
    pub others_silent_ms: &'a [u64],
    /// All hosts; none before the cluster has begun.
    pub hosts: &'a [String],
}

/// How much longer the next host in the list waits, so that not all try at once.
const STAGGER_MS: u64 = 150;

impl Candidacy<'_> {
    /// The term that it should try to begin now.
    #[must_use]
    pub fn term_to_claim(&self) -> Option<u64> {
        let Some(leader) = self.leader else { return Some(self.told_term + 1) };
        let next = leader.term.max(self.told_term) + 1;
        if leader.host == self.host {
            // What a process of before has begun goes on under a new term.
            return (!self.is_own_term || self.told_term > leader.term).then_some(next);
        }
        let place = self.hosts.iter().position(|host| host == self.host).unwrap_or(self.hosts.len()) as u64;
        if self.silent_ms < self.patience_ms + place * STAGGER_MS {
            return None;
        }
        let agree = 1 + self.others_silent_ms.iter().filter(|silent| **silent >= self.patience_ms / 2).count();
        (agree > self.hosts.len() / 2).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_followed_when_most_have_not_heard_of_it() {
        let leader = Leader { host: "a".into(), term: 4, api: String::new() };
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let try_it = |host: &str, silent_ms, others: &[u64]| {
            let candidacy = Candidacy {
                host,
                leader: Some(&leader),
                is_own_term: false,
                told_term: 0,
                silent_ms,
                patience_ms: 1_000,
                others_silent_ms: others,
                hosts: &hosts,
            };
            candidacy.term_to_claim()
        };
        assert_eq!(try_it("b", 1_149, &[1_200]), None);
        assert_eq!(try_it("b", 1_150, &[1_200]), Some(5));
        // The other one still hears it, or nobody else is there.
        assert_eq!(try_it("b", 5_000, &[100]), None);
        assert_eq!(try_it("b", 5_000, &[]), None);
        assert_eq!(try_it("c", 1_200, &[1_200]), None);
        // It was itself, before it was started anew.
        assert_eq!(try_it("a", 0, &[]), Some(5));
    }

    #[test]
    fn a_term_that_stores_refuse_is_followed_by_a_later_one() {
        let leader = Leader { host: "a".into(), term: 4, api: String::new() };
        let hosts = ["a".to_owned()];
        let claim = |told_term| {
            let candidacy = Candidacy {
                host: "a",
                leader: Some(&leader),
                is_own_term: true,
                told_term,
                silent_ms: 0,
                patience_ms: 1_000,
                others_silent_ms: &[],
                hosts: &hosts,
            };
            (candidacy.term_to_claim(), Candidacy { leader: None, ..candidacy }.term_to_claim())
        };
        assert_eq!(claim(4), (None, Some(5)));
        assert_eq!(claim(9), (Some(10), Some(10)));
    }
}
