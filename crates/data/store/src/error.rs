//! Why a store did not start, or stopped.

use std::{io, path::PathBuf};

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Settings are wrong: each problem with its place and remedy.
    #[error("the settings cannot be used:\n  {}", .0.join("\n  "))]
    Settings(Vec<String>),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: is another server running there? (port and bind choose the address)")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
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
    /// The log.
    #[error("the log failed")]
    Log(#[from] oplog::LogError),
    /// A sync of the log failed: what has reached the disk, nobody knows.
    #[error("the log cannot be made durable ({0}): restart, and what is on the disk is read again")]
    Sync(String),
    /// The tables.
    #[error("the tables failed")]
    Tables(#[from] engine::Error),
    /// The tables are ahead of the log.
    #[error(
        "the tables have everything up to offset {applied}, but the log ends at {end}: files of the log are missing; restore \
         them, or a backup"
    )]
    LogBehind {
        /// What the tables have.
        applied: u64,
        /// Where the log ends.
        end: u64,
    },
    /// A command of the log does not run.
    #[error(
        "the command at offset {offset} of the log does not run ({reason}): it was written by a later version, or is damaged"
    )]
    Replay {
        /// Where it is.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// The loop's own means failed.
    #[error("the event loop failed")]
    Loop(#[from] io::Error),
}
