//! The folder of an instance: where it is, whose it is, and what is in it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, FileExt as _, OpenOptionsExt},
        process::parent_id,
    },
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;

use crate::{Publisher, VsmError, index::is_same_file};

/// Where instances with a name are, in Debian.
pub const STATE_FOLDER: &str = "/var/lib/varnish";
/// The folder of what the managing process publishes.
pub const MANAGER_FOLDER: &str = "_.vsm_mgt";
/// The folder of what the worker publishes.
pub const WORKER_FOLDER: &str = "_.vsm_child";

const DEFAULT_INSTANCE: &str = "varnishd";
const PID_FILE: &str = "_.pid";
const PID_BYTES_MAX: u64 = 32;
const INSTANCE_MODE: u32 = 0o755;
const PUBLIC_FOLDER_MODE: u32 = 0o750;
const PID_MODE: u32 = 0o644;

/// The folder that `-n NAME` means: a path that begins with `/` is it, anything else is a name in [`STATE_FOLDER`].
#[must_use]
pub fn instance_path(name: &str) -> PathBuf {
    // `join` takes an absolute path as it is.
    Path::new(STATE_FOLDER).join(if name.is_empty() { DEFAULT_INSTANCE } else { name })
}

/// The folder of an instance that lives in this process. It is the only one there as long as this value lives.
#[derive(Debug)]
pub struct WorkingDirectory {
    path: PathBuf,
    /// Locked; the lock goes with the last process that has it open. None where the parent has it.
    pid_file: Option<File>,
}

impl WorkingDirectory {
    /// Makes the folder where it is missing, and takes it for this process.
    ///
    /// # Errors
    /// When another instance has it, or the system refuses.
    pub fn create(path: &Path) -> Result<Self, VsmError> {
        Self::take(path, None)
    }

    /// The same for a worker. Where its parent has the folder, that keeps it; from a worker of the same parent it is taken over.
    ///
    /// # Errors
    /// When another instance has it, or the system refuses.
    pub fn create_for_worker(path: &Path) -> Result<Self, VsmError> {
        Self::take(path, Some(parent_id()))
    }

    fn take(path: &Path, parent: Option<u32>) -> Result<Self, VsmError> {
        DirBuilder::new()
            .recursive(true)
            .mode(INSTANCE_MODE)
            .create(path)
            .map_err(VsmError::io("make the working directory", path))?;
        let mut pid_file = match open_pid_file(path) {
            // A worker may have fewer rights than its parent, which has the folder: then it is enough to see that.
            Err(VsmError::Io { source, .. })
                if parent.is_some() && source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let path = path.join(PID_FILE);
                File::open(&path).map_err(VsmError::io("open", path))?
            }
            opened => opened?,
        };
        if rustix::fs::flock(&pid_file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            // What cannot be read is told as it is: empty.
            let _ = Read::by_ref(&mut pid_file).take(PID_BYTES_MAX).read_to_string(&mut pid);
            let owner: Option<u32> = pid.trim().parse().ok();
            if parent.is_some() && owner == parent {
                return Ok(Self { path: path.to_owned(), pid_file: None });
            }
            if parent.is_none() || owner.and_then(parent_of) != parent {
                return Err(VsmError::InUse { path: path.to_owned(), pid: pid.trim().to_owned() });
            }
            // That one ends: it keeps its lock, on a file that has no name any more.
            remove_file(&path.join(PID_FILE)).map_err(VsmError::io("remove", path.join(PID_FILE)))?;
            pid_file = open_pid_file(path)?;
            let locked = rustix::fs::flock(&pid_file, FlockOperation::NonBlockingLockExclusive);
            locked.map_err(io::Error::from).map_err(VsmError::io("lock", path.join(PID_FILE)))?;
        }
        let text = format!("{}\n", std::process::id());
        let written = pid_file.write_all_at(text.as_bytes(), 0).and_then(|()| pid_file.set_len(text.len() as u64));
        written.map_err(VsmError::io("write", path.join(PID_FILE)))?;
        Ok(Self { path: path.to_owned(), pid_file: Some(pid_file) })
    }

    /// Whether this process has the folder, and not its parent.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.pid_file.is_some()
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the managing process publishes; nothing of before stays.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn manager(&self) -> Result<Publisher, VsmError> {
        publisher(&self.path.join(MANAGER_FOLDER))
    }

    /// What the worker publishes; nothing of before stays, and readers of that see a restart.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn worker(&self) -> Result<Publisher, VsmError> {
        publisher(&self.path.join(WORKER_FOLDER))
    }

    /// Writes a file into the folder that only this user can read, such as the secret of the management protocol.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write_private(&self, name: &str, content: &[u8]) -> Result<PathBuf, VsmError> {
        let path = self.path.join(name);
        let written = remove_file(&path)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path)?.write_all(content));
        written.map_err(VsmError::io("write", &path))?;
        Ok(path)
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // Readers know by it that nobody is here. Nobody can be told of a failure, and the lock goes in any case.
        let path = self.path.join(PID_FILE);
        if self.pid_file.as_ref().is_some_and(|file| is_same_file(&path, file)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The parent of a process.
fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn open_pid_file(folder: &Path) -> Result<File, VsmError> {
    let path = folder.join(PID_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PID_MODE);
    options.open(&path).map_err(VsmError::io("open", &path))
}

fn publisher(folder: &Path) -> Result<Publisher, VsmError> {
    DirBuilder::new().recursive(true).mode(PUBLIC_FOLDER_MODE).create(folder).map_err(VsmError::io("make", folder))?;
    for entry in fs::read_dir(folder).map_err(VsmError::io("list", folder))? {
        let entry = entry.map_err(VsmError::io("list", folder))?;
        // Only what has the name of published memory.
        if entry.file_name().as_encoded_bytes().starts_with(b"_.") {
            remove_file(&entry.path()).map_err(VsmError::io("remove", entry.path()))?;
        }
    }
    Publisher::new(folder)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
