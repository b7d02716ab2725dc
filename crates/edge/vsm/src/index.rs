//! What a process publishes: an index of it, and the files with the memory.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use crate::{
    VsmError,
    counters::{CounterTable, Counters, Table, document},
    log::Log,
    memory::Memory,
};

const INDEX: &str = "_.index";
const FILE_MODE: u32 = 0o640;
const NAME_BYTES_MAX: usize = 255;
/// A page of most machines; where they are larger, the system fills the rest of the last one. NOTE: its own answer cannot be had under
/// valgrind.
const PAGE_BYTES: usize = 4 << 10;

/// Lines that take something away, at least, before the index is written anew without what is gone.
const REMOVALS_MIN: usize = 10;
/// Names of files that are tried before a folder is called full.
const NAME_ATTEMPTS_MAX: usize = 16;

/// What a process publishes. Dropping it takes all of it away.
#[derive(Debug)]
pub struct Publisher {
    folder: PathBuf,
    header: String,
    index: File,
    segments: Vec<Segment>,
    /// Descriptions of counters that are published already.
    documents: Vec<&'static Table>,
    removals: usize,
}

/// An entry of the index.
#[derive(Debug)]
struct Segment {
    file: String,
    bytes: usize,
    class: String,
    ident: String,
}

impl Segment {
    fn line(&self, action: char) -> String {
        format!("{action} {} 0 {} {} {}\n", self.file, self.bytes, self.class, self.ident)
    }
}

impl Publisher {
    /// Begins an index in `folder`, which exists.
    pub(crate) fn new(folder: &Path) -> Result<Self, VsmError> {
        let birth = basics::clock::since_1970().as_secs();
        let header = format!("# {} {birth}\n", std::process::id());
        let index = write_index(folder, &header)?;
        Ok(Self { folder: folder.to_owned(), header, index, segments: Vec::new(), documents: Vec::new(), removals: 0 })
    }

    /// Publishes bytes that do not change, such as `("Arg", "-T", "127.0.0.1 6082\n")`. What had that class and name is replaced.
    ///
    /// # Errors
    /// When the name cannot be in an index, or the system refuses.
    pub fn publish(&mut self, class: &str, ident: &str, content: &[u8]) -> Result<(), VsmError> {
        let former = self.segments.iter().find(|segment| segment.class == class && segment.ident == ident);
        let former = former.map(|segment| segment.file.clone());
        // A zero behind the text, and whole words of 8 bytes, as Varnish has it.
        let bytes = (content.len() + 1).next_multiple_of(8);
        self.allocate(class, ident, bytes, |memory| {
            for (chunk, word) in content.chunks(4).zip(memory.words()) {
                let mut padded = [0; 4];
                padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                word.store(u32::from_ne_bytes(padded), Ordering::Relaxed);
            }
        })?;
        former.map_or(Ok(()), |file| self.remove_file(&file))
    }

    /// Publishes counters, all zero. The name begins with what they are of: `MAIN`, `VBE.boot.default`.
    ///
    /// # Errors
    /// When the name cannot be in an index, or the system refuses.
    pub fn counters<T: CounterTable>(&mut self, ident: &str) -> Result<Counters<T>, VsmError> {
        if !self.documents.iter().any(|table| std::ptr::eq(*table, T::TABLE)) {
            let content = document::json(T::TABLE);
            let bytes = document::bytes(&content);
            self.allocate("StatDoc", &format!("{:x}", T::TABLE.id), bytes, |memory| {
                document::fill(memory, T::TABLE.id, content.as_bytes());
            })?;
            self.documents.push(T::TABLE);
        }
        let bytes = Counters::<T>::BYTES;
        let (memory, file) = self.allocate("Stat", ident, bytes, |memory| document::fill(memory, T::TABLE.id, &[]))?;
        Ok(Counters::new(memory, file))
    }

    /// Takes counters away.
    ///
    /// # Errors
    /// When the system refuses. Their memory is gone in any case.
    #[expect(clippy::needless_pass_by_value, reason = "they are not to be used again")]
    pub fn remove<T: CounterTable>(&mut self, counters: Counters<T>) -> Result<(), VsmError> {
        self.remove_shared(&counters)
    }

