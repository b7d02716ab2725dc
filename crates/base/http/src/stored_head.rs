//! The head of a response in as little memory as it takes: what a cache keeps of it for hours.
//!
//! A [`ResponseHead`] is made to be edited; kept, it would take two allocations and twenty bytes for each field beside its text. Here
//! all of it is one piece of bytes:
//!
//! ```text
//! status      2 bytes, little-endian
//! flags       1
//! length      the body's length as the head was received, if FLAG_LENGTH
//! reason      length of the reason phrase
//! odd version, odd status   their lengths, if FLAG_ODD
//! fields      number of fields, bytes of what follows of them; for each: id (1 byte, the highest bit for a whole line), length of the
//!             name, length of the value
//! text        reason phrase, odd version, odd status; of each field its line `name: value CR LF`, or name and value
//! ```
//!
//! All numbers but the first two are of seven bits a byte, the lowest first.

use crate::body_length::Framing;
use crate::header_id::HeaderId;
use crate::headers::{Field, Span};
use crate::response::ResponseHead;
use crate::version::Version;

const FLAG_HTTP10: u8 = 1;
const FLAG_IN_DOUBT: u8 = 2;
const FLAG_CHUNKED: u8 = 4;
const FLAG_LENGTH: u8 = 8;
const FLAG_ODD: u8 = 16;
const FLAG_EDITED: u8 = 32;
/// There is a Content-Encoding, which is asked for at each delivery.
const FLAG_CODED: u8 = 64;

/// The bit of a field that is kept as the line that it is on the wire.
const LINE: u8 = 0x80;
const _: () = assert!(HeaderId::COUNT <= LINE as usize, "an id and a bit are one byte");

/// What stands between a name and its value, and behind the value.
const SEPARATOR_BYTES: usize = 2;
const LINE_END_BYTES: usize = 2;

/// A response's head as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHead(Box<[u8]>);

/// What stands before the text.
struct Start<'h> {
    status: u16,
    flags: u8,
    length: Option<u64>,
    reason: usize,
    odd_version: usize,
    odd_status: usize,
    count: usize,
    fields: Numbers<'h>,
    text: Numbers<'h>,
}

/// Numbers, read one after the other. What is not there reads as 0.
#[derive(Clone, Copy)]
struct Numbers<'h>(&'h [u8]);

impl<'h> Numbers<'h> {
    #[inline]
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    #[inline]
    fn number(&mut self) -> u64 {
        let first = self.byte();
        if first < 0x80 { u64::from(first) } else { self.long(first) }
    }

    fn long(&mut self, first: u8) -> u64 {
        let (mut number, mut shift, mut byte) = (u64::from(first & 0x7f), 7, first);
        while byte >= 0x80 && shift < 64 {
            byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        number
    }

    #[inline]
    fn size(&mut self) -> usize {
        self.number() as usize
    }

    /// What stands between two places.
    #[inline]
    fn at(self, (from, to): (usize, usize)) -> &'h [u8] {
        self.0.get(from..to).unwrap_or_default()
    }

    fn take(&mut self, bytes: usize) -> &'h [u8] {
        let (taken, rest) = self.0.split_at_checked(bytes).unwrap_or_default();
        self.0 = rest;
        taken
    }
}

fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes_of(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()).div_ceil(7).max(1) as usize
}

