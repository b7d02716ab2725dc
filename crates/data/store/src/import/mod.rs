//! Redis' files, played into a store that runs: an RDB file key by key, an AOF command by command.
//!
//! A file is read twice. The first time it is checked to its end, so that nothing of one that is damaged is sent.

mod aof;
pub(crate) mod rdb;
pub(crate) mod source;
pub(crate) mod target;
pub mod value;

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use self::{rdb::Entry, source::Source, target::Target};
use crate::client::Access;

/// What files are read in.
const BUFFER: usize = 1 << 20;
/// How often it is told how far it has come.
const TOLD_EACH: Duration = Duration::from_secs(10);

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It ends too early.
    #[error("it ends at byte {0}, in the middle of something")]
    Ends(u64),
    /// It is not as it has to be.
    #[error("at byte {0}: {1}")]
    Format(u64, &'static str),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Why nothing was imported, or not all.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file.
    #[error("{}: {problem}; nothing of it was imported", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: Problem,
    },
    /// There is nothing to import.
    #[error("{} has no files of Redis (dump.rdb, appendonlydir)", .0.display())]
    Nothing(PathBuf),
    /// Which of them is it?
    #[error(
        "{} has {names}: with `appendonly yes` the AOF has all of the data, without it dump.rdb; name the one that is to be \
         imported", folder.display()
    )]
    Several {
        /// Where.
        folder: PathBuf,
        /// What there is.
        names: String,
    },
    /// What is imported would be mixed with what is there.
    #[error("the store at {0} has keys already: import into an empty one, or say --replace")]
    NotEmpty(String),
    /// The store.
    #[error("the store at {address}: {source}")]
    Store {
        /// Where.
        address: String,
        /// What became of it.
        source: io::Error,
    },
}

/// What is imported, and where to.
#[derive(Debug)]
pub struct Import<'a> {
    /// A file of Redis, or the folder of its data.
    pub path: &'a Path,
    /// The store: HOST:PORT, or the path of its socket.
    pub to: &'a str,
    /// How it lets one in.
    pub access: Access<'a>,
    /// The store may have keys; those of the same names are replaced.
    pub replace: bool,
}

/// What was imported.
#[derive(Debug, Default)]
pub struct Imported {
    /// Files, in order.
    pub files: Vec<PathBuf>,
    /// Keys of RDB files.
    pub keys: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// Commands of AOFs.
    pub commands: u64,
    /// What is to be known besides.
    pub notes: Vec<String>,
    /// How much the store refused, and why the first ones.
    pub refused: u64,
    /// Why the first ones.
    pub reasons: Vec<String>,
}

/// Imports.
///
/// # Errors
///
/// A file is damaged, or the store is not there. What the store refuses is in what this returns.
pub fn import(import: &Import<'_>) -> Result<Imported, ImportError> {
    let files = files(import.path)?;
    let mut imported = Imported { files: files.clone(), ..Imported::default() };
    let mut untils = Vec::new();
    for (index, path) in files.iter().enumerate() {
        let failed = |problem| ImportError::File { path: path.clone(), problem };
        let mut source = open(path).map_err(failed)?;
        let mut checking = Checking { is_last: index + 1 == files.len(), ..Checking::default() };
        read(&mut source, u64::MAX, &mut checking).map_err(failed)?;
        if let Some(note) = checking.note(path, source.at) {
            imported.notes.push(note);
        }
        untils.push(checking.until);
    }
    let lost = |source| ImportError::Store { address: import.to.to_owned(), source };
    let mut target = Target::connect(import.to, import.access).map_err(lost)?;
    if !import.replace && target.has_keys().map_err(lost)? {
        return Err(ImportError::NotEmpty(import.to.to_owned()));
    }
    if !target.begin_import().map_err(lost)? {
        let note = "it refuses CLIENT IMPORT-SOURCE: keys whose time is over are removed at once, also where a later command prolongs it";
        imported.notes.push(format!("{}: {note}", import.to));
    }
    for (path, until) in files.iter().zip(untils) {
        let failed = |problem| ImportError::File { path: path.clone(), problem };
        let mut source = open(path).map_err(failed)?;
        let told = Instant::now();
        let mut sending = Sending { target: &mut target, imported: &mut imported, replace: import.replace, told };
        sending.send(&["SELECT", "0"]).map_err(lost)?;
        match read(&mut source, until, &mut sending) {
            Ok(()) => {}
            // The file was sound a moment ago.
            Err(Problem::Read(source)) => return Err(lost(source)),
            Err(problem) => return Err(failed(problem)),
        }
    }
    target.finish().map_err(lost)?;
    (imported.refused, imported.reasons) = (target.refused, target.reasons);
    Ok(imported)
}

