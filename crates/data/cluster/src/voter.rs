//! A host's vote: which master it lets serve, and until when.
//!
//! One voter stands for a host. It believes the last record that it has read and what the leader with the highest term has said.
//! Neither the coordinator nor the leader is needed for a vote that was given before to be given again.
//!
//! Contract: `learn` and `handle_will` take what is heard; [`Voter::wants`] says for whom it would vote, [`Voter::vote`] gives a vote, which
//! counts as given from then on; [`Voter::report`] is what the leader must know. `now` is milliseconds of a clock that goes on while the
//! host sleeps.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ballot::{Ask, Incarnation, Outstanding, Promise, Verdict, VoterReport, Will},
    heights::AllHeights,
    keeper::Patience,
    model::{Address, Cluster, Epoch, Group, GroupId},
};

/// Votes that a voter remembers of a group. Older ones are put together.
const REMEMBERED_MAX: usize = 8;

/// A vote, as the master is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The record that the voter knows.
    pub epoch: Epoch,
    /// The master's own clock in microseconds, as it told it.
    pub since_us: u64,
    /// For how long after that.
    pub ms: u64,
}

/// What a master's clock said, and when that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Its clock in microseconds.
    pub clock_us: u64,
    /// When the answer came.
    pub heard_at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    server: Option<Address>,
    run: Option<String>,
    until: u64,
}

/// The vote of a host.
#[derive(Clone, Debug)]
pub struct Voter {
    patience: Patience,
    incarnation: Incarnation,
    /// Until when votes of a run before this one may count.
    forgotten_until: u64,
    cluster: Arc<Cluster>,
    will: Will,
    /// Epochs that must be known before a group's master gets a vote again.
    floors: BTreeMap<GroupId, Epoch>,
    given: BTreeMap<GroupId, Vec<Given>>,
    verdicts: BTreeMap<GroupId, Verdict>,
    heights: AllHeights,
}

impl Voter {
    /// One that remembers nothing. The run before it may have given votes for `lease_before_ms`.
    #[must_use]
    pub fn new(incarnation: Incarnation, patience: Patience, now: u64, lease_before_ms: u64) -> Self {
        Self {
            patience,
            incarnation,
            forgotten_until: now + lease_before_ms.max(patience.lease_ms) + patience.margin_ms,
            cluster: Arc::default(),
            will: Will::default(),
            floors: BTreeMap::new(),
            given: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            heights: AllHeights::default(),
        }
    }

    /// What it is to remember: how far servers were. Whoever keeps a voter writes that down from time to time, and gives it to the next one.
    #[must_use]
    pub fn heights(&self) -> &AllHeights {
        &self.heights
    }

    /// Remembers how far servers were.
    pub fn remember(&mut self, heights: &AllHeights) {
        // What is of a later master than the record's is of another cluster, or of one that was made anew.
        let cluster = &self.cluster;
        self.heights.retain(|group, known| {
            let told = heights.of(group).map(|told| told.reign);
            let present = cluster.groups.get(&group).map(Group::reign);
            told.is_none_or(|told| known.reign <= told || present.is_none_or(|present| known.reign <= present))
        });
        self.heights.take(heights);
    }

    /// Takes over a record, if it is newer.
    pub fn learn(&mut self, cluster: &Arc<Cluster>) {
        if cluster.epoch <= self.cluster.epoch {
            return;
        }
        self.cluster = Arc::clone(cluster);
        let epoch = cluster.epoch;
        self.floors.retain(|_, floor| *floor > epoch);
        self.given.retain(|group, _| cluster.groups.contains_key(group));
        self.heights.forget_gone(cluster);
    }

    /// The record that it believes.
    #[must_use]
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Somebody leads since this term, says the coordinator: leaders of before are not listened to.
    pub fn note_leader(&mut self, term: u64) {
        if term > self.will.term {
            self.will = Will { term, ..Will::default() };
        }
    }

