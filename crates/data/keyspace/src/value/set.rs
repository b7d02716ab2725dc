//! Sets.

use std::borrow::Cow;

use crate::{
    Bytes,
    elements::Elements,
    hash_index::{self, HashIndex, Hashed},
    number,
    random::Random,
};

use super::{
    Form, Ledger, Named, Portions,
    ledger::{self, Native, State},
    packed::Packed,
};

impl Hashed for Bytes {
    fn name(&self) -> &[u8] {
        self
    }
}

/// A set of strings, of which Redis would hash all, is packed up to so many members here.
const PACKED_LEN_MAX: usize = 32;
/// And up to this length of a member.
const PACKED_MEMBER_LEN_MAX: usize = 64;

/// A set becomes what is further down when it must, and never goes back.
#[derive(Debug, Clone)]
pub enum Set {
    /// Integers only, sorted, up to `set-max-intset-entries`.
    Integers {
        /// The members.
        members: Vec<i64>,
        /// What a larger one will be hashed with.
        seed: u64,
    },
    /// Few and short members.
    Packed {
        /// The members in the order of insertion.
        packed: Packed,
        /// What a larger one will be hashed with.
        seed: u64,
    },
    /// Many members; with a ledger if each is a record of its own.
    Large(HashIndex<Bytes>, Option<Box<Ledger>>),
    /// Each is a record of its own, and not in memory.
    Spread(Named),
}

/// A member: text, or the number that it is the text of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member<'a> {
    /// A number.
    Integer(i64),
    /// A text.
    Text(&'a [u8]),
}

impl<'a> Member<'a> {
    /// Its text.
    pub fn text(self) -> Cow<'a, [u8]> {
        match self {
            Self::Integer(number) => Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }

    /// Its text as a string of its own.
    pub fn bytes(self) -> Bytes {
        match self {
            Self::Integer(number) => number::integer_bytes(number),
            Self::Text(text) => Bytes::from_slice(text),
        }
    }

    /// Writes it as a string.
    pub fn reply(self, reply: &mut resp::Reply<'_>) {
        match self {
            Self::Integer(number) => reply.bulk_integer(number),
            Self::Text(text) => reply.bulk(text),
        }
    }
}

impl Set {
    /// Without members.
    pub fn new(seed: u64) -> Self {
        Self::Integers { members: Vec::new(), seed }
    }

