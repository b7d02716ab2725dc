//! Which words of a command are keys, and what it does with them.

use bitflags::bitflags;

bitflags! {
    /// What a command does with a key, in Redis' names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Access: u16 {
        /// Reads the value.
        const RO = 1;
        /// Reads and changes it.
        const RW = 1 << 1;
        /// Overwrites it.
        const OW = 1 << 2;
        /// Removes it.
        const RM = 1 << 3;
        /// The value is given to the user or copied.
        const ACCESS = 1 << 4;
        /// The value is changed in a way that depends on what it was.
        const UPDATE = 1 << 5;
        /// Something is added to it.
        const INSERT = 1 << 6;
        /// Something is removed from it.
        const DELETE = 1 << 7;
        /// It names no key, but belongs to a slot (sharded channels).
        const NOT_KEY = 1 << 8;
        /// Not all keys may be found by this rule.
        const INCOMPLETE = 1 << 9;
        /// What is done depends on other arguments.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// Says by a command's words what it does with a key.
pub type AccessRule = fn(&[&[u8]]) -> Access;

/// Where keys begin.
#[derive(Debug, Clone, Copy)]
pub enum Begin {
    /// At an argument; the command's name is 0.
    Index(usize),
    /// Behind a word that is searched from an argument on, backwards if that is negative.
    Keyword(&'static str, isize),
    /// Nowhere that a rule could tell.
    Unknown,
}

/// Which arguments are keys from there on.
#[derive(Debug, Clone, Copy)]
pub enum Find {
    /// Up to the `last` one behind the first (negative: from the end), each `step`; with a `limit` only the first of as many
    /// equal parts.
    Range {
        /// The last one, relative to the first.
        last: isize,
        /// How far apart.
        step: usize,
        /// 0 or 1: all; 2: half of them, and so on.
        limit: usize,
    },
    /// As many as a number says.
    Count {
        /// Where the number is, relative to the beginning.
        number: usize,
        /// Where the first key is, relative to the beginning.
        first: usize,
        /// How far apart.
        step: usize,
    },
    /// Nobody can tell.
    Unknown,
}

/// A rule that says which arguments are keys.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    /// Where they begin.
    pub begin: Begin,
    /// Which they are.
    pub find: Find,
    /// What is done with them.
    pub access: Access,
}

impl KeySpec {
    /// One key at an argument.
    pub const fn one(index: usize, access: Access) -> Self {
        Self::range(index, 0, 1, access)
    }

    /// Keys from an argument up to another, relative to the first (negative: from the end).
    pub const fn range(index: usize, last: isize, step: usize, access: Access) -> Self {
        Self { begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 }, access }
    }

    /// As many keys as the argument says; they follow it.
    pub const fn counted(index: usize, access: Access) -> Self {
        Self { begin: Begin::Index(index), find: Find::Count { number: 0, first: 1, step: 1 }, access }
    }

    /// The places of the keys among the arguments. Nothing if the arguments do not fit.
    pub fn places(&self, arguments: &[&[u8]], places: &mut Vec<usize>) {
        let len = arguments.len();
        let start = match self.begin {
            Begin::Index(index) => index,
            Begin::Keyword(word, from) => {
                let is = |place: &usize| {
                    arguments.get(*place).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
                };
                let found = if from < 0 {
                    (1..len.saturating_sub(from.unsigned_abs()).saturating_add(1).min(len)).rev().find(is)
                } else {
                    (from.unsigned_abs()..len).find(is)
                };
                match found {
                    Some(place) => place + 1,
                    None => return,
                }
            }
            Begin::Unknown => return,
        };
        if start >= len {
            return;
        }
        match self.find {
            Find::Range { last, step, limit } => {
                let end = if last >= 0 {
                    start + last.unsigned_abs()
                } else if limit <= 1 {
                    match len.checked_sub(last.unsigned_abs()) {
                        Some(end) => end,
                        None => return,
                    }
                } else {
                    start + (len - start) / limit - 1
                };
                places.extend((start..=end).step_by(step.max(1)).filter(|place| *place < len));
            }
            Find::Count { number, first, step } => {
                let count = arguments.get(start + number).and_then(|text| resp::parse_integer(text)).unwrap_or(0);
                let count = usize::try_from(count).unwrap_or(0);
                let room = len.saturating_sub(start + first).div_ceil(step.max(1));
                if count <= room {
                    places.extend((0..count).map(|index| start + first + index * step));
                }
            }
            Find::Unknown => {}
        }
    }
}
