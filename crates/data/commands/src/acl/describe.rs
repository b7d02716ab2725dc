//! Users as text: the rules that make them, as `ACL LIST`, `ACL GETUSER` and the file of users have them.

use crate::table::{Categories, Table};

use super::{CATEGORIES, Selector, User};

impl Selector {
    /// The rules of its commands: `+@all` or `-@all`, then categories, then single commands.
    ///
    /// Categories are chosen by how well they fit, the best one first: one that has more commands in common with the selector
    /// than not. As rules are found they are applied to a selector that began with the same, so that what is still missing is
    /// known.
    pub(crate) fn describe_commands<H>(&self, table: &Table<H>) -> String {
        let additive = !self.from_all;
        let sign = if additive { '+' } else { '-' };
        let mut text = String::from(if additive { "-@all" } else { "+@all" });
        let mut made = Self::default();
        let _ = made.apply(text.as_bytes(), table);
        let mut left = Self { commands: self.commands.clone(), ..Self::default() };
        let members: Vec<(usize, Categories)> =
            table.each().iter().map(|found| (found.index, found.command.all_categories())).collect();
        let mut applied = vec![false; CATEGORIES.len()];
        loop {
            let mut best: Option<(usize, usize, usize)> = None;
            for (place, (category, _)) in CATEGORIES.iter().enumerate() {
                if applied.get(place).copied().unwrap_or(true) {
                    continue;
                }
                let (mut on, mut off) = (0, 0);
                for (index, _) in members.iter().filter(|(_, categories)| categories.contains(*category)) {
                    *(if left.commands.contains(*index) { &mut on } else { &mut off }) += 1;
                }
                let (same, different) = if additive { (on, off) } else { (off, on) };
                let is_better =
                    best.is_none_or(|(_, least, most)| different < least || different == least && same > most);
                if same > different && is_better {
                    best = Some((place, different, same));
                }
            }
            let Some((place, ..)) = best else { break };
            if let (Some((category, name)), Some(applied)) = (CATEGORIES.get(place), applied.get_mut(place)) {
                *applied = true;
                made.set_category(*category, additive, table);
                left.set_category(*category, !additive, table);
                text.push_str(&format!(" {sign}@{name}"));
            }
        }
        for found in table.each() {
            let allowed = self.commands.contains(found.index);
            if made.commands.contains(found.index) != allowed {
                made.set_command(*found, allowed);
                text.push_str(&format!(" {}{}", if allowed { '+' } else { '-' }, found.full_name()));
            }
            if let Some(words) = self.first_words.get(&found.index).filter(|_| !allowed) {
                let name = found.full_name();
                for word in words {
                    text.push_str(&format!(" +{name}|{}", String::from_utf8_lossy(word)));
                }
            }
        }
        text
    }

    /// Its patterns of keys.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for pattern in &self.keys {
            if !text.is_empty() {
                text.push(b' ');
            }
            pattern.write(&mut text);
        }
        text
    }

    /// Its channels.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let patterns: Vec<Vec<u8>> = self.channels.iter().map(|pattern| [b"&", pattern.as_slice()].concat()).collect();
        patterns.join(b" ".as_slice())
    }

    fn describe<H>(&self, table: &Table<H>) -> Vec<u8> {
        let mut text = self.describe_keys();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            text.extend_from_slice(&channels);
            text.push(b' ');
        }
        text.extend_from_slice(self.describe_commands(table).as_bytes());
        text
    }
}

impl User {
    /// The rules that make this user.
    pub fn describe<H>(&self, table: &Table<H>) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for password in &self.passwords {
            text.push(b'#');
            text.extend_from_slice(password.as_bytes());
            text.push(b' ');
        }
        for (place, selector) in self.selectors().enumerate() {
            let rules = selector.describe(table);
            if place == 0 {
                text.extend_from_slice(&rules);
            } else {
                text.extend_from_slice(b" (");
                text.extend_from_slice(&rules);
                text.push(b')');
            }
        }
        text
    }
}
