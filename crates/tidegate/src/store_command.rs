//! `tidegate store`: a server that speaks Redis' protocol.

use std::process::ExitCode;

/// Options of the command line, as redis-server has them.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// `[redis.conf] [--setting value ...]`, as redis-server takes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs a store until it ends.
pub fn run(arguments: &StoreArguments) -> ExitCode {
    store::command::run(&arguments.words)
}
