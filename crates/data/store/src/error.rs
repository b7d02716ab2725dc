//! Why a store did not start, or stopped.

use std::{io, path::PathBuf};

use shard::ShardError;
pub use shard::chain;

use crate::point::Point;

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A snapshot of a master is damaged, or has what is not there.
    #[error("the master's snapshot: {0}")]
    Snapshot(#[from] crate::import::Problem),
    /// Another server cannot be followed.
    #[error("{0}")]
    Follow(String),
    /// Settings are wrong: each problem with its place and remedy.
    #[error("the settings cannot be used:\n  {}", .0.join("\n  "))]
    Settings(Vec<String>),
    /// TLS is asked for, and cannot be spoken.
    #[error("the settings cannot be used")]
    Tls(#[from] crate::secure::TlsTrouble),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}{} (port and bind choose the address)", hint(source))]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The page's address cannot be listened on.
    #[error("cannot serve the page on {address}{} (page-address chooses the address)", hint(source))]
    ListenPage {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path cannot be listened on.
    #[error("cannot listen on {}: is it a file, or its folder missing? (unixsocket chooses the path)", path.display())]
    ListenOnPath {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file of messages cannot be written.
    #[error("cannot write {} (the setting `logfile` chooses the file for messages)", path.display())]
    Messages {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A folder without a log.
    #[error("{} has no log of a store: name the folder that is its `dir`, or one with files of its log", path.display())]
    NoLog {
        /// Which.
        path: PathBuf,
    },
    /// A folder cannot be made or written.
    #[error("cannot write {} (the setting `dir` chooses the folder)", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has the folder.
    #[error("{} is in use by another process: stop it, or choose another `dir`", path.display())]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// The shard cannot go on.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// The tables are in another engine than the settings say.
    #[error(
        "the tables in {} are of the engine {engine}: say `tables-engine {engine}`, or choose another `dir`",
        path.display()
    )]
    OtherEngine {
        /// Where they are.
        path: PathBuf,
        /// The word of the setting.
        engine: String,
    },
    /// An engine that was not compiled in.
    #[error(
        "this build has no RocksDB (`tables-engine rocksdb`): build it with `cargo build --release -p tidegate --features \
         rocksdb`, or leave the setting out"
    )]
    NoRocksdb,
    /// Something that is not there for tables in RocksDB.
    #[error("{action} is not there for tables in RocksDB ({})", path.display())]
    NotForRocksdb {
        /// What was asked for.
        action: &'static str,
        /// The tables.
        path: PathBuf,
    },
    /// The tables cannot go back to a point.
    #[error(
        "the store cannot go back to {point}, which is offset {offset} of the log: its tables have everything up to offset \
         {applied}; restore a backup that is older into a new folder (tidegate restore), and start that with --until"
    )]
    TablesBeyond {
        /// What was asked for.
        point: Point,
        /// Where that is.
        offset: u64,
        /// What the tables have.
        applied: u64,
    },
    /// A point that the log does not reach back to.
    #[error("{point} is not kept any more: the log begins at offset {first}")]
    BeforeLog {
        /// What was asked for.
        point: Point,
        /// Where the log begins.
        first: String,
    },
    /// An offset within a command or transaction.
    #[error("offset {offset} is within a command or transaction: {before} is before it, {after} behind it")]
    NoBoundary {
        /// What was asked for.
        offset: u64,
        /// Where the command begins.
        before: u64,
        /// Where the next one begins.
        after: u64,
    },
    /// The log was cut at the point before, and has gone on since.
    #[error(
        "the store went back to {point} before, and has gone on from there (what came later then is in {}): start it without \
         --until", aside.display()
    )]
    CutBefore {
        /// What was asked for.
        point: Point,
        /// Where the log went that came later.
        aside: PathBuf,
    },
    /// A folder without a store.
    #[error("{} is no folder of a store: it has no shard-0/log", path.display())]
    NoStore {
        /// Which.
        path: PathBuf,
    },
    /// A store that runs does not say where its data is, or has it elsewhere.
    #[error("the store at {address} cannot be asked for its folder: {reason}")]
    NotAsked {
        /// Where it was asked.
        address: String,
        /// What came of it.
        reason: String,
    },
    /// A key that cannot be exported, or a sink that takes nothing more.
    #[error("the export failed")]
    Export(#[source] keyspace::rdb::FileError),
    /// The file of an export cannot be written.
    #[error("cannot write {}", path.display())]
    ExportFile {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The tables could not be brought to the end of the log.
    #[error(
        "the copy of the tables is at offset {applied} of the log, and the log ends at {end}: is the disk full? The log behind \
         the tables is run again on a copy beside them"
    )]
    ExportBehind {
        /// What the copy has.
        applied: u64,
        /// Where the log ends.
        end: u64,
    },
    /// A log that was set aside is to be run again, and nobody says from where.
    #[error(
        "the store went back to offset {offset}, where this log begins: with `{command}`. Name the begin: --from {next} leaves that \
         command out, --from {offset} has it run again (without --commands and --raw all of it is shown)"
    )]
    DumpBegin {
        /// Where it begins.
        offset: u64,
        /// With what.
        command: String,
        /// What is behind that.
        next: u64,
    },
    /// A command that empties everything is among those that are to be run again.
    #[error(
        "stopped in front of `{command}` at offset {offset}, which would empty what is there: {} --with-flushes has it run again",
        if *in_transaction {
            "it stands in a transaction, of which nothing runs now;".into()
        } else {
            format!("--from {next} goes on behind it,")
        }
    )]
    DumpFlush {
        /// Where it is.
        offset: u64,
        /// The command.
        command: String,
        /// What is behind it.
        next: u64,
        /// Whether it is a part of a transaction.
        in_transaction: bool,
    },
    /// There are functions, and the version of the file has no place for them.
    #[error(
        "the store has {count} {} of functions, which Redis 5 and 6 do not know: say --without-functions to leave them out, or          --rdb-version 10 for Redis 7", if *count == 1 { "library" } else { "libraries" }
    )]
    ExportFunctions {
        /// How many libraries.
        count: usize,
    },
    /// Another process makes a backup or an export.
    #[error("another backup or export of {} is under way", path.display())]
    BackupUnderWay {
        /// Of what.
        path: PathBuf,
    },
    /// The files changed each time that they were looked at.
    #[error("the files in {} change too fast to be linked; try again", path.display())]
    Unsteady {
        /// Where.
        path: PathBuf,
    },
    /// Where backups are kept.
    #[error("cannot {action} {name}")]
    Archive {
        /// What was tried.
        action: &'static str,
        /// With what.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no such backup.
    #[error("there is no such backup in {archive}: {text}")]
    NoBackup {
        /// Where it was looked for.
        archive: String,
        /// What there is.
        text: String,
    },
    /// A backup is damaged. Nothing was restored.
    #[error(
        "the backup is damaged or cannot be used, {name}: {reason}; nothing was restored, try an older backup (--backup)"
    )]
    BackupDamaged {
        /// Which file.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// What is restored must not be mixed with what is there.
    #[error("{} is not empty: a backup is restored into a new folder", path.display())]
    NotEmpty {
        /// Which folder.
        path: PathBuf,
    },
    /// A thread that reads and writes clients' sockets has ended before the store did.
    #[error("a thread of the clients' sockets has ended (io-threads): restart, and clients come back")]
    Lane,
    /// Too few files may be open.
    #[error(
        "your current 'ulimit -n' of {limit} is not enough for the store to start: make it {least} at least (LimitNOFILE= in a \
         unit of systemd), or lower maxclients"
    )]
    Descriptors {
        /// How many may.
        limit: u64,
        /// How many are needed.
        least: u64,
    },
    /// The loop's own means failed.
    #[error("the event loop failed")]
    Loop(#[from] io::Error),
}

/// What is most likely when an address cannot be listened on.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ": is another server running there?",
        io::ErrorKind::AddrNotAvailable => ": is it an address of this machine?",
        _ => "",
    }
}

impl From<oplog::LogError> for StoreError {
    fn from(error: oplog::LogError) -> Self {
        Self::Shard(error.into())
    }
}

impl From<engine::Error> for StoreError {
    fn from(error: engine::Error) -> Self {
        Self::Shard(error.into())
    }
}
