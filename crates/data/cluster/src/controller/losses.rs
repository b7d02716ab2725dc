//! What may have been lost: a decision that gives up what only a server had that is gone, or was set back. It is written down with the
//! decision, and shown until a person has taken note of it.
//!
//! It is written before the decision, so that no crash leaves the one without the other; what was not decided after all goes again.

use serde::{Deserialize, Serialize};

use super::{Controller, pending::PendingRecord};
use crate::model::{Cluster, Epoch, GroupId};

/// So many are kept. Of more the oldest go.
const LOSSES_MAX: usize = 64;

/// Something that may have been lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// By this people take note of it.
    pub number: u64,
    /// Of which group.
    pub group: GroupId,
    /// When it was decided: milliseconds since 1970.
    pub at: u64,
    /// What was decided, and why.
    pub what: String,
    /// It comes with the end of this time of a master, by the epoch in which that began; 0: it has come.
    #[serde(default)]
    pub ends: Epoch,
}

/// What may be lost by a decision.
#[derive(Clone, Copy, Debug)]
pub struct NewLoss<'a> {
    /// Of which group.
    pub group: GroupId,
    /// See [`Loss::ends`].
    pub ends: Epoch,
    /// When it is decided: milliseconds since 1970.
    pub at: u64,
    /// What is decided, and why.
    pub what: &'a str,
}

impl PendingRecord {
    /// The same with a loss that is about to come, or has come.
    #[must_use]
    pub fn with_loss(&self, new: NewLoss<'_>) -> Self {
        let mut next = self.clone();
        let is_it = |loss: &&mut Loss| new.ends > 0 && (loss.group, loss.ends) == (new.group, new.ends);
        if let Some(known) = next.losses.iter_mut().find(is_it) {
            new.what.clone_into(&mut known.what);
            return next;
        }
        let NewLoss { group, ends, at, what } = new;
        next.last_number += 1;
        next.losses.push(Loss { number: next.last_number, group, at, what: what.to_owned(), ends });
        let surplus = next.losses.len().saturating_sub(LOSSES_MAX);
        next.losses.drain(..surplus);
        next
    }

    /// The same without a loss of which a person has taken note, and that loss; nothing if there is none of that number.
    #[must_use]
    pub fn without_loss(&self, number: u64) -> Option<(Self, Loss)> {
        let mut next = self.clone();
        let place = next.losses.iter().position(|loss| loss.number == number)?;
        let loss = next.losses.remove(place);
        Some((next, loss))
    }
}

impl Controller {
    /// Notes what may be lost by a decision that is about to be written.
    pub(super) fn note_loss(&mut self, loss: NewLoss<'_>) {
        self.pending.record = self.pending.record.with_loss(loss);
        self.losing.insert(loss.group);
    }

    /// Forgets losses that have not come and are not about to come any more. What has come is told until a person has taken note of it.
    pub(super) fn settle_losses(&mut self, cluster: &Cluster) {
        let losing = std::mem::take(&mut self.losing);
        let since = |group: GroupId| cluster.groups.get(&group).map_or(0, |group| group.config_epoch);
        let is_due = |loss: &Loss| loss.ends == 0 || since(loss.group) != loss.ends || losing.contains(&loss.group);
        self.pending.record.losses.retain(is_due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(group: GroupId, ends: Epoch, what: &str) -> NewLoss<'_> {
        NewLoss { group, ends, at: 7, what }
    }

    #[test]
    fn a_loss_is_there_once_and_until_somebody_has_taken_note() {
        let record = PendingRecord::default().with_loss(loss(1, 3, "x")).with_loss(loss(1, 3, "y"));
        assert_eq!(record.losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["y"]);
        let record = record.with_loss(loss(1, 5, "z")).with_loss(loss(2, 0, "a")).with_loss(loss(2, 0, "a"));
        assert_eq!(record.losses.iter().map(|loss| loss.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(record.without_loss(9), None);
        let (record, noted) = record.without_loss(3).unwrap();
        assert_eq!((noted.what.as_str(), record.losses.len()), ("a", 3));
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<PendingRecord>(&text).unwrap(), record);
        let many = (0..200).fold(record, |record, number| record.with_loss(loss(1, 0, &number.to_string())));
        assert_eq!((many.losses.len(), many.losses.last().unwrap().what.as_str()), (LOSSES_MAX, "199"));
    }
}
