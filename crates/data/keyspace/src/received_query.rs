//! The words of a command, where they came.
//!
//! A command of very many words, or of long ones, is not copied to go on over turns: it takes the whole query over, and with it what
//! the parser knows of its words. What the log is to have of it stays there too.

use std::{ops::Range, rc::Rc};

/// A query that begins with a command's words, or has them further on.
#[derive(Debug)]
pub struct ReceivedQuery {
    bytes: Vec<u8>,
    /// Where the command begins, which is what the ranges count from.
    base: usize,
    ranges: Vec<Range<usize>>,
}

impl ReceivedQuery {
    /// A query whose command begins at a place.
    pub fn new(bytes: Vec<u8>, base: usize, ranges: Vec<Range<usize>>) -> Self {
        Self { bytes, base, ranges }
    }

    /// Copies of some words.
    pub fn copied(words: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(words.iter().map(|word| word.len()).sum());
        let ranges = words.iter().map(|word| {
            bytes.extend_from_slice(word);
            bytes.len() - word.len()..bytes.len()
        });
        let ranges = ranges.collect();
        Self { bytes, base: 0, ranges }
    }

    /// The words of some places, as far as they are there.
    pub fn words(&self, places: Range<usize>) -> impl ExactSizeIterator<Item = &[u8]> {
        let bytes = self.bytes.get(self.base..).unwrap_or_default();
        let places = places.start.min(self.ranges.len())..places.end.min(self.ranges.len());
        let ranges = self.ranges.get(places).unwrap_or_default();
        ranges.iter().map(move |range| bytes.get(range.clone()).unwrap_or_default())
    }

    /// How many words there are.
    pub fn word_count(&self) -> usize {
        self.ranges.len()
    }

    /// Where in the query a word is.
    pub fn place(&self, place: usize) -> Option<Range<usize>> {
        let range = self.ranges.get(place)?;
        Some(self.base + range.start..self.base + range.end)
    }

    /// The query, and what came with it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives the query back, of which so much has been run: what is left of it, and how much of that has been.
    pub fn give_back(sent: Rc<Self>, run: usize) -> (Vec<u8>, usize) {
        match Rc::try_unwrap(sent) {
            Ok(sent) => (sent.bytes, run),
            // The command goes on.
            Err(taken) => (taken.bytes.get(run..).unwrap_or_default().to_vec(), 0),
        }
    }
}
