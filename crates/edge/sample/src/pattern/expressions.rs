//! Many regular expressions, of which few have to be tried.
//!
//! Most expressions of a long list contain a word that must stand in what they match. A part of it, of eight, four or two
//! bytes, leads to the expression: a subject is gone through once, and only expressions whose part it has are tried, in their
//! order, with those that have no such word. Of the parts of a word the one is taken that the fewest expressions have so far,
//! of several the last: what comes later in a path says more.
//!
//! Expressions with a word are compiled when they are tried, and some of them are kept compiled. So a list takes time and
//! memory for its text when it is loaded, not for its engines.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use super::tree::Slot;
use pcre::{Groups, Outline, Regex};

/// Lengths of parts of words.
const PART_LENS: [usize; 3] = [8, 4, 2];
/// Expressions that are kept compiled.
const COMPILED_MAX: usize = 1_024;

/// An expression of a list.
#[derive(Clone, Debug)]
enum Entry {
    /// It is tried with every subject.
    Compiled(Regex),
    /// It is tried when a subject has one of its parts.
    Text(Arc<[u8]>, Box<[Part]>),
}

/// A part of a word: its length, by its place in [`PART_LENS`], and its bytes.
type Part = (u8, u64);

/// Parts are made of clients' input only to be looked up; nobody who could choose them puts them in.
#[derive(Clone, Debug, Default)]
struct PartHasher(u64);

impl Hasher for PartHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

type Parts = HashMap<u64, Vec<u64>, BuildHasherDefault<PartHasher>>;

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    ignore_case: bool,
    entries: BTreeMap<u64, (Entry, Slot)>,
    /// Elements that are tried with every subject.
    always: Vec<u64>,
    /// Elements by their parts, for each length.
    by_part: [Parts; PART_LENS.len()],
    compiled: Mutex<HashMap<u64, Arc<Regex>>>,
}

impl Clone for Expressions {
    fn clone(&self) -> Self {
        Self {
            ignore_case: self.ignore_case,
            entries: self.entries.clone(),
            always: self.always.clone(),
            by_part: self.by_part.clone(),
            compiled: Mutex::default(),
        }
    }
}

fn part_at(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(byte.to_ascii_lowercase()))
}

impl Expressions {
    pub(crate) fn new(ignore_case: bool) -> Self {
        Self { ignore_case, ..Self::default() }
    }

