//! What a log is, besides how long: the histories that it tells. Each process that is a master begins one, where its log ends then; replicas
//! learn all of their masters'. A folder that was set back to before a failover may have a log that is as long as that of others or longer, and
//! tells another history there.

use serde::{Deserialize, Serialize};

use super::Observation;

/// A store tells so many of its last histories; of earlier ones nothing is known.
const TOLD_MAX: usize = 48;

/// A history of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHistory {
    /// What it is called.
    pub id: String,
    /// Where it begins in the log. It goes on to where the next one begins.
    pub from: u64,
}

impl LogHistory {
    /// Those that `INFO replication` tells (`log_histories:ID@OFFSET,...`); none where that makes no sense.
    #[must_use]
    pub fn all_in(text: &str) -> Vec<Self> {
        let one = |word: &str| {
            let (id, from) = word.split_once('@')?;
            Some(Self { id: id.to_owned(), from: from.parse().ok()? })
        };
        text.split(',').map(one).collect::<Option<_>>().unwrap_or_default()
    }
}

impl Observation {
    /// The history that the log tells just before an offset.
    pub(super) fn history_before(&self, offset: u64) -> Option<&str> {
        let mut newest = self.histories.iter().rev();
        newest.find(|history| history.from < offset).map(|history| history.id.as_str())
    }

    /// Whether the log is known not to tell a history that it once has told: it is another log. A store that says nothing of histories, or may have
    /// told of too many, is not judged by that.
    pub(super) fn lacks(&self, history: &str) -> bool {
        let tells_all = (1..TOLD_MAX).contains(&self.histories.len());
        tells_all && self.histories.iter().all(|one| one.id != history)
    }

    /// Up to where the log has the same as another one that it lacks a history of.
    pub(super) fn common_with(&self, other: &Self) -> u64 {
        let until = |of: &Self, place: usize| of.histories.get(place + 1).map_or(of.offset, |next| next.from);
        let mut newest = self.histories.iter().enumerate().rev();
        let found = newest.find_map(|(place, own)| {
            let there = other.histories.iter().rposition(|one| one.id == own.id)?;
            Some(until(self, place).min(until(other, there)))
        });
        found.unwrap_or(0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::keeper::{Role, logs::LogHistory};

    /// Histories by name.
    pub fn histories(all: &[(&str, u64)]) -> Vec<LogHistory> {
        all.iter().map(|(id, from)| LogHistory { id: (*id).to_owned(), from: *from }).collect()
    }

    fn log(all: &[(&str, u64)], offset: u64) -> Observation {
        Observation {
            asked_at: 0,
            answered_at: 0,
            role: Role::Master,
            offset,
            durable: offset,
            epoch: 1,
            counting: None,
            followers: Vec::new(),
            run: "r".into(),
            serves: false,
            pauses: Vec::new(),
            bond: None,
            histories: histories(all),
        }
    }

    #[test]
    fn histories_are_read_as_stores_tell_them() {
        assert_eq!(LogHistory::all_in("a@0,b@500"), histories(&[("a", 0), ("b", 500)]));
        for nonsense in ["", "a", "a@x", "a@0,", "a@0,b@99999999999999999999"] {
            assert_eq!(LogHistory::all_in(nonsense), [], "{nonsense}");
        }
    }

    #[test]
    fn a_log_is_told_from_another_one_by_what_it_tells() {
        let present = log(&[("a", 0), ("b", 300), ("c", 400)], 420);
        assert_eq!(present.history_before(420), Some("c"));
        assert_eq!(present.history_before(400), Some("b"), "the next one has only just begun there");
        assert_eq!(log(&[], 420).history_before(420), None);
        // It went on alone, was replaced at 300, and is back as it was then.
        let before = log(&[("a", 0)], 500);
        assert!(before.lacks("c") && before.lacks("b") && !before.lacks("a"));
        assert_eq!((before.common_with(&present), present.common_with(&before)), (300, 300));
        assert_eq!(log(&[("x", 0)], 500).common_with(&present), 0);
        // One of an earlier version, or with a long past.
        assert!(!log(&[], 500).lacks("c"));
        let names: Vec<String> = (0..48).map(|number| number.to_string()).collect();
        let many: Vec<(&str, u64)> = names.iter().zip(0..).map(|(name, from)| (name.as_str(), from)).collect();
        assert!(!log(&many, 500).lacks("c"));
    }
}