impl StoredHead {
    /// A head as it is kept.
    #[must_use]
    pub fn of(head: &ResponseHead) -> Self {
        let Framing { length, chunked } = head.framing;
        let is_odd = !(head.odd_version.is_empty() && head.odd_status.is_empty());
        let flags = [
            (head.version == Version::Http10, FLAG_HTTP10),
            (head.in_doubt, FLAG_IN_DOUBT),
            (chunked, FLAG_CHUNKED),
            (length.is_some(), FLAG_LENGTH),
            (is_odd, FLAG_ODD),
            (head.headers.may_be_edited(u64::MAX), FLAG_EDITED),
            (head.headers.contains_known(HeaderId::ContentEncoding), FLAG_CODED),
        ];
        let text = |span: Span| head.headers.bytes(span);
        let texts = [text(head.reason), text(head.odd_version), text(head.odd_status)];
        let lengths = texts.iter().take(if is_odd { 3 } else { 1 });
        let fields = head.headers.parts();
        let of_field = |(_, name, value, _): (_, &[u8], &[u8], _)| 1 + bytes_of(name.len()) + bytes_of(value.len());
        let ends = |is_line| if is_line { SEPARATOR_BYTES + LINE_END_BYTES } else { 0 };
        let of_fields: usize = fields.clone().map(of_field).sum();
        let of_lines: usize =
            fields.clone().map(|(_, name, value, is_line)| name.len() + value.len() + ends(is_line)).sum();
        let bytes = 3
            + length.map_or(0, |length| bytes_of(length as usize))
            + lengths.clone().map(|text| bytes_of(text.len())).sum::<usize>()
            + bytes_of(head.headers.len())
            + bytes_of(of_fields)
            + of_fields
            + texts.iter().map(|text| text.len()).sum::<usize>()
            + of_lines;
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&head.status.to_le_bytes());
        out.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
        length.into_iter().for_each(|length| push(&mut out, length));
        lengths.for_each(|text| push(&mut out, text.len() as u64));
        push(&mut out, head.headers.len() as u64);
        push(&mut out, of_fields as u64);
        for (id, name, value, is_line) in fields.clone() {
            out.push(id as u8 | if is_line { LINE } else { 0 });
            push(&mut out, name.len() as u64);
            push(&mut out, value.len() as u64);
        }
        texts.iter().for_each(|text| out.extend_from_slice(text));
        for (_, name, value, is_line) in fields {
            out.extend_from_slice(name);
            if is_line {
                out.extend_from_slice(b": ");
            }
            out.extend_from_slice(value);
            if is_line {
                out.extend_from_slice(b"\r\n");
            }
        }
        Self(out.into_boxed_slice())
    }

    fn start(&self) -> Start<'_> {
        let mut numbers = Numbers(&self.0);
        let status = u16::from_le_bytes([numbers.byte(), numbers.byte()]);
        let flags = numbers.byte();
        let length = (flags & FLAG_LENGTH != 0).then(|| numbers.number());
        let reason = numbers.size();
        let (odd_version, odd_status) = if flags & FLAG_ODD == 0 { (0, 0) } else { (numbers.size(), numbers.size()) };
        let (count, of_fields) = (numbers.size(), numbers.size());
        let fields = Numbers(numbers.take(of_fields));
        Start { status, flags, length, reason, odd_version, odd_status, count, fields, text: numbers }
    }

    /// Bytes of memory that it takes beside itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.len()
    }

    /// The status.
    #[inline]
    #[must_use]
    pub fn status(&self) -> u16 {
        u16::from_le_bytes(self.0.first_chunk().copied().unwrap_or_default())
    }

    /// The reason phrase.
    #[must_use]
    pub fn reason(&self) -> &[u8] {
        let mut start = self.start();
        start.text.take(start.reason)
    }

    /// The version as it goes on the wire.
    #[must_use]
    pub fn version_bytes(&self) -> &[u8] {
        let start = self.start();
        if start.odd_version == 0 {
            return start.version().as_bytes();
        }
        let mut text = start.text;
        text.take(start.reason);
        text.take(start.odd_version)
    }

    /// Id, name and value of every field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (HeaderId, &[u8], &[u8])> {
        let start = self.start();
        let text = start.text;
        start.places().map(move |place| (place.id(), text.at(place.name), text.at(place.value)))
    }

    /// The values of every field with this id, in order.
    pub fn all_known(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        let start = self.start();
        let text = start.text;
        start.places().filter(move |place| place.is(id)).map(move |place| text.at(place.value))
    }

    /// The value of the first field with this id.
    #[must_use]
    pub fn first_known(&self, id: HeaderId) -> Option<&[u8]> {
        if id == HeaderId::ContentEncoding && !self.is_coded() {
            return None;
        }
        self.all_known(id).next()
    }

    #[inline]
    fn is_coded(&self) -> bool {
        self.0.get(2).is_some_and(|flags| flags & FLAG_CODED != 0)
    }

    /// The values of every field called `name` (letter case ignored), in order.
    pub fn all<'h>(&'h self, name: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
        let wanted = HeaderId::of(name);
        let start = self.start();
        let text = start.text;
        start.places().filter(move |place| place.is_called(text, wanted, name)).map(move |place| text.at(place.value))
    }

    /// The value of the first field called `name`, which may be gone before the value is.
    #[must_use]
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.value_named(HeaderId::of(name), name)
    }

    /// The same for a name whose id is known.
    #[must_use]
    pub fn value_named(&self, id: HeaderId, name: &[u8]) -> Option<&[u8]> {
        let start = self.start();
        let text = start.text;
        let found = start.places().find(|place| place.is_called(text, id, name))?;
        Some(text.at(found.value))
    }

    /// The head as it was.
    #[must_use]
    pub fn unpacked(&self) -> ResponseHead {
        let mut head = ResponseHead::new();
        self.unpack_into(&mut head, 0, 0);
        head
    }

    /// Makes `head` what this one was, in the memory that is there, with room for so many more bytes and fields.
    pub fn unpack_into(&self, head: &mut ResponseHead, bytes: usize, fields: usize) {
        let start = self.start();
        let odd = start.reason + start.odd_version;
        let is_edited = start.flags & FLAG_EDITED != 0;
        let field = |place: FieldPlace| {
            let span = |(from, to)| Span::between(from, to);
            Field::kept(span(place.name), span(place.value), place.id(), place.kind & LINE != 0)
        };
        // NOTE: nearly always all lengths are single bytes.
        match start.fields.0.as_chunks::<3>() {
            (short, []) if short.len() == start.count => {
                let mut place = start.first_place();
                let places = short.iter().map(|[kind, name, value]| {
                    FieldPlace::after(&mut place, *kind, usize::from(*name), usize::from(*value))
                });
                head.headers.assume(start.text.0, places.map(field), (bytes, fields), is_edited);
            }
            _ => head.headers.assume(start.text.0, start.places().map(field), (bytes, fields), is_edited),
        }
        head.version = start.version();
        head.framing = Framing { length: start.length, chunked: start.flags & FLAG_CHUNKED != 0 };
        head.status = start.status;
        head.reason = Span::between(0, start.reason);
        head.odd_version = Span::between(start.reason, odd);
        head.odd_status = Span::between(odd, odd + start.odd_status);
        head.in_doubt = start.flags & FLAG_IN_DOUBT != 0;
    }
}

