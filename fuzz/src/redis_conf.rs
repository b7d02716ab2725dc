//! A redis.conf that holds anything.

use commands::config::{SETTINGS, Settings, file, rewrite};

/// What is read is written by `CONFIG REWRITE` as a file that says the same.
pub fn file(data: &[u8]) {
    let mut settings = Settings::default();
    let problems = file::read(data, &mut settings, |_| None, &mut |_, _| Ok(()));
    if problems.iter().any(|problem| !problem.is_note) {
        return;
    }
    let written = rewrite(data, &settings, None);
    let mut again = Settings::default();
    let problems = file::read(&written, &mut again, |_| None, &mut |_, _| Ok(()));
    assert!(problems.iter().all(|problem| problem.is_note), "{}: {problems:?}", written.escape_ascii());
    for setting in SETTINGS {
        assert_eq!(
            (setting.bytes)(&again),
            (setting.bytes)(&settings),
            "{} in {}",
            setting.name,
            written.escape_ascii()
        );
    }
}
