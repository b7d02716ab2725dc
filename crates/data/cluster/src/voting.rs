//! Who lets a master serve. The agents of all hosts are voters: each says to each master again and again, for itself, that it may serve
//! for a little longer, and a master serves while a majority says so. A failover or a switch first has the voters *barred* from a
//! group: whoever has acknowledged that votes for nobody of the group while the bar is there, and has told how long its last vote may
//! count. So it is known when the master cannot have a majority any more, however far away it is and whatever it thinks.
//!
//! What keeps that safe:
//!
//! 1. A vote is for one run of one process (`InSync::run`), as the coordinator has it: a process that was started again has none of what
//!    the one before had been told, and no votes before the leader has looked at it.
//! 2. A vote counts from a moment that the *server's* clock has told, so one that lay in the socket of a stopped process is over when
//!    the process goes on. The voter counts from when it heard of that moment, which is later, with a margin for clocks that run
//!    differently. It writes that down before it sends the vote.
//! 3. A voter that was started again votes on what it reads then, bars before anything else; what it may have voted before is counted.
//! 4. Two majorities have a voter in common: voters come and go one at a time, and only when every master knows of the last change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Address, Cluster, Epoch, GroupId, InSync};

/// A bar by number: when it was put up, in the coordinator's order.
pub type BarId = u64;

/// What a voter goes by.
#[derive(Clone, Copy, Debug)]
pub struct Ballot<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Which run of a master may serve, by group.
    pub in_sync: &'a BTreeMap<GroupId, InSync>,
    /// The groups for which nobody votes.
    pub bars: &'a BTreeMap<GroupId, BarId>,
}

/// A vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Who may serve.
    pub server: Address,
    /// As the voter knows the cluster.
    pub epoch: Epoch,
    /// Which run of it.
    pub run: String,
    /// For how long.
    pub ms: u64,
}

/// What a voter says to a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The bar.
    pub bar: BarId,
    /// For how long its last vote may still count, from then on.
    pub left_ms: u64,
}

/// A voter's own book. Times are milliseconds of its clock.
#[derive(Clone, Debug)]
pub struct Voter {
    lease_ms: u64,
    margin_ms: u64,
    /// Until when a vote that it does not remember may count.
    unknown_until: u64,
    until: BTreeMap<GroupId, u64>,
    #[cfg(test)]
    pub(crate) ignores_bars: bool,
}

impl Voter {
    /// One that knows nothing of what it may have voted before.
    #[must_use]
    pub fn new(lease_ms: u64, margin_ms: u64, now: u64) -> Self {
        Self {
            lease_ms,
            margin_ms,
            unknown_until: now + lease_ms + margin_ms,
            until: BTreeMap::new(),
            #[cfg(test)]
            ignores_bars: false,
        }
    }

    /// The vote for a group's master, which has told its clock by an answer that came at `answered_at`. It counts as given.
    pub fn vote(&mut self, group: GroupId, ballot: &Ballot<'_>, answered_at: u64) -> Option<Vote> {
        let is_barred = ballot.bars.contains_key(&group);
        #[cfg(test)]
        let is_barred = is_barred && !self.ignores_bars;
        let found = ballot.cluster.groups.get(&group).filter(|_| !is_barred)?;
        let run = ballot.in_sync.get(&group)?.of(found).run?;
        let until = self.until.entry(group).or_default();
        *until = (*until).max(answered_at + self.lease_ms + self.margin_ms);
        Some(Vote { server: found.master.clone(), epoch: ballot.cluster.epoch, run, ms: self.lease_ms })
    }

    /// What is said to a bar, once it has been seen.
    #[must_use]
    pub fn promise(&self, group: GroupId, bar: BarId, now: u64) -> Promise {
        let until = self.until.get(&group).copied().unwrap_or(0).max(self.unknown_until);
        Promise { bar, left_ms: until.saturating_sub(now) }
    }
}

/// What is known of a group's bar. Times are those of whoever looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// The bar is up.
    pub is_up: bool,
    /// From when on nobody of the group can have a majority; nothing while too few voters have said anything.
    pub at: Option<u64>,
}

