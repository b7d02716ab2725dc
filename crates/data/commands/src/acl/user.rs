//! A user: whether it may come in, by which passwords, and what it may do.

use keyspace::Bytes;
use sha2::{Digest as _, Sha256};

use crate::table::{Access, FoundCommand, Table};

use super::{Denied, RuleError, Selector};

/// Digits of a password's hash.
const HASH_LEN: usize = 64;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: Bytes,
    /// It may authenticate.
    pub enabled: bool,
    /// Any password will do.
    pub nopass: bool,
    /// Whether payloads of RESTORE are checked whole, if that was said. They always are.
    sanitize: Option<bool>,
    /// SHA-256 of its passwords, in hexadecimal digits.
    pub(crate) passwords: Vec<String>,
    root: Selector,
    others: Vec<Selector>,
}

impl User {
    /// A new one, that may do nothing.
    pub fn new(name: &[u8], all_channels: bool) -> Self {
        Self {
            name: Bytes::from_slice(name),
            enabled: false,
            nopass: false,
            sanitize: None,
            passwords: Vec::new(),
            root: Selector::new(all_channels),
            others: Vec::new(),
        }
    }

    /// Its selectors; the first one has what rules outside of parentheses say.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.others)
    }

    /// Whether it may do everything.
    pub fn may_do_all(&self) -> bool {
        self.selectors().any(Selector::allows_all)
    }

    /// Its flags, in the order in which they are written.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let sanitize = match self.sanitize {
            Some(true) => Some("sanitize-payload"),
            Some(false) => Some("skip-sanitize-payload"),
            None => None,
        };
        let enabled = if self.enabled { "on" } else { "off" };
        [Some(enabled), self.nopass.then_some("nopass"), sanitize].into_iter().flatten()
    }

    /// Changes it by a rule. `all_channels` is what `acl-pubsub-default` gives to new selectors.
    ///
    /// # Errors
    ///
    /// The rule makes no sense, here or at all.
    pub fn apply<H>(&mut self, rule: &[u8], table: &Table<H>, all_channels: bool) -> Result<(), RuleError> {
        let is = |name: &str| rule.eq_ignore_ascii_case(name.as_bytes());
        if rule.is_empty() {
        } else if is("on") {
            self.enabled = true;
        } else if is("off") {
            self.enabled = false;
        } else if is("skip-sanitize-payload") {
            self.sanitize = Some(false);
        } else if is("sanitize-payload") {
            self.sanitize = Some(true);
        } else if is("nopass") {
            self.nopass = true;
            self.passwords.clear();
        } else if is("resetpass") {
            self.nopass = false;
            self.passwords.clear();
        } else if is("clearselectors") {
            self.others.clear();
        } else if is("reset") {
            *self = Self { sanitize: Some(true), ..Self::new(&self.name, all_channels) };
        } else {
            match rule {
                [b'>', password @ ..] => self.add_password(hash(password)),
                [b'#', hash @ ..] => self.add_password(valid_hash(hash)?),
                [b'<', password @ ..] => self.remove_password(&hash(password))?,
                [b'!', hash @ ..] => self.remove_password(&valid_hash(hash)?)?,
                [b'(', rules @ .., b')'] => {
                    let mut selector = Selector::new(all_channels);
                    for rule in words(rules) {
                        selector.apply(&rule, table)?;
                    }
                    self.others.push(selector);
                }
                _ => self.root.apply(rule, table)?,
            }
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.nopass = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(place);
        Ok(())
    }

    /// Whether somebody who knows this password is this user.
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled {
            return false;
        }
        if self.nopass {
            return true;
        }
        let hash = hash(password);
        // All of each is compared whatever the first difference is, so the time says nothing.
        let same =
            |known: &String| known.bytes().zip(hash.bytes()).fold(0, |sum, (left, right)| sum | (left ^ right)) == 0;
        self.passwords.iter().any(same)
    }

    /// Whether it may run a command with these words.
    ///
    /// # Errors
    ///
    /// The first thing that none of its selectors allows: of those that come furthest.
    pub fn check<H>(&self, found: FoundCommand<H>, words: &[&[u8]]) -> Result<(), Denied> {
        let mut keys = None;
        let mut relevant = Denied::Command;
        for selector in self.selectors() {
            match selector.check(found, words, &mut keys) {
                Ok(()) => return Ok(()),
                Err(denied) => relevant = relevant.max(denied),
            }
        }
        Err(relevant)
    }

    /// Whether it may run a command that reads keys which its words do not name.
    pub fn may_read_all<H>(&self, found: FoundCommand<H>, words: &[&[u8]]) -> bool {
        let mut keys: Option<Vec<(usize, Access)>> = None;
        self.selectors().any(|selector| selector.reads_all_keys() && selector.check(found, words, &mut keys).is_ok())
    }
}

/// The SHA-256 of a password in hexadecimal digits.
pub(crate) fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn valid_hash(hash: &[u8]) -> Result<String, RuleError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if hash.len() == HASH_LEN && hash.iter().all(is_digit) {
        Ok(String::from_utf8_lossy(hash).into_owned())
    } else {
        Err(RuleError::BadHash)
    }
}

/// The words of a line with Redis' quoting; none if the quotes do not match.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut scratch, mut ranges) = (Vec::new(), Vec::new());
    if resp::split_arguments(line, &mut scratch, &mut ranges).is_err() {
        return Vec::new();
    }
    ranges.into_iter().map(|range| scratch.get(range).unwrap_or_default().to_vec()).collect()
}