/// Looks whether bytes are a sound file, an RDB file or an AOF. Returns how many keys the first kind has.
///
/// # Errors
///
/// What is wrong with them.
pub fn check(bytes: &[u8]) -> Result<u64, Problem> {
    let mut checking = Checking { is_last: true, ..Checking::default() };
    read(&mut Source::new(bytes), u64::MAX, &mut checking)?;
    Ok(checking.keys)
}

/// Whether an RDB file has a key or a library, as far as can be told: a server that never had any leaves a file too.
pub(crate) fn has_something(path: &Path) -> bool {
    let first = open(path).and_then(|mut source| {
        rdb::begin(&mut source)?;
        rdb::next(&mut source)
    });
    !matches!(first, Ok(None))
}

fn open(path: &Path) -> Result<Source<BufReader<File>>, Problem> {
    Ok(Source::new(BufReader::with_capacity(BUFFER, File::open(path)?)))
}

/// The files that a path names, in the order in which they are played.
fn files(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let failed = |problem| ImportError::File { path: path.to_owned(), problem };
    if !fs::metadata(path).map_err(|error| failed(error.into()))?.is_dir() {
        let is_manifest = path.extension().is_some_and(|extension| extension == "manifest");
        return if is_manifest { manifest(path) } else { Ok(vec![path.to_owned()]) };
    }
    let mut found: Vec<PathBuf> = Vec::new();
    let entries = fs::read_dir(path).map_err(|error| failed(error.into()))?;
    let names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let has = |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
    if let Some(list) = names.iter().find(|path| has(path, "manifest")) {
        return manifest(list);
    }
    found.extend(names.iter().filter(|path| has(path, "rdb") || has(path, "aof")).cloned());
    let folder = path.join("appendonlydir");
    if folder.is_dir() {
        found.push(folder);
    }
    found.sort();
    match found.as_slice() {
        [] => Err(ImportError::Nothing(path.to_owned())),
        [one] => files(one),
        _ => {
            let names: Vec<_> =
                found.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy()).collect();
            Err(ImportError::Several { folder: path.to_owned(), names: names.join(" and ") })
        }
    }
}

fn manifest(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let failed = |problem| ImportError::File { path: path.to_owned(), problem };
    let text = fs::read_to_string(path).map_err(|error| failed(error.into()))?;
    match aof::files_of_manifest(path, &text).map_err(failed)? {
        files if files.is_empty() => Err(ImportError::Nothing(path.to_owned())),
        files => Ok(files),
    }
}

/// Whoever takes what a file has.
trait Taker {
    /// Something of an RDB file.
    fn entry(&mut self, entry: Entry) -> Result<(), Problem>;
    /// A command of an AOF, which begins and ends there.
    fn command(&mut self, words: Vec<Vec<u8>>, begin: u64, end: u64) -> Result<(), Problem>;
    /// The file ends in the middle of a command.
    fn cut(&mut self, problem: Problem) -> Result<(), Problem>;
}

