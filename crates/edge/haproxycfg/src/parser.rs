//! Reads files line by line: directives, sections, and the keywords of each section by the table.

use std::sync::Arc;

use crate::{
    condition,
    diagnostics::{Diagnostic, FATAL_ERRORS_MAX, Problem, Severity},
    lexer::{self, Surroundings, is_name_character},
    line::{Line, Modifier, Word},
    scope::{Scope, Section},
    table::{self, Group},
};

/// Deepest nesting of `.if`, as in HAProxy.
pub const CONDITIONS_MAX: usize = 99;

/// A level of `.if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// The lines count.
    Taken,
    /// They do not, a later branch of this level may.
    Waiting,
    /// They do not, and no later branch of this level will.
    Done,
}

struct Level {
    branch: Branch,
    has_else: bool,
}

/// Reads a file. Whether it may go on with the next one.
pub fn read_file(scope: &mut Scope<'_>, path: &str) -> bool {
    let alerts_before = scope.diagnostics.alerts();
    let contents = match scope.files.read(path) {
        Ok(contents) => contents,
        Err(error) => {
            let message = format!("Could not open configuration file {path} : {error}");
            scope.diagnostics.push(Diagnostic::whole(Severity::Alert, message));
            return false;
        }
    };
    scope.enter_file(path);
    let may_go_on =
        FileReader { file: path.into(), levels: Vec::new(), fatal: 0, is_past_global: false }.read(scope, &contents);
    scope.leave_file();
    if scope.diagnostics.alerts() > alerts_before {
        let message = format!("Error(s) found in configuration file : {path}");
        scope.diagnostics.push(Diagnostic::whole(Severity::Alert, message));
    }
    may_go_on
}

struct FileReader {
    file: Arc<str>,
    levels: Vec<Level>,
    fatal: usize,
    /// Whether a section other than `global` has begun.
    is_past_global: bool,
}

/// What comes after a line.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    /// `.alert` or a malformed `.if`: nothing after it can be trusted.
    Abort,
}

