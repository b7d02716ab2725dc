//! Which records an expression is about: `{level}TAG,TAG:prefix[field]`.

use crate::ring::TagSet;

use super::Entry;

#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) level: Option<Level>,
    pub(super) tags: TagSet,
    pub(super) prefix: Option<String>,
    /// Which of the words, from 1.
    pub(super) field: Option<usize>,
}

/// Levels of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Exactly(u32),
    AtLeast(u32),
    AtMost(u32),
}

impl Selection {
    /// The part of a record that is to be looked at, if the record is one of those that are meant and has that part.
    pub(super) fn part<'a>(&self, entry: &Entry<'a>) -> Option<&'a [u8]> {
        let is_at_level = self.level.is_none_or(|level| match level {
            Level::Exactly(level) => entry.level == level,
            Level::AtLeast(level) => entry.level >= level,
            Level::AtMost(level) => entry.level <= level,
        });
        if !is_at_level || !self.tags.contains(entry.tag) {
            return None;
        }
        let text = match &self.prefix {
            Some(prefix) => {
                let (name, rest) = entry.text.split_at_checked(prefix.len())?;
                let value = rest.strip_prefix(b":").filter(|_| name.eq_ignore_ascii_case(prefix.as_bytes()))?;
                value.trim_ascii_start()
            }
            None => entry.text,
        };
        match self.field {
            None => Some(text),
            Some(field) => {
                text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(field.checked_sub(1)?)
            }
        }
    }
}