/// Reads a file, up to a place in its commands.
fn read<R: BufRead>(source: &mut Source<R>, until: u64, taker: &mut dyn Taker) -> Result<(), Problem> {
    if source.peek()? == rdb::MAGIC.first().copied() {
        rdb::begin(source)?;
        while let Some(entry) = rdb::next(source)? {
            taker.entry(entry)?;
        }
    }
    // Behind an RDB file commands may follow: so Redis wrote AOFs before version 7.
    while source.at < until {
        let begin = source.at;
        match aof::next(source) {
            Ok(Some(words)) => taker.command(words, begin, source.at)?,
            Ok(None) => break,
            Err(Problem::Ends(at)) => return taker.cut(Problem::Ends(at)),
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Looks whether a file is sound, and up to where it is to be played.
#[derive(Debug, Default)]
struct Checking {
    is_last: bool,
    keys: u64,
    until: u64,
    /// Where a transaction began that has not ended.
    transaction: Option<u64>,
    is_cut: bool,
}

impl Taker for Checking {
    fn entry(&mut self, entry: Entry) -> Result<(), Problem> {
        self.keys += u64::from(matches!(entry, Entry::Key { .. }));
        Ok(())
    }

    fn command(&mut self, words: Vec<Vec<u8>>, begin: u64, end: u64) -> Result<(), Problem> {
        let name = words.first().map(Vec::as_slice).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"MULTI") {
            self.transaction = Some(begin);
        } else if name.eq_ignore_ascii_case(b"EXEC") {
            self.transaction = None;
        }
        self.until = end;
        Ok(())
    }

    fn cut(&mut self, problem: Problem) -> Result<(), Problem> {
        self.is_cut = true;
        if self.is_last { Ok(()) } else { Err(problem) }
    }
}

impl Checking {
    /// What is to be told of the file's end. What was half written is left out, as Redis does with `aof-load-truncated`.
    fn note(&mut self, path: &Path, end: u64) -> Option<String> {
        if let Some(begin) = self.transaction {
            self.until = begin;
            self.is_cut = true;
        }
        let until = self.until;
        self.is_cut.then(|| {
            format!(
                "{}: it ends in the middle of a command; the last {} bytes are left out",
                path.display(),
                end - until
            )
        })
    }
}

/// Sends what a file has.
struct Sending<'a> {
    target: &'a mut Target,
    imported: &'a mut Imported,
    replace: bool,
    told: Instant,
}

impl Sending<'_> {
    fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        if self.told.elapsed() > TOLD_EACH {
            self.told = Instant::now();
            eprintln!("{} keys and {} commands so far", self.imported.keys, self.imported.commands);
        }
        self.target.send(words)
    }
}

impl Taker for Sending<'_> {
    fn entry(&mut self, entry: Entry) -> Result<(), Problem> {
        match entry {
            Entry::StreamDatabase(_) => {}
            Entry::Database(number) => self.send(&["SELECT".to_owned(), number.to_string()])?,
            Entry::Library(code) => {
                self.imported.libraries += 1;
                let replace: &[&[u8]] = if self.replace { &[b"REPLACE"] } else { &[] };
                self.send(&[&[b"FUNCTION".as_slice(), b"LOAD"], replace, &[&code]].concat())?;
            }
            Entry::Key { name, expires, payload } => {
                self.imported.keys += 1;
                let ttl = expires.unwrap_or(0).to_string();
                let words = [b"RESTORE".as_slice(), &name, ttl.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
                self.send(words.get(..if expires.is_some() { 6 } else { 5 }).unwrap_or(&words))?;
            }
        }
        Ok(())
    }

    fn command(&mut self, words: Vec<Vec<u8>>, _: u64, _: u64) -> Result<(), Problem> {
        self.imported.commands += 1;
        Ok(self.send(&words)?)
    }

    fn cut(&mut self, problem: Problem) -> Result<(), Problem> {
        Err(problem)
    }
}

#[cfg(test)]
mod tests;
