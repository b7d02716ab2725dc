//! A line of configuration cut into words, each of which remembers where it stood.

use std::{fmt, ops::Range, sync::Arc};

use crate::model::Location;

/// A word of a line, after quotes, escapes and variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    text: Box<str>,
    raw: Option<Box<[u8]>>,
    columns: Range<u32>,
}

impl Word {
    /// A word of these bytes that stood in these columns (bytes from 0 of the original line).
    #[must_use]
    pub fn new(bytes: Vec<u8>, columns: Range<u32>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text: text.into_boxed_str(), raw: None, columns },
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned().into_boxed_str();
                Self { text, raw: Some(error.into_bytes().into_boxed_slice()), columns }
            }
        }
    }

    /// The word as text. Bytes that are not UTF-8 stand as U+FFFD.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The word as it was, any byte.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// Where it stood in the original line, in bytes from 0.
    #[must_use]
    pub fn columns(&self) -> Range<u32> {
        self.columns.clone()
    }
}

/// `no` or `default` before a keyword.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modifier {
    /// Neither.
    #[default]
    Set,
    /// `no`.
    No,
    /// `default`.
    Default,
}

/// A line of configuration. Cheap to clone, so that checks which come after parsing can still point at it.
#[derive(Clone, PartialEq, Eq)]
pub struct Line(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    file: Arc<str>,
    number: u32,
    text: Box<str>,
    modifier: Modifier,
    words: Vec<Word>,
}

impl Line {
    /// A line from its words; `text` is the original.
    #[must_use]
    pub fn new(file: Arc<str>, number: u32, text: &str, mut words: Vec<Word>) -> Self {
        let modifier = match words.first().map(Word::text) {
            Some("no") => Modifier::No,
            Some("default") => Modifier::Default,
            _ => Modifier::Set,
        };
        if modifier != Modifier::Set {
            words.remove(0);
        }
        Self(Arc::new(Inner { file, number, text: text.into(), modifier, words }))
    }

    /// The word at `index`, the keyword being 0; empty beyond the end, as a missing argument.
    #[must_use]
    pub fn word(&self, index: usize) -> &str {
        self.0.words.get(index).map_or("", Word::text)
    }

    /// The bytes of the word at `index`; empty beyond the end.
    #[must_use]
    pub fn bytes(&self, index: usize) -> &[u8] {
        self.0.words.get(index).map_or(b"", Word::bytes)
    }

    /// All words.
    #[must_use]
    pub fn words(&self) -> &[Word] {
        &self.0.words
    }

    /// The texts of the words from `index` on.
    pub fn texts_from(&self, index: usize) -> impl Iterator<Item = &str> {
        self.0.words.iter().skip(index).map(Word::text)
    }

    /// The words from `index` on, joined by single spaces.
    #[must_use]
    pub fn joined_from(&self, index: usize) -> String {
        self.texts_from(index).collect::<Vec<_>>().join(" ")
    }

    /// How many words there are, the keyword included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.words.len()
    }

    /// Whether there is no word at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.words.is_empty()
    }

    /// `no` or `default` before the keyword.
    #[must_use]
    pub fn modifier(&self) -> Modifier {
        self.0.modifier
    }

    /// File as given on the command line.
    #[must_use]
    pub fn file(&self) -> &Arc<str> {
        &self.0.file
    }

    /// Line number, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// File and number.
    #[must_use]
    pub fn location(&self) -> Location {
        Location { file: Arc::clone(&self.0.file), line: self.0.number }
    }

    /// Columns of the word at `index`, or of the end of the line if there is none.
    #[must_use]
    pub fn columns(&self, index: usize) -> Range<u32> {
        self.0.words.get(index).map_or_else(
            || {
                let end = self.0.words.last().map_or(0, |word| word.columns.end.saturating_add(1));
                end..end.saturating_add(1)
            },
            Word::columns,
        )
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.0.file, self.0.number, self.0.text)
    }
}
