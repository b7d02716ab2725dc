//! What tells pauses of commands from each other at a store: each is ended by its own number alone, and whoever relies on one sees whether
//! it is that very one that is on. Numbers of different leaders are different, so what one of before has sent late harms nobody.

/// What commands wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A range of slots that is handed over; the number grows.
    Move(u64),
    /// A master that gives its place away, asked for at a time.
    HandOver(u64),
    /// A moment of all groups, begun at a time.
    Cut(u64),
}

/// Of a pause's number: the bits of what it is for, and of which of these it is.
const KIND_BITS: u32 = 2;
const ONE_BITS: u32 = 32;
/// All of it is one of Redis' integers, which have a sign.
const TERM_BITS: u32 = 63 - KIND_BITS - ONE_BITS;

impl Pause {
    /// The number of a leader of a term.
    #[must_use]
    pub fn number(self, term: u64) -> u64 {
        let (kind, one) = match self {
            Self::Move(one) => (0, one),
            Self::HandOver(one) => (1, one),
            Self::Cut(one) => (2, one),
        };
        let bits = |value: u64, count: u32| value & ((1 << count) - 1);
        (bits(term, TERM_BITS) << (ONE_BITS + KIND_BITS)) | (bits(one, ONE_BITS) << KIND_BITS) | kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        let all = [Pause::Move(1), Pause::Move(2), Pause::HandOver(1), Pause::Cut(1)];
        let mut numbers: Vec<u64> = all.iter().flat_map(|one| [one.number(3), one.number(4)]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
        assert!(Pause::Cut(u64::MAX).number(u64::MAX) <= i64::MAX as u64);
    }
}