    /// The term of the leader that it believes.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.will.term
    }

    /// What the leader wants that it believes.
    #[must_use]
    pub fn will(&self) -> &Will {
        &self.will
    }

    /// Takes what a leader wants; one of an earlier term is not listened to.
    pub fn handle_will(&mut self, will: &Will) {
        if will.term < self.will.term {
            return;
        }
        for (group, ask) in &will.asks {
            if ask.floor > self.cluster.epoch {
                let floor = self.floors.entry(*group).or_default();
                *floor = ask.floor.max(*floor);
            }
        }
        for (group, verdict) in &will.verdicts {
            self.verdicts.insert(*group, verdict.clone());
        }
        self.remember(&will.heights);
        self.will = will.clone();
    }

    /// The masters that it looks after.
    pub fn masters(&self) -> impl Iterator<Item = (GroupId, &Address)> {
        // A Redis knows no votes: it is fenced at the proxies.
        let stores = self.cluster.groups.iter().filter(|(_, group)| group.kind().is_store());
        stores.map(|(id, group)| (*id, &group.master))
    }

    /// Whether this run of a group's master would get a vote.
    #[must_use]
    pub fn wants(&self, group: GroupId, server: &Address, run: &str) -> bool {
        let Some(found) = self.cluster.groups.get(&group) else { return false };
        // Asked for again and again: the leader is not done with this master, whatever the record's epoch.
        let is_asked = self.will.asks.get(&group).is_some_and(|ask: &Ask| ask.config_epoch == found.config_epoch);
        let is_allowed = self
            .verdicts
            .get(&group)
            .is_some_and(|verdict| verdict.config_epoch == found.config_epoch && verdict.run.as_deref() == Some(run));
        found.master == *server && is_allowed && !is_asked && !self.floors.contains_key(&group)
    }

    /// Gives a vote, if the master is to have one.
    pub fn vote(&mut self, group: GroupId, server: &Address, run: &str, reading: ClockReading) -> Option<Vote> {
        if !self.wants(group, server, run) {
            return None;
        }
        let until = reading.heard_at + self.patience.lease_ms + self.patience.margin_ms;
        let given = self.given.entry(group).or_default();
        let is_it = |one: &Given| one.server.as_ref() == Some(server) && one.run.as_deref() == Some(run);
        match given.iter_mut().find(|one| is_it(one)) {
            Some(known) => known.until = known.until.max(until),
            None => given.push(Given { server: Some(server.clone()), run: Some(run.to_owned()), until }),
        }
        if given.len() > REMEMBERED_MAX {
            given.sort_by_key(|one| one.until);
            given.remove(0);
            if let Some(first) = given.first_mut() {
                // Whose it was is not known any more: it cannot be told to be void.
                (first.server, first.run) = (None, None);
            }
        }
        Some(Vote { epoch: self.cluster.epoch, since_us: reading.clock_us, ms: self.patience.lease_ms })
    }

    /// What it has promised, and how long what it gave before may count.
    #[must_use]
    pub fn report(&self, now: u64) -> VoterReport {
        let promise = |(group, floor): (&GroupId, &Epoch)| {
            let forgotten = Given { server: None, run: None, until: self.forgotten_until };
            let given = self.given.get(group).into_iter().flatten().chain([&forgotten]);
            let votes = given.filter(|one| one.until > now).map(|one| Outstanding {
                server: one.server.clone(),
                run: one.run.clone(),
                over_in_ms: one.until - now,
            });
            (*group, Promise { floor: *floor, votes: votes.collect() })
        };
        VoterReport {
            incarnation: self.incarnation,
            term: self.will.term,
            promises: self.floors.iter().map(promise).collect(),
            heights: self.heights.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::two_groups;

    fn reading(at: u64) -> ClockReading {
        ClockReading { clock_us: at * 1000, heard_at: at }
    }

    fn will(term: u64, asks: &[(GroupId, Ask)], run: &str) -> Will {
        let verdict = Verdict { config_epoch: 1, run: Some(run.to_owned()) };
        Will { term, asks: asks.iter().copied().collect(), verdicts: BTreeMap::from([(1, verdict)]), ..Will::default() }
    }

    #[test]
    fn a_promise_holds_until_the_record_that_it_is_about_is_known() {
        let cluster = Arc::new(two_groups());
        let master = cluster.groups[&1].master.clone();
        let mut voter = Voter::new(7, Patience::default(), 0, 0);
        voter.learn(&cluster);
        assert_eq!(voter.vote(1, &master, "r", reading(5_000)), None, "nobody has allowed it");
        voter.handle_will(&will(3, &[], "r"));
        assert_eq!(voter.vote(1, &master, "other", reading(5_000)), None);
        let vote = voter.vote(1, &master, "r", reading(5_000)).unwrap();
        assert_eq!(vote, Vote { epoch: 1, since_us: 5_000_000, ms: 1_500 });
        assert_eq!(voter.report(5_000).promises, BTreeMap::new());
        voter.handle_will(&will(3, &[(1, Ask { config_epoch: 1, floor: 2 })], "r"));
        // An earlier leader asks for nothing, the later one does not either: the promise stands.
        voter.handle_will(&will(2, &[], "r"));
        voter.handle_will(&will(4, &[], "r"));
        assert_eq!(voter.vote(1, &master, "r", reading(5_100)), None);
        let report = voter.report(5_600);
        assert_eq!((report.incarnation, report.promises[&1].floor), (7, 2));
        assert_eq!(report.promises[&1].votes.iter().map(|one| one.over_in_ms).collect::<Vec<_>>(), [1_000]);
        let mut next = two_groups();
        next.epoch = 2;
        voter.learn(&Arc::new(next));
        assert!(voter.vote(1, &master, "r", reading(6_000)).is_some() && voter.report(6_000).promises.is_empty());
    }

    #[test]
    fn who_starts_anew_does_not_say_that_nothing_counts() {
        let mut voter = Voter::new(1, Patience::default(), 10_000, 4_000);
        voter.learn(&Arc::new(two_groups()));
        voter.handle_will(&will(1, &[(1, Ask { config_epoch: 1, floor: 2 })], "r"));
        let votes = voter.report(10_100).promises[&1].votes.clone();
        assert_eq!(votes, [Outstanding { server: None, run: None, over_in_ms: 4_000 }]);
        assert_eq!(voter.report(14_100).promises[&1].votes, []);
    }
}
