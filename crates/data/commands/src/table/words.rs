//! What words of a command are besides keys.

/// Finds places among a command's words.
pub type WordPlaces = fn(&[&[u8]], &mut Vec<usize>);

/// The words of a command that say which elements of its key's collection it is about. Where the disk is slow, they are read before the
/// command runs. More than the command needs does no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementWords {
    /// Names of fields or members: one word in so many, from one on.
    Names {
        /// The first of them.
        first: usize,
        /// How far apart; `usize::MAX` if there is one.
        step: usize,
    },
    /// Ids of entries of a stream.
    Entries {
        /// The first of them.
        first: usize,
        /// The entries themselves are read.
        are_read: bool,
        /// What is pending of them is read in the group that the second word names.
        are_pending: bool,
    },
    /// The entries of a stream from the id on that is the second word.
    Range {
        /// Those before it.
        backwards: bool,
    },
    /// The entries of each stream behind an id; the ids stand behind the keys, behind the word `STREAMS`.
    Streams,
}

impl ElementWords {
    /// Names from a word on, one word in so many.
    pub const fn names(first: usize, step: usize) -> Self {
        Self::Names { first, step }
    }

    /// One name.
    pub const fn name(place: usize) -> Self {
        Self::Names { first: place, step: usize::MAX }
    }
}

/// The words of a command that are channels, from the first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelWords {
    /// How many of them at most.
    pub at_most: usize,
    /// They are patterns of channels.
    pub are_patterns: bool,
}

impl ChannelWords {
    /// One channel.
    pub const ONE: Self = Self { at_most: 1, are_patterns: false };
    /// All words are channels.
    pub const ALL: Self = Self { at_most: usize::MAX, are_patterns: false };
    /// All words are patterns of channels.
    pub const PATTERNS: Self = Self { at_most: usize::MAX, are_patterns: true };
}
