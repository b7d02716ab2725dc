//! Words that are sent once: names of servers. Sender and receiver of a connection keep the last ones by number.

use std::{collections::HashMap, sync::Arc};

/// How many words a side keeps: a fact of the protocol.
pub(crate) const ENTRIES: usize = 128;

/// What was sent.
#[derive(Clone, Debug, Default)]
pub struct SendCache {
    words: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    next: usize,
}

/// How a word is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedWord {
    /// By the number that it has.
    Known(usize),
    /// With the number that it gets.
    New(usize),
}

impl SendCache {
    /// How to send a word. Numbers are counted from 1.
    pub(crate) fn send(&mut self, word: &Arc<str>) -> CachedWord {
        if let Some(place) = self.places.get(word) {
            return CachedWord::Known(place + 1);
        }
        let place = self.next;
        self.next = (place + 1) % ENTRIES;
        match self.words.get_mut(place) {
            Some(old) => {
                self.places.remove(old);
                *old = Arc::clone(word);
            }
            None => self.words.push(Arc::clone(word)),
        }
        self.places.insert(Arc::clone(word), place);
        CachedWord::New(place + 1)
    }

    /// A word was not sent after all.
    pub(crate) fn forget(&mut self, word: &Arc<str>) {
        self.places.remove(word);
    }

    /// The words, by number less one.
    pub fn words(&self) -> impl Iterator<Item = &Arc<str>> {
        self.words.iter()
    }
}

/// What was received.
#[derive(Clone, Debug, Default)]
pub struct ReceiveCache {
    words: Vec<Option<Arc<str>>>,
}

impl ReceiveCache {
    /// The word of a number; an error if there can be none.
    pub(crate) fn known(&self, number: u64) -> Option<Option<Arc<str>>> {
        let place = Self::place(number)?;
        Some(self.words.get(place).cloned().flatten())
    }

    /// Keeps a word; nothing if the number cannot be.
    pub(crate) fn learn(&mut self, number: u64, word: Arc<str>) -> Option<()> {
        let place = Self::place(number)?;
        if self.words.len() <= place {
            self.words.resize(place + 1, None);
        }
        *self.words.get_mut(place)? = Some(word);
        Some(())
    }

    fn place(number: u64) -> Option<usize> {
        usize::try_from(number).ok()?.checked_sub(1).filter(|place| *place < ENTRIES)
    }

    /// The words, by number less one.
    pub fn words(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        (0..ENTRIES).map(|place| self.words.get(place).and_then(Option::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_word_makes_room() {
        let word = |number: usize| -> Arc<str> { number.to_string().into() };
        let mut cache = SendCache::default();
        for number in 0..ENTRIES {
            assert_eq!(cache.send(&word(number)), CachedWord::New(number + 1));
        }
        assert_eq!(cache.send(&word(0)), CachedWord::Known(1));
        assert_eq!(cache.send(&word(1_000)), CachedWord::New(1));
        assert_eq!(cache.send(&word(0)), CachedWord::New(2));
        cache.forget(&word(0));
        assert_eq!(cache.send(&word(0)), CachedWord::New(3));
        assert_eq!(cache.send(&word(1_000)), CachedWord::Known(1));
    }

    #[test]
    fn numbers_that_cannot_be() {
        let mut cache = ReceiveCache::default();
        assert_eq!(cache.learn(0, "a".into()), None);
        assert_eq!(cache.learn(129, "a".into()), None);
        assert_eq!(cache.learn(128, "a".into()), Some(()));
        assert_eq!(cache.known(128), Some(Some("a".into())));
        assert_eq!(cache.known(5), Some(None));
        assert_eq!(cache.known(u64::MAX), None);
    }
}
