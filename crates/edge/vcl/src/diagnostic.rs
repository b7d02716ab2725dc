//! Messages about a text, in the form that Varnish's compiler gives them.

use std::fmt::{self, Write as _};

use crate::source::{Sources, Span};

/// A piece of a message: words, or a place that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Words(String),
    Place(Span),
    /// From its first byte to its last one, which are both named.
    Range(Span),
}

/// Why a text is no program, or what in it deserves a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic {
    pieces: Vec<Piece>,
}

impl Diagnostic {
    /// Begins with a sentence.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Words(words.into())] }
    }

    /// Begins with a sentence about a place.
    #[must_use]
    pub fn at(words: impl Into<String>, span: Span) -> Self {
        Self::new(words).show(span)
    }

    /// Goes on with a sentence.
    #[must_use]
    pub fn say(mut self, words: impl Into<String>) -> Self {
        self.pieces.push(Piece::Words(words.into()));
        self
    }

    /// Shows a place.
    #[must_use]
    pub fn show(mut self, span: Span) -> Self {
        self.pieces.push(Piece::Place(span));
        self
    }

    /// Shows a place by its first and last byte.
    #[must_use]
    pub fn show_range(mut self, span: Span) -> Self {
        self.pieces.push(Piece::Range(span));
        self
    }

    /// The first sentence.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.pieces
            .iter()
            .find_map(|piece| match piece {
                Piece::Words(words) => Some(words.as_str()),
                Piece::Place(_) | Piece::Range(_) => None,
            })
            .unwrap_or_default()
    }

    /// The first place.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Words(_) => None,
            Piece::Place(span) | Piece::Range(span) => Some(*span),
        })
    }

    /// The whole message with the lines that it is about.
    #[must_use]
    pub fn render(&self, sources: &Sources) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            // Writing to a string cannot fail.
            let _ = match piece {
                Piece::Words(words) => writeln!(text, "{words}"),
                Piece::Place(span) => show(&mut text, sources, *span, false),
                Piece::Range(span) => show(&mut text, sources, *span, true),
            };
        }
        text
    }
}

/// The place, its line, and below it a mark: `--------####---`.
fn show(text: &mut String, sources: &Sources, span: Span, names_end: bool) -> fmt::Result {
    let place = sources.place(span);
    write!(text, "('{}' Line {} Pos {})", place.name, place.line, shown_column(place.text, place.column))?;
    if names_end {
        let end = place.column_end.saturating_sub(1).max(place.column);
        write!(text, " -- (Pos {})", shown_column(place.text, end))?;
    }
    writeln!(text)?;
    let (line, mark) = marked(place.text, place.column - 1, place.column_end - 1);
    writeln!(text, "{line}\n{mark}\n")
}

/// The column in which a byte is shown, with tabulators set to columns of eight.
fn shown_column(line: &str, column: usize) -> usize {
    let before = line.as_bytes().iter().take(column.saturating_sub(1));
    before.fold(0, |width, byte| if *byte == b'\t' { (width / 8 + 1) * 8 } else { width + 1 }) + 1
}

/// A line with its tabulators set to columns of eight, and the line that marks the bytes from `start` to `end`.
fn marked(line: &str, start: usize, end: usize) -> (String, String) {
    let (mut shown, mut mark) = (String::new(), String::new());
    let mut width = 0;
    for (at, character) in line.char_indices() {
        let sign = if start <= at && at < end.max(start + 1) { '#' } else { '-' };
        let cells = if character == '\t' { 8 - width % 8 } else { 1 };
        for _ in 0..cells {
            mark.push(sign);
        }
        width += cells;
        if character == '\t' {
            shown.extend(std::iter::repeat_n(' ', cells));
        } else {
            shown.push(character);
        }
    }
    (shown, mark)
}
