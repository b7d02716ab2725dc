//! Nodes: runs of entries in one piece of memory each.
//!
//! ```text
//! node   entries, one behind the other
//! entry  length u32 LE of what follows | deleted u8 | ms | sequence | fields | strings
//! ```
//!
//! Numbers are variable: seven bits a byte, the lowest first. `ms` is the distance from the node's first entry; `sequence` too
//! if that is 0. `fields` is 0 if an entry has the same fields as the node's first one, and is followed by the values alone;
//! otherwise it is their number, and fields and values follow in turns. A string has its length in front.
//!
//! What is removed is only marked, until the node has nothing else: `XADD MAXLEN ~` counts on that.

use resp::Reply;

use super::Id;

/// Entries in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    bytes: Vec<u8>,
    /// The fields of the first entry, whether that is there or not.
    fields: Vec<u8>,
    field_count: usize,
    live: u32,
    deleted: u32,
    /// How many bytes Redis' listpack of the same content has: what `stream-node-max-bytes` bounds.
    listpack_len: usize,
    last: Id,
}

/// An entry where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its id.
    pub id: Id,
    count: usize,
    /// Fields that are not among `strings`.
    fields: Option<&'a [u8]>,
    strings: &'a [u8],
    deleted: bool,
    /// Where its mark is.
    at: usize,
}

impl<'a> Entry<'a> {
    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none, which never is.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes it: its id, then fields and values.
    pub fn reply(&self, reply: &mut Reply<'_>) {
        reply.array(2);
        reply.bulk(&self.id.text());
        reply.array(self.count * 2);
        for (field, value) in self.pairs() {
            reply.bulk(field);
            reply.bulk(value);
        }
    }

    /// Fields with values.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (mut strings, mut fields) = (self.strings, self.fields);
        (0..self.count).map(move |_| {
            let field = match &mut fields {
                Some(fields) => string(fields),
                None => string(&mut strings),
            };
            (field, string(&mut strings))
        })
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    let mut shift = 0;
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    number
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn string<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let len = (number(bytes) as usize).min(bytes.len());
    let (text, rest) = bytes.split_at(len);
    *bytes = rest;
    text
}

/// The bytes that an integer takes in a listpack.
fn listpack_integer_len(number: i64) -> usize {
    match number {
        0..=127 => 2,
        -4096..=4095 => 3,
        -0x8000..=0x7fff => 4,
        -0x80_0000..=0x7f_ffff => 5,
        -0x8000_0000..=0x7fff_ffff => 6,
        _ => 10,
    }
}

/// The bytes that a string takes in a listpack.
fn listpack_string_len(text: &[u8]) -> usize {
    if let Some(number) = resp::parse_integer(text) {
        return listpack_integer_len(number);
    }
    let encoded = text.len()
        + match text.len() {
            0..64 => 1,
            64..4096 => 2,
            _ => 5,
        };
    encoded
        + match encoded {
            0..=127 => 1,
            128..16_384 => 2,
            16_384..2_097_152 => 3,
            2_097_152..268_435_456 => 4,
            _ => 5,
        }
}

/// The bytes of an empty listpack.
const LISTPACK_LEN: usize = 7;

impl Node {
    /// One with a first entry. `words` are fields and values in turns.
    pub fn new<T: AsRef<[u8]>>(id: Id, words: &[T]) -> Self {
        let mut node = Self { last: id, listpack_len: LISTPACK_LEN, ..Self::default() };
        // The numbers of entries and of removed ones, the fields, a zero behind them.
        node.listpack_len += 2 + 2 + 2 + listpack_integer_len(words.len() as i64 / 2);
        for word in words.iter().step_by(2) {
            put_string(&mut node.fields, word.as_ref());
            node.field_count += 1;
            node.listpack_len += listpack_string_len(word.as_ref());
        }
        node.push(id, id, words);
        node
    }

    /// Entries that are there.
    pub fn live(&self) -> u64 {
        u64::from(self.live)
    }

    /// All entries, with those that were removed.
    pub fn all(&self) -> u64 {
        u64::from(self.live) + u64::from(self.deleted)
    }

    /// The last entry's id, whether that is there or not.
    pub fn last(&self) -> Id {
        self.last
    }

    /// As long as a listpack would be.
    pub fn listpack_len(&self) -> usize {
        self.listpack_len
    }

    fn has_fields<T: AsRef<[u8]>>(&self, words: &[T]) -> bool {
        let mut fields = self.fields.as_slice();
        words.len() / 2 == self.field_count && words.iter().step_by(2).all(|word| string(&mut fields) == word.as_ref())
    }

