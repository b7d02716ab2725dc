//! Opens the coordinator of a cluster: a file of the folder, or etcd.

use std::{
    fs::{self, File, OpenOptions},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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

/// Whoever asks the agent is told what it waits for. Becomes true when it is told to end.
fn answer_meanwhile(options: &Options, waits: String) -> Result<Arc<AtomicBool>, AgentError> {
    let (desk, requests) = stranded::desk(Token::of_text(""), Login::default());
    http::listen(&options.folder, Arc::new(desk))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let answer = move || {
        for (request, answer) in requests {
            if stranded::is_down(&request) {
                let _ = answer.send(stranded::ending());
                told.store(true, Ordering::Relaxed);
                continue;
            }
            let _ = answer.send(Response::refused(503, format!("the agent has not begun: {waits}")));
        }
    };
    let no_thread = |error| AgentError::Other(format!("the system has no thread left: {error}"));
    thread::Builder::new().name("waiting".into()).spawn(answer).map_err(no_thread)?;
    Ok(is_over)
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
/// that up; `note` is told once what is waited for. Nothing: it was told to end while it waited.
///
/// # Errors
///
/// Another agent has the folder, a file is damaged, or it was to stop.
pub fn open(options: &Options, stops: &AtomicBool, note: impl Fn(&str)) -> Result<Option<Home>, AgentError> {
    let folder = options.folder.coordinator();
    if options.etcd.is_empty() {
        return embedded(options, &folder).map(Some);
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
    let mut is_over = None::<Arc<AtomicBool>>;
    while let Err(error) = etcd.read("/tidegate") {
        if stops.load(Ordering::Relaxed) {
            return Err(error.into());
        }
        if is_over.as_ref().is_some_and(|is_over| is_over.load(Ordering::Relaxed)) {
            let _ = fs::remove_file(options.folder.socket());
            return Ok(None);
        }
        let waits = format!("{error}; it is waited for");
        if is_over.is_none() {
            note(&waits);
            is_over = Some(answer_meanwhile(options, waits)?);
        }
        thread::sleep(AGAIN);
    }
    Ok(Some(Home { coordinator: Arc::new(etcd), lock: Some(lock) }))
}
