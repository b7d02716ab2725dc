//! Where the lines of a conversation come from: a terminal with history and completion, or whatever is piped in.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, BufRead as _},
    path::PathBuf,
    rc::Rc,
};

use rustyline::{
    CompletionType, Config, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::FileHistory, validate::Validator,
};

use super::{completion, error::CtlError, rooms::Rooms};

/// Names the file of the history; `/dev/null` for none.
const VARIABLE: &str = "TIDEGATE_CTL_HISTORY";
/// Its place in the home folder.
const HISTORY: &str = ".tidegate_ctl_history";
/// Lines that it has at most.
const HISTORY_LINES_MAX: usize = 1_000;

/// Gives one line after the other.
pub trait Lines {
    /// The next one; `None` when there are no more.
    ///
    /// # Errors
    /// They cannot be read.
    fn next(&mut self, prompt: &str) -> Result<Option<String>, CtlError>;

    /// Whether somebody types them.
    fn is_terminal(&self) -> bool;
}

/// Standard input.
pub struct Piped;

impl Lines for Piped {
    fn next(&mut self, _: &str) -> Result<Option<String>, CtlError> {
        io::stdin().lock().lines().next().transpose().map_err(CtlError::Input)
    }

    fn is_terminal(&self) -> bool {
        false
    }
}

/// A person at a terminal.
pub struct Terminal {
    editor: Editor<Completing, FileHistory>,
    /// Several lines that are pasted come as one: those behind the first.
    pasted: VecDeque<String>,
    history: Option<PathBuf>,
}

impl Terminal {
    /// With the history of former conversations.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub fn open(rooms: Rc<RefCell<Rooms>>) -> Result<Self, CtlError> {
        let failed = |error: ReadlineError| CtlError::Input(io::Error::other(error));
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true);
        // A line that begins with a blank is not kept: it may have a password.
        let config = config.max_history_size(HISTORY_LINES_MAX).map_err(failed)?.history_ignore_space(true).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Completing { rooms }));
        let history = std::env::var_os(VARIABLE)
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(HISTORY)));
        if let Some(file) = &history {
            // The first time there is none.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, pasted: VecDeque::new(), history })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(file) = &self.history {
            // A home folder that cannot be written is no reason to end with an error.
            let _ = self.editor.save_history(file);
        }
    }
}

impl Lines for Terminal {
    fn next(&mut self, prompt: &str) -> Result<Option<String>, CtlError> {
        if let Some(line) = self.pasted.pop_front() {
            println!("{prompt}{line}");
            return Ok(Some(line));
        }
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    let mut lines = line.split('\n').map(str::to_owned);
                    let first = lines.next();
                    self.pasted = lines.collect();
                    return Ok(first);
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(CtlError::Input(io::Error::other(error))),
            }
        }
    }

    fn is_terminal(&self) -> bool {
        true
    }
}

/// Completes words by what the rooms know.
struct Completing {
    rooms: Rc<RefCell<Rooms>>,
}

impl Completer for Completing {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        Ok(match self.rooms.try_borrow_mut() {
            Ok(mut rooms) => completion::complete(&mut rooms, before),
            Err(_) => (at, Vec::new()),
        })
    }
}

impl Hinter for Completing {
    type Hint = String;
}
impl Highlighter for Completing {}
impl Validator for Completing {}
impl Helper for Completing {}
