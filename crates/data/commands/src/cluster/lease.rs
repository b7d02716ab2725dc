//! Until when a node may serve: a majority of its cluster's voters says so again and again, each for itself. So neither the death of
//! one of them nor an outage of the coordinator stops a master, and one that is cut off from most of them stops by itself.

use std::collections::BTreeMap;

use super::{Membership, MembershipError};

/// What one voter lets a node do, on the node's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote<'a> {
    /// Who.
    pub voter: &'a str,
    /// The change of the cluster that the voter knows of.
    pub epoch: u64,
    /// The run of the process that is meant: another one has other settings, and knows no lease of before.
    pub run: &'a str,
    /// Until when, in microseconds of the stopwatch.
    pub until: u64,
}

/// The votes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// Whose votes count; nobody: one is enough, whoever gives it.
    voters: Vec<String>,
    given: BTreeMap<String, u64>,
}

impl Votes {
    /// Until when a majority lets the node serve.
    fn until(&self) -> u64 {
        let mut times: Vec<u64> = self.voters.iter().map(|voter| self.given.get(voter).copied().unwrap_or(0)).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times.get(self.voters.len() / 2).copied().unwrap_or(0)
    }
}

impl Membership {
    /// Takes over whose votes count. What others have given does not count any more.
    pub fn set_voters(&mut self, voters: Vec<String>) {
        self.votes.given.retain(|voter, _| voters.contains(voter));
        self.votes.voters = voters;
        self.lease = Some(self.votes.until());
    }

    /// Forgets all votes: they were for another time as a master.
    pub(super) fn forget_votes(&mut self) {
        if !self.votes.voters.is_empty() {
            self.votes.given.clear();
            self.lease = Some(0);
        }
    }

    /// Takes a vote.
    ///
    /// # Errors
    ///
    /// It is about another time or another run, or its voter is none.
    pub fn take_vote(&mut self, vote: Vote<'_>, run: &str) -> Result<(), MembershipError> {
        if vote.run != run {
            return Err(MembershipError::OtherRun { run: run.to_owned() });
        }
        if vote.epoch > self.epoch || vote.epoch < self.master_since() {
            return Err(MembershipError::Stale { known: self.epoch, told: vote.epoch });
        }
        if !self.votes.voters.iter().any(|voter| voter == vote.voter) {
            return Err(MembershipError::NoVoter(vote.voter.to_owned()));
        }
        let given = self.votes.given.entry(vote.voter.to_owned()).or_default();
        *given = vote.until.max(*given);
        self.lease = Some(self.votes.until());
        Ok(())
    }

    /// The change of the cluster that made this node a master; none that it knows of if it is not.
    pub(crate) fn master_since(&self) -> u64 {
        let mine = self.topology.as_ref().and_then(|topology| {
            let place = topology.myself?;
            (topology.master_of(place) == place).then(|| topology.nodes.get(place))?
        });
        mine.map_or(u64::MAX, |node| node.config_epoch)
    }

    /// Somebody leads the cluster's agents since this term; what those before have to say is refused from now on.
    ///
    /// # Errors
    ///
    /// A later one is known.
    pub fn take_term(&mut self, term: u64) -> Result<(), MembershipError> {
        if term < self.term {
            return Err(MembershipError::StaleTerm { known: self.term, told: term });
        }
        self.term = term;
        Ok(())
    }

    /// Whether whoever has this term must not steer the node any more.
    #[must_use]
    pub fn refuses_term(&self, term: Option<u64>) -> Option<MembershipError> {
        let told = term.filter(|term| *term < self.term)?;
        Some(MembershipError::StaleTerm { known: self.term, told })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a 127.0.0.1:1@2 myself,master - 0 0 3 connected 0-16383\n";

    fn vote(voter: &str, until: u64) -> Vote<'_> {
        Vote { voter, epoch: 5, run: "r", until }
    }

    fn node(voters: &[&str]) -> Membership {
        let mut node = Membership::default();
        node.learn(5, TEXT, None).unwrap();
        node.set_voters(voters.iter().map(|voter| (*voter).to_owned()).collect());
        node
    }

    #[test]
    fn a_majority_counts() {
        let mut node = node(&["x", "y", "z"]);
        assert!(!node.may_serve(0));
        node.take_vote(vote("x", 100), "r").unwrap();
        assert!(!node.may_serve(0));
        node.take_vote(vote("z", 50), "r").unwrap();
        assert!(node.may_serve(49) && !node.may_serve(50));
        node.take_vote(vote("y", 80), "r").unwrap();
        assert!(node.may_serve(79) && !node.may_serve(80));
        // An older vote takes nothing away.
        node.take_vote(vote("y", 10), "r").unwrap();
        assert!(node.may_serve(79));
        // Those who are no voters any more do not count.
        node.set_voters(vec!["x".into(), "w".into()]);
        assert!(!node.may_serve(0));
    }

    #[test]
    fn votes_of_another_time_are_refused() {
        let mut node = node(&["x"]);
        for (wrong, expected) in [
            (Vote { epoch: 6, ..vote("x", 9) }, "STALEEPOCH"),
            (Vote { epoch: 2, ..vote("x", 9) }, "STALEEPOCH"),
            (Vote { run: "another", ..vote("x", 9) }, "STALERUN"),
            (vote("w", 9), "ERR 'w' is no voter"),
        ] {
            let error = node.take_vote(wrong, "r").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        node.take_vote(Vote { epoch: 3, ..vote("x", 9) }, "r").unwrap();
        assert!(node.may_serve(8));
        // The same node, the master anew: it is voted for anew.
        node.learn(6, &TEXT.replace("0 0 3", "0 0 6"), None).unwrap();
        assert!(!node.may_serve(8));
        // No master, no votes.
        let replica = TEXT.replace("myself,master - ", "myself,slave b ").replace(" 0-16383", "");
        node.learn(7, &format!("{replica}b 127.0.0.1:3@4 master - 0 0 7 connected 0-16383\n"), None).unwrap();
        assert!(node.take_vote(Vote { epoch: 7, ..vote("x", 9) }, "r").is_err());
    }

    #[test]
    fn who_led_before_steers_no_more() {
        let mut node = node(&["x"]);
        node.take_term(4).unwrap();
        assert!(node.refuses_term(None).is_none() && node.refuses_term(Some(4)).is_none());
        node.take_term(7).unwrap();
        assert!(node.refuses_term(Some(4)).unwrap().to_string().starts_with("STALETERM"));
        assert!(node.take_term(6).is_err());
    }
}
