//! A header block as one byte arena and a list of spans into it.
//!
//! A message head is parsed once, edited by rules and written once. Keeping all bytes in one arena makes parsing a single
//! copy, makes an edit an append, and lets the whole block be recycled for the next message without freeing anything.
//!
//! A field whose bytes stand in the arena exactly as they go on the wire (`name: value CR LF`) is marked as such. Parsed
//! lines nearly always do, and added ones are laid down that way, so writing the block is copying a few long runs.

use crate::bytes::decimal;
use crate::bytes::{BLOCK, Block};
use crate::header_id::HeaderId;

/// A range of bytes in an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    /// Up to where spans reach.
    pub(crate) const HEAD_BYTES_MAX: usize = u32::MAX as usize;

    /// The bytes of this span in `arena`; empty when the span does not lie in it.
    #[inline]
    #[must_use]
    pub fn of(self, arena: &[u8]) -> &[u8] {
        let start = self.start as usize;
        arena.get(start..start + self.len as usize).unwrap_or_default()
    }

    /// A span of a head, of which a parser takes no more than [`Span::HEAD_BYTES_MAX`].
    #[inline(always)]
    pub(crate) fn in_head(start: usize, len: usize) -> Span {
        Span { start: start as u32, len: len as u32 }
    }

    /// A span by its bounds; empty when they do not fit.
    #[inline]
    pub(crate) fn between(start: usize, end: usize) -> Span {
        if end > u32::MAX as usize {
            return Span::default();
        }
        Span { start: start as u32, len: end.saturating_sub(start) as u32 }
    }

    /// Whether the span has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// One header field: its name, mostly in lower case if it was received, and its value without surrounding white space.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: Span,
    value: Span,
    id: HeaderId,
    /// Whether the arena holds `name: value CR LF` from the start of the name on.
    line: bool,
}

impl Field {
    /// A field of a head that was kept.
    #[inline]
    pub(crate) fn kept(name: Span, value: Span, id: HeaderId, line: bool) -> Self {
        Self { name, value, id, line }
    }
}

/// The header fields of a message in the order received.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    arena: Vec<u8>,
    fields: Vec<Field>,
    /// A bit for each [`HeaderId`] that a field has or had: most searches are for what is not there.
    seen: u64,
    /// A bit for each id of a field that was laid down, changed or removed since the parser handed the block over.
    edited: u64,
}

/// Puts the letters of a name into lower case, a block at a time as long as the arena has whole ones.
#[inline(always)]
fn lower(arena: &mut [u8], name: Span) {
    let (blocks, end) = arena.get_mut(name.start as usize..).unwrap_or_default().as_chunks_mut();
    let mut rest = name.len as usize;
    for block in blocks {
        *block = Block::new(block).with_lower_case(rest);
        if rest <= BLOCK {
            return;
        }
        rest -= BLOCK;
    }
    end.get_mut(..rest).unwrap_or_default().make_ascii_lowercase();
}

/// A piece of bytes that [`Headers::intern_parts`] lays down.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Bytes already in the arena.
    Kept(Span),
    /// Bytes from elsewhere.
    New(&'a [u8]),
}

