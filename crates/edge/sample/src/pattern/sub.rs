//! Many strings looked for anywhere in another.
//!
//! A few are looked for one after the other. Of many an automaton is made that finds all of them in one pass. Strings that
//! come later are looked for beside it, and a new automaton is made when they are a fair part of all: so each string is built
//! in a bounded number of times, however many are added one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;

use super::tree::{Slot, earlier};

/// From this many strings on, an automaton looks for them.
const AUTOMATON_FROM: usize = 16;
/// A new automaton is made when one in so many strings is not in it.
const REBUILD_PART: usize = 4;

/// The strings, in lower case if case is ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substrings {
    list: BTreeMap<u64, (Arc<[u8]>, Slot)>,
    automaton: Option<Automaton>,
    /// Searchers of those that the automaton does not know: all are later than those that it does.
    unknown: BTreeMap<u64, memmem::Finder<'static>>,
    is_loaded: bool,
}

#[derive(Clone, Debug)]
struct Automaton {
    machine: AhoCorasick,
    /// The element of each of its patterns.
    elements: Arc<[u64]>,
}

impl Substrings {
    pub(crate) fn insert(&mut self, word: Arc<[u8]>, slot: Slot) {
        // Nothing is found nowhere.
        if word.is_empty() {
            return;
        }
        self.unknown.insert(slot.element, memmem::Finder::new(&word).into_owned());
        self.list.insert(slot.element, (word, slot));
        if self.is_loaded && self.unknown.len() * REBUILD_PART >= self.list.len() {
            self.rebuild();
        }
    }

    /// Says that what comes from now on comes one by one.
    pub(crate) fn settle(&mut self) {
        self.is_loaded = true;
        self.rebuild();
    }

    fn rebuild(&mut self) {
        if self.unknown.len() < AUTOMATON_FROM {
            return;
        }
        let words = self.list.values().map(|(word, _)| word);
        // One that would be larger than it may be is done without.
        if let Ok(machine) = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(words) {
            self.automaton = Some(Automaton { machine, elements: self.list.keys().copied().collect() });
            self.unknown.clear();
        }
    }

    pub(crate) fn remove(&mut self, element: u64) {
        // What the automaton still finds of it is no longer in the list.
        self.list.remove(&element);
        self.unknown.remove(&element);
        if self.list.is_empty() {
            self.automaton = None;
        }
    }

    pub(crate) fn of(&mut self, element: u64) -> Option<&mut Slot> {
        self.list.get_mut(&element).map(|(_, slot)| slot)
    }

    /// The one that was added first of those that stand in `subject`.
    pub(crate) fn find(&self, subject: &[u8]) -> Option<&Slot> {
        let slot = |element: &u64| self.list.get(element).map(|(_, slot)| slot);
        let mut found: Option<&Slot> = None;
        if let Some(automaton) = &self.automaton {
            for hit in automaton.machine.find_overlapping_iter(subject) {
                let element = automaton.elements.get(hit.pattern().as_usize());
                found = earlier(found, element.and_then(slot));
            }
        }
        if found.is_some() {
            return found;
        }
        self.unknown.iter().find(|(_, finder)| finder.find(subject).is_some()).and_then(|(element, _)| slot(element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_like_one_by_one() {
        let word = |number: u64| format!("w{}x{}", number % 37, number * 7_919 % 101);
        let mut many = Substrings { is_loaded: true, ..Substrings::default() };
        let mut alive: BTreeMap<u64, String> = BTreeMap::new();
        let subjects: Vec<String> =
            (0..200).map(|number| format!("..{}{}..", word(number * 3), word(number))).collect();
        for number in 0..300 {
            many.insert(Arc::from(word(number).as_bytes()), Slot { element: number, value: None });
            alive.insert(number, word(number));
            if number % 3 == 0 {
                many.remove(number / 2);
                alive.remove(&(number / 2));
            }
            for subject in subjects.iter().step_by(17) {
                let first = alive.iter().find(|(_, word)| subject.contains(word.as_str())).map(|(number, _)| *number);
                assert_eq!(many.find(subject.as_bytes()).map(|slot| slot.element), first, "{subject} after {number}");
            }
        }
        assert!(many.automaton.is_some());
    }
}
