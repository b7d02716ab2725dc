//! A disk in memory that remembers everything done to it, so that it can say what a crash would have left.
//!
//! # What a crash leaves
//!
//! - A file has what was written to it before its last sync.
//! - Of what was written later, each 512 bytes (a sector) are there or not, independently; the last write may end at any
//!   byte. The file's length follows what is there.
//! - Of what was done to names since the folder's last sync, the first so many steps are there: file systems keep their
//!   order.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Disk, DiskFile};

/// What is written whole or not at all.
const SECTOR_LEN: u64 = 512;

/// What a crash leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process alone is gone: all is there.
    Process,
    /// The machine is gone, and nothing that was not synced is there.
    Nothing,
    /// All is there but the end of the last write: so many bytes of it.
    Torn(usize),
    /// Some of it, by a seed.
    Some(u64),
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    /// All that was done, in order.
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Write { file: usize, position: u64, bytes: Vec<u8> },
    Extend { file: usize, len: u64 },
    Sync { file: usize },
    Link { path: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
    SyncFolder,
}

/// A file of it.
#[derive(Debug)]
pub struct MemoryFile {
    state: Arc<Mutex<State>>,
    file: usize,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many steps have been taken: writes, syncs, and changes of names.
    #[must_use]
    pub fn steps(&self) -> usize {
        lock(&self.state).steps.len()
    }

    /// Bytes of the write that the step before `steps` was; 0 if it was no write.
    #[must_use]
    pub fn write_len(&self, steps: usize) -> usize {
        match steps.checked_sub(1).and_then(|last| lock(&self.state).steps.get(last).cloned()) {
            Some(Step::Write { bytes, .. }) => bytes.len(),
            _ => 0,
        }
    }

    /// Another disk, as a crash after the first `steps` steps leaves it.
    #[must_use]
    pub fn crash(&self, steps: usize, crash: Crash) -> Self {
        let state = lock(&self.state);
        let steps = state.steps.get(..steps).unwrap_or(&state.steps);
        let mut random = match crash {
            Crash::Some(seed) => seed.wrapping_mul(2).wrapping_add(1),
            _ => 1,
        };
        let last = steps.len().saturating_sub(1);
        // Up to which step a file, and names, are durable.
        let mut files_synced: BTreeMap<usize, usize> = BTreeMap::new();
        let mut names_synced = 0;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Sync { file } => drop(files_synced.insert(*file, index)),
                Step::SyncFolder => names_synced = index,
                _ => {}
            }
        }
        let names_kept = match crash {
            Crash::Process | Crash::Torn(_) => usize::MAX,
            Crash::Nothing => names_synced,
            Crash::Some(_) => {
                names_synced + draw(&mut random, (steps.len() - names_synced.min(steps.len())) as u64 + 1)
            }
        };
        let mut image = State::default();
        image.files.resize_with(state.files.len(), Content::default);
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Write { file, position, bytes } => {
                    let synced = files_synced.get(file).is_some_and(|&synced| index < synced);
                    image.write(*file, *position, bytes, synced, crash, index == last, &mut random);
                }
                Step::Extend { file, len } => {
                    let synced = files_synced.get(file).is_some_and(|&synced| index < synced);
                    let kept = synced
                        || match crash {
                            Crash::Process | Crash::Torn(_) => true,
                            Crash::Nothing => false,
                            Crash::Some(_) => draw(&mut random, 2) == 0,
                        };
                    if kept {
                        image.extend(*file, *len);
                    }
                }
                Step::Sync { .. } | Step::SyncFolder => {}
                names if index <= names_kept => image.change_names(names),
                _ => {}
            }
        }
        // The past of the new disk is over: it begins with all that it has durable.
        let image_steps: Vec<Step> = image
            .names
            .iter()
            .map(|(path, file)| Step::Link { path: path.clone(), file: *file })
            .chain(image.files.iter().enumerate().map(|(file, content)| Step::Write {
                file,
                position: 0,
                bytes: content.bytes.clone(),
            }))
            .chain((0..image.files.len()).map(|file| Step::Sync { file }))
            .chain([Step::SyncFolder])
            .collect();
        image.steps = image_steps;
        Self { state: Arc::new(Mutex::new(image)) }
    }

    /// Another disk with the same files.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.crash(usize::MAX, Crash::Process)
    }

    /// What is in a file.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        state.names.get(path).and_then(|&file| state.files.get(file)).map(|content| content.bytes.clone())
    }

    /// Turns a bit of a file, as a failing disk would.
    pub fn flip(&self, path: &Path, position: usize, mask: u8) {
        let mut state = lock(&self.state);
        let Some(file) = state.names.get(path).copied() else { return };
        if let Some(byte) = state.files.get_mut(file).and_then(|content| content.bytes.get_mut(position)) {
            *byte ^= mask;
        }
    }

    /// All files there are.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        lock(&self.state).names.keys().cloned().collect()
    }
}

