//! What one worker keeps open of the files of a backend.
//!
//! Entries live in two generations. A new one, or one that is used, is of the young one; when that is full, it becomes the old one, and
//! what was left of the old one goes. So what is asked for stays, without a list that each hit would have to change.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use haproxycfg::model::OpenFileCache;
use http::Coding;
use rustc_hash::FxBuildHasher;
use web::{CleanPath, PreparedHeads};

use super::OpenFile;

/// What a file was found by: the lines that counted for the request, and the path of its target as it came.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Which version of which folder.
    pub folder: u64,
    /// Which `root` or `alias` line counted.
    pub line: u16,
    /// Which `try-files` line counted, from 1; 0 for none.
    pub tries: u16,
    /// The path as it came.
    pub path: &'a [u8],
}

impl Key<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.folder.to_ne_bytes());
        out.extend_from_slice(&self.line.to_ne_bytes());
        out.extend_from_slice(&self.tries.to_ne_bytes());
        out.extend_from_slice(self.path);
    }
}

/// A file that is kept.
#[derive(Debug)]
pub struct CachedFile {
    /// The path of the file: that of the request, or of what stands for it.
    pub path: CleanPath,
    /// Whether that is another one than was asked for, as that of an index file.
    pub stands_in: bool,
    /// What it is: `Content-Type` without a charset.
    pub essence: Arc<str>,
    /// The file as it is.
    pub plain: TaggedFile,
    /// The same compressed, the best first.
    pub variants: Vec<Variant>,
    /// When it was last seen to be unchanged, in milliseconds since the start of the process.
    pub seen_ms: AtomicU64,
}

/// A file that lies compressed beside another one.
#[derive(Debug)]
pub struct Variant {
    /// How it is compressed.
    pub coding: Coding,
    /// The file.
    pub tagged: TaggedFile,
}

/// A file, and what is said of it each time.
#[derive(Debug)]
pub struct TaggedFile {
    /// The file.
    pub file: OpenFile,
    /// Its tag.
    pub tag: Box<[u8]>,
    /// Its heads, once it has been asked for again.
    pub heads: OnceLock<PreparedHeads>,
}

impl TaggedFile {
    /// A file with this tag.
    #[must_use]
    pub fn new(file: OpenFile, tag: Box<[u8]>) -> Self {
        Self { file, tag, heads: OnceLock::new() }
    }
}

impl CachedFile {
    /// The file in a coding.
    #[must_use]
    pub fn variant(&self, coding: Coding) -> Option<&OpenFile> {
        self.variants.iter().find(|variant| variant.coding == coding).map(|variant| &variant.tagged.file)
    }

    /// The file and those that lie compressed beside it.
    pub fn files(&self) -> impl Iterator<Item = &OpenFile> {
        std::iter::once(&self.plain.file).chain(self.variants.iter().map(|variant| &variant.tagged.file))
    }

    fn memory_bytes(&self) -> usize {
        self.files().map(OpenFile::memory_bytes).sum()
    }
}

#[derive(Debug, Default)]
struct Generation {
    /// NOTE: a hash that clients could foresee: they name no key that is no file.
    files: HashMap<Box<[u8]>, Arc<CachedFile>, FxBuildHasher>,
    bytes: usize,
}

/// Files that are kept.
#[derive(Debug)]
pub struct OpenFiles {
    young: Generation,
    old: Generation,
    /// Most files of a generation.
    entries_max: usize,
    /// Most bytes in memory of a generation.
    bytes_max: usize,
    valid_ms: u64,
    /// Files that have gone because others came.
    evictions: u64,
    key: Vec<u8>,
}

impl OpenFiles {
    /// As the configuration wants it.
    #[must_use]
    pub fn new(settings: &OpenFileCache) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            entries_max: settings.entries_max.div_ceil(2),
            bytes_max: settings.memory_bytes_max.div_ceil(2),
            valid_ms: u64::try_from(settings.valid.as_millis()).unwrap_or(u64::MAX),
            evictions: 0,
            key: Vec::new(),
        }
    }

    /// The file that was found by this key, and whether it may have changed since it was last looked at.
    pub fn find(&mut self, key: Key<'_>, now_ms: u64) -> Option<(Arc<CachedFile>, bool)> {
        if self.entries_max == 0 {
            return None;
        }
        key.write(&mut self.key);
        let found = match self.young.files.get(&*self.key) {
            Some(found) => Arc::clone(found),
            None => {
                let (name, found) = self.old.files.remove_entry(&*self.key)?;
                self.old.bytes -= found.memory_bytes().min(self.old.bytes);
                self.put(name, Arc::clone(&found));
                found
            }
        };
        let is_due = now_ms.saturating_sub(found.seen_ms.load(Relaxed)) >= self.valid_ms;
        Some((found, is_due))
    }

    /// Keeps a file.
    pub fn keep(&mut self, key: Key<'_>, file: &Arc<CachedFile>) {
        if self.entries_max == 0 {
            return;
        }
        key.write(&mut self.key);
        let name = self.key.as_slice().into();
        self.forget_key();
        self.put(name, Arc::clone(file));
    }

    /// Forgets what was found by this key.
    pub fn forget(&mut self, key: Key<'_>) {
        key.write(&mut self.key);
        self.forget_key();
    }

    fn forget_key(&mut self) {
        for generation in [&mut self.young, &mut self.old] {
            if let Some(gone) = generation.files.remove(&*self.key) {
                generation.bytes -= gone.memory_bytes().min(generation.bytes);
            }
        }
    }

    fn put(&mut self, name: Box<[u8]>, file: Arc<CachedFile>) {
        let bytes = file.memory_bytes();
        if bytes > self.bytes_max {
            return;
        }
        if self.young.files.len() >= self.entries_max || self.young.bytes + bytes > self.bytes_max {
            self.evictions += self.old.files.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        self.young.files.insert(name, file);
    }

    /// How many files are kept, how many bytes of them in memory, and how many have gone because others came.
    #[must_use]
    pub fn totals(&self) -> (usize, usize, u64) {
        (self.young.files.len() + self.old.files.len(), self.young.bytes + self.old.bytes, self.evictions)
    }
}
