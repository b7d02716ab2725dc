//! Files in memory, for tests: they know what a crash would have left of them, and fail when told to.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Files, JournalFile};

/// Files in memory; clones are the same files.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    contents: Arc<Mutex<Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
    data: Vec<u8>,
    current: Vec<u8>,
    next: Option<Vec<u8>>,
    history: Vec<Write>,
    remembers: bool,
    fails: bool,
}

#[derive(Clone, Debug)]
enum Write {
    Data(u64, Vec<u8>),
    Append(JournalFile, Vec<u8>),
    Cut(u64),
    BeginNext,
    Replace,
}

impl MemoryFiles {
    /// Files with these contents.
    #[must_use]
    pub fn of(data: Vec<u8>, journal: Vec<u8>) -> Self {
        let files = Self::default();
        let mut contents = files.lock();
        contents.data = data;
        contents.current = journal;
        drop(contents);
        files
    }

    /// Empty files that remember all writes.
    #[must_use]
    pub fn remembering() -> Self {
        let files = Self::default();
        files.lock().remembers = true;
        files
    }

    /// How many writes there were.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock().history.len()
    }

    /// What is there if the process was killed after so many writes and so many bytes of the next one.
    #[must_use]
    pub fn killed_after(&self, writes: usize, bytes_of_next: usize) -> Self {
        let history = self.lock().history.clone();
        let files = Self::default();
        let mut contents = files.lock();
        for (place, write) in history.into_iter().take(writes + 1).enumerate() {
            let part = |mut bytes: Vec<u8>| {
                bytes.truncate(if place < writes { usize::MAX } else { bytes_of_next });
                bytes
            };
            match write {
                Write::Data(at, bytes) => contents.apply(Write::Data(at, part(bytes))),
                Write::Append(journal, bytes) => contents.apply(Write::Append(journal, part(bytes))),
                other if place < writes => contents.apply(other),
                _ => {}
            }
        }
        drop(contents);
        files
    }

    /// The data file and the journal.
    #[must_use]
    pub fn contents(&self) -> (Vec<u8>, Vec<u8>) {
        let contents = self.lock();
        (contents.data.clone(), contents.current.clone())
    }

    /// From now on no write succeeds, or all do.
    pub fn fail_writes(&self, fails: bool) {
        self.lock().fails = fails;
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, write: Write) -> io::Result<()> {
        let mut contents = self.lock();
        if contents.fails {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if contents.remembers {
            contents.history.push(write.clone());
        }
        contents.apply(write);
        Ok(())
    }
}

impl Contents {
    fn apply(&mut self, write: Write) {
        match write {
            Write::Data(at, bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let end = at.saturating_add(bytes.len());
                if self.data.len() < end {
                    self.data.resize(end, 0);
                }
                self.data.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = from);
            }
            Write::Append(JournalFile::Current, bytes) => self.current.extend_from_slice(&bytes),
            Write::Append(JournalFile::Next, bytes) => {
                self.next.iter_mut().for_each(|next| next.extend_from_slice(&bytes))
            }
            Write::Cut(length) => self.current.truncate(usize::try_from(length).unwrap_or(usize::MAX)),
            Write::BeginNext => self.next = Some(Vec::new()),
            Write::Replace => self.current = self.next.take().unwrap_or_default(),
        }
    }
}

impl Files for MemoryFiles {
    fn read_data(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let contents = self.lock();
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let end = at.checked_add(into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let from = contents.data.get(at..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn write_data(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(Write::Data(at, bytes.to_vec()))
    }

    fn read_journal(&self) -> io::Result<Vec<u8>> {
        Ok(self.lock().current.clone())
    }

    fn append(&self, journal: JournalFile, bytes: &[u8]) -> io::Result<()> {
        self.write(Write::Append(journal, bytes.to_vec()))
    }

    fn cut_journal(&self, length: u64) -> io::Result<()> {
        self.write(Write::Cut(length))
    }

    fn begin_next_journal(&self) -> io::Result<()> {
        self.write(Write::BeginNext)
    }

    fn replace_journal(&self) -> io::Result<()> {
        self.write(Write::Replace)
    }

    fn probe(&self, _: u64) -> io::Result<()> {
        if self.lock().fails { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