    /// How many members it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers { members, .. } => members.len(),
            Self::Packed { packed, .. } => packed.len(),
            Self::Large(index, _) => index.len(),
            Self::Spread(named) => named.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Large(index, _) if index.is_large())
    }

    /// Frees some members of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if let Self::Large(index, _) = self { index.shed() } else { false }
    }

    /// What `OBJECT ENCODING` calls it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Integers { .. } => "intset",
            Self::Packed { .. } | Self::Large(..) | Self::Spread(_) => "hashtable",
        }
    }

    /// Whether it has more members than are kept whole.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        !matches!(self, Self::Large(_, Some(_)) | Self::Spread(_)) && self.len() > whole_max
    }

    /// Has all members become records of their own, as checkpoints take them.
    pub(super) fn keep(&mut self, elements: Elements) {
        if !matches!(self, Self::Large(..)) {
            self.enlarge();
        }
        if let Self::Large(index, ledger) = self {
            *ledger = ledger::of_new_index(index, elements);
        }
    }

    /// That of members that have records.
    pub(super) fn of_index(index: HashIndex<Bytes>, elements: Elements) -> Self {
        let ledger = ledger::of_index(&index, elements);
        Self::Large(index, ledger)
    }

    /// Leaves the members to their records, which have all of them. Returns what it was before.
    pub(super) fn let_go(&mut self) -> Option<Self> {
        let Self::Large(index, ledger) = self else { return None };
        let named = ledger::leave_index(index, ledger)?;
        Some(std::mem::replace(self, Self::Spread(named)))
    }

    /// Whether it has a member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match self {
            Self::Integers { members, .. } => {
                number::parse_integer(member).is_some_and(|number| members.binary_search(&number).is_ok())
            }
            Self::Packed { packed, .. } => packed.find(member, 1).is_some(),
            Self::Large(index, _) => index.get(member).is_some(),
            Self::Spread(named) => named.contains(member),
        }
    }

    /// The same for a member of another set.
    pub fn contains_member(&self, member: Member<'_>) -> bool {
        match (self, member) {
            (Self::Integers { members, .. }, Member::Integer(number)) => members.binary_search(&number).is_ok(),
            (_, Member::Integer(number)) => self.contains(itoa::Buffer::new().format(number).as_bytes()),
            (_, Member::Text(text)) => self.contains(text),
        }
    }

    /// Adds a member. Returns whether it is new.
    pub fn add(&mut self, member: &[u8], integers_max: usize) -> bool {
        match self {
            Self::Integers { members, .. } => {
                if let Some(number) = number::parse_integer(member) {
                    return self.add_integer(number, integers_max);
                }
                if members.len() < PACKED_LEN_MAX && member.len() <= PACKED_MEMBER_LEN_MAX {
                    self.pack();
                } else {
                    self.enlarge();
                }
                self.add(member, integers_max)
            }
            Self::Packed { packed, .. } => {
                if packed.find(member, 1).is_some() {
                    return false;
                }
                if packed.len() < PACKED_LEN_MAX && member.len() <= PACKED_MEMBER_LEN_MAX {
                    packed.push_back(member);
                    return true;
                }
                self.enlarge();
                self.add(member, integers_max)
            }
            Self::Large(index, ledger) => {
                let hash = index.hash(member);
                let new = index.get_hashed(hash, member).is_none();
                if new {
                    if let Some(ledger) = ledger {
                        ledger.note(hash, member, State::Absent);
                    }
                    index.insert_new(hash, Bytes::from_slice(member));
                }
                new
            }
            Self::Spread(named) => named.insert(member, b"").is_none(),
        }
    }

    /// The same for a member of another set.
    pub fn add_member(&mut self, member: Member<'_>, integers_max: usize) -> bool {
        match member {
            Member::Integer(number) => self.add_integer(number, integers_max),
            Member::Text(text) => self.add(text, integers_max),
        }
    }

    fn add_integer(&mut self, number: i64, integers_max: usize) -> bool {
        let Self::Integers { members, .. } = self else {
            return self.add(itoa::Buffer::new().format(number).as_bytes(), integers_max);
        };
        // Most sets of integers are filled in order.
        let place = match members.last() {
            Some(last) if *last < number => members.len(),
            _ => match members.binary_search(&number) {
                Ok(_) => return false,
                Err(place) => place,
            },
        };
        members.insert(place, number);
        if members.len() > integers_max {
            self.enlarge();
        }
        true
    }

    /// Removes a member. Returns whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Integers { members, .. } => {
                let found = number::parse_integer(member).and_then(|number| members.binary_search(&number).ok());
                found.map(|place| members.remove(place)).is_some()
            }
            Self::Packed { packed, .. } => {
                let found = packed.find(member, 1);
                found.map(|at| packed.remove(at)).is_some()
            }
            Self::Large(index, ledger) => {
                let hash = index.hash(member);
                let removed = index.remove_hashed(hash, member).is_some();
                if let Some(ledger) = ledger.as_mut().filter(|_| removed) {
                    ledger.note(hash, member, State::Value(b""));
                }
                removed
            }
            Self::Spread(named) => named.remove(member).is_some(),
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Self::Integers { seed, .. } | Self::Packed { seed, .. } => *seed,
            Self::Large(index, _) => index.seed(),
            Self::Spread(_) => 0,
        }
    }

    fn pack(&mut self) {
        let mut packed = Packed::new();
        self.each(|member| packed.push_back(&member.text()));
        *self = Self::Packed { packed, seed: self.seed() };
    }

    fn enlarge(&mut self) {
        let mut index = HashIndex::new(self.seed());
        self.each(|member| {
            let member = member.bytes();
            index.insert_new(index.hash(&member), member);
        });
        *self = Self::Large(index, None);
    }

    /// All members in portions, if they are records.
    pub fn portions(&self) -> Option<Portions> {
        if let Self::Spread(named) = self { Some(named.portions(Form::Names)) } else { None }
    }

    /// Calls with all members.
    pub fn each(&self, mut each: impl FnMut(Member<'_>)) {
        self.each_while(|member| {
            each(member);
            true
        });
    }

    /// Calls with members until that says no.
    pub fn each_while(&self, mut each: impl FnMut(Member<'_>) -> bool) {
        let _ = match self {
            Self::Integers { members, .. } => members.iter().all(|number| each(Member::Integer(*number))),
            Self::Packed { packed, .. } => packed.iter().all(|member| each(Member::Text(member))),
            Self::Large(index, _) => index.iter().all(|member| each(Member::Text(member))),
            Self::Spread(named) => {
                named.each_while(|name, _| each(Member::Text(name)));
                true
            }
        };
    }

    /// All members, for those who choose from them.
    pub fn members(&self) -> Vec<Bytes> {
        let mut members = Vec::with_capacity(self.len());
        self.each(|member| members.push(member.bytes()));
        members
    }

    /// Gives about `count` members from a cursor on; returns where to go on, 0 at the end. A small one is given whole.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(Member<'_>)) -> u64 {
        match self {
            Self::Large(index, _) => index.scan(cursor, count, |member| each(Member::Text(member))).unwrap_or(0),
            Self::Spread(named) => named.scan(cursor, count, |name, _| each(Member::Text(name))).unwrap_or(0),
            _ => {
                self.each(each);
                0
            }
        }
    }

    /// The same for who has to meet each member once: the set may leave memory between two calls, and be small when it comes back.
    pub fn scan_once(&self, cursor: u64, count: usize, mut each: impl FnMut(Member<'_>)) -> u64 {
        match self {
            Self::Integers { seed, .. } | Self::Packed { seed, .. } if cursor > 0 => {
                self.each(|member| {
                    if hash_index::is_ahead(&member.text(), *seed, cursor) {
                        each(member);
                    }
                });
                0
            }
            _ => self.scan(cursor, count, each),
        }
    }

    /// Some member, each about as likely.
    pub fn random(&self, random: &mut Random) -> Option<Bytes> {
        match self {
            Self::Integers { members, .. } => {
                let number = members.get(random.below(members.len().max(1) as u64) as usize)?;
                Some(Member::Integer(*number).bytes())
            }
            Self::Packed { packed, .. } => {
                packed.get(random.below(packed.len().max(1) as u64) as usize).map(Bytes::from_slice)
            }
            Self::Large(index, _) => index.random(random.draw()).cloned(),
            Self::Spread(named) => named.random(random).map(|(name, _)| name),
        }
    }
}

impl Native for HashIndex<Bytes> {
    fn state(&self, hash: u64, name: &[u8]) -> State<'_> {
        if self.get_hashed(hash, name).is_some() { State::Value(b"") } else { State::Absent }
    }

    fn walk(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], State<'_>)) -> Option<u64> {
        self.scan(cursor, count, |member| each(member, State::Value(b"")))
    }
}
