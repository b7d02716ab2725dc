//! Users as lines: `user NAME RULE ...`, of redis.conf and of the file that `aclfile` names.

use std::collections::BTreeMap;

use keyspace::Bytes;

use crate::{
    config::{Settings, UserLine, quoted},
    table::Table,
};

use super::{Acl, DEFAULT, RuleError, User, default_user, has_spaces};

/// The file of users, which whoever runs the server reads and writes.
pub trait UserFile: std::fmt::Debug {
    /// Its name, for messages.
    fn name(&self) -> String;

    /// All of it.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn read(&self) -> Result<Vec<u8>, String>;

    /// Puts something else into its place, whole or not at all.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    fn write(&self, text: &[u8]) -> Result<(), String>;
}

/// Joins the words of a selector that was not sent as one word. The error is the word that it began with, if it never ends.
pub fn merge_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words {
        match &mut open {
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.last() == Some(&b')')
                    && let Some((_, selector)) = open.take()
                {
                    merged.push(selector);
                }
            }
            None if word.first() == Some(&b'(') && word.last() != Some(&b')') => open = Some((word, word.to_vec())),
            None => merged.push(word.to_vec()),
        }
    }
    match open {
        Some((begin, _)) => Err(begin.to_vec()),
        None => Ok(merged),
    }
}

impl Acl {
    /// Takes the `user` lines of redis.conf.
    ///
    /// # Errors
    ///
    /// What is wrong with which.
    pub fn load_lines<H>(&mut self, lines: &[Vec<Bytes>], table: &Table<H>, all_channels: bool) -> Result<(), String> {
        let mut seen: Vec<&[u8]> = Vec::new();
        for line in lines {
            let Some((name, rules)) = line.split_first() else { continue };
            let shown = String::from_utf8_lossy(name);
            if seen.contains(&name.as_slice()) {
                return Err(format!(
                    "user {shown}: Duplicate user found. A user can only be defined once in config files"
                ));
            }
            seen.push(name);
            if has_spaces(name) {
                return Err(format!("user {shown:?}: Spaces not allowed in ACL usernames"));
            }
            let mut user = User::new(name, all_channels);
            if name.as_slice() == DEFAULT {
                user = default_user(table);
                let _ = user.apply(b"reset", table, all_channels);
            }
            let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_slice()).collect();
            let rules = merge_selectors(&rules).map_err(|begin| {
                format!("user {shown}: Unmatched parenthesis in '{}'", String::from_utf8_lossy(&begin))
            })?;
            for rule in rules {
                user.apply(&rule, table, all_channels)
                    .map_err(|error| format!("user {shown}: '{}': {error}", String::from_utf8_lossy(&rule)))?;
            }
            self.put(user);
        }
        Ok(())
    }

    /// Takes the users of the file in the place of all that there are: all or none.
    ///
    /// # Errors
    ///
    /// All that is wrong, in one line.
    pub fn load_file<H>(&mut self, table: &Table<H>, all_channels: bool) -> Result<(), String> {
        let Some(file) = &self.file else { return Err("there is no file of users".into()) };
        let name = file.name();
        let text = file.read().map_err(|reason| format!("Error loading ACLs, opening file '{name}': {reason}"))?;
        let mut users: BTreeMap<Bytes, User> = BTreeMap::new();
        let mut errors = String::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let number = number + 1;
            match user_of(line, table, all_channels, &mut |reason| {
                errors.push_str(&format!("{name}:{number}{reason}. "));
            }) {
                Some(user) if users.contains_key(&user.name) => {
                    let user = String::from_utf8_lossy(&user.name).into_owned();
                    errors.push_str(&format!("WARNING: Duplicate user '{user}' found on line {number}. "));
                }
                Some(user) => drop(users.insert(user.name.clone(), user)),
                None => {}
            }
        }
        if !errors.is_empty() {
            errors.push_str("WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
            return Err(errors);
        }
        self.users.clear();
        let default = users.remove(DEFAULT).unwrap_or_else(|| default_user(table));
        self.put(default);
        for user in users.into_values() {
            self.put(user);
        }
        Ok(())
    }

    /// All users as lines of redis.conf, and their words: those that are not as the settings' lines and `requirepass` make them
    /// have changed. Nothing if none has, or if users are in a file of their own.
    pub fn config_lines<H>(
        &self,
        settings: &Settings,
        table: &Table<H>,
        all_channels: bool,
    ) -> Option<(Vec<UserLine>, Vec<Vec<Bytes>>)> {
        if self.file.is_some() {
            return None;
        }
        let mut before = Self::new(settings, table);
        // What could be loaded once can be loaded again.
        let _ = before.load_lines(&settings.users, table, all_channels);
        if self.lines(table) == before.lines(table) {
            return None;
        }
        let (mut lines, mut all) = (Vec::new(), Vec::new());
        for user in self.users() {
            let rules = user.describe(table);
            let has_changed = before.user(&user.name).is_none_or(|before| before.describe(table) != rules);
            let words: Vec<&[u8]> = rules.split(|byte| *byte == b' ').collect();
            let mut text = b"user".to_vec();
            for word in std::iter::once(user.name.as_slice()).chain(words.iter().copied()) {
                text.push(b' ');
                let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
                match word.iter().all(is_plain) {
                    true => text.extend_from_slice(word),
                    false => text.extend_from_slice(quoted(word).as_bytes()),
                }
            }
            lines.push(UserLine { name: user.name.clone(), text, has_changed });
            let is_said = has_changed || settings.users.iter().any(|line| line.first() == Some(&user.name));
            if is_said {
                all.push(std::iter::once(user.name.clone()).chain(words.into_iter().map(Bytes::from_slice)).collect());
            }
        }
        Some((lines, all))
    }

    /// All users as lines.
    pub fn lines<H>(&self, table: &Table<H>) -> Vec<u8> {
        let mut text = Vec::new();
        for user in self.users() {
            text.extend_from_slice(b"user ");
            text.extend_from_slice(&user.name);
            text.push(b' ');
            text.extend_from_slice(&user.describe(table));
            text.push(b'\n');
        }
        text
    }
}

/// The user of a line. Nothing if the line names none.
fn user_of<H>(line: &[u8], table: &Table<H>, all_channels: bool, wrong: &mut dyn FnMut(String)) -> Option<User> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
    let [b"user", name, rules @ ..] = words.as_slice() else {
        wrong(" should start with user keyword followed by the username".into());
        return None;
    };
    if has_spaces(name) {
        wrong(format!(": username '{}' contains invalid characters", String::from_utf8_lossy(name)));
        return None;
    }
    let mut user = User::new(name, all_channels);
    let rules = match merge_selectors(rules) {
        Ok(rules) => rules,
        Err(_) => {
            wrong(": Unmatched parenthesis in selector definition".into());
            return Some(user);
        }
    };
    let mut told = false;
    for rule in rules {
        match user.apply(rule.trim_ascii(), table, all_channels) {
            Ok(()) => {}
            // Names of commands are no secret; what else is wrong may be a password.
            Err(error @ RuleError::Unknown) => {
                wrong(format!(": Error in applying operation '{}': {error}", String::from_utf8_lossy(&rule)));
            }
            Err(error) if !told => {
                told = true;
                wrong(format!(": {error}"));
            }
            Err(_) => {}
        }
    }
    Some(user)
}