    /// Adds an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn insert(&mut self, pattern: &Arc<[u8]>, slot: Slot) -> Result<(), String> {
        let element = slot.element;
        let entry = match Regex::outline(pattern, self.ignore_case).and_then(|outline| self.parts_of(&outline)) {
            Some(parts) => {
                for (len, part) in &parts {
                    if let Some(elements) = self.by_part.get_mut(usize::from(*len)) {
                        elements.entry(*part).or_default().push(element);
                    }
                }
                Entry::Text(Arc::clone(pattern), parts)
            }
            None => {
                let regex = Regex::new(pattern, self.ignore_case)?;
                self.always.push(element);
                Entry::Compiled(regex)
            }
        };
        self.entries.insert(element, (entry, slot));
        Ok(())
    }

    /// A part of each of the words of which one must be there; none when that says too little.
    fn parts_of(&self, outline: &Outline) -> Option<Box<[Part]>> {
        let part = |word: &Vec<u8>| {
            let (place, len) = (0..).zip(PART_LENS).find(|(_, len)| word.len() >= *len)?;
            let known = self.by_part.get(usize::from(place))?;
            let users = |part: &u64| known.get(part).map_or(0, Vec::len);
            Some((place, word.windows(len).rev().map(part_at).min_by_key(users)?))
        };
        let parts: Option<Vec<Part>> = outline.words.iter().map(part).collect();
        parts.filter(|parts| !parts.is_empty()).map(|mut parts| {
            parts.sort_unstable();
            parts.dedup();
            parts.into()
        })
    }

    /// Takes an expression out.
    pub(crate) fn remove(&mut self, element: u64) {
        let Some((entry, _)) = self.entries.remove(&element) else { return };
        match entry {
            Entry::Compiled(_) => self.always.retain(|known| *known != element),
            Entry::Text(_, parts) => {
                for (len, part) in parts {
                    let Some(known) = self.by_part.get_mut(usize::from(len)) else { continue };
                    if let Some(elements) = known.get_mut(&part) {
                        elements.retain(|known| *known != element);
                        if elements.is_empty() {
                            known.remove(&part);
                        }
                    }
                }
                self.compiled.lock().unwrap_or_else(PoisonError::into_inner).remove(&element);
            }
        }
    }

    /// What belongs to an expression.
    pub(crate) fn slot_mut(&mut self, element: u64) -> Option<&mut Slot> {
        self.entries.get_mut(&element).map(|(_, slot)| slot)
    }

    /// The first expression that matches.
    pub(crate) fn find(&self, subject: &[u8]) -> Option<&Slot> {
        self.first(subject, |regex| regex.is_match(subject).then_some(())).map(|(slot, ())| slot)
    }

    /// The first expression that matches, and its groups.
    pub(crate) fn find_groups(&self, subject: &[u8]) -> Option<(&Slot, Groups)> {
        self.first(subject, |regex| regex.groups(subject))
    }

    fn first<R>(&self, subject: &[u8], try_it: impl Fn(&Regex) -> Option<R>) -> Option<(&Slot, R)> {
        let mut candidates = self.candidates(subject).into_iter().peekable();
        let mut always = self.always.iter().copied().peekable();
        loop {
            let next = match (candidates.peek(), always.peek()) {
                (Some(one), Some(other)) if one < other => candidates.next(),
                (Some(_), None) => candidates.next(),
                _ => always.next(),
            };
            let (entry, slot) = self.entries.get(&next?)?;
            let found = match entry {
                Entry::Compiled(regex) => try_it(regex),
                Entry::Text(pattern, _) => self.compiled(slot.element, pattern).and_then(|regex| try_it(&regex)),
            };
            if let Some(found) = found {
                return Some((slot, found));
            }
        }
    }

    /// The expressions with a part that the subject has, in order.
    fn candidates(&self, subject: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        for (known, len) in self.by_part.iter().zip(PART_LENS) {
            if !known.is_empty() {
                let elements = subject.windows(len).filter_map(|window| known.get(&part_at(window)));
                found.extend(elements.flatten().copied());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// An expression that is known to be valid, compiled.
    fn compiled(&self, element: u64, pattern: &[u8]) -> Option<Arc<Regex>> {
        let kept = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = kept().get(&element) {
            return Some(Arc::clone(regex));
        }
        // NOTE: without the lock, as it takes its time.
        let regex = Arc::new(Regex::new(pattern, self.ignore_case).ok()?);
        let mut kept = kept();
        if kept.len() >= COMPILED_MAX {
            // Those that are in use come back at once.
            kept.clear();
        }
        kept.insert(element, Arc::clone(&regex));
        Some(regex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &[&str], ignore_case: bool) -> Expressions {
        let mut list = Expressions::new(ignore_case);
        for (element, pattern) in (0..).zip(patterns) {
            list.insert(&Arc::from(pattern.as_bytes()), Slot { element, value: None }).unwrap();
        }
        list
    }

    /// The list finds what trying one after the other finds.
    #[test]
    fn finds_what_comes_first() {
        let patterns = [
            "^/old/one$",
            "^/old/",
            "one",
            "[0-9]{3}",
            "^/Old/Three",
            "x|yy",
            "(ab|cd)ef",
            "^$",
            "e.?f$",
            "\\bword\\b",
            "(?i)MiXeD",
            "^/old/one/.*\\.html$",
            "(?=look)l",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "two|three|four",
            "q(u(e)?)?",
        ];
        let subjects = [
            "/old/one",
            "/old/two",
            "/Old/Three",
            "/old/three",
            "one",
            "x",
            "y",
            "yy",
            "cdef",
            "abf",
            "123",
            "",
            "a word here",
            "mIxEd",
            "/old/one/a.html",
            "look",
            "e-f",
            "FOUR",
            "quer",
            "nothing",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ];
        for ignore_case in [false, true] {
            let one_by_one: Vec<Regex> =
                patterns.iter().map(|pattern| Regex::new(pattern.as_bytes(), ignore_case).unwrap()).collect();
            let mut list = list(&patterns, ignore_case);
            for first in 0..patterns.len() {
                for subject in subjects {
                    let expected = one_by_one.iter().skip(first).position(|regex| regex.is_match(subject.as_bytes()));
                    let expected = expected.map(|place| (place + first) as u64);
                    let found = list.find(subject.as_bytes()).map(|slot| slot.element);
                    assert_eq!(found, expected, "{subject:?} without the first {first}");
                    assert_eq!(list.find_groups(subject.as_bytes()).map(|(slot, _)| slot.element), expected);
                }
                list.remove(first as u64);
            }
            assert!(list.by_part.iter().all(HashMap::is_empty) && list.always.is_empty());
        }
        assert!(Expressions::new(false).insert(&Arc::from(&b"a("[..]), Slot { element: 0, value: None }).is_err());
    }

    #[test]
    fn few_of_many_are_tried() {
        let mut list = Expressions::new(false);
        for element in 0..2_000 {
            let pattern = format!("^/shop/products/item-{element}(/.*)?$");
            list.insert(&Arc::from(pattern.as_bytes()), Slot { element, value: None }).unwrap();
        }
        let tried: usize = (0..2_000)
            .step_by(40)
            .map(|number| {
                let subject = format!("/shop/products/item-{number}/reviews");
                assert_eq!(list.find(subject.as_bytes()).map(|slot| slot.element), Some(number));
                list.candidates(subject.as_bytes()).len()
            })
            .sum();
        assert!(tried < 50 * 6, "{tried}");
        assert!(list.compiled.lock().unwrap().len() <= COMPILED_MAX);
    }
}
