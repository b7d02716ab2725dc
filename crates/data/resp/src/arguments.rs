//! A command and its arguments, where they lie.

use std::ops::Range;

/// The words of a command: a view into the buffer that it was parsed from, or, for inline commands whose quotes had to be
/// taken away, into the parser's own bytes.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    /// The pieces `ranges` of `bytes`. Where a range is not one of `bytes`, the argument is empty.
    #[must_use]
    pub fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Self {
        Self { bytes, ranges }
    }

    /// How many there are, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The one at a place; 0 is the command's name.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes;
        self.ranges.get(index).map(|range| bytes.get(range.clone()).unwrap_or_default())
    }

    /// All from the first to the last.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.ranges.iter().map(move |range| bytes.get(range.clone()).unwrap_or_default())
    }

    /// Those from a place on: none if there are not that many.
    #[inline]
    #[must_use]
    pub fn from(&self, index: usize) -> Self {
        Self { bytes: self.bytes, ranges: self.ranges.get(index..).unwrap_or_default() }
    }
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter().map(<[u8]>::escape_ascii).map(|text| text.to_string())).finish()
    }
}
