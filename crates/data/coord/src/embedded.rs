//! The coordinator of one machine: a file in a folder, and whoever has the folder's lock.
//!
//! A transaction is answered when it is on the disk. The file grows by a frame a transaction and is written anew from time to time;
//! the new one takes the old one's place at once, so whenever the process dies there is a whole file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    CoordError, Coordinator, Versioned,
    record::{self, HEAD, Next, Record},
    table::{Change, Table},
    transaction::{LeaseId, Revision, Transaction, Write},
};

/// The file's name.
pub const FILE: &str = "coordinator";
const NEW_FILE: &str = "coordinator.new";
const LOCK: &str = "lock";
/// The file is not written anew before it has so many bytes.
const REWRITE_MIN: u64 = 1 << 20;
/// Nor before it is so many times as large as when it was written last.
const REWRITE_FACTOR: u64 = 4;

/// A coordinator in a folder.
#[derive(Debug)]
pub struct Embedded {
    inner: Mutex<Inner>,
    changed: Condvar,
    start: Instant,
    /// Held for as long as this lives.
    _lock: File,
}

#[derive(Debug)]
struct Inner {
    table: Table,
    file: File,
    path: PathBuf,
    len: u64,
    len_rewritten: u64,
    /// A write failed: nobody knows what is on the disk, so nothing is promised any more.
    has_failed: bool,
}

impl Embedded {
    /// Opens the coordinator in a folder, or begins one.
    ///
    /// # Errors
    ///
    /// Another process has it, it is damaged, or the disk fails.
    pub fn open(folder: &Path) -> Result<Self, CoordError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CoordError::Disk { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let lock_path = folder.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| CoordError::InUse(folder.to_owned()))?;
        let path = folder.join(FILE);
        let (table, good) = match fs::read(&path) {
            Ok(bytes) => read(&path, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Table::default(), 0),
            Err(error) => return Err(failed(&path)(error)),
        };
        let file = if good == 0 {
            write_whole(folder, &table)?
        } else {
            let file = OpenOptions::new().append(true).open(&path).map_err(failed(&path))?;
            file.set_len(good).and_then(|()| file.sync_all()).map_err(failed(&path))?;
            file
        };
        let len = file.metadata().map_err(failed(&path))?.len();
        let inner = Inner { table, file, path, len, len_rewritten: len, has_failed: false };
        Ok(Self { inner: Mutex::new(inner), changed: Condvar::new(), start: Instant::now(), _lock: lock })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.table.expire(self.now());
        inner
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// What a file says, and up to where it is whole; 0 if it is to be written anew.
fn read(path: &Path, bytes: &[u8]) -> Result<(Table, u64), CoordError> {
    let damaged = |at: usize, problem: String| CoordError::Damaged { path: path.to_owned(), at: at as u64, problem };
    if !bytes.starts_with(HEAD) {
        return Err(damaged(0, "it does not begin as a coordinator's file of this version".into()));
    }
    let (mut table, mut at) = (Table::default(), HEAD.len());
    loop {
        match record::next(bytes, at) {
            Next::Frame(record, end) => {
                take(&mut table, record).map_err(|problem| damaged(at, problem))?;
                at = end;
            }
            // A file takes its name when its first frame is whole.
            Next::Torn if at == HEAD.len() => return Err(damaged(at, "its first record is not whole".into())),
            Next::End | Next::Torn => return Ok((table, at as u64)),
            Next::Damaged(problem) => return Err(damaged(at, problem)),
        }
    }
}

fn take(table: &mut Table, record: Record) -> Result<(), String> {
    match record {
        Record::Values { revision, values } => {
            let values = values
                .into_iter()
                .map(|(key, text, version)| record::value(&text).map(|value| (key, Versioned { value, version })));
            *table = Table::from_values(revision, values.collect::<Result<_, _>>()?);
        }
        Record::Writes { revision, writes } => {
            let writes = writes.into_iter().map(|(key, text)| match text {
                Some(text) => record::value(&text).map(|value| Write::Put { key, value, lease: None }),
                None => Ok(Write::Delete { key }),
            });
            // Revisions under leases alone are not in the file.
            table.skip_to(revision.saturating_sub(1))?;
            table.apply(writes.collect::<Result<_, _>>()?);
        }
    }
    Ok(())
}

/// Writes a file of all values that last, in place of the one there.
fn write_whole(folder: &Path, table: &Table) -> Result<File, CoordError> {
    let (new, path) = (folder.join(NEW_FILE), folder.join(FILE));
    let values = table.lasting().map(|(key, value, version)| (key.clone(), record::text(value), version)).collect();
    let record = Record::Values { revision: table.revision(), values };
    let write = || {
        let frame = record.encode().map_err(io::Error::other)?;
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&new)?;
        file.write_all(HEAD)?;
        file.write_all(&frame)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()?;
        OpenOptions::new().append(true).open(&path)
    };
    write().map_err(|source| CoordError::Disk { path: path.clone(), source })
}

impl Inner {
    fn write(&mut self, record: &Record) -> Result<(), CoordError> {
        let failed = |path: &Path, source| CoordError::Disk { path: path.to_owned(), source };
        if self.has_failed {
            return Err(failed(&self.path, io::Error::other("a write has failed before: start the agent anew")));
        }
        let frame = record.encode().map_err(|problem| failed(&self.path, io::Error::other(problem)))?;
        let written = self.file.write_all(&frame).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // What of it is there is cut off, so that the next write does not stand behind a torn one.
            self.has_failed = self.file.set_len(self.len).and_then(|()| self.file.sync_data()).is_err();
            return Err(failed(&self.path, source));
        }
        self.len += frame.len() as u64;
        Ok(())
    }

    fn rewrite_if_large(&mut self) {
        if self.len < REWRITE_MIN || self.len < self.len_rewritten.saturating_mul(REWRITE_FACTOR) {
            return;
        }
        // The old file is as good; the next transaction tries again.
        let Some(folder) = self.path.parent() else { return };
        if let Ok(file) = write_whole(folder, &self.table) {
            self.len = file.metadata().map_or(self.len, |metadata| metadata.len());
            self.len_rewritten = self.len;
            self.file = file;
        }
    }
}

