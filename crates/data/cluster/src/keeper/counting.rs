//! Whose acknowledgements a master counts, so that whoever may take its place has all that was acknowledged.
//!
//! A record of those in sync says: of these members, so many (`needed`) have each acknowledged write. That holds as long as the master
//! counts in a way that *covers* the record: of those that it waits for, at least `needed` are members, whoever the others are.

use super::Observation;
use crate::model::{Address, Group, InSync};

/// How a master counts: it acknowledges what so many of these have, and listens to nobody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// So many must have a write.
    pub ack: u32,
    /// Of these.
    pub members: Vec<Address>,
}

/// What a master has last been told of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// By the leader of this term.
    pub term: u64,
    /// Which of that leader's orders it was: later ones have higher numbers.
    pub serial: u64,
    /// How it counts.
    pub count: Count,
}

impl InSync {
    /// How many of the members have each acknowledged write.
    #[must_use]
    pub fn needed(&self, group: &Group) -> usize {
        // NOTE: not the group's number alone: when that was raised, what was acknowledged before has fewer.
        self.ack.unwrap_or(group.ack).min(u32::try_from(self.members.len()).unwrap_or(u32::MAX)) as usize
    }

    /// Whether what holds for these members holds for those of `next`, too, however a master counts that covers these.
    pub(super) fn implies(&self, next: &Self, group: &Group) -> bool {
        let gone = self.members.iter().filter(|member| !next.members.contains(member)).count();
        self.needed(group).saturating_sub(gone) >= next.needed(group)
    }
}

impl Count {
    /// Whether all that is acknowledged by this count is on as many members as the record says.
    #[must_use]
    pub fn covers(&self, record: &InSync, group: &Group) -> bool {
        let needed = record.needed(group);
        needed == 0 || self.ack as usize >= needed + self.others(record)
    }

    fn others(&self, record: &InSync) -> usize {
        self.members.iter().filter(|member| !record.members.contains(member)).count()
    }

    /// One that covers all of these records, whichever of them is there: it waits for those who are in all of them if they are enough,
    /// else for more of all.
    pub(super) fn covering(records: &[&InSync], group: &Group) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let least = if group.is_strict { group.ack } else { 0 };
        let mut all: Vec<Address> = records.iter().flat_map(|record| record.members.iter().cloned()).collect();
        all.sort();
        all.dedup();
        let is_common = |member: &&Address| records.iter().all(|record| record.members.contains(member));
        let common: Vec<Address> = all.iter().filter(is_common).cloned().collect();
        let needed = records.iter().map(|record| record.needed(group)).max().unwrap_or(0);
        let ack = number(needed).max(least);
        if common.len() >= ack as usize {
            return Self { ack, members: common };
        }
        let of_all = Self { ack, members: all };
        let ack_for = |record: &&InSync| match record.needed(group) {
            0 => 0,
            needed => number(needed + of_all.others(record)),
        };
        let ack = records.iter().map(ack_for).max().unwrap_or(0).max(ack);
        Self { ack, ..of_all }
    }
}

/// The order that a master was given last.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    pub(super) serial: u64,
    pub(super) count: Count,
    /// For this run of its process.
    run: String,
}

impl Ordered {
    /// The next one, if it says something else. Numbers grow beyond a keeper's life: a later one of the same term begins later.
    pub(super) fn follow(last: Option<&Self>, count: Count, run: &str, now: u64) -> Self {
        match last {
            Some(last) if last.count == count && last.run == run => last.clone(),
            last => Self { serial: last.map_or(now, |last| now.max(last.serial + 1)), count, run: run.to_owned() },
        }
    }

    /// Whether a master obeys this one, and will obey none of before any more.
    pub(super) fn is_obeyed(&self, seen: &Observation, term: u64) -> bool {
        let told = seen.counting.as_ref();
        seen.run == self.run && told.is_some_and(|told| (told.term, told.serial) == (term, self.serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::tests::two_groups;

    fn group(ack: u32, is_strict: bool) -> Group {
        Group { ack, is_strict, ..two_groups().groups[&1].clone() }
    }

    fn record(names: &str, group: &Group) -> InSync {
        let members: Vec<Address> = names.chars().map(|name| Address::new(name.to_string(), 1)).collect();
        let ack = Some(group.ack.min(members.len() as u32));
        InSync { members, ack, ..InSync::default() }
    }

    fn counted(ack: u32, is_strict: bool, records: &[&str]) -> String {
        let group = group(ack, is_strict);
        let records: Vec<InSync> = records.iter().map(|names| record(names, &group)).collect();
        let records: Vec<&InSync> = records.iter().collect();
        let count = Count::covering(&records, &group);
        assert!(records.iter().all(|record| count.covers(record, &group)), "{count:?} {records:?}");
        let names: String = count.members.iter().map(Address::host).collect();
        format!("{} of '{names}'", count.ack)
    }

    #[test]
    fn a_count_covers_each_record_that_there_may_be() {
        for (ack, is_strict, records, expected) in [
            (1, false, &[""][..], "0 of ''"),
            (1, false, &["a"], "1 of 'a'"),
            (1, false, &["ab"], "1 of 'ab'"),
            // It joins: alone it is waited for before it counts as in sync, beside others after that.
            (1, false, &["", "a"], "1 of 'a'"),
            (1, false, &["a", "ab"], "1 of 'a'"),
            (2, false, &["a", "ab"], "2 of 'ab'"),
            // It leaves.
            (1, false, &["a", ""], "1 of 'a'"),
            (1, false, &["ab", "a"], "1 of 'a'"),
            (1, false, &["ab", ""], "1 of 'ab'"),
            (2, false, &["ab", "a"], "2 of 'ab'"),
            (2, false, &["abc", "ab"], "2 of 'ab'"),
            (2, false, &["abc", "a"], "3 of 'abc'"),
            // Nobody knows which of three it is.
            (1, false, &["ab", "a", "b"], "2 of 'ab'"),
            (0, false, &["ab", "a"], "0 of 'a'"),
            // With fewer than the group's number, nothing is acknowledged.
            (1, true, &[""], "1 of ''"),
            (2, true, &["a"], "2 of 'a'"),
            (2, true, &["ab", "a"], "2 of 'ab'"),
        ] {
            assert_eq!(counted(ack, is_strict, records), expected, "{ack} {is_strict} {records:?}");
        }
    }

    #[test]
    fn some_records_follow_from_others() {
        for (ack, from, to, expected) in [
            (1, "a", "", true),
            (1, "ab", "a", false),
            (1, "a", "ab", true),
            (1, "", "a", false),
            (2, "ab", "a", true),
            (2, "abc", "ab", false),
            (1, "a", "b", false),
        ] {
            let group = group(ack, false);
            assert_eq!(record(from, &group).implies(&record(to, &group), &group), expected, "{ack} {from} {to}");
        }
        // The group's number was raised: what was acknowledged before is on fewer.
        let (one, two) = (group(1, false), group(2, false));
        assert!(!record("ab", &one).implies(&record("ab", &two), &two));
        assert!(record("ab", &two).implies(&record("ab", &one), &one));
    }
}
