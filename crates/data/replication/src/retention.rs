//! How much of the log a master keeps for those who have not had it, and when a copy may begin.

use oplog::Offset;

/// Bytes of the log that may be behind a copy of some slots.
const BEHIND_SLOTS_MAX: u64 = 256 << 10;

/// What the log is kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention<Id> {
    /// Replicas that lack more than the bound: they are given up, and need a copy when they come again.
    pub given_up: Vec<Id>,
    /// What is behind this offset is to stay; nothing if nobody needs any of it.
    pub from: Option<Offset>,
}

/// How much of a log that ends at `end` is kept for replicas and for those who follow it by a name, each with what it has had. A bound
/// of 0 is none.
#[must_use]
pub fn retain<Id: Copy>(
    replicas: impl Iterator<Item = (Id, Offset)>,
    followers: impl Iterator<Item = Offset>,
    (end, bound): (Offset, u64),
) -> Retention<Id> {
    let mut retention = Retention { given_up: Vec::new(), from: followers.min() };
    for (id, at) in replicas {
        if is_within(at, end, bound) {
            retention.from = Some(retention.from.map_or(at, |from| from.min(at)));
        } else {
            retention.given_up.push(id);
        }
    }
    retention
}

/// Whether the log is kept for somebody who has had it up to `at`.
#[must_use]
pub fn is_within(at: Offset, end: Offset, bound: u64) -> bool {
    bound == 0 || end.0.saturating_sub(at.0) <= bound
}

/// What a replica that comes asks for, as far as it says when its copy may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedCopy {
    /// It gets no log behind the copy.
    pub is_copy_only: bool,
    /// It asks with `SYNC`: it has no offset that what it gets could be counted from.
    pub is_old: bool,
    /// It wants some slots alone: much of the log behind the copy would be about other keys.
    pub is_of_slots: bool,
}

/// Whether a copy waits until the tables have all of the log, which ends at `end` and of which they have `applied`.
#[must_use]
pub fn waits_for_tables(wanted: WantedCopy, applied: Offset, end: Offset) -> bool {
    let behind = end.0.saturating_sub(applied.0);
    (wanted.is_copy_only || wanted.is_old) && behind > 0 || wanted.is_of_slots && behind > BEHIND_SLOTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_kept_for_those_who_are_near() {
        let kept = |replicas: &[(u32, u64)], followers: &[u64], bound| {
            let replicas = replicas.iter().map(|(id, at)| (*id, Offset(*at)));
            let followers = followers.iter().copied().map(Offset);
            let retention = retain(replicas, followers, (Offset(1_000), bound));
            (retention.given_up, retention.from.map(|from| from.0))
        };
        assert_eq!(kept(&[], &[], 100), (vec![], None));
        assert_eq!(kept(&[(1, 950), (2, 900)], &[], 100), (vec![], Some(900)));
        assert_eq!(kept(&[(1, 950), (2, 899)], &[], 100), (vec![2], Some(950)));
        assert_eq!(kept(&[(1, 0)], &[], 0), (vec![], Some(0)), "there is no bound");
        assert_eq!(kept(&[(1, 0)], &[], 100), (vec![1], None));
        assert_eq!(kept(&[(1, 950)], &[920], 100), (vec![], Some(920)));
        assert_eq!(kept(&[(1, 2_000)], &[], 100), (vec![], Some(2_000)), "it is ahead, of another history");
    }

    #[test]
    fn a_copy_without_the_log_behind_it_is_of_now() {
        let any = WantedCopy::default();
        let (copy, old) = (WantedCopy { is_copy_only: true, ..any }, WantedCopy { is_old: true, ..any });
        let slots = WantedCopy { is_of_slots: true, ..any };
        let end = BEHIND_SLOTS_MAX + 10;
        for (wanted, applied, waits) in [
            (any, 0, false),
            (copy, end - 1, true),
            (copy, end, false),
            (old, end - 1, true),
            (old, end, false),
            (slots, 9, true),
            (slots, 10, false),
        ] {
            assert_eq!(waits_for_tables(wanted, Offset(applied), Offset(end)), waits, "{wanted:?} {applied}");
        }
    }
}
