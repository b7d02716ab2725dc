//! Why a shard cannot go on.

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
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
    /// There are no tables, and the log does not go back to the beginning.
    #[error(
        "the tables are missing, and the log begins only at offset {first}: most of the data would be lost; put the folder \
         `tables` back, or restore a backup"
    )]
    TablesMissing {
        /// Where the log begins.
        first: u64,
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
    /// A command changed something and then could not read the rest from the disk.
    #[error(
        "a command could not be finished ({0}): restart, and the log is run again up to before it; if that happens again, restore \
         a backup"
    )]
    Halved(String),
    /// Something changed on a shard that follows another one, and not by that one's log.
    #[error(
        "a command took effect on a replica that its master's log does not have: restart, and the replica goes on from its own log"
    )]
    OwnWrite,
    /// The libraries of functions in the tables do not load.
    #[error("the libraries of functions cannot be loaded ({0}): they were written by a later version, or are damaged")]
    Functions(String),
}

/// An error with its causes.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
