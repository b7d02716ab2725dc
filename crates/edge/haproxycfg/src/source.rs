//! Where the configuration's files come from.
//!
//! This crate opens no file: whoever uses it gives a [`Files`]. The master process gives one that reads the file
//! system, wrapped in a [`Recorder`], and sends what was read as a [`Bundle`] to the worker, which parses the very
//! same bytes without access to the file system (it may be in a chroot, or without rights).

use std::{cell::RefCell, collections::BTreeMap, net::IpAddr, sync::Arc};

use thiserror::Error;

use crate::bytes::{Reader, Writer};

/// Why a file cannot be read; in the system's words, as `No such file or directory`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// Reads files.
pub trait Files {
    /// The contents of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError>;

    /// The names in a directory in any order, or `None` when the path is something else.
    ///
    /// # Errors
    /// When it cannot be read or does not exist.
    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError>;

    /// The addresses of a host, of names that have to be known while the configuration is read; none if there is none.
    fn lookup(&self, host: &str) -> Vec<IpAddr> {
        let _ = host;
        Vec::new()
    }
}

/// No files at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<Arc<[u8]>, ReadError> {
        Err(ReadError("No such file or directory".to_owned()))
    }

    fn list(&self, _path: &str) -> Result<Option<Vec<String>>, ReadError> {
        Err(ReadError("No such file or directory".to_owned()))
    }
}

/// Everything that was read for a configuration: the same answers to the same questions.
///
/// As bytes: the magic `TGB1`; the number of files, and for each its path, a byte that is 1 when it could be read, and
/// contents or error; the number of directories, and for each its path, a byte (2: names, 1: not a directory, 0:
/// error), and names or error; the number of hosts, and for each its name, the number of its addresses, and these as text.
/// Numbers are 32-bit little-endian; texts and contents have their length before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    files: BTreeMap<String, Result<Arc<[u8]>, ReadError>>,
    directories: BTreeMap<String, Result<Option<Vec<String>>, ReadError>>,
    hosts: BTreeMap<String, Vec<IpAddr>>,
}

const MAGIC: &[u8] = b"TGB1";

/// Why bytes are not a [`Bundle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a bundle of configuration files, or one that was cut off")]
pub struct BundleError;

impl Bundle {
    /// Adds a file, as for a test.
    #[must_use]
    pub fn with(mut self, path: &str, contents: &[u8]) -> Self {
        self.files.insert(path.to_owned(), Ok(contents.into()));
        self
    }

    /// Adds what another one has.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn merged(mut self, other: &Self) -> Self {
        self.files.extend(other.files.iter().map(|(path, contents)| (path.clone(), contents.clone())));
        self.directories.extend(other.directories.iter().map(|(path, names)| (path.clone(), names.clone())));
        self
    }

    /// Adds a directory.
    #[must_use]
    pub fn with_directory(mut self, path: &str, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.directories.insert(path.to_owned(), Ok(Some(names)));
        self
    }

    /// Adds a host with its addresses.
    #[must_use]
    pub fn with_host(mut self, name: &str, addresses: &[IpAddr]) -> Self {
        self.hosts.insert(name.to_owned(), addresses.to_vec());
        self
    }

    /// Paths of the files that are in it.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC);
        writer.number(self.files.len());
        for (path, contents) in &self.files {
            writer.block(path.as_bytes());
            match contents {
                Ok(contents) => writer.byte(1).block(contents),
                Err(ReadError(message)) => writer.byte(0).block(message.as_bytes()),
            };
        }
        writer.number(self.directories.len());
        for (path, names) in &self.directories {
            writer.block(path.as_bytes());
            match names {
                Ok(Some(names)) => {
                    writer.byte(2).number(names.len());
                    for name in names {
                        writer.block(name.as_bytes());
                    }
                }
                Ok(None) => {
                    writer.byte(1);
                }
                Err(ReadError(message)) => {
                    writer.byte(0).block(message.as_bytes());
                }
            }
        }
        writer.number(self.hosts.len());
        for (name, addresses) in &self.hosts {
            writer.block(name.as_bytes()).number(addresses.len());
            for address in addresses {
                writer.block(address.to_string().as_bytes());
            }
        }
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// When they are not those of [`Bundle::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BundleError> {
        Self::read_from(bytes).ok_or(BundleError)
    }

    fn read_from(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC)?);
        let mut bundle = Self::default();
        for _ in 0..reader.number()? {
            let path = reader.text()?;
            let contents = match reader.byte()? {
                1 => Ok(reader.block()?.into()),
                0 => Err(ReadError(reader.text()?)),
                _ => return None,
            };
            bundle.files.insert(path, contents);
        }
        for _ in 0..reader.number()? {
            let path = reader.text()?;
            let names = match reader.byte()? {
                2 => {
                    let mut names = Vec::new();
                    for _ in 0..reader.number()? {
                        names.push(reader.text()?);
                    }
                    Ok(Some(names))
                }
                1 => Ok(None),
                0 => Err(ReadError(reader.text()?)),
                _ => return None,
            };
            bundle.directories.insert(path, names);
        }
        for _ in 0..reader.number()? {
            let name = reader.text()?;
            let mut addresses = Vec::new();
            for _ in 0..reader.number()? {
                addresses.push(reader.text()?.parse().ok()?);
            }
            bundle.hosts.insert(name, addresses);
        }
        reader.is_at_end().then_some(bundle)
    }
}

