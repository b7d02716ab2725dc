//! Files and addresses of a program, and a record of them: who compiles it again gets the same answers.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use vcl::{compile::Resolver, source::Files};

/// Bytes of a text, at most.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Answers that were given, by what was asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    files: BTreeMap<String, Result<String, String>>,
    patterns: BTreeMap<String, Result<Vec<String>, String>>,
    hosts: BTreeMap<String, Result<Vec<IpAddr>, String>>,
}

impl Files for Recorded {
    fn read(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().unwrap_or_else(|| Err(format!("{path} was not asked for before")))
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.patterns.get(pattern).cloned().unwrap_or_else(|| Err(format!("{pattern} was not asked for before")))
    }
}

impl Resolver for Recorded {
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        self.hosts.get(host).cloned().unwrap_or_else(|| Err(format!("{host} was not asked for before")))
    }
}

/// Reads from this machine, and records it.
#[derive(Debug)]
pub struct Recorder {
    /// `vcl_path`: where files are looked for that have no path of their own.
    folders: Vec<PathBuf>,
    /// `vcc_unsafe_path`: whether files may be named by a path of their own.
    takes_paths: bool,
    recorded: RefCell<Recorded>,
}

impl Recorder {
    /// One that looks for files in these folders (`vcl_path`, with colons between them).
    #[must_use]
    pub fn new(vcl_path: &str, takes_paths: bool) -> Self {
        let folders = vcl_path.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect();
        Self { folders, takes_paths, recorded: RefCell::default() }
    }

    /// Where a file is.
    #[must_use]
    pub fn find(&self, path: &str) -> PathBuf {
        let is_placed = path.starts_with('/') || path.starts_with("./");
        let mut candidates = self.folders.iter().map(|folder| folder.join(path));
        let found = if is_placed { None } else { candidates.find(|path| path.is_file()) };
        found.unwrap_or_else(|| PathBuf::from(path))
    }

    /// What has been read.
    #[must_use]
    pub fn recorded(self) -> Recorded {
        self.recorded.into_inner()
    }
}

/// Reads a text.
///
/// # Errors
/// Why it cannot be read, in the system's words.
pub fn read_text(path: &Path) -> Result<String, String> {
    let words = |error: std::io::Error| {
        let text = error.to_string();
        text.split(" (os error").next().unwrap_or(&text).to_owned()
    };
    let length = std::fs::metadata(path).map_err(words)?.len();
    if length > TEXT_BYTES_MAX {
        return Err("it is larger than any program may be".to_owned());
    }
    let bytes = std::fs::read(path).map_err(words)?;
    String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".to_owned())
}

impl Files for Recorder {
    fn read(&self, path: &str) -> Result<String, String> {
        let is_safe = self.takes_paths || !path.contains('/');
        let text = if is_safe { read_text(&self.find(path)) } else { Err(format!("'{path}' is unsafe")) };
        self.recorded.borrow_mut().files.insert(path.to_owned(), text.clone());
        text
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        let found = glob(pattern);
        self.recorded.borrow_mut().patterns.insert(pattern.to_owned(), found.clone());
        found
    }
}

impl Resolver for Recorder {
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string());
        let found = found.map(|found| {
            let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
            addresses.dedup();
            addresses
        });
        self.recorded.borrow_mut().hosts.insert(host.to_owned(), found.clone());
        found
    }
}

/// Files whose path is like the pattern, in the order of their names; a part of a path is compared with a part of the pattern.
fn glob(pattern: &str) -> Result<Vec<String>, String> {
    let mut found = vec![PathBuf::from(if pattern.starts_with('/') { "/" } else { "." })];
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut next = Vec::new();
        for folder in &found {
            if !part.contains(['*', '?', '[']) {
                next.push(folder.join(part));
                continue;
            }
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            next.extend(names.filter(|name| varnishcli::matches(part, name)).map(|name| folder.join(name)));
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    if found.is_empty() {
        return Err("glob pattern matched no files.".to_owned());
    }
    Ok(found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect())
}
