//! `tidegate log dump`: the log of a store as commands, also while it is served. It reads alone.
//!
//! What it writes for programs is mostly piped into a store, to have again what somebody went back from. What was to be undone must not
//! come with it by accident: commands that empty everything are only written if that is said, and of a log that was set aside
//! the begin has to be named.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use oplog::{LogError, Offset, Reader, disk::RealDisk};
use shard::{
    ShardError,
    effects::{Effect, Effects, is_named},
};

use crate::{
    StoreError, clock,
    folder::ShardFolder,
    followers,
    log_json::{self, CommandPosition},
    point::{NoPoint, Point, time_text},
};

/// How long to wait when there is nothing new.
const IDLE_TIME: Duration = Duration::from_millis(50);

/// How often it is noted at most what a follower has had.
const NOTE_TIME: Duration = Duration::from_secs(1);

/// How commands are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Offset, time, database, command, one a line.
    Lines,
    /// Commands alone, one a line, as redis-cli takes them.
    Commands,
    /// In RESP, as the log has them: input for `redis-cli --pipe`.
    Raw,
    /// Objects of JSON, one a line ([`log_json`]).
    Json,
}

/// What of a log is shown.
#[derive(Debug, Clone)]
pub struct Dump {
    /// The folder of a store, or one that has files of a log in it.
    pub folder: PathBuf,
    /// Nothing before it.
    pub from: Option<Point>,
    /// Nothing from there on.
    pub to: Option<Point>,
    /// Whether to go on as the log grows.
    pub follow: bool,
    /// How it is shown.
    pub form: Form,
    /// Whoever reads what is written: it goes on where it was, and the log is kept for it ([`followers`]).
    pub follower: Option<String>,
    /// Commands that empty a database or all of them are written too where commands are written to be run again.
    pub with_flushes: bool,
}

