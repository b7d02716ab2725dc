//! Which tags somebody wants to see.

use super::Tag;

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
    pub fn with(self, tag: Tag) -> Self {
        self.with_number(tag.number())
    }

    /// With the tag of that number too; numbers from 256 on are in no set but [`TagSet::ALL`].
    #[must_use]
    pub fn with_number(mut self, number: u16) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(number / 64)) {
            *word |= 1 << (number % 64);
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
