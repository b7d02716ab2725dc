//! What a master leaves in a folder so that commands find it without being told: a file for each master, which says what it
//! runs and where it listens.
//!
//! | who runs it | folder |
//! |---|---|
//! | `TIDEGATE_RUN_DIR` is set | that folder |
//! | root | `/run/tidegate` |
//! | a service of systemd with a `RuntimeDirectory=` | that folder, `$RUNTIME_DIRECTORY` |
//! | another user | `$XDG_RUNTIME_DIR/tidegate`, or `/tmp/tidegate-UID` without that variable |
//!
//! A file is stale when no process has its number, or one that was started at another time; whoever reads the folder and may
//! remove it does so.

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Names the folder, whoever runs the program.
pub const VARIABLE: &str = "TIDEGATE_RUN_DIR";
/// Root's folder.
pub const ROOTS_FOLDER: &str = "/run/tidegate";
/// What names of run files end with; before it stands the process number.
const SUFFIX: &str = ".run";
/// Bytes of a file that are read: a damaged one must not fill memory.
const BYTES_MAX: u64 = 1 << 20;

/// A master that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// The master's process number.
    pub pid: u32,
    /// When it was started, in the system's ticks since the machine was: with the number it names one process for good.
    pub started: u64,
    /// What it runs, for people: files and folders.
    pub configuration: Vec<String>,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// Where it takes commands of its role, the place where they reach farthest first.
    #[serde(default)]
    pub command_sockets: Vec<String>,
}

/// The folder where a master of this user leaves its file.
pub fn own_folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let uid = geteuid();
    if let Some(folder) = variable(VARIABLE) {
        return folder;
    }
    if uid.is_root() {
        return ROOTS_FOLDER.into();
    }
    // Of several the first one.
    let of_service = variable("RUNTIME_DIRECTORY")
        .and_then(|folders| folders.to_str().and_then(|folders| folders.split(':').next()).map(PathBuf::from));
    of_service
        .or_else(|| variable("XDG_RUNTIME_DIR").map(|folder| folder.join("tidegate")))
        .unwrap_or_else(|| format!("/tmp/tidegate-{}", uid.as_raw()).into())
}

/// The masters that run and have a file in this folder, by their numbers. Stale files are removed.
///
/// # Errors
/// When the folder is there and cannot be read, or belongs to somebody who is neither this user nor root.
pub fn find(folder: &Path) -> io::Result<Vec<RunFile>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    check_owner(folder)?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
        let Some(pid) = name.and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that is removed meanwhile is no error, and one that cannot be read says nothing of a master.
        match read(&path) {
            Ok(file) if file.pid == pid && start_time(pid) == Some(file.started) => found.push(file),
            Ok(_) => drop(std::fs::remove_file(&path)),
            Err(_) => {}
        }
    }
    found.sort_by_key(|file| file.pid);
    Ok(found)
}

fn read(path: &Path) -> io::Result<RunFile> {
    use std::io::Read as _;
    let mut content = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut content)?;
    Ok(serde_json::from_slice(&content)?)
}

/// A folder of somebody else may say anything.
fn check_owner(folder: &Path) -> io::Result<()> {
    let owner = std::fs::symlink_metadata(folder)?;
    if !owner.is_dir() {
        return Err(io::Error::other("it is no folder"));
    }
    // Whoever has root's folder got it from root: nobody else makes folders in /run.
    if folder != Path::new(ROOTS_FOLDER) && owner.uid() != geteuid().as_raw() && owner.uid() != 0 {
        return Err(io::Error::other(format!("it belongs to user {}, who may have put anything there", owner.uid())));
    }
    Ok(())
}

/// When a process was started; `None` when there is none with this number.
pub fn start_time(pid: u32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, with whatever letters in it.
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // One that has ended and that nobody has waited for yet serves nobody.
    let is_gone = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !is_gone)
}

impl RunFile {
    /// The file of this process.
    pub(crate) fn of_this_process(configuration: Vec<String>, addresses: Vec<String>) -> io::Result<Self> {
        let pid = std::process::id();
        let started =
            start_time(pid).ok_or_else(|| io::Error::other("/proc does not tell when this process was started"))?;
        Ok(Self { pid, started, configuration, addresses, command_sockets: Vec::new() })
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}{SUFFIX}", self.pid))
    }

    /// Writes it, in the place of a former one.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        // Who may know of a master is root's choice for root's folder, and nobody else's business otherwise.
        let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
        DirBuilder::new().recursive(true).mode(mode).create(folder)?;
        check_owner(folder)?;
        let path = self.path(folder);
        let new = path.with_extension("new");
        // NOTE: a new file, so that nobody's link leads elsewhere.
        let _ = std::fs::remove_file(&new);
        let mut file = File::options().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        std::fs::rename(&new, &path)
    }

    /// Removes it.
    pub(crate) fn remove(&self, folder: &Path) {
        // One that is gone already, or stays for want of rights, is stale from now on anyway.
        let _ = std::fs::remove_file(self.path(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-run-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_master_is_found_as_long_as_it_runs() {
        let folder = folder("found");
        assert_eq!(find(&folder).unwrap(), []);
        let mut own = RunFile::of_this_process(vec!["/etc/a.cfg".into()], vec!["127.0.0.1:80".into()]).unwrap();
        own.write(&folder).unwrap();
        assert_eq!(find(&folder).unwrap(), std::slice::from_ref(&own));
        own.addresses.push("127.0.0.1:81".into());
        own.command_sockets.push("unix@/run/stats".into());
        own.write(&folder).unwrap();
        assert_eq!(find(&folder).unwrap(), std::slice::from_ref(&own));
        own.remove(&folder);
        assert_eq!(find(&folder).unwrap(), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn files_of_processes_that_are_gone_are_removed() {
        let folder = folder("stale");
        let own = RunFile::of_this_process(Vec::new(), Vec::new()).unwrap();
        own.write(&folder).unwrap();
        // A number that was given to another process since, and one that nobody has.
        RunFile { started: own.started + 1, ..own.clone() }.write(&folder).unwrap();
        RunFile { pid: 4_194_999, ..own.clone() }.write(&folder).unwrap();
        std::fs::write(folder.join("tidegate.pid"), "1\n").unwrap();
        std::fs::write(folder.join("7.run"), "nonsense").unwrap();
        assert_eq!(find(&folder).unwrap(), []);
        let mut left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["7.run", "tidegate.pid"], "what is no run file stays");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_process_that_has_ended_has_no_start_time() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while start_time(pid).is_some() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert_eq!(start_time(pid), None);
        assert!(start_time(std::process::id()).is_some());
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let folder = folder("link");
        std::fs::create_dir(&folder).unwrap();
        let link = folder.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(find(&link).unwrap_err().to_string().contains("no folder"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
