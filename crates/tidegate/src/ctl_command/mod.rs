//! `tidegate ctl`: commands for the stats socket of a running edge, or of HAProxy.
//!
//! A command goes out behind `set severity-output number`, so that errors are told from other answers. Without a command, lines come
//! from standard input: of a terminal as one conversation with a prompt, else each as a command of its own.

mod answer;
mod conversation;
mod error;
mod place;
mod request;

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;

use self::{
    answer::{Output, Verdict},
    error::CtlError,
    place::Place,
    request::Request,
};

/// Options of `tidegate ctl`.
#[derive(Args, Debug)]
pub struct CtlArguments {
    /// The stats socket: a path, abns@NAME, or HOST:PORT.
    #[arg(long, short, group = "place")]
    socket: Option<String>,
    /// The configuration whose stats socket is meant.
    #[arg(long = "config", short = 'f', value_name = "FILE", group = "place")]
    configuration: Vec<PathBuf>,
    /// The process number of the master whose stats socket is meant, if several run.
    #[arg(long, group = "place")]
    pid: Option<u32>,
    /// The command: `show stat`, or several as in 'show info; show stat'. A payload comes from standard input.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Sends what is asked and prints the answers.
pub fn run(arguments: &CtlArguments) -> ExitCode {
    match place::find(arguments).and_then(|place| talk(&place, &arguments.command)) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Refused) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("tidegate ctl: {message}");
            ExitCode::FAILURE
        }
    }
}

fn talk(place: &Place, command: &[String]) -> Result<Verdict, CtlError> {
    let input = io::stdin();
    if !command.is_empty() {
        let request = Request::of_words(command, || payload_of(input.is_terminal()))?;
        return ask(place, &request);
    }
    if input.is_terminal() {
        return conversation::hold(place);
    }
    let mut text = String::new();
    input.lock().read_to_string(&mut text).map_err(CtlError::Input)?;
    let mut verdict = Verdict::Fine;
    for request in Request::of_lines(&text) {
        verdict = verdict.and(ask(place, &request)?);
    }
    Ok(verdict)
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

/// Sends one request and prints its answers: errors to standard error, the rest to standard output.
fn ask(place: &Place, request: &Request) -> Result<Verdict, CtlError> {
    // A master's socket does not know the setting; what it says of errors is not told from the rest.
    let knows_severities = place.converse("set severity-output number\n", |mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text.trim().is_empty())
    })?;
    let prefix = if knows_severities { "set severity-output number;" } else { "" };
    let mut output = Output::new(knows_severities, io::stdout().lock(), io::stderr().lock());
    let told = place.converse(&format!("{prefix}{}", request.text()), |stream| output.copy(stream))?;
    io::stdout().flush().map_err(CtlError::Output)?;
    if !told.has_answered {
        return Err(CtlError::NoAnswer { place: place.to_string() });
    }
    Ok(told.verdict)
}
