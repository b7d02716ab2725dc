//! Hashes: fields with values.

use std::borrow::Cow;

use crate::{
    Bytes,
    hash_index::{HashIndex, Hashed},
    keyspace::Elements,
    random::Random,
};

use super::{
    Form, Named, Portions,
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

/// A small one is packed, name and value in turn, in the order of insertion; a larger one is hashed, and stays so, or is spread
/// over the tables.
#[derive(Debug, Clone)]
pub enum Hash {
    /// Few and short fields.
    Small {
        /// Names and values in turn.
        packed: Packed,
        /// What the larger one will be hashed with.
        seed: u64,
    },
    /// Many, or long ones.
    Large(HashIndex<Field>),
    /// So many that each is a record of its own.
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
            Self::Large(index) => index.len(),
            Self::Spread(named) => named.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Large(index) if index.is_large())
    }

    /// Frees some fields of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        if let Self::Large(index) = self { index.shed() } else { false }
    }

    /// What `OBJECT ENCODING` calls it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Small { .. } => "listpack",
            Self::Large(_) | Self::Spread(_) => "hashtable",
        }
    }

    /// Whether it has more fields than are kept whole.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        match self {
            Self::Small { packed, .. } => packed.len() / 2 > whole_max,
            Self::Large(index) => index.len() > whole_max,
            Self::Spread(_) => false,
        }
    }

    /// Makes all fields records of their own. Returns what it was before.
    pub(super) fn spread(&mut self, elements: Elements, seed: u64) -> Self {
        let mut named = Named::new(elements, 0, seed);
        // In the order of the records, which makes putting them quicker.
        self.scan(0, usize::MAX, |name, value| named.insert_new(name, value));
        std::mem::replace(self, Self::Spread(named))
    }

    /// What a field holds.
    pub fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Small { packed, .. } => packed.at(packed.after(packed.find(name, 2)?)?).map(Cow::Borrowed),
            Self::Large(index) => index.get(name).map(|field| Cow::Borrowed(field.value.as_slice())),
            Self::Spread(named) => named.get(name).map(|value| Cow::Owned(value.into_vec())),
        }
    }

    /// Whether it has a field.
    pub fn contains(&self, name: &[u8]) -> bool {
        match self {
            Self::Small { packed, .. } => packed.find(name, 2).is_some(),
            Self::Large(index) => index.get(name).is_some(),
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
            Self::Large(index) => {
                let hash = index.hash(name);
                match index.get_mut_hashed(hash, name) {
                    Some(field) => {
                        field.value = Bytes::from_slice(value);
                        false
                    }
                    None => {
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
            Self::Large(index) => index.remove(name).is_some(),
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
        *self = Self::Large(index);
    }

    /// All fields in portions, if they are records.
    pub fn portions(&self, form: Form) -> Option<Portions> {
        if let Self::Spread(named) = self { Some(named.portions(form)) } else { None }
    }

    /// Calls with all fields and their values.
    pub fn each(&self, mut each: impl FnMut(&[u8], &[u8])) {
        match self {
            Self::Small { packed, .. } => pairs(packed).for_each(|(name, value)| each(name, value)),
            Self::Large(index) => index.iter().for_each(|field| each(&field.name, &field.value)),
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
            Self::Large(index) => index.iter().map(|field| borrowed(&field.name, &field.value)).collect(),
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
            Self::Large(index) => index.scan(cursor, count, |field| each(&field.name, &field.value)).unwrap_or(0),
            Self::Spread(named) => named.scan(cursor, count, each).unwrap_or(0),
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
            Self::Large(index) => {
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

fn pairs(packed: &Packed) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut strings: packed::Iter<'_> = packed.iter();
    std::iter::from_fn(move || Some((strings.next()?, strings.next()?)))
}
