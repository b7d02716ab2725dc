//! What is wrong with a configuration, in HAProxy's one-line form followed by the line, a caret and what was expected.

use std::{fmt::Write as _, ops::Range};

use crate::{line::Line, model::Location, secrets::concealed};

/// Errors after which reading stops, as in HAProxy.
pub const FATAL_ERRORS_MAX: usize = 50;

/// Columns of a line of configuration that are shown around the caret.
const SHOWN_COLUMNS_MAX: usize = 110;

/// Stands for what is left out of a longer line.
const CUT: &str = "...";

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a look, only with `-dD`.
    Diagnostic,
    /// For information.
    Notice,
    /// The configuration runs, though perhaps not as meant.
    Warning,
    /// The configuration does not run.
    Alert,
}

impl Severity {
    /// HAProxy's tag, padded to a common width.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::Diagnostic => "[DIAG]    ",
            Self::Notice => "[NOTICE]  ",
            Self::Warning => "[WARNING] ",
            Self::Alert => "[ALERT]   ",
        }
    }
}

/// How the place stands before the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// `parsing [file:line] : `.
    #[default]
    Parsing,
    /// `[file:line] : `.
    Place,
    /// Nothing: the message is about the configuration as a whole.
    Nothing,
}

/// What a keyword parser found wrong with its line; the caller knows the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub(crate) message: String,
    pub(crate) word: Option<usize>,
    pub(crate) columns: Option<Range<u32>>,
    pub(crate) expected: Option<String>,
    pub(crate) nearest: Option<String>,
    pub(crate) prefix: Prefix,
}

impl Problem {
    /// A problem, in HAProxy's words where it has some; ends as HAProxy's does (with or without a full stop).
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            word: None,
            columns: None,
            expected: None,
            nearest: None,
            prefix: Prefix::Parsing,
        }
    }

    /// The caret goes under the word at this index.
    #[must_use]
    pub fn at(mut self, word: usize) -> Self {
        self.word = Some(word);
        self
    }

    /// The caret goes under part of the word at this index: `range` counts bytes of the word's text.
    ///
    /// The part is found exactly where the word stands unquoted; within quotes it is an approximation that stays inside
    /// the word.
    #[must_use]
    pub fn within(mut self, line: &Line, word: usize, range: Range<usize>) -> Self {
        let columns = line.columns(word);
        let to_column = |offset: usize| columns.start.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
        let start = to_column(range.start).min(columns.end.saturating_sub(1));
        let end = to_column(range.end).min(columns.end).max(start.saturating_add(1));
        self.word = Some(word);
        self.columns = Some(start..end);
        self
    }

    /// The caret goes under these columns of the line.
    #[must_use]
    pub fn columns(mut self, columns: Range<u32>) -> Self {
        self.columns = Some(columns);
        self
    }

    /// What would have been right; continues "expected ".
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// The known word nearest to the one that stands there, if any is near.
    #[must_use]
    pub fn nearest<'a>(mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        self.nearest = basics::nearest(word, known.into_iter()).map(str::to_owned);
        self
    }

    /// How the place stands before the message.
    #[must_use]
    pub fn prefix(mut self, prefix: Prefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// The message alone.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// An error, warning or notice about the configuration.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The message, without its place.
    pub message: String,
    /// How the place stands before the message.
    pub prefix: Prefix,
    /// Where, unless it is about the configuration as a whole.
    pub location: Option<Location>,
    /// The line.
    pub line: Option<Line>,
    /// Columns of the line (bytes from 0) that the caret goes under.
    pub columns: Option<Range<u32>>,
    /// What would have been right.
    pub expected: Option<String>,
    /// The nearest known word.
    pub nearest: Option<String>,
}

impl Diagnostic {
    /// A diagnostic about a line.
    #[must_use]
    pub fn on_line(severity: Severity, line: &Line, problem: Problem) -> Self {
        let Problem { message, word, columns, expected, nearest, prefix } = problem;
        let columns = columns.or_else(|| word.map(|index| line.columns(index)));
        Self {
            severity,
            message,
            prefix,
            location: Some(line.location()),
            line: Some(line.clone()),
            columns,
            expected,
            nearest,
        }
    }

