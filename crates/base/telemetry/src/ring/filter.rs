//! Which transactions and which of their records someone wants to see.

use super::{Block, Record, Tag};

/// A set of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSet([u64; 4]);

impl TagSet {
    /// Every tag, unknown ones too.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// None.
    pub const NONE: Self = Self([0; 4]);

    /// With `tag` too.
    #[must_use]
    pub fn with(mut self, tag: Tag) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(tag.number() / 64)) {
            *word |= 1 << (tag.number() % 64);
        }
        self
    }

    /// Without `tag`.
    #[must_use]
    pub fn without(mut self, tag: Tag) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(tag.number() / 64)) {
            *word &= !(1 << (tag.number() % 64));
        }
        self
    }

    /// Whether the tag with that number is in it. Numbers that cannot be named are in [`TagSet::ALL`] alone.
    #[must_use]
    pub fn contains(&self, number: u16) -> bool {
        match self.0.get(usize::from(number / 64)) {
            Some(word) => word & (1 << (number % 64)) != 0,
            None => *self == Self::ALL,
        }
    }
}

/// A filter; the default lets everything through.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Records to show.
    pub tags: TagSet,
    /// Transactions to show, by id; empty is all.
    pub ids: Vec<u64>,
    /// Records that a block must have: a tag, and text that it must contain (may be empty).
    pub having: Vec<(Tag, Vec<u8>)>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { tags: TagSet::ALL, ids: Vec::new(), having: Vec::new() }
    }
}

impl Filter {
    /// Whether the block is wanted at all.
    #[must_use]
    pub fn selects(&self, block: &Block<'_>) -> bool {
        (self.ids.is_empty() || self.ids.contains(&block.id()))
            && self.having.iter().all(|(tag, text)| {
                block.records().any(|record| record.number == tag.number() && contains(record.text, text))
            })
    }

    /// Whether a record of a wanted block is wanted.
    #[must_use]
    pub fn shows(&self, record: &Record<'_>) -> bool {
        self.tags.contains(record.number)
    }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || text.windows(wanted.len()).any(|window| window == wanted)
}
