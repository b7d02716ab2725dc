//! An index of patterns that may change while it is used: what files of patterns are kept in.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use super::expressions::Expressions;
use super::parse::{IntegerRange, Network, integer_range, network};
use super::set::{embedded_v4, is_known_method, trim};
use super::sub::Substrings;
use super::tree::{ByteTree, NetworkTree, RangeTree, Slot, Slots, earlier};
use super::{DIR_DELIMITERS, DOM_DELIMITERS, MatchMethod};
use crate::number;
use crate::value::Value;
use pcre::Groups;

/// Keys up to this length are lowered on the stack.
const STACK_KEY_BYTES: usize = 256;

/// Patterns of one method, each with the number of its element and perhaps a value. Which of several that match is found is
/// HAProxy's choice: the longest prefix or network, the first string or expression.
#[derive(Clone, Debug)]
pub(crate) struct LiveIndex {
    method: MatchMethod,
    ignore_case: bool,
    entries: Entries,
}

#[derive(Clone, Debug)]
enum Entries {
    /// What is looked for does not depend on patterns.
    Nothing,
    /// Whole strings by hash.
    Whole(HashMap<Arc<[u8]>, Slots>),
    /// What strings begin with.
    Beginnings(ByteTree),
    /// What strings end with, back to front.
    Endings(ByteTree),
    /// What stands in a string between delimiters.
    Parts(ByteTree),
    /// What stands anywhere in a string.
    Anywhere(Substrings),
    Integers(RangeTree),
    Networks(NetworkTree),
    Expressions(Expressions),
    /// Words that are compared one by one.
    Words(BTreeMap<u64, (Arc<[u8]>, Slot)>),
}

/// What a pattern in text means.
enum Key {
    Nothing,
    Bytes(Arc<[u8]>),
    Range(IntegerRange),
    Network(Network),
    Expression,
}

impl LiveIndex {
    pub(crate) fn new(method: MatchMethod, ignore_case: bool) -> Self {
        let entries = match method {
            MatchMethod::Found | MatchMethod::Bool => Entries::Nothing,
            MatchMethod::Int | MatchMethod::Len | MatchMethod::Version => Entries::Integers(RangeTree::default()),
            MatchMethod::Ip => Entries::Networks(NetworkTree::default()),
            MatchMethod::Str | MatchMethod::Bin => Entries::Whole(HashMap::new()),
            MatchMethod::Beg => Entries::Beginnings(ByteTree::default()),
            MatchMethod::End => Entries::Endings(ByteTree::default()),
            MatchMethod::Dir | MatchMethod::Dom => Entries::Parts(ByteTree::default()),
            MatchMethod::Sub => Entries::Anywhere(Substrings::default()),
            MatchMethod::Reg | MatchMethod::Regm => Entries::Expressions(Expressions::new(ignore_case)),
            MatchMethod::Method | MatchMethod::Group => Entries::Words(BTreeMap::new()),
        };
        LiveIndex { method, ignore_case, entries }
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        if let Entries::Whole(map) = &mut self.entries {
            map.reserve(more);
        }
    }

    fn key(&self, pattern: &Arc<[u8]>, resolve: &dyn Fn(&str) -> Option<IpAddr>) -> Result<Key, String> {
        let folded = |bytes: &[u8]| -> Arc<[u8]> {
            if self.ignore_case { Arc::from(bytes.to_ascii_lowercase()) } else { Arc::from(bytes) }
        };
        Ok(match self.method {
            MatchMethod::Found | MatchMethod::Bool => Key::Nothing,
            MatchMethod::Int | MatchMethod::Len => Key::Range(integer_range(pattern, false)?),
            MatchMethod::Version => Key::Range(integer_range(pattern, true)?),
            MatchMethod::Ip => Key::Network(network(pattern, resolve)?),
            // Letter case counts in bytes whatever the flags say.
            MatchMethod::Bin => Key::Bytes(Arc::from(number::parse_hexadecimal(pattern)?)),
            MatchMethod::Str | MatchMethod::Beg | MatchMethod::Sub if !self.ignore_case => {
                Key::Bytes(Arc::clone(pattern))
            }
            MatchMethod::Str | MatchMethod::Beg | MatchMethod::Sub => Key::Bytes(folded(pattern)),
            MatchMethod::Method | MatchMethod::Group => Key::Bytes(Arc::clone(pattern)),
            MatchMethod::End => {
                let mut reversed = folded(pattern);
                if let Some(bytes) = Arc::get_mut(&mut reversed) {
                    bytes.reverse();
                }
                Key::Bytes(reversed)
            }
            MatchMethod::Dir => Key::Bytes(folded(trim(pattern, DIR_DELIMITERS))),
            MatchMethod::Dom => Key::Bytes(folded(trim(pattern, DOM_DELIMITERS))),
            MatchMethod::Reg | MatchMethod::Regm => Key::Expression,
        })
    }

