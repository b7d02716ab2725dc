//! `tidegate store`: a server that speaks Redis' protocol, and what is said to one that runs.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use store::{
    command::{self, Manner},
    secure::TlsTrouble,
    status::{self, Status, StatusError, Which},
};

use crate::{
    access::{AccessArguments, OwnedAccess},
    backup_command::with_causes,
};

/// The code when no store runs: that of `systemctl status`.
const NOT_RUNNING: u8 = 3;

/// Options of the command line, as redis-server has them.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// `[redis.conf] [--setting value ...]`, as redis-server takes them; or `status`, or `stop`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

#[derive(Debug, Parser)]
#[command(name = "tidegate store")]
struct Line {
    #[command(subcommand)]
    control: Control,
}

#[derive(Debug, Subcommand)]
enum Control {
    /// Show the state of a running store. Exits with 3 if none runs on the folder.
    Status(StatusArguments),
    /// End a running store. It first writes to the disk what only memory has.
    Stop(WhichArguments),
}

/// Which store is meant. Without any of them, the one on port 6379.
#[derive(Args, Debug)]
struct WhichArguments {
    /// The store that serves this folder.
    #[arg(long, conflicts_with_all = ["port", "host", "socket"])]
    dir: Option<PathBuf>,
    /// The port of the store.
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// The machine of the store.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The path of the store's socket.
    #[arg(long, short, conflicts_with_all = ["port", "host"])]
    socket: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArguments,
}

#[derive(Args, Debug)]
struct StatusArguments {
    #[command(flatten)]
    which: WhichArguments,
    /// Print all figures as JSON, with the names of `INFO`.
    #[arg(long)]
    json: bool,
}

impl WhichArguments {
    fn which(&self) -> Which {
        match (&self.dir, &self.socket) {
            (Some(dir), _) => Which::Folder(dir.clone()),
            (None, Some(socket)) => {
                // A name without a folder would be taken for a host.
                let path = std::path::absolute(socket).unwrap_or_else(|_| socket.clone());
                Which::Address(path.display().to_string())
            }
            (None, None) if self.host.contains(':') => Which::Address(format!("[{}]:{}", self.host, self.port)),
            (None, None) => Which::Address(format!("{}:{}", self.host, self.port)),
        }
    }
}

/// Runs a store until it ends, or says something to one that runs.
pub fn run(arguments: &StoreArguments) -> ExitCode {
    match arguments.words.first().map(String::as_str) {
        Some("status" | "stop") => {
            let words = ["tidegate store".to_owned()].into_iter().chain(arguments.words.iter().cloned());
            match Line::parse_from(words).control {
                Control::Status(arguments) => match arguments.which.access.access() {
                    Ok(access) => ended("status", show(&arguments, &access)),
                    Err(error) => refused("status", &error),
                },
                Control::Stop(which) => match which.access.access() {
                    Ok(access) => ended("stop", status::stop(&which.which(), access.as_ref())),
                    Err(error) => refused("stop", &error),
                },
            }
        }
        _ => command::run(&arguments.words, Manner::Tidegate),
    }
}

fn refused(command: &str, error: &TlsTrouble) -> ExitCode {
    eprintln!("tidegate store {command}: {}", with_causes(error));
    ExitCode::FAILURE
}

fn show(arguments: &StatusArguments, access: &OwnedAccess) -> Result<String, StatusError> {
    let status = Status::of(&arguments.which.which(), access.as_ref())?;
    Ok(if arguments.json { status.json().to_string() } else { status::table(&status) })
}

fn ended(command: &str, result: Result<String, StatusError>) -> ExitCode {
    match result {
        Ok(text) => {
            // Whoever reads it may have seen enough.
            let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate store {command}: {}", error.text());
            if error.is_not_running() { ExitCode::from(NOT_RUNNING) } else { ExitCode::FAILURE }
        }
    }
}

/// Behaves as `redis-server` does.
pub fn run_as_redis(words: &[String]) -> ExitCode {
    command::run(words, Manner::Redis)
}

/// Says why nothing behaves as `redis-sentinel`.
pub fn refuse_sentinel() -> ExitCode {
    eprintln!("{}", command::NO_SENTINEL);
    ExitCode::FAILURE
}
