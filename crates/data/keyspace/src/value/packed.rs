//! Strings one behind another in one piece of memory: what small collections and the nodes of lists are made of.
//!
//! An entry is its length, its bytes, and the length of both once more, backwards, so that a walk may go either way. Both
//! lengths take a byte as long as they fit into seven bits. That is two bytes beside each short string, where one with an
//! allocation of its own costs forty.

use std::ops::Range;

/// Strings in order.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    bytes: Vec<u8>,
    len: u32,
}

/// Longest text of a length.
const VARINT_LEN_MAX: usize = 10;

/// An entry's place: where it begins, until something changes.
pub type Offset = usize;

impl Packed {
    /// Without strings, and without an allocation.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), len: 0 }
    }

    /// So many of them, as [`bytes`](Self::bytes) gave them.
    pub(super) fn from_bytes(bytes: Vec<u8>, len: usize) -> Self {
        Self { bytes, len: len as u32 }
    }

    /// All of them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes they take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many bytes a string of a length takes.
    pub fn entry_size(len: usize) -> usize {
        let inner = varint_len(len) + len;
        inner + varint_len(inner)
    }

    /// The entry at a place: its bytes and where the next one begins.
    fn entry(&self, at: Offset) -> Option<(&[u8], Offset)> {
        let rest = self.bytes.get(at..)?;
        let (len, header) = read_varint(rest)?;
        let bytes = rest.get(header..header + len)?;
        let inner = header + len;
        Some((bytes, at + inner + varint_len(inner)))
    }

    /// The same for the entry that ends at a place: its bytes and where it begins.
    fn entry_before(&self, end: Offset) -> Option<(&[u8], Offset)> {
        let (inner, trailer) = read_varint_backwards(self.bytes.get(..end)?)?;
        let at = end.checked_sub(inner + trailer)?;
        self.entry(at).map(|(bytes, _)| (bytes, at))
    }

    /// The string at a place.
    pub fn at(&self, at: Offset) -> Option<&[u8]> {
        self.entry(at).map(|(bytes, _)| bytes)
    }

    /// The place behind that of a string.
    pub fn after(&self, at: Offset) -> Option<Offset> {
        self.entry(at).map(|(_, next)| next).filter(|next| *next < self.bytes.len())
    }

    /// The first string.
    pub fn front(&self) -> Option<&[u8]> {
        self.at(0)
    }

    /// The last string.
    pub fn back(&self) -> Option<&[u8]> {
        self.entry_before(self.bytes.len()).map(|(bytes, _)| bytes)
    }

    /// The place of the string of a number; the end for the number behind the last.
    pub fn place(&self, index: usize) -> Offset {
        let len = self.len();
        if index <= len / 2 {
            let mut at = 0;
            for _ in 0..index {
                at = self.entry(at).map_or(self.bytes.len(), |(_, next)| next);
            }
            at
        } else {
            let mut at = self.bytes.len();
            for _ in index..len {
                at = self.entry_before(at).map_or(0, |(_, begin)| begin);
            }
            at
        }
    }

    /// The string of a number.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        if index < self.len() { self.at(self.place(index)) } else { None }
    }

    /// All strings.
    pub fn iter(&self) -> Iter<'_> {
        Iter { packed: self, from: 0, to: self.bytes.len() }
    }

    /// All strings with their places.
    pub fn places(&self) -> impl Iterator<Item = (Offset, &[u8])> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (bytes, next) = self.entry(at)?;
            Some((std::mem::replace(&mut at, next), bytes))
        })
    }

    /// The place of a string among every `step`th.
    pub fn find(&self, wanted: &[u8], step: usize) -> Option<Offset> {
        let mut at = 0;
        while at < self.bytes.len() {
            let (bytes, next) = self.entry(at)?;
            if bytes == wanted {
                return Some(at);
            }
            at = next;
            for _ in 1..step {
                at = self.entry(at)?.1;
            }
        }
        None
    }

    /// Puts a string behind the last.
    pub fn push_back(&mut self, string: &[u8]) {
        self.insert(self.bytes.len(), string);
    }

    /// Puts a string before the first.
    pub fn push_front(&mut self, string: &[u8]) {
        self.insert(0, string);
    }

    /// Puts a string before the one at a place.
    pub fn insert(&mut self, at: Offset, string: &[u8]) {
        let size = Self::entry_size(string.len());
        self.reserve(size);
        let end = self.bytes.len();
        if at >= end {
            write_entry(&mut self.bytes, string);
        } else {
            self.bytes.resize(end + size, 0);
            self.bytes.copy_within(at..end, at + size);
            if let Some(gap) = self.bytes.get_mut(at..at + size) {
                fill_entry(gap, string);
            }
        }
        self.len += 1;
    }

    /// Puts a string in the place of another.
    pub fn replace(&mut self, at: Offset, string: &[u8]) {
        let Some((former, next)) = self.entry(at) else { return };
        let size = Self::entry_size(string.len());
        if former.len() != string.len() {
            let end = self.bytes.len();
            let tail = at + size;
            if tail > next {
                self.reserve(tail - next);
                self.bytes.resize(end + tail - next, 0);
            }
            self.bytes.copy_within(next..end, tail);
            self.bytes.truncate(end + tail - next);
        }
        if let Some(gap) = self.bytes.get_mut(at..at + size) {
            fill_entry(gap, string);
        }
        self.shrink();
    }

    /// Takes the string at a place out.
    pub fn remove(&mut self, at: Offset) {
        if let Some((_, next)) = self.entry(at) {
            self.remove_bytes(at..next, 1);
        }
    }

    /// Takes strings out by their numbers.
    pub fn remove_range(&mut self, from: usize, count: usize) {
        let begin = self.place(from);
        let end = self.place((from + count).min(self.len()));
        self.remove_bytes(begin..end, count);
    }

    fn remove_bytes(&mut self, range: Range<Offset>, count: usize) {
        self.bytes.drain(range);
        self.len = self.len.saturating_sub(count as u32);
        self.shrink();
    }

    /// Takes the strings from a number on away, to be of their own.
    pub fn split_off(&mut self, index: usize) -> Self {
        let at = self.place(index);
        let tail = Self { bytes: self.bytes.split_off(at), len: self.len.saturating_sub(index as u32) };
        self.len -= tail.len;
        self.shrink();
        tail
    }

    /// Puts all strings of another behind the last.
    pub fn append(&mut self, other: &Self) {
        self.reserve(other.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.len += other.len;
    }

    /// Keeps the strings that a condition holds for.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let (mut from, mut to) = (0, 0);
        while let Some((bytes, next)) = self.entry(from) {
            if keep(bytes) {
                self.bytes.copy_within(from..next, to);
                to += next - from;
            } else {
                self.len -= 1;
            }
            from = next;
        }
        self.bytes.truncate(to);
        self.shrink();
    }

    /// Room for more: half as much as there is, for what was pushed once is often pushed again.
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let ample = (self.bytes.capacity() + self.bytes.capacity() / 2).next_multiple_of(16);
            self.bytes.reserve_exact(needed.max(ample) - self.bytes.len());
        }
    }

    fn shrink(&mut self) {
        const IDLE_MAX: usize = 64;
        if self.bytes.capacity() > IDLE_MAX && self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(self.bytes.len() * 2);
        }
    }
}

