//! What a server does about replication and when, without sockets, threads and clocks: whoever has those carries it out.
//!
//! ```text
//! commands, links, replicas --handle_*--> Conductor --poll_action--> connect, take over, hand over ...
//! ```
//!
//! The contract: once each turn whoever carries out tells what happened, then asks [`Conductor::poll_action`] with the [`Situation`] as it
//! is, until there is no action left. An action is done, or has failed and was told so, before the next one is asked for: what is not
//! done is asked for again. All times are milliseconds of one clock, which may be set.

use crate::{
    failover::{Candidate, Plan, Step, Successor, TakeOver, TakeOverStep, step},
    following::{EachSecond, Following},
};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is looked at what of old data is set aside, and told whether more may come: [`Conductor::handle_files`].
    LookForFiles,
    /// It is looked at who follows the log by a name.
    LookForFollowers,
    /// The master is tried: [`Conductor::handle_linking`].
    Connect,
    /// This replica is the master from now on, and gives its former one the log.
    TakeOver,
    /// This master hands over to a replica, and follows it: [`Conductor::handle_follow`].
    HandOver {
        /// Where it serves.
        target: (String, u16),
        /// It has all of the log. If not, what it lacks is lost.
        has_all: bool,
    },
    /// No replica had all of the log in time: this master goes on.
    GiveUpFailover,
}

/// How things are.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// The log comes from a master.
    pub is_replica: bool,
    /// Where the log ends, if there is one.
    pub end: Option<oplog::Offset>,
    /// No command is under way that may write.
    pub is_quiet: bool,
    /// The master's connection is there that asked to be relieved.
    pub is_asked_to_take_over: bool,
    /// This master is to hand over and has asked nobody yet, with the replicas that are given its log.
    pub failover: Option<(Plan, Vec<Candidate>)>,
}

/// What decides.
#[derive(Debug)]
pub struct Conductor {
    following: Following,
    files: EachSecond,
    followers: EachSecond,
    taking_over: Option<TakeOver>,
}

impl Default for Conductor {
    fn default() -> Self {
        Self {
            following: Following::default(),
            files: EachSecond::begin(),
            followers: EachSecond::begin(),
            taking_over: None,
        }
    }
}

impl Conductor {
    /// What is to be done next; nothing until something happens, or time goes on.
    #[must_use]
    pub fn poll_action(&mut self, situation: &Situation, now: i64) -> Option<Action> {
        if self.files.is_due(now) {
            return Some(Action::LookForFiles);
        }
        if self.followers.is_due(now) {
            return Some(Action::LookForFollowers);
        }
        if situation.is_replica && self.following.is_due(now) {
            return Some(Action::Connect);
        }
        if let Some(taking_over) = &self.taking_over {
            let successor = Successor {
                is_asked_for: situation.is_asked_to_take_over,
                is_replica: situation.is_replica,
                is_linked: self.following.is_linked(),
                end: situation.end,
            };
            match taking_over.step(successor, now) {
                TakeOverStep::Wait => {}
                TakeOverStep::Forget => self.taking_over = None,
                TakeOverStep::TakeOver => {
                    self.taking_over = None;
                    return Some(Action::TakeOver);
                }
            }
        }
        let (plan, replicas) = situation.failover.as_ref()?;
        match step(plan, replicas, situation.end.filter(|_| situation.is_quiet), now) {
            Step::Wait => None,
            Step::HandOver { target, has_all } => Some(Action::HandOver { target, has_all }),
            Step::GiveUp => Some(Action::GiveUpFailover),
        }
    }

    /// A master is to be followed.
    pub fn handle_follow(&mut self, now: i64) {
        self.following.follow(now);
    }

    /// This server is a master.
    pub fn handle_promoted(&mut self) {
        self.following.end();
    }

    /// A link to the master is being made.
    pub fn handle_linking(&mut self) {
        self.following.handle_begun();
    }

    /// The master goes on with its log, or its copy is there.
    pub fn handle_success(&mut self) {
        self.following.handle_success();
    }

    /// The link is down for this reason. Returns whether that is to be said.
    #[must_use]
    pub fn handle_down(&mut self, reason: &str, now: i64) -> bool {
        self.following.handle_down(reason, now)
    }

    /// A command cuts the link. Returns whether there is one; it [goes down](Self::handle_down) then, and is begun again at once.
    pub fn handle_cut(&mut self, reason: &str, now: i64) -> Option<bool> {
        self.following.is_linked().then(|| {
            let is_said = self.following.handle_down(reason, now);
            self.following.handle_cut(now);
            is_said
        })
    }

    /// The master asks to be relieved, and names the next byte that it wants.
    pub fn handle_take_over(&mut self, next: Option<&[u8]>, now: i64) {
        self.taking_over = Some(TakeOver::new(next, now));
    }

    /// Whether a master waits to be relieved.
    #[must_use]
    pub fn is_taking_over(&self) -> bool {
        self.taking_over.is_some()
    }

    /// Old data was replaced just now, or old files were looked at: whether more may be set aside.
    pub fn handle_files(&mut self, may_become_more: bool) {
        if !may_become_more {
            self.files.stop();
        }
    }

    /// Old data was replaced: some of it may be set aside.
    pub fn handle_replaced(&mut self) {
        self.files.hurry();
    }
}

