//! Access control: users, what each may do, and what was denied.
//!
//! A user is never changed in place: a change makes a new one, and whoever holds the old one is given it. So a session has
//! its user at hand, and whether that user may do everything is one flag of the session.

mod describe;
mod file;
mod log;
mod selector;
mod user;

#[cfg(test)]
mod tests;

pub use file::{UserFile, merge_selectors};
pub use log::{CallOrigin, Entry, Log, Reason};
pub(crate) use selector::allows_channel;
pub use selector::{Selector, category, has_spaces};
pub use user::User;

use std::{collections::BTreeMap, rc::Rc};

use keyspace::Bytes;

use crate::{
    config::Settings,
    table::{Categories, Table},
};

/// The user that a connection is until it says otherwise.
pub const DEFAULT: &[u8] = b"default";

/// The categories with their names.
pub const CATEGORIES: &[(Categories, &str)] = &[
    (Categories::KEYSPACE, "keyspace"),
    (Categories::READ, "read"),
    (Categories::WRITE, "write"),
    (Categories::SET, "set"),
    (Categories::SORTED_SET, "sortedset"),
    (Categories::LIST, "list"),
    (Categories::HASH, "hash"),
    (Categories::STRING, "string"),
    (Categories::BITMAP, "bitmap"),
    (Categories::HYPERLOGLOG, "hyperloglog"),
    (Categories::GEO, "geo"),
    (Categories::STREAM, "stream"),
    (Categories::PUBSUB, "pubsub"),
    (Categories::ADMIN, "admin"),
    (Categories::FAST, "fast"),
    (Categories::SLOW, "slow"),
    (Categories::BLOCKING, "blocking"),
    (Categories::DANGEROUS, "dangerous"),
    (Categories::CONNECTION, "connection"),
    (Categories::TRANSACTION, "transaction"),
    (Categories::SCRIPTING, "scripting"),
    (Categories::QUEUE, "queue"),
];

/// What a user may not do; those that stand further down are told rather than those above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// Run the command.
    Command,
    /// Use the key that is this word.
    Key(usize),
    /// Use the channel that is this word.
    Channel(usize),
}

impl Denied {
    /// What the log calls it, and the word that it is about.
    pub fn reason(self) -> (Reason, Option<usize>) {
        match self {
            Self::Command => (Reason::Command, None),
            Self::Key(place) => (Reason::Key, Some(place)),
            Self::Channel(place) => (Reason::Channel, Some(place)),
        }
    }
}

/// Why a rule cannot be taken, in Redis' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No such command or category.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    KeysAreAll,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAreAll,
    /// The user has no such password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// No hash of a password.
    #[error("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")]
    BadHash,
    /// Subcommands have no first words of their own.
    #[error("Allowing first-arg of a subcommand is not supported")]
    WordOfSubcommand,
}

/// All users, and what was denied.
#[derive(Debug)]
pub struct Acl {
    users: BTreeMap<Bytes, Rc<User>>,
    default: Rc<User>,
    /// What was denied.
    pub log: Log,
    /// Where users are kept, if they are.
    pub(crate) file: Option<Box<dyn UserFile>>,
}

impl Acl {
    /// The default user alone, with the password of the settings.
    pub fn new<H>(settings: &Settings, table: &Table<H>) -> Self {
        let mut default = default_user(table);
        set_password(&mut default, &settings.requirepass.0, table);
        let default = Rc::new(default);
        let users = [(default.name.clone(), Rc::clone(&default))].into();
        Self { users, default, log: Log::default(), file: None }
    }

    /// A user.
    pub fn user(&self, name: &[u8]) -> Option<&Rc<User>> {
        self.users.get(name)
    }

    /// All of them, by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Rc<User>> {
        self.users.values()
    }

    /// The one that connections are at first.
    pub fn default_user(&self) -> &Rc<User> {
        &self.default
    }

    /// Whether connections must say who they are.
    pub fn requires_authentication(&self) -> bool {
        !self.default.nopass || !self.default.enabled
    }

    /// The user of a name and a password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Rc<User>> {
        self.users.get(name).filter(|user| user.accepts(password))
    }

    pub(crate) fn put(&mut self, user: User) -> Rc<User> {
        let user = Rc::new(user);
        if user.name.as_slice() == DEFAULT {
            self.default = Rc::clone(&user);
        }
        self.users.insert(user.name.clone(), Rc::clone(&user));
        user
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT && self.users.remove(name).is_some()
    }
}

/// The default user as it is before anybody says more: it may do all, without a password.
fn default_user<H>(table: &Table<H>) -> User {
    let mut user = User::new(DEFAULT, true);
    for rule in ["+@all", "~*", "&*", "on", "nopass"] {
        let _ = user.apply(rule.as_bytes(), table, true);
    }
    user
}

/// What `requirepass` says: the password, or that there is none.
pub(crate) fn set_password<H>(user: &mut User, password: &[u8], table: &Table<H>) {
    let _ = user.apply(b"resetpass", table, true);
    let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
    let _ = user.apply(&rule, table, true);
}
