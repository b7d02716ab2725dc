//! Programs that follow the log by a name: what they have had is noted in the store's folder, and the log is kept for them from there on.
//!
//! ```text
//! followers/billing     482171        up to there it has had the log
//! ```
//!
//! The program writes its file when it has handed on what it read, so that after a crash it gets the last commands once more rather than not
//! at all. The store reads the files each second. Whoever removes a file gives that follower up.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use oplog::Offset;

/// The longest name.
const NAME_LEN_MAX: usize = 64;

fn folder(root: &Path) -> PathBuf {
    root.join("followers")
}

/// Whether a follower may be called so.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(is_fine)
}

/// Up to where a follower has had the log; nothing if it has never been there.
///
/// # Errors
///
/// Its file cannot be read, or has no offset.
pub fn read(root: &Path, name: &str) -> io::Result<Option<Offset>> {
    let path = folder(root).join(name);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let offset = text.trim().parse().map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} has no offset: '{}'", path.display(), text.trim()))
    })?;
    Ok(Some(Offset(offset)))
}

/// Notes up to where a follower has had the log.
///
/// # Errors
///
/// The disk's.
pub fn write(root: &Path, name: &str, offset: Offset) -> io::Result<()> {
    let folder = folder(root);
    fs::create_dir_all(&folder)?;
    // NOTE: a name with a dot is no follower's.
    let unready = folder.join(format!("{name}.new"));
    fs::write(&unready, format!("{offset}\n"))?;
    fs::rename(unready, folder.join(name))
}

/// Where all followers are.
#[must_use]
pub fn all(root: &Path) -> Vec<(String, Offset)> {
    let Ok(entries) = fs::read_dir(folder(root)) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_name(name));
    names.filter_map(|name| Some((name.clone(), read(root, &name).ok()??))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!((read(dir.path(), "billing").unwrap(), all(dir.path())), (None, Vec::new()));
        write(dir.path(), "billing", Offset(7)).unwrap();
        write(dir.path(), "billing", Offset(9)).unwrap();
        write(dir.path(), "search", Offset(5)).unwrap();
        assert_eq!(read(dir.path(), "billing").unwrap(), Some(Offset(9)));
        let mut found = all(dir.path());
        found.sort();
        assert_eq!(found, [("billing".to_owned(), Offset(9)), ("search".to_owned(), Offset(5))]);
        fs::write(dir.path().join("followers/search"), "x").unwrap();
        assert!(read(dir.path(), "search").is_err());
        assert_eq!(all(dir.path()).len(), 1);
        for (name, expected) in
            [("a-B_9", true), ("", false), ("../x", false), ("a.new", false), (&"a".repeat(65), false)]
        {
            assert_eq!(is_name(name), expected, "{name}");
        }
    }
}