impl Default for StoredHead {
    fn default() -> Self {
        Self::of(&ResponseHead::default())
    }
}

/// Where in the text a field stands.
#[derive(Clone, Copy)]
struct FieldPlace {
    kind: u8,
    name: (usize, usize),
    value: (usize, usize),
}

impl FieldPlace {
    /// The place of the field that begins at `next`, which is behind it then.
    #[inline]
    fn after(next: &mut usize, kind: u8, name_len: usize, value_len: usize) -> Self {
        let ends = usize::from(kind >> 7);
        let name = (*next, *next + name_len);
        let from = name.1 + ends * SEPARATOR_BYTES;
        let value = (from, from + value_len);
        *next = value.1 + ends * LINE_END_BYTES;
        Self { kind, name, value }
    }

    #[inline]
    fn id(self) -> HeaderId {
        HeaderId::from_number(self.kind & !LINE)
    }

    #[inline]
    fn is(self, id: HeaderId) -> bool {
        self.kind & !LINE == id as u8
    }

    #[inline]
    fn is_called(self, text: Numbers<'_>, id: HeaderId, name: &[u8]) -> bool {
        self.is(id) && (id != HeaderId::Other || text.at(self.name).eq_ignore_ascii_case(name))
    }
}

impl<'h> Start<'h> {
    /// Where the fields stand.
    #[inline]
    fn places(&self) -> impl ExactSizeIterator<Item = FieldPlace> + use<'h> {
        let mut lengths = self.fields;
        let mut place = self.first_place();
        (0..self.count).map(move |_| {
            let (kind, name, value) = (lengths.byte(), lengths.size(), lengths.size());
            FieldPlace::after(&mut place, kind, name, value)
        })
    }

    /// Where the first field stands.
    #[inline]
    fn first_place(&self) -> usize {
        self.reason + self.odd_version + self.odd_status
    }

    fn version(&self) -> Version {
        if self.flags & FLAG_HTTP10 != 0 { Version::Http10 } else { Version::Http11 }
    }
}

#[cfg(test)]
mod tests;
