//! `vcl`: a program of VCL that answers requests from a cache.

use std::sync::Arc;

use accelerator::settings::Settings;
use vcl::program::Program;

/// A program, and what it is run with.
#[derive(Clone, Debug)]
pub struct Accelerator {
    /// The file that it stands in.
    pub path: String,
    /// How the log and the counters call it.
    pub name: String,
    /// Its text.
    pub text: Arc<str>,
    /// Whether programs come from a manager (`managed`), and none from the configuration.
    pub is_managed: bool,
    /// The program, once all proxies are known.
    pub program: Option<Arc<Program>>,
    /// `storage`, in order.
    pub storages: Vec<StorageSpec>,
    /// `param` and `identity`.
    pub settings: Settings,
}

/// A storage: `[NAME=]malloc[,SIZE]` or `[NAME=]file,PATH,SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    /// Its name.
    pub name: String,
    /// Where it keeps objects.
    pub kind: StorageKind,
}

/// Where a storage keeps objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// In memory: bytes at most; `None` for no bound of its own.
    Malloc(Option<u64>),
    /// In a file, which survives the process.
    File {
        /// The file. Its journal stands beside it.
        path: String,
        /// Bytes at most.
        bytes: u64,
    },
}

impl StorageKind {
    /// Whether it is a file that is too small to be of use.
    #[must_use]
    pub fn is_too_small(&self) -> bool {
        matches!(self, Self::File { bytes, .. } if *bytes < 1 << 20)
    }
}
