//! The words of a command that goes on over turns, where they came.
//!
//! A command of very many words, or of long ones, is not copied for that: it takes the whole query over, and with it what the parser
//! knows of its words.

use std::{ops::Range, rc::Rc};

use keyspace::{Bytes, received_query::ReceivedQuery};

/// The words of a command that goes on over turns.
#[derive(Debug)]
pub(super) struct TaskWords {
    /// The first one: it may have had another name.
    name: Bytes,
    sent: Rc<ReceivedQuery>,
}

impl TaskWords {
    /// These; `sent` has them if they came as they are.
    pub(super) fn new(words: &[&[u8]], sent: Option<Rc<ReceivedQuery>>) -> Self {
        let name = Bytes::from_slice(words.first().copied().unwrap_or_default());
        Self { name, sent: sent.unwrap_or_else(|| Rc::new(ReceivedQuery::copied(words))) }
    }

    /// Where they are.
    pub(super) fn sent(&self) -> &Rc<ReceivedQuery> {
        &self.sent
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sent.word_count()
    }

    /// So many from the first on, and those of some places.
    pub(super) fn some(&self, head: usize, part: Range<usize>) -> Vec<&[u8]> {
        let mut words = Vec::with_capacity(head.min(self.len()) + part.len().min(self.len()));
        words.extend(self.sent.words(0..head));
        if let Some(name) = words.first_mut() {
            *name = &self.name;
        }
        words.extend(self.sent.words(part));
        words
    }

    /// All.
    pub(super) fn all(&self) -> Vec<&[u8]> {
        self.some(usize::MAX, 0..0)
    }

    /// One in so many, of those of some places.
    pub(super) fn each(&self, places: Range<usize>, apart: usize) -> impl Iterator<Item = &[u8]> {
        self.sent.words(places).step_by(apart.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_where_they_came() {
        let text = b"PING\r\n*3\r\n$3\r\nfoo\r\n$1\r\nx\r\n$0\r\n\r\nGET y\r\n";
        for is_taken in [false, true] {
            let sent = Rc::new(ReceivedQuery::new(text.to_vec(), 6, vec![8..11, 17..18, 24..24]));
            let words = TaskWords::new(&[b"MGET", b"x", b""], Some(Rc::clone(&sent)));
            assert_eq!(words.len(), 3);
            assert_eq!(words.all(), [b"MGET".as_slice(), b"x", b""], "it has its own name");
            assert_eq!(words.some(1, 2..9), [b"MGET".as_slice(), b""]);
            assert_eq!(words.some(0, 1..2), [b"x".as_slice()]);
            assert_eq!(words.each(0..9, 2).collect::<Vec<_>>(), [b"foo".as_slice(), b""]);
            if !is_taken {
                drop(words);
                assert_eq!(ReceivedQuery::give_back(sent, 32), (text.to_vec(), 32));
            } else {
                assert_eq!(ReceivedQuery::give_back(sent, 32), (b"GET y\r\n".to_vec(), 0));
            }
        }
        let words = TaskWords::new(&[b"MGET", b"one", b"", b"two"], None);
        assert_eq!(words.all(), [b"MGET".as_slice(), b"one", b"", b"two"]);
    }
}
