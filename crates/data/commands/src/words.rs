//! The words of a command.

use keyspace::Failure;

/// The words of a command. Those that are not there read as empty: a command's arity has been checked before it runs.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(pub &'a [&'a [u8]]);

impl<'a> Words<'a> {
    /// How many there are, the name included.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// One word; 0 is the command's name.
    pub fn at(self, index: usize) -> &'a [u8] {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// One word, if it is there.
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.0.get(index).copied()
    }

    /// The words from one on.
    pub fn from(self, index: usize) -> &'a [&'a [u8]] {
        self.0.get(index..).unwrap_or_default()
    }

    /// Whether a word is an option of this name, in any case.
    pub fn is(self, index: usize, name: &str) -> bool {
        self.0.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// A word as an integer.
    pub fn integer(self, index: usize) -> Result<i64, Failure> {
        keyspace::number::integer(self.at(index))
    }
}