    /// Takes counters away that others may still write: nobody sees what.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove_shared<T: CounterTable>(&mut self, counters: &Counters<T>) -> Result<(), VsmError> {
        self.remove_file(counters.file())
    }

    /// Publishes a log of that size (Varnish's parameter vsl_space), which nothing was written to yet.
    ///
    /// # Errors
    /// When the size is of no use, or the system refuses.
    pub fn log(&mut self, bytes: usize) -> Result<Arc<Log>, VsmError> {
        Log::check_size(bytes)?;
        // Whole pages: readers take the length in the index for the end.
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let (memory, _) = self.allocate("Log", "Log", bytes, Log::prepare)?;
        Ok(Arc::new(Log::new(memory)))
    }

    /// New memory. It is in the index when `prepare` has run.
    fn allocate(
        &mut self,
        class: &str,
        ident: &str,
        bytes: usize,
        prepare: impl FnOnce(&Memory),
    ) -> Result<(Memory, String), VsmError> {
        let is_name = |name: &str| {
            name.len() <= NAME_BYTES_MAX
                && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#'))
        };
        for name in [class, ident] {
            if !is_name(name) || name.is_empty() {
                return Err(VsmError::Name(name.to_owned()));
            }
        }
        let (name, file) = self.create_file(class)?;
        let path = self.folder.join(&name);
        let size = bytes.next_multiple_of(PAGE_BYTES);
        let memory = Memory::create(&file, size).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        });
        let memory = memory.map_err(VsmError::io("give its size to", &path))?;
        prepare(&memory);
        let segment = Segment { file: name.clone(), bytes, class: class.to_owned(), ident: ident.to_owned() };
        self.append(&segment.line('+'))?;
        self.segments.push(segment);
        Ok((memory, name))
    }

    fn create_file(&self, class: &str) -> Result<(String, File), VsmError> {
        let mut failure = io::Error::from(io::ErrorKind::AlreadyExists);
        let mut path = self.folder.clone();
        for _ in 0..NAME_ATTEMPTS_MAX {
            let name = random_name(class);
            path = self.folder.join(&name);
            match OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&path) {
                Ok(file) => return Ok((name, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    failure = error;
                    break;
                }
            }
        }
        Err(VsmError::io("make", path)(failure))
    }

    fn append(&mut self, line: &str) -> Result<(), VsmError> {
        // In one write, because readers follow.
        self.index.write_all(line.as_bytes()).map_err(VsmError::io("write", self.folder.join(INDEX)))
    }

    fn remove_file(&mut self, file: &str) -> Result<(), VsmError> {
        let Some(at) = self.segments.iter().position(|segment| segment.file == file) else { return Ok(()) };
        let segment = self.segments.remove(at);
        self.removals += 1;
        if self.removals < REMOVALS_MIN || self.removals * 2 < self.segments.len() {
            self.append(&segment.line('-'))?;
        } else {
            let lines: String = self.segments.iter().map(|segment| segment.line('+')).collect();
            self.index = write_index(&self.folder, &format!("{}{lines}", self.header))?;
            self.removals = 0;
        }
        let path = self.folder.join(file);
        fs::remove_file(&path).map_err(VsmError::io("remove", path))
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        // Nobody can be told of a failure; what is left is removed at the next start. Another process may have taken the folder over.
        let path = self.folder.join(INDEX);
        if is_same_file(&path, &self.index) {
            let _ = fs::remove_file(path);
        }
        for segment in &self.segments {
            let _ = fs::remove_file(self.folder.join(&segment.file));
        }
    }
}

/// Puts an index in place of the one that is there, whole or not at all. The file is for more lines.
fn write_index(folder: &Path, content: &str) -> Result<File, VsmError> {
    let path = folder.join(random_name(INDEX));
    let mut options = OpenOptions::new();
    let mut file =
        options.append(true).create_new(true).mode(FILE_MODE).open(&path).map_err(VsmError::io("make", &path))?;
    file.write_all(content.as_bytes()).map_err(VsmError::io("write", &path))?;
    let index = folder.join(INDEX);
    fs::rename(&path, &index).map_err(VsmError::io("put in place", index))?;
    Ok(file)
}

/// Whether a path leads to a file that is open.
pub(crate) fn is_same_file(path: &Path, file: &File) -> bool {
    let place = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((fs::metadata(path), file.metadata()), (Ok(there), Ok(here)) if place(&there) == place(&here))
}

fn random_name(class: &str) -> String {
    let mut bytes = [0; 8];
    // A name that is taken is tried again with another one, so a machine without random numbers is no danger.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("_.{class}.{:016x}", u64::from_ne_bytes(bytes))
}
