//! What is wrong with a query, where, and what to write.

use std::ops::Range;

/// Columns of a query that are shown around the place of an error.
const SHOWN_COLUMNS_MAX: usize = 100;
/// Stands for what is left out of a line.
const CUT: &str = "...";

/// Why a text is no query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// What is wrong and what to do.
    pub message: String,
    /// The bytes of the text that it is about; empty at the end of the text.
    pub range: Range<usize>,
}

impl QueryError {
    pub(super) fn new(message: impl Into<String>, range: Range<usize>) -> Self {
        Self { message: message.into(), range }
    }

    /// The message, and below it the line of `text` with the place marked.
    #[must_use]
    pub fn show(&self, text: &str) -> String {
        let start = floor(text, self.range.start);
        let end = floor(text, self.range.end).max(start);
        let line_start = text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let line_end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| start + at);
        let count = |range: Range<usize>| text.get(range).map_or(0, |part| part.chars().count());
        let caret = count(line_start..start);
        let width = count(start..end.min(line_end)).max(1);
        let letters: Vec<char> = text.get(line_start..line_end).unwrap_or_default().chars().collect();
        let from = if caret < SHOWN_COLUMNS_MAX { 0 } else { caret - SHOWN_COLUMNS_MAX / 2 };
        let shown: String = letters
            .iter()
            .skip(from)
            .take(SHOWN_COLUMNS_MAX)
            .map(|letter| if letter.is_control() { ' ' } else { *letter })
            .collect();
        let before = if from > 0 { CUT } else { "" };
        let after = if letters.len() > from + SHOWN_COLUMNS_MAX { CUT } else { "" };
        let margin = " ".repeat(before.len() + caret - from);
        let marks = "^".repeat(width.min((from + SHOWN_COLUMNS_MAX).saturating_sub(caret).max(1)));
        format!("{}\n  {before}{shown}{after}\n  {margin}{marks}", self.message)
    }
}

/// The last place at or before `at` where a letter begins.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}
