//! A selector: a set of commands, of patterns of keys, and of channels, that belong together. A user may do what one of
//! its selectors allows.

use std::collections::BTreeMap;

use bitflags::bitflags;
use keyspace::{Bytes, glob};

use crate::table::{Access, Categories, Flags, FoundCommand, Table};

use super::{CATEGORIES, Denied, RuleError};

bitflags! {
    /// What a pattern allows with the keys that match it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Permission: u8 {
        /// `%R~`
        const READ = 1;
        /// `%W~`
        const WRITE = 1 << 1;
    }
}

impl Permission {
    /// What a command's access to a key needs.
    fn needed(access: Access) -> Self {
        let mut needed = Self::empty();
        needed.set(Self::READ, access.contains(Access::ACCESS));
        needed.set(Self::WRITE, access.intersects(Access::INSERT.union(Access::DELETE).union(Access::UPDATE)));
        needed
    }
}

/// Keys that may be used, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern {
    permission: Permission,
    pattern: Bytes,
}

impl KeyPattern {
    pub(super) fn write(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(if self.permission == Permission::all() {
            b"~"
        } else if self.permission == Permission::READ {
            b"%R~"
        } else {
            b"%W~"
        });
        text.extend_from_slice(&self.pattern);
    }
}

/// A set of the table's commands by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CommandSet {
    words: Vec<u64>,
}

impl CommandSet {
    pub(super) fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    fn set(&mut self, index: usize, allowed: bool) {
        let place = index / 64;
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        if let Some(word) = self.words.get_mut(place) {
            let bit = 1 << (index % 64);
            *word = if allowed { *word | bit } else { *word & !bit };
        }
    }

    fn set_all<H>(&mut self, table: &Table<H>, allowed: bool) {
        self.words.clear();
        self.words.resize(table.len().div_ceil(64), if allowed { u64::MAX } else { 0 });
    }
}

/// What may be done with what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selector {
    pub(super) all_keys: bool,
    pub(crate) all_channels: bool,
    /// No command was ever taken away.
    pub(super) all_commands: bool,
    /// It began with all commands, and some may have been taken away since: its description begins with `+@all`.
    pub(super) from_all: bool,
    pub(super) commands: CommandSet,
    /// Commands that are allowed with some first words only.
    pub(super) first_words: BTreeMap<usize, Vec<Bytes>>,
    pub(super) keys: Vec<KeyPattern>,
    pub(crate) channels: Vec<Bytes>,
}

impl Selector {
    /// One that allows nothing, but perhaps all channels.
    pub fn new(all_channels: bool) -> Self {
        Self { all_channels, ..Self::default() }
    }

    /// Whether everything is allowed.
    pub fn allows_all(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Changes it by a rule.
    ///
    /// # Errors
    ///
    /// The rule makes no sense, here or at all.
    pub fn apply<H>(&mut self, rule: &[u8], table: &Table<H>) -> Result<(), RuleError> {
        let is = |name: &str| rule.eq_ignore_ascii_case(name.as_bytes());
        if is("allkeys") || is("~*") {
            self.all_keys = true;
            self.keys.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.keys.clear();
        } else if is("allchannels") || is("&*") {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("allcommands") || is("+@all") {
            self.allow_all(table, true);
        } else if is("nocommands") || is("-@all") {
            self.allow_all(table, false);
        } else {
            match rule.split_first() {
                Some((b'~' | b'%', _)) => self.add_keys(rule)?,
                Some((b'&', pattern)) => self.add_channel(pattern)?,
                Some((sign @ (b'+' | b'-'), [b'@', name @ ..])) => {
                    self.set_category(category(name).ok_or(RuleError::Unknown)?, *sign == b'+', table);
                }
                Some((b'+', name)) => self.add_command(name, table)?,
                Some((b'-', name)) => {
                    let found = lookup(table, name).ok_or(RuleError::Unknown)?;
                    self.set_command(found, false);
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Ok(())
    }

    fn allow_all<H>(&mut self, table: &Table<H>, allowed: bool) {
        self.commands.set_all(table, allowed);
        self.all_commands = allowed;
        self.from_all = allowed;
        self.first_words.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAreAll);
        }
        let tilde = rule.iter().position(|byte| *byte == b'~').ok_or(RuleError::Syntax)?;
        let (letters, pattern) = rule.split_at(tilde);
        let pattern = pattern.get(1..).unwrap_or_default();
        let mut permission = Permission::empty();
        match letters.split_first() {
            None => permission = Permission::all(),
            Some((_, letters)) => {
                for letter in letters {
                    let added = match letter.to_ascii_uppercase() {
                        b'R' => Permission::READ,
                        b'W' => Permission::WRITE,
                        _ => return Err(RuleError::Syntax),
                    };
                    if permission.contains(added) {
                        return Err(RuleError::Syntax);
                    }
                    permission |= added;
                }
            }
        }
        if permission.is_empty() || has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern.as_slice() == pattern) {
            Some(known) => known.permission |= permission,
            None => self.keys.push(KeyPattern { permission, pattern: Bytes::from_slice(pattern) }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAreAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known.as_slice() == pattern) {
            self.channels.push(Bytes::from_slice(pattern));
        }
        Ok(())
    }

    fn add_command<H>(&mut self, name: &[u8], table: &Table<H>) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            let found = lookup(table, name).ok_or(RuleError::Unknown)?;
            self.set_command(found, true);
            return Ok(());
        };
        let (container, word) = name.split_at(bar);
        let word = word.get(1..).unwrap_or_default();
        let container = lookup(table, container).ok_or(RuleError::Unknown)?;
        if container.container.is_some() {
            return Err(RuleError::WordOfSubcommand);
        }
        // A description could not write one with blanks.
        if word.is_empty() || has_spaces(word) {
            return Err(RuleError::Syntax);
        }
        if !container.command.subcommands.is_empty() {
            let found = lookup(table, name).ok_or(RuleError::Unknown)?;
            self.set_command(found, true);
            return Ok(());
        }
        let words = self.first_words.entry(container.index).or_default();
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(Bytes::from_slice(word));
        }
        Ok(())
    }

