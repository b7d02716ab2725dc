//! Sessions whose replies wait until the log is safe up to an offset.
//!
//! Clients may have been promised different numbers of replicas, so there is a queue for each number. Offsets of a queue are in
//! order. A session is in several queues if it has changed its mind: whoever owns the sockets counts how often it is held.

use std::collections::{BTreeMap, VecDeque};

use commands::SessionId;
use oplog::Offset;

/// Those of a turn, and what they wait for.
type Turn = (Offset, Vec<SessionId>);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct HeldReplies {
    /// By the number of replicas that is waited for.
    queues: BTreeMap<usize, VecDeque<Turn>>,
}

impl HeldReplies {
    /// Whether nobody waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// A session waits until so many replicas have the log up to an offset.
    pub(crate) fn add(&mut self, replicas: usize, offset: Offset, session: SessionId) {
        let queue = self.queues.entry(replicas).or_default();
        match queue.back_mut() {
            Some((last, sessions)) if *last == offset => sessions.push(session),
            _ => queue.push_back((offset, vec![session])),
        }
    }

    /// Takes out those who need not wait any more, once for each turn that they were held in; `safe` says up to where the log is for
    /// so many replicas.
    pub(crate) fn take_released(&mut self, safe: impl Fn(usize) -> Offset) -> Vec<SessionId> {
        let mut released = Vec::new();
        for (replicas, queue) in &mut self.queues {
            let safe = safe(*replicas);
            while queue.front().is_some_and(|(offset, _)| *offset <= safe) {
                let Some((_, mut sessions)) = queue.pop_front() else { break };
                released.append(&mut sessions);
            }
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        released
    }

    /// Takes out all others.
    pub(crate) fn take_unreleased(&mut self, safe: impl Fn(usize) -> Offset) -> Vec<SessionId> {
        let mut unreleased = Vec::new();
        for (replicas, queue) in &mut self.queues {
            let safe = safe(*replicas);
            let kept = queue.partition_point(|(offset, _)| *offset <= safe);
            unreleased.extend(queue.split_off(kept).into_iter().flat_map(|(_, sessions)| sessions));
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        unreleased
    }

    /// Whether a session's replies wait.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.queues.values().flatten().any(|(_, sessions)| sessions.contains(&session))
    }

    /// Nobody has to wait any more.
    pub(crate) fn let_all_go(&mut self) {
        self.queues.values_mut().flatten().for_each(|(offset, _)| *offset = Offset(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waits_for_as_many_as_it_was_promised() {
        let (one, two, three) = (SessionId(1), SessionId(2), SessionId(3));
        let mut held = HeldReplies::default();
        held.add(1, Offset(10), one);
        held.add(2, Offset(10), two);
        held.add(1, Offset(20), three);
        let safe = |replicas| if replicas == 1 { Offset(15) } else { Offset(5) };
        assert_eq!(held.take_released(safe), [one]);
        assert!(held.take_released(safe).is_empty());
        assert_eq!(held.take_unreleased(|replicas| if replicas == 2 { Offset(10) } else { Offset(5) }), [three]);
        held.let_all_go();
        assert_eq!(held.take_released(safe), [two]);
        assert!(held.is_empty());
    }
}
