//! `tidegate export`: a store's data as a file that Redis loads.

use std::{
    io::{self, BufWriter, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use store::{
    StoreError, backup,
    export::{self, Exported, FileOptions, FileVersion, RdbOptions},
};

use crate::{access::AccessArguments, backup_command::with_causes};

/// Options of `tidegate export`.
#[derive(Args, Debug)]
pub struct ExportArguments {
    /// The file to write, a dump.rdb; `-` is standard output.
    file: PathBuf,
    /// The folder of the store, whether the store runs or not.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A store that runs on this machine, as HOST:PORT or the path of its socket: the command asks it for its folder (with the
    /// password in REDISCLI_AUTH).
    #[arg(long, conflicts_with = "dir", default_value = "127.0.0.1:6379")]
    from: String,
    #[command(flatten)]
    access: AccessArguments,
    /// The version of the file: 10 for Redis 7 and Valkey, 9 for Redis 5 and 6.
    #[arg(long, value_enum, default_value = "10")]
    rdb_version: Version,
    /// Leave out libraries of functions, which Redis 5 and 6 do not know.
    #[arg(long)]
    without_functions: bool,
    /// Write queues too, which only a Tidegate store reads (`tidegate import`); else a queue is an error.
    #[arg(long)]
    with_queues: bool,
    /// Do not compress strings: faster, and a larger file.
    #[arg(long)]
    no_compression: bool,
}

/// Versions of the file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Version {
    #[value(name = "9")]
    Nine,
    #[value(name = "10")]
    Ten,
}

/// Exports, and tells what came of it.
pub fn run(arguments: &ExportArguments) -> ExitCode {
    match export(arguments) {
        Ok(exported) => {
            // Standard output may be the file.
            eprintln!("{}", told(&exported, &arguments.file));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidegate export: {error}");
            ExitCode::FAILURE
        }
    }
}

fn export(arguments: &ExportArguments) -> Result<Exported, String> {
    let text = |error: StoreError| with_causes(&error);
    let to_stdout = arguments.file == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        return Err("the file is binary, and standard output a terminal: name a file, or pipe it".into());
    }
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => {
            let access = arguments.access.access().map_err(|error| with_causes(&error))?;
            let found = backup::folder_of(&arguments.from, access.as_ref());
            found.map_err(|error| format!("{}; --from names another store, --dir its folder", text(error)))?
        }
    };
    let version = match arguments.rdb_version {
        Version::Nine => FileVersion::Nine,
        Version::Ten => FileVersion::Ten,
    };
    let options = RdbOptions {
        slots: None,
        without_keys: false,
        file: FileOptions { version, compress: !arguments.no_compression, has_queues: arguments.with_queues },
        without_functions: arguments.without_functions,
        auxiliary: Vec::new(),
    };
    if to_stdout {
        return export::export(&dir, &options, &mut BufWriter::new(io::stdout().lock())).map_err(text);
    }
    export::export_to_file(&dir, &options, &arguments.file).map_err(text)
}

fn told(exported: &Exported, file: &Path) -> String {
    let written = exported.written;
    let many = |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let libraries = match written.libraries {
        0 => String::new(),
        count => format!(", {}", many(count, "library of functions", "libraries of functions")),
    };
    format!(
        "{}: {} of {}{libraries}, {} bytes; the store's log up to offset {}",
        if file == Path::new("-") { "standard output".into() } else { file.display().to_string() },
        many(written.keys, "key", "keys"),
        many(written.databases, "database", "databases"),
        written.bytes,
        exported.offset
    )
}
