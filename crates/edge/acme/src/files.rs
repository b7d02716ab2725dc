//! Files of certificates and keys: readable by their owner alone, replaced as a whole, on disk before they count.
//!
//! Folders are opened before the process gives up its rights and its root directory, so that their files can be reached afterwards.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fsync, openat, renameat, unlinkat};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::system_words;

/// Most bytes of a file that is read.
const FILE_MAX: u64 = 1 << 20;

/// What cannot be done with a file.
#[derive(Debug, Error)]
pub enum FileError {
    /// It is none.
    #[error("'{0}' is no file")]
    NoFile(String),
    /// Its folder.
    #[error("folder '{0}': {why}", why = system_words(.1))]
    Folder(String, io::Error),
    /// The file itself.
    #[error("cannot {0} '{1}': {why}", why = system_words(.2))]
    File(&'static str, String, io::Error),
}

/// The folders that are open, by path.
#[derive(Debug, Default)]
pub struct Folders {
    open: Mutex<HashMap<PathBuf, Arc<OwnedFd>>>,
}

/// A file in an open folder.
#[derive(Clone, Debug)]
pub struct Place {
    folder: Arc<OwnedFd>,
    name: String,
    /// As messages call it.
    path: String,
}

/// What is kept of a certificate between attempts, beside its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// An order that goes on at the authority.
    pub order: Option<KeptOrder>,
    /// Failures in a row.
    pub failures: u32,
    /// No attempt before this time.
    pub not_before: i64,
    /// When it is to be renewed, as the authority said last.
    pub window: Option<(i64, i64)>,
    /// When the certificate came.
    #[serde(default)]
    pub issued_at: Option<i64>,
}

/// An order that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptOrder {
    /// Where it is.
    pub url: String,
    /// The authority.
    pub directory: String,
    /// The names.
    pub names: Vec<String>,
    /// The key of its certificate.
    pub key: String,
}

impl Folders {
    /// The place of a file. Its folder is made if it is not there, for this user and group if they are named.
    ///
    /// # Errors
    /// What the system says of the folder.
    pub fn place(&self, path: &str, owner: Option<(Option<u32>, Option<u32>)>) -> Result<Place, FileError> {
        let whole = Path::new(path);
        let folder = whole.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name =
            whole.file_name().and_then(|name| name.to_str()).ok_or_else(|| FileError::NoFile(path.to_owned()))?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let descriptor = match open.get(folder) {
            Some(descriptor) => Arc::clone(descriptor),
            None => {
                let opened = open_folder(folder, owner);
                let opened = opened.map_err(|error| FileError::Folder(folder.display().to_string(), error))?;
                let opened = Arc::new(opened);
                open.insert(folder.to_owned(), Arc::clone(&opened));
                opened
            }
        };
        Ok(Place { folder: descriptor, name: name.to_owned(), path: path.to_owned() })
    }
}

fn open_folder(folder: &Path, owner: Option<(Option<u32>, Option<u32>)>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(folder, flags, Mode::empty()).map_err(io::Error::from);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if let Some((user, group)) = owner {
        std::os::unix::fs::chown(folder, user, group)?;
    }
    open()
}

impl Place {
    /// The path, for messages.
    #[cfg(test)]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file of that ending that no folder of certificates takes for one.
    pub fn beside(&self, ending: &str) -> Self {
        let name = format!(".{}.{ending}", self.name);
        let folder = self.path.strip_suffix(self.name.as_str()).unwrap_or_default();
        Self { folder: Arc::clone(&self.folder), path: format!("{folder}{name}"), name }
    }

    /// What stands in it; nothing if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self) -> Result<Option<Vec<u8>>, FileError> {
        let opened = openat(&*self.folder, &*self.name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let file = match opened {
            Ok(descriptor) => File::from(descriptor),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.wrong("read", error.into())),
        };
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).map_err(|error| self.wrong("read", error))?;
        Ok(Some(bytes))
    }

    /// Replaces it, readable by its owner alone. After a crash, the former file is there or this one, whole.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
        let new = format!(".{}.new", self.name);
        let written = self.write_new(&new, bytes).and_then(|()| {
            renameat(&*self.folder, &*new, &*self.folder, &*self.name)?;
            // IMPORTANT: the name is on disk before anybody relies on it.
            Ok(fsync(&*self.folder)?)
        });
        written.map_err(|error| {
            let _ = unlinkat(&*self.folder, &*new, AtFlags::empty());
            self.wrong("write", error)
        })
    }

    fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // One that a crash left is in the way, and may have other rights.
        let _ = unlinkat(&*self.folder, name, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = File::from(openat(&*self.folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Removes it, if it is there.
    pub fn remove(&self) {
        let _ = unlinkat(&*self.folder, &*self.name, AtFlags::empty());
    }

    /// Holds it as a lock, until what is returned goes; nothing if another process holds it.
    ///
    /// # Errors
    /// What the system says.
    pub fn lock(&self) -> Result<Option<OwnedFd>, FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let opened = openat(&*self.folder, &*self.name, flags, Mode::RUSR | Mode::WUSR);
        let descriptor = opened.map_err(|error| self.wrong("lock", error.into()))?;
        match flock(descriptor.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(descriptor)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(self.wrong("lock", error.into())),
        }
    }

    fn wrong(&self, what: &'static str, error: io::Error) -> FileError {
        FileError::File(what, self.path.clone(), error)
    }
}

impl Kept {
    /// What was kept; nothing of what cannot be read.
    pub fn read(place: &Place) -> Self {
        let bytes = place.read().ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Keeps it.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, place: &Place) -> Result<(), FileError> {
        if *self == Self::default() {
            place.remove();
            return Ok(());
        }
        place.write(&serde_json::to_vec(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_replaced_as_a_whole_and_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/site.pem");
        let folders = Folders::default();
        let place = folders.place(path.to_str().unwrap(), None).unwrap();
        assert_eq!(place.read().unwrap(), None);
        // What a crash left, readable by all.
        std::fs::write(folder.path().join("new/folder/.site.pem.new"), "left").unwrap();
        place.write(b"one").unwrap();
        place.write(b"two").unwrap();
        assert_eq!(place.read().unwrap().unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        let kept = Kept { failures: 3, ..Kept::default() };
        let beside = place.beside("acme");
        assert!(beside.path().ends_with("/.site.pem.acme"));
        kept.write(&beside).unwrap();
        assert_eq!(Kept::read(&beside), kept);
        Kept::default().write(&beside).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(path.parent().unwrap()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["site.pem"]);
        beside.write(b"{").unwrap();
        assert_eq!(Kept::read(&beside), Kept::default());
    }

    #[test]
    fn one_process_at_a_time_holds_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let place = Folders::default().place(folder.path().join("lock").to_str().unwrap(), None).unwrap();
        let held = place.lock().unwrap().unwrap();
        assert!(place.lock().unwrap().is_none());
        drop(held);
        assert!(place.lock().unwrap().is_some());
    }
}
