//! How far servers were, in the folder (`heights.json`): what tells the next leader that a store's folder was set back meanwhile
//! (see [`cluster::heights`]). A thread of its own writes it: nobody waits for the disk.

use std::{
    fs, io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cluster::heights::AllHeights;
use serde::{Deserialize, Serialize};

use crate::{board::Board, options::Folder, processes};

/// How often it is looked whether there is news.
const EACH: Duration = Duration::from_millis(200);
/// A slow disk is left alone for so many times what it has taken.
const PAUSES: u32 = 10;
/// The version of the file.
const VERSION: u32 = 1;

/// What is in the file. One of before there were versions has the groups alone.
#[derive(Serialize, Deserialize)]
struct Contents {
    version: u32,
    groups: AllHeights,
}

/// Which version a file is of, if it says so.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// What a folder has.
#[derive(Debug)]
pub struct KeptHeights {
    folder: Folder,
    written: AllHeights,
}

/// What a folder has; nothing, and why, if it cannot be read: then the other hosts remember it.
#[must_use]
pub fn read(folder: &Folder) -> (AllHeights, Option<String>) {
    let path = folder.heights();
    let problem = |why: &dyn std::fmt::Display| {
        (AllHeights::default(), Some(format!("{}: {why}; it is written anew", path.display())))
    };
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (AllHeights::default(), None),
        Err(error) => return problem(&error),
    };
    let known = match serde_json::from_slice(&text) {
        Ok(Versioned { version: VERSION }) => serde_json::from_slice(&text).map(|contents: Contents| contents.groups),
        Ok(Versioned { version }) => {
            return problem(&format!("a later version of tidegate has written it (version {version} of the file)"));
        }
        Err(_) => serde_json::from_slice(&text),
    };
    known.map_or_else(|error| problem(&error), |groups| (groups, None))
}

impl KeptHeights {
    /// That of a folder, which has this.
    #[must_use]
    pub fn new(folder: Folder, written: AllHeights) -> Self {
        Self { folder, written }
    }

    /// Writes what is remembered, if that is news. Says whether it was.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn keep(&mut self, heights: &AllHeights) -> io::Result<bool> {
        if *heights == self.written {
            return Ok(false);
        }
        let contents = Contents { version: VERSION, groups: heights.clone() };
        processes::replace(&self.folder.heights(), &serde_json::to_vec(&contents).unwrap_or_default())?;
        self.written.clone_from(heights);
        Ok(true)
    }
}

/// Writes what the host's voter remembers, from now on. `tell` is told of failures, each once.
///
/// # Errors
///
/// The system has no thread left.
pub fn start(mut kept: KeptHeights, board: Arc<Board>, tell: impl Fn(String) + Send + 'static) -> io::Result<()> {
    let write = move || {
        let mut last_problem = None;
        loop {
            let known = board.look().voter.heights().clone();
            let begun = Instant::now();
            let problem = kept.keep(&known).err().map(|error| {
                format!("how far servers are is not written: {}: {error}", kept.folder.heights().display())
            });
            thread::sleep(EACH.max(begun.elapsed() * PAUSES));
            if problem != last_problem {
                problem.iter().cloned().for_each(&tell);
                last_problem = problem;
            }
        }
    };
    thread::Builder::new().name("heights".into()).spawn(write).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use cluster::heights::Heights;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().to_owned());
        (place, folder)
    }

    #[test]
    fn what_was_written_is_there_after_a_start() {
        let (_place, folder) = folder();
        assert_eq!(read(&folder), (AllHeights::default(), None));
        let mut known = AllHeights::default();
        known.take_group(1, &Heights { reign: 3, of: [("a".to_owned(), 7)].into(), ..Heights::default() });
        let mut kept = KeptHeights::new(folder.clone(), AllHeights::default());
        assert!(kept.keep(&known).unwrap() && !kept.keep(&known).unwrap());
        assert_eq!(read(&folder), (known, None));
        let text = fs::read_to_string(folder.heights()).unwrap();
        assert_eq!(text, r#"{"version":1,"groups":{"1":{"config_epoch":3,"of":{"a":7}}}}"#);
    }

    #[test]
    fn files_of_other_versions_and_of_nobody() {
        let (_place, folder) = folder();
        // As the first version has written it.
        fs::write(folder.heights(), r#"{"1":{"config_epoch":3,"of":{"a":7}}}"#).unwrap();
        let (known, problem) = read(&folder);
        assert_eq!((known.of(1).map(|known| known.of["a"]), problem), (Some(7), None));
        for (text, expected) in [
            ("{", "heights.json: "),
            (r#"{"version":2,"groups":{}}"#, "a later version of tidegate"),
            ("[1]", "it is written anew"),
        ] {
            fs::write(folder.heights(), text).unwrap();
            let (none, problem) = read(&folder);
            assert!(none.is_empty());
            assert!(problem.as_deref().is_some_and(|problem| problem.contains(expected)), "{problem:?}");
        }
    }
}
