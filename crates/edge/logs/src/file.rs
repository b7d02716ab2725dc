//! Files of log lines, written by a thread of their own: a worker hands lines over and never waits for a disk.
//!
//! A file that was moved or removed is opened anew under its path: a tool that rotates logs renames it, and need not tell anybody. A
//! reload does the same at once.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::loss::Loss;

/// How often the writer looks whether the path still leads to its file, and tries again to open or to write one.
const LOOK_TIME: Duration = Duration::from_secs(1);
/// How long an ending process waits for the disk to take what is left.
const LAST_TIME: Duration = Duration::from_secs(1);
/// Rights of a file that is made: lines tell of clients.
const MODE: u32 = 0o640;

/// A file that lines are written to.
#[derive(Debug)]
pub(super) struct LogFile {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    /// Tells the writer of lines, of an order, or of the end; and whoever ends that it has ended.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    lines: u64,
    /// Bytes that may wait.
    bytes_max: usize,
    /// The path is to be opened anew.
    reopens: bool,
    ends: bool,
    has_ended: bool,
    /// What the writer could not write, until somebody counts it.
    loss: Loss,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    /// Opens the file, or tries again until it can be opened.
    pub(super) fn open(path: &str, bytes_max: usize) -> Self {
        let path = PathBuf::from(path);
        let mut loss = Loss::default();
        let file = open(&path).map_err(|error| loss.error = Some(error)).ok();
        let state =
            State { waiting: Vec::new(), lines: 0, bytes_max, reopens: false, ends: false, has_ended: false, loss };
        let shared = Arc::new(Shared { path, state: Mutex::new(state), changed: Condvar::new() });
        let writer = Writer { shared: Arc::clone(&shared), file, rest: Vec::new(), looked: Instant::now() };
        let thread = std::thread::Builder::new().name("log-file".to_owned()).spawn(|| writer.run());
        if let Err(error) = &thread {
            let mut state = shared.state();
            state.loss.error.get_or_insert(io::Error::new(error.kind(), error.to_string()));
            state.bytes_max = 0;
        }
        Self { shared, writer: thread.ok() }
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Lets as many bytes wait from now on.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        if self.writer.is_some() {
            self.shared.state().bytes_max = bytes_max;
        }
    }

    /// Opens the path anew.
    pub(super) fn reopen(&self) {
        self.shared.state().reopens = true;
        self.shared.changed.notify_all();
    }

    /// Hands lines over that lie one behind the other in `bytes` and end at `ends`. Says what became of these and of earlier ones.
    pub(super) fn write(&self, bytes: &[u8], ends: &[usize]) -> Loss {
        let mut state = self.shared.state();
        let mut loss = std::mem::take(&mut state.loss);
        let room = state.bytes_max.saturating_sub(state.waiting.len());
        let fitting = ends.partition_point(|end| *end <= room);
        let end = fitting.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(0);
        loss.dropped += (ends.len() - fitting) as u64;
        if fitting > 0 {
            let was_empty = state.waiting.is_empty();
            state.waiting.extend_from_slice(bytes.get(..end).unwrap_or_default());
            state.lines += fitting as u64;
            drop(state);
            if was_empty {
                self.shared.changed.notify_all();
            }
        }
        loss
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        let mut state = self.shared.state();
        state.ends = true;
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(state, LAST_TIME, |state| !state.has_ended);
        // A disk that does not answer keeps nobody: its thread ends with the process.
        if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
            let _ = writer.join();
        }
    }
}

/// The thread's own part.
struct Writer {
    shared: Arc<Shared>,
    file: Option<File>,
    /// What is left of bytes of which the disk took only a part: it goes first, so that no line is broken.
    rest: Vec<u8>,
    looked: Instant,
}

impl Writer {
    fn run(mut self) {
        let mut bytes = Vec::new();
        loop {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.state();
            // NOTE: while something could not be written, it is tried again each second though nobody says anything.
            let patience = if self.rest.is_empty() { Duration::MAX } else { LOOK_TIME };
            state = match shared.changed.wait_timeout_while(state, patience.min(Duration::from_secs(3600)), |state| {
                state.waiting.is_empty() && !state.reopens && !state.ends
            }) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
            bytes.clear();
            std::mem::swap(&mut bytes, &mut state.waiting);
            let lines = std::mem::take(&mut state.lines);
            let (reopens, ends) = (std::mem::take(&mut state.reopens), state.ends);
            drop(state);
            let failed = self.write(&bytes, reopens);
            let mut state = shared.state();
            if let Err(error) = failed {
                state.loss.fail(lines, error);
            }
            if ends && state.waiting.is_empty() {
                state.has_ended = true;
                drop(state);
                shared.changed.notify_all();
                return;
            }
        }
    }

