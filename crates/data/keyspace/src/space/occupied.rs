//! Which slots have entries, a bit for each: few keys leave most of the slots empty, and who walks them skips 64 at a time.

use crate::slot::SLOTS;

const WORDS: usize = SLOTS.div_ceil(64);

/// The slots that have entries.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    /// Empty until the first slot.
    words: Vec<u64>,
    count: usize,
}

impl Occupied {
    /// Says that a slot has entries.
    pub(super) fn insert(&mut self, slot: usize) {
        if self.words.is_empty() {
            self.words = vec![0; WORDS];
        }
        if let Some(word) = self.words.get_mut(slot / 64) {
            self.count += usize::from(*word & bit(slot) == 0);
            *word |= bit(slot);
        }
    }

    /// Says that a slot has none any more.
    pub(super) fn remove(&mut self, slot: usize) {
        if let Some(word) = self.words.get_mut(slot / 64) {
            self.count -= usize::from(*word & bit(slot) != 0);
            *word &= !bit(slot);
        }
    }

    /// Whether a slot has entries.
    pub(super) fn contains(&self, slot: usize) -> bool {
        self.words.get(slot / 64).is_some_and(|word| word & bit(slot) != 0)
    }

    /// How many slots have entries.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first slot from one on that has entries; [`SLOTS`] if there is none.
    pub(super) fn next(&self, from: usize) -> usize {
        let mut mask = !0 << (from % 64);
        for (place, word) in self.words.iter().enumerate().skip(from / 64) {
            if word & mask != 0 {
                return place * 64 + (word & mask).trailing_zeros() as usize;
            }
            mask = !0;
        }
        SLOTS
    }

    /// The slot that has so many with entries before it.
    pub(super) fn nth(&self, mut before: usize) -> Option<usize> {
        for (place, word) in self.words.iter().enumerate() {
            let ones = word.count_ones() as usize;
            if before < ones {
                let rest = (0..before).fold(*word, |word, _| word & (word - 1));
                return Some(place * 64 + rest.trailing_zeros() as usize);
            }
            before -= ones;
        }
        None
    }

    /// All of them, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.next(0)), |slot| Some(self.next(slot + 1))).take_while(|slot| *slot < SLOTS)
    }
}

fn bit(slot: usize) -> u64 {
    1 << (slot % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{random::Random, slot::SLOTS};

    use super::Occupied;

    #[test]
    fn it_says_what_a_set_of_slots_says() {
        let (mut occupied, mut model, mut random) = (Occupied::default(), BTreeSet::new(), Random::new(7));
        assert_eq!((occupied.next(0), occupied.nth(0), occupied.iter().count()), (SLOTS, None, 0));
        for step in 0..20_000 {
            let slot = random.below(SLOTS as u64) as usize;
            if step % 3 == 0 || model.len() > 300 {
                let gone = model.iter().copied().find(|other| *other >= slot).unwrap_or(slot);
                model.remove(&gone);
                occupied.remove(gone);
            } else {
                model.insert(slot);
                occupied.insert(slot);
            }
            assert_eq!(occupied.contains(slot), model.contains(&slot));
            assert_eq!(occupied.count(), model.len());
            assert_eq!(occupied.next(slot), model.range(slot..).next().copied().unwrap_or(SLOTS));
            let before = random.below(300) as usize;
            assert_eq!(occupied.nth(before), model.iter().copied().nth(before));
        }
        assert_eq!(occupied.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        for slot in [0, 63, 64, SLOTS - 1] {
            occupied.insert(slot);
            assert_eq!(occupied.next(slot), slot);
        }
        assert_eq!(occupied.next(SLOTS), SLOTS);
    }
}
