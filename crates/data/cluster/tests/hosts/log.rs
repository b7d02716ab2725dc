//! What is written: to units of slots, of which each group has some.

use std::collections::BTreeSet;

use cluster::{SLOTS, SlotRange};

/// Ranges of slots that move as a whole.
pub const UNITS: usize = 6;

/// Writes of a world.
pub const WRITES_MAX: u64 = 6_000;

/// The slots of a unit.
pub fn slots_of(unit: usize) -> SlotRange {
    let bound = |unit: usize| (usize::from(SLOTS) * unit / UNITS) as u16;
    SlotRange::new(bound(unit), bound(unit + 1) - 1).unwrap()
}

/// The unit that a slot is in.
pub fn unit_of(slot: u16) -> usize {
    (0..UNITS).find(|unit| slots_of(*unit).iter().any(|one| one == slot)).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A client has written it.
    Write { unit: usize, id: u64 },
    /// It was copied from elsewhere.
    Copied { unit: usize, id: u64 },
    /// All of a unit was removed.
    Clear { unit: usize },
}

impl What {
    pub fn unit(self) -> usize {
        match self {
            Self::Write { unit, .. } | Self::Copied { unit, .. } | Self::Clear { unit } => unit,
        }
    }
}

/// A store's log. Each entry has a number that no other entry has, whosever it is: where two logs have the same entry, all before it is
/// the same, too.
#[derive(Clone, Default)]
pub struct Log {
    entries: Vec<(u64, What)>,
    /// What has been written to each unit, up to some entry.
    state: [BTreeSet<u64>; UNITS],
    stated: usize,
}

impl Log {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> &[(u64, What)] {
        &self.entries
    }

    pub fn push(&mut self, number: u64, what: What) {
        self.entries.push((number, what));
    }

    /// Whether another log has all of this one, at its beginning.
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        match self.entries.last() {
            None => true,
            Some(last) => other.entries.get(self.len() - 1).is_some_and(|same| same.0 == last.0),
        }
    }

    /// How many entries both have, from the beginning.
    pub fn common_with(&self, other: &Self) -> usize {
        let mut both = self.entries.iter().zip(&other.entries);
        both.position(|(own, other)| own.0 != other.0).unwrap_or(self.len().min(other.len()))
    }

    /// Takes over what another one has, up to some entry.
    pub fn follow(&mut self, other: &Self, upto: usize) {
        if !self.is_prefix_of(other) || upto < self.len() {
            *self = Self::default();
        }
        self.entries.extend_from_slice(&other.entries[self.len()..upto]);
    }

    /// Has no more than so many entries from now on.
    pub fn cut(&mut self, len: usize) {
        let entries = self.entries[..len.min(self.len())].to_vec();
        *self = Self { entries, ..Self::default() };
    }

    /// What there is of a unit.
    pub fn state(&mut self, unit: usize) -> &BTreeSet<u64> {
        for (_, what) in &self.entries[self.stated..] {
            match *what {
                What::Write { unit, id } | What::Copied { unit, id } => drop(self.state[unit].insert(id)),
                What::Clear { unit } => self.state[unit].clear(),
            }
        }
        self.stated = self.entries.len();
        &self.state[unit]
    }
}
