//! Finds the rings of a running process.

use std::{fs::File, io, path::Path};

use super::{RingError, RingReader, writer::NAME_PREFIX};

/// A ring of a process.
#[derive(Debug)]
pub struct RingFile {
    /// The worker that writes it.
    pub worker: u32,
    file: File,
}

impl RingFile {
    /// A reader that begins with what is written next.
    ///
    /// # Errors
    /// When it is no ring that this version can read.
    pub fn reader(self) -> Result<RingReader, RingError> {
        RingReader::from_file(self.file.into())
    }
}

/// The anonymous rings of process `pid` in the order of the workers.
///
/// They are found among the process' open files, so this takes the right to look there: the same user, or root when the
/// process has changed its user.
///
/// # Errors
/// When the process' open files cannot be listed.
pub fn discover(pid: u32) -> io::Result<Vec<RingFile>> {
    let mut rings = Vec::new();
    for entry in std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"))? {
        let path = entry?.path();
        // A descriptor that was closed meanwhile is no error.
        let Ok(link) = std::fs::read_link(&path) else { continue };
        let Some(worker) = link.to_str().and_then(worker_of) else { continue };
        let Ok(file) = File::open(&path) else { continue };
        rings.push(RingFile { worker, file });
    }
    rings.sort_by_key(|ring| ring.worker);
    Ok(rings)
}

fn worker_of(link: &str) -> Option<u32> {
    link.strip_prefix("/memfd:")?.strip_prefix(NAME_PREFIX)?.split(' ').next()?.parse().ok()
}
