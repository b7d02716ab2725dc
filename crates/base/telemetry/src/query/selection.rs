//! Which records an expression is about: `{level}TAG,TAG:prefix[field]`.

use crate::ring::{Tag, TagSet};

use super::Entry;

/// Tags that are suggested for a name that there is not.
const SUGGESTIONS_MAX: usize = 4;
/// Letters that a name must share with another one to be meant by it.
const SHARED_LETTERS_MIN: usize = 3;

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

/// The tags that a name or a pattern (`Req*`, `*URL`, `*`) means. The beginning of a name will do if no other one begins so.
///
/// # Errors
/// When there is none, or when it is not clear which is meant; with those that are near.
pub fn tags_named(word: &str) -> Result<Vec<Tag>, String> {
    let is_beginning =
        |tag: &Tag, start: &str| tag.name().get(..start.len()).is_some_and(|part| part.eq_ignore_ascii_case(start));
    let is_end = |tag: &Tag, end: &str| {
        let from = tag.name().len().checked_sub(end.len());
        from.and_then(|from| tag.name().get(from..)).is_some_and(|part| part.eq_ignore_ascii_case(end))
    };
    let all = || Tag::ALL.iter().copied();
    let found: Vec<Tag> = match (word.strip_prefix('*'), word.strip_suffix('*')) {
        _ if word == "*" => all().collect(),
        (Some(end), None) if !end.contains('*') => all().filter(|tag| is_end(tag, end)).collect(),
        (None, Some(start)) if !start.contains('*') => all().filter(|tag| is_beginning(tag, start)).collect(),
        (None, None) if !word.contains('*') => {
            if let Some(tag) = Tag::named(word) {
                return Ok(vec![tag]);
            }
            let found: Vec<Tag> = all().filter(|tag| is_beginning(tag, word)).collect();
            if found.len() > 1 {
                return Err(format!("several tags begin with '{word}': {}", names(found)));
            }
            found
        }
        _ => return Err(format!("'{word}' may have one * only, at its beginning or at its end")),
    };
    match found.is_empty() {
        false => Ok(found),
        true => {
            let near = names(alike(word.trim_matches('*')));
            let remedy = if near.is_empty() { String::new() } else { format!("; near to it: {near}") };
            Err(format!("there is no tag '{word}'{remedy} (`tidegate log --tags` names them all)"))
        }
    }
}

fn names(tags: Vec<Tag>) -> String {
    tags.into_iter().map(Tag::name).collect::<Vec<_>>().join(", ")
}

/// Tags that may be meant by a name that there is not: those that contain it, or share the most letters of its beginning.
fn alike(word: &str) -> Vec<Tag> {
    let word = word.to_ascii_lowercase();
    let shared = |tag: &Tag| {
        let name = tag.name().to_ascii_lowercase();
        if word.len() >= SHARED_LETTERS_MIN && name.contains(&word) {
            return word.len();
        }
        name.bytes().zip(word.bytes()).take_while(|(left, right)| left == right).count()
    };
    let most = Tag::ALL.iter().map(shared).max().unwrap_or(0);
    if most < SHARED_LETTERS_MIN {
        return Vec::new();
    }
    Tag::ALL.iter().copied().filter(|tag| shared(tag) == most).take(SUGGESTIONS_MAX).collect()
}