    fn set_index(&mut self, index: usize, allowed: bool) {
        self.commands.set(index, allowed);
        self.all_commands &= allowed;
    }

    /// Allows a command or takes it away, with its subcommands.
    pub(super) fn set_command<H>(&mut self, found: FoundCommand<H>, allowed: bool) {
        self.set_index(found.index, allowed);
        self.first_words.remove(&found.index);
        for place in 0..found.command.subcommands.len() {
            self.set_index(found.index + 1 + place, allowed);
        }
    }

    pub(super) fn set_category<H>(&mut self, category: Categories, allowed: bool, table: &Table<H>) {
        for found in table.each() {
            if found.command.all_categories().contains(category) {
                self.set_command(*found, allowed);
            }
        }
    }

    /// Whether a command may run with these words; `keys` are its keys, once somebody had to ask for them.
    pub(super) fn check<H>(
        &self,
        found: FoundCommand<H>,
        words: &[&[u8]],
        keys: &mut Option<Vec<(usize, Access)>>,
    ) -> Result<(), Denied> {
        let may_run = self.all_commands || found.command.flags.contains(Flags::NO_AUTH);
        if !may_run && !self.commands.contains(found.index) {
            let word = words.get(if found.container.is_some() { 2 } else { 1 });
            let known = self.first_words.get(&found.index).zip(word);
            if !known.is_some_and(|(known, word)| known.iter().any(|one| one.eq_ignore_ascii_case(word))) {
                return Err(Denied::Command);
            }
        }
        if !self.all_keys {
            for (place, access) in keys.get_or_insert_with(|| found.command.key_accesses(words)) {
                if !self.allows_key(words.get(*place).copied().unwrap_or_default(), *access) {
                    return Err(Denied::Key(*place));
                }
            }
        }
        if !self.all_channels
            && let Some(channels) = found.command.channels
        {
            for (place, channel) in words.iter().enumerate().skip(1).take(channels.at_most) {
                if !self.allows_channel(channel, channels.are_patterns) {
                    return Err(Denied::Channel(place));
                }
            }
        }
        Ok(())
    }

    fn allows_key(&self, key: &[u8], access: Access) -> bool {
        let needed = Permission::needed(access);
        let allowed = |known: &KeyPattern| known.permission.contains(needed) && glob::matches(&known.pattern, key);
        self.all_keys || self.keys.iter().any(allowed)
    }

    /// Whether all keys may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        let all = |known: &KeyPattern| known.permission.contains(Permission::READ) && known.pattern.as_slice() == b"*";
        self.all_keys || self.keys.iter().any(all)
    }

    /// Whether a channel may be used. A pattern of channels is one of those that are allowed, word for word.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels || allows_channel(self.channels.iter(), channel, is_pattern)
    }
}

/// Whether a channel is among those of some patterns.
pub(crate) fn allows_channel<'a>(mut known: impl Iterator<Item = &'a Bytes>, channel: &[u8], is_pattern: bool) -> bool {
    known.any(|known| if is_pattern { known.as_slice() == channel } else { glob::matches(known, channel) })
}

/// A command by its name, a subcommand by `container|name`.
fn lookup<H>(table: &Table<H>, name: &[u8]) -> Option<FoundCommand<H>> {
    let words: Vec<&[u8]> = name.split(|byte| *byte == b'|').collect();
    let found = table.find(&words)?;
    (words.len() <= 2 && found.container.is_some() == (words.len() == 2)).then_some(found)
}

/// A category by its name.
pub fn category(name: &[u8]) -> Option<Categories> {
    let found = CATEGORIES.iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name));
    found.map(|(category, _)| *category)
}

/// Whether a name has blanks or NULs, which descriptions of users have no way to write.
pub fn has_spaces(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
