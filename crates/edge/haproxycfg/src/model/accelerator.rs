//! `vcl`: a program of VCL that answers requests from a cache.

use std::sync::Arc;

use accelerator::settings::Settings;
use vcl::program::Program;

/// A program, and what it is run with.
#[derive(Clone, Debug)]
pub struct Accelerator {
    /// The file that it stands in.
    pub path: String,
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

/// A storage: `[NAME=]malloc[,SIZE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    /// Its name.
    pub name: String,
    /// Bytes at most; `None` for no bound of its own.
    pub bytes: Option<u64>,
}
