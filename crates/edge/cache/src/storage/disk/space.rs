//! Which parts of the data file are free.

use std::collections::{BTreeMap, BTreeSet};

/// Parts begin and end at multiples of this.
pub(crate) const GRANULE: u64 = 256;

/// A part of the data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) at: u64,
    pub(crate) length: u64,
}

impl Extent {
    pub(crate) fn end(self) -> u64 {
        self.at.saturating_add(self.length)
    }

    /// Whether it lies in a file of this size, as the allocator gives it.
    pub(crate) fn is_valid(self, size: u64) -> bool {
        self.length > 0
            && self.at.is_multiple_of(GRANULE)
            && self.length.is_multiple_of(GRANULE)
            && self.at.checked_add(self.length).is_some_and(|end| end <= size)
    }
}

/// Free parts, by place and by length.
#[derive(Debug, Default)]
pub(crate) struct Space {
    by_place: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    free: u64,
}

/// What `bytes` take.
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(GRANULE).saturating_mul(GRANULE)
}

impl Space {
    /// All of a file but these extents, which are in order and do not overlap.
    pub(crate) fn without(size: u64, taken: impl Iterator<Item = Extent>) -> Self {
        let mut space = Self::default();
        let mut at = 0;
        for extent in taken {
            space.insert(Extent { at, length: extent.at.saturating_sub(at) });
            at = extent.end();
        }
        let end = size - size % GRANULE;
        space.insert(Extent { at, length: end.saturating_sub(at) });
        space
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// A part for `wanted` bytes: the smallest that has room, or the largest one if that has `least`.
    pub(crate) fn take(&mut self, wanted: u64, least: u64) -> Option<Extent> {
        let (wanted, least) = (rounded(wanted.max(1)), rounded(least.max(1)));
        let fitting = self.by_length.range((wanted, 0)..).next();
        let (length, at) = *fitting.or_else(|| self.by_length.last())?;
        if length < least {
            return None;
        }
        self.remove(Extent { at, length });
        let taken = length.min(wanted);
        self.insert(Extent { at: at + taken, length: length - taken });
        Some(Extent { at, length: taken })
    }

    /// A part is free again.
    pub(crate) fn give_back(&mut self, mut extent: Extent) {
        if let Some((at, length)) = self.by_place.range(..extent.at).next_back().map(|(at, length)| (*at, *length))
            && at + length == extent.at
        {
            self.remove(Extent { at, length });
            extent = Extent { at, length: length + extent.length };
        }
        if let Some(length) = self.by_place.get(&extent.end()).copied() {
            self.remove(Extent { at: extent.end(), length });
            extent.length += length;
        }
        self.insert(extent);
    }

    fn insert(&mut self, extent: Extent) {
        if extent.length > 0 {
            self.by_place.insert(extent.at, extent.length);
            self.by_length.insert((extent.length, extent.at));
            self.free += extent.length;
        }
    }

    fn remove(&mut self, extent: Extent) {
        self.by_place.remove(&extent.at);
        self.by_length.remove(&(extent.length, extent.at));
        self.free -= extent.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random takes and returns: nothing overlaps, and all comes back as one part.
    #[test]
    fn takes_and_gives_back() {
        let mut space = Space::without(1 << 20, std::iter::empty());
        let mut taken: Vec<Extent> = Vec::new();
        let mut state = 7_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 33;
            if random.is_multiple_of(2) && !taken.is_empty() {
                let place = usize::try_from(random).unwrap() % taken.len();
                space.give_back(taken.swap_remove(place));
            } else if let Some(extent) = space.take(random % 40_000, 4096) {
                assert!(extent.is_valid(1 << 20));
                assert!(taken.iter().all(|other| other.end() <= extent.at || extent.end() <= other.at));
                taken.push(extent);
            }
            assert_eq!(space.free() + taken.iter().map(|extent| extent.length).sum::<u64>(), 1 << 20);
        }
        taken.sort();
        let again = Space::without(1 << 20, taken.iter().copied());
        assert_eq!(again.by_place, space.by_place);
        taken.into_iter().for_each(|extent| space.give_back(extent));
        assert_eq!(space.by_place, BTreeMap::from([(0, 1 << 20)]));
    }
}
