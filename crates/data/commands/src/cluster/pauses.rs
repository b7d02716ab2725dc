//! Slots whose commands wait. Several who look after the cluster may have commands wait at the same time: a move of slots, a master that
//! hands over, a backup of all groups. Each pause has the number of whoever began it and is ended by that number alone, so a word that
//! comes late ends nobody else's.
//!
//! What is paused stays so while the cluster changes elsewhere: a pause is over when its time is, when it is ended, or when the node
//! has lost all of its slots. Whoever pauses slots to hand them over relies on this.

use super::{Membership, SlotRange};

/// The most pauses at the same time.
const PAUSES_MAX: usize = 64;

/// Commands on some slots wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPause {
    /// What tells it from others.
    pub number: u64,
    /// The slots.
    pub slots: SlotRange,
    /// Until when, in microseconds of the stopwatch.
    pub until: u64,
    /// All that took effect before it is in the log: where the log ends is the end of what happened to the slots.
    pub is_settled: bool,
}

/// There are as many pauses as there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR {PAUSES_MAX} pauses are under way")]
pub struct TooManyPauses;

impl SlotPause {
    fn has(&self, slot: u16) -> bool {
        (self.slots.0..=self.slots.1).contains(&slot)
    }
}

impl Membership {
    /// Begins a pause. One of the same number is another one from now on.
    ///
    /// # Errors
    ///
    /// There are too many.
    pub fn begin_pause(&mut self, pause: SlotPause) -> Result<(), TooManyPauses> {
        self.pauses.retain(|known| known.number != pause.number);
        if self.pauses.len() >= PAUSES_MAX {
            return Err(TooManyPauses);
        }
        self.pauses.push(pause);
        Ok(())
    }

    /// Ends the pause that has a number, or all.
    pub fn end_pause(&mut self, number: Option<u64>) {
        self.pauses.retain(|pause| number.is_some_and(|number| number != pause.number));
    }

    /// Ends pauses whose time is over. Says whether there were any.
    pub fn end_pauses_in_time(&mut self, now: u64) -> bool {
        let count = self.pauses.len();
        self.pauses.retain(|pause| now < pause.until);
        self.pauses.len() < count
    }

    /// Ends pauses of slots that are all another node's.
    pub(super) fn end_pauses_of_others(&mut self) {
        let mut pauses = std::mem::take(&mut self.pauses);
        pauses.retain(|pause| (pause.slots.0..=pause.slots.1).any(|slot| self.owns(slot)));
        self.pauses = pauses;
    }

    /// All that took effect is in the log.
    pub fn settle_pauses(&mut self) {
        self.pauses.iter_mut().for_each(|pause| pause.is_settled = true);
    }

    /// Whether commands on a slot wait at a time. On a slot that is another node's none does: they are sent there.
    #[inline]
    #[must_use]
    pub fn is_paused(&self, slot: u16, now: u64) -> bool {
        self.pauses.iter().any(|pause| pause.has(slot) && now < pause.until) && self.owns(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-99\nb 127.0.0.1:3@4 master - 0 0 1 connected 100-16383\n";

    fn pause(number: u64, slots: SlotRange, until: u64) -> SlotPause {
        SlotPause { number, slots, until, is_settled: false }
    }

    #[test]
    fn a_pause_lasts_until_its_slots_are_gone() {
        let mut node = Membership::default();
        node.learn(1, TEXT, None).unwrap();
        node.begin_pause(pause(1, (3, 5), 10)).unwrap();
        node.begin_pause(pause(2, (0, 16_383), 20)).unwrap();
        assert!(node.is_paused(3, 9) && node.is_paused(6, 19) && !node.is_paused(3, 20));
        assert!(!node.is_paused(100, 9), "it is not its own");
        // Something has changed elsewhere.
        node.learn(2, TEXT, None).unwrap();
        node.end_pause(Some(2));
        assert!(node.is_paused(5, 9) && !node.is_paused(6, 9));
        node.learn(3, &TEXT.replace("0-99", "4-99").replace("100-", "0-3 100-"), None).unwrap();
        assert!(!node.is_paused(3, 9) && node.is_paused(4, 9));
        node.learn(4, &TEXT.replace("0-99", "6-99").replace("100-", "0-5 100-"), None).unwrap();
        assert!(node.pauses.is_empty());
    }

    #[test]
    fn each_ends_its_own() {
        let mut node = Membership::default();
        node.learn(1, TEXT, None).unwrap();
        for number in 0..PAUSES_MAX as u64 {
            node.begin_pause(pause(number, (7, 7), 10)).unwrap();
        }
        assert_eq!(node.begin_pause(pause(1_000, (7, 7), 10)), Err(TooManyPauses));
        node.begin_pause(pause(3, (8, 8), 30)).unwrap();
        assert!(node.end_pauses_in_time(10) && !node.is_paused(7, 5) && node.is_paused(8, 10));
        node.end_pause(Some(4));
        assert!(node.is_paused(8, 10));
        node.end_pause(None);
        assert!(!node.is_paused(8, 10));
    }
}
