//! Opens the coordinator of a cluster: a file of the folder, or etcd.

use std::{
    fs::{self, File, OpenOptions},
    sync::Arc,
    thread,
    time::Duration,
};

use coord::{CoordError, Coordinator, Embedded, Etcd};
use rustix::fs::{FlockOperation, flock};

use crate::{error::AgentError, options::Options};

/// How often etcd is asked for while it does not answer.
const AGAIN: Duration = Duration::from_millis(300);

/// A coordinator, and what is held for as long as it is used.
pub struct Home {
    /// The coordinator.
    pub coordinator: Arc<dyn Coordinator>,
    /// The lock of the folder, where the coordinator has none.
    pub lock: Option<File>,
}

impl std::fmt::Debug for Home {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Home").finish_non_exhaustive()
    }
}

/// Opens it. etcd that does not answer is waited for: after a power failure all of them start at the same time. `stops` says when to give
/// that up; `note` is told once what is waited for.
///
/// # Errors
///
/// Another agent has the folder, a file is damaged, or it was to stop.
pub fn open(options: &Options, stops: impl Fn() -> bool, note: impl Fn(&str)) -> Result<Home, AgentError> {
    let folder = options.folder.coordinator();
    if options.etcd.is_empty() {
        return Ok(Home { coordinator: Arc::new(Embedded::open(&folder)?), lock: None });
    }
    let failed = |source| AgentError::File { path: folder.clone(), source };
    if folder.join(coord::embedded::FILE).exists() {
        return Err(AgentError::Other(format!(
            "{} has the coordinator of a cluster of one machine: choose another --dir for the one with etcd",
            folder.display()
        )));
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| CoordError::InUse(folder.clone()))?;
    let etcd = Etcd::new(&options.etcd.join(","))?;
    let mut is_told = false;
    while let Err(error) = etcd.read("/tidegate") {
        if stops() {
            return Err(error.into());
        }
        if !is_told {
            note(&format!("{error}; it is waited for"));
            is_told = true;
        }
        thread::sleep(AGAIN);
    }
    Ok(Home { coordinator: Arc::new(etcd), lock: Some(lock) })
}
