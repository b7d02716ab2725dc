//! Backups that are not kept any more.

use std::{collections::HashSet, num::NonZeroUsize};

use super::{manifest::Manifest, names};
use crate::{StoreError, archive::Archive};

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Backups.
    pub backups: usize,
    /// Files that no other backup needs.
    pub files: usize,
    /// How many bytes these had.
    pub bytes: u64,
}

/// Removes all backups but the newest ones, then the files that those do not need.
///
/// A description that cannot be read may need any file: then nothing is removed. Whoever calls this keeps others from making
/// a backup meanwhile, as they count on files that are there.
pub(super) fn keep_newest(archive: &dyn Archive, keep: NonZeroUsize) -> Result<Removed, StoreError> {
    let names = names(archive)?;
    let failed = |action, name: &str| {
        let name = format!("{}/{name}", archive.name());
        move |source| StoreError::Archive { action, name, source }
    };
    let (old, kept) = names.split_at_checked(names.len().saturating_sub(keep.get())).unwrap_or_default();
    if old.is_empty() {
        return Ok(Removed::default());
    }
    let mut needed = HashSet::new();
    for name in kept {
        let manifest = Manifest::read(archive, name).map_err(|reason| StoreError::BackupDamaged {
            name: format!("{}/{name}", archive.name()),
            reason: reason.to_string(),
        })?;
        needed.extend(manifest.tables.iter().chain(&manifest.log).map(super::Item::name));
    }
    let mut removed = Removed { backups: old.len(), ..Removed::default() };
    // The descriptions first: one that is there has all its files.
    for name in old {
        archive.remove(name).map_err(failed("remove", name))?;
    }
    for (name, len) in archive.list("files").map_err(failed("list", "files"))? {
        if !needed.contains(&name) {
            archive.remove(&name).map_err(failed("remove", &name))?;
            removed.files += 1;
            removed.bytes += len;
        }
    }
    Ok(removed)
}
