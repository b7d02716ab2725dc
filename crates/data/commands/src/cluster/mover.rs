//! Who may fill slots that are not this node's yet. Of several who want to fill the same slots the last counts: what an agent of before
//! has on its way is refused, however late it comes, and so is all once the slots are this node's own.

use super::{Membership, MembershipError, SlotRange};

/// What one connection may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverPass {
    slots: SlotRange,
    number: u64,
}

fn overlap(one: SlotRange, other: SlotRange) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

impl Membership {
    /// Lets a connection fill slots, and nobody else any more. Returns the number by which it may.
    ///
    /// # Errors
    ///
    /// Who wants it knows less of the cluster than this node, or one of the slots is this node's own.
    pub fn admit_mover(&mut self, slots: SlotRange, epoch: u64) -> Result<u64, MembershipError> {
        if epoch < self.epoch {
            return Err(MembershipError::Stale { known: self.epoch, told: epoch });
        }
        if let Some(slot) = (slots.0..=slots.1).find(|slot| self.owns(*slot)) {
            return Err(MembershipError::OwnSlot(slot));
        }
        self.end_movers(slots);
        self.mover_count += 1;
        self.movers.push(MoverPass { slots, number: self.mover_count });
        Ok(self.mover_count)
    }

    /// Whether somebody fills slots: what their keys are is said by their owner until then, and so is when they expire.
    #[must_use]
    pub fn is_being_filled(&self) -> bool {
        !self.movers.is_empty()
    }

    /// Nobody fills these slots any more.
    pub fn end_movers(&mut self, slots: SlotRange) {
        self.movers.retain(|pass| !overlap(pass.slots, slots));
    }

    /// Whether a connection may fill a slot.
    #[must_use]
    pub fn may_fill(&self, slot: u16, number: u64) -> bool {
        self.movers.iter().any(|pass| pass.number == number && (pass.slots.0..=pass.slots.1).contains(&slot))
    }

    /// Ends those who fill slots that have become this node's own.
    pub(super) fn end_movers_of_own(&mut self) {
        let mut movers = std::mem::take(&mut self.movers);
        movers.retain(|pass| !(pass.slots.0..=pass.slots.1).any(|slot| self.owns(slot)));
        self.movers = movers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a 127.0.0.1:1@2 myself,master - 0 0 3 connected 0-99\nb 127.0.0.1:3@4 master - 0 0 3 connected 100-16383\n";

    #[test]
    fn the_last_one_fills() {
        let mut node = Membership::default();
        node.learn(5, TEXT, None).unwrap();
        assert_eq!(node.admit_mover((100, 199), 4), Err(MembershipError::Stale { known: 5, told: 4 }));
        assert_eq!(node.admit_mover((99, 199), 5), Err(MembershipError::OwnSlot(99)));
        let first = node.admit_mover((100, 199), 5).unwrap();
        let other = node.admit_mover((300, 399), 6).unwrap();
        assert!(node.may_fill(100, first) && !node.may_fill(200, first) && !node.may_fill(100, other));
        let second = node.admit_mover((150, 250), 5).unwrap();
        assert!(!node.may_fill(100, first) && node.may_fill(250, second) && node.may_fill(300, other));
        // The slots become its own, and leave again.
        node.learn(6, &TEXT.replace("0-99", "0-250").replace("100-", "251-"), None).unwrap();
        node.learn(7, TEXT, None).unwrap();
        assert!(!node.may_fill(200, second) && node.may_fill(300, other));
        node.end_movers((399, 400));
        assert!(!node.may_fill(300, other));
    }
}
