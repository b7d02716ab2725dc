//! `tidegate store`: a server that speaks Redis' protocol.

use std::process::ExitCode;

use store::command::{self, Manner};

/// Options of the command line, as redis-server has them.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// `[redis.conf] [--setting value ...]`, as redis-server takes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Runs a store until it ends.
pub fn run(arguments: &StoreArguments) -> ExitCode {
    command::run(&arguments.words, Manner::Tidegate)
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
