//! What agents say to each other about who may serve: the leader asks and allows, voters promise.
//!
//! A voter gives its vote again and again to the masters of the record that it has read last. Before the leader writes a change after
//! which a master may serve less than before (another master, slots that another group has), it asks the voters for a *promise*: not
//! to vote for that master before they have read a record of the epoch `floor` or a later one, the one that the change will make.
//! A promise cannot be taken back. If nothing comes of the change, the leader writes a record that changes nothing but the epoch.
//!
//! A voter that is started anew has forgotten its promises. So each start has a number of its own in the coordinator (the version of
//! `voters/HOST`), and the change is written only if those numbers are still what they were when the promises were given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    heights::AllHeights,
    model::{Address, Cluster, Epoch, GroupId},
};

/// What tells one run of a voter from the next: the version of its record in the coordinator.
pub type Incarnation = u64;

/// A promise that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The epoch that made the group's master the master.
    pub config_epoch: Epoch,
    /// Not to vote before a record of this epoch is known.
    pub floor: Epoch,
}

/// Which process of a group's master is to be voted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The epoch that made it the master.
    pub config_epoch: Epoch,
    /// The run of its process; nothing: none is fit.
    pub run: Option<String>,
}

/// What the leader wants of voters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Will {
    /// Since when it leads.
    pub term: u64,
    /// Promises that it asks for.
    pub asks: BTreeMap<GroupId, Ask>,
    /// Whom it allows. Of a group that is not there it knows nothing yet: what was before goes on.
    pub verdicts: BTreeMap<GroupId, Verdict>,
    /// How far servers were, for voters to remember.
    #[serde(default, skip_serializing_if = "AllHeights::is_empty")]
    pub heights: AllHeights,
}

/// Votes that may still count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outstanding {
    /// For whom; nobody knows, if the voter was started anew meanwhile.
    pub server: Option<Address>,
    /// For which run of its process.
    pub run: Option<String>,
    /// In how many milliseconds they are over.
    pub over_in_ms: u64,
}

/// A promise, and what was voted before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// No vote before a record of this epoch is known.
    pub floor: Epoch,
    /// What was given before.
    pub votes: Vec<Outstanding>,
}

/// The promises of a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterReport {
    /// Which run of it.
    pub incarnation: Incarnation,
    /// The term of the leader that it listens to; it never goes back.
    #[serde(default)]
    pub term: u64,
    /// By group.
    pub promises: BTreeMap<GroupId, Promise>,
    /// How far servers were, as it remembers it.
    #[serde(default, skip_serializing_if = "AllHeights::is_empty")]
    pub heights: AllHeights,
}

/// Since when most voters listen to a leader and to none before it. Then nobody serves by what an earlier one said later.
#[derive(Clone, Debug, Default)]
pub struct Belief {
    term: u64,
    since: BTreeMap<String, (Incarnation, u64)>,
}

impl Belief {
    /// Of a leader that has just begun.
    #[must_use]
    pub fn new(term: u64) -> Self {
        Self { term, since: BTreeMap::new() }
    }

    /// A voter has said to whom it listens.
    pub fn note(&mut self, voter: &str, report: &VoterReport, now: u64) {
        let is_known = self.since.get(voter).is_some_and(|(incarnation, _)| *incarnation >= report.incarnation);
        if report.term == self.term && !is_known {
            self.since.insert(voter.to_owned(), (report.incarnation, now));
        }
    }

    /// Since when they are most; nothing while they are fewer.
    #[must_use]
    pub fn since(&self, cluster: &Cluster, incarnations: &BTreeMap<String, Incarnation>) -> Option<u64> {
        let of_now = |voter: &str| {
            let (incarnation, since) = self.since.get(voter)?;
            (incarnations.get(voter) == Some(incarnation)).then_some(*since)
        };
        let mut times: Vec<u64> = cluster.voters().into_iter().filter_map(of_now).collect();
        times.sort_unstable();
        times.get(cluster.majority() - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_believed_when_most_voters_of_now_say_so() {
        let cluster = Cluster { hosts: vec!["a".into(), "b".into(), "c".into()], ..Cluster::default() };
        let incarnations: BTreeMap<String, Incarnation> =
            [("a", 1), ("b", 2), ("c", 3)].map(|(name, number)| (name.to_owned(), number)).into();
        let report = |incarnation, term| VoterReport { incarnation, term, ..VoterReport::default() };
        let mut belief = Belief::new(7);
        belief.note("a", &report(1, 7), 10);
        belief.note("a", &report(1, 7), 20);
        belief.note("b", &report(2, 6), 30);
        assert_eq!(belief.since(&cluster, &incarnations), None);
        // One that was started anew since has forgotten whom it listened to.
        belief.note("c", &report(2, 7), 40);
        assert_eq!(belief.since(&cluster, &incarnations), None);
        belief.note("c", &report(3, 7), 50);
        assert_eq!(belief.since(&cluster, &incarnations), Some(50));
        belief.note("b", &report(2, 7), 60);
        assert_eq!(belief.since(&cluster, &incarnations), Some(50));
    }
}
