//! Several layers of changes above records, seen as one.

use std::iter::Peekable;

use crate::batch::{BatchRange, Change};
use crate::{Direction, Key, Result, Scan, Value};

/// The changes of one layer, in the direction of the scan.
pub(crate) enum Layer<'a> {
    /// Out of a batch.
    Borrowed(BatchRange<'a>),
    /// Copied out of batches.
    Owned(std::vec::IntoIter<(Key, Change)>),
}

impl Iterator for Layer<'_> {
    type Item = (Key, Change);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Borrowed(range) => range.next().map(|(key, change)| (key.clone(), change.clone())),
            Self::Owned(entries) => entries.next(),
        }
    }
}

/// A scan through layers, the newest first, and what lies below them.
///
/// Of several changes of a key the newest counts; a deletion hides what is below.
pub(crate) struct Merge<'a> {
    layers: Vec<Peekable<Layer<'a>>>,
    below: Option<Peekable<Scan>>,
    direction: Direction,
    failed: bool,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(layers: impl Iterator<Item = Layer<'a>>, below: Option<Scan>, direction: Direction) -> Self {
        Self {
            layers: layers.map(Iterator::peekable).collect(),
            below: below.map(Iterator::peekable),
            direction,
            failed: false,
        }
    }

    /// The next change of all layers, deletions among them.
    pub(crate) fn next_change(&mut self) -> Option<Result<(Key, Change)>> {
        if self.failed {
            return None;
        }
        if let Some(Err(_)) = self.below.as_mut().and_then(Peekable::peek) {
            self.failed = true;
            return self
                .below
                .as_mut()
                .and_then(Iterator::next)
                .map(|error| error.map(|(key, value)| (key, Some(value))));
        }
        let below =
            self.below.as_mut().and_then(Peekable::peek).and_then(|pair| pair.as_ref().ok()).map(|(key, _)| key);
        let mut first: Option<Key> = None;
        let heads = self.layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| key)).chain(below);
        for key in heads {
            let is_before = first.as_ref().is_none_or(|first| match self.direction {
                Direction::Forward => key < first,
                Direction::Backward => key > first,
            });
            if is_before {
                first = Some(key.clone());
            }
        }
        let first = first?;
        // Every layer moves on from this key; the first that has it is the newest.
        let mut newest: Option<Change> = None;
        for layer in &mut self.layers {
            if let Some((_, change)) = layer.next_if(|(key, _)| *key == first) {
                newest.get_or_insert(change);
            }
        }
        let is_first = |pair: &Result<(Key, Value)>| pair.as_ref().is_ok_and(|(key, _)| *key == first);
        if let Some(Ok((_, value))) = self.below.as_mut().and_then(|below| below.next_if(is_first)) {
            newest.get_or_insert(Some(value));
        }
        newest.map(|change| Ok((first, change)))
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Key, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_change()? {
                Ok((key, Some(value))) => return Some(Ok((key, value))),
                Ok((_, None)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
