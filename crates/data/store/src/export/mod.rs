//! The way out: a store's data as an RDB file, which Redis and Valkey load.
//!
//! [`write_rdb`] makes the file of any state of the tables and gives it to any sink; it knows neither files nor sockets. What is
//! here besides is a state to make it of, from outside ([`Still`]), and a file that is there when all of it is on the disk.

mod rdb;
mod still;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

pub use keyspace::rdb::{FileOptions, FileVersion};
pub use rdb::{RdbOptions, write_rdb};
pub use still::Still;

use crate::{StoreError, archive::sync_folder, clock};
use keyspace::rdb::Written;

/// What was exported.
#[derive(Debug, Clone, Copy)]
pub struct Exported {
    /// What the file has.
    pub written: Written,
    /// The moment: the offset of the log.
    pub offset: u64,
}

/// Writes all that a store has at this moment to a sink, whether it is served or not.
///
/// # Errors
///
/// The folder is none of a store; data that is damaged; the sink.
pub fn export(dir: &Path, options: &RdbOptions, sink: &mut dyn Write) -> Result<Exported, StoreError> {
    let still = Still::of(dir)?;
    let mut options = options.clone();
    options.auxiliary.push(("ctime", (clock::now() / 1000).to_string()));
    let written = write_rdb(&still.tables, &options, sink)?;
    Ok(Exported { written, offset: still.offset })
}

/// The same to a file, which has its name when all of it is on the disk, and not before.
///
/// # Errors
///
/// Those of [`export`]; the file. What was there under its name stays then.
pub fn export_to_file(dir: &Path, options: &RdbOptions, path: &Path) -> Result<Exported, StoreError> {
    let failed = |source: io::Error| StoreError::ExportFile { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let unready = Unready::new(path).map_err(failed)?;
    let mut sink = BufWriter::new(&unready.file);
    let exported = export(dir, options, &mut sink)?;
    sink.flush().map_err(failed)?;
    drop(sink);
    unready.finish(path).map_err(failed)?;
    Ok(exported)
}

/// A file that is being written. It goes, unless it has got its name.
struct Unready {
    path: PathBuf,
    file: File,
}

impl Unready {
    fn new(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let path = path.with_file_name(name);
        let file = File::create_new(&path)?;
        Ok(Self { path, file })
    }

    fn finish(self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_folder(folder)
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        // Under its final name it is not there any more.
        let _ = fs::remove_file(&self.path);
    }
}
