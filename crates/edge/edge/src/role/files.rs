//! The files of this machine, as the parser asks for them.

use std::{fs, io, net::IpAddr, sync::Arc};

use haproxycfg::source::{Files, ReadError};
use live::resolve::{Lookup as _, SystemLookup};

use super::Given;

/// Reads from the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFiles;

fn describe(error: &io::Error) -> ReadError {
    // The system's words without Rust's "(os error 2)".
    let text = error.to_string();
    ReadError(text.split(" (os error").next().unwrap_or(&text).to_owned())
}

impl Files for OsFiles {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        let path = if path == "-" { "/dev/stdin" } else { path };
        fs::read(path).map(Into::into).map_err(|error| describe(&error))
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError> {
        let metadata = fs::metadata(path).map_err(|error| describe(&error))?;
        if !metadata.is_dir() {
            return Ok(None);
        }
        let names = fs::read_dir(path)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
            })
            .map_err(|error| describe(&error))?;
        Ok(Some(names))
    }

    fn lookup(&self, host: &str) -> Vec<IpAddr> {
        SystemLookup.lookup(host).unwrap_or_default()
    }
}

/// The file system, with one file that is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithGiven<'a> {
    pub(super) given: Option<&'a Given>,
    pub(super) others: OsFiles,
}

impl Files for WithGiven<'_> {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        match self.given.filter(|given| given.name == path) {
            Some(given) => Ok(given.text.as_bytes().into()),
            None => self.others.read(path),
        }
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError> {
        if self.given.is_some_and(|given| given.name == path) { Ok(None) } else { self.others.list(path) }
    }

    fn lookup(&self, host: &str) -> Vec<IpAddr> {
        self.others.lookup(host)
    }
}
