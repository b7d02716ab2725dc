//! The seam to what makes backups of this host's stores, for somebody on another host: begun first, cut at a moment that is agreed on
//! with other stores, then described and fetched file by file.

use std::{
    fmt,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Why a part of a backup is not done.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is none of that number: it has ended, or its agent was started anew.
    #[error("there is no backup {0} under way here, or it was given up: begin another one")]
    NoBackup(u64),
    /// Another one has to end first.
    #[error("{0} backups are under way here: wait for them")]
    TooMany(usize),
    /// It cannot be done, and why.
    #[error("{0}")]
    Failed(String),
}

/// Bytes whose number is known, which are sent as they are read.
pub struct Content {
    /// How many.
    pub len: u64,
    /// They.
    pub bytes: Box<dyn Read + Send>,
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Content").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Content {
    /// What is at hand.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, bytes: Box::new(io::Cursor::new(bytes)) }
    }
}

/// What is asked about a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Begin one of a store's folder.
    Begin {
        /// The folder.
        dir: PathBuf,
    },
    /// It goes up to an offset of the log.
    Cut {
        /// Which.
        number: u64,
        /// The offset.
        until: u64,
        /// Where the log of the one before ended.
        former_end: Option<u64>,
    },
    /// What it consists of.
    Describe {
        /// Which.
        number: u64,
    },
    /// A file of it.
    File {
        /// Which.
        number: u64,
        /// The file.
        digest: String,
    },
    /// It is not needed any more.
    End {
        /// Which.
        number: u64,
    },
}

/// What makes backups. Threads that serve requests call it, so it may take time.
pub trait Archivist: Send + Sync {
    /// Begins one of a store's folder; gives its number.
    ///
    /// # Errors
    ///
    /// It cannot begin.
    fn begin(&self, dir: &Path) -> Result<u64, BackupError>;

    /// It goes up to an offset of the log that was reached since.
    ///
    /// # Errors
    ///
    /// There is none, or its log is not there up to that offset.
    fn cut(&self, number: u64, until: u64, former_end: Option<u64>) -> Result<(), BackupError>;

    /// What it consists of.
    ///
    /// # Errors
    ///
    /// There is none, or it was not cut, or its data is damaged.
    fn describe(&self, number: u64) -> Result<Content, BackupError>;

    /// A file of it.
    ///
    /// # Errors
    ///
    /// There is none, or it was not described.
    fn file(&self, number: u64, digest: &str) -> Result<Content, BackupError>;

    /// It is not needed any more.
    fn end(&self, number: u64);
}
