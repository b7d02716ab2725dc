//! `tidegate store`: a server that speaks Redis' protocol.

use std::{error::Error as _, process::ExitCode};

/// Options of the command line, as redis-server has them.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// `[redis.conf] [--setting value ...]`, as redis-server takes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs a store until it ends.
pub fn run(arguments: &StoreArguments) -> ExitCode {
    let outcome =
        store::options::read(&arguments.words).and_then(|settings| store::run(settings, crate::allocator::allocated));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                text += &format!(": {cause}");
                source = cause.source();
            }
            eprintln!("tidegate store: {text}");
            ExitCode::FAILURE
        }
    }
}
