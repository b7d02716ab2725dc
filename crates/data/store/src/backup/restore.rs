//! A backup becomes a store's folder again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use commands::config::Settings;
use oplog::{Log, Offset, Options, Reader, ReplicationId, disk::RealDisk};

use super::{files, manifest::Manifest, names};
use crate::{
    StoreError,
    archive::{Archive, sync_folder},
    clock,
    folder::ShardFolder,
    point::Point,
};

/// What is to be restored.
#[derive(Debug, Clone, Default)]
pub struct Restore {
    /// The name of a backup; without one, the newest.
    pub backup: Option<String>,
    /// The point that the store is to be started at: an older backup is taken, and the log up to there.
    pub until: Option<Point>,
}

/// Makes a store's folder of a backup. Everything is checked: each file by its digest, the log frame by frame, the tables
/// record by record. The folder is there when all of it is sound, and not before.
///
/// # Errors
///
/// The folder is not empty; there is no such backup; it is damaged, or of another version.
pub fn restore(what: &Restore, archive: &dyn Archive, dir: &Path) -> Result<Manifest, StoreError> {
    let failed = |source| StoreError::Folder { path: dir.to_owned(), source };
    match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(true) => return Err(StoreError::NotEmpty { path: dir.to_owned() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let manifest = choose(what, archive)?;
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let unready = dir.with_file_name(name);
    if unready.exists() {
        fs::remove_dir_all(&unready).map_err(failed)?;
    }
    let made = fill(&manifest, archive, &unready);
    if let Err(error) = made {
        let _ = fs::remove_dir_all(&unready);
        return Err(error);
    }
    if dir.exists() {
        fs::remove_dir(dir).map_err(failed)?;
    }
    fs::rename(&unready, dir).map_err(failed)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(parent).map_err(failed)?;
    Ok(manifest)
}

/// The backup that is asked for, with as much of later ones' log as is.
fn choose(what: &Restore, archive: &dyn Archive) -> Result<Manifest, StoreError> {
    let names = names(archive)?;
    let damaged = |name: &str, reason| StoreError::BackupDamaged { name: format!("{}/{name}", archive.name()), reason };
    let read = |name: &str| Manifest::read(archive, name).map_err(|reason| damaged(name, reason.to_string()));
    let missing = |text: String| StoreError::NoBackup { archive: archive.name(), text };
    if names.is_empty() {
        return Err(missing("there is none at all".into()));
    }
    let all = || names.iter().map(|name| format!("\n  {}", name.trim_start_matches("backups/"))).collect::<String>();
    let chosen = match (&what.backup, what.until) {
        (Some(wanted), _) => {
            let wanted =
                names.iter().find(|name| name.trim_start_matches("backups/") == wanted.trim_start_matches("backups/"));
            read(wanted.ok_or_else(|| missing(format!("there is none of that name, but these:{}", all())))?)?
        }
        (None, None) => read(names.last().map_or("", String::as_str))?,
        (None, Some(point)) => {
            let mut fitting = None;
            for name in names.iter().rev() {
                let manifest = read(name)?;
                let is_before = match point {
                    Point::Offset(offset) => Offset(manifest.applied) <= offset,
                    Point::Time(time_ms) => manifest.created_ms <= time_ms,
                };
                if is_before {
                    fitting = Some(manifest);
                    break;
                }
            }
            fitting.ok_or_else(|| missing(format!("none is older than {point}, there are these:{}", all())))?
        }
    };
    match what.until {
        Some(_) => with_later_log(chosen, &names, read),
        None => Ok(chosen),
    }
}

/// Adds what later backups of the same history have of the log, as far as there is no gap.
fn with_later_log(
    mut chosen: Manifest,
    names: &[String],
    read: impl Fn(&str) -> Result<Manifest, StoreError>,
) -> Result<Manifest, StoreError> {
    let name = chosen.name();
    for later in names.iter().filter(|other| **other > name) {
        let later = read(later)?;
        let Some(first) = later.log.first().cloned() else { continue };
        // Files of the log are named by the offset that they begin with, in digits of a fixed number.
        let Some(last) = chosen.log.last() else { continue };
        if later.replication_id != chosen.replication_id || later.log_end < chosen.log_end {
            break;
        }
        let is_joined = first.path <= last.path || offset_of(&first.path) == Some(chosen.log_end);
        if !is_joined {
            break;
        }
        chosen.log.retain(|item| item.path < first.path);
        chosen.log.extend(later.log);
        (chosen.log_end, chosen.log_end_ms) = (later.log_end, later.log_end_ms);
    }
    Ok(chosen)
}

/// The offset that a file of the log begins with.
fn offset_of(path: &str) -> Option<u64> {
    path.strip_suffix(".oplog")?.parse().ok()
}

fn fill(manifest: &Manifest, archive: &dyn Archive, folder: &Path) -> Result<(), StoreError> {
    let shard = ShardFolder::first(folder);
    let failed = |source| StoreError::Folder { path: folder.to_owned(), source };
    let mut folders = vec![folder.to_owned(), shard.path().to_owned()];
    for (items, to) in [(&manifest.tables, shard.tables()), (&manifest.log, shard.log())] {
        fs::create_dir_all(&to).map_err(failed)?;
        folders.push(to.clone());
        for item in items {
            let path = match to.ends_with("tables") {
                true => to.join("tree").join(&item.path),
                false => to.join(&item.path),
            };
            files::fetch(archive, item, &path)?;
            folders.extend(path.parent().map(PathBuf::from));
        }
    }
    check(manifest, archive, shard.path())?;
    begin_history(&shard.log(), Offset(manifest.log_end))?;
    folders.sort_unstable();
    folders.dedup();
    folders.iter().try_for_each(|folder| sync_folder(folder)).map_err(failed)
}

/// Has the log go on under another id: the store that the backup is of may go on too, and whoever follows one of them must not
/// take the other for it.
fn begin_history(folder: &Path, end: Offset) -> Result<(), StoreError> {
    let mut random = [0; 24];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
    let (id, salt) = random.split_at(20);
    let id = ReplicationId::from_random(id.try_into().unwrap_or_default());
    let salt = u32::from_ne_bytes(salt.try_into().unwrap_or_default());
    let options = Options { segment_len: Settings::default().log_segment_size.0, ..Options::new(id, salt) };
    let now_ms = clock::now().unsigned_abs();
    let (mut log, _) = Log::open(RealDisk, folder, options, now_ms)?;
    // An empty log has no history yet, and gets its id as the store starts.
    if end > Offset(0) {
        log.set_replication_id(id, now_ms)?;
    }
    log.syncer().sync()?;
    Ok(())
}

/// Whether the whole is what it was.
fn check(manifest: &Manifest, archive: &dyn Archive, shard: &Path) -> Result<(), StoreError> {
    let damaged = |reason: &str| StoreError::BackupDamaged {
        name: format!("{}/{}", archive.name(), manifest.name()),
        reason: reason.to_owned(),
    };
    let records = engine::open_frozen(&shard.join("tables"))?;
    if records.applied()?.map_or(0, |offset| offset.0) != manifest.applied {
        return Err(damaged("its tables are of another moment"));
    }
    if super::manifest::Records::from(engine::summary(&*records)?) != manifest.records {
        return Err(damaged("its records are not those that it says"));
    }
    let mut reader = Reader::open(RealDisk, &shard.join("log"), Some(Offset(manifest.applied)))?;
    let mut end = Offset(manifest.applied);
    while let Some(entry) = reader.next()? {
        end = entry.end();
    }
    if end != Offset(manifest.log_end) {
        return Err(damaged("its log does not end where it says"));
    }
    Ok(())
}
