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
mod links;
mod manifest;
mod offered;
mod prune;
mod restore;
mod running;

use std::{
    fs::File,
    io::{self, Read},
    num::NonZeroUsize,
    path::Path,
};

use oplog::Offset;

use links::Applied;
pub(crate) use links::{Linked, Links};
pub use manifest::{Item, Manifest, ManifestError};
pub use offered::{Offered, take};
pub use prune::Removed;
pub use restore::{Restore, restore};
pub use running::folder_of;

use crate::{StoreError, archive::Archive, clock, engines, folder::ShardFolder};

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
    let folder = folder_to_link(dir)?;
    let created_ms = clock::now().unsigned_abs();
    let former = newest(archive)?;
    let links = Links::new(folder.path())?;
    let linked = links.all(folder.path(), former.as_ref().map(|former| Offset(former.log_end)))?;
    copy(&Copied { links, linked, created_ms }, archive, former.as_ref(), keep)
}

/// A backup that is begun before it is known up to where of the log it goes: so several stores can have backups of the same moment,
/// and wait for no more than being told which.
pub struct Begun {
    folder: ShardFolder,
    links: Links,
    applied: Applied,
}

impl Begun {
    /// Begins one of a store's folder.
    ///
    /// # Errors
    ///
    /// The folder is none of a store, or cannot be linked.
    pub fn of(dir: &Path) -> Result<Self, StoreError> {
        let folder = folder_to_link(dir)?;
        let links = Links::new(folder.path())?;
        let applied = links.tables_and_log(folder.path())?;
        Ok(Self { folder, links, applied })
    }

    /// It goes up to an offset of the log that the store had reached after the beginning; also from where the backup before it ended, if
    /// that is told and still there.
    ///
    /// # Errors
    ///
    /// The log does not reach that far, or the store has gone on so fast that parts of it are gone.
    pub fn up_to(self, until: u64, former_end: Option<u64>) -> Result<AtMoment, StoreError> {
        let created_ms = clock::now().unsigned_abs();
        let former_end = former_end.map(Offset);
        let linked = self.links.up_to(self.folder.path(), self.applied, former_end, Offset(until))?;
        Ok(AtMoment(Copied { links: self.links, linked, created_ms }))
    }
}

/// A backup of a moment of which all files are held, and none is copied yet. The store may go on as long as it likes.
pub struct AtMoment(Copied);

impl AtMoment {
    /// Copies it into an archive.
    ///
    /// # Errors
    ///
    /// Those of the archive; data that is damaged.
    pub fn copy_to(&self, archive: &dyn Archive) -> Result<Made, StoreError> {
        copy(&self.0, archive, newest(archive)?.as_ref(), None)
    }

    /// Offers it to somebody who takes the files that are missed there. Files that the one before had need not be read again.
    ///
    /// # Errors
    ///
    /// Data that is damaged.
    pub fn offer(self, former: Option<&Manifest>) -> Result<Offered, StoreError> {
        let (manifest, _) = describe(&self.0, &offered::Nowhere { former }, former)?;
        Offered::new(self.0.links, manifest).map_err(StoreError::Loop)
    }
}

impl std::fmt::Debug for AtMoment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AtMoment").field("folder", &self.0.links.folder).finish_non_exhaustive()
    }
}

/// Where the log of the newest backup of an archive ends.
///
/// # Errors
///
/// Those of the archive.
pub fn end_of_newest(archive: &dyn Archive) -> Result<Option<u64>, StoreError> {
    Ok(newest(archive)?.map(|manifest| manifest.log_end))
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Begun").field("folder", &self.links.folder).finish_non_exhaustive()
    }
}

fn folder_to_link(dir: &Path) -> Result<ShardFolder, StoreError> {
    let folder = ShardFolder::first(dir);
    if !folder.log().is_dir() {
        return Err(StoreError::NoStore { path: dir.to_owned() });
    }
    let rocksdb = folder.path().join(engines::ROCKSDB);
    if rocksdb.exists() {
        return Err(StoreError::NotForRocksdb { action: "tidegate backup", path: rocksdb });
    }
    Ok(folder)
}

/// What is to be copied.
struct Copied {
    links: Links,
    linked: Linked,
    created_ms: u64,
}

fn copy(
    what: &Copied,
    archive: &dyn Archive,
    former: Option<&Manifest>,
    keep: Option<NonZeroUsize>,
) -> Result<Made, StoreError> {
    let (manifest, copied) = describe(what, archive, former)?;
    let name = manifest.name();
    let bytes = manifest.encode().map_err(StoreError::Loop)?;
    put_description(archive, &name, &bytes)?;
    let removed = keep.map_or(Ok(Removed::default()), |keep| prune::keep_newest(archive, keep))?;
    Ok(Made { manifest, name, copied, removed })
}

fn put_description(archive: &dyn Archive, name: &str, mut bytes: &[u8]) -> Result<(), StoreError> {
    let len = bytes.len() as u64;
    archive.put(name, &mut bytes, len).map_err(|source| StoreError::Archive {
        action: "write",
        name: format!("{}/{name}", archive.name()),
        source,
    })
}

/// Puts all files of a backup into an archive; says what they are, and how many and how much was put.
fn describe(
    what: &Copied,
    archive: &dyn Archive,
    former: Option<&Manifest>,
) -> Result<(Manifest, (usize, u64)), StoreError> {
    let Copied { links, linked, created_ms } = what;
    let records = engine::open_frozen(&links.folder.join("tables"))?;
    // What the tables do not need has gone by being opened.
    let summary = engine::summary(&*records)?;
    drop(records);
    let mut copier = files::Copier::new(archive, former)?;
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
        created_ms: *created_ms,
        replication_id: linked.replication_id.clone(),
        applied: linked.applied.0,
        log_end: linked.end.0,
        log_end_ms: linked.end_ms,
        tables,
        log,
        records: summary.into(),
    };
    Ok((manifest, copier.copied))
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

/// Reads so much of a file, no more.
fn head(path: &Path, len: u64) -> io::Result<io::Take<File>> {
    Ok(File::open(path)?.take(len))
}
