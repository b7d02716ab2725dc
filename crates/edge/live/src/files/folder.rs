//! Folders that backends have open.
//!
//! A folder is opened when a configuration is loaded, so that whoever loads it hears what is wrong. It is looked at again from time to
//! time: where another one has taken its place, as when a link `current` is changed to a new release, that one counts. Where nothing can be
//! opened under its path, as after chroot, the one that is open stays.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use haproxycfg::model::Symlinks;
use rustix::{
    fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fstat, openat},
    io::Errno,
};

use super::{
    DiskThreads,
    beneath::{self, OpenAs, Patience},
};

/// How long an open folder is taken for the one that its path names, in milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;

/// What makes two folders the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FolderSpec {
    /// Its path.
    pub path: PathBuf,
    /// Which links are followed in it.
    pub symlinks: Symlinks,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be opened.
    #[error("cannot open the folder '{}'", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// Nothing in it can be opened.
    #[error("may not read what is in the folder '{}'", .0.display())]
    Enter(PathBuf, #[source] io::Error),
}

/// A folder that is open.
#[derive(Debug)]
struct Opened {
    descriptor: OwnedFd,
    device: u64,
    inode: u64,
}

impl Opened {
    fn new(path: &Path) -> Result<Self, Errno> {
        let descriptor = openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&descriptor)?;
        Ok(Self { descriptor, device: stat.st_dev, inode: stat.st_ino })
    }
}

/// A folder.
#[derive(Debug)]
pub struct LiveFolder {
    spec: FolderSpec,
    now: RwLock<Option<Arc<Opened>>>,
    /// Its device; which disk threads wait for it by.
    device: AtomicU64,
    /// A number that no other folder has, and that changes when another one takes its place.
    version: AtomicU64,
    looked_ms: AtomicU64,
    is_looked_at: AtomicBool,
}

/// Source of versions.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

impl LiveFolder {
    fn new(spec: &FolderSpec, opened: Option<Opened>) -> Self {
        let device = opened.as_ref().map_or(0, |opened| opened.device);
        Self {
            spec: spec.clone(),
            now: RwLock::new(opened.map(Arc::new)),
            device: AtomicU64::new(device),
            version: AtomicU64::new(NEXT_VERSION.fetch_add(1, Relaxed)),
            looked_ms: AtomicU64::new(0),
            is_looked_at: AtomicBool::new(false),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.spec.path
    }

    /// A number that no other folder has. It changes when another folder takes its place.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device.load(Relaxed)
    }

    /// Opens what `name` leads to in it.
    ///
    /// # Errors
    /// The system's. `AGAIN` where a disk would have to be waited for; `XDEV` where the way leads out of the folder.
    pub fn open(&self, name: &[u8], what: OpenAs, patience: Patience) -> Result<OwnedFd, Errno> {
        let opened = self.now.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Errno::NOENT)?;
        beneath::open(opened.descriptor.as_fd(), name, (what, self.spec.symlinks), patience)
    }

    /// Whether this process, as the user that it runs as, may open what is in it.
    fn check(&self) -> Result<(), Errno> {
        self.open(b".", OpenAs::Look, Patience::Disk)?;
        let opened = self.now.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Errno::NOENT)?;
        accessat(&opened.descriptor, c".", Access::EXEC_OK, AtFlags::EACCESS)
    }

    /// Has a disk thread look whether its path names another folder by now, if nobody has looked lately.
    pub fn tend(self: &Arc<Self>, threads: &DiskThreads, now_ms: u64) {
        let is_due = now_ms.saturating_sub(self.looked_ms.load(Relaxed)) >= LOOK_EVERY_MS;
        if !is_due || self.is_looked_at.swap(true, Relaxed) {
            return;
        }
        self.looked_ms.store(now_ms, Relaxed);
        let folder = Arc::clone(self);
        let begun = threads.spawn(self.device(), move || {
            folder.look();
            folder.is_looked_at.store(false, Relaxed);
        });
        if begun.is_err() {
            self.is_looked_at.store(false, Relaxed);
        }
    }

    fn look(&self) {
        let Ok(found) = Opened::new(&self.spec.path) else { return };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let is_same = now.as_ref().is_some_and(|now| (now.device, now.inode) == (found.device, found.inode));
        if !is_same {
            self.device.store(found.device, Relaxed);
            *now = Some(Arc::new(found));
            self.version.store(NEXT_VERSION.fetch_add(1, Relaxed), Relaxed);
        }
    }
}

/// Folders of a process, by what makes them the same one: they outlive reloads.
#[derive(Debug, Default)]
pub struct Folders {
    known: Mutex<HashMap<FolderSpec, Weak<LiveFolder>>>,
}

impl Folders {
    /// Opens folders, and keeps them open as long as the result lives. What is open already stays as it is where its path leads nowhere.
    ///
    /// # Errors
    /// Which folder cannot be used, and why.
    pub fn open(&self, specs: impl IntoIterator<Item = FolderSpec>) -> Result<Vec<Arc<LiveFolder>>, FolderError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, folder| folder.strong_count() > 0);
        let mut all = Vec::new();
        for spec in specs {
            let folder = match known.get(&spec).and_then(Weak::upgrade) {
                Some(folder) => folder,
                None => {
                    let opened =
                        Opened::new(&spec.path).map_err(|error| FolderError::Open(spec.path.clone(), error.into()))?;
                    Arc::new(LiveFolder::new(&spec, Some(opened)))
                }
            };
            folder.check().map_err(|error| FolderError::Enter(spec.path.clone(), error.into()))?;
            known.insert(spec, Arc::downgrade(&folder));
            all.push(folder);
        }
        Ok(all)
    }

    /// A folder that has been opened. Nothing is in one that has not.
    #[must_use]
    pub fn opened(&self, spec: &FolderSpec) -> Arc<LiveFolder> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(spec).and_then(Weak::upgrade).unwrap_or_else(|| Arc::new(LiveFolder::new(spec, None)))
    }
}
