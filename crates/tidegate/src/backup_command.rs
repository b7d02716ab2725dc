//! `tidegate backup` and `tidegate restore`: a store's data in another place, and back.

use std::{error::Error, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use basics::many;
use clap::Args;
use s3::S3Archive;
use store::{
    archive::{Archive, FolderArchive},
    backup::{self, Manifest, Restore},
    log_dump,
    point::Point,
};

use crate::access::AccessArguments;

/// Options of `tidegate backup`.
#[derive(Args, Debug)]
pub struct BackupArguments {
    /// The folder of the store, which may serve meanwhile.
    #[arg(long, required_unless_present_any = ["from", "list"])]
    dir: Option<PathBuf>,
    /// A store that runs on this machine, as HOST:PORT: the command asks it for its folder (with the password in REDISCLI_AUTH).
    #[arg(long, conflicts_with = "dir")]
    from: Option<String>,
    #[command(flatten)]
    access: AccessArguments,
    /// The archive: a folder, or s3://bucket/prefix (keys and endpoint from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    /// AWS_REGION, AWS_ENDPOINT_URL).
    #[arg(long)]
    to: String,
    /// Show the existing backups instead of making one.
    #[arg(long)]
    list: bool,
    /// Keep this many backups, the new one included, and remove older ones with the files that only they need. The archive must belong
    /// to this store alone.
    #[arg(long, conflicts_with = "list")]
    keep: Option<NonZeroUsize>,
}

/// Options of `tidegate restore`.
#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// The archive: a folder, or s3://bucket/prefix.
    #[arg(long)]
    from: String,
    /// The folder to make: it must not exist, or be empty.
    #[arg(long)]
    dir: PathBuf,
    /// The name of a backup (`tidegate backup --list` shows them); without it, the newest.
    #[arg(long)]
    backup: Option<String>,
    /// The point at which you will start the store (`tidegate store --until`): an offset, a time in UTC, or a time ago (-10m).
    /// `restore` takes the newest backup before it, with the log up to there.
    #[arg(long, value_parser = log_dump::point, allow_hyphen_values = true)]
    until: Option<Point>,
}

/// The archive at a place.
pub fn archive(place: &str) -> Result<Box<dyn Archive>, Box<dyn Error>> {
    Ok(if place.starts_with("s3://") {
        Box::new(S3Archive::open(place)?)
    } else {
        Box::new(FolderArchive(PathBuf::from(place)))
    })
}

/// Makes a backup, or shows those that are there.
pub fn run(arguments: &BackupArguments) -> ExitCode {
    ended("backup", make(arguments))
}

/// Makes a store's folder of a backup.
pub fn run_restore(arguments: &RestoreArguments) -> ExitCode {
    ended("restore", make_store(arguments))
}

fn make(arguments: &BackupArguments) -> Result<(), Box<dyn Error>> {
    let archive = archive(&arguments.to)?;
    if arguments.list {
        let names = backup::names(&*archive)?;
        if names.is_empty() {
            eprintln!("there are no backups in {}", arguments.to);
        }
        for name in names {
            println!("{}", name.trim_start_matches("backups/"));
        }
        return Ok(());
    }
    let dir = match (&arguments.dir, &arguments.from) {
        (Some(dir), _) => dir.clone(),
        (None, Some(address)) => backup::folder_of(address, arguments.access.access()?.as_ref())?,
        (None, None) => return Err("name the store's folder (--dir)".into()),
    };
    let made = backup::backup_and_keep(&dir, &*archive, arguments.keep)?;
    let (files, bytes) = made.copied;
    println!(
        "{}: {}; {} ({bytes} bytes) were copied",
        made.name.trim_start_matches("backups/"),
        contents(&made.manifest, &made.manifest.log_end.to_string()),
        many(files, "file", "files")
    );
    let removed = made.removed;
    if removed.backups > 0 {
        println!(
            "removed: {}, and {} ({} bytes) that nothing else needed",
            many(removed.backups, "older backup", "older backups"),
            many(removed.files, "file", "files"),
            removed.bytes
        );
    }
    Ok(())
}

fn make_store(arguments: &RestoreArguments) -> Result<(), Box<dyn Error>> {
    let archive = archive(&arguments.from)?;
    let what = Restore { backup: arguments.backup.clone(), until: arguments.until };
    let manifest = backup::restore(&what, &*archive, &arguments.dir)?;
    println!("{}: {}", arguments.dir.display(), contents(&manifest, &manifest.log_end_text()));
    if let Some(point) = arguments.until {
        println!("start it once with --until to go back to {point}");
    }
    Ok(())
}

/// What a backup has. What was written a moment ago is in the log alone.
fn contents(manifest: &Manifest, log_end: &str) -> String {
    let records = many(manifest.records.count, "record", "records");
    format!("{records} in the tables, and the log behind them up to offset {log_end}")
}

fn ended(command: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("tidegate {command}: {}", with_causes(&*error));
    ExitCode::FAILURE
}

/// What went wrong, and all that it came from.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