/// What has come of a group's bar.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    bar: Option<BarId>,
    /// Until when a voter's last vote may count.
    until: BTreeMap<String, u64>,
}

impl Tally {
    /// The bar as it is now; another one begins anew.
    pub fn handle_bar(&mut self, bar: Option<BarId>) {
        if self.bar != bar {
            *self = Self { bar, until: BTreeMap::new() };
        }
    }

    /// A voter has said something, which was seen now. What was seen first counts: it was said before.
    pub fn handle_promise(&mut self, voter: &str, promise: Promise, margin_ms: u64, now: u64) {
        if self.bar == Some(promise.bar) {
            self.until.entry(voter.to_owned()).or_insert(now + promise.left_ms + margin_ms);
        }
    }

    /// How things are.
    #[must_use]
    pub fn fence(&self, voters: &[String]) -> Fence {
        // As many votes as a majority needs hold until then; who has said nothing may vote for ever.
        let mut times: Vec<Option<u64>> = voters.iter().map(|voter| self.until.get(voter).copied()).collect();
        times.sort_unstable_by_key(|time| std::cmp::Reverse(time.unwrap_or(u64::MAX)));
        let at = times.get(voters.len() / 2).copied().flatten();
        Fence { is_up: self.bar.is_some(), at: at.filter(|_| self.bar.is_some()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::two_groups;

    fn voters() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).into()
    }

    #[test]
    fn a_majority_of_promises_says_when_nobody_serves() {
        let mut tally = Tally::default();
        assert_eq!(tally.fence(&voters()), Fence { is_up: false, at: None });
        tally.handle_bar(Some(7));
        tally.handle_promise("a", Promise { bar: 7, left_ms: 500 }, 100, 1_000);
        assert_eq!(tally.fence(&voters()), Fence { is_up: true, at: None });
        // One about another bar says nothing, nor does a second look make it later.
        tally.handle_promise("b", Promise { bar: 6, left_ms: 0 }, 100, 1_000);
        tally.handle_promise("a", Promise { bar: 7, left_ms: 500 }, 100, 9_000);
        assert_eq!(tally.fence(&voters()).at, None);
        tally.handle_promise("b", Promise { bar: 7, left_ms: 900 }, 100, 1_000);
        // The third may vote on: one is no majority.
        assert_eq!(tally.fence(&voters()).at, Some(2_000));
        tally.handle_promise("c", Promise { bar: 7, left_ms: 0 }, 0, 1_200);
        assert_eq!(tally.fence(&voters()).at, Some(1_600));
        tally.handle_bar(Some(8));
        assert_eq!(tally.fence(&voters()).at, None);
        assert_eq!(Tally::default().fence(&["a".into()]).at, None);
    }

    #[test]
    fn a_voter_votes_for_the_run_that_is_written_down_and_for_nobody_behind_a_bar() {
        let cluster = two_groups();
        let mut voter = Voter::new(1_500, 100, 0);
        let (mut in_sync, mut bars) = (BTreeMap::new(), BTreeMap::new());
        let vote = |voter: &mut Voter, in_sync: &BTreeMap<_, _>, bars: &BTreeMap<_, _>| {
            voter.vote(1, &Ballot { cluster: &cluster, in_sync, bars }, 5_000).map(|vote| vote.run)
        };
        assert_eq!(vote(&mut voter, &in_sync, &bars), None);
        let record = InSync { config_epoch: 1, members: Vec::new(), run: Some("r".into()) };
        in_sync.insert(1, record.clone());
        assert_eq!(vote(&mut voter, &in_sync, &bars).as_deref(), Some("r"));
        assert_eq!(voter.promise(1, 7, 5_100), Promise { bar: 7, left_ms: 1_500 });
        // What it does not remember may count for a while after its start.
        assert_eq!(Voter::new(1_500, 100, 0).promise(1, 7, 100).left_ms, 1_500);
        in_sync.insert(1, InSync { config_epoch: 9, ..record.clone() });
        assert_eq!(vote(&mut voter, &in_sync, &bars), None);
        in_sync.insert(1, record);
        bars.insert(1, 7);
        assert_eq!(vote(&mut voter, &in_sync, &bars), None);
    }
}
