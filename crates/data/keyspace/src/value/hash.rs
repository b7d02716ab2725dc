//! Hashes: fields with values.

use std::borrow::Cow;

use crate::{
    Bytes,
    elements::Elements,
    hash_index::{self, HashIndex, Hashed},
    random::Random,
};

use super::{
    Form, Ledger, Named, Portions,
    ledger::{self, Native, State},
    packed::{self, Packed},
};

/// A field with its value.
#[derive(Debug, Clone)]
pub struct Field {
    /// The field's name.
    pub name: Bytes,
    /// What it holds.
    pub value: Bytes,
}

impl Hashed for Field {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Up to where a hash is small: `hash-max-listpack-entries` and `hash-max-listpack-value`.
#[derive(Debug, Clone, Copy)]
pub struct HashLimits {
    /// The most fields.
    pub fields: usize,
    /// The longest name or value.
    pub len: usize,
}

/// A field's name and value.
pub type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A small one is packed, name and value in turn, in the order of insertion; a larger one is hashed, and stays so, or only its
/// records have the fields.
#[derive(Debug, Clone)]
pub enum Hash {
    /// Few and short fields.
    Small {
        /// Names and values in turn.
        packed: Packed,
        /// What the larger one will be hashed with.
        seed: u64,
    },
    /// Many, or long ones; with a ledger if each is a record of its own.
    Large(HashIndex<Field>, Option<Box<Ledger>>),
    /// Each is a record of its own, and not in memory.
    Spread(Named),
}

impl Hash {
    /// Without fields.
    pub fn new(seed: u64) -> Self {
        Self::Small { packed: Packed::new(), seed }
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Small { packed, .. } => packed.len() / 2,
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

    /// Frees some fields of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if let Self::Large(index, _) = self { index.shed() } else { false }
    }

