//! Backups of a store that goes on serving, and what becomes of them.
//!
//! A store needs not be asked: what is on the disk is, at every moment, what a crash would leave, and a start makes all data
//! of that. The tables lie in files that never change, and a list of them that is exchanged as a whole; the log only grows.
//! So a backup links the tables' files of one list, then the log's from there on, into a folder of its own (which keeps them
//! in place, whatever the store does meanwhile) and copies from there. Asking the server instead would make it read all data
//! through its loop or its memory, and a folder whose server is gone could not be backed up.
//!
//! Files are kept in the archive by their SHA-256, so one that is there already is not copied again. The description of the
//! backup, which names them all, is written last: a backup without one is none.

mod files;
mod manifest;
mod prune;
mod restore;
mod running;

use std::{
    fs::{self, File},
    io::{self, Read},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use oplog::{Offset, Reader, disk::RealDisk};

pub use manifest::{Item, Manifest};
pub use prune::Removed;
pub use restore::{Restore, restore};
pub use running::folder_of;

use crate::{StoreError, archive::Archive, clock, persistence::engines};

/// How often links are tried anew because the store went on in between.
const TRIES_MAX: usize = 20;

/// What was done.
#[derive(Debug, Clone)]
pub struct Made {
    /// The backup's description.
    pub manifest: Manifest,
    /// Its name.
    pub name: String,
    /// Files and bytes that were copied; the others were there.
    pub copied: (usize, u64),
    /// What is not kept any more.
    pub removed: Removed,
}

/// Makes a backup of a store's folder, whether it is served or not.
///
/// # Errors
///
/// The folder is none of a store, or cannot be linked; the archive's; data that is damaged.
pub fn backup(dir: &Path, archive: &dyn Archive) -> Result<Made, StoreError> {
    backup_and_keep(dir, archive, None)
}

/// The same; then removes all backups but the newest ones, this one included, if `keep` says how many. An archive is for one
/// store: what another one has in it would go too.
///
/// # Errors
///
/// Those of [`backup`]; a backup that is to be kept cannot be read. Then the new one is there and nothing is removed.
pub fn backup_and_keep(dir: &Path, archive: &dyn Archive, keep: Option<NonZeroUsize>) -> Result<Made, StoreError> {
    let shard = dir.join("shard-0");
    if !shard.join("log").is_dir() {
        return Err(StoreError::NoStore { path: dir.to_owned() });
    }
    let rocksdb = shard.join(engines::ROCKSDB);
    if rocksdb.exists() {
        return Err(StoreError::NotForRocksdb { action: "tidegate backup", path: rocksdb });
    }
    let created_ms = clock::now().unsigned_abs();
    let former = newest(archive)?;
    let links = Links::new(&shard)?;
    let linked = links.all(&shard, former.as_ref().map(|former| Offset(former.log_end)))?;
    let records = engine::open_frozen(&links.folder.join("tables"))?;
    // What the tables do not need has gone by being opened.
    let summary = engine::summary(&*records)?;
    drop(records);
    let mut copier = files::Copier::new(archive, former.as_ref())?;
    let mut tables = Vec::new();
    for path in files::below(&links.folder.join("tables/tree")).map_err(StoreError::Loop)? {
        tables.push(copier.put(&links.folder.join("tables/tree"), &path, None)?);
    }
    let mut log = Vec::new();
    for (path, len) in &linked.segments {
        log.push(copier.put(&links.folder.join("log"), path, Some(*len))?);
    }
    let manifest = Manifest {
        version: manifest::VERSION,
        created_ms,
        replication_id: linked.replication_id,
        applied: linked.applied.0,
        log_end: linked.end.0,
        log_end_ms: linked.end_ms,
        tables,
        log,
        records: summary.into(),
    };
    let (name, bytes) = (manifest.name(), manifest.encode()?);
    archive.put(&name, &mut bytes.as_slice(), bytes.len() as u64).map_err(|source| StoreError::Archive {
        action: "write",
        name: format!("{}/{name}", archive.name()),
        source,
    })?;
    let removed = keep.map_or(Ok(Removed::default()), |keep| prune::keep_newest(archive, keep))?;
    // No other backup of this store begins before this.
    drop(links);
    Ok(Made { manifest, name, copied: copier.copied, removed })
}

/// The names of all backups of an archive, the oldest first.
pub fn names(archive: &dyn Archive) -> Result<Vec<String>, StoreError> {
    let listed = archive.list("backups").map_err(|source| StoreError::Archive {
        action: "list",
        name: archive.name(),
        source,
    })?;
    let mut names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    Ok(names)
}

/// The newest backup that can be read. One that cannot is no reason not to make another.
fn newest(archive: &dyn Archive) -> Result<Option<Manifest>, StoreError> {
    Ok(names(archive)?.iter().rev().find_map(|name| Manifest::read(archive, name).ok()))
}

/// A folder of links to a store's files, beside them. It goes with its value.
struct Links {
    folder: PathBuf,
    _lock: File,
}

/// What was linked.
struct Linked {
    applied: Offset,
    end: Offset,
    end_ms: u64,
    replication_id: String,
    /// The log's files and how much of each is good.
    segments: Vec<(PathBuf, u64)>,
}

impl Links {
    fn new(shard: &Path) -> Result<Self, StoreError> {
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
    fn all(&self, shard: &Path, former: Option<Offset>) -> Result<Linked, StoreError> {
        let failed = |source| StoreError::Folder { path: self.folder.clone(), source };
        let mut last = None;
        for _ in 0..TRIES_MAX {
            self.clear().map_err(failed)?;
            fs::create_dir_all(self.folder.join("log")).map_err(failed)?;
            // NOTE: the tables first. The log behind them is kept for as long as no later tables are on the disk.
            if !self.tables(&shard.join("tables/tree")).map_err(failed)? {
                continue;
            }
            let applied = engine::open_frozen(&self.folder.join("tables"))?.applied()?;
            let applied = applied.map(|offset| Offset(offset.0));
            self.log(&shard.join("log")).map_err(failed)?;
            let with_former = former.filter(|former| applied.is_some_and(|applied| *former < applied));
            let read = with_former.and_then(|former| self.read_log(applied, Some(former)).ok());
            match read.map_or_else(|| self.read_log(applied, applied), Ok) {
                Ok(linked) => return Ok(linked),
                // It went on too fast: tables and log do not belong together.
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(StoreError::Unsteady { path: shard.to_owned() }))
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
                match fs::hard_link(log.join(&path), self.folder.join("log").join(&path)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Checks the log from an offset to its end; what of which file that is.
    fn read_log(&self, applied: Option<Offset>, from: Option<Offset>) -> Result<Linked, StoreError> {
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

/// Reads so much of a file, no more.
fn head(path: &Path, len: u64) -> io::Result<io::Take<File>> {
    Ok(File::open(path)?.take(len))
}
