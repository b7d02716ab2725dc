//! Files that programs have read.

use std::{
    collections::HashMap,
    io::Read as _,
    sync::{Arc, Mutex, PoisonError},
};

/// The largest file that a program may read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files that are kept at most; further ones are read each time.
const FILES_MAX: usize = 256;

/// Files that programs have read: each stays as it was when it was read first.
#[derive(Debug, Default)]
pub(crate) struct FilesRead(Mutex<HashMap<String, Arc<[u8]>>>);

impl FilesRead {
    /// What a file has; `None` for one that cannot be read, or is empty or too large.
    pub(crate) fn read(&self, path: &str) -> Option<Arc<[u8]>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(path) {
            return Some(Arc::clone(known));
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
        if bytes.is_empty() || bytes.len() as u64 > FILE_BYTES_MAX {
            return None;
        }
        let bytes: Arc<[u8]> = bytes.into();
        let mut files = lock();
        if files.len() < FILES_MAX {
            files.insert(path.to_owned(), Arc::clone(&bytes));
        }
        Some(bytes)
    }
}
