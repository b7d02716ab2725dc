//! A copy of the coordinator's record in the folder (`record.json`): what a cluster is made of again when its coordinator is gone.
//!
//! NOTE: a host votes by a record only when its copy of that is on the disk (see [`cluster::rescue`]).

use std::{
    fs, io,
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{Epoch, GroupId, model::InSync, rescue::RecordCopy};

use crate::{error::AgentError, options::Folder, processes, records::Records};

/// What is in the folder.
#[derive(Debug)]
pub struct KeptCopy {
    folder: Folder,
    copy: RecordCopy,
    /// What it was made of.
    made_of: Option<(Epoch, u64)>,
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
        Ok(Self { folder: folder.clone(), copy, made_of: None })
    }

    /// The copy.
    #[must_use]
    pub fn copy(&self) -> &RecordCopy {
        &self.copy
    }

    /// Has the folder know what the coordinator has, if that is news.
    ///
    /// # Errors
    ///
    /// The disk fails. It is tried again the next time.
    pub fn keep(&mut self, records: &Records) -> Result<(), AgentError> {
        let serials = records.in_sync_all().values().map(|(_, version)| *version).max().unwrap_or(0);
        let made_of = Some((records.cluster.epoch, serials));
        if records.cluster.epoch == 0 || self.made_of == made_of {
            return Ok(());
        }
        let in_sync = records.in_sync_all().iter().map(|(group, (in_sync, _))| (*group, in_sync.clone()));
        let mut copy = RecordCopy {
            at: now(),
            cluster: records.cluster.clone(),
            in_sync: in_sync.collect(),
            term: records.leader().map_or(0, |leader| leader.term),
            ..RecordCopy::default()
        };
        let since = |(group, in_sync): (&GroupId, &InSync)| {
            let known = self.copy.in_sync.get(group).filter(|known| known.members == in_sync.members);
            (*group, known.and_then(|_| self.copy.in_sync_since.get(group)).copied().unwrap_or(copy.at))
        };
        copy.in_sync_since = copy.in_sync.iter().map(since).collect();
        let path = self.folder.record();
        let text = serde_json::to_vec(&copy).unwrap_or_default();
        processes::replace(&path, &text).map_err(|source| AgentError::File { path, source })?;
        (self.copy, self.made_of) = (copy, made_of);
        Ok(())
    }
}
