//! `tidegate import`: Redis' data in a store.

use std::{path::PathBuf, process::ExitCode};

use basics::many;
use clap::Args;
use store::import::{self, Import};

use crate::{access::AccessArguments, backup_command::with_causes};

/// Options of `tidegate import`.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// Redis' dump.rdb, its appendonlydir, or the folder (`dir`) that has one of them. Redis must have ended, or have just
    /// saved its data and write no more.
    path: PathBuf,
    /// The store, as HOST:PORT or the path of its socket (with the password in REDISCLI_AUTH).
    #[arg(long, default_value = "127.0.0.1:6379")]
    to: String,
    /// Import into a store that has keys already, and replace keys of the same names.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    access: AccessArguments,
}

/// Imports, and tells what came of it.
pub fn run(arguments: &ImportArguments) -> ExitCode {
    let access = match arguments.access.access() {
        Ok(access) => access,
        Err(error) => {
            eprintln!("tidegate import: {}", with_causes(&error));
            return ExitCode::FAILURE;
        }
    };
    let import =
        Import { path: &arguments.path, to: &arguments.to, access: access.as_ref(), replace: arguments.replace };
    match import::import(&import) {
        Ok(imported) => {
            for note in &imported.notes {
                eprintln!("tidegate import: {note}");
            }
            let names: Vec<String> = imported.files.iter().map(|path| path.display().to_string()).collect();
            println!(
                "{}: {}, {}, {}",
                names.join(", "),
                many(imported.keys, "key", "keys"),
                many(imported.libraries, "library of functions", "libraries of functions"),
                many(imported.commands, "command", "commands")
            );
            if imported.refused == 0 {
                return ExitCode::SUCCESS;
            }
            eprintln!("tidegate import: the store refused {} of them:", imported.refused);
            for reason in &imported.reasons {
                eprintln!("  {reason}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidegate import: {error}");
            ExitCode::FAILURE
        }
    }
}
