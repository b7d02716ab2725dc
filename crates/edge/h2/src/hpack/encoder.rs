//! From fields to blocks.
//!
//! What to put into the table is the encoder's choice alone. Here a field goes there when it comes for the second time: values
//! that differ from answer to answer, as dates of files and identifiers do, would only push out what repeats. What the encoder
//! knows of its own table is a pair of small indexes that may forget: what they have forgotten is sent once more, which costs
//! some bytes and nothing else.

use h2h3::{DynamicTable, FIELD_OVERHEAD, Indexing, NewName, hash, hash_of_name, integer, write_string};

use super::{
    TABLE_SIZE_DEFAULT,
    static_table::{INDEX, STATIC},
};

/// Writes the blocks of one end of a connection, in the order in which they are sent.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    /// How many entries the table has got: their numbers are 1 to this one.
    inserted: u32,
    /// Numbers of entries, by the hash of name and value, and of the name.
    by_field: [u32; SLOTS],
    by_name: [u32; SLOTS],
    /// Of fields that have been sent once: a part of their hash.
    sent_once: [u16; SLOTS],
    /// What the next block says first: the smallest size that the table had since the last one, and the size that it has.
    resized: Option<(usize, usize)>,
}

/// Places in each of the indexes; a table of the usual size has some 60 entries at most.
const SLOTS: usize = 64;

/// The largest part of the table that one entry may take.
const ENTRY_SHARE: usize = 4;

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// One for a connection whose other end has said nothing yet about the size of its table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: DynamicTable::new(TABLE_SIZE_DEFAULT),
            inserted: 0,
            by_field: [0; SLOTS],
            by_name: [0; SLOTS],
            sent_once: [0; SLOTS],
            resized: None,
        }
    }

    /// The other end has said how large its table may get (`SETTINGS_HEADER_TABLE_SIZE`). More than the usual size is not used.
    pub fn set_table_size_max(&mut self, size: usize) {
        let size = size.min(TABLE_SIZE_DEFAULT);
        if size != self.table.size_max() || self.resized.is_some() {
            let least = self.resized.map_or(size, |(least, _)| least.min(size));
            self.resized = Some((least, size));
            self.table.set_size_max(size);
        }
    }

    /// Begins a block: to be called before its first field.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some((least, size)) = self.resized.take() {
            // What was smaller in between has emptied the other end's table too (RFC 7541 section 4.2).
            if least < size {
                integer::encode(out, 0b0010_0000, 5, least);
            }
            integer::encode(out, 0b0010_0000, 5, size);
        }
    }

    /// Writes a field. Its name is in lower case.
    pub fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], how: Indexing) {
        let by_name = hash_of_name(name);
        let static_name = INDEX.name(&STATIC, by_name, name).map(|at| at + 1);
        if how == Indexing::Never {
            return literal(out, &NEVER, static_name, name, value);
        }
        if let Some(index) = static_name.and_then(|first| static_field(first, name, value)) {
            return integer::encode(out, 0b1000_0000, 7, index);
        }
        let by_field = hash(by_name, value);
        let slot = slot(by_field);
        if let Some(place) = self.place(&self.by_field, by_field)
            && self.table.entry(place) == Some((name, value))
        {
            return integer::encode(out, 0b1000_0000, 7, STATIC.len() + 1 + place);
        }
        let named = static_name.map(|index| (index, NewName::Given(name))).or_else(|| {
            let place = self.place(&self.by_name, by_name)?;
            let is_it = self.table.entry(place).is_some_and(|(known, _)| known == name);
            is_it.then_some((STATIC.len() + 1 + place, NewName::OfEntry(place)))
        });
        let index = named.map(|(index, _)| index);
        let tag = (by_field >> 32) as u16 | 1;
        let size = name.len() + value.len() + FIELD_OVERHEAD;
        let repeats = how == Indexing::Index
            && size <= self.table.size_max() / ENTRY_SHARE
            && self.sent_once.get_mut(slot).is_some_and(|once| std::mem::replace(once, tag) == tag);
        if !repeats {
            return literal(out, &PLAIN, index, name, value);
        }
        literal(out, &KEPT, index, name, value);
        self.insert(named.map_or(NewName::Given(name), |(_, name)| name), value, by_name, by_field);
    }

    fn insert(&mut self, name: NewName<'_>, value: &[u8], by_name: u64, by_field: u64) {
        if !self.table.insert(name, value) {
            return;
        }
        let Some(inserted) = self.inserted.checked_add(1) else {
            // After four thousand million entries the numbers begin anew: what the indexes say then would be about others.
            (self.by_field, self.by_name, self.inserted) = ([0; SLOTS], [0; SLOTS], self.table.len() as u32);
            return;
        };
        self.inserted = inserted;
        for (index, hash) in [(&mut self.by_field, by_field), (&mut self.by_name, by_name)] {
            if let Some(number) = index.get_mut(slot(hash)) {
                *number = inserted;
            }
        }
    }

    /// The place in the table of the entry that an index has for a hash, if it is still there.
    fn place(&self, index: &[u32; SLOTS], hash: u64) -> Option<usize> {
        let number = index.get(slot(hash)).copied().filter(|number| *number > 0)?;
        let place = self.inserted.checked_sub(number)? as usize;
        (place < self.table.len()).then_some(place)
    }
}

/// A kind of literal (RFC 7541 section 6.2).
struct Literal {
    /// The highest bits of its first byte.
    flags: u8,
    /// How many bits are left there for the number of its name.
    prefix: u32,
    /// The other end keeps it.
    is_kept: bool,
}

const KEPT: Literal = Literal { flags: 0b0100_0000, prefix: 6, is_kept: true };
const PLAIN: Literal = Literal { flags: 0, prefix: 4, is_kept: false };
const NEVER: Literal = Literal { flags: 0b0001_0000, prefix: 4, is_kept: false };

/// Writes a literal; `index` is that of its name.
fn literal(out: &mut Vec<u8>, kind: &Literal, index: Option<usize>, name: &[u8], value: &[u8]) {
    integer::encode(out, kind.flags, kind.prefix, index.unwrap_or(0));
    if index.is_none() {
        string(out, name, kind.is_kept);
    }
    string(out, value, kind.is_kept);
}

/// Writes a string. One that is sent once is worth a Huffman code; one that is sent each time is not: the code takes an eighth
/// off an answer's head and as much time as all the rest of it.
fn string(out: &mut Vec<u8>, text: &[u8], is_kept: bool) {
    write_string(out, 0, 7, text, is_kept);
}

/// The entry of the static table with this name and value; `first` is the first one with this name.
fn static_field(first: usize, name: &[u8], value: &[u8]) -> Option<usize> {
    let same = STATIC.iter().skip(first - 1).take_while(|(known, _)| *known == name);
    same.zip(first..).find(|((_, known), _)| *known == value).map(|(_, index)| index)
}

fn slot(hash: u64) -> usize {
    hash as usize % SLOTS
}
