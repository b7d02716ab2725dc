//! Where a cluster's record comes from: whether one goes on from another one, is of before it, or has another history.
//!
//! Numbers do not tell: a coordinator that was restored from a backup goes on from there, and reaches the number of what was lost. So each
//! change of the record (the cluster itself, who is in sync, who leads) has a number, one more than the change before it, and a mark of
//! chance. The marks of the last changes are remembered, and of those before them fewer and fewer, so that the first one is never
//! forgotten. A record goes on from another one if it has the mark of the other one's last change. Where that is not remembered any more,
//! the last number counts that both remember.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{GroupId, InSync};

/// The number of a change; 0 is before the first.
pub type ChangeNumber = u64;

/// Of the last so many changes each is remembered; of so many times [`STEP`] before them every `STEP`-th, and so on.
const REMEMBERED: u64 = 64;
/// How much sparser older changes are remembered.
const STEP: u64 = 16;
/// Rescues that are remembered.
const RESCUES_MAX: usize = 32;

/// A change by which a record can be told from all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its number.
    pub number: ChangeNumber,
    /// Its mark.
    pub mark: String,
}

/// A rescue, as the record that came of it remembers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescued {
    /// The change that it was.
    pub head: Head,
    /// What it was made of.
    pub base: Head,
    /// The records of the hosts that were there.
    pub seen: Vec<Head>,
    /// The hosts that were there.
    pub hosts: Vec<String>,
    /// Those that had votes.
    pub voters: Vec<String>,
    /// Most of those were there.
    pub has_majority: bool,
    /// Who was in sync, by what it was made of.
    #[serde(default)]
    pub in_sync: BTreeMap<GroupId, InSync>,
}

/// The changes behind a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// How many there have been.
    pub number: ChangeNumber,
    marks: BTreeMap<ChangeNumber, String>,
    /// The mark of the change that made the epoch.
    #[serde(default)]
    pub epoch_mark: String,
    /// Rescues among them.
    #[serde(default)]
    pub rescues: Vec<Rescued>,
}

/// How a record stands to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is the same.
    Same,
    /// It goes on from the other one.
    Continues,
    /// The other one goes on from it.
    Behind,
    /// Both go on from that change, each in its own way.
    Forked {
        /// The last one that both know.
        after: ChangeNumber,
    },
    /// One of them was written before there were histories.
    Unknown,
}

impl History {
    /// The last change.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { number: self.number, mark: self.marks.get(&self.number).cloned().unwrap_or_default() }
    }

    /// One change later. `mark` is chance that nobody else has; `makes_epoch`: the cluster itself has changed.
    #[must_use]
    pub fn next(&self, mark: &str, makes_epoch: bool) -> Self {
        let mut next = self.clone();
        next.number += 1;
        next.marks.insert(next.number, mark.to_owned());
        let last = next.number;
        next.marks.retain(|number, _| is_remembered(*number, last));
        if makes_epoch {
            mark.clone_into(&mut next.epoch_mark);
        }
        next
    }

    /// The same by a rescue, which fills in its own head.
    #[must_use]
    pub fn rescued(&self, mark: &str, rescued: Rescued) -> Self {
        let mut next = self.next(mark, true);
        next.rescues.push(Rescued { head: next.head(), base: self.head(), ..rescued });
        if next.rescues.len() > RESCUES_MAX {
            next.rescues.remove(0);
        }
        next
    }

    pub(crate) fn knows(&self, rescue: &Rescued) -> bool {
        self.rescues.iter().any(|known| known.head == rescue.head)
    }

    /// How `other` stands to this one.
    #[must_use]
    pub fn relation_of(&self, other: &Self) -> Relation {
        if self.number == 0 || other.number == 0 {
            return Relation::Unknown;
        }
        // A rescue begins where its base ended: what one of them knows beyond that, the other one does not have.
        let fork_of = |rescued: &Self, one: &Self| {
            let mut unknown = rescued.rescues.iter().filter(|rescue| !one.knows(rescue));
            unknown.find(|rescue| rescue.base.number < one.number).map(|rescue| rescue.base.number)
        };
        if let Some(after) = fork_of(other, self).or_else(|| fork_of(self, other)) {
            let mut common =
                self.marks.range(..=after).rev().filter_map(|(at, mark)| Some(other.marks.get(at)? == mark));
            let has_base = common.next().unwrap_or(true);
            return Relation::Forked { after: if has_base { after } else { self.agreed_up_to(other) } };
        }
        let mut common = self.marks.iter().rev().filter_map(|(number, mark)| Some((mark, other.marks.get(number)?)));
        match common.next() {
            Some((own, others)) if own == others => match other.number.cmp(&self.number) {
                std::cmp::Ordering::Equal => Relation::Same,
                std::cmp::Ordering::Greater => Relation::Continues,
                std::cmp::Ordering::Less => Relation::Behind,
            },
            _ => Relation::Forked { after: self.agreed_up_to(other) },
        }
    }

    /// The last change that both remember alike.
    #[must_use]
    pub fn agreed_up_to(&self, other: &Self) -> ChangeNumber {
        let alike = self.marks.iter().rev().find(|(number, mark)| other.marks.get(number) == Some(mark));
        alike.map_or(0, |(number, _)| *number)
    }
}

