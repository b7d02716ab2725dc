//! How far servers were, in the folder (`heights.json`): what tells the next leader that a store's folder was set back meanwhile
//! (see [`cluster::heights`]).

use std::{
    fs, io,
    time::{Duration, Instant},
};

use cluster::heights::AllHeights;

use crate::{options::Folder, processes};

/// How often it is written at most.
const EACH: Duration = Duration::from_secs(1);

/// What is in the folder.
#[derive(Debug)]
pub struct KeptHeights {
    folder: Folder,
    written: AllHeights,
    tried_at: Option<Instant>,
}

/// What a folder has; nothing, and why, if it cannot be read: then the other hosts remember it.
#[must_use]
pub fn read(folder: &Folder) -> (AllHeights, Option<String>) {
    let path = folder.heights();
    let problem = |error: &dyn std::error::Error| Some(format!("{}: {error}; it is written anew", path.display()));
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_or_else(|error| (AllHeights::default(), problem(&error)), |known| (known, None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (AllHeights::default(), None),
        Err(error) => (AllHeights::default(), problem(&error)),
    }
}

impl KeptHeights {
    /// That of a folder.
    #[must_use]
    pub fn of(folder: &Folder) -> Self {
        Self { folder: folder.clone(), written: read(folder).0, tried_at: None }
    }

    /// Whether it may be looked at again whether there is news.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.tried_at.is_none_or(|at| at.elapsed() >= EACH)
    }

    /// Writes what is remembered, if that is news.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn keep(&mut self, heights: &AllHeights) -> io::Result<()> {
        if *heights == self.written {
            return Ok(());
        }
        self.tried_at = Some(Instant::now());
        processes::replace(&self.folder.heights(), &serde_json::to_vec(heights).unwrap_or_default())?;
        self.written.clone_from(heights);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use cluster::heights::Heights;

    use super::*;

    #[test]
    fn what_was_written_is_there_after_a_start() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().to_owned());
        let mut known = AllHeights::default();
        known.take_group(1, &Heights { config_epoch: 3, of: [("a".to_owned(), 7)].into() });
        let mut kept = KeptHeights::of(&folder);
        assert!(kept.is_due());
        kept.keep(&known).unwrap();
        assert!(!kept.is_due());
        assert_eq!(read(&folder), (known, None));
        fs::write(folder.heights(), "{").unwrap();
        let (none, problem) = read(&folder);
        assert!(none.is_empty() && problem.unwrap().contains("heights.json"));
    }
}
