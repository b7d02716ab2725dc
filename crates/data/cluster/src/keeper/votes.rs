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
    /// Votes of before: the run, and when they are or were over by the leader's clock.
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
                let before = known.votes.iter().filter(|(of, _)| of == run).map(|(_, until)| *until).max();
                *until = before.map_or(*until, |before| before.min(*until));
            }
            // NOTE: a vote that is not spoken of any more is over by now, and counted until then: what replicas said before that time
            // is not all that they may have got.
            for (run, until) in &known.votes {
                if !promised.votes.iter().any(|(of, _)| of == run) {
                    promised.votes.push((run.clone(), (*until).min(now)));
                }
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

    /// The same, for others.
    #[must_use]
    pub fn fenced_from(&self) -> Option<u64> {
        self.fence()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ballot::Outstanding,
        change::tests::{server, two_groups},
        keeper::{Observation, Patience, Role, Situation, Step},
        model::InSync,
    };

    fn promise(votes: &[(&str, u64)]) -> Promise {
        let outstanding = |(run, over_in_ms): &(&str, u64)| {
            let run = (!run.is_empty()).then(|| (*run).to_owned());
            Outstanding { server: None, run, over_in_ms: *over_in_ms }
        };
        Promise { floor: 2, votes: votes.iter().map(outstanding).collect() }
    }

    #[test]
    fn a_vote_that_is_over_has_counted_until_then() {
        let mut cluster = two_groups();
        cluster.hosts = vec!["h".into()];
        let (incarnations, mut promises) = (BTreeMap::from([("h".to_owned(), 7)]), Promises::default());
        let mut fence = |at: u64, votes: &[(&str, u64)], but_for: Option<&str>| {
            promises.take("h", 7, &promise(votes), at);
            promises.fenced_from(&promises.of_now(&cluster, &incarnations), 1, but_for)
        };
        assert_eq!(fence(1_000, &[("r", 600), ("", 800), ("", 400)], None), Some(1_800));
        assert_eq!(fence(1_100, &[("r", 520), ("", 690), ("", 290)], None), Some(1_790), "an answer that was quicker");
        // By the voter's clock it is over a moment before.
        assert_eq!(fence(1_590, &[("", 200)], Some("")), Some(1_790));
        assert_eq!(fence(1_785, &[], None), Some(1_785));
        assert_eq!(fence(1_900, &[], None), Some(1_785), "it is not over any sooner or later when that is said again");
        assert_eq!(fence(1_950, &[], Some("r")), Some(1_785));
        // A voter that was started anew has another promise.
        promises.take("h", 8, &promise(&[]), 2_000);
        assert_eq!(promises.of_now(&cluster, &incarnations).len(), 0);
    }

    fn seen((asked_at, answered_at): (u64, u64), role: Role, offset: u64) -> Observation {
        Observation {
            asked_at,
            answered_at,
            role,
            offset,
            durable: offset,
            epoch: 1,
            counting: None,
            followers: Vec::new(),
            run: "r".into(),
            serves: true,
            pauses: Vec::new(),
            bond: None,
            histories: Vec::new(),
        }
    }

    /// A leader that hears nothing from the master: it goes on until its votes are over, and acknowledges what one replica has got.
    #[test]
    fn a_replica_that_was_asked_before_the_masters_votes_were_over_is_asked_again() {
        let mut cluster = two_groups();
        cluster.hosts = vec!["h".into()];
        let group = cluster.groups.get_mut(&1).unwrap();
        group.servers.push(server(9));
        let address = |port| Address::new("127.0.0.1", port);
        let in_sync = InSync { config_epoch: 1, members: vec![address(2), address(9)], ack: Some(1), serial: 1 };
        let incarnations = BTreeMap::from([("h".to_owned(), 7)]);
        let situation = Situation {
            cluster: &cluster,
            in_sync: &in_sync,
            incarnations: &incarnations,
            term: 1,
            believed_since: Some(0),
            heights: None,
        };
        let follows = || Role::Replica { master: address(1), is_linked: true };
        let mut keeper = Keeper::new(1, Patience::default(), 0);
        let elected = |keeper: &mut Keeper, now: u64| {
            keeper.poll_steps(now, situation).into_iter().find_map(|step| match step {
                Step::Elect { master, .. } => Some(master),
                _ => None,
            })
        };
        keeper.handle_observed(&address(1), seen((2_000, 2_010), Role::Master, 100));
        for port in [2, 9] {
            keeper.handle_observed(&address(port), seen((2_000, 2_010), follows(), 100));
        }
        assert_eq!(elected(&mut keeper, 2_020), None);
        // The master has been silent for too long; its last vote was given at 2050 and is over at 3650.
        assert_eq!(elected(&mut keeper, 3_020), None);
        keeper.handle_promise("h", 7, &promise(&[("r", 620)]), 3_030);
        keeper.handle_observed(&address(2), seen((3_200, 3_210), follows(), 101));
        keeper.handle_observed(&address(9), seen((3_640, 3_660), follows(), 109));
        assert_eq!(elected(&mut keeper, 3_660), None);
        // The voter has nothing more to say of that vote. Server 2 has got up to 135 meanwhile, and that was acknowledged.
        keeper.handle_promise("h", 7, &promise(&[]), 3_670);
        keeper.handle_observed(&address(9), seen((3_670, 3_680), follows(), 109));
        assert_eq!(elected(&mut keeper, 3_680), None);
        keeper.handle_observed(&address(2), seen((3_690, 3_700), follows(), 135));
        assert_eq!(elected(&mut keeper, 3_700), Some(address(2)));
    }
}
