//! The table of commands: each is declared once, beside its implementation, and everything that is asked about commands is
//! answered from here: dispatch, `COMMAND` and its subcommands, extraction of keys, categories of ACLs, the reference. What runs a
//! command is of a type `H` that the table does not know: [`server`](crate::server) says which, [`groups`](crate::groups) has them.

mod flags;
mod keys;
mod words;

pub use flags::{Categories, Flags};
pub use keys::{Access, AccessRule, Begin, Find, KeySpec};
pub use words::{ChannelWords, ElementWords, WordPlaces};

use keyspace::Failure;
use rustc_hash::FxHashMap;

/// A command, or a subcommand.
#[derive(Debug, Clone, Copy)]
pub struct Command<H: 'static> {
    /// Its name in upper case; a subcommand's without its container's.
    pub name: &'static str,
    /// How many words it takes; negative: at least as many.
    pub arity: i32,
    /// Runs it; a container answers what its subcommands do not.
    pub handler: H,
    /// What it is like.
    pub flags: Flags,
    /// The categories that do not follow from its flags.
    pub categories: Categories,
    /// Its keys.
    pub keys: &'static [KeySpec],
    /// Where `keys` cannot tell all: finds the keys' places.
    pub key_places: Option<WordPlaces>,
    /// What it does with keys that [`Access::VARIABLE_FLAGS`] are about, as its words say.
    pub access: Option<AccessRule>,
    /// Which words name elements.
    pub elements: Option<ElementWords>,
    /// Which words are channels.
    pub channels: Option<ChannelWords>,
    /// Finds the places of words that are secret: logs do not show them.
    pub secrets: Option<WordPlaces>,
    /// Redis' version that brought it.
    pub since: &'static str,
    /// Its time.
    pub complexity: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The words that it takes behind its name, as [`syntax`](crate::syntax) has them.
    pub syntax: &'static str,
    /// Its subcommands.
    pub subcommands: &'static [Command<H>],
    /// The group of the manual, as `COMMAND DOCS` has it.
    pub group: &'static str,
    /// Why it is refused, if it is known and not there.
    pub missing: Option<&'static str>,
    /// How it is done in steps if it has very many words.
    pub wide: Option<Wide<H>>,
    /// All its words are keys, which it holds step by step if they are very many, and it says itself how it is done in steps.
    pub many_keys: bool,
}

/// A command that is the same as several of them, with the same first words and some of the others each: one of one key, or one
/// whose words are keys.
#[derive(Debug, Clone, Copy)]
pub struct Wide<H> {
    /// The place of the first of the others.
    pub from: fn(&[&[u8]]) -> usize,
    /// So many of them belong together.
    pub group: usize,
    /// What becomes of the replies.
    pub replies: Replies,
    /// What may be wrong with words, to be known before anything is changed.
    pub check: Option<Check>,
    /// The first of those that belong together is a key.
    pub of_keys: bool,
    /// If none of the keys is there, this does it, and the answer is 1; else nothing is done, and it is 0.
    pub unless_there: Option<H>,
}

/// Looks at some words of a command.
pub type Check = fn(&[&[u8]]) -> Result<(), Failure>;

/// How several replies become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// Numbers are added.
    Sum,
    /// The last one counts.
    Last,
    /// Arrays are joined.
    Joined,
}

impl<H: Copy> Wide<H> {
    /// That of a command whose words behind the key are alike, so many belonging together.
    pub const fn new(group: usize, replies: Replies) -> Self {
        Self { from: |_| 2, group, replies, check: None, of_keys: false, unless_there: None }
    }

    /// That of a command whose words are keys, with so many belonging together.
    pub const fn of_keys(group: usize, replies: Replies) -> Self {
        Self { from: |_| 1, group, replies, check: None, of_keys: true, unless_there: None }
    }

    /// Whether a command that begins with such words, and has so many, can be done so.
    pub fn fits(&self, head: &[&[u8]], len: usize) -> bool {
        let from = (self.from)(head);
        from < head.len() && (len - from).is_multiple_of(self.group)
    }
}