impl FileReader {
    fn read(&mut self, scope: &mut Scope<'_>, contents: &[u8]) -> bool {
        let mut rest = contents;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (text, after) = match end {
                Some(end) => (rest.get(..end).unwrap_or_default(), rest.get(end + 1..).unwrap_or_default()),
                None => (rest, &[][..]),
            };
            rest = after;
            if self.fatal >= FATAL_ERRORS_MAX {
                let line = self.bare_line(number, text);
                let message = format!("too many fatal errors ({}), stopping now.", self.fatal);
                scope.alert(&line, Problem::new(message));
                return true;
            }
            if let Some(position) = text.iter().position(|byte| *byte == 0) {
                let line = self.bare_line(number, text);
                scope.alert(&line, Problem::new(format!("Stray NUL character at position {}.", position + 1)));
                return true;
            }
            let alerts_before = scope.diagnostics.alerts();
            let next = self.line(scope, number, text);
            if scope.diagnostics.alerts() > alerts_before {
                self.fatal += 1;
            }
            if next == Next::Abort {
                return false;
            }
            if end.is_none() {
                let line = self.bare_line(number, text);
                let message =
                    format!("Missing LF on last line, file might have been truncated at position {}.", text.len() + 1);
                let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
                scope.alert(&line, Problem::new(message).columns(end..end.saturating_add(1)));
            }
        }
        if !self.levels.is_empty() {
            let line = self.bare_line(number, b"");
            scope.alert(&line, Problem::new("non-terminated '.if' block."));
            return false;
        }
        true
    }

    /// A line whose words do not matter.
    fn bare_line(&self, number: u32, text: &[u8]) -> Line {
        Line::new(Arc::clone(&self.file), number, &String::from_utf8_lossy(text), Vec::new())
    }

    fn line(&mut self, scope: &mut Scope<'_>, number: u32, text: &[u8]) -> Next {
        if text.trim_ascii_start().starts_with(b"[") {
            self.scope_line(scope, number, text);
            return Next::Line;
        }
        let section = scope.section_name.clone();
        let surroundings =
            Surroundings { environment: &scope.state.global.environment, file: &self.file, number, section: &section };
        let words = match lexer::words(text, &surroundings) {
            Ok(words) => words,
            Err(error) => {
                let line = self.bare_line(number, text);
                let columns = error.column..error.column.saturating_add(1);
                scope.alert(&line, Problem::new(error.message).columns(columns));
                return Next::Line;
            }
        };
        let original = String::from_utf8_lossy(text);
        let first = words.first().map_or("", Word::text);
        if first.is_empty() {
            return Next::Line;
        }
        if first.starts_with('.') {
            let line = Line::new(Arc::clone(&self.file), number, &original, words);
            return self.directive(scope, &line);
        }
        if self.levels.last().is_some_and(|level| level.branch != Branch::Taken) {
            return Next::Line;
        }
        let line = self.line_of(scope, number, &original, words);
        self.statement(scope, &line);
        Next::Line
    }

    /// An empty word ends the arguments for HAProxy, which ignores what follows it without a word; here with one.
    fn line_of(&self, scope: &mut Scope<'_>, number: u32, text: &str, mut words: Vec<Word>) -> Line {
        let empty = words.iter().position(|word| word.text().is_empty());
        let ignored = empty.filter(|empty| words.len() > empty + 1);
        let columns = empty.and_then(|empty| words.get(empty)).map(Word::columns);
        words.truncate(empty.unwrap_or(words.len()));
        let line = Line::new(Arc::clone(&self.file), number, text, words);
        if let (Some(empty), Some(columns)) = (ignored, columns) {
            let message = format!(
                "argument {empty} at position {} is empty and marks the end of the argument list; all subsequent \
                 arguments will be ignored.",
                columns.start.saturating_add(1)
            );
            scope.warn(&line, Problem::new(message).columns(columns));
        }
        line
    }

    fn statement(&mut self, scope: &mut Scope<'_>, line: &Line) {
        let word = line.word(0);
        let outcome = if word.is_empty() && line.modifier() != Modifier::Set {
            Err(Problem::new("'no' and 'default' expect an option behind them.").at(0))
        } else if word.is_empty() {
            Ok(())
        } else if table::find(Group::Section, word).is_some() {
            scope.section = Section::Skipped;
            word.clone_into(&mut scope.section_keyword);
            let name = if line.word(1).is_empty() { word } else { line.word(1) };
            name.clone_into(&mut scope.section_name);
            self.check_position(scope, line);
            scope.dispatch(line, 0, Group::Section)
        } else {
            match scope.section {
                Section::None => Err(Problem::new(format!("unknown keyword '{word}' out of section."))
                    .at(0)
                    .expected("a section, as 'global', 'defaults', 'frontend', 'backend' or 'listen'")),
                Section::Skipped => Ok(()),
                Section::Global => scope.dispatch(line, 0, Group::Global),
                Section::Defaults(_) | Section::Proxy(_) => scope.dispatch(line, 0, Group::Proxy),
                Section::Other(group) => scope.dispatch(line, 0, group),
            }
        };
        if let Err(problem) = outcome {
            scope.alert(line, problem);
        }
    }

    /// Settings of the process that come late: which of them count is anyone's guess.
    fn check_position(&mut self, scope: &mut Scope<'_>, line: &Line) {
        if line.word(0) != "global" {
            self.is_past_global = true;
        } else if self.is_past_global {
            let message = "global section detected after a non-global one, the prevalence of their statements is \
                           unspecified";
            scope.diagnostics.push(Diagnostic::on_line(Severity::Diagnostic, line, Problem::new(message)));
        }
    }

    /// `[name]` on a line of its own: a scope for lines of filters, which no section here has.
    fn scope_line(&self, scope: &mut Scope<'_>, number: u32, text: &[u8]) {
        let line = self.bare_line(number, text);
        let text = line.text().trim_start();
        let (name, after) = text.strip_prefix('[').unwrap_or_default().split_once(']').unwrap_or_default();
        let invalid = name.chars().find(|character| !is_name_character(*character));
        let after = after.trim_start().chars().next().filter(|character| *character != '#');
        let message = if name.is_empty() {
            "empty scope name is forbidden.".to_owned()
        } else if let Some(character) = invalid {
            format!("character '{character}' is not permitted in a scope name.")
        } else if let Some(character) = after {
            format!("character '{character}' is not permitted after scope declaration.")
        } else {
            return;
        };
        scope.alert(&line, Problem::new(message));
    }

    fn directive(&mut self, scope: &mut Scope<'_>, line: &Line) -> Next {
        let is_counted = self.levels.last().is_none_or(|level| level.branch == Branch::Taken);
        let outcome = match line.word(0) {
            ".if" => self.begin_if(scope, line, is_counted),
            ".elif" => self.else_if(scope, line),
            ".else" => self.begin_else(line),
            ".endif" => match no_argument(line) {
                Ok(()) if self.levels.pop().is_none() => {
                    Err(Problem::new("lone '.endif' with no matching '.if'.").at(0))
                }
                outcome => outcome,
            },
            _ if !is_counted => Ok(()),
            ".alert" | ".warning" | ".notice" | ".diag" => return Self::message(scope, line),
            _ => {
                // Not fatal for what follows: the word is one that this version does not know.
                if let Err(problem) = scope.lookup(line, 0, Group::Directive) {
                    scope.alert(line, problem);
                }
                return Next::Line;
            }
        };
        match outcome {
            Ok(()) => Next::Line,
            Err(problem) => {
                scope.alert(line, problem);
                Next::Abort
            }
        }
    }

    fn begin_if(&mut self, scope: &Scope<'_>, line: &Line, is_counted: bool) -> Result<(), Problem> {
        if self.levels.len() >= CONDITIONS_MAX {
            return Err(Problem::new(format!("too many nested '.if', max is {}.", CONDITIONS_MAX + 1)).at(0));
        }
        let branch = if !is_counted {
            Branch::Done
        } else if evaluate(scope, line)? {
            Branch::Taken
        } else {
            Branch::Waiting
        };
        self.levels.push(Level { branch, has_else: false });
        Ok(())
    }

    fn else_if(&mut self, scope: &Scope<'_>, line: &Line) -> Result<(), Problem> {
        let Some(level) = self.levels.last_mut() else {
            return Err(Problem::new("lone '.elif' with no matching '.if'.").at(0));
        };
        if level.has_else {
            return Err(Problem::new("'.elif' after '.else' is not permitted.").at(0));
        }
        level.branch = match level.branch {
            Branch::Waiting if evaluate(scope, line)? => Branch::Taken,
            Branch::Waiting => Branch::Waiting,
            Branch::Taken | Branch::Done => Branch::Done,
        };
        Ok(())
    }

    fn begin_else(&mut self, line: &Line) -> Result<(), Problem> {
        no_argument(line)?;
        let Some(level) = self.levels.last_mut() else {
            return Err(Problem::new("lone '.else' with no matching '.if'.").at(0));
        };
        if level.has_else {
            return Err(Problem::new("'.else' after '.else' is not permitted.").at(0));
        }
        level.has_else = true;
        level.branch = if level.branch == Branch::Waiting { Branch::Taken } else { Branch::Done };
        Ok(())
    }

    /// `.alert`, `.warning`, `.notice`, `.diag`.
    fn message(scope: &mut Scope<'_>, line: &Line) -> Next {
        if !line.word(2).is_empty() {
            let message = format!(
                "Unexpected argument '{}' for '{}'. Use quotes if the message should contain spaces.",
                line.word(2),
                line.word(0)
            );
            scope.alert(line, Problem::new(message).at(2));
            return Next::Line;
        }
        let (severity, next) = match line.word(0) {
            ".alert" => (Severity::Alert, Next::Abort),
            ".warning" => (Severity::Warning, Next::Line),
            ".notice" => (Severity::Notice, Next::Line),
            _ => (Severity::Diagnostic, Next::Line),
        };
        let problem = Problem::new(format!("'{}'.", line.word(1)));
        scope.diagnostics.push(Diagnostic::on_line(severity, line, problem));
        next
    }
}

fn no_argument(line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() {
        return Ok(());
    }
    Err(Problem::new(format!("Unexpected argument '{}' for '{}'.", line.word(1), line.word(0))).at(1))
}

fn evaluate(scope: &Scope<'_>, line: &Line) -> Result<bool, Problem> {
    let text = line.joined_from(1);
    condition::evaluate(&text, &scope.state.global.environment).map_err(|error| {
        let message = format!("{} in '{}' at position {}:", error.message, line.word(0), error.offset + 1);
        // The words were joined by single blanks; which of them holds the offset tells where the caret goes.
        let mut offset = error.offset;
        for index in 1..line.len() {
            let length = line.word(index).len();
            if offset <= length {
                return Problem::new(message).within(line, index, offset..offset + 1);
            }
            offset -= length + 1;
        }
        Problem::new(message)
    })
}
