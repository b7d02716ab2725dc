//! The commands that took long.

use std::collections::VecDeque;

use keyspace::{Bytes, Millis};

/// Words of a command that are kept.
pub(super) const WORDS_MAX: usize = 32;
/// Bytes of a word that are kept.
const WORD_LEN_MAX: usize = 128;

/// A command that took long.
#[derive(Debug, Clone)]
pub struct SlowCommand {
    /// Its number; numbers are never given twice.
    pub id: u64,
    /// When it ran, in seconds since 1970.
    pub at: Millis,
    /// How long, in microseconds.
    pub time_us: u64,
    /// Its words, cut.
    pub words: Vec<Bytes>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: Bytes,
}

/// The last commands that took long, the latest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    commands: VecDeque<SlowCommand>,
    next: u64,
}

impl SlowLog {
    /// Keeps a command of so many words, of which the first are given.
    pub fn push<T: AsRef<[u8]>>(
        &mut self,
        (words, words_len): (&[T], usize),
        at: Millis,
        time_us: u64,
        address: &str,
        name: &Bytes,
        len_max: usize,
    ) {
        let id = self.next;
        self.next += 1;
        if len_max > 0 {
            let words = cut(words, words_len);
            self.commands.push_front(SlowCommand {
                id,
                at,
                time_us,
                words,
                address: address.to_owned(),
                name: name.clone(),
            });
        }
        self.keep(len_max);
    }

    /// Forgets the oldest ones beyond so many.
    pub fn keep(&mut self, len_max: usize) {
        self.commands.truncate(len_max);
    }

    /// What is kept, the latest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SlowCommand> {
        self.commands.iter()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.commands.clear();
    }
}

fn cut<T: AsRef<[u8]>>(words: &[T], words_len: usize) -> Vec<Bytes> {
    let kept = if words_len > WORDS_MAX { WORDS_MAX - 1 } else { words_len };
    let mut short: Vec<Bytes> = words
        .iter()
        .take(kept)
        .map(|word| match word.as_ref().split_at_checked(WORD_LEN_MAX) {
            Some((begin, rest)) if !rest.is_empty() => {
                let mut text = begin.to_vec();
                text.extend_from_slice(format!("... ({} more bytes)", rest.len()).as_bytes());
                Bytes::from_slice(&text)
            }
            _ => Bytes::from_slice(word.as_ref()),
        })
        .collect();
    if words_len > kept {
        short.push(Bytes::from_slice(format!("... ({} more arguments)", words_len - kept).as_bytes()));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_and_old_ones_forgotten() {
        let mut log = SlowLog::default();
        let many: Vec<&[u8]> = std::iter::repeat_n(b"a".as_slice(), 40).collect();
        let long = [b'x'; 200];
        log.push((&many[..32], 40), 1, 5, "address", &Bytes::new(), 2);
        log.push((&[&long], 1), 2, 6, "address", &Bytes::new(), 2);
        log.push((&["GET", "k"], 2), 3, 7, "address", &Bytes::new(), 2);
        assert_eq!(log.iter().map(|one| one.id).collect::<Vec<_>>(), [2, 1]);
        let cut = log.iter().nth(1).and_then(|one| one.words.first().cloned()).unwrap();
        assert_eq!(cut.as_slice(), [&[b'x'; 128][..], b"... (72 more bytes)"].concat());
        log.clear();
        log.push((&many[..32], 40), 1, 5, "address", &Bytes::new(), 1);
        let words: Vec<_> = log.iter().flat_map(|one| one.words.clone()).collect();
        assert_eq!((words.len(), words.last().unwrap().as_slice()), (32, b"... (9 more arguments)".as_slice()));
        assert_eq!(log.iter().next().unwrap().id, 3);
    }
}