impl<H: Copy + 'static> Command<H> {
    /// A command of no keys.
    pub const fn new(name: &'static str, arity: i32, handler: H) -> Self {
        Self {
            name,
            arity,
            handler,
            flags: Flags::empty(),
            categories: Categories::empty(),
            keys: &[],
            key_places: None,
            access: None,
            elements: None,
            channels: None,
            secrets: None,
            since: "1.0.0",
            complexity: "",
            summary: "",
            syntax: "",
            subcommands: &[],
            group: "generic",
            missing: None,
            wide: None,
            many_keys: false,
        }
    }

    /// Done in steps if it has very many words.
    pub const fn wide(mut self, wide: Wide<H>) -> Self {
        self.wide = Some(wide);
        self
    }

    /// Of keys alone, which may be very many; it does itself in steps.
    pub const fn many_keys(mut self) -> Self {
        self.many_keys = true;
        self
    }

    /// With flags.
    pub const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// With keys.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    /// With a rule of its own for keys.
    pub const fn key_places(mut self, key_places: WordPlaces) -> Self {
        self.key_places = Some(key_places);
        self.flags = self.flags.union(Flags::MOVABLE_KEYS);
        self
    }

    /// With a rule of its own for what it does with keys.
    pub const fn access(mut self, access: AccessRule) -> Self {
        self.access = Some(access);
        self
    }

    /// With words that name elements.
    pub const fn elements(mut self, elements: ElementWords) -> Self {
        self.elements = Some(elements);
        self
    }

    /// With words that are channels.
    pub const fn channels(mut self, channels: ChannelWords) -> Self {
        self.channels = Some(channels);
        self
    }

    /// With words that are secret.
    pub const fn secrets(mut self, secrets: WordPlaces) -> Self {
        self.secrets = Some(secrets);
        self
    }

    /// With the group and the categories that do not follow from flags.
    pub const fn group(mut self, group: &'static str, categories: Categories) -> Self {
        self.group = group;
        self.categories = categories;
        self
    }

    /// With what `COMMAND DOCS` says.
    pub const fn docs(mut self, since: &'static str, complexity: &'static str, summary: &'static str) -> Self {
        self.since = since;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    /// With the words that it takes behind its name.
    pub const fn syntax(mut self, syntax: &'static str) -> Self {
        self.syntax = syntax;
        self
    }

    /// Says that it is refused, and why.
    pub const fn missing(mut self, reason: &'static str) -> Self {
        self.missing = Some(reason);
        self
    }

    /// With subcommands.
    pub const fn subcommands(mut self, subcommands: &'static [Command<H>]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

impl<H> Command<H> {
    /// Whether as many words are right.
    pub fn takes(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// All its categories.
    pub fn all_categories(&self) -> Categories {
        let mut all = self.categories;
        all.set(Categories::WRITE, self.flags.contains(Flags::WRITE));
        // What is neither for scripts nor about keys reads nothing that an ACL protects.
        let reads = self.flags.contains(Flags::READONLY) && !self.categories.contains(Categories::SCRIPTING);
        all.set(Categories::READ, reads);
        if self.flags.contains(Flags::ADMIN) {
            all |= Categories::ADMIN | Categories::DANGEROUS;
        }
        if self.flags.contains(Flags::PUBSUB) {
            all |= Categories::PUBSUB;
        }
        if self.flags.contains(Flags::BLOCKING) {
            all |= Categories::BLOCKING;
        }
        all | if self.flags.contains(Flags::FAST) { Categories::FAST } else { Categories::SLOW }
    }

    /// Whether it may change more than one key, depending on what keys hold. Commands that take something from the first of their keys
    /// that has any change only that one.
    pub fn may_change_several_keys(&self) -> bool {
        let takes_from_one = |keys: &KeySpec| keys.access.contains(Access::DELETE);
        self.flags.contains(Flags::WRITE)
            && match self.keys {
                [KeySpec { find: Find::Range { last: 0, .. }, .. }] | [] => self.key_places.is_some(),
                [keys] => !takes_from_one(keys) && !keys.access.intersects(Access::OW.union(Access::RM)),
                _ => true,
            }
    }

    /// The places of its keys among its words, with what it does with each. Channels that belong to slots are no keys.
    pub fn key_accesses(&self, words: &[&[u8]]) -> Vec<(usize, Access)> {
        let of_words = |keys: &KeySpec| match self.access {
            Some(access) if keys.access.contains(Access::VARIABLE_FLAGS) => access(words),
            _ => keys.access,
        };
        let mut accesses: Vec<(usize, Access)> = Vec::new();
        let mut named = Vec::new();
        for keys in self.keys.iter().filter(|keys| !keys.access.contains(Access::NOT_KEY)) {
            keys.places(words, &mut named);
            accesses.extend(named.drain(..).map(|place| (place, of_words(keys))));
        }
        if let Some(find) = self.key_places {
            // What only the command's own rule finds has the access of the last one that is declared.
            find(words, &mut named);
            let last = self.keys.last().map_or(Access::RW | Access::ACCESS | Access::UPDATE, of_words);
            let access =
                |place: usize| accesses.iter().find(|(known, _)| *known == place).map_or(last, |found| found.1);
            accesses = named.into_iter().map(|place| (place, access(place))).collect();
        }
        accesses
    }

    /// The places of its keys among its words. A transaction of a container's subcommand has both names in front.
    pub fn key_places_of(&self, words: &[&[u8]]) -> Vec<usize> {
        let mut places = Vec::new();
        match self.key_places {
            Some(find) => find(words, &mut places),
            None => self.keys.iter().for_each(|keys| keys.places(words, &mut places)),
        }
        places
    }
}

/// A command that was found by its words.
#[derive(Debug)]
pub struct FoundCommand<H: 'static> {
    /// The command, or the subcommand.
    pub command: &'static Command<H>,
    /// The container of a subcommand.
    pub container: Option<&'static Command<H>>,
    /// A number of its own, for statistics.
    pub index: usize,
}

impl<H> Clone for FoundCommand<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for FoundCommand<H> {}

impl<H> FoundCommand<H> {
    /// The name.
    pub fn name(&self) -> CommandName {
        CommandName { container: self.container.map(|container| container.name), own: self.command.name }
    }

    /// The name in lower case, a subcommand's as `container|name`.
    pub fn full_name(&self) -> String {
        self.name().full()
    }
}

/// The name of a command or a subcommand, in upper case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandName {
    /// The name of a subcommand's container.
    pub container: Option<&'static str>,
    /// The name without it.
    pub own: &'static str,
}

impl CommandName {
    /// All of it in lower case, a subcommand's as `container|name`.
    pub fn full(self) -> String {
        match self.container {
            Some(container) => format!("{container}|{}", self.own).to_ascii_lowercase(),
            None => self.own.to_ascii_lowercase(),
        }
    }
}

/// Finds commands by name.
#[derive(Debug)]
pub struct Table<H: 'static> {
    /// Nobody can choose the names in it, so a quick hash does.
    by_name: FxHashMap<&'static [u8], (usize, &'static Command<H>)>,
    /// By number.
    all: Vec<FoundCommand<H>>,
}

