//! `tidegate store`: a server that speaks Redis' protocol.

use std::{error::Error as _, process::ExitCode};

use store::Options;

/// Options of the command line, as redis-server has them.
#[derive(Debug, clap::Args)]
pub struct StoreArguments {
    /// Where the data is.
    #[arg(long)]
    dir: Option<std::path::PathBuf>,
    /// The port to listen on.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// The addresses to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind: Vec<String>,
}

/// Runs a store until it ends.
pub fn run(arguments: StoreArguments) -> ExitCode {
    let options = Options { dir: arguments.dir, bind: arguments.bind, port: arguments.port };
    match store::run(options) {
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
