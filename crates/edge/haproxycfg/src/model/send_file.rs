//! `x-accel-redirect` and `x-sendfile`: files that a response names, which are sent in its body's place.

use std::path::PathBuf;

use web::CleanPath;

/// A folder of such files.
#[derive(Clone, Debug)]
pub struct SendFile {
    /// How a response names them.
    pub named_by: NamedBy,
    /// The folder.
    pub folder: PathBuf,
}

/// How a response names a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// `X-Accel-Redirect`: by a path of URLs.
    Redirect {
        /// Paths beneath this one are meant.
        prefix: CleanPath,
        /// `root`: it is a part of the name in the folder.
        is_kept: bool,
    },
    /// `X-Sendfile`: by the path of the file, which is in the folder.
    Path,
}

impl NamedBy {
    /// The keyword of such lines.
    #[must_use]
    pub fn keyword(&self) -> &'static str {
        match self {
            Self::Redirect { .. } => "x-accel-redirect",
            Self::Path => "x-sendfile",
        }
    }
}
