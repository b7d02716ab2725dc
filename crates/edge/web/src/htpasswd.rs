//! Files of users and passwords as Apache's `htpasswd` writes them, and the forms in which passwords are stored (userlists have the same).
//!
//! A password that is checked costs time, on purpose: `bcrypt` takes as long as whoever made the file wanted. Whoever calls this does so where
//! nobody else waits. An unknown user takes as long as a known one with a wrong password, so that the time tells no names.

use std::collections::HashMap;

mod apr1;
mod stored;

pub use stored::{StoredPassword, UnknownForm, verify};

/// Most users of a file.
pub const USERS_MAX: usize = 100_000;

/// Bytes of the longest line.
pub const LINE_BYTES_MAX: usize = 4_096;

/// Why a line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HtpasswdError {
    /// It is no line of such a file.
    #[error("line {line}: this is not 'user:password', with a password that is stored in one of the forms of htpasswd")]
    Colon {
        /// From 1.
        line: usize,
    },
    /// The password is not stored in a form that is known, or stands there as it is.
    #[error("line {line}: the password of '{user}' cannot be used: {reason}. `htpasswd -B FILE {user}` stores it anew")]
    Password {
        /// From 1.
        line: usize,
        /// Whose it is.
        user: String,
        /// Why not.
        reason: UnknownForm,
    },
    /// A line is longer than a name and a password can be.
    #[error("line {line}: this line has more than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// From 1.
        line: usize,
    },
    /// There are too many.
    #[error("line {line}: these are more than {USERS_MAX} users")]
    TooMany {
        /// From 1.
        line: usize,
    },
}

/// The users of a file.
#[derive(Clone, Default)]
pub struct Users {
    by_name: HashMap<Box<[u8]>, StoredPassword>,
    /// What the password of an unknown user is compared with: of the form that most users have.
    decoy: Option<StoredPassword>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Users").field("count", &self.by_name.len()).finish_non_exhaustive()
    }
}

impl Users {
    /// Reads a file: `user:password` lines, perhaps with `:` and a comment behind; empty lines and those that begin with `#` say nothing.
    /// Of several lines for one user the first counts, as for nginx and Apache.
    ///
    /// # Errors
    /// Which line cannot be used.
    pub fn read(text: &[u8]) -> Result<Self, HtpasswdError> {
        let mut users = Self::default();
        let mut forms: HashMap<stored::Cost, usize> = HashMap::new();
        for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            if bytes.len() > LINE_BYTES_MAX {
                return Err(HtpasswdError::TooLong { line });
            }
            if bytes.trim_ascii().is_empty() || bytes.first() == Some(&b'#') {
                continue;
            }
            let mut parts = bytes.splitn(3, |byte| *byte == b':');
            let (Some(name), Some(password)) = (parts.next().filter(|name| !name.is_empty()), parts.next()) else {
                return Err(HtpasswdError::Colon { line });
            };
            let password = StoredPassword::parse(password).map_err(|reason| HtpasswdError::Password {
                line,
                user: String::from_utf8_lossy(name).into_owned(),
                reason,
            })?;
            if users.by_name.len() >= USERS_MAX {
                return Err(HtpasswdError::TooMany { line });
            }
            if !users.by_name.contains_key(name) {
                *forms.entry(password.cost()).or_default() += 1;
                users.by_name.insert(name.into(), password);
            }
        }
        // The dearer of two that are as frequent; its first by name, so that it is the same at each start.
        let usual = forms.into_iter().max_by_key(|(cost, count)| (*count, *cost)).map(|(cost, _)| cost);
        let mut of_usual: Vec<_> = users.by_name.iter().filter(|(_, stored)| Some(stored.cost()) == usual).collect();
        of_usual.sort_by_key(|(name, _)| *name);
        users.decoy = of_usual.first().map(|(_, stored)| (*stored).clone());
        Ok(users)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether this is a user with this password.
    #[must_use]
    pub fn knows(&self, user: &[u8], password: &[u8]) -> bool {
        match self.by_name.get(user) {
            Some(stored) => stored.is(password),
            None => {
                // The time that it takes is all that is wanted of it.
                std::hint::black_box(self.decoy.as_ref().map(|decoy| decoy.is(password)));
                false
            }
        }
    }

    /// The users and their passwords as the file has them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &StoredPassword)> {
        self.by_name.iter().map(|(name, stored)| (&**name, stored))
    }
}

#[cfg(test)]
mod tests;
