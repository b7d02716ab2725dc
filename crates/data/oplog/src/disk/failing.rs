//! A disk that fails when told to.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Disk, DiskFile};

/// What is to go wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// So many writes succeed, the next fails, and those after it succeed again. Syncs and the like count as `operations`.
    pub write: Option<(u64, io::ErrorKind)>,
    /// The same for opening, making, renaming, removing, preallocating and syncing.
    pub operation: Option<(u64, io::ErrorKind)>,
    /// The same for syncs of files alone.
    pub sync: Option<(u64, io::ErrorKind)>,
    /// Bytes of room: what is written or reserved takes from it. When there is none, the disk is full.
    pub room: Option<u64>,
    /// No write takes more than so many bytes.
    pub write_len_max: Option<usize>,
}

/// A disk that does what another does, but for its [`Faults`].
#[derive(Clone, Debug)]
pub struct FailingDisk<D> {
    inner: D,
    faults: Arc<Mutex<Faults>>,
}

/// A file of such a disk.
#[derive(Debug)]
pub struct FailingFile<F> {
    inner: F,
    faults: Arc<Mutex<Faults>>,
}

impl<D: Disk> FailingDisk<D> {
    /// `inner`, with nothing wrong yet.
    pub fn new(inner: D) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Says what goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        *lock(&self.faults) = faults;
    }

    fn check(&self) -> io::Result<()> {
        count_down(&mut lock(&self.faults).operation)
    }

    fn file(&self, inner: D::File) -> FailingFile<D::File> {
        FailingFile { inner, faults: Arc::clone(&self.faults) }
    }
}

fn lock(faults: &Mutex<Faults>) -> std::sync::MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count_down(fault: &mut Option<(u64, io::ErrorKind)>) -> io::Result<()> {
    match fault {
        Some((0, kind)) => {
            let kind = *kind;
            *fault = None;
            Err(kind.into())
        }
        Some((left, _)) => {
            *left -= 1;
            Ok(())
        }
        None => Ok(()),
    }
}

impl<D: Disk> Disk for FailingDisk<D> {
    type File = FailingFile<D::File>;

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.inner.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn open(&self, path: &Path) -> io::Result<Self::File> {
        self.check()?;
        self.inner.open(path).map(|file| self.file(file))
    }

    fn create(&self, path: &Path) -> io::Result<Self::File> {
        self.check()?;
        self.inner.create(path).map(|file| self.file(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check()?;
        self.inner.sync_folder(folder)
    }
}

impl<F: DiskFile> FailingFile<F> {
    /// How much of a write from `position` on may be done.
    fn allow(&self, len: usize, position: u64) -> io::Result<usize> {
        let mut faults = lock(&self.faults);
        count_down(&mut faults.write)?;
        let len = len.min(faults.write_len_max.unwrap_or(usize::MAX));
        let Some(room) = &mut faults.room else { return Ok(len) };
        // What the file has already takes no more room.
        let free = self.inner.len()?.saturating_sub(position);
        let grows = (len as u64).saturating_sub(free);
        let allowed = grows.min(*room);
        *room -= allowed;
        let len = usize::try_from(len as u64 - (grows - allowed)).unwrap_or(len);
        if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
    }
}

impl<F: DiskFile> DiskFile for FailingFile<F> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let allowed = self.allow(bytes.len(), position)?;
        self.inner.write_at(bytes.get(..allowed).unwrap_or(bytes), position)
    }

    fn sync(&self) -> io::Result<()> {
        let mut faults = lock(&self.faults);
        count_down(&mut faults.sync)?;
        count_down(&mut faults.operation)?;
        drop(faults);
        self.inner.sync()
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut faults = lock(&self.faults);
        count_down(&mut faults.operation)?;
        if let Some(room) = &mut faults.room {
            let grows = len.saturating_sub(self.inner.len()?);
            *room = room.checked_sub(grows).ok_or(io::ErrorKind::StorageFull)?;
        }
        drop(faults);
        self.inner.preallocate(len)
    }
}
