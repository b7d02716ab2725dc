//! The token of a cluster: a file of its folder that only its owner can read. Whoever has it may change the cluster by TCP.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use coord::{CoordError, Coordinator, Transaction};

use crate::{chance, error::AgentError, options::Folder};

/// Bytes of chance in a new one.
const BYTES: usize = 24;
/// Characters that one has at least.
const LEN_MIN: usize = 16;
/// Characters that one has at most.
const LEN_MAX: u64 = 512;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(..)")
    }
}

impl Token {
    /// That of a folder; a new one if it has none yet.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or others may read it.
    pub fn of(folder: &Folder) -> Result<Self, AgentError> {
        let path = folder.token();
        let failed = |source| AgentError::File { path: path.clone(), source };
        match Self::make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(folder),
            made => made.map_err(failed),
        }
    }

    /// That of a cluster of several hosts: the first one puts its own into the coordinator, the others take it from there.
    ///
    /// # Errors
    ///
    /// The coordinator does not answer, or a file cannot be written.
    pub fn agree(folder: &Folder, coordinator: &dyn Coordinator, key: &str) -> Result<Self, AgentError> {
        let own = Self::of(folder)?;
        let known = coordinator.read(key)?;
        let known = match known {
            Some(known) => Some(known),
            None => match coordinator.commit(Transaction::new().if_version(key, 0).put(key, own.0.as_bytes())) {
                Err(CoordError::Conflict { .. }) => coordinator.read(key)?,
                done => done.map(|_| None)?,
            },
        };
        let Some(known) = known.map(|known| String::from_utf8_lossy(&known.value).into_owned()) else { return Ok(own) };
        if known != own.0 {
            let path = folder.token();
            let failed = |source| AgentError::File { path: path.clone(), source };
            // The file is its owner's alone already, and stays so.
            fs::write(&path, format!("{known}\n")).map_err(failed)?;
        }
        Self::read(folder)
    }

    fn make(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let text = chance::digits::<BYTES>()?;
        file.write_all(format!("{text}\n").as_bytes())?;
        file.sync_all()?;
        Ok(Self(text))
    }

    /// That of a folder, which must have one.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or others may read it, or there is not enough in it.
    pub fn read(folder: &Folder) -> Result<Self, AgentError> {
        let path = folder.token();
        let failed = |source| AgentError::File { path: path.clone(), source };
        let file = fs::File::open(&path).map_err(failed)?;
        let unreadable = |problem: String| AgentError::Unreadable { place: path.display().to_string(), problem };
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(unreadable(format!("others may read the token: chmod 600 {}", path.display())));
        }
        let mut text = String::new();
        file.take(LEN_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        let text = text.trim();
        if text.len() < LEN_MIN || text.len() as u64 >= LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unreadable(format!(
                "a token has {LEN_MIN} characters or more, and no blanks: remove the file, and the next start makes one"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// One that stands somewhere else.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// It, for its owner.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether an `Authorization` has it. Takes as long whichever character differs.
    #[must_use]
    pub fn is_in(&self, authorization: &str) -> bool {
        let given = authorization.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let given = given.map(|(_, token)| token.trim()).unwrap_or_default();
        let pairs = self.0.bytes().zip(given.bytes().chain(std::iter::repeat(0)));
        let differs = pairs.fold(0, |differs, (own, given)| differs | (own ^ given));
        differs == 0 && given.len() == self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_from_others() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path().to_owned());
        let token = Token::of(&folder).unwrap();
        assert_eq!(fs::metadata(folder.token()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::of(&folder).unwrap(), token);
        assert_eq!(token.text().len(), 2 * BYTES);
        for (given, is_it) in [
            (format!("Bearer {}", token.text()), true),
            (format!("bearer  {} ", token.text()), true),
            (format!("Basic {}", token.text()), false),
            (format!("Bearer {}x", token.text()), false),
            (format!("Bearer {}", &token.text()[1..]), false),
            ("Bearer".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(token.is_in(&given), is_it, "{given}");
        }
        fs::set_permissions(folder.token(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Token::of(&folder).unwrap_err().to_string().contains("others may read the token"));
        fs::write(folder.token(), "short").unwrap();
        fs::set_permissions(folder.token(), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Token::of(&folder).unwrap_err().to_string().contains("has 16 characters or more"));
    }
}
