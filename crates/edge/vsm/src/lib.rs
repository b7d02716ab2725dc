//! Varnish's shared memory (VSM), as version 7.1 lays it out: counters and log of a running instance, for Varnish's own tools.
//!
//! A program that serves publishes; `varnishlog`, `varnishncsa`, `varnishstat`, `varnishtop`, `varnishhist`, `varnishadm` and
//! varnishtest read, without the program's knowing of them. The same crate reads what it or Debian's varnishd publishes.
//!
//! ```text
//! <working directory>/            -n: a path, or a name below /var/lib/varnish
//!     _.pid                       locked while the instance lives
//!     _.vsm_mgt/_.index           what the managing process publishes: arguments (Arg), its counters (Stat MGT)
//!     _.vsm_child/_.index         what the worker publishes: the log (Log), counters (Stat, with StatDoc)
//!               /_.<class>.<random>   the memory, one file each
//! ```
//!
//! An index is text. Its first line is `# <pid> <birth>`, each other one `+` or `-`, a file, an offset, a length, a class and a name.
//! Readers follow it as it grows, and begin anew when it is another file.
//!
//! # To publish
//!
//! ```no_run
//! use telemetry::vsl::VslTag;
//! use vsm::{counters::{Main, Vbe}, log::{LogBuffer, LogId}, WorkingDirectory};
//!
//! # fn main() -> Result<(), vsm::VsmError> {
//! let directory = WorkingDirectory::create(&vsm::instance_path("edge1"))?;
//! // The managing process: what varnishadm needs, and its own counters.
//! let mut manager = directory.manager()?;
//! manager.publish("Arg", "-T", b"127.0.0.1 6082\n")?;
//! // The worker: counters, one segment for each thing that is counted, and the log.
//! let mut worker = directory.worker()?;
//! let main = worker.counters::<Main>("MAIN")?;
//! main.add(Main::client_req, 1);
//! let backend = worker.counters::<Vbe>("VBE.boot.default")?;
//! backend.set(Vbe::conn, 3);
//! worker.remove(backend)?;
//!
//! let log = worker.log(80 << 20)?;
//! // Each thread has a writer, each transaction a buffer: its records go out as one.
//! let writer = log.writer();
//! let mut buffer = LogBuffer::new(LogId::client(32770), 16 * 1024);
//! buffer.record(&writer, VslTag::Begin, b"req 32769 rxreq");
//! buffer.record(&writer, VslTag::ReqMethod, b"GET");
//! buffer.end(&writer);
//! # Ok(())
//! # }
//! ```
//!
//! A counter may be written by several threads, but each `add` moves a line of memory between their processors: what is counted for
//! every request is better gathered by each thread on its own and written with `set` from time to time.

pub mod counters;
mod directory;
mod index;
pub mod log;
mod memory;
pub mod reader;

use std::path::PathBuf;

pub use directory::{MANAGER_FOLDER, STATE_FOLDER, WORKER_FOLDER, WorkingDirectory, instance_path};
pub use index::Publisher;

/// Why something could not be published or read.
#[derive(Debug, thiserror::Error)]
pub enum VsmError {
    /// A file or folder that the system refuses.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Another instance lives in the folder.
    #[error("{path} is in use by process {pid}: stop it, or give this instance another name with -n")]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process, as its file says.
        pid: String,
    },
    /// A name or class that an index cannot hold.
    #[error(
        "'{0}' cannot be the name of published memory: it is empty, too long, or has spaces, quotes or control characters"
    )]
    Name(String),
    /// A size that is of no use.
    #[error("a log of {bytes} bytes cannot be: it takes from {least} to {most}")]
    LogSize {
        /// Asked for.
        bytes: usize,
        /// Possible.
        least: usize,
        /// Possible.
        most: usize,
    },
    /// Nobody publishes there.
    #[error("no instance in {0}: is it running, and is the -n right?")]
    NotRunning(PathBuf),
    /// Memory that is not as it must be.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

impl VsmError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