impl Headers {
    /// An empty block.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets every field, keeping the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.fields.clear();
        self.seen = 0;
        self.edited = 0;
    }

    /// The fields, unless it is known that none of them has this id.
    #[inline]
    fn candidates(&self, id: HeaderId) -> &[Field] {
        if self.may_have(bit(id)) { &self.fields } else { &[] }
    }

    /// Whether there may be a field with one of the ids whose [`bit`]s these are. False is certain.
    #[inline]
    pub(crate) fn may_have(&self, bits: u64) -> bool {
        self.seen & bits != 0
    }

    /// Whether a field with one of the ids whose [`bit`]s these are may have been edited since it was parsed. False is
    /// certain.
    #[inline]
    pub(crate) fn may_be_edited(&self, bits: u64) -> bool {
        self.edited & bits != 0
    }

    /// Takes the fields as they are now for those that the parser handed over.
    pub(crate) fn forget_edits(&mut self) {
        self.edited = 0;
    }

    /// Notes that no field of these ids is left.
    #[inline]
    pub(crate) fn forget(&mut self, bits: u64) {
        self.seen &= !bits;
    }

    /// Bytes of memory that the block holds on to.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.arena.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Id, name and value of every field in order, and whether it stands in memory as the line that it is on the wire.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (HeaderId, &[u8], &[u8], bool)> + Clone {
        self.fields.iter().map(|field| (field.id, field.name.of(&self.arena), field.value.of(&self.arena), field.line))
    }

    /// Becomes what these fields are, whose spans lie in `text`, with room for so many more bytes and fields.
    pub(crate) fn assume(
        &mut self,
        text: &[u8],
        fields: impl ExactSizeIterator<Item = Field>,
        (more_bytes, more_fields): (usize, usize),
        is_edited: bool,
    ) {
        self.clear();
        self.arena.reserve(text.len() + more_bytes);
        self.arena.extend_from_slice(text);
        self.fields.reserve(fields.len() + more_fields);
        let mut seen = 0;
        self.fields.extend(fields.inspect(|field| seen |= bit(field.id)));
        self.seen = seen;
        self.edited = if is_edited { u64::MAX } else { 0 };
    }

    /// Copies `bytes` into the arena and says where they are.
    pub fn intern(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        Span::between(start, self.arena.len())
    }

    /// Lays the parts down one after the other as one span.
    pub(crate) fn intern_parts(&mut self, parts: &[Part<'_>]) -> Span {
        let start = self.arena.len();
        for part in parts {
            match part {
                Part::New(bytes) => self.arena.extend_from_slice(bytes),
                Part::Kept(span) if span.end() <= start => {
                    self.arena.extend_from_within(span.start as usize..span.end());
                }
                Part::Kept(_) => {}
            }
        }
        Span::between(start, self.arena.len())
    }

    /// The bytes of a span that [`Headers::intern`] returned.
    #[inline]
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        span.of(&self.arena)
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Name and value of every field, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + ExactSizeIterator {
        self.fields.iter().map(|field| (field.name.of(&self.arena), field.value.of(&self.arena)))
    }

    /// Every field in order: its whole line without the end, `name: value`, where it stands so in memory, otherwise name and value.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = Result<&[u8], (&[u8], &[u8])>> {
        self.fields.iter().map(|field| match field.line {
            true => Ok(Span { len: field.name.len + 2 + field.value.len, ..field.name }.of(&self.arena)),
            false => Err((field.name.of(&self.arena), field.value.of(&self.arena))),
        })
    }

    /// Id, name and value of every field, in order.
    pub fn iter_known(&self) -> impl DoubleEndedIterator<Item = (HeaderId, &[u8], &[u8])> + ExactSizeIterator {
        self.fields.iter().map(|field| (field.id, field.name.of(&self.arena), field.value.of(&self.arena)))
    }

    /// Name and value of the field at `index`.
    #[must_use]
    pub fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.fields.get(index).map(|field| (field.name.of(&self.arena), field.value.of(&self.arena)))
    }

    /// The values of every field called `name` (letter case ignored), in order.
    pub fn all<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let wanted = SoughtName::of(name);
        let fields = self.candidates(wanted.id).iter();
        fields.filter(move |field| wanted.is(field, &self.arena)).map(|field| field.value.of(&self.arena))
    }

    /// The values of every field with this id, in order.
    pub fn all_known(&self, id: HeaderId) -> impl DoubleEndedIterator<Item = &[u8]> {
        let fields = self.candidates(id).iter();
        fields.filter(move |field| field.id == id).map(|field| field.value.of(&self.arena))
    }

    /// The value of the first field called `name`.
    #[must_use]
    pub fn first<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The value of the first field called `name`, which may be gone before the value is.
    #[must_use]
    pub fn value_of(&self, name: &[u8]) -> Option<&[u8]> {
        let wanted = SoughtName::of(name);
        let field = self.candidates(wanted.id).iter().find(|field| wanted.is(field, &self.arena));
        field.map(|field| field.value.of(&self.arena))
    }

    /// The same for a name whose id is known.
    #[inline]
    #[must_use]
    pub fn value_named(&self, id: HeaderId, name: &[u8]) -> Option<&[u8]> {
        let wanted = SoughtName { id, name };
        let field = self.candidates(id).iter().find(|field| wanted.is(field, &self.arena));
        field.map(|field| field.value.of(&self.arena))
    }

    /// The value of the first field with this id.
    #[must_use]
    pub fn first_known(&self, id: HeaderId) -> Option<&[u8]> {
        self.all_known(id).next()
    }

    /// The value of the last field called `name`.
    #[must_use]
    pub fn last<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.all(name).next_back()
    }

    /// Whether a field is called `name`.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        let wanted = SoughtName::of(name);
        self.candidates(wanted.id).iter().any(|field| wanted.is(field, &self.arena))
    }

    /// Whether a field has this id.
    #[must_use]
    pub fn contains_known(&self, id: HeaderId) -> bool {
        self.candidates(id).iter().any(|field| field.id == id)
    }

    /// Appends a field.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.add_parts(name, &[value]);
    }

    /// Appends a field whose value is the parts joined.
    pub fn add_parts(&mut self, name: &[u8], value: &[&[u8]]) {
        let field = self.lay_line(name, value);
        self.fields.push(field);
    }

    /// Appends a field whose value is the parts joined, by a name whose id is known.
    pub fn add_named(&mut self, id: HeaderId, name: &[u8], value: &[&[u8]]) {
        let field = self.lay_parts(Part::New(name), id, value);
        self.fields.push(field);
    }

    /// Appends a field whose name is well known.
    pub fn add_known(&mut self, id: HeaderId, value: &[u8]) {
        let field = self.lay_parts(Part::New(id.name().as_bytes()), id, &[value]);
        self.fields.push(field);
    }

    /// Appends a field whose name is well known and whose value is a number.
    pub fn add_number(&mut self, id: HeaderId, value: u64) {
        self.add_known(id, decimal(value, &mut [0; 20]));
    }

    /// Puts a field before all others.
    pub fn add_front(&mut self, name: &[u8], value: &[u8]) {
        self.insert_at(0, name, value);
    }

    /// Puts a field at `index`, or last when there are fewer fields.
    pub fn insert_at(&mut self, index: usize, name: &[u8], value: &[u8]) {
        let field = self.lay_line(name, &[value]);
        self.fields.insert(index.min(self.fields.len()), field);
    }

    /// Removes every field called `name`; whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.remove_named(HeaderId::of(name), name)
    }

    /// The same for a name whose id is known.
    pub fn remove_named(&mut self, id: HeaderId, name: &[u8]) -> bool {
        let before = self.fields.len();
        let wanted = SoughtName { id, name };
        if !self.may_have(bit(wanted.id)) {
            return false;
        }
        self.edited |= bit(wanted.id);
        let arena = &self.arena;
        self.fields.retain(|field| !wanted.is(field, arena));
        self.fields.len() != before
    }

    /// Removes every field with this id; whether there was one.
    pub fn remove_known(&mut self, id: HeaderId) -> bool {
        if !self.may_have(bit(id)) {
            return false;
        }
        self.edited |= bit(id);
        let before = self.fields.len();
        self.fields.retain(|field| field.id != id);
        self.fields.len() != before
    }

    /// Removes the field at `index`; whether there was one.
    pub fn remove_at(&mut self, index: usize) -> bool {
        let there = index < self.fields.len();
        if there {
            self.edited |= bit(self.fields.remove(index).id);
        }
        there
    }

    /// Removes the fields for which `keep` is false; whether there was one.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        self.retain_known(|_, name, value| keep(name, value))
    }

    /// Removes the fields for which `keep` is false, `keep` being given the id too; whether there was one.
    pub fn retain_known(&mut self, mut keep: impl FnMut(HeaderId, &[u8], &[u8]) -> bool) -> bool {
        let before = self.fields.len();
        let (arena, edited) = (&self.arena, &mut self.edited);
        self.fields.retain(|field| {
            let stays = keep(field.id, field.name.of(arena), field.value.of(arena));
            if !stays {
                *edited |= bit(field.id);
            }
            stays
        });
        self.fields.len() != before
    }

    /// Replaces every field called `name` by one with this value, at the end.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.add(name, value);
    }

    /// Replaces every field of a name whose id is known by one whose value is the parts joined, at the end.
    pub fn set_named(&mut self, id: HeaderId, name: &[u8], value: &[&[u8]]) {
        self.remove_named(id, name);
        self.add_named(id, name, value);
    }

    /// Becomes a copy of another block, in the memory that is there, with room for so many more bytes and fields.
    pub fn copy_from(&mut self, other: &Self, bytes: usize, fields: usize) {
        self.clear();
        self.arena.reserve(other.arena.len() + bytes);
        self.arena.extend_from_slice(&other.arena);
        self.fields.reserve(other.fields.len() + fields);
        self.fields.extend_from_slice(&other.fields);
        self.seen = other.seen;
        self.edited = other.edited;
    }

    /// Replaces every field with this id by one with this value, at the end.
    pub fn set_known(&mut self, id: HeaderId, value: &[u8]) {
        self.remove_known(id);
        self.add_known(id, value);
    }

    /// Gives the field at `index` another value, keeping its name and place; whether there was one.
    pub fn set_value_at(&mut self, index: usize, value: &[u8]) -> bool {
        let Some(old) = self.fields.get(index).copied() else { return false };
        let new = self.lay_parts(Part::Kept(old.name), old.id, &[value]);
        if let Some(field) = self.fields.get_mut(index) {
            *field = new;
        }
        true
    }

    /// Gives every field called `name` the name `new`, keeping values and places; whether there was one.
    pub fn rename(&mut self, name: &[u8], new: &[u8]) -> bool {
        let mut found = false;
        let wanted = SoughtName::of(name);
        let id = HeaderId::of(new);
        self.seen |= bit(id);
        self.edited |= bit(id) | bit(wanted.id);
        for index in 0..self.fields.len() {
            let Some(old) = self.fields.get(index).copied() else { break };
            if wanted.is(&old, &self.arena) {
                found = true;
                let name = self.intern(new);
                if let Some(field) = self.fields.get_mut(index) {
                    *field = Field { name, id, line: false, ..old };
                }
            }
        }
        found
    }

    /// Replaces the value of each field for which `change` returns a new one.
    pub fn rewrite(&mut self, mut change: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>) {
        for index in 0..self.fields.len() {
            let Some((name, value)) = self.at(index) else { break };
            if let Some(value) = change(name, value) {
                self.set_value_at(index, &value);
            }
        }
    }

    /// Like [`Headers::rewrite`], for the fields with this id.
    pub fn rewrite_known(&mut self, id: HeaderId, mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
        for index in 0..self.fields.len() {
            let Some(field) = self.fields.get(index).copied() else { break };
            if field.id == id
                && let Some(value) = change(field.value.of(&self.arena))
            {
                self.set_value_at(index, &value);
            }
        }
    }

    /// Appends every field as `name: value CR LF`, without the empty line that ends a head.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.arena.len() + 2);
        let mut run = 0..0;
        for field in &self.fields {
            let start = field.name.start as usize;
            if !field.line {
                out.extend_from_slice(self.arena.get(run).unwrap_or_default());
                run = 0..0;
                out.extend_from_slice(field.name.of(&self.arena));
                out.extend_from_slice(b": ");
                out.extend_from_slice(field.value.of(&self.arena));
                out.extend_from_slice(b"\r\n");
            } else if start == run.end {
                run.end = field.value.end() + 2;
            } else {
                out.extend_from_slice(self.arena.get(run).unwrap_or_default());
                run = start..field.value.end() + 2;
            }
        }
        out.extend_from_slice(self.arena.get(run).unwrap_or_default());
    }

    /// About as many bytes as [`Headers::write_to`] appends, known without a look at the fields.
    #[inline]
    pub(crate) fn arena_len(&self) -> usize {
        self.arena.len()
    }

    /// Bytes of all names and values.
    #[must_use]
    pub fn text_len(&self) -> usize {
        self.fields.iter().map(|field| field.name.len as usize + field.value.len as usize).sum()
    }

    /// Takes a field that the parser found; its spans hold once [`Headers::adopt`] has been given the head's bytes.
    #[inline]
    pub(crate) fn push_parsed(&mut self, name: Span, value: Span, id: HeaderId, line: bool) {
        self.seen |= bit(id);
        self.fields.push(Field { name, value, id, line });
    }

    /// Appends a field that came by itself, and was found to be one that may stand in a line.
    #[inline]
    pub(crate) fn lay_received(&mut self, name: &[u8], value: &[u8], id: HeaderId) {
        let field = self.lay_clean(name, value, id);
        self.fields.push(field);
    }

    /// Puts such a field before all others.
    #[inline]
    pub(crate) fn lay_received_first(&mut self, name: &[u8], value: &[u8], id: HeaderId) {
        let field = self.lay_clean(name, value, id);
        self.fields.insert(0, field);
    }

    fn lay_clean(&mut self, name: &[u8], value: &[u8], id: HeaderId) -> Field {
        self.seen |= bit(id);
        self.arena.reserve(name.len() + value.len() + 4);
        let name = self.intern(name);
        self.arena.extend_from_slice(b": ");
        let value = self.intern(value);
        self.arena.extend_from_slice(b"\r\n");
        Field { name, value, id, line: true }
    }

    /// The field that was pushed last goes on up to `end`: its id, and how long its line is now.
    #[cold]
    pub(crate) fn fold_last(&mut self, end: usize) -> Option<(HeaderId, usize)> {
        let last = self.fields.last_mut()?;
        last.value = Span::between(last.value.start as usize, end.max(last.value.end()));
        last.line = false;
        Some((last.id, last.value.end() - last.name.start as usize))
    }

    /// Puts blanks where lines of a field end that goes on.
    #[cold]
    pub(crate) fn blank_folds(&mut self) {
        for field in &self.fields {
            let value = field.value.start as usize..field.value.end();
            let bytes = self.arena.get_mut(value).unwrap_or_default();
            bytes.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | b'\t')).for_each(|byte| *byte = b' ');
        }
    }

    /// Takes the bytes of a whole head, into which the fields pushed so far point, and puts their names into lower case
    /// unless they are to stay as they are: HAProxy sends them so, whatever the other side wrote.
    #[inline]
    pub(crate) fn adopt(&mut self, head: &[u8], keeps_case: bool) {
        self.arena.clear();
        self.arena.extend_from_slice(head);
        if keeps_case {
            return;
        }
        for field in &self.fields {
            lower(&mut self.arena, field.name);
        }
    }

    fn lay_line(&mut self, name: &[u8], value: &[&[u8]]) -> Field {
        self.lay_parts(Part::New(name), HeaderId::of(name), value)
    }

    fn lay_parts(&mut self, name: Part<'_>, id: HeaderId, value: &[&[u8]]) -> Field {
        self.seen |= bit(id);
        self.edited |= bit(id);
        let name = self.intern_parts(&[name]);
        self.arena.extend_from_slice(b": ");
        let start = self.arena.len();
        for part in value {
            self.arena.extend_from_slice(part);
        }
        self.blank_line_ends(start);
        let value = Span::between(start, self.arena.len());
        self.arena.extend_from_slice(b"\r\n");
        Field { name, value, id, line: true }
    }

    /// Puts a space for each CR, LF and NUL from `start` on: a value that a rule computed from what a client sent must
    /// not become a line of its own.
    pub(crate) fn blank_line_ends(&mut self, start: usize) {
        let laid = self.arena.get_mut(start..).unwrap_or_default();
        // NOTE: nearly always there is none. All bytes are looked at, so that the compiler takes many at a time.
        if !laid.iter().fold(false, |found, byte| found | matches!(*byte, b'\r' | b'\n' | 0)) {
            return;
        }
        for byte in laid.iter_mut().filter(|byte| matches!(**byte, b'\r' | b'\n' | 0)) {
            *byte = b' ';
        }
    }
}

/// The bit of an id in [`Headers::may_have`].
#[inline]
pub(crate) const fn bit(id: HeaderId) -> u64 {
    1 << id as u32
}

const _: () = assert!(HeaderId::COUNT <= 64, "each id needs a bit");

/// A name being looked for: by id when it is well known, letter by letter when not.
struct SoughtName<'a> {
    id: HeaderId,
    name: &'a [u8],
}

impl<'a> SoughtName<'a> {
    #[inline]
    fn of(name: &'a [u8]) -> Self {
        SoughtName { id: HeaderId::of(name), name }
    }

    #[inline]
    fn is(&self, field: &Field, arena: &[u8]) -> bool {
        field.id == self.id && (self.id != HeaderId::Other || field.name.of(arena).eq_ignore_ascii_case(self.name))
    }
}

#[cfg(test)]
mod tests;
