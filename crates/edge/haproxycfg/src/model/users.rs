//! `userlist` sections and passwords.

use std::collections::BTreeMap;

/// A `userlist` section.
#[derive(Clone, Debug, Default)]
pub struct Userlist {
    /// Users by name.
    pub users: BTreeMap<String, User>,
    /// Users of each group.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// A user of a [`Userlist`].
#[derive(Clone, Debug)]
pub struct User {
    /// The password, in clear or in crypt(3) form.
    pub password: Password,
    /// Groups the user is in.
    pub groups: Vec<String>,
}

/// A stored password.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// `insecure-password`.
    Clear(String),
    /// `password`: `$1$`, `$5$`, `$6$` and what else crypt(3) knows.
    Crypt(String),
    /// One of a file that htpasswd has made.
    Stored(web::htpasswd::StoredPassword),
}

impl std::fmt::Debug for Password {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Password(..)")
    }
}