    /// Appends an entry to a node whose first one is given.
    pub fn push<T: AsRef<[u8]>>(&mut self, first: Id, id: Id, words: &[T]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 5]);
        let ms = id.ms.wrapping_sub(first.ms);
        put_number(&mut self.bytes, ms);
        put_number(&mut self.bytes, if ms == 0 { id.sequence.wrapping_sub(first.sequence) } else { id.sequence });
        let same = self.has_fields(words);
        put_number(&mut self.bytes, if same { 0 } else { words.len() as u64 / 2 });
        // The flags, both parts of the id, the number of elements.
        let sequence = id.sequence.wrapping_sub(first.sequence) as i64;
        let elements = if same { words.len() / 2 + 3 } else { words.len() + 4 };
        self.listpack_len += 2
            + listpack_integer_len(ms as i64)
            + listpack_integer_len(sequence)
            + listpack_integer_len(elements as i64)
            + if same { 0 } else { listpack_integer_len(words.len() as i64 / 2) };
        let (from, step) = if same { (1, 2) } else { (0, 1) };
        for word in words.iter().skip(from).step_by(step) {
            put_string(&mut self.bytes, word.as_ref());
            self.listpack_len += listpack_string_len(word.as_ref());
        }
        let len = (self.bytes.len() - start - 4) as u32;
        if let Some(header) = self.bytes.get_mut(start..start + 4) {
            header.copy_from_slice(&len.to_le_bytes());
        }
        self.live += 1;
        self.last = id;
    }

    /// Gives back memory that was held for more entries.
    pub fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The entries that are there, and those that were removed.
    fn all_entries(&self, first: Id) -> impl Iterator<Item = Entry<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let header = self.bytes.get(at..)?.first_chunk::<4>()?;
            let end = at + 4 + u32::from_le_bytes(*header) as usize;
            let mut rest = self.bytes.get(at + 4..end)?;
            let (deleted, tail) = rest.split_first()?;
            rest = tail;
            let ms = number(&mut rest);
            let sequence = number(&mut rest);
            let sequence = if ms == 0 { first.sequence.wrapping_add(sequence) } else { sequence };
            let count = number(&mut rest) as usize;
            let entry = Entry {
                id: Id { ms: first.ms.wrapping_add(ms), sequence },
                count: if count == 0 { self.field_count } else { count },
                fields: (count == 0).then_some(self.fields.as_slice()),
                strings: rest,
                deleted: *deleted != 0,
                at: at + 4,
            };
            at = end;
            Some(entry)
        })
    }

    /// The entries that are there.
    pub fn entries(&self, first: Id) -> impl Iterator<Item = Entry<'_>> {
        self.all_entries(first).filter(|entry| !entry.deleted)
    }

    /// Appends it to what becomes its record.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            u64::from(self.live),
            u64::from(self.deleted),
            self.listpack_len as u64,
            self.last.ms,
            self.last.sequence,
            self.field_count as u64,
        ];
        out.reserve(self.bytes.len() + self.fields.len() + 2 * size_of_val(&numbers));
        numbers.iter().for_each(|number| put_number(out, *number));
        put_string(out, &self.fields);
        out.extend_from_slice(&self.bytes);
    }

    /// Reads one from its record; nothing if it does not add up.
    pub(super) fn decode(first: Id, record: &[u8]) -> Option<Self> {
        let mut rest = record;
        let mut next = || number(&mut rest);
        let (live, deleted, listpack_len) = (next(), next(), next() as usize);
        let last = Id::new(next(), next());
        let field_count = next() as usize;
        let fields = string(&mut rest).to_vec();
        let node = Self {
            bytes: rest.to_vec(),
            fields,
            field_count,
            live: u32::try_from(live).ok()?,
            deleted: u32::try_from(deleted).ok()?,
            listpack_len,
            last,
        };
        node.is_sound(first).then_some(node)
    }

    /// How many entries a node's record has that are there, and the last entry's id.
    pub(super) fn peek(record: &[u8]) -> (u64, Id) {
        let mut rest = record;
        let mut next = || number(&mut rest);
        let (live, _, _) = (next(), next(), next());
        (live, Id::new(next(), next()))
    }

    /// Whether all entries are there as the numbers say, none with more fields than it has room for.
    fn is_sound(&self, first: Id) -> bool {
        let (mut live, mut deleted, mut end) = (0, 0, 0);
        let mut before = None;
        for entry in self.all_entries(first) {
            let fields = entry.fields.map_or(0, <[u8]>::len);
            // Each string takes a byte at least.
            let is_possible = entry.count > 0 && entry.count <= entry.strings.len() + fields;
            if !is_possible || before.is_some_and(|before| before >= entry.id) || entry.id > self.last {
                return false;
            }
            before = Some(entry.id);
            *(if entry.deleted { &mut deleted } else { &mut live }) += 1;
            let header = entry.at.checked_sub(4).and_then(|at| self.bytes.get(at..)?.first_chunk::<4>());
            end = entry.at + header.map_or(0, |len| u32::from_le_bytes(*len) as usize);
        }
        (live, deleted, end) == (self.live, self.deleted, self.bytes.len()) && live > 0
    }

    /// Removes an entry; returns whether it was there.
    pub fn remove(&mut self, first: Id, id: Id) -> bool {
        let found = self.entries(first).find(|entry| entry.id == id).map(|entry| entry.at);
        let Some(mark) = found.and_then(|at| self.bytes.get_mut(at)) else { return false };
        *mark = 1;
        self.live -= 1;
        self.deleted += 1;
        true
    }
}
