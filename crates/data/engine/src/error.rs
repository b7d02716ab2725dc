//! What can go wrong below, and what it means for whoever asked.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Result of what touches an engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system said no. The same call may succeed later.
    #[error("input or output of the tables failed")]
    Io(#[source] io::Error),
    /// What was read is not what was written: a checksum does not match. Never served.
    #[error("the tables are damaged {place}{} (`tidegate restore` makes a folder of a backup)", In(file.as_deref()))]
    Damaged {
        /// Near which record.
        place: DamagePlace,
        /// In which file, if that is known.
        file: Option<PathBuf>,
        /// What the engine found.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A key is empty, too long or reserved, or a value is too long.
    #[error("a record cannot be stored: {0}")]
    Unfit(&'static str),
    /// The engine refuses for a reason of its own.
    #[error("the engine of the tables failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The engine broke down in the middle of a call: nothing that it holds in memory may be trusted.
    #[error("the engine of the tables broke down: {0}")]
    Broken(String),
}

impl Error {
    /// Whether there is no room left on the disk: nothing is lost, writing again may succeed when there is.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io(error)
            if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Engine(_))
    }

    /// Names the record where damage was found, if nobody did so far.
    pub(crate) fn at(self, key: impl FnOnce() -> DamagePlace) -> Self {
        match self {
            Self::Damaged { place: DamagePlace::Unknown, file, source } => Self::Damaged { place: key(), file, source },
            error => error,
        }
    }

    /// Names the file where damage was found.
    pub(crate) fn in_file(self, path: impl FnOnce() -> Option<PathBuf>) -> Self {
        match self {
            Self::Damaged { place, file: None, source } => Self::Damaged { place, file: path(), source },
            error => error,
        }
    }

    /// Damage whose place is not known yet.
    pub(crate) fn damaged(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Damaged { place: DamagePlace::Unknown, file: None, source: source.into() }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where damage was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamagePlace {
    /// The engine could not say.
    Unknown,
    /// In the record of this key.
    At(Vec<u8>),
    /// In a record behind this key, in the direction of the scan.
    Behind(Vec<u8>),
}

/// A file, as a part of a sentence.
struct In<'a>(Option<&'a Path>);

impl std::fmt::Display for In<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |path| write!(out, " in {}", path.display()))
    }
}

impl std::fmt::Display for DamagePlace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => out.write_str("at a place that is not known"),
            Self::At(key) => write!(out, "at record \"{}\"", key.escape_ascii()),
            Self::Behind(key) => write!(out, "behind record \"{}\"", key.escape_ascii()),
        }
    }
}
