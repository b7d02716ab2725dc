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

#[cfg(test)]
mod tests {
    use super::*;

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
