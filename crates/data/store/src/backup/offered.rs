//! A backup that somebody on another machine takes: its description, and the files of it that are missed there. Nothing is copied where
//! the store is.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read},
    path::PathBuf,
};

use super::{
    Links, Made, Removed, files, head,
    manifest::{Item, Manifest},
    put_description,
};
use crate::{StoreError, archive::Archive};

/// An archive that keeps nothing: what goes into it is only described.
pub(super) struct Nowhere<'a> {
    /// The backup before: its files need not be read again if they are the same.
    pub former: Option<&'a Manifest>,
}

impl Archive for Nowhere<'_> {
    fn name(&self) -> String {
        "nowhere".into()
    }

    fn put(&self, _: &str, _: &mut dyn Read, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn get(&self, _: &str) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _: &str) -> io::Result<Vec<(String, u64)>> {
        let items = self.former.into_iter().flat_map(|former| former.tables.iter().chain(&former.log));
        Ok(items.map(|item| (item.name(), item.len)).collect())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A backup that is offered. The store's files are held while this is there.
pub struct Offered {
    manifest: Manifest,
    description: Vec<u8>,
    /// Where each is and how much of it counts, by digest.
    files: HashMap<String, (PathBuf, u64)>,
    _links: Links,
}

impl Offered {
    pub(super) fn new(links: Links, manifest: Manifest) -> io::Result<Self> {
        let (tables, log) = (links.folder.join("tables/tree"), links.folder.join("log"));
        let of = |folder: &PathBuf, item: &Item| (item.digest.clone(), (folder.join(&item.path), item.len));
        let all = manifest.tables.iter().map(|item| of(&tables, item));
        let files = all.chain(manifest.log.iter().map(|item| of(&log, item))).collect();
        let description = manifest.encode()?;
        Ok(Self { manifest, description, files, _links: links })
    }

    /// What it is.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The same as it is in an archive.
    #[must_use]
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// A file of it and how long it is, by its digest.
    ///
    /// # Errors
    ///
    /// It has none of that digest ([`io::ErrorKind::NotFound`]), or it cannot be read.
    pub fn open(&self, digest: &str) -> io::Result<(u64, Box<dyn Read + Send>)> {
        let (path, len) = self.files.get(digest).ok_or(io::ErrorKind::NotFound)?;
        Ok((*len, Box::new(head(path, *len)?)))
    }
}

impl std::fmt::Debug for Offered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Offered").field("name", &self.manifest.name()).finish_non_exhaustive()
    }
}

/// Where the files of a backup that is offered come from.
pub type Getting<'a> = dyn FnMut(&Item) -> io::Result<Box<dyn Read>> + 'a;

/// Takes a backup that is offered into an archive: the files that are not there, then its description.
///
/// # Errors
///
/// The description or a file is not what it was; those of the archive and of `get`.
pub fn take(description: &[u8], archive: &dyn Archive, get: &mut Getting<'_>) -> Result<Made, StoreError> {
    let manifest = Manifest::decode(description).map_err(|reason| StoreError::BackupDamaged {
        name: "the description that was offered".into(),
        reason: reason.to_string(),
    })?;
    let failed =
        |action, name: &str, source| StoreError::Archive { action, name: format!("{}/{name}", archive.name()), source };
    let listed = archive.list("files").map_err(|source| failed("list", "files", source))?;
    let mut there: HashSet<String> = listed.into_iter().map(|(name, _)| name).collect();
    let mut copied = (0, 0);
    for item in manifest.tables.iter().chain(&manifest.log) {
        let name = item.name();
        if there.insert(name.clone()) {
            let content = get(item).map_err(|source| failed("fetch for", &name, source))?;
            let mut content = files::Checked::new(content, &item.digest);
            archive.put(&name, &mut content, item.len).map_err(|source| failed("write", &name, source))?;
            copied = (copied.0 + 1, copied.1 + item.len);
        }
    }
    let name = manifest.name();
    put_description(archive, &name, description)?;
    Ok(Made { manifest, name, copied, removed: Removed::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::FolderArchive;

    #[test]
    fn a_file_that_came_otherwise_is_not_put() {
        let folder = tempfile::tempdir().unwrap();
        let archive = FolderArchive(folder.path().to_owned());
        let digest = basics::hex::lower(&<sha2::Sha256 as sha2::Digest>::digest(b"abc"));
        for (sent, is_good) in [(&b"abc"[..], true), (b"abd", false), (b"ab", false)] {
            let mut content = files::Checked::new(sent, &digest);
            assert_eq!(archive.put("files/x", &mut content, 3).is_ok(), is_good, "{sent:?}");
        }
        assert_eq!(std::fs::read(folder.path().join("files/x")).unwrap(), b"abc");
    }
}