/// The longest name there is room for; a longer one is not known anyway.
const NAME_LEN_MAX: usize = 32;

impl<H> Table<H> {
    /// The table of some commands.
    pub fn new(commands: impl Iterator<Item = &'static Command<H>>) -> Self {
        let mut by_name = FxHashMap::default();
        let mut index = 0;
        for command in commands {
            by_name.insert(command.name.as_bytes(), (index, command));
            index += 1 + command.subcommands.len();
        }
        let mut all: Vec<FoundCommand<H>> = Vec::with_capacity(index);
        for (index, command) in by_name.values() {
            let (index, container): (usize, &'static Command<H>) = (*index, command);
            all.push(FoundCommand { command: container, container: None, index });
            all.extend(container.subcommands.iter().enumerate().map(|(place, command)| FoundCommand {
                command,
                container: Some(container),
                index: index + 1 + place,
            }));
        }
        all.sort_by_key(|found| found.index);
        Self { by_name, all }
    }

    /// How many numbers [`FoundCommand::index`] may be.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// A command by its name alone.
    pub fn by_name(&self, name: &[u8]) -> Option<FoundCommand<H>> {
        let mut upper = [0; NAME_LEN_MAX];
        let upper = upper.get_mut(..name.len())?;
        upper.copy_from_slice(name);
        upper.make_ascii_uppercase();
        let (index, command) = self.by_name.get(&*upper)?;
        Some(FoundCommand { command, container: None, index: *index })
    }

    /// The command of some words: a subcommand if the first two name one.
    pub fn find(&self, words: &[&[u8]]) -> Option<FoundCommand<H>> {
        let found = self.by_name(words.first()?)?;
        if found.command.subcommands.is_empty() {
            return Some(found);
        }
        let Some(name) = words.get(1) else { return Some(found) };
        let place = found.command.subcommands.iter().position(|one| one.name.as_bytes().eq_ignore_ascii_case(name));
        let Some((place, command)) = place.and_then(|place| Some((place, found.command.subcommands.get(place)?)))
        else {
            return Some(found);
        };
        Some(FoundCommand { command, container: Some(found.command), index: found.index + 1 + place })
    }

    /// All commands by number: subcommands after their container.
    pub fn all(&self) -> Vec<FoundCommand<H>> {
        self.all.clone()
    }

    /// The same, to be looked at.
    pub fn each(&self) -> &[FoundCommand<H>] {
        &self.all
    }
}
