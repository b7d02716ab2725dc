//! Words that entries share, as the names of servers: each is kept once, as long as an entry has it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The number that stands for no word.
pub(crate) const NO_WORD: u32 = 0;

/// Most words of a table: what peers send is theirs to choose.
const WORDS_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct Words {
    /// By number less one; a place without a word is free.
    places: Vec<Option<(Arc<str>, u32)>>,
    free: Vec<u32>,
    numbers: HashMap<Arc<str>, u32>,
}

/// The words of a table. Its lock is taken under that of a shard, never the other way round.
#[derive(Debug, Default)]
pub(crate) struct Dictionary(Mutex<Words>);

impl Dictionary {
    fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a word, used once more; none when there is no room for another word.
    pub(crate) fn acquire(&self, word: &str) -> Option<u32> {
        let mut words = self.words();
        if let Some(number) = words.numbers.get(word).copied() {
            if let Some(Some((_, uses))) = words.places.get_mut(number as usize - 1) {
                *uses += 1;
            }
            return Some(number);
        }
        let word: Arc<str> = word.into();
        let place = Some((Arc::clone(&word), 1));
        let number = match words.free.pop() {
            Some(number) => {
                if let Some(free) = words.places.get_mut(number as usize - 1) {
                    *free = place;
                }
                number
            }
            None if words.places.len() >= WORDS_MAX => return None,
            None => {
                words.places.push(place);
                u32::try_from(words.places.len()).ok()?
            }
        };
        words.numbers.insert(word, number);
        Some(number)
    }

    /// A word is used once less.
    pub(crate) fn release(&self, number: u32) {
        if number == NO_WORD {
            return;
        }
        let mut words = self.words();
        let Some(place) = words.places.get_mut(number as usize - 1) else { return };
        if let Some((_, uses)) = place
            && *uses > 1
        {
            *uses -= 1;
        } else if let Some((word, _)) = place.take() {
            words.numbers.remove(&word);
            words.free.push(number);
        }
    }

    /// The word of a number.
    pub(crate) fn word(&self, number: u32) -> Option<Arc<str>> {
        let place = number.checked_sub(1)? as usize;
        self.words().places.get(place)?.as_ref().map(|(word, _)| Arc::clone(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_live_as_long_as_they_are_used() {
        let words = Dictionary::default();
        let (a, b) = (words.acquire("a").unwrap(), words.acquire("b").unwrap());
        assert_eq!(words.acquire("a"), Some(a));
        assert_eq!(words.word(a).as_deref(), Some("a"));
        words.release(a);
        assert_eq!(words.word(a).as_deref(), Some("a"));
        words.release(a);
        assert_eq!(words.word(a), None);
        assert_eq!(words.acquire("c"), Some(a));
        assert_eq!(words.word(b).as_deref(), Some("b"));
        assert_eq!(words.word(NO_WORD), None);
        words.release(NO_WORD);
    }

    #[test]
    fn there_are_not_too_many() {
        let words = Dictionary::default();
        for number in 0..WORDS_MAX {
            assert!(words.acquire(&number.to_string()).is_some());
        }
        assert_eq!(words.acquire("one more"), None);
        assert!(words.acquire("7").is_some());
    }
}
