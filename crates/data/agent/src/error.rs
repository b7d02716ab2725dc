//! Why an agent does not run.

use std::{io, path::PathBuf};

use coord::CoordError;

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The coordinator.
    #[error(transparent)]
    Coordinator(#[from] CoordError),
    /// A file of the folder.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or a record says what makes no sense.
    #[error("{place} cannot be read: {problem}")]
    Unreadable {
        /// Which.
        place: String,
        /// Why.
        problem: String,
    },
    /// Another cluster was asked for than there is.
    #[error("{0}")]
    Other(String),
    /// The cluster is not changed so.
    #[error(transparent)]
    Refused(#[from] cluster::Refusal),
    /// Nobody answers.
    #[error("no agent answers on {} ({source}): start it with `tidegate cluster up --dir {}`", dir.display(), dir.display())]
    NotRunning {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It has heard the request, and its answer has not come.
    #[error("the agent of {} has not answered ({source}): what it was asked may be done all the same; `tidegate cluster status --dir {}` says how \
             it is", dir.display(), dir.display())]
    NotAnswered {
        /// The folder.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}
