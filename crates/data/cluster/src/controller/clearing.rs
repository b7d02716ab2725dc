//! What is removed of slots that are another group's by now: part by part, as nobody else is answered while a server removes one. It
//! begins anew with another server, which may have what the former one had removed, and with another phase of the move.

use crate::{
    model::Address,
    slots::{Phase, SlotRange},
};

/// Slots that one command walks at a store.
const WALKED_AT_ONCE: u16 = 16;
/// Keys that it removes.
const REMOVED_AT_ONCE: u32 = 250;
/// Such commands in one round. Together they are what others may have to wait for.
const REMOVALS_AT_ONCE: usize = 4;
/// Keys that one command looks at where a server does not know which slot a key is in.
const LOOKED_AT_ONCE: u32 = 500;

/// How far a removal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clearing {
    server: Address,
    is_store: bool,
    phase: Phase,
    slots: SlotRange,
    /// The first slot of which there may still be something.
    next: u16,
}

impl Clearing {
    pub(super) fn new(server: Address, is_store: bool, (phase, slots): (Phase, SlotRange)) -> Self {
        Self { server, is_store, phase, slots, next: slots.first }
    }

    /// Whether it is this removal.
    pub(super) fn is_of(&self, server: &Address, phase: Phase) -> bool {
        self.server == *server && self.phase == phase
    }

    /// What is to be removed next: slots, and how many keys at most; nothing once all is.
    pub(super) fn parts(&self) -> Vec<(SlotRange, u32)> {
        let last = self.slots.last;
        if self.next > last {
            return Vec::new();
        }
        if !self.is_store {
            return vec![(self.slots, LOOKED_AT_ONCE)];
        }
        let firsts = (self.next..=last).step_by(usize::from(WALKED_AT_ONCE)).take(REMOVALS_AT_ONCE);
        firsts
            .map(|first| (SlotRange { first, last: last.min(first + (WALKED_AT_ONCE - 1)) }, REMOVED_AT_ONCE))
            .collect()
    }

    /// A server has done a part: of a store's so many keys are gone, of a Redis' so many may be left. An answer to a part that was asked
    /// for twice says nothing new.
    pub(super) fn handle_cleared(&mut self, server: &Address, first: u16, count: u64) {
        if self.server != *server || self.next != first {
            return;
        }
        match self.is_store {
            // Fewer than could be: there are no more.
            true if count < u64::from(REMOVED_AT_ONCE) => self.next = first.saturating_add(WALKED_AT_ONCE),
            false if count == 0 => self.next = self.slots.last.saturating_add(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u16, last: u16) -> SlotRange {
        SlotRange::new(first, last).unwrap()
    }

    #[test]
    fn a_store_removes_some_slots_at_a_time_until_none_is_left() {
        let (a, b) = (Address::new("a", 1), Address::new("b", 1));
        let mut clearing = Clearing::new(a.clone(), true, (Phase::Clearing, range(100, 200)));
        let firsts = |clearing: &Clearing| clearing.parts().iter().map(|(slots, _)| slots.first).collect::<Vec<_>>();
        assert_eq!(firsts(&clearing), [100, 116, 132, 148]);
        // There are more of the first part; the second one is not next; another server says nothing of this one.
        clearing.handle_cleared(&a, 100, 250);
        clearing.handle_cleared(&a, 116, 3);
        clearing.handle_cleared(&b, 100, 3);
        assert_eq!(firsts(&clearing), [100, 116, 132, 148]);
        for first in [100, 100, 116, 132, 148, 164, 180] {
            clearing.handle_cleared(&a, first, 249);
        }
        assert_eq!(clearing.parts(), [(range(196, 200), 250)]);
        clearing.handle_cleared(&a, 196, 0);
        assert_eq!(clearing.parts(), []);
        assert!(clearing.is_of(&a, Phase::Clearing) && !clearing.is_of(&b, Phase::Clearing));
    }

    #[test]
    fn the_last_slots_end_too_and_a_redis_looks_at_all_its_keys() {
        let a = Address::new("a", 1);
        let mut clearing = Clearing::new(a.clone(), true, (Phase::Clearing, range(16_383, 16_383)));
        clearing.handle_cleared(&a, 16_383, 1);
        assert_eq!(clearing.parts(), []);
        let mut clearing = Clearing::new(a.clone(), false, (Phase::Undoing, range(0, 16_383)));
        clearing.handle_cleared(&a, 0, 1);
        assert_eq!(clearing.parts(), [(range(0, 16_383), 500)]);
        clearing.handle_cleared(&a, 0, 0);
        assert_eq!(clearing.parts(), []);
    }
}
