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

use commands::{Millis, config::LogLevel};

use crate::clock;

/// Where messages go; without a file to stdout.
static FILE: Mutex<Option<File>> = Mutex::new(None);
/// The least that is said.
static LEAST: AtomicU8 = AtomicU8::new(rank(LogLevel::Notice));

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
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| (path.to_owned(), error))?;
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(())
}

/// Says something.
pub fn say(level: LogLevel, text: &str) {
    if rank(level) < LEAST.load(Ordering::Relaxed) {
        return;
    }
    let line = format!("{}:M {} {} {text}\n", std::process::id(), date(clock::now()), mark(level));
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever should read it may be gone; there is nobody else to tell.
    let _ = match file.as_mut() {
        Some(file) => file.write_all(line.as_bytes()),
        None => io::stdout().lock().write_all(line.as_bytes()),
    };
}

/// Says what one wants to know.
pub fn notice(text: &str) {
    say(LogLevel::Notice, text);
}

/// Says what one must know.
pub fn warn(text: &str) {
    say(LogLevel::Warning, text);
}

/// A time as Redis' log has it, in UTC: `21 Nov 2026 15:04:05.123`.
fn date(now: Millis) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, ms) = (now.div_euclid(86_400_000), now.rem_euclid(86_400_000));
    // Years are counted from March here, so that a leap day is the last one: in days since 0000-03-01.
    let since = days + 719_468;
    let era = since.div_euclid(146_097);
    let day_of_era = since.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    let name = usize::try_from(month).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"");
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{day:02} {name} {year} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(date(now), expected);
        }
    }
}