/// A number below `bound`, by a linear generator: the seed alone decides.
fn draw(random: &mut u64, bound: u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from((*random >> 33) % bound.max(1)).unwrap_or(0)
}

impl State {
    fn take(&mut self, step: Step) {
        match &step {
            Step::Write { file, position, bytes } => self.put(*file, *position, bytes),
            Step::Extend { file, len } => self.extend(*file, *len),
            _ => self.change_names(&step),
        }
        self.steps.push(step);
    }

    fn change_names(&mut self, step: &Step) {
        match step {
            Step::Link { path, file } => drop(self.names.insert(path.clone(), *file)),
            Step::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Step::Remove { path } => drop(self.names.remove(path)),
            _ => {}
        }
    }

    fn extend(&mut self, file: usize, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(content) = self.files.get_mut(file)
            && content.bytes.len() < len
        {
            content.bytes.resize(len, 0);
        }
    }

    fn put(&mut self, file: usize, position: u64, bytes: &[u8]) {
        self.extend(file, position + bytes.len() as u64);
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let place = self.files.get_mut(file).and_then(|content| content.bytes.get_mut(start..start + bytes.len()));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one place calls it")]
    fn write(
        &mut self,
        file: usize,
        position: u64,
        bytes: &[u8],
        synced: bool,
        crash: Crash,
        is_last: bool,
        random: &mut u64,
    ) {
        match crash {
            _ if synced => self.put(file, position, bytes),
            Crash::Process => self.put(file, position, bytes),
            Crash::Nothing => {}
            Crash::Torn(len) if is_last => self.put(file, position, bytes.get(..len).unwrap_or(bytes)),
            Crash::Torn(_) => self.put(file, position, bytes),
            Crash::Some(_) => {
                let torn = if is_last { draw(random, bytes.len() as u64 + 1) } else { bytes.len() };
                let bytes = bytes.get(..torn).unwrap_or(bytes);
                let mut done = 0;
                while done < bytes.len() {
                    let at = position + done as u64;
                    let len = usize::try_from(SECTOR_LEN - at % SECTOR_LEN).unwrap_or(1).min(bytes.len() - done);
                    if draw(random, 3) > 0 {
                        self.put(file, at, bytes.get(done..done + len).unwrap_or_default());
                    }
                    done += len;
                }
            }
        }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn create_folder(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn open(&self, path: &Path) -> io::Result<MemoryFile> {
        let file = lock(&self.state).names.get(path).copied().ok_or_else(not_found)?;
        Ok(MemoryFile { state: Arc::clone(&self.state), file })
    }

    fn create(&self, path: &Path) -> io::Result<MemoryFile> {
        let mut state = lock(&self.state);
        let file = state.files.len();
        state.files.push(Content::default());
        state.take(Step::Link { path: path.to_owned(), file });
        drop(state);
        Ok(MemoryFile { state: Arc::clone(&self.state), file })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !state.names.contains_key(from) {
            return Err(not_found());
        }
        state.take(Step::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        if !state.names.contains_key(path) {
            return Err(not_found());
        }
        state.take(Step::Remove { path: path.to_owned() });
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        lock(&self.state).take(Step::SyncFolder);
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.state).files.get(self.file).map_or(0, |content| content.bytes.len() as u64))
    }

    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let state = lock(&self.state);
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let found = state.files.get(self.file).and_then(|content| content.bytes.get(start..)).unwrap_or_default();
        let len = found.len().min(bytes.len());
        if let (Some(to), Some(from)) = (bytes.get_mut(..len), found.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        lock(&self.state).take(Step::Write { file: self.file, position, bytes: bytes.to_vec() });
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.state).take(Step::Sync { file: self.file });
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        lock(&self.state).take(Step::Extend { file: self.file, len });
        Ok(())
    }
}