    /// Adds a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn insert(
        &mut self,
        pattern: &Arc<[u8]>,
        slot: Slot,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
    ) -> Result<(), String> {
        let key = self.key(pattern, resolve)?;
        match (&mut self.entries, key) {
            (Entries::Whole(map), Key::Bytes(key)) => match map.get_mut(&key) {
                Some(slots) => slots.add(slot),
                None => {
                    map.insert(key, Slots::new(slot));
                }
            },
            (Entries::Beginnings(tree) | Entries::Endings(tree), Key::Bytes(key)) => tree.insert(key, slot),
            // A word without characters is between no delimiters at all.
            (Entries::Parts(tree), Key::Bytes(key)) if !key.is_empty() => tree.insert(key, slot),
            (Entries::Anywhere(list), Key::Bytes(key)) => list.insert(key, slot),
            (Entries::Integers(tree), Key::Range(range)) => tree.insert(range, slot),
            (Entries::Networks(tree), Key::Network(network)) => tree.insert(network, slot),
            (Entries::Expressions(list), Key::Expression) => list.insert(pattern, slot).map_err(|reason| {
                format!("regex '{}' is invalid (error={reason})", String::from_utf8_lossy(pattern))
            })?,
            (Entries::Words(list), Key::Bytes(word)) => {
                list.insert(slot.element, (word, slot));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a pattern out that was added as this text.
    pub(crate) fn remove(&mut self, pattern: &Arc<[u8]>, element: u64) {
        match &mut self.entries {
            Entries::Expressions(list) => {
                list.remove(element);
                return;
            }
            Entries::Words(list) => {
                list.remove(&element);
                return;
            }
            _ => {}
        }
        let Ok(key) = self.key(pattern, &|_| None) else { return };
        match (&mut self.entries, key) {
            (Entries::Whole(map), Key::Bytes(key)) => {
                let is_last = map.get_mut(&key).is_some_and(|slots| slots.remove(element));
                let _ = is_last.then(|| map.remove(&key));
            }
            (Entries::Beginnings(tree) | Entries::Endings(tree) | Entries::Parts(tree), Key::Bytes(key)) => {
                tree.remove(&key, element);
            }
            (Entries::Anywhere(list), Key::Bytes(key)) => list.remove(&key, element),
            (Entries::Integers(tree), Key::Range(range)) => tree.remove(range, element),
            (Entries::Networks(tree), Key::Network(network)) => tree.remove(network, element),
            _ => {}
        }
    }

    /// Gives a pattern that was added as this text another value.
    pub(crate) fn set_value(&mut self, pattern: &Arc<[u8]>, element: u64, value: Value<'static>) {
        let key = match &self.entries {
            Entries::Expressions(_) | Entries::Words(_) => Key::Nothing,
            _ => match self.key(pattern, &|_| None) {
                Ok(key) => key,
                Err(_) => return,
            },
        };
        let slot = match (&mut self.entries, key) {
            (Entries::Expressions(list), _) => list.slot_mut(element),
            (Entries::Words(list), _) => list.get_mut(&element).map(|(_, slot)| slot),
            (Entries::Whole(map), Key::Bytes(key)) => map.get_mut(&key).and_then(|slots| slots.of(element)),
            (Entries::Beginnings(tree) | Entries::Endings(tree) | Entries::Parts(tree), Key::Bytes(key)) => {
                tree.of(&key, element)
            }
            (Entries::Anywhere(list), Key::Bytes(key)) => list.of(&key, element),
            (Entries::Integers(tree), Key::Range(range)) => tree.of(range, element),
            (Entries::Networks(tree), Key::Network(network)) => tree.of(network, element),
            _ => None,
        };
        if let Some(slot) = slot {
            slot.value = Some(value);
        }
    }

    /// The pattern that decides about `value`, which is of the type that the method takes.
    pub(crate) fn find(&self, value: &Value<'_>) -> Option<&Slot> {
        match value {
            Value::Sint(value) => self.find_integer(*value),
            Value::Bool(value) => self.find_integer(i64::from(*value)),
            Value::Ipv4(address) => self.find_address(IpAddr::V4(*address)),
            Value::Ipv6(address) => self.find_address(IpAddr::V6(*address)),
            Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => self.find_bytes(bytes),
        }
    }

    fn find_integer(&self, value: i64) -> Option<&Slot> {
        match &self.entries {
            Entries::Integers(tree) => tree.find(value),
            _ => None,
        }
    }

    fn find_address(&self, address: IpAddr) -> Option<&Slot> {
        let Entries::Networks(tree) = &self.entries else { return None };
        let embedded = match address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(address) => embedded_v4(address),
        };
        let v4 = || tree.v4(embedded?);
        let found = match address {
            IpAddr::V4(address) => v4().or_else(|| tree.v6(u128::from(address.to_ipv6_mapped()))),
            IpAddr::V6(address) => tree.v6(u128::from(address)).or_else(v4),
        };
        found.or_else(|| tree.masked(embedded?))
    }

    fn find_bytes(&self, bytes: &[u8]) -> Option<&Slot> {
        match &self.entries {
            Entries::Whole(map) if self.method == MatchMethod::Bin => map.get(bytes).map(Slots::first),
            Entries::Whole(map) => self.folded(bytes, false, |key| map.get(key)).map(Slots::first),
            // A tree gives the longest, a list the first; letter case is ignored in lists.
            Entries::Beginnings(tree) if self.ignore_case => self.folded(bytes, false, |key| tree.earliest(key)),
            Entries::Beginnings(tree) => tree.longest(bytes),
            Entries::Endings(tree) => self.folded(bytes, true, |key| tree.earliest(key)),
            Entries::Parts(tree) => {
                let delimiters = if self.method == MatchMethod::Dir { DIR_DELIMITERS } else { DOM_DELIMITERS };
                self.folded(bytes, false, |key| find_part(tree, key, delimiters))
            }
            Entries::Anywhere(list) => self.folded(bytes, false, |key| list.find(key)),
            Entries::Integers(tree) => tree.find(i64::try_from(bytes.len()).unwrap_or(i64::MAX)),
            Entries::Expressions(list) => list.find(bytes),
            Entries::Words(list) => list.values().find(|(word, _)| self.is_word(word, bytes)).map(|(_, slot)| slot),
            Entries::Networks(_) | Entries::Nothing => None,
        }
    }

    /// The groups of the first expression that matches `subject`, and its pattern.
    pub(crate) fn find_groups(&self, subject: &[u8]) -> Option<(&Slot, Groups)> {
        let Entries::Expressions(list) = &self.entries else { return None };
        list.find_groups(subject)
    }

    /// The patterns, if they are kept as words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        let words = match &self.entries {
            Entries::Words(list) => Some(list.values().map(|(word, _)| &**word)),
            _ => None,
        };
        words.into_iter().flatten()
    }

    /// Whether HAProxy would have found the pattern of this element in a tree rather than a list.
    pub(crate) fn is_in_tree(&self, element: u64) -> bool {
        match &self.entries {
            Entries::Whole(_) => self.method == MatchMethod::Str && !self.ignore_case,
            Entries::Beginnings(_) => !self.ignore_case,
            Entries::Networks(tree) => !tree.is_masked(element),
            _ => false,
        }
    }

    fn is_word(&self, word: &[u8], bytes: &[u8]) -> bool {
        // Letter case is never ignored in methods that everyone knows.
        let ignore_case = self.ignore_case && !is_known_method(bytes);
        word == bytes || (ignore_case && word.eq_ignore_ascii_case(bytes))
    }

    /// Calls `action` with `bytes`, in lower case if case is ignored, back to front if `reversed`.
    fn folded<T>(&self, bytes: &[u8], reversed: bool, action: impl FnOnce(&[u8]) -> T) -> T {
        if !self.ignore_case && !reversed {
            return action(bytes);
        }
        let mut stack = [0u8; STACK_KEY_BYTES];
        let mut heap = Vec::new();
        let key = match stack.get_mut(..bytes.len()) {
            Some(key) => key,
            None => {
                heap.resize(bytes.len(), 0);
                &mut heap[..]
            }
        };
        key.copy_from_slice(bytes);
        if self.ignore_case {
            key.make_ascii_lowercase();
        }
        if reversed {
            key.reverse();
        }
        action(key)
    }
}

/// The first of the words that stand in `bytes` between delimiters or the ends.
fn find_part<'a>(tree: &'a ByteTree, bytes: &[u8], delimiters: &[u8]) -> Option<&'a Slot> {
    let mut found = None;
    let mut rest = bytes;
    loop {
        let start = rest.iter().take_while(|byte| delimiters.contains(byte)).count();
        rest = rest.get(start..).unwrap_or_default();
        if rest.is_empty() {
            return found;
        }
        tree.each(rest, |length, slots| {
            if rest.get(length).is_none_or(|byte| delimiters.contains(byte)) {
                found = earlier(found, Some(slots.first()));
            }
            true
        });
        let end = rest.iter().take_while(|byte| !delimiters.contains(byte)).count();
        rest = rest.get(end..).unwrap_or_default();
    }
}
