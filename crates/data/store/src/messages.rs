//! What the store says of itself, in the form of Redis' log: programs that wait for `Ready to accept connections` find it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use basics::calendar::MONTHS_SHORT;
use commands::config::LogLevel;
use keyspace::Millis;
use telemetry::LocalTime;

use crate::{clock, syslog::Syslog};

/// Where messages go.
#[derive(Debug)]
struct Target {
    /// Without one, to stdout.
    file: Option<LogFile>,
    /// To stderr instead: stdout is for something else.
    to_stderr: bool,
    /// And there too.
    syslog: Option<Syslog>,
}

static TARGET: Mutex<Target> = Mutex::new(Target { file: None, to_stderr: false, syslog: None });
/// The least that is said.
static LEAST: AtomicU8 = AtomicU8::new(rank(LogLevel::Notice));

/// A file that is opened anew for each message, as Redis does it: logrotate may move it away and tells nobody.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// What was opened last: where its place cannot be written any more, messages are not lost.
    last: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(path)
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if let Ok(file) = Self::open(&self.path) {
            self.last = file;
        }
        self.last.write_all(line.as_bytes())
    }
}

const fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Verbose => 1,
        LogLevel::Notice => 2,
        LogLevel::Warning => 3,
    }
}

fn mark(level: LogLevel) -> char {
    match level {
        LogLevel::Debug => '.',
        LogLevel::Verbose => '-',
        LogLevel::Notice => '*',
        LogLevel::Warning => '#',
    }
}

/// Says from which level on something is said.
pub fn set_level(level: LogLevel) {
    LEAST.store(rank(level), Ordering::Relaxed);
}

/// Has messages go to the end of a file.
///
/// # Errors
///
/// It cannot be written.
pub fn open(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (path.to_owned(), error);
    // Whoever changes the folder later moves no messages.
    let path = std::path::absolute(path).map_err(failed)?;
    let last = LogFile::open(&path).map_err(failed)?;
    TARGET.lock().unwrap_or_else(PoisonError::into_inner).file = Some(LogFile { path, last });
    Ok(())
}

/// Has messages go to syslog too. One that is not there is told of, and gets them once it is.
pub fn open_syslog(syslog: Syslog) {
    let text = "messages go to syslog";
    let outcome = syslog.send(LogLevel::Debug, &date(clock::now()), text);
    let path = syslog.path().to_owned();
    TARGET.lock().unwrap_or_else(PoisonError::into_inner).syslog = Some(syslog);
    if let Err(error) = outcome {
        warn(&format!(
            "syslog-enabled: {} takes no messages: {error}; they are sent there all the same",
            path.display()
        ));
    }
}

/// Has messages go to stderr rather than to stdout.
pub fn open_stderr() {
    TARGET.lock().unwrap_or_else(PoisonError::into_inner).to_stderr = true;
}

/// Whether messages go elsewhere than to stdout.
pub fn are_elsewhere() -> bool {
    let target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
    target.file.is_some() || target.syslog.is_some()
}

/// Says something.
pub fn say(level: LogLevel, text: &str) {
    if rank(level) < LEAST.load(Ordering::Relaxed) {
        return;
    }
    let date = date(clock::now());
    let line = format!("{}:M {date} {} {text}\n", std::process::id(), mark(level));
    let mut target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever should read it may be gone; there is nobody else to tell.
    let to_stderr = target.to_stderr;
    let _ = match &mut target.file {
        Some(file) => file.write(&line),
        None if to_stderr => io::stderr().lock().write_all(line.as_bytes()),
        None => io::stdout().lock().write_all(line.as_bytes()),
    };
    if let Some(syslog) = &target.syslog {
        let _ = syslog.send(level, &date, text);
    }
}

/// Says what one wants to know.
pub fn notice(text: &str) {
    say(LogLevel::Notice, text);
}

/// Says what one must know.
pub fn warn(text: &str) {
    say(LogLevel::Warning, text);
}

/// A time as Redis' log has it, where the machine is: `21 Nov 2026 15:04:05.123`.
fn date(now: Millis) -> String {
    let LocalTime { year, month, day, hour, minute, second, .. } = telemetry::local_time(now.div_euclid(1000));
    let name = MONTHS_SHORT.get(month).unwrap_or(&"");
    format!("{day:02} {name} {year} {hour:02}:{minute:02}:{second:02}.{:03}", now.rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_moved_away_is_begun_anew() {
        let folder = std::env::temp_dir().join(format!("tidegate-rotated-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("store.log"), folder.join("store.log.1"));
        let mut file = LogFile { path: path.clone(), last: LogFile::open(&path).unwrap() };
        file.write("one\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        file.write("two\n").unwrap();
        assert_eq!(
            (fs::read_to_string(&moved).unwrap(), fs::read_to_string(&path).unwrap()),
            ("one\n".into(), "two\n".into())
        );
        // Nothing can be made there any more: the last one has what is said.
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        file.write("three\n").unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "two\nthree\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (now, expected) in [
            (0, "01 Jan 1970 00:00:00.000"),
            (951_782_400_000, "29 Feb 2000 00:00:00.000"),
            (951_868_799_999, "29 Feb 2000 23:59:59.999"),
            (951_868_800_000, "01 Mar 2000 00:00:00.000"),
            (1_795_276_133_730, "21 Nov 2026 15:48:53.730"),
            (4_107_542_399_000, "28 Feb 2100 23:59:59.000"),
            (4_107_542_400_000, "01 Mar 2100 00:00:00.000"),
        ] {
            // Where it is so late now it was that late in UTC a while ago.
            let ahead = i64::from(telemetry::local_time(now / 1000).offset) * 1000;
            let there = now - ahead;
            if i64::from(telemetry::local_time(there / 1000).offset) * 1000 == ahead {
                assert_eq!(date(there), expected);
            }
        }
    }
}
