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

/// Where a walk over the keys of a Redis begins, and where it has come to its end.
const WALK_BEGINS: &str = "0";

/// What a server has removed of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// A store: so many keys.
    Keys(u64),
    /// A Redis: what it has found from one cursor of its walk on.
    Walked {
        /// Where it began.
        from: String,
        /// Where it goes on.
        next: String,
    },
}

/// How far a removal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clearing {
    server: Address,
    /// Where a Redis' walk is, and in which of its processes; nothing: it is a store.
    walk: Option<(String, String)>,
    phase: Phase,
    slots: SlotRange,
    /// The first slot of which there may still be something.
    next: u16,
}

impl Clearing {
    /// `run` is a Redis' process: another one counts its walks otherwise. Nothing: it is a store.
    pub(super) fn new(server: Address, run: Option<String>, (phase, slots): (Phase, SlotRange)) -> Self {
        Self { server, walk: run.map(|run| (run, WALK_BEGINS.to_owned())), phase, slots, next: slots.first }
    }

    /// Whether it is this removal.
    pub(super) fn is_of(&self, server: &Address, run: Option<&str>, phase: Phase) -> bool {
        let known = self.walk.as_ref().map(|(run, _)| run.as_str());
        self.server == *server && self.phase == phase && known == run
    }

    /// What is to be removed next: slots, how many keys at most, and where a Redis' walk goes on; nothing once all is.
    pub(super) fn parts(&self) -> Vec<(SlotRange, u32, Option<String>)> {
        let last = self.slots.last;
        if self.next > last {
            return Vec::new();
        }
        if let Some((_, cursor)) = &self.walk {
            return vec![(self.slots, LOOKED_AT_ONCE, Some(cursor.clone()))];
        }
        let firsts = (self.next..=last).step_by(usize::from(WALKED_AT_ONCE)).take(REMOVALS_AT_ONCE);
        let part = |first| SlotRange { first, last: last.min(first + (WALKED_AT_ONCE - 1)) };
        firsts.map(|first| (part(first), REMOVED_AT_ONCE, None)).collect()
    }

    /// A server has done a part. An answer to a part that was asked for twice says nothing new.
    pub(super) fn handle_cleared(&mut self, server: &Address, first: u16, cleared: &Cleared) {
        if self.server != *server || self.next != first {
            return;
        }
        match (&mut self.walk, cleared) {
            // Fewer than could be: there are no more.
            (None, Cleared::Keys(count)) if *count < u64::from(REMOVED_AT_ONCE) => {
                self.next = first.saturating_add(WALKED_AT_ONCE);
            }
            // What was written meanwhile is another server's: nobody writes it here.
            (Some((_, cursor)), Cleared::Walked { from, next }) if cursor == from => match next.as_str() {
                WALK_BEGINS => self.next = self.slots.last.saturating_add(1),
                _ => cursor.clone_from(next),
            },
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
        let mut clearing = Clearing::new(a.clone(), None, (Phase::Clearing, range(100, 200)));
        let firsts = |clearing: &Clearing| clearing.parts().iter().map(|part| part.0.first).collect::<Vec<_>>();
        assert_eq!(firsts(&clearing), [100, 116, 132, 148]);
        // There are more of the first part; the second one is not next; another server says nothing of this one.
        clearing.handle_cleared(&a, 100, &Cleared::Keys(250));
        clearing.handle_cleared(&a, 116, &Cleared::Keys(3));
        clearing.handle_cleared(&b, 100, &Cleared::Keys(3));
        assert_eq!(firsts(&clearing), [100, 116, 132, 148]);
        for first in [100, 100, 116, 132, 148, 164, 180] {
            clearing.handle_cleared(&a, first, &Cleared::Keys(249));
        }
        assert_eq!(clearing.parts(), [(range(196, 200), 250, None)]);
        clearing.handle_cleared(&a, 196, &Cleared::Keys(0));
        assert_eq!(clearing.parts(), []);
        assert!(clearing.is_of(&a, None, Phase::Clearing) && !clearing.is_of(&b, None, Phase::Clearing));
    }

    #[test]
    fn the_last_slots_end_too_and_a_redis_walks_over_all_its_keys() {
        let a = Address::new("a", 1);
        let mut clearing = Clearing::new(a.clone(), None, (Phase::Clearing, range(16_383, 16_383)));
        clearing.handle_cleared(&a, 16_383, &Cleared::Keys(1));
        assert_eq!(clearing.parts(), []);
        let mut clearing = Clearing::new(a.clone(), Some("r1".into()), (Phase::Undoing, range(0, 16_383)));
        let walked = |from: &str, next: &str| Cleared::Walked { from: from.into(), next: next.into() };
        assert_eq!(clearing.parts(), [(range(0, 16_383), 500, Some("0".into()))]);
        clearing.handle_cleared(&a, 0, &walked("0", "17"));
        // The same once more: its answer was late.
        clearing.handle_cleared(&a, 0, &walked("0", "17"));
        assert_eq!(clearing.parts(), [(range(0, 16_383), 500, Some("17".into()))]);
        clearing.handle_cleared(&a, 0, &walked("0", "0"));
        clearing.handle_cleared(&a, 0, &walked("17", "0"));
        assert_eq!(clearing.parts(), []);
        assert!(clearing.is_of(&a, Some("r1"), Phase::Undoing) && !clearing.is_of(&a, Some("r2"), Phase::Undoing));
    }
}