/// A walk over strings, from either end.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    packed: &'a Packed,
    from: Offset,
    to: Offset,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.from >= self.to {
            return None;
        }
        let (bytes, next) = self.packed.entry(self.from)?;
        self.from = next;
        Some(bytes)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        let (bytes, at) = self.packed.entry_before(self.to)?;
        self.to = at;
        Some(bytes)
    }
}

fn varint_len(number: usize) -> usize {
    if number < 0x80 { 1 } else { (usize::BITS - number.leading_zeros()).div_ceil(7) as usize }
}

/// Seven bits a byte, the lowest first; the highest bit says that more come.
fn varint(mut number: usize, text: &mut [u8; VARINT_LEN_MAX]) -> usize {
    let mut len = 0;
    for byte in text {
        len += 1;
        *byte = number as u8 & 0x7f;
        number >>= 7;
        if number == 0 {
            break;
        }
        *byte |= 0x80;
    }
    len
}

fn read_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((usize::from(first), 1));
    }
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().take(VARINT_LEN_MAX) {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

fn read_varint_backwards(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (index, byte) in bytes.iter().rev().enumerate().take(VARINT_LEN_MAX) {
        number |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

fn write_entry(out: &mut Vec<u8>, string: &[u8]) {
    let mut text = [0; VARINT_LEN_MAX];
    let header = varint(string.len(), &mut text);
    out.extend(text.iter().take(header));
    out.extend_from_slice(string);
    let trailer = varint(header + string.len(), &mut text);
    out.extend(text.iter().take(trailer).rev());
}

/// The same into a gap of the right size.
fn fill_entry(gap: &mut [u8], string: &[u8]) {
    let mut text = [0; VARINT_LEN_MAX];
    let header = varint(string.len(), &mut text);
    let (head, rest) = gap.split_at_mut(header);
    head.iter_mut().zip(text).for_each(|(place, byte)| *place = byte);
    let (body, tail) = rest.split_at_mut(string.len());
    body.copy_from_slice(string);
    let trailer = varint(header + string.len(), &mut text);
    tail.iter_mut().zip(text.into_iter().take(trailer).rev()).for_each(|(place, byte)| *place = byte);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Back(Vec<u8>),
        Front(Vec<u8>),
        Insert(usize, Vec<u8>),
        Replace(usize, Vec<u8>),
        Remove(usize),
        RemoveRange(usize, usize),
        Retain(u8),
        Split(usize),
    }

    fn string() -> impl Strategy<Value = Vec<u8>> {
        let len = prop_oneof![0..8usize, 120..135usize, 16_380..16_390usize];
        (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            string().prop_map(Step::Back),
            string().prop_map(Step::Front),
            (any::<usize>(), string()).prop_map(|(at, string)| Step::Insert(at, string)),
            (any::<usize>(), string()).prop_map(|(at, string)| Step::Replace(at, string)),
            any::<usize>().prop_map(Step::Remove),
            (any::<usize>(), 0..4usize).prop_map(|(at, count)| Step::RemoveRange(at, count)),
            any::<u8>().prop_map(Step::Retain),
            any::<usize>().prop_map(Step::Split),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_vector_of_strings(steps in prop::collection::vec(step(), 1..60)) {
            let mut packed = Packed::new();
            let mut model: Vec<Vec<u8>> = Vec::new();
            for step in steps {
                let len = model.len();
                match step {
                    Step::Back(string) => { packed.push_back(&string); model.push(string); }
                    Step::Front(string) => { packed.push_front(&string); model.insert(0, string); }
                    Step::Insert(at, string) => {
                        let at = at % (len + 1);
                        packed.insert(packed.place(at), &string);
                        model.insert(at, string);
                    }
                    Step::Replace(at, string) if len > 0 => {
                        packed.replace(packed.place(at % len), &string);
                        model[at % len] = string;
                    }
                    Step::Remove(at) if len > 0 => {
                        packed.remove(packed.place(at % len));
                        model.remove(at % len);
                    }
                    Step::RemoveRange(at, count) if len > 0 => {
                        let count = count.min(len - at % len);
                        packed.remove_range(at % len, count);
                        model.drain(at % len..at % len + count);
                    }
                    Step::Retain(byte) => {
                        let keep = |string: &[u8]| string.first().is_none_or(|first| *first < byte);
                        packed.retain(keep);
                        model.retain(|string| keep(string));
                    }
                    Step::Split(at) => {
                        let tail = packed.split_off(at % (len + 1));
                        packed.append(&tail);
                    }
                    _ => {}
                }
                prop_assert_eq!(packed.len(), model.len());
                prop_assert!(packed.iter().eq(model.iter().map(Vec::as_slice)));
                prop_assert!(packed.iter().rev().eq(model.iter().rev().map(Vec::as_slice)));
                prop_assert_eq!(packed.front(), model.first().map(Vec::as_slice));
                prop_assert_eq!(packed.back(), model.last().map(Vec::as_slice));
                prop_assert_eq!(packed.size(), model.iter().map(|string| Packed::entry_size(string.len())).sum::<usize>());
                for (index, string) in model.iter().enumerate() {
                    prop_assert_eq!(packed.get(index), Some(string.as_slice()));
                    let first = model.iter().position(|other| other == string).expect("it is there");
                    prop_assert_eq!(packed.find(string, 1), Some(packed.place(first)));
                }
            }
        }
    }
}