#[cfg(test)]
mod tests {
    use oplog::Offset;

    use super::*;

    /// A replica or a master with a conductor, which does what that says and notes when.
    struct Played {
        conductor: Conductor,
        situation: Situation,
        now: i64,
        /// Whether the master is there.
        is_master_up: bool,
        done: Vec<(i64, Action)>,
    }

    impl Played {
        fn new(is_replica: bool) -> Self {
            let situation = Situation { is_replica, end: Some(Offset(0)), is_quiet: true, ..Situation::default() };
            let mut played =
                Self { conductor: Conductor::default(), situation, now: 0, is_master_up: true, done: Vec::new() };
            if is_replica {
                played.conductor.handle_follow(0);
            }
            played
        }

        /// Turns each ten milliseconds.
        fn until(&mut self, end: i64) {
            while self.now < end {
                self.now += 10;
                while let Some(action) = self.conductor.poll_action(&self.situation, self.now) {
                    self.carry_out(&action);
                    self.done.push((self.now, action));
                }
            }
        }

        fn carry_out(&mut self, action: &Action) {
            match action {
                Action::LookForFiles => self.conductor.handle_files(false),
                Action::LookForFollowers => {}
                Action::Connect => {
                    self.conductor.handle_linking();
                    if !self.is_master_up {
                        let _ = self.conductor.handle_down("refused", self.now);
                    }
                }
                Action::TakeOver => {
                    self.conductor.handle_promoted();
                    self.situation.is_replica = false;
                }
                Action::HandOver { .. } => {
                    (self.situation.failover, self.situation.is_replica) = (None, true);
                    self.conductor.handle_follow(self.now);
                }
                Action::GiveUpFailover => self.situation.failover = None,
            }
        }

        /// When such an action was done.
        fn times(&self, is_it: impl Fn(&Action) -> bool) -> Vec<i64> {
            self.done.iter().filter(|(_, action)| is_it(action)).map(|(at, _)| *at).collect()
        }
    }

    #[test]
    fn a_replica_tries_a_master_that_is_away_each_second_and_stays_when_it_is_back() {
        let mut played = Played::new(true);
        played.is_master_up = false;
        played.until(2_500);
        played.is_master_up = true;
        played.until(20_000);
        assert_eq!(played.times(|action| *action == Action::Connect), [10, 1_010, 2_010, 3_010]);
        assert_eq!(played.conductor.handle_cut("cut", played.now), Some(true));
        played.until(20_010);
        assert_eq!(played.times(|action| *action == Action::Connect).last(), Some(&20_010));
    }

    #[test]
    fn a_master_tries_nobody_and_looks_for_followers_each_second() {
        let mut played = Played::new(false);
        played.until(3_000);
        assert_eq!(played.times(|action| *action == Action::LookForFollowers), [10, 1_010, 2_010]);
        assert_eq!(played.times(|action| *action == Action::LookForFiles), [10], "nothing is being set aside");
        assert_eq!(played.times(|action| *action == Action::Connect), [0; 0]);
        assert_eq!(played.conductor.handle_cut("cut", played.now), None);
        played.conductor.handle_replaced();
        played.until(3_010);
        assert_eq!(played.times(|action| *action == Action::LookForFiles), [10, 3_010]);
    }

    #[test]
    fn a_replica_relieves_its_master_once_it_has_all() {
        let mut played = Played::new(true);
        played.until(100);
        played.situation.is_asked_to_take_over = true;
        played.conductor.handle_take_over(Some(b"51"), played.now);
        played.until(500);
        assert!(played.conductor.is_taking_over());
        played.situation.end = Some(Offset(50));
        played.until(5_000);
        assert_eq!(played.times(|action| *action == Action::TakeOver), [510]);
        assert!(!played.conductor.is_taking_over());
        // A second master that asks finds a master.
        played.conductor.handle_take_over(Some(b"51"), played.now);
        played.until(6_000);
        assert_eq!(played.times(|action| *action == Action::TakeOver), [510]);
    }

    #[test]
    fn a_master_hands_over_when_it_is_quiet_and_follows_then() {
        let mut played = Played::new(false);
        let target = ("host".to_owned(), 7);
        let candidate = |acknowledged| Candidate { address: target.clone(), acknowledged: Offset(acknowledged) };
        played.situation.end = Some(Offset(10));
        played.situation.is_quiet = false;
        played.situation.failover = Some((Plan { deadline: Some(5_000), ..Plan::default() }, vec![candidate(10)]));
        played.until(1_000);
        played.situation.is_quiet = true;
        played.until(2_000);
        let hand_over = Action::HandOver { target: target.clone(), has_all: true };
        assert_eq!(played.times(|action| *action == hand_over), [1_010]);
        assert_eq!(played.times(|action| *action == Action::Connect), [1_010], "it follows at once");
        // Without a replica that has all, nobody hands over.
        let mut played = Played::new(false);
        played.situation.end = Some(Offset(11));
        played.situation.failover = Some((Plan { deadline: Some(5_000), ..Plan::default() }, vec![candidate(10)]));
        played.until(9_000);
        assert_eq!(played.times(|action| *action == Action::GiveUpFailover), [5_000]);
    }
}