    /// Writes lines to the file that the path leads to.
    fn write(&mut self, bytes: &[u8], reopens: bool) -> io::Result<()> {
        let now = Instant::now();
        if reopens || now.duration_since(self.looked) >= LOOK_TIME {
            self.looked = now;
            if reopens || !self.is_at_path() {
                match open(&self.shared.path) {
                    Ok(file) => {
                        if let Some(former) = self.file.replace(file)
                            && !self.rest.is_empty()
                        {
                            // The line was begun there.
                            let _ = (&former).write_all(&std::mem::take(&mut self.rest));
                        }
                    }
                    Err(error) if self.file.is_none() => return Err(error),
                    // Lines go on into the old one, wherever it has been moved.
                    Err(error) => {
                        self.shared.state().loss.error.get_or_insert(error);
                    }
                }
            }
        }
        let Some(file) = &self.file else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file could not be opened"));
        };
        if !self.rest.is_empty() {
            let (written, done) = write_all(file, &self.rest);
            self.rest.drain(..written);
            done?;
        }
        let (written, done) = write_all(file, bytes);
        if written > 0 && written < bytes.len() {
            // The line that was begun is finished later; those behind it are lost.
            let rest = bytes.get(written..).unwrap_or_default();
            let is_broken = bytes.get(written - 1) != Some(&b'\n');
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            if is_broken {
                self.rest.extend_from_slice(rest.get(..end).unwrap_or_default());
            }
        }
        done
    }

    fn is_at_path(&self) -> bool {
        let own = self.file.as_ref().and_then(|file| file.metadata().ok());
        let there = std::fs::metadata(&self.shared.path).ok();
        own.zip(there).is_some_and(|(own, there)| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    }
}

fn write_all(mut file: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

fn open(path: &Path) -> io::Result<File> {
    // NOTE: a pipe that nobody reads would make the opening wait.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn until(what: &str, condition: impl Fn() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn put(file: &LogFile, lines: &[&str]) -> Loss {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            ends.push(bytes.len());
        }
        file.write(&bytes, &ends)
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn lines_follow_the_path_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        std::fs::write(&path, "before\n").unwrap();
        let file = LogFile::open(path.to_str().unwrap(), 65_536);
        put(&file, &["1", "2"]);
        until("lines are written", || text(&path) == "before\n1\n2\n");
        std::fs::rename(&path, &moved).unwrap();
        // Without a word: it is seen within a second.
        let put_lines = std::cell::Cell::new(0);
        until("the path is opened anew", || {
            put_lines.set(put_lines.get() + 1);
            put(&file, &["x"]);
            path.exists()
        });
        until("every line is in one of both", || {
            let lines = text(&path).lines().count() + text(&moved).lines().count();
            lines == 3 + put_lines.get()
        });
        std::fs::rename(&path, folder.path().join("access.log.2")).unwrap();
        file.reopen();
        until("a reload opens it at once", || path.exists());
        put(&file, &["last"]);
        drop(file);
        assert_eq!(text(&path), "last\n");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, MODE);
    }

    #[test]
    fn what_waits_is_bounded_and_losses_are_counted() {
        // NOTE: nobody takes the lines, as the thread has ended.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = LogFile::open(path.to_str().unwrap(), 6);
        file.shared.state().ends = true;
        file.shared.changed.notify_all();
        file.writer.take().unwrap().join().unwrap();
        let loss = put(&file, &["12", "34", "56"]);
        assert_eq!((loss.dropped, loss.failed), (1, 0));
        assert_eq!(file.shared.state().waiting, b"12\n34\n");
        assert_eq!(put(&file, &["7"]).dropped, 1);
    }

    #[test]
    fn a_full_disk_and_a_missing_folder_are_failures() {
        for (path, kind) in
            [("/dev/full", io::ErrorKind::StorageFull), ("/nowhere/at/all.log", io::ErrorKind::NotFound)]
        {
            let file = LogFile::open(path, 65_536);
            let failed = std::cell::Cell::new(0);
            let first = put(&file, &["a", "b"]).error;
            until(path, || {
                let loss = put(&file, &[]);
                failed.set(failed.get() + loss.failed);
                loss.error.is_some_and(|error| error.kind() == kind) || first.is_some() && failed.get() == 2
            });
            assert_eq!(failed.get(), 2, "{path}");
            assert!(first.is_none_or(|error| error.kind() == kind));
        }
    }
}