fn is_remembered(number: ChangeNumber, last: ChangeNumber) -> bool {
    let (mut step, age) = (1, last - number);
    while number.is_multiple_of(step) {
        if age < REMEMBERED.saturating_mul(step) {
            return true;
        }
        step *= STEP;
    }
    number == 1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A history of so many changes; `mark` is that of changes from the `from`-th on.
    pub(crate) fn history(changes: u64, from: u64, mark: &str) -> History {
        (1..=changes).fold(History::default(), |history, number| {
            history.next(&format!("{}{number}", if number < from { "a" } else { mark }), true)
        })
    }

    #[test]
    fn a_record_goes_on_from_another_one_or_has_another_history() {
        for (own, other, expected) in [
            (history(5, 9, "a"), history(5, 9, "a"), Relation::Same),
            (history(5, 9, "a"), history(7, 9, "a"), Relation::Continues),
            (history(5, 9, "a"), history(3, 9, "a"), Relation::Behind),
            // Restored as it was after the third, and gone on from there.
            (history(5, 9, "a"), history(4, 4, "b"), Relation::Forked { after: 3 }),
            (history(5, 9, "a"), history(9, 4, "b"), Relation::Forked { after: 3 }),
            (history(5, 1, "c"), history(9, 4, "b"), Relation::Forked { after: 0 }),
            (History::default(), history(9, 4, "b"), Relation::Unknown),
            // Very much later: the first ones are remembered, and some between.
            (history(5, 9, "a"), history(20_000, 200_000, "a"), Relation::Continues),
            (history(15_000, 200_000, "a"), history(20_000, 200_000, "a"), Relation::Continues),
            (history(5, 1, "c"), history(20_000, 200_000, "a"), Relation::Forked { after: 0 }),
            (history(5_000, 2_000, "c"), history(20_000, 200_000, "a"), Relation::Forked { after: 1 }),
        ] {
            assert_eq!(own.relation_of(&other), expected, "{} {}", own.number, other.number);
        }
        assert!(history(20_000, 200_000, "a").marks.len() < 5 * 64 + 1);
    }

    /// Two histories have something to be compared by, however far they are from each other.
    #[test]
    fn there_is_always_a_common_change() {
        for own in [1, 2, 17, 64, 65, 100, 1_000, 5_000] {
            let known = history(own, u64::MAX, "a");
            for more in [0, 1, 63, 64, 65, 1_000, 1_025, 20_000] {
                let later = (1..=more).fold(known.clone(), |history, number| history.next(&format!("x{number}"), true));
                let expected = if more == 0 { Relation::Same } else { Relation::Continues };
                assert_eq!(known.relation_of(&later), expected, "{own} {more}");
            }
        }
    }

    #[test]
    fn a_history_is_read_as_it_was_written() {
        let history = history(300, 200, "b").rescued("r", Rescued::default());
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }
}
