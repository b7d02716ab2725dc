//! Opens the coordinator of a cluster: a file of the folder, or etcd.

use std::{
    fs::{self, File, OpenOptions},
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use coord::{CoordError, Coordinator, Embedded, Etcd};
use rustix::fs::{FlockOperation, flock};

use crate::{
    connection::Login,
    error::AgentError,
    http::{self, Response, Token},
    options::Options,
    stranded,
};

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

/// Whoever asks the agent is told what it waits for.
fn answer_meanwhile(options: &Options, waits: String) -> Result<(), AgentError> {
    let (desk, requests) = stranded::desk(Token::of_text(""), Login::default());
    http::listen(&options.folder, Arc::new(desk))?;
    let answer = move || {
        for (_, answer) in requests {
            let _ = answer.send(Response::refused(503, format!("the agent has not begun: {waits}")));
        }
    };
    let no_thread = |error| AgentError::Other(format!("the system has no thread left: {error}"));
    thread::Builder::new().name("waiting".into()).spawn(answer).map(drop).map_err(no_thread)
}

/// That of one machine. A damaged file is put aside when a rescue is to make another one.
fn embedded(options: &Options, folder: &Path) -> Result<Home, AgentError> {
    let dir = options.folder.path().display();
    let coordinator = match Embedded::open(folder) {
        Err(CoordError::Damaged { path, .. }) if options.is_rescue => {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let aside = path.with_extension(format!("damaged-{at}"));
            fs::rename(&path, &aside).map_err(|source| AgentError::File { path: path.clone(), source })?;
            Embedded::open(folder)
        }
        Err(CoordError::Damaged { path, at, problem }) => {
            return Err(AgentError::Other(format!(
                "{}: damaged at byte {at}: {problem}. Restore this file from a backup, or have it made anew of what the folder knows: \
                 `tidegate cluster rescue --dir {dir}`",
                path.display()
            )));
        }
        opened => opened,
    };
    Ok(Home { coordinator: Arc::new(coordinator?), lock: None })
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
        return embedded(options, &folder);
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
        let waits = format!("{error}; it is waited for");
        if !is_told {
            note(&waits);
            answer_meanwhile(options, waits)?;
            is_told = true;
        }
        thread::sleep(AGAIN);
    }
    Ok(Home { coordinator: Arc::new(etcd), lock: Some(lock) })
}
