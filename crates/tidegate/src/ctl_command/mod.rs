//! `tidegate ctl`: asks a running process, in its own commands or in plain words.
//!
//! ```text
//!   lines (terminal, pipe) or words ──▶ shell ──▶ a plain word ──▶ Room::tell ──▶ a table
//!                                         └─────▶ a command ─────▶ Room::send ──▶ the answer as it is
//! ```
//!
//! Commands of the edge go out behind `set severity-output number`, so that errors are told from other answers, on a connection of their own.

mod answer;
mod completion;
mod error;
mod interrupt;
mod lines;
mod place;
mod request;
mod rooms;
mod shell;
mod words;

use std::{
    cell::RefCell,
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
    process::ExitCode,
    rc::Rc,
};

use clap::Args;

use self::{
    answer::Verdict,
    error::CtlError,
    lines::{Piped, Terminal},
    place::WhichSocket,
    request::Request,
    rooms::{Kind, Rooms},
    words::Word,
};
use crate::access::AccessArguments;

/// Options of `tidegate ctl`.
#[derive(Args, Debug)]
pub struct CtlArguments {
    #[command(flatten)]
    which: WhichSocket,
    /// Speak with a cache that varnishd runs: the name or the working directory of its instance.
    #[arg(long, value_name = "NAME", group = "room")]
    cache: Option<String>,
    /// Speak with a store or with Redis: HOST:PORT, a port, or the path of a socket. REDISCLI_AUTH has the password.
    #[arg(long, value_name = "ADDRESS", group = "room")]
    store: Option<String>,
    /// Speak with the agent of a cluster: its folder.
    #[arg(long, value_name = "FOLDER", group = "room")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArguments,
    /// The command: `show stat`, several as in 'show info; show stat', or a plain word: workers, connections, routes, servers, plugins,
    /// uptime, memory. A payload comes from standard input. Without a command: a shell.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Sends what is asked and prints the answers.
pub fn run(arguments: &CtlArguments) -> ExitCode {
    match talk(arguments) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Refused) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("tidegate ctl: {message}");
            ExitCode::FAILURE
        }
    }
}

fn talk(arguments: &CtlArguments) -> Result<Verdict, CtlError> {
    let mut rooms = Rooms::new(arguments);
    let is_terminal = io::stdin().is_terminal();
    match arguments.command.as_slice() {
        [] => {}
        // `tidegate ctl store` is a shell for the store.
        [only] if let Some(kind) = Kind::named(only) => rooms.current = kind,
        words => return once(&mut rooms, words, is_terminal),
    }
    let rooms = Rc::new(RefCell::new(rooms));
    if !is_terminal {
        return shell::hold(&rooms, &mut Piped);
    }
    rooms.borrow_mut().edge().watch_interrupts().map_err(CtlError::Input)?;
    let mut terminal = Terminal::open(Rc::clone(&rooms))?;
    shell::greet(&rooms.borrow());
    shell::hold(&rooms, &mut terminal)
}

/// Carries out the words of the command line.
fn once(rooms: &mut Rooms, words: &[String], is_terminal: bool) -> Result<Verdict, CtlError> {
    let line = words.join(" ");
    let (kind, command) = rooms.addressed(&line);
    // Words of the shell lead nowhere else.
    let is_of_shell = Word::of_line(command).is_some() || matches!(words, [first, ..] if first == "explain");
    if kind == Kind::Edge && !is_of_shell && words.first().is_none_or(|first| Kind::named(first).is_none()) {
        let request = Request::of_words(words, || payload_of(is_terminal))?;
        return rooms.edge().ask(&request);
    }
    let line: Vec<String> = words.iter().map(|word| kind.quoted(word)).collect();
    shell::carry_out(rooms, &line.join(" "))
}

/// What a command takes besides its words.
fn payload_of(is_terminal: bool) -> Result<String, CtlError> {
    if is_terminal {
        return Err(CtlError::NoContents);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(CtlError::Input)?;
    Ok(text)
}
