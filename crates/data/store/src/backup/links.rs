//! Links to the files of a store that goes on meanwhile.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use oplog::{Offset, Reader, disk::RealDisk};

use super::files;
use crate::StoreError;

/// How often links are tried anew because the store went on in between.
const TRIES_MAX: usize = 20;

/// A folder of links to a store's files, beside them. It goes with its value.
pub struct Links {
    /// The folder.
    pub folder: PathBuf,
    _lock: File,
}

/// What the linked tables have of the log; nothing if there is nothing in them.
#[derive(Clone, Copy, Debug)]
pub struct Applied(Option<Offset>);

/// What was linked.
pub struct Linked {
    /// What the tables have.
    pub applied: Offset,
    /// Where the log ends, and when the last of it was appended; 0 if there is nothing behind the tables.
    pub end: Offset,
    /// As above.
    pub end_ms: u64,
    /// The id of the log's history.
    pub replication_id: String,
    /// The log's files and how much of each is good.
    pub segments: Vec<(PathBuf, u64)>,
}

impl Links {
    /// An empty one. No other backup or export of the store begins while it is there.
    pub fn new(shard: &Path) -> Result<Self, StoreError> {
        let folder = shard.join("backup");
        let failed = |source| StoreError::Folder { path: folder.clone(), source };
        let lock = File::create(shard.join("backup-lock")).map_err(failed)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StoreError::BackupUnderWay { path: shard.to_owned() })?;
        let links = Self { folder: folder.clone(), _lock: lock };
        // One that did not come to its end may have left some.
        links.clear().map_err(failed)?;
        Ok(links)
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Links tables, and the log that belongs to them; also that since `former`, if it is still there, so that there is no
    /// gap between two backups.
    pub fn all(&self, shard: &Path, former: Option<Offset>) -> Result<Linked, StoreError> {
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let Some(applied) = self.link(shard)? else { continue };
            match self.read(applied, former, None) {
                Ok(linked) => return Ok(linked),
                // It went on too fast: tables and log do not belong together.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(StoreError::Unsteady { path: shard.to_owned() }))
    }

    /// Links tables, and the log that belongs to them. What of it is good is read afterwards, when the log may have grown.
    pub fn tables_and_log(&self, shard: &Path) -> Result<Applied, StoreError> {
        let mut last = None;
        for _ in 0..TRIES_MAX {
            let Some(applied) = self.link(shard)? else { continue };
            match self.read(applied, None, None) {
                Ok(_) => return Ok(applied),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(StoreError::Unsteady { path: shard.to_owned() }))
    }

    /// The same tables with the log up to an offset, which was not there yet when they were linked. What was appended together with what
    /// is before that offset stays together.
    pub fn up_to(
        &self,
        shard: &Path,
        applied: Applied,
        former: Option<Offset>,
        until: Offset,
    ) -> Result<Linked, StoreError> {
        let failed = |source| StoreError::Folder { path: self.folder.clone(), source };
        self.log(&shard.join("log")).map_err(failed)?;
        let linked = self.read(applied, former, Some(until))?;
        if linked.end < until {
            return Err(StoreError::Unsteady { path: shard.to_owned() });
        }
        Ok(linked)
    }

    /// Links what there is now. Nothing if the tables changed meanwhile.
    fn link(&self, shard: &Path) -> Result<Option<Applied>, StoreError> {
        let failed = |source| StoreError::Folder { path: self.folder.clone(), source };
        self.clear().map_err(failed)?;
        fs::create_dir_all(self.folder.join("log")).map_err(failed)?;
        // NOTE: the tables first. The log behind them is kept for as long as no later tables are on the disk.
        if !self.tables(&shard.join("tables/tree")).map_err(failed)? {
            return Ok(None);
        }
        let applied = engine::open_frozen(&self.folder.join("tables"))?.applied()?;
        self.log(&shard.join("log")).map_err(failed)?;
        Ok(Some(Applied(applied.map(|offset| Offset(offset.0)))))
    }

    fn read(&self, applied: Applied, former: Option<Offset>, until: Option<Offset>) -> Result<Linked, StoreError> {
        let Applied(applied) = applied;
        let with_former = former.filter(|former| applied.is_some_and(|applied| *former < applied));
        let read = with_former.and_then(|former| self.read_log(applied, Some(former), until).ok());
        read.map_or_else(|| self.read_log(applied, applied, until), Ok)
    }

    /// Links the tables' files. False if the list of them was exchanged meanwhile.
    fn tables(&self, tree: &Path) -> io::Result<bool> {
        let to = self.folder.join("tables/tree");
        fs::create_dir_all(&to)?;
        let before = fs::read(tree.join("current"))?;
        for path in files::below(tree)? {
            let link = to.join(&path);
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder)?;
            }
            match fs::hard_link(tree.join(&path), link) {
                // It may have gone; whether it is missed is seen below.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(fs::read(tree.join("current"))? == before && fs::read(to.join("current"))? == before)
    }

    fn log(&self, log: &Path) -> io::Result<()> {
        for path in files::below(log)? {
            if path.extension().is_some_and(|extension| extension == "oplog") {
                let linked = fs::hard_link(log.join(&path), self.folder.join("log").join(&path));
                // It may have gone, or be linked already.
                if let Err(error) = linked
                    && !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Checks the log from an offset to its end, or to another offset; what of which file that is.
    fn read_log(
        &self,
        applied: Option<Offset>,
        from: Option<Offset>,
        until: Option<Offset>,
    ) -> Result<Linked, StoreError> {
        let folder = self.folder.join("log");
        let mut reader = Reader::open(RealDisk, &folder, from)?;
        let mut linked = Linked {
            applied: applied.unwrap_or_default(),
            end: applied.unwrap_or_default(),
            end_ms: 0,
            replication_id: String::new(),
            segments: Vec::new(),
        };
        if applied.is_none() {
            // There is nothing in the tables, so the log has to be whole.
            let first = Reader::open(RealDisk, &folder, Some(Offset(0)));
            first.map(drop)?;
        }
        loop {
            let next = reader.next()?.map(|entry| (entry.end(), entry.time_ms));
            let (path, position) = reader.place();
            let name = PathBuf::from(path.file_name().unwrap_or_default());
            match linked.segments.last_mut() {
                Some((last, len)) if *last == name => *len = position,
                _ => linked.segments.push((name, position)),
            }
            match next {
                Some((end, time_ms)) => (linked.end, linked.end_ms) = (end, time_ms),
                None => break,
            }
            if until.is_some_and(|until| linked.end >= until) {
                break;
            }
        }
        linked.replication_id = reader.replication_id().to_string();
        Ok(linked)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next backup.
        let _ = self.clear();
    }
}
