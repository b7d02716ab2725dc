//! The tags that a query may name: those of Tidegate's ring, or those of Varnish's log.

use crate::ring::Tag;

/// Tags that are suggested for a name that there is not.
const SUGGESTIONS_MAX: usize = 4;
/// Letters that a name must share with another one to be meant by it.
const SHARED_LETTERS_MIN: usize = 3;

/// A tag as queries see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagName {
    /// The number that records carry.
    pub number: u16,
    /// The name.
    pub name: &'static str,
    /// Whether its records have a name before a colon that a query can choose.
    pub has_names: bool,
}

/// All tags of a log.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    /// In the order of the numbers.
    pub tags: &'static [TagName],
    /// Where they can be read, for messages.
    pub hint: &'static str,
}

const RING_TAGS: [TagName; Tag::ALL.len()] = {
    let mut tags = [TagName { number: 0, name: "", has_names: false }; Tag::ALL.len()];
    let mut at = 0;
    while at < tags.len() {
        #[expect(clippy::indexing_slicing, reason = "checked by the compiler: both have the same length")]
        {
            let tag = Tag::ALL[at];
            tags[at] = TagName { number: tag as u16, name: tag.name(), has_names: tag.has_names() };
        }
        at += 1;
    }
    tags
};

impl Vocabulary {
    /// Those of Tidegate's ring.
    pub const RING: Self = Self { tags: &RING_TAGS, hint: "`tidegate log --tags` names them all" };

    /// The tags that a name or a pattern (`Req*`, `*URL`, `*`) means. The beginning of a name will do if no other one begins so.
    ///
    /// # Errors
    /// When there is none, or when it is not clear which is meant; with those that are near.
    pub fn named(&self, word: &str) -> Result<Vec<TagName>, String> {
        let is_beginning = |tag: &TagName, start: &str| {
            tag.name.get(..start.len()).is_some_and(|part| part.eq_ignore_ascii_case(start))
        };
        let is_end = |tag: &TagName, end: &str| {
            let from = tag.name.len().checked_sub(end.len());
            from.and_then(|from| tag.name.get(from..)).is_some_and(|part| part.eq_ignore_ascii_case(end))
        };
        let all = || self.tags.iter().copied();
        let found: Vec<TagName> = match (word.strip_prefix('*'), word.strip_suffix('*')) {
            _ if word == "*" => all().collect(),
            (Some(end), None) if !end.contains('*') => all().filter(|tag| is_end(tag, end)).collect(),
            (None, Some(start)) if !start.contains('*') => all().filter(|tag| is_beginning(tag, start)).collect(),
            (None, None) if !word.contains('*') => {
                if let Some(tag) = all().find(|tag| tag.name.eq_ignore_ascii_case(word)) {
                    return Ok(vec![tag]);
                }
                let found: Vec<TagName> = all().filter(|tag| is_beginning(tag, word)).collect();
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
                let near = names(self.alike(word.trim_matches('*')));
                let remedy = if near.is_empty() { String::new() } else { format!("; near to it: {near}") };
                Err(format!("there is no tag '{word}'{remedy} ({})", self.hint))
            }
        }
    }

    /// Tags that may be meant by a name that there is not: those that contain it, or share the most letters of its beginning.
    fn alike(&self, word: &str) -> Vec<TagName> {
        let word = word.to_ascii_lowercase();
        let shared = |tag: &TagName| {
            let name = tag.name.to_ascii_lowercase();
            if word.len() >= SHARED_LETTERS_MIN && name.contains(&word) {
                return word.len();
            }
            name.bytes().zip(word.bytes()).take_while(|(left, right)| left == right).count()
        };
        let most = self.tags.iter().map(shared).max().unwrap_or(0);
        if most < SHARED_LETTERS_MIN {
            return Vec::new();
        }
        self.tags.iter().copied().filter(|tag| shared(tag) == most).take(SUGGESTIONS_MAX).collect()
    }
}

fn names(tags: Vec<TagName>) -> String {
    tags.into_iter().map(|tag| tag.name).collect::<Vec<_>>().join(", ")
}

/// The tags of Tidegate's ring that a name or a pattern means.
///
/// # Errors
/// As [`Vocabulary::named`].
pub fn tags_named(word: &str) -> Result<Vec<Tag>, String> {
    Ok(Vocabulary::RING.named(word)?.into_iter().filter_map(|tag| Tag::of(tag.number)).collect())
}
