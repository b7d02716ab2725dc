//! The index of an instance, as it grows.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{MANAGER_FOLDER, VsmError, WORKER_FOLDER, memory::Memory};

const INDEX: &str = "_.index";
/// Bytes of an index and lines of it that are read, at most. A varnishd with a thousand backends has 100 kB.
const INDEX_BYTES_MAX: u64 = 16 << 20;
const ENTRIES_MAX: usize = 100_000;
/// Bytes of an argument, at most.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// A piece of published memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether the managing process publishes it.
    pub(crate) folder: &'static str,
    pub(crate) file: String,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// What it is: `Stat`, `StatDoc`, `Log`, `Arg`.
    pub class: String,
    /// Its name.
    pub ident: String,
}

/// What has changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// There is a managing process.
    pub is_running: bool,
    /// There is a worker.
    pub has_worker: bool,
    /// Some memory came or went.
    pub changed: bool,
    /// The worker is another one.
    pub restarted: bool,
}

/// Where a set of memory was read to.
#[derive(Debug, Default)]
struct Set {
    /// The index: device, inode, bytes that were read.
    file: Option<(u64, u64, u64)>,
    header: String,
    entries: Vec<Entry>,
}

/// The published memory of an instance.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    manager: Set,
    worker: Set,
}

impl Reader {
    /// Looks at the instance in that folder.
    ///
    /// # Errors
    /// When nobody publishes there, or it cannot be read.
    pub fn attach(path: &Path) -> Result<Self, VsmError> {
        let mut reader = Self { path: path.to_owned(), manager: Set::default(), worker: Set::default() };
        match reader.refresh()?.is_running {
            true => Ok(reader),
            false => Err(VsmError::NotRunning(path.to_owned())),
        }
    }

    /// Looks again.
    ///
    /// # Errors
    /// When an index cannot be read, or is none. That it is gone is no error.
    pub fn refresh(&mut self) -> Result<Change, VsmError> {
        let (is_running, manager_changed, _) = self.manager.refresh(&self.path, MANAGER_FOLDER)?;
        let (has_worker, worker_changed, restarted) = self.worker.refresh(&self.path, WORKER_FOLDER)?;
        Ok(Change { is_running, has_worker, changed: manager_changed || worker_changed, restarted })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All memory, that of the managing process first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.manager.entries.iter().chain(&self.worker.entries)
    }

    /// The memory with that class and name.
    #[must_use]
    pub fn find(&self, class: &str, ident: &str) -> Option<&Entry> {
        self.entries().find(|entry| entry.class == class && entry.ident == ident)
    }

    /// The text of an argument, such as `("Arg", "-T")`.
    ///
    /// # Errors
    /// When its memory cannot be read.
    pub fn text(&self, class: &str, ident: &str) -> Result<Option<String>, VsmError> {
        let Some(entry) = self.find(class, ident) else { return Ok(None) };
        let path = self.file_path(entry);
        let read = File::open(&path).and_then(|file| {
            use std::os::unix::fs::FileExt;
            let mut bytes = vec![0; entry.bytes.min(TEXT_BYTES_MAX)];
            file.read_exact_at(&mut bytes, entry.offset as u64)?;
            Ok(bytes)
        });
        let bytes = read.map_err(VsmError::io("read", path))?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Some(String::from_utf8_lossy(text).into_owned()))
    }

    fn file_path(&self, entry: &Entry) -> PathBuf {
        self.path.join(entry.folder).join(&entry.file)
    }

    /// The file with that memory.
    pub(crate) fn map(&self, entry: &Entry) -> Result<Memory, VsmError> {
        let path = self.file_path(entry);
        let memory = File::open(&path).and_then(|file| Memory::open(&file));
        let memory = memory.map_err(VsmError::io("map", &path))?;
        match entry.offset.checked_add(entry.bytes).is_some_and(|end| end <= memory.words().len() * 4) {
            true => Ok(memory),
            false => Err(VsmError::Damaged { path, what: "shorter than the index says" }),
        }
    }
}

impl Set {
    /// Whether there is an index, whether its memory changed, and whether it is another process's.
    fn refresh(&mut self, path: &Path, folder: &'static str) -> Result<(bool, bool, bool), VsmError> {
        let index = path.join(folder).join(INDEX);
        let metadata = match fs::metadata(&index) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let had = self.file.take().is_some();
                *self = Self::default();
                return Ok((false, had, had));
            }
            Err(error) => return Err(VsmError::io("read", index)(error)),
        };
        let now = (metadata.dev(), metadata.ino(), metadata.len());
        if self.file == Some(now) {
            return Ok((true, false, false));
        }
        let mut text = String::new();
        let read = File::open(&index).and_then(|file| file.take(INDEX_BYTES_MAX).read_to_string(&mut text));
        read.map_err(VsmError::io("read", &index))?;
        // A line that is being written is for the next time.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let whole_text = text.get(..whole).unwrap_or_default();
        let (header, entries) =
            parse(whole_text, folder).map_err(|what| VsmError::Damaged { path: index.clone(), what })?;
        let restarted = self.header != header;
        let changed = restarted || self.entries != entries;
        *self = Self { file: Some((now.0, now.1, whole as u64)), header, entries };
        Ok((true, changed, restarted))
    }
}

/// The first line of an index, and what is there when all lines are done.
pub(super) fn parse(text: &str, folder: &'static str) -> Result<(String, Vec<Entry>), &'static str> {
    let mut lines = text.lines();
    let Some(header) = lines.next().filter(|line| line.starts_with('#')) else {
        return Ok((String::new(), Vec::new()));
    };
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines {
        let Some((action, rest)) = line.split_at_checked(1) else { continue };
        let mut words = rest.split_ascii_whitespace();
        let (Some(file), Some(offset), Some(bytes)) = (words.next(), words.next(), words.next()) else {
            return Err("a line of the index has fewer than three words");
        };
        let (Ok(offset), Ok(bytes)) = (offset.parse(), bytes.parse()) else {
            return Err("a line of the index has no numbers where they should be");
        };
        if file.contains('/') {
            return Err("a line of the index names a file in another folder");
        }
        // Without class and name it is a file that others share.
        let (class, ident) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let entry =
            Entry { folder, file: file.to_owned(), offset, bytes, class: class.to_owned(), ident: ident.to_owned() };
        match action {
            "+" if entries.len() >= ENTRIES_MAX => return Err("the index has too many lines"),
            "+" => entries.push(entry),
            "-" => entries.retain(|other| *other != entry),
            _ => {}
        }
    }
    Ok((header.to_owned(), entries))
}
