//! A redis.conf that holds anything.

use commands::config::{SETTINGS, Settings, file, rewrite};

/// What is read is written by `CONFIG REWRITE` as a file that says the same.
pub fn file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut settings = Settings::default();
    let problems = file::read(&text, &mut settings, &mut |_, _| Ok(()));
    if problems.iter().any(|problem| !problem.is_note) {
        return;
    }
    let written = rewrite(&text, &settings);
    let mut again = Settings::default();
    let problems = file::read(&written, &mut again, &mut |_, _| Ok(()));
    assert!(problems.iter().all(|problem| problem.is_note), "{written}: {problems:?}");
    for setting in SETTINGS {
        assert_eq!((setting.text)(&again), (setting.text)(&settings), "{} in {written:?}", setting.name);
    }
}
