//! `tidegate log`: requests of a running edge, and the log of a store.

use std::{io, process::ExitCode};

use clap::{Args, Subcommand};
use store::{
    log_dump::{self, Dump, Form},
    point::Point,
};

use crate::{
    backup_command::with_causes,
    request_log::{self, RequestLogArguments},
};

/// What else there is to show.
#[derive(Subcommand, Debug)]
enum Other {
    /// Show the log of a store as commands, also while the store serves.
    Dump(DumpArguments),
}

/// Options of `tidegate log dump`.
#[derive(Args, Debug)]
struct DumpArguments {
    /// The folder of the store, or a folder with files of its log.
    #[arg(long)]
    dir: std::path::PathBuf,
    /// Begin at this point: an offset, a time in UTC (2026-03-01T12:00:00Z, @1772366400), or a time ago (-10m). For a folder `log-after-N`, the default is N.
    #[arg(long, value_parser = log_dump::point, allow_hyphen_values = true)]
    from: Option<Point>,
    /// End before this offset, or after this time.
    #[arg(long, value_parser = log_dump::point, allow_hyphen_values = true)]
    to: Option<Point>,
    /// Go on as the log grows.
    #[arg(long, short)]
    follow: bool,
    /// Print only commands, as redis-cli reads them from its standard input.
    #[arg(long, conflicts_with = "raw")]
    commands: bool,
    /// Print commands in RESP, as the log has them: input for `redis-cli --pipe`.
    #[arg(long)]
    raw: bool,
    /// Print a JSON object per line: offset, next, time_ms, db, command.
    #[arg(long, conflicts_with_all = ["raw", "commands"])]
    json: bool,
    /// Go on where the follower of this name ended. The command notes in the store's folder how far the follower is, and the store keeps
    /// the log for it.
    #[arg(long, value_parser = follower)]
    name: Option<String>,
    /// Also print commands that empty a database or all databases (FLUSHALL, FLUSHDB, FUNCTION FLUSH). Without this option, --commands
    /// and --raw stop before such a command.
    #[arg(long)]
    with_flushes: bool,
}

/// Options of `tidegate log`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LogArguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    requests: RequestLogArguments,
}

/// Shows the log.
pub fn run(arguments: &LogArguments) -> ExitCode {
    match &arguments.other {
        Some(Other::Dump(arguments)) => dump(arguments),
        None => request_log::run(&arguments.requests),
    }
}

fn follower(text: &str) -> Result<String, String> {
    if store::followers::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a follower's name has letters, digits, - and _, 64 at most".into())
    }
}

fn dump(arguments: &DumpArguments) -> ExitCode {
    let form = match (arguments.commands, arguments.raw) {
        (_, true) => Form::Raw,
        (true, false) => Form::Commands,
        (false, false) if arguments.json => Form::Json,
        (false, false) => Form::Lines,
    };
    let what = Dump {
        folder: arguments.dir.clone(),
        from: arguments.from,
        to: arguments.to,
        follow: arguments.follow,
        form,
        follower: arguments.name.clone(),
        with_flushes: arguments.with_flushes,
    };
    match log_dump::dump(&what, &mut io::BufWriter::new(io::stdout().lock())) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate log dump: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
