//! Files on their way into an archive and out of it.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{
    head,
    manifest::{Item, Manifest, Seen},
};
use crate::{StoreError, archive::Archive};

/// How much is read at once.
const PIECE_LEN: usize = 256 << 10;

/// The paths of the files below a folder, in order.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inner))? {
            let entry = entry?;
            let path = inner.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Puts files into an archive, those that are not there.
pub struct Copier<'a> {
    archive: &'a dyn Archive,
    /// The digests that are there.
    there: HashSet<String>,
    /// Files of the backup before, by path and length.
    former: HashMap<(String, u64), &'a Item>,
    /// Files and bytes that were copied.
    pub copied: (usize, u64),
}

impl<'a> Copier<'a> {
    pub fn new(archive: &'a dyn Archive, former: Option<&'a Manifest>) -> Result<Self, StoreError> {
        let listed = archive.list("files").map_err(|source| StoreError::Archive {
            action: "list",
            name: archive.name(),
            source,
        })?;
        let there = listed.into_iter().filter_map(|(name, _)| name.strip_prefix("files/").map(str::to_owned)).collect();
        let items = former.into_iter().flat_map(|manifest| manifest.tables.iter().chain(&manifest.log));
        let former = items.map(|item| ((item.path.clone(), item.len), item)).collect();
        Ok(Self { archive, there, former, copied: (0, 0) })
    }

    /// Puts a file below a folder, or the first so many bytes of it.
    pub fn put(&mut self, folder: &Path, path: &Path, len: Option<u64>) -> Result<Item, StoreError> {
        let whole = folder.join(path);
        let failed = |source| StoreError::Folder { path: whole.clone(), source };
        let metadata = fs::metadata(&whole).map_err(failed)?;
        let len = len.unwrap_or(metadata.len());
        let seen = Seen {
            inode: metadata.ino(),
            changed_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
        };
        let path = path.to_string_lossy().into_owned();
        if let Some(former) = self.former.get(&(path.clone(), len))
            && former.seen == seen
            && self.there.contains(&former.digest)
        {
            return Ok(Item { path, len, digest: former.digest.clone(), seen });
        }
        let mut digest = Digesting::new(io::sink());
        io::copy(&mut head(&whole, len).map_err(failed)?, &mut digest).map_err(failed)?;
        let item = Item { path, len, digest: digest.finish(), seen };
        if self.there.insert(item.digest.clone()) {
            let mut content = head(&whole, len).map_err(failed)?;
            self.archive.put(&item.name(), &mut content, len).map_err(|source| StoreError::Archive {
                action: "write",
                name: format!("{}/{}", self.archive.name(), item.name()),
                source,
            })?;
            self.copied.0 += 1;
            self.copied.1 += len;
        }
        Ok(item)
    }
}

/// Gets a file out of an archive; it must be what it was.
pub fn fetch(archive: &dyn Archive, item: &Item, to: &Path) -> Result<(), StoreError> {
    let name = || format!("{}/{}", archive.name(), item.name());
    let failed = |source| StoreError::Folder { path: to.to_owned(), source };
    let unreadable = |source| StoreError::Archive { action: "read", name: name(), source };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = Digesting::new(fs::File::create(to).map_err(failed)?);
    let mut content = archive.get(&item.name()).map_err(unreadable)?;
    let mut piece = vec![0; PIECE_LEN];
    let mut len = 0u64;
    loop {
        match content.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                len += read as u64;
                // One that is too long has not to be read to its end.
                if len > item.len {
                    break;
                }
                file.write_all(piece.get(..read).unwrap_or_default()).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    file.inner.sync_all().map_err(failed)?;
    if len != item.len || file.finish() != item.digest {
        return Err(StoreError::BackupDamaged { name: name(), reason: format!("it is not what `{}` was", item.path) });
    }
    Ok(())
}

/// Reads on; at the end what went by must have a digest, or reading fails there.
pub struct Checked<'a, R> {
    inner: R,
    hasher: Sha256,
    digest: &'a str,
}

impl<'a, R> Checked<'a, R> {
    pub fn new(inner: R, digest: &'a str) -> Self {
        Self { inner, hasher: Sha256::new(), digest }
    }
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.hasher.update(into.get(..read).unwrap_or_default());
        if read == 0 && !into.is_empty() && basics::hex::lower(&self.hasher.clone().finalize()) != self.digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it did not come as it was sent"));
        }
        Ok(read)
    }
}

/// Writes on, and sums up what went by.
struct Digesting<W> {
    inner: W,
    hasher: Sha256,
}

impl<W> Digesting<W> {
    fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    fn finish(self) -> String {
        basics::hex::lower(&self.hasher.finalize())
    }
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
