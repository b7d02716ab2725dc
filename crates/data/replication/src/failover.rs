//! A master hands over to one of its replicas (`FAILOVER`): when it does, and to whom.
//!
//! ```text
//! the master takes no writes --> a replica has all of the log --> the master asks it: PSYNC <history> <offset> FAILOVER
//!            |                                                     and is its replica from then on
//!            `--> time is over: with FORCE it is asked all the same, else the master takes writes again
//! ```

use oplog::Offset;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Who is to be the master; nothing if any replica may.
    pub target: Option<(String, u16)>,
    /// Until when a replica is waited for; nothing if for as long as it takes.
    pub deadline: Option<i64>,
    /// The target becomes the master then, whatever it lacks.
    pub is_forced: bool,
}

/// A replica that is given the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it serves.
    pub address: (String, u16),
    /// What it has of the log.
    pub acknowledged: Offset,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Wait,
    /// This replica is to be the master.
    HandOver {
        /// Where it serves.
        target: (String, u16),
        /// It has all of the log. If not, what it lacks is lost.
        has_all: bool,
    },
    /// No replica was there in time.
    GiveUp,
}

/// What is to be done now, where the log ends at `end`: nothing as long as commands are under way that may write.
#[must_use]
pub fn step(plan: &Plan, replicas: &[Candidate], end: Option<Offset>, now: i64) -> Step {
    let may_be = |replica: &&Candidate| plan.target.as_ref().is_none_or(|target| *target == replica.address);
    let has_all = |replica: &&Candidate| end.is_some_and(|end| replica.acknowledged >= end);
    if let Some(replica) = replicas.iter().filter(may_be).find(has_all) {
        return Step::HandOver { target: replica.address.clone(), has_all: true };
    }
    match &plan.target {
        _ if plan.deadline.is_none_or(|deadline| now < deadline) => Step::Wait,
        Some(target) if plan.is_forced => Step::HandOver { target: target.clone(), has_all: false },
        _ => Step::GiveUp,
    }
}

/// How long a replica that takes over waits for what its master has sent and it has not applied, in milliseconds.
const REST_MS: i64 = 2000;

/// A replica that takes over as soon as it has applied what its master has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeOver {
    /// What the master has; nothing if it does not say.
    offset: Option<Offset>,
    deadline: i64,
}

/// What becomes of a master's wish to be relieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOverStep {
    /// Whoever asked has gone, or has been told before. Who has gone asks again.
    Forget,
    /// What the master has sent is still being applied.
    Wait,
    /// This replica is the master from now on.
    TakeOver,
}

/// How a replica is that is to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    /// The master's connection, by which it asked, is still there.
    pub is_asked_for: bool,
    /// It is a replica.
    pub is_replica: bool,
    /// The link to the master is there, by which more may come.
    pub is_linked: bool,
    /// Where its log ends.
    pub end: Option<Offset>,
}

impl TakeOver {
    /// As a master asks for it, which names the next byte that it wants.
    #[must_use]
    pub fn new(next: Option<&[u8]>, now: i64) -> Self {
        let offset = next.and_then(resp::parse_integer).and_then(|next| u64::try_from(next.checked_sub(1)?).ok());
        Self { offset: offset.map(Offset), deadline: now.saturating_add(REST_MS) }
    }

    /// What is to be done now.
    #[must_use]
    pub fn step(&self, successor: Successor, now: i64) -> TakeOverStep {
        if !successor.is_asked_for || !successor.is_replica {
            return TakeOverStep::Forget;
        }
        let has_all = self.offset.zip(successor.end).is_none_or(|(offset, end)| end >= offset);
        if !has_all && successor.is_linked && now < self.deadline { TakeOverStep::Wait } else { TakeOverStep::TakeOver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_takes_over_when_it_has_all_that_its_master_sent() {
        let take_over = TakeOver::new(Some(b"101"), 0);
        let ready = Successor { is_asked_for: true, is_replica: true, is_linked: true, end: Some(Offset(100)) };
        let lacks = Successor { end: Some(Offset(99)), ..ready };
        for (successor, now, expected) in [
            (ready, 0, TakeOverStep::TakeOver),
            (lacks, 0, TakeOverStep::Wait),
            (lacks, REST_MS - 1, TakeOverStep::Wait),
            (lacks, REST_MS, TakeOverStep::TakeOver),
            // Nothing more comes.
            (Successor { is_linked: false, ..lacks }, 0, TakeOverStep::TakeOver),
            (Successor { is_asked_for: false, ..ready }, 0, TakeOverStep::Forget),
            (Successor { is_replica: false, ..ready }, 0, TakeOverStep::Forget),
        ] {
            assert_eq!(take_over.step(successor, now), expected, "{successor:?} {now}");
        }
        assert_eq!(TakeOver::new(None, 0).step(lacks, 0), TakeOverStep::TakeOver, "it does not say what it has");
        assert_eq!(TakeOver::new(Some(b"0"), 0).step(lacks, 0), TakeOverStep::TakeOver);
    }

    fn replica(port: u16, acknowledged: u64) -> Candidate {
        Candidate { address: ("host".into(), port), acknowledged: Offset(acknowledged) }
    }

    fn to(port: u16, has_all: bool) -> Step {
        Step::HandOver { target: ("host".into(), port), has_all }
    }

    #[test]
    fn a_replica_is_the_next_master_that_has_all_or_that_is_forced() {
        let any = |deadline| Plan { deadline, ..Plan::default() };
        let plan = |port, deadline, is_forced| Plan { target: Some(("host".into(), port)), deadline, is_forced };
        let replicas = [replica(1, 90), replica(2, 100)];
        for (plan, end, now, expected) in [
            (any(None), Some(100), 0, to(2, true)),
            (any(None), None, 0, Step::Wait),
            (any(None), Some(101), 1_000_000, Step::Wait),
            (any(Some(10)), Some(101), 9, Step::Wait),
            (any(Some(10)), Some(101), 10, Step::GiveUp),
            (any(Some(10)), Some(100), 10, to(2, true)),
            (plan(1, None, false), Some(100), 0, Step::Wait),
            (plan(1, None, false), Some(90), 0, to(1, true)),
            (plan(1, Some(10), false), Some(100), 10, Step::GiveUp),
            (plan(1, Some(10), true), Some(100), 9, Step::Wait),
            (plan(1, Some(10), true), Some(100), 10, to(1, false)),
            (plan(1, Some(10), true), None, 10, to(1, false)),
            (plan(3, Some(10), true), Some(100), 10, to(3, false)),
        ] {
            assert_eq!(step(&plan, &replicas, end.map(Offset), now), expected, "{plan:?} {end:?} {now}");
        }
    }
}