    /// A diagnostic about the configuration as a whole.
    #[must_use]
    pub fn whole(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            message: message.into(),
            prefix: Prefix::Nothing,
            location: None,
            line: None,
            columns: None,
            expected: None,
            nearest: None,
        }
    }

    /// The message as HAProxy says it, from `config : ` on.
    #[must_use]
    pub fn one_line(&self) -> String {
        let mut text = String::from("config : ");
        if let Some(location) = &self.location {
            match self.prefix {
                Prefix::Parsing => {
                    let _ = write!(text, "parsing [{}:{}] : ", location.file, location.line);
                }
                Prefix::Place => {
                    let _ = write!(text, "[{}:{}] : ", location.file, location.line);
                }
                Prefix::Nothing => {}
            }
        }
        for character in self.message.chars() {
            // What a terminal would obey is shown as the configuration could write it.
            if character.is_control() && character != '\n' {
                let _ = write!(text, "\\x{:02x}", u32::from(character));
            } else {
                text.push(character);
            }
        }
        if let Some(nearest) = &self.nearest {
            let _ = write!(text, "; did you mean '{nearest}' maybe ?");
        }
        text
    }

    /// HAProxy's line with its tag and `pid`, then the line of configuration with a caret and what was expected.
    #[must_use]
    pub fn render(&self, pid: u32) -> String {
        let mut text = format!("{} ({pid}) : {}\n", self.severity.tag(), self.one_line());
        if let (Some(line), Some(columns)) = (&self.line, &self.columns) {
            if self.prefix == Prefix::Nothing {
                let _ = writeln!(text, "  at {}:{}", line.file(), line.number());
            }
            let (shown, caret_column, caret_width) = window(&concealed(line.text()), columns);
            let number = line.number().to_string();
            let _ = writeln!(text, "  {number} | {shown}");
            let margin = " ".repeat(number.len());
            let _ = writeln!(text, "  {margin} | {}{}", " ".repeat(caret_column), "^".repeat(caret_width));
        }
        if let Some(expected) = &self.expected {
            let _ = writeln!(text, "  expected {expected}");
        }
        text
    }
}

/// The part of a line that is shown, with the caret's column and width in characters of that part.
fn window(text: &str, columns: &Range<u32>) -> (String, usize, usize) {
    let start = usize::try_from(columns.start).unwrap_or(usize::MAX);
    let end = usize::try_from(columns.end).unwrap_or(usize::MAX);
    let mut characters = Vec::new();
    let mut caret = None;
    let mut caret_end = 0;
    for (offset, character) in text.char_indices() {
        if offset >= start && caret.is_none() {
            caret = Some(characters.len());
        }
        if offset < end {
            caret_end = characters.len() + 1;
        }
        characters.push(if character.is_control() { ' ' } else { character });
    }
    let caret = caret.unwrap_or(characters.len());
    let caret_end = caret_end.max(caret + 1);
    let indent = characters.iter().take_while(|character| **character == ' ').count().min(caret);
    let from = if caret.saturating_sub(indent) < SHOWN_COLUMNS_MAX { indent } else { caret - SHOWN_COLUMNS_MAX / 2 };
    let shown: String = characters.iter().skip(from).take(SHOWN_COLUMNS_MAX).collect();
    let is_cut = characters.iter().skip(from + SHOWN_COLUMNS_MAX).any(|character| *character != ' ');
    let (before, after) = (if from > indent { CUT } else { "" }, if is_cut { CUT } else { "" });
    let caret = caret - from;
    let width = (caret_end - from).min(SHOWN_COLUMNS_MAX.max(caret + 1)) - caret;
    (format!("{before}{}{after}", shown.trim_end()), before.len() + caret, width.max(1))
}

/// All that was found, in order.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    alerts: usize,
}

impl Diagnostics {
    /// Drops what is only worth a look.
    pub fn keep_serious(&mut self) {
        self.list.retain(|diagnostic| diagnostic.severity > Severity::Diagnostic);
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Alert {
            self.alerts += 1;
        }
        self.list.push(diagnostic);
    }

    /// How many alerts there are.
    #[must_use]
    pub fn alerts(&self) -> usize {
        self.alerts
    }

    /// Everything, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Everything, in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.list
    }
}
