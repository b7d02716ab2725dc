//! Many strings looked for anywhere in another.
//!
//! What stands at a place of the subject is looked up in a tree of all strings, if it begins like one of them: which is
//! answered by one bit for what the next few bytes hash to. Strings come and go one by one, and an automaton that finds all in
//! one pass would have to be made anew each time.

use std::sync::Arc;

use super::tree::{ByteTree, Slot, earlier};

/// Words of the filter at first, and at most: 32 kilobytes, few enough for the nearest cache.
const FILTER_WORDS_MIN: usize = 8;
const FILTER_WORDS_MAX: usize = 4_096;
/// Bits that a string has of the filter, so that most of them are clear.
const BITS_EACH: usize = 8;
/// Bytes that are hashed, unless a string is shorter.
const BEGINNING_BYTES: usize = 4;

/// The strings, in lower case if case is ignored.
#[derive(Clone, Debug)]
pub(crate) struct Substrings {
    tree: ByteTree,
    /// A bit for the beginning of each string; as many words as a power of two. Bits of strings that were removed stay, which
    /// does no harm.
    filter: Vec<u64>,
    /// How many strings it was made for.
    noted: usize,
    /// How many bytes a beginning has: those of the shortest string, if that is less than usual.
    beginning: usize,
}

impl Default for Substrings {
    fn default() -> Self {
        Substrings {
            tree: ByteTree::default(),
            filter: vec![0; FILTER_WORDS_MIN],
            noted: 0,
            beginning: BEGINNING_BYTES,
        }
    }
}

/// The place of a beginning in a filter of so many words: its word and its bit.
fn place(beginning: &[u8], words: usize) -> (usize, u64) {
    let bytes = beginning.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    let hash = (u64::from(bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    ((hash / 64) & (words - 1), 1 << (hash % 64))
}

impl Substrings {
    pub(crate) fn insert(&mut self, word: Arc<[u8]>, slot: Slot) {
        // Nothing is found nowhere.
        if word.is_empty() {
            return;
        }
        let is_full = self.noted * BITS_EACH > self.filter.len() * 64 && self.filter.len() < FILTER_WORDS_MAX;
        // A shorter string comes at most as often as a beginning has bytes.
        if is_full || word.len() < self.beginning {
            self.beginning = self.beginning.min(word.len());
            self.filter = vec![0; if is_full { self.filter.len() * 8 } else { self.filter.len() }];
            self.noted = 0;
            for other in self.tree.keys() {
                note(&mut self.filter, other.get(..self.beginning).unwrap_or_default());
                self.noted += 1;
            }
        }
        note(&mut self.filter, word.get(..self.beginning).unwrap_or_default());
        self.noted += 1;
        self.tree.insert(word, slot);
    }

    pub(crate) fn remove(&mut self, word: &[u8], element: u64) {
        self.tree.remove(word, element);
    }

    pub(crate) fn of(&mut self, word: &[u8], element: u64) -> Option<&mut Slot> {
        self.tree.of(word, element)
    }

    /// The one that was added first of those that stand in `subject`.
    pub(crate) fn find(&self, subject: &[u8]) -> Option<&Slot> {
        let mut found: Option<&Slot> = None;
        for (start, beginning) in subject.windows(self.beginning).enumerate() {
            let (word, bit) = place(beginning, self.filter.len());
            if self.filter.get(word).is_some_and(|bits| bits & bit != 0) {
                found = earlier(found, self.tree.earliest(subject.get(start..).unwrap_or_default()));
            }
        }
        found
    }
}

fn note(filter: &mut [u64], beginning: &[u8]) {
    let (word, bit) = place(beginning, filter.len());
    if let Some(bits) = filter.get_mut(word) {
        *bits |= bit;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn many_like_one_by_one() {
        let word = |number: u64| match number % 11 {
            9 => format!("{}", number % 100),
            _ => format!("w{}x{}", number % 37, number * 7_919 % 101),
        };
        let mut many = Substrings::default();
        let mut alive: BTreeMap<u64, String> = BTreeMap::new();
        let subjects: Vec<String> =
            (0..200).map(|number| format!("..{}{}..", word(number * 3), word(number))).collect();
        for number in 0..300 {
            many.insert(Arc::from(word(number).as_bytes()), Slot { element: number, value: None });
            alive.insert(number, word(number));
            if number % 3 == 0 {
                many.remove(word(number / 2).as_bytes(), number / 2);
                alive.remove(&(number / 2));
            }
            for subject in subjects.iter().step_by(17).map(String::as_str).chain(["", "w", "9"]) {
                let first = alive.iter().find(|(_, word)| subject.contains(word.as_str())).map(|(number, _)| *number);
                assert_eq!(many.find(subject.as_bytes()).map(|slot| slot.element), first, "{subject} after {number}");
            }
        }
    }
}
