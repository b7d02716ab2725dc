//! The files of a disk tier: a trait, and the machine's own files.

use std::{
    fmt::Debug,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// One of the two journals that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFile {
    /// The one that is read after a start.
    Current,
    /// The one that is being written to replace it.
    Next,
}

/// Two files: data that is read and written anywhere, and a journal that only grows.
///
/// All but `sync` and `replace_journal` come back when the system has what was written; a process that is killed loses nothing of it.
pub trait Files: Debug + Send + Sync {
    /// Fills `into` with data from `at` on.
    ///
    /// # Errors
    /// The system's, as with all others.
    fn read_data(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes data at `at`.
    ///
    /// # Errors
    /// As above.
    fn write_data(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// The current journal; empty if there is none.
    ///
    /// # Errors
    /// As above.
    fn read_journal(&self) -> io::Result<Vec<u8>>;

    /// Puts bytes behind a journal.
    ///
    /// # Errors
    /// As above.
    fn append(&self, journal: JournalFile, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the current journal to this length.
    ///
    /// # Errors
    /// As above.
    fn cut_journal(&self, length: u64) -> io::Result<()>;

    /// Makes an empty next journal, in place of one that is there.
    ///
    /// # Errors
    /// As above.
    fn begin_next_journal(&self) -> io::Result<()>;

    /// Makes the next journal the current one; a crash leaves one of both, whole.
    ///
    /// # Errors
    /// As above.
    fn replace_journal(&self) -> io::Result<()>;

    /// Tries whether the disk takes so many bytes more; they are not kept.
    ///
    /// # Errors
    /// As above.
    fn probe(&self, bytes: u64) -> io::Result<()>;

    /// Waits until the current journal is on the disk, so that a loss of power leaves it.
    ///
    /// # Errors
    /// As above.
    fn sync(&self) -> io::Result<()>;

    /// Whether a cache has run without these files since they were used: its bans and purges are not in the journal.
    fn are_behind(&self) -> bool {
        false
    }

    /// Notes that they are behind no more, since they are empty.
    ///
    /// # Errors
    /// As above.
    fn catch_up(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written at once to try whether a disk takes something.
const PROBE_PIECE_BYTES: usize = 256 << 10;

/// Files of the machine: `PATH`, `PATH.journal` and `PATH.journal.new`; and `PATH.behind`, an empty file that is left by whoever wanted
/// them in vain.
#[derive(Debug)]
pub struct RealFiles {
    data: File,
    path: PathBuf,
    journals: Mutex<Journals>,
}

#[derive(Debug)]
struct Journals {
    current: File,
    next: Option<File>,
}

impl RealFiles {
    /// Opens the files, or makes them. The data file gets its whole size at once; its blocks are taken when they are written.
    ///
    /// # Errors
    /// The system's, with the path; another process has them open. Whoever gets an error goes on without the files, and hears of bans and
    /// purges that are not in them: the next one who opens them has [`Files::are_behind`].
    pub fn open(path: &Path, size: u64) -> io::Result<Self> {
        Self::open_or_fail(path, size).inspect_err(|_| {
            // NOTE: where not even this can be written, nothing can be done.
            let _ = File::create(behind_path(path));
        })
    }

    fn open_or_fail(path: &Path, size: u64) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let data = options.open(path).map_err(named)?;
        match data.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("{}: another process uses this file; give each cache its own", path.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) => return Err(named(error)),
        }
        data.set_len(size).map_err(named)?;
        let current = open_journal(&journal_path(path, JournalFile::Current), false).map_err(named)?;
        Ok(Self { data, path: path.to_owned(), journals: Mutex::new(Journals { current, next: None }) })
    }

    fn journals(&self) -> std::sync::MutexGuard<'_, Journals> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for RealFiles {
    fn read_data(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.data.read_exact_at(into, at)
    }

    fn write_data(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.data.write_all_at(bytes, at)
    }

    fn read_journal(&self) -> io::Result<Vec<u8>> {
        std::fs::read(journal_path(&self.path, JournalFile::Current))
    }

    fn append(&self, journal: JournalFile, bytes: &[u8]) -> io::Result<()> {
        let mut journals = self.journals();
        match journal {
            JournalFile::Current => journals.current.write_all(bytes),
            JournalFile::Next => journals.next.as_mut().ok_or_else(no_next)?.write_all(bytes),
        }
    }

    fn cut_journal(&self, length: u64) -> io::Result<()> {
        self.journals().current.set_len(length)
    }

    fn begin_next_journal(&self) -> io::Result<()> {
        let next = open_journal(&journal_path(&self.path, JournalFile::Next), true)?;
        self.journals().next = Some(next);
        Ok(())
    }

    fn replace_journal(&self) -> io::Result<()> {
        let mut journals = self.journals();
        let next = journals.next.take().ok_or_else(no_next)?;
        next.sync_data()?;
        let current = journal_path(&self.path, JournalFile::Current);
        std::fs::rename(journal_path(&self.path, JournalFile::Next), &current)?;
        journals.current = next;
        let folder = current.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    fn probe(&self, bytes: u64) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".probe");
        let path = PathBuf::from(name);
        // NOTE: no zeros, of which some filesystems keep nothing.
        let piece = vec![0x5a; PROBE_PIECE_BYTES];
        let mut written = Ok(());
        let mut file = File::create(&path)?;
        for _ in 0..bytes.div_ceil(PROBE_PIECE_BYTES as u64) {
            written = file.write_all(&piece);
            if written.is_err() {
                break;
            }
        }
        // Others find out late that there is no room.
        let synced = written.and_then(|()| file.sync_data());
        std::fs::remove_file(&path)?;
        synced
    }

    fn sync(&self) -> io::Result<()> {
        // NOTE: the lock is not held while the disk works: others append meanwhile.
        let current = self.journals().current.try_clone()?;
        current.sync_data()
    }

    fn are_behind(&self) -> bool {
        // NOTE: what cannot be found out is taken for the worse.
        behind_path(&self.path).try_exists().unwrap_or(true)
    }

    fn catch_up(&self) -> io::Result<()> {
        std::fs::remove_file(behind_path(&self.path))
    }
}

fn no_next() -> io::Error {
    io::Error::other("no journal has been begun")
}

fn journal_path(path: &Path, journal: JournalFile) -> PathBuf {
    beside(
        path,
        match journal {
            JournalFile::Current => ".journal",
            JournalFile::Next => ".journal.new",
        },
    )
}

fn behind_path(path: &Path) -> PathBuf {
    beside(path, ".behind")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn open_journal(path: &Path, is_new: bool) -> io::Result<File> {
    if is_new
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    OpenOptions::new().append(true).create(true).open(path)
}