    /// What `OBJECT ENCODING` calls it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Small { .. } => "listpack",
            Self::Large(..) | Self::Spread(_) => "hashtable",
        }
    }

    /// Whether it has more fields than are kept whole.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        match self {
            Self::Small { packed, .. } => packed.len() / 2 > whole_max,
            Self::Large(index, None) => index.len() > whole_max,
            Self::Large(_, Some(_)) | Self::Spread(_) => false,
        }
    }

    /// Has all fields become records of their own, as checkpoints take them.
    pub(super) fn keep(&mut self, elements: Elements) {
        self.enlarge();
        if let Self::Large(index, ledger) = self {
            *ledger = ledger::of_new_index(index, elements);
        }
    }

    /// That of fields that have records.
    pub(super) fn of_index(index: HashIndex<Field>, elements: Elements) -> Self {
        let ledger = ledger::of_index(&index, elements);
        Self::Large(index, ledger)
    }

    /// Leaves the fields to their records, which have all of them. Returns what it was before.
    pub(super) fn let_go(&mut self) -> Option<Self> {
        let Self::Large(index, ledger) = self else { return None };
        let named = ledger::leave_index(index, ledger)?;
        Some(std::mem::replace(self, Self::Spread(named)))
    }

    /// What a field holds.
    pub fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Small { packed, .. } => packed.at(packed.after(packed.find(name, 2)?)?).map(Cow::Borrowed),
            Self::Large(index, _) => index.get(name).map(|field| Cow::Borrowed(field.value.as_slice())),
            Self::Spread(named) => named.get(name).map(|value| Cow::Owned(value.into_vec())),
        }
    }

    /// Whether it has a field.
    pub fn contains(&self, name: &[u8]) -> bool {
        match self {
            Self::Small { packed, .. } => packed.find(name, 2).is_some(),
            Self::Large(index, _) => index.get(name).is_some(),
            Self::Spread(named) => named.contains(name),
        }
    }

    /// Gives a field a value. Returns whether the field is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], limits: HashLimits) -> bool {
        if name.len().max(value.len()) > limits.len {
            self.enlarge();
        }
        match self {
            Self::Small { packed, .. } => {
                if let Some(at) = packed.find(name, 2).and_then(|at| packed.after(at)) {
                    packed.replace(at, value);
                    return false;
                }
                packed.push_back(name);
                packed.push_back(value);
                if packed.len() / 2 > limits.fields {
                    self.enlarge();
                }
                true
            }
            Self::Large(index, ledger) => {
                let hash = index.hash(name);
                match index.get_mut_hashed(hash, name) {
                    Some(field) => {
                        if let Some(ledger) = ledger {
                            ledger.note(hash, name, State::Value(&field.value));
                        }
                        field.value = Bytes::from_slice(value);
                        false
                    }
                    None => {
                        if let Some(ledger) = ledger {
                            ledger.note(hash, name, State::Absent);
                        }
                        let field = Field { name: Bytes::from_slice(name), value: Bytes::from_slice(value) };
                        index.insert_new(hash, field);
                        true
                    }
                }
            }
            Self::Spread(named) => named.insert(name, value).is_none(),
        }
    }

    /// Removes a field. Returns whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match self {
            Self::Small { packed, .. } => {
                let Some(at) = packed.find(name, 2) else { return false };
                packed.remove(at);
                packed.remove(at);
                true
            }
            Self::Large(index, ledger) => {
                let hash = index.hash(name);
                if let Some(ledger) = ledger
                    && let Some(field) = index.get_hashed(hash, name)
                {
                    ledger.note(hash, name, State::Value(&field.value));
                }
                index.remove_hashed(hash, name).is_some()
            }
            Self::Spread(named) => named.remove(name).is_some(),
        }
    }

    /// Makes a small one a large one.
    fn enlarge(&mut self) {
        let Self::Small { packed, seed } = self else { return };
        let mut index = HashIndex::new(*seed);
        let mut strings = packed.iter();
        while let (Some(name), Some(value)) = (strings.next(), strings.next()) {
            let field = Field { name: Bytes::from_slice(name), value: Bytes::from_slice(value) };
            index.insert_new(index.hash(name), field);
        }
        *self = Self::Large(index, None);
    }

    /// All fields in portions, if they are records.
    pub fn portions(&self, form: Form) -> Option<Portions> {
        if let Self::Spread(named) = self { Some(named.portions(form)) } else { None }
    }

    /// Calls with all fields and their values.
    pub fn each(&self, mut each: impl FnMut(&[u8], &[u8])) {
        match self {
            Self::Small { packed, .. } => pairs(packed).for_each(|(name, value)| each(name, value)),
            Self::Large(index, _) => index.iter().for_each(|field| each(&field.name, &field.value)),
            Self::Spread(named) => named.each_while(|name, value| {
                each(name, value);
                true
            }),
        }
    }

    /// All fields with their values.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let borrowed = |name, value| (Cow::Borrowed(name), Cow::Borrowed(value));
        match self {
            Self::Small { packed, .. } => pairs(packed).map(|(name, value)| borrowed(name, value)).collect(),
            Self::Large(index, _) => index.iter().map(|field| borrowed(&field.name, &field.value)).collect(),
            Self::Spread(_) => {
                let mut all = Vec::new();
                self.each(|name, value| all.push((Cow::Owned(name.to_vec()), Cow::Owned(value.to_vec()))));
                all
            }
        }
    }

    /// Gives about `count` fields from a cursor on; returns where to go on, 0 at the end. A small one is given whole.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], &[u8])) -> u64 {
        match self {
            Self::Small { packed, .. } => {
                pairs(packed).for_each(|(name, value)| each(name, value));
                0
            }
            Self::Large(index, _) => index.scan(cursor, count, |field| each(&field.name, &field.value)).unwrap_or(0),
            Self::Spread(named) => named.scan(cursor, count, each).unwrap_or(0),
        }
    }

    /// The same for who has to meet each field once: the hash may leave memory between two calls, and be small when it comes back.
    pub fn scan_once(&self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], &[u8])) -> u64 {
        match self {
            Self::Small { packed, seed } if cursor > 0 => {
                let ahead = |(name, _): &(&[u8], &[u8])| hash_index::is_ahead(name, *seed, cursor);
                pairs(packed).filter(ahead).for_each(|(name, value)| each(name, value));
                0
            }
            _ => self.scan(cursor, count, each),
        }
    }

    /// Some field with its value, each about as likely.
    pub fn random(&self, random: &mut Random) -> Option<Pair<'_>> {
        match self {
            Self::Small { packed, .. } => {
                let number = random.below(self.len().max(1) as u64) as usize;
                let at = packed.place(number * 2);
                Some((Cow::Borrowed(packed.at(at)?), Cow::Borrowed(packed.at(packed.after(at)?)?)))
            }
            Self::Large(index, _) => {
                let field = index.random(random.draw())?;
                Some((Cow::Borrowed(&field.name), Cow::Borrowed(&field.value)))
            }
            Self::Spread(named) => {
                let (name, value) = named.random(random)?;
                Some((Cow::Owned(name.into_vec()), Cow::Owned(value.into_vec())))
            }
        }
    }
}

impl Native for HashIndex<Field> {
    fn state(&self, hash: u64, name: &[u8]) -> State<'_> {
        self.get_hashed(hash, name).map_or(State::Absent, |field| State::Value(&field.value))
    }

    fn walk(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], State<'_>)) -> Option<u64> {
        self.scan(cursor, count, |field| each(&field.name, State::Value(&field.value)))
    }
}

fn pairs(packed: &Packed) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut strings: packed::Iter<'_> = packed.iter();
    std::iter::from_fn(move || Some((strings.next()?, strings.next()?)))
}