impl Coordinator for Embedded {
    fn read(&self, key: &str) -> Result<Option<Versioned>, CoordError> {
        Ok(self.inner().table.read(key))
    }

    fn list(&self, prefix: &str) -> Result<(Revision, Vec<(String, Versioned)>), CoordError> {
        let inner = self.inner();
        Ok((inner.table.revision(), inner.table.list(prefix).collect()))
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CoordError> {
        let mut inner = self.inner();
        inner.table.check(&transaction)?;
        if transaction.writes.is_empty() {
            return Ok(inner.table.revision());
        }
        let lasts = |write: &Write| match write {
            Write::Put { lease: None, .. } => true,
            Write::Put { key, .. } | Write::Delete { key } => inner.table.read(key).is_some(),
        };
        if transaction.writes.iter().any(lasts) {
            let record = Record::of_writes(inner.table.revision() + 1, &transaction.writes);
            inner.write(&record)?;
        }
        let revision = inner.table.apply(transaction.writes);
        inner.rewrite_if_large();
        self.changed.notify_all();
        Ok(revision)
    }

    fn watch(&self, prefix: &str, after: Revision, patience: Duration) -> Result<Vec<Change>, CoordError> {
        let end = Instant::now() + patience;
        let mut inner = self.inner();
        loop {
            inner.table.expire(self.now());
            let changes = inner.table.changes(prefix, after)?;
            let left = end.saturating_duration_since(Instant::now());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            // A lease may end meanwhile, which wakes nobody.
            let pause = left.min(Duration::from_millis(100));
            inner = self.changed.wait_timeout(inner, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, CoordError> {
        let now = self.now();
        Ok(self.inner().table.grant(ttl.as_millis() as u64, now))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordError> {
        let now = self.now();
        self.inner().table.keep_alive(lease, now)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), CoordError> {
        self.inner().table.revoke(lease);
        self.changed.notify_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread};

    #[test]
    fn what_was_answered_is_there_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Embedded::open(folder.path()).unwrap();
        assert!(matches!(Embedded::open(folder.path()), Err(CoordError::InUse(_))));
        let lease = coordinator.grant(Duration::from_secs(60)).unwrap();
        let first = Transaction::new().put("a", "1").put_under("agent", "x", lease);
        assert_eq!(coordinator.commit(first).unwrap(), 1);
        assert_eq!(coordinator.commit(Transaction::new().put_under("agent", "y", lease)).unwrap(), 2);
        assert_eq!(coordinator.commit(Transaction::new().if_version("a", 1).put("a", "2")).unwrap(), 3);
        drop(coordinator);
        let coordinator = Embedded::open(folder.path()).unwrap();
        assert_eq!(coordinator.read("a").unwrap(), Some(Versioned { value: b"2".to_vec(), version: 3 }));
        assert_eq!(coordinator.read("agent").unwrap(), None);
        assert_eq!(coordinator.commit(Transaction::new().if_version("a", 3).delete("a")).unwrap(), 4);
    }

    /// Cut at any byte: what is read is the state after some transaction, and of those in the file none is missing.
    #[test]
    fn a_file_cut_anywhere_is_a_moment_of_the_past() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Embedded::open(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        let mut ends = vec![fs::metadata(&path).unwrap().len() as usize];
        for number in 1..=5 {
            coordinator.commit(Transaction::new().put("n", number.to_string())).unwrap();
            ends.push(fs::metadata(&path).unwrap().len() as usize);
        }
        drop(coordinator);
        let whole = fs::read(&path).unwrap();
        for len in ends[0]..=whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let coordinator = Embedded::open(folder.path()).unwrap();
            let expected = ends.iter().filter(|end| **end <= len).count() - 1;
            let found = coordinator.read("n").unwrap().map_or(0, |found| found.version);
            assert_eq!(found, expected as u64, "cut at {len}");
        }
        fs::write(&path, &whole).unwrap();
        let mut bad = whole.clone();
        bad[ends[0] + 12] ^= 1;
        fs::write(&path, &bad).unwrap();
        assert!(matches!(Embedded::open(folder.path()), Err(CoordError::Damaged { .. })));
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Embedded::open(folder.path()).unwrap();
        let value = vec![b'v'; 300_000];
        for _ in 0..30 {
            coordinator.commit(Transaction::new().put("a", value.clone())).unwrap();
        }
        assert!(fs::metadata(folder.path().join(FILE)).unwrap().len() < 3_000_000);
        drop(coordinator);
        let coordinator = Embedded::open(folder.path()).unwrap();
        assert_eq!(coordinator.read("a").unwrap(), Some(Versioned { value, version: 30 }));
    }

    #[test]
    fn whoever_watches_is_woken() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Arc::new(Embedded::open(folder.path()).unwrap());
        let watcher = Arc::clone(&coordinator);
        let seen = thread::spawn(move || watcher.watch("/x/", 0, Duration::from_secs(30)).unwrap());
        coordinator.commit(Transaction::new().put("/y", "no")).unwrap();
        coordinator.commit(Transaction::new().put("/x/1", "yes")).unwrap();
        assert_eq!(seen.join().unwrap(), [Change { revision: 2, key: "/x/1".into(), value: Some(b"yes".to_vec()) }]);
        assert!(coordinator.watch("/x/", 2, Duration::ZERO).unwrap().is_empty());
    }
}
