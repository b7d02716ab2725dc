//! The term of the agent that steers this store, kept over restarts: the file `agent-term`.
//!
//! ```text
//! 00000000000000000007 00000000000000000007
//! 00000000000000000006 00000000000000000006
//! ```
//!
//! The largest number counts that stands twice in its line. A new term takes the place of the smaller one, so a write that is cut off
//! leaves the other line. The file has its length from the beginning: a term can be kept on a full disk.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::Path,
};

use crate::replace::replace;

/// Digits of a number.
const DIGITS: usize = 20;
/// Bytes of a line.
const LINE: usize = 2 * DIGITS + 2;
const LINES: usize = 2;

/// The file.
#[derive(Debug)]
pub struct Terms(File);

fn line(term: u64) -> String {
    format!("{term:0DIGITS$} {term:0DIGITS$}\n")
}

/// What a line says; nothing if it was cut off while it was written.
fn term(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (first, second) = text.split_once(' ')?;
    (first == second).then(|| first.parse().ok())?
}

impl Terms {
    /// Opens the file in a store's folder, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// It cannot be made, opened or read.
    pub fn open(root: &Path) -> io::Result<Self> {
        let path = root.join("agent-term");
        if !path.exists() {
            replace(&path, line(0).repeat(LINES).as_bytes())?;
        }
        let terms = Self(OpenOptions::new().read(true).write(true).open(&path)?);
        let unreadable = |error| {
            let what =
                format!("{}: {error}; remove it once no former agent of the cluster runs any more", path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        terms.last().map_err(unreadable)?;
        Ok(terms)
    }

    fn read(&self) -> io::Result<[Option<u64>; LINES]> {
        let mut bytes = [0; LINE * LINES];
        self.0.read_exact_at(&mut bytes, 0)?;
        let (first, second) = bytes.split_at(LINE);
        Ok([term(first), term(second)])
    }

    /// The last term that was kept; 0 if none was.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn last(&self) -> io::Result<u64> {
        let last = self.read()?.into_iter().flatten().max();
        last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no line has the same number twice"))
    }

    /// Keeps a term: it is on the disk when this returns. 0 forgets all.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn keep(&self, term: u64) -> io::Result<()> {
        if term == 0 {
            self.0.write_all_at(line(0).repeat(LINES).as_bytes(), 0)?;
            return self.0.sync_data();
        }
        let [first, second] = self.read()?;
        // One that was cut off is the smallest.
        let place = if first < second { 0 } else { LINE as u64 };
        self.0.write_all_at(line(term).as_bytes(), place)?;
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_term_is_known_after_a_start() {
        let root = tempfile::tempdir().unwrap();
        let open = || Terms::open(root.path()).unwrap();
        assert_eq!(open().last().unwrap(), 0);
        for term in [1, 2, 7, u64::MAX] {
            open().keep(term).unwrap();
            assert_eq!(open().last().unwrap(), term);
        }
        open().keep(0).unwrap();
        assert_eq!(open().last().unwrap(), 0);
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("agent-term"), "x".repeat(LINE * LINES)).unwrap();
        assert!(Terms::open(root.path()).unwrap_err().to_string().contains("agent-term: no line has"));
    }

    #[test]
    fn a_write_that_is_cut_off_leaves_the_term_before() {
        let root = tempfile::tempdir().unwrap();
        let terms = Terms::open(root.path()).unwrap();
        terms.keep(6).unwrap();
        terms.keep(7).unwrap();
        let path = root.path().join("agent-term");
        let before = fs::read(&path).unwrap();
        terms.keep(8).unwrap();
        let after = fs::read(&path).unwrap();
        for cut in 0..=before.len() {
            fs::write(&path, [&after[..cut], &before[cut..]].concat()).unwrap();
            let found = Terms::open(root.path()).unwrap().last().unwrap();
            assert!(found == 7 || found == 8, "{found} at {cut}");
        }
    }
}
