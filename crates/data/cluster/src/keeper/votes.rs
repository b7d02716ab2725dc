//! Since when a master cannot serve any more, whatever it thinks: a majority of voters has promised to give it no votes, and what they
//! gave before is over, or was for a process that has ended.

use std::collections::{BTreeMap, VecDeque};

use super::Keeper;
use crate::{
    ballot::{Ask, Incarnation, Promise, Verdict},
    model::{Address, Cluster, Epoch, Group},
};

/// Runs of processes that have ended which are remembered.
const ENDED_MAX: usize = 32;

/// A promise as the leader has it.
#[derive(Clone, Debug)]
struct Promised {
    incarnation: Incarnation,
    floor: Epoch,
    heard_at: u64,
    /// Votes of before: the run, and when they are over by the leader's clock.
    votes: Vec<(Option<String>, u64)>,
}

/// What voters have said about a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    by_voter: BTreeMap<String, Promised>,
    /// Runs of processes that have ended, and when that was heard.
    ended_runs: VecDeque<(String, u64)>,
    /// What was asked for last.
    pub(super) asked: Option<Ask>,
    /// For which epoch, and since when, the master cannot serve.
    pub(super) fence: Option<(Epoch, u64)>,
    /// The same for each run of its process but one: what each of those who have promised has voted for, and how many must have.
    standing: Option<(Epoch, usize, Vec<Promised>)>,
    /// Whom voters may vote for.
    pub(super) verdict: Option<Verdict>,
}

impl Promises {
    pub(super) fn take(&mut self, voter: &str, incarnation: Incarnation, promise: &Promise, now: u64) {
        if self.by_voter.get(voter).is_some_and(|known| known.floor > promise.floor && known.incarnation >= incarnation)
        {
            return;
        }
        let votes: Vec<(Option<String>, u64)> =
            promise.votes.iter().map(|one| (one.run.clone(), now + one.over_in_ms)).collect();
        let mut promised = Promised { incarnation, floor: promise.floor, heard_at: now, votes };
        if let Some(known) = self.by_voter.get(voter)
            && (known.incarnation, known.floor) == (incarnation, promise.floor)
        {
            // Said again: what was known sooner is not known later.
            promised.heard_at = known.heard_at;
            for (run, until) in &mut promised.votes {
                let sooner = known.votes.iter().filter(|(of, _)| of == run).map(|(_, until)| *until).min();
                *until = sooner.map_or(*until, |sooner| sooner.min(*until));
            }
        }
        self.by_voter.insert(voter.to_owned(), promised);
    }

    pub(super) fn note_ended(&mut self, run: &str, now: u64) {
        if self.ended_at(run).is_none() {
            self.ended_runs.push_back((run.to_owned(), now));
            if self.ended_runs.len() > ENDED_MAX {
                self.ended_runs.pop_front();
            }
        }
    }

    fn ended_at(&self, run: &str) -> Option<u64> {
        self.ended_runs.iter().find(|(ended, _)| ended == run).map(|(_, at)| *at)
    }

    /// What voters of now have promised about the next epoch.
    fn of_now(&self, cluster: &Cluster, incarnations: &BTreeMap<String, Incarnation>) -> Vec<Promised> {
        let promised = cluster.voters().into_iter().filter_map(|voter| {
            let promised = self.by_voter.get(voter)?;
            let is_of_now = promised.floor > cluster.epoch && incarnations.get(voter) == Some(&promised.incarnation);
            is_of_now.then(|| promised.clone())
        });
        promised.collect()
    }

    /// From when on no majority lets the master serve before a record of the next epoch is known; nothing if that is not sure. Votes
    /// for one run of its process may be left out.
    fn fenced_from(&self, promised: &[Promised], majority: usize, but_for: Option<&str>) -> Option<u64> {
        // NOTE: a vote for a run that has ended counted until then: replicas have got something of it after the promise.
        let over = |(run, until): &(Option<String>, u64)| {
            let ended = run.as_ref().and_then(|run| self.ended_at(run));
            ended.map_or(*until, |ended| ended.min(*until))
        };
        let is_meant = |(run, _): &&(Option<String>, u64)| but_for.is_none() || run.as_deref() != but_for;
        let of_one = |promised: &Promised| {
            promised.votes.iter().filter(is_meant).map(over).max().unwrap_or(0).max(promised.heard_at)
        };
        let mut over: Vec<u64> = promised.iter().map(of_one).collect();
        over.sort_unstable();
        over.get(majority - 1).copied()
    }

    /// A promise is still to be done with: the epoch that it is about has not come.
    pub(super) fn is_open(&self, epoch: Epoch) -> bool {
        self.asked.is_some_and(|ask| ask.floor > epoch) || self.by_voter.values().any(|one| one.floor > epoch)
    }
}

impl Keeper {
    /// A voter has told of a promise.
    pub fn handle_promise(&mut self, voter: &str, incarnation: Incarnation, promise: &Promise, now: u64) {
        self.promises.take(voter, incarnation, promise, now);
    }

    /// What voters are to promise.
    #[must_use]
    pub fn ask(&self) -> Option<Ask> {
        self.promises.asked.filter(|_| self.is_asking)
    }

    /// Whom voters may vote for; nothing if that is not known yet.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.promises.verdict.as_ref()
    }

    /// Until when the master may think that it may serve, if a record of the next epoch is written now. While leases are held it
    /// is the end of time before enough voters have promised; before that, what it would be if they promised at once.
    #[must_use]
    pub fn lease_until(&self, epoch: Epoch) -> u64 {
        match self.promises.fence {
            Some((of, until)) if of == epoch => until,
            _ if self.is_held => u64::MAX,
            _ => self.polled_at + self.patience.lease_ms + self.patience.margin_ms,
        }
    }

    /// The same for all runs of the master's process but one, whose commands wait: a pause goes with its process.
    #[must_use]
    pub fn other_leases_until(&self, epoch: Epoch, run: &str) -> u64 {
        match &self.promises.standing {
            Some((of, majority, promised)) if *of == epoch => {
                self.promises.fenced_from(promised, *majority, Some(run)).unwrap_or(u64::MAX)
            }
            _ => u64::MAX,
        }
    }

    pub(super) fn look_at_promises(&mut self, cluster: &Cluster, incarnations: &BTreeMap<String, Incarnation>) {
        let (promised, majority) = (self.promises.of_now(cluster, incarnations), cluster.majority());
        let from = self.promises.fenced_from(&promised, majority, None);
        self.promises.fence = from.map(|from| (cluster.epoch, from));
        self.promises.standing = Some((cluster.epoch, majority, promised));
    }

    /// From when on the master serves nothing, as far as is known.
    pub(super) fn fence(&self) -> Option<u64> {
        self.promises.fence.map(|(_, from)| from)
    }

    /// Whether the master serves nothing now, because its votes are over or because its commands wait for longer than they last.
    pub(super) fn is_fenced(&self, now: u64, master: &Address) -> bool {
        let paused_until = self.members.get(master).map_or(0, |member| member.paused_until);
        self.fence().is_some_and(|from| now >= from || (from <= paused_until && now < paused_until))
    }

    pub(super) fn set_ask(&mut self, is_wanted: bool, cluster: &Cluster, group: &Group) {
        self.promises.asked = match self.promises.asked {
            _ if is_wanted => Some(Ask { config_epoch: group.config_epoch, floor: cluster.epoch + 1 }),
            // What somebody may have promised is remembered until its epoch has come.
            Some(ask) if ask.floor > cluster.epoch => Some(ask),
            _ => None,
        };
        self.is_asking = is_wanted;
    }
}
