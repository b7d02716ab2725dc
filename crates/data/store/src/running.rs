//! Who serves a folder: a store that runs says so in the file that it holds locked, for those who know the folder alone.
//!
//! ```text
//! pid 1234
//! listens 127.0.0.1:6379
//! listens /run/tidegate/store.sock
//! secure 127.0.0.1:6390
//! page 127.0.0.1:8379
//! ```

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use crate::StoreError;

/// The longest file that is read.
const LEN_MAX: u64 = 64 << 10;

/// The file in a store's folder.
pub fn lock_path(dir: &Path) -> PathBuf {
    dir.join("lock")
}

/// Takes a folder for this process, for as long as the file is open.
///
/// # Errors
///
/// Another process has it, or it cannot be written.
pub fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = lock_path(dir);
    // What another process has said there stays until the folder is this one's.
    let opened = File::options().create(true).read(true).write(true).truncate(false).open(&path);
    let file = opened.map_err(|source| StoreError::Folder { path, source })?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| StoreError::Locked { path: dir.to_owned() })?;
    Ok(file)
}

/// Whether a process has the folder of a store.
#[must_use]
pub fn is_served(dir: &Path) -> bool {
    File::open(lock_path(dir)).is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}

/// Where a store listens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// HOST:PORT and paths of sockets.
    pub listens: Vec<String>,
    /// HOST:PORT where TLS is spoken.
    pub secure: Vec<String>,
    /// Where its page is, if it has one.
    pub page: Option<String>,
}

impl Running {
    /// This process, on these addresses.
    #[must_use]
    pub fn here(
        (addresses, secure): &(Vec<SocketAddr>, Vec<SocketAddr>),
        socket: &str,
        page: Option<SocketAddr>,
    ) -> Self {
        let sockets = Some(socket).filter(|path| !path.is_empty());
        let sockets = sockets.map(|path| match std::path::absolute(path) {
            Ok(path) => path.display().to_string(),
            Err(_) => path.to_owned(),
        });
        Self {
            pid: std::process::id(),
            listens: addresses.iter().map(ToString::to_string).chain(sockets).collect(),
            secure: secure.iter().map(ToString::to_string).collect(),
            page: page.map(|address| address.to_string()),
        }
    }

    /// Says so.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, mut file: &File) -> io::Result<()> {
        let listens: String = self.listens.iter().map(|address| format!("listens {address}\n")).collect();
        let secure: String = self.secure.iter().map(|address| format!("secure {address}\n")).collect();
        let page = self.page.as_ref().map(|address| format!("page {address}\n")).unwrap_or_default();
        let text = format!("pid {}\n{listens}{secure}{page}", self.pid);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    }

    /// Who serves a folder; nobody, or a store that does not say so.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn find(dir: &Path) -> io::Result<Option<Self>> {
        if !is_served(dir) {
            return Ok(None);
        }
        let mut text = String::new();
        File::open(lock_path(dir))?.take(LEN_MAX).read_to_string(&mut text)?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut running = Self::default();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("pid", pid) => running.pid = pid.parse().ok()?,
                ("listens", address) => running.listens.push(address.to_owned()),
                ("secure", address) => running.secure.push(address.to_owned()),
                ("page", address) => running.page = Some(address.to_owned()),
                // What a later version says besides.
                _ => {}
            }
        }
        (running.pid > 0).then_some(running)
    }

    /// Where it can be reached from this machine, with TLS or without; sockets first: who may use one needs no network.
    #[must_use]
    pub fn reachable(&self, is_secure: bool) -> Vec<String> {
        if is_secure {
            return self.secure.iter().map(|text| text.parse().map_or_else(|_| text.clone(), local)).collect();
        }
        let (sockets, addresses): (Vec<&String>, Vec<&String>) =
            self.listens.iter().partition(|address| address.contains('/'));
        let addresses = addresses.into_iter().map(|text| text.parse().map_or_else(|_| text.clone(), local));
        sockets.into_iter().cloned().chain(addresses).collect()
    }
}

/// An address by which this machine reaches itself where a socket listens on all of them.
fn local(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address.to_string()
}

/// How many bytes of the disk the files below a folder take. What goes away meanwhile does not count.
#[must_use]
pub fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_there_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Running::find(dir.path()).unwrap(), None);
        let file = lock(dir.path()).unwrap();
        let addresses = (
            vec!["0.0.0.0:6379".parse().unwrap(), "[::]:6379".parse().unwrap()],
            vec!["0.0.0.0:6390".parse().unwrap()],
        );
        let running = Running::here(&addresses, "/run/a.sock", Some("127.0.0.1:8379".parse().unwrap()));
        running.write(&file).unwrap();
        assert!(lock(dir.path()).is_err(), "it is taken");
        assert_eq!(Running::find(dir.path()).unwrap(), Some(running.clone()), "and nothing of it is lost by that");
        assert_eq!(running.reachable(false), ["/run/a.sock", "127.0.0.1:6379", "[::1]:6379"]);
        assert_eq!(running.reachable(true), ["127.0.0.1:6390"]);
        let less = Running { listens: Vec::new(), secure: Vec::new(), page: None, ..running };
        less.write(&file).unwrap();
        assert_eq!(Running::find(dir.path()).unwrap(), Some(less));
        drop(file);
        assert_eq!(Running::find(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_file_of_before_says_nothing() {
        assert_eq!(Running::parse(""), None);
        assert_eq!(Running::parse("pid x\n"), None);
        let later = Running::parse("pid 7\nlistens a:1\nspeaks 8 languages\n").unwrap();
        assert_eq!((later.pid, later.listens), (7, vec!["a:1".to_owned()]));
    }
}