impl Files for Bundle {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        self.files.get(path).cloned().unwrap_or_else(|| NoFiles.read(path))
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError> {
        match self.directories.get(path) {
            Some(names) => names.clone(),
            None if self.files.contains_key(path) => Ok(None),
            None => NoFiles.list(path),
        }
    }

    fn lookup(&self, host: &str) -> Vec<IpAddr> {
        self.hosts.get(host).cloned().unwrap_or_default()
    }
}

/// Passes questions on and remembers the answers.
pub struct Recorder<'a> {
    files: &'a dyn Files,
    bundle: RefCell<Bundle>,
}

impl<'a> Recorder<'a> {
    /// Remembers what `files` answers.
    #[must_use]
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, bundle: RefCell::default() }
    }

    /// What was read.
    #[must_use]
    pub fn into_bundle(self) -> Bundle {
        self.bundle.into_inner()
    }
}

impl Files for Recorder<'_> {
    fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        if let Some(known) = self.bundle.borrow().files.get(path) {
            return known.clone();
        }
        let answer = self.files.read(path);
        self.bundle.borrow_mut().files.insert(path.to_owned(), answer.clone());
        answer
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, ReadError> {
        if let Some(known) = self.bundle.borrow().directories.get(path) {
            return known.clone();
        }
        let answer = self.files.list(path);
        self.bundle.borrow_mut().directories.insert(path.to_owned(), answer.clone());
        answer
    }

    fn lookup(&self, host: &str) -> Vec<IpAddr> {
        if let Some(known) = self.bundle.borrow().hosts.get(host) {
            return known.clone();
        }
        let answer = self.files.lookup(host);
        self.bundle.borrow_mut().hosts.insert(host.to_owned(), answer.clone());
        answer
    }
}

/// The files that `-f` arguments name: a directory stands for its `*.cfg` files whose names do not begin with a dot, in
/// the order of their bytes.
///
/// # Errors
/// HAProxy's message about the argument that cannot be read.
pub fn expand(arguments: &[String], files: &dyn Files) -> Result<Vec<String>, String> {
    let mut expanded = Vec::new();
    for argument in arguments {
        let listed = files
            .list(argument)
            .map_err(|error| format!("Cannot open configuration file/directory {argument} : {error}"))?;
        let Some(mut names) = listed else {
            expanded.push(argument.clone());
            continue;
        };
        names.retain(|name| name.ends_with(".cfg") && !name.starts_with('.'));
        names.sort_unstable();
        for name in names {
            let path = format!("{argument}/{name}");
            // A directory whose name ends in .cfg is not descended into.
            if matches!(files.list(&path), Ok(None)) {
                expanded.push(path);
            }
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Bundle {
        let mut bundle = Bundle::default()
            .with("conf.d/b.cfg", b"b")
            .with("conf.d/a.cfg", b"\0\xff")
            .with("conf.d/.hidden.cfg", b"")
            .with("conf.d/readme", b"")
            .with("one.cfg", b"")
            .with_directory("conf.d", &["b.cfg", "readme", ".hidden.cfg", "a.cfg", "sub.cfg"])
            .with_directory("conf.d/sub.cfg", &[])
            .with_host("web.internal", &["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()])
            .with_host("gone.internal", &[]);
        bundle.files.insert("gone".to_owned(), Err(ReadError("Permission denied".to_owned())));
        bundle.directories.insert("one.cfg".to_owned(), Ok(None));
        bundle
    }

    #[test]
    fn a_bundle_survives_its_bytes() {
        let bundle = sample();
        let bytes = bundle.to_bytes();
        assert_eq!(Bundle::from_bytes(&bytes).unwrap(), bundle);
        for length in 0..bytes.len() {
            assert_eq!(Bundle::from_bytes(&bytes[..length]), Err(BundleError), "cut at {length}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(Bundle::from_bytes(&longer), Err(BundleError));
    }

    #[test]
    fn folders_expand_in_order() {
        let arguments = ["one.cfg".to_owned(), "conf.d".to_owned()];
        assert_eq!(expand(&arguments, &sample()).unwrap(), ["one.cfg", "conf.d/a.cfg", "conf.d/b.cfg"]);
        assert_eq!(
            expand(&["nope".to_owned()], &sample()).unwrap_err(),
            "Cannot open configuration file/directory nope : No such file or directory"
        );
    }

    #[test]
    fn a_recording_answers_the_same() {
        let bundle = sample();
        let recorder = Recorder::new(&bundle);
        let arguments = ["conf.d".to_owned()];
        let expanded = expand(&arguments, &recorder).unwrap();
        for path in &expanded {
            recorder.read(path).unwrap();
        }
        assert!(recorder.read("gone").is_err());
        let recorded = recorder.into_bundle();
        assert_eq!(expand(&arguments, &recorded).unwrap(), expanded);
        assert_eq!(recorded.read("conf.d/a.cfg"), bundle.read("conf.d/a.cfg"));
        assert_eq!(recorded.read("gone"), Err(ReadError("Permission denied".to_owned())));
        assert!(recorded.read("one.cfg").is_err(), "never asked for");
    }
}
