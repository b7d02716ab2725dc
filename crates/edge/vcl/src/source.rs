//! Texts of VCL and places in them.
//!
//! A program is made of several texts: the file that was named, those that it includes, and the built-in VCL. Every token knows
//! where it stands, and messages show that place.

use std::sync::Arc;

/// Finds the files that `include` names. The language opens none by itself.
pub trait Files {
    /// The text of one file, by the path that the including text gives, made absolute by the search path.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;

    /// The files that a pattern names (`include +glob`), in the order of their names.
    ///
    /// # Errors
    /// Why there are none.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String>;
}

/// A reader that has no files: every `include` fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("{path}: there are no files here"))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Err(format!("{pattern}: there are no files here"))
    }
}

/// Which text a place is in: an index of [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u16);

/// Some bytes of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// The first byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

impl Span {
    /// From the first byte of this one to the last byte of `other`, if both are in one text.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.source == other.source { Self { end: other.end.max(self.end), ..self } } else { self }
    }
}

/// One text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name: a path, `<vcl.inline>` or `Builtin`.
    pub name: String,
    /// What it says.
    pub text: Arc<str>,
}

/// All texts of a program.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
}

/// A line of a text with the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The name of the text.
    pub name: &'a str,
    /// The number of the line, from 1.
    pub line: usize,
    /// The number of the column, from 1, counted in bytes.
    pub column: usize,
    /// The column behind the last byte, in this line.
    pub column_end: usize,
    /// The line without its end.
    pub text: &'a str,
}

impl Sources {
    /// Takes a text; `None` if there are too many.
    pub fn add(&mut self, name: &str, text: &str) -> Option<SourceId> {
        let id = u16::try_from(self.all.len()).ok()?;
        self.all.push(Source { name: name.to_owned(), text: Arc::from(text) });
        Some(SourceId(id))
    }

    /// The texts in the order in which they were met.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.all.iter()
    }

    /// One text.
    #[must_use]
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        self.all.get(usize::from(id.0))
    }

    /// What stands at a place.
    #[must_use]
    pub fn text(&self, span: Span) -> &str {
        let text = self.get(span.source).map(|source| &*source.text).unwrap_or_default();
        text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Where a place is, for people.
    #[must_use]
    pub fn place(&self, span: Span) -> Place<'_> {
        let Some(source) = self.get(span.source) else {
            return Place { name: "", line: 1, column: 1, column_end: 1, text: "" };
        };
        let text = &*source.text;
        let start = (span.start as usize).min(text.len());
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| start + at);
        Place {
            name: &source.name,
            line: before.matches('\n').count() + 1,
            column: start - line_start + 1,
            column_end: (span.end as usize).clamp(start, line_end) - line_start + 1,
            text: text.get(line_start..line_end).unwrap_or_default(),
        }
    }
}
