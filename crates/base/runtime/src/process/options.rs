//! How [`super::run`] runs a role.

use crate::listen::ListenSpec;
use std::path::PathBuf;

/// How to run a role; most of it comes from the command line.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// With a master process (`-W`), or all in one.
    pub mode: Mode,
    /// Detach from the terminal once serving (`-D`).
    pub daemon: bool,
    /// File that gets the process number (`-p`).
    pub pidfile: Option<PathBuf>,
    /// Old processes to end once this one serves (`-sf`, `-st`).
    pub old_processes: Option<OldProcesses>,
    /// Socket of an old process to take listening sockets from (`-x`), as HAProxy's `_getsocks`.
    pub take_sockets_from: Option<PathBuf>,
    /// Where the master takes commands (`-S`), besides the abstract socket that [`super::control`] finds by process
    /// number.
    pub control: Vec<ListenSpec>,
    /// How a master makes itself known; not at all without one.
    pub introduction: Option<Introduction>,
}

/// What a master tells others of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The folder of its [run file](super::run_file).
    pub folder: PathBuf,
    /// What it runs, for people.
    pub configuration: Vec<String>,
    /// What it says on standard output when it serves for the first time.
    pub greeting: String,
}

/// The shape of the service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// A master process and a worker process.
    #[default]
    MasterWorker,
    /// One process (HAProxy without `-W`).
    Single,
}

/// Processes that the new one takes over from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldProcesses {
    /// Their numbers.
    pub pids: Vec<u32>,
    /// What they are told.
    pub how: EndOldProcesses,
}

/// How old processes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOldProcesses {
    /// `-sf`: they finish what they have (SIGUSR1).
    Finish,
    /// `-st`: at once (SIGTERM).
    Terminate,
}
