//! The password of a cluster's stores. It is never a word of a command line, which everybody on the machine can read: stores and
//! proxies get it by files that only their owner can read.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use crate::error::AgentError;

/// Bytes that a password has at most.
const LEN_MAX: usize = 512;

/// Who may talk to stores.
#[derive(Clone, Default)]
pub struct Secret {
    /// The password, if there is one.
    pub password: Option<Arc<str>>,
    /// Stores answer other machines without a password (`protected-mode no`).
    pub is_open: bool,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Secret").field("has_password", &self.password.is_some()).finish_non_exhaustive()
    }
}

/// A word in the manner of redis.conf.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

impl Secret {
    /// One with a password.
    ///
    /// # Errors
    ///
    /// It is empty, too long, or has a line's end.
    pub fn with_password(password: &str, is_open: bool) -> Result<Self, AgentError> {
        if password.is_empty() || password.len() > LEN_MAX || password.contains(['\n', '\r', '\0']) {
            return Err(AgentError::Other(format!(
                "the password (--requirepass, --requirepass-file) is one line of 1 to {LEN_MAX} bytes"
            )));
        }
        Ok(Self { password: Some(password.into()), is_open })
    }

    /// Writes the files that stores and proxies read; without a password there are none.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn write(&self, stores: &Path, proxies: &Path) -> Result<(), AgentError> {
        let Some(password) = &self.password else { return Ok(()) };
        let word = quoted(password);
        private(stores, &format!("requirepass {word}\nmasterauth {word}\n"))?;
        private(proxies, &format!("{password}\n"))
    }
}

/// Replaces a file by one that only its owner can read. It is whole at any moment.
///
/// # Errors
///
/// The disk fails.
pub(crate) fn private(path: &Path, text: &str) -> Result<(), AgentError> {
    let new = path.with_extension("new");
    let write = || {
        // An old one may have other rights.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|source| AgentError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_of_a_password_are_their_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let (stores, proxies) = (place.path().join("stores"), place.path().join("proxies"));
        Secret::with_password("two \"words\" \u{e9}", false).unwrap().write(&stores, &proxies).unwrap();
        let text = fs::read_to_string(&stores).unwrap();
        assert_eq!(text.lines().next(), Some(r#"requirepass "two \"words\" \xc3\xa9""#));
        for path in [stores, proxies] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(Secret::with_password("", false).is_err() && Secret::with_password("a\nb", false).is_err());
    }
}
