//! A copy of the coordinator's record in the folder (`record.json`): what a cluster is made of again when its coordinator is gone.
//!
//! NOTE: a host votes by a record only when its copy of that is on the disk (see [`cluster::rescue`]).

use std::{
    fs, io,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{
    Epoch, GroupId,
    history::{Head, Relation},
    model::InSync,
    record::{self, RecordCopy, Standing},
};
use coord::{Coordinator, keys::Keys};

use crate::{
    error::AgentError,
    options::Folder,
    processes,
    records::{Change, Records},
};

/// How long after a failure it is written again.
const AGAIN: Duration = Duration::from_millis(500);

/// What is in the folder.
#[derive(Debug)]
pub struct KeptCopy {
    folder: Folder,
    copy: RecordCopy,
    /// What it was made of.
    made_of: Option<(Epoch, u64, Head)>,
    /// Why it cannot be written, and when that was found out.
    failed: Option<(String, Instant)>,
}

/// What the coordinator's record is to a host with a copy, and that record.
///
/// # Errors
///
/// The coordinator does not answer, or has what makes no sense.
pub fn standing(
    coordinator: &Arc<dyn Coordinator>,
    keys: &Keys,
    copy: &RecordCopy,
) -> Result<(Standing, RecordCopy), AgentError> {
    let known = Records::read(Arc::clone(coordinator), keys.clone())?.copy();
    let standing = record::standing(copy, &known);
    // A rescue may have left changes of another branch there.
    let is_by_itself = known.history.rescues.iter().all(|rescue| copy.history.rescues.contains(rescue));
    if standing == Standing::Continues
        && is_by_itself
        && copy.history.relation_of(&known.history) == Relation::Continues
    {
        // Marks of long ago are forgotten; the change itself is kept for longer.
        let change = coordinator.read(&keys.change(copy.cluster.epoch))?;
        let change: Option<Change> = change.and_then(|change| serde_json::from_slice(&change.value).ok());
        let own = &copy.history.epoch_mark;
        if change.is_some_and(|change| !own.is_empty() && !change.mark.is_empty() && change.mark != *own) {
            return Ok((Standing::Forked { after: copy.history.agreed_up_to(&known.history) }, known));
        }
    }
    Ok((standing, known))
}

/// Reads the copy of a folder, if there is one.
///
/// # Errors
///
/// The file cannot be read.
pub fn read(folder: &Folder) -> Result<Option<RecordCopy>, AgentError> {
    let path = folder.record();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(AgentError::File { path, source }),
    };
    parsed(&text, &path.display().to_string()).map(Some)
}

/// Reads a copy.
///
/// # Errors
///
/// It is none.
pub fn parsed(text: &str, place: &str) -> Result<RecordCopy, AgentError> {
    let unreadable = |error: serde_json::Error| AgentError::Unreadable {
        place: place.to_owned(),
        problem: format!("{error}; it is no copy of a cluster's record (record.json)"),
    };
    serde_json::from_str(text).map_err(unreadable)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl KeptCopy {
    /// That of a folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn of(folder: &Folder) -> Result<Self, AgentError> {
        let copy = read(folder)?.unwrap_or_default();
        Ok(Self { folder: folder.clone(), copy, made_of: None, failed: None })
    }

    /// The copy.
    #[must_use]
    pub fn copy(&self) -> &RecordCopy {
        &self.copy
    }

    /// Why it cannot be written.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.failed.as_ref().map(|(problem, _)| problem.as_str())
    }

    /// Has the folder know what the coordinator has, if that is news. Says whether it is on the disk. A disk that fails is tried again later.
    pub fn keep(&mut self, records: &Records) -> bool {
        let serials = records.in_sync_all().values().map(|(_, version)| *version).max().unwrap_or(0);
        let made_of = Some((records.cluster.epoch, serials, records.history_of_record().head()));
        if records.cluster.epoch == 0 || self.made_of == made_of {
            return true;
        }
        if self.failed.as_ref().is_some_and(|(_, at)| at.elapsed() < AGAIN) {
            return false;
        }
        let mut copy = RecordCopy { at: now(), ..records.copy() };
        let since = |(group, in_sync): (&GroupId, &InSync)| {
            let known = self.copy.in_sync.get(group).filter(|known| known.members == in_sync.members);
            (*group, known.and_then(|_| self.copy.in_sync_since.get(group)).copied().unwrap_or(copy.at))
        };
        copy.in_sync_since = copy.in_sync.iter().map(since).collect();
        // What was read from the disk is there.
        let is_there = RecordCopy { at: self.copy.at, ..copy.clone() } == self.copy;
        let path = self.folder.record();
        let text = serde_json::to_vec(&copy).unwrap_or_default();
        match if is_there { Ok(()) } else { processes::replace(&path, &text) } {
            Ok(()) => {
                (self.copy, self.made_of, self.failed) = (copy, made_of, None);
                true
            }
            Err(error) => {
                self.failed = Some((format!("{}: {error}", path.display()), Instant::now()));
                false
            }
        }
    }
}
