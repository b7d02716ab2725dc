//! An AOF, command by command, and the list of files that one is made of.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
};

use super::{Problem, source::Source};

/// A line that says how much follows.
const LINE_MAX: u64 = 64;
/// An annotation.
const COMMENT_MAX: u64 = 1 << 20;
/// As many words as Redis lets a command have.
const WORDS_MAX: u64 = 1 << 20;

/// The next command, as it is sent; nothing at the end.
///
/// # Errors
///
/// The file is damaged, or ends in the middle of a command.
pub fn next<R: BufRead>(source: &mut Source<R>) -> Result<Option<Vec<Vec<u8>>>, Problem> {
    loop {
        match source.peek()? {
            None => return Ok(None),
            // When what follows was done.
            Some(b'#') => drop(source.line(COMMENT_MAX)?),
            Some(_) => break,
        }
    }
    let count = count(source, b'*')?;
    if count > WORDS_MAX {
        return Err(Problem::Format(source.at, "a command of too many words"));
    }
    let mut words = Vec::new();
    for _ in 0..count {
        let len = self::count(source, b'$')?;
        words.push(source.bytes(len)?);
        if source.array()? != *b"\r\n" {
            return Err(Problem::Format(source.at, "a word is longer than it says"));
        }
    }
    Ok(Some(words))
}

fn count<R: BufRead>(source: &mut Source<R>, sign: u8) -> Result<u64, Problem> {
    let line = source.line(LINE_MAX)?;
    let number = line.split_first().filter(|(first, _)| **first == sign).and_then(|(_, rest)| {
        let text = std::str::from_utf8(rest).ok()?;
        text.parse().ok()
    });
    number.ok_or(Problem::Format(source.at, "no command begins here"))
}

/// The files that a manifest lists, in the order in which they are played.
///
/// # Errors
///
/// A line that says something else.
pub fn files_of_manifest(path: &Path, text: &str) -> Result<Vec<PathBuf>, Problem> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut files = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let value = |name: &str| {
            words.chunks_exact(2).find_map(|pair| match pair {
                [key, value] if *key == name => Some(value.trim_matches('"')),
                _ => None,
            })
        };
        match (value("file"), value("type")) {
            (Some(file), Some("b" | "i")) if !file.contains('/') => files.push(folder.join(file)),
            // What was rewritten and is to be removed.
            (Some(_), Some("h")) => {}
            _ => return Err(Problem::Format(0, "a line of the manifest is not understood")),
        }
    }
    Ok(files)
}