/// Shows a log. Ends well when nobody reads what is written. Returns how many commands there were.
///
/// # Errors
///
/// There is no log, it does not go back that far, or it is damaged.
pub fn dump(what: &Dump, out: &mut dyn Write) -> Result<u64, StoreError> {
    let mut printer = Printer::new(what, out);
    match printer.run() {
        Err(StoreError::Loop(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(printer.count),
        other => other.map(|()| printer.count),
    }
}

/// Reads a point as the command line has it.
///
/// # Errors
///
/// What would be right.
pub fn point(text: &str) -> Result<Point, NoPoint> {
    Point::parse(text, clock::now().unsigned_abs())
}

/// The folder of the log's files.
pub(crate) fn log_folder(folder: &Path) -> PathBuf {
    let inner = ShardFolder::first(folder).log();
    if inner.is_dir() { inner } else { folder.to_owned() }
}

/// The offset that a log which was set aside begins to count at, as its folder is called (`log-after-482113`).
fn set_aside_at(folder: &Path) -> Option<Offset> {
    let folder = std::path::absolute(folder).ok()?;
    folder.file_name()?.to_str()?.strip_prefix("log-after-")?.parse().ok().map(Offset)
}

/// Whether a form is to be looked at and not to be run.
fn shows(form: Form) -> bool {
    matches!(form, Form::Lines | Form::Json)
}

fn is_missing(error: &LogError) -> bool {
    matches!(error, LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Whether an error may come from a segment's being given up while it is read.
fn may_be_gone(error: &LogError) -> bool {
    is_missing(error) || matches!(error, LogError::Corrupt(_) | LogError::Removed { .. })
}

/// Whether a command empties a database, or more.
fn is_flush(words: &[&[u8]]) -> bool {
    let is_flush_of_functions =
        is_named(words, "FUNCTION") && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"FLUSH"));
    is_named(words, "FLUSHALL") || is_named(words, "FLUSHDB") || is_flush_of_functions
}

struct Printer<'a> {
    what: &'a Dump,
    /// Nothing before it: as it was asked for, or as the folder is called.
    from: Option<Point>,
    /// Commands are written to be run again, and nobody has named their begin though the store went back to there.
    lacks_begin: bool,
    folder: PathBuf,
    out: &'a mut dyn Write,
    /// The database that commands of the log are for.
    db: usize,
    /// That of the commands that were written, as whoever takes them knows it.
    written_db: Option<usize>,
    in_transaction: bool,
    /// Whether the transaction in run is shown.
    shown: bool,
    /// A transaction began, and its database is still to come: what is to be written then.
    pending: Option<(Offset, u64)>,
    done: bool,
    /// How many commands were written.
    count: u64,
    /// Where the transaction began that is being shown.
    transaction_at: Option<Offset>,
    /// Up to where its follower is noted to have had the log, and since when.
    noted: (Option<Offset>, Option<Instant>),
}

impl<'a> Printer<'a> {
    fn new(what: &'a Dump, out: &'a mut dyn Write) -> Self {
        let aside = set_aside_at(&what.folder).filter(|_| what.from.is_none());
        Self {
            what,
            from: what.from.or(aside.map(Point::Offset)),
            lacks_begin: aside.is_some() && !shows(what.form),
            folder: log_folder(&what.folder),
            out,
            db: 0,
            written_db: None,
            in_transaction: false,
            shown: false,
            pending: None,
            done: false,
            count: 0,
            transaction_at: None,
            noted: (None, None),
        }
    }

    fn run(&mut self) -> Result<(), StoreError> {
        let is_of_log = |entry: fs::DirEntry| entry.path().extension().is_some_and(|end| end == "oplog");
        // A folder that cannot be listed is told with its reason by whoever reads it.
        if fs::read_dir(&self.folder).is_ok_and(|entries| !entries.flatten().any(is_of_log)) {
            return Err(StoreError::NoLog { path: self.what.folder.clone() });
        }
        if let Some(name) = &self.what.follower {
            let noted = followers::read(&self.what.folder, name)?;
            self.noted.0 = noted;
            self.from = self.from.or(noted.map(Point::Offset));
        }
        let mut reader = self.open(self.from)?;
        let mut effects = Effects::default();
        let mut end = None;
        loop {
            match reader.next() {
                Ok(Some(entry)) => {
                    let time_ms = entry.time_ms;
                    end = Some(entry.end());
                    let broken =
                        |offset: Offset, reason| StoreError::Shard(ShardError::Replay { offset: offset.0, reason });
                    effects.each(&entry, |effect| self.take(&effect, time_ms), broken)?;
                    if self.done {
                        break;
                    }
                    self.note_sometimes(end)?;
                    continue;
                }
                Ok(None) => {}
                // Its segment may have been given up while it was read, and another is written in its place.
                Err(error) if may_be_gone(&error) && self.is_gone(end) => {
                    let at = end.unwrap_or_default();
                    return Err(LogError::Removed { asked: at, first: self.first()? }.into());
                }
                Err(error) => return Err(error.into()),
            }
            if !self.what.follow {
                break;
            }
            self.note(end)?;
            thread::sleep(IDLE_TIME);
            // There may be new segments.
            if let Some(end) = end {
                reader = self.open(Some(Point::Offset(end)))?;
            }
        }
        self.note(end.filter(|_| self.what.to.is_none()))
    }

    /// Reads from a point on. A segment may be given up between its being listed and being opened: then it is looked again.
    fn open(&self, from: Option<Point>) -> Result<Reader<RealDisk>, StoreError> {
        const TRIES: usize = 10;
        let mut tries = 0;
        loop {
            let opened = match from {
                None => Reader::open(RealDisk, &self.folder, None),
                Some(Point::Offset(offset)) => Reader::open(RealDisk, &self.folder, Some(offset)),
                Some(Point::Time(time)) => Reader::open_at_time(RealDisk, &self.folder, time),
            };
            tries += 1;
            match opened {
                Err(error) if is_missing(&error) && tries < TRIES => {}
                other => return Ok(other?.whole_frames()),
            }
        }
    }

    /// Hands on what was written, and notes then that the follower has had it.
    fn note(&mut self, end: Option<Offset>) -> Result<(), StoreError> {
        self.out.flush()?;
        if let (Some(name), Some(end)) = (&self.what.follower, end)
            && self.noted.0 != Some(end)
        {
            followers::write(&self.what.folder, name, end)?;
            self.noted = (Some(end), Some(Instant::now()));
        }
        Ok(())
    }

    /// The same, if it was not done a moment ago.
    fn note_sometimes(&mut self, end: Option<Offset>) -> Result<(), StoreError> {
        let is_due = self.noted.1.is_none_or(|at| at.elapsed() >= NOTE_TIME);
        if self.what.follower.is_some() && is_due { self.note(end) } else { Ok(()) }
    }

    fn first(&self) -> Result<Offset, StoreError> {
        let mut reader = Reader::open(RealDisk, &self.folder, None)?;
        Ok(reader.next()?.map(|entry| entry.offset).unwrap_or_default())
    }

    fn is_gone(&self, end: Option<Offset>) -> bool {
        self.first().is_ok_and(|first| end.is_some_and(|end| first > end))
    }

    fn take(&mut self, effect: &Effect<'_>, time_ms: u64) -> Result<(), StoreError> {
        if self.done {
            return Ok(());
        }
        if is_named(effect.words, "SELECT") {
            self.db = effect.words.get(1).and_then(|word| resp::parse_integer(word)).map_or(0, |db| db as usize);
            return Ok(());
        }
        // What a master tells its replicas beside writes changes nothing when it is run again.
        if self.what.form != Form::Lines && (is_named(effect.words, "PING") || is_named(effect.words, "REPLCONF")) {
            return Ok(());
        }
        // A transaction is shown whole, or not at all.
        if !self.in_transaction {
            self.shown = match self.from {
                None => true,
                Some(Point::Offset(from)) => effect.offset >= from,
                Some(Point::Time(from)) => time_ms >= from,
            };
            self.done = match self.what.to {
                None => false,
                Some(Point::Offset(to)) => effect.offset >= to,
                Some(Point::Time(to)) => time_ms > to,
            };
            if self.done {
                return Ok(());
            }
        }
        let is_begin = is_named(effect.words, "MULTI");
        self.in_transaction = is_begin || self.in_transaction && !is_named(effect.words, "EXEC");
        if !self.shown {
            return Ok(());
        }
        if is_begin {
            // Its database is named behind it.
            self.pending = Some((effect.offset, time_ms));
            return Ok(());
        }
        if let Some((offset, time_ms)) = self.pending.take() {
            let words: &[&[u8]] = &[b"MULTI"];
            let mut bytes = Vec::new();
            resp::encode_command(&mut bytes, words);
            self.write(&Effect { offset, words, bytes: &bytes }, time_ms)?;
        }
        self.write(effect, time_ms)
    }

    /// Keeps what was to be undone from being run again by accident.
    fn check(&self, effect: &Effect<'_>) -> Result<(), StoreError> {
        /// As much of a command is told.
        const TOLD_MAX: usize = 60;
        let is_wanted = shows(self.what.form) || self.what.with_flushes || !is_flush(effect.words);
        if is_wanted && !self.lacks_begin {
            return Ok(());
        }
        let text = effect.words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        let command = if text.len() > TOLD_MAX { format!("{}...", text.get(..TOLD_MAX).unwrap_or("")) } else { text };
        let (offset, next) = (effect.offset.0, effect.offset.0 + effect.bytes.len() as u64);
        Err(if self.lacks_begin {
            StoreError::DumpBegin { offset, command, next }
        } else {
            StoreError::DumpFlush { offset, command, next, in_transaction: self.in_transaction }
        })
    }

    fn write(&mut self, effect: &Effect<'_>, time_ms: u64) -> Result<(), StoreError> {
        if let Err(error) = self.check(effect) {
            // What is in front of it is whole.
            self.out.flush()?;
            return Err(error);
        }
        let mut line = Vec::new();
        if self.what.form == Form::Json {
            line = log_json::line(self.place(effect, time_ms), effect.words);
        } else if self.what.form == Form::Lines {
            line.extend_from_slice(format!("{} {} [{}]", effect.offset, time_text(time_ms), self.db).as_bytes());
            for word in effect.words {
                line.push(b' ');
                resp::quote_argument(&mut line, word);
            }
            line.push(b'\n');
        } else {
            if self.written_db != Some(self.db) {
                self.written_db = Some(self.db);
                self.encode(&mut line, &[b"SELECT", self.db.to_string().as_bytes()], None);
            }
            self.encode(&mut line, effect.words, Some(effect.bytes));
        }
        self.out.write_all(&line)?;
        self.count += 1;
        Ok(())
    }

    fn place(&mut self, effect: &Effect<'_>, time_ms: u64) -> CommandPosition {
        let is_begin = is_named(effect.words, "MULTI");
        if is_begin {
            self.transaction_at = Some(effect.offset);
        }
        let next = match self.transaction_at {
            Some(begin) if self.in_transaction || is_begin => begin.0,
            _ => {
                self.transaction_at = None;
                effect.offset.0 + effect.bytes.len() as u64
            }
        };
        CommandPosition { offset: effect.offset.0, next, time_ms, db: self.db }
    }

    fn encode(&self, line: &mut Vec<u8>, words: &[&[u8]], bytes: Option<&[u8]>) {
        if self.what.form == Form::Raw {
            match bytes {
                Some(bytes) => line.extend_from_slice(bytes),
                None => resp::encode_command(line, words),
            }
            return;
        }
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            resp::quote_argument(line, word);
        }
        line.push(b'\n');
    }
}
