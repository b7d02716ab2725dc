//! A header block as one byte arena and a list of spans into it.
//!
//! A message head is parsed once, edited by rules and written once. Keeping all bytes in one arena makes parsing a single
//! copy, makes an edit an append, and lets the whole block be recycled for the next message without freeing anything.

/// A range of bytes in an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// The bytes of this span in `arena`; empty when the span does not lie in it.
    #[must_use]
    pub fn of(self, arena: &[u8]) -> &[u8] {
        let start = self.start as usize;
        arena.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// One header field: its name as received and its value without surrounding white space.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    name: Span,
    value: Span,
}

/// The header fields of a message in the order received.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    arena: Vec<u8>,
    fields: Vec<Field>,
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
    }

    /// Copies `bytes` into the arena and says where they are.
    pub fn intern(&mut self, bytes: &[u8]) -> Span {
        let start = u32::try_from(self.arena.len()).unwrap_or(u32::MAX);
        self.arena.extend_from_slice(bytes);
        Span { start, len: u32::try_from(bytes.len()).unwrap_or(0) }
    }

    /// The bytes of a span that [`Headers::intern`] returned.
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

    /// The values of every field called `name` (letter case ignored), in order.
    pub fn all<'a>(&'a self, name: &'a [u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of the first field called `name`.
    #[must_use]
    pub fn first<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Whether a field is called `name`.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.iter().any(|(found, _)| found.eq_ignore_ascii_case(name))
    }

    /// Appends a field.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        let name = self.intern(name);
        let value = self.intern(value);
        self.fields.push(Field { name, value });
    }

    /// Removes every field called `name`; whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        self.retain(|found, _| !found.eq_ignore_ascii_case(name))
    }

    /// Removes the fields for which `keep` is false; whether there was one.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        let before = self.fields.len();
        let arena = &self.arena;
        self.fields.retain(|field| keep(field.name.of(arena), field.value.of(arena)));
        self.fields.len() != before
    }

    /// Replaces every field called `name` by one with this value.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.add(name, value);
    }

    /// Replaces the value of each field for which `change` returns a new one.
    pub fn rewrite(&mut self, mut change: impl FnMut(&[u8], &[u8]) -> Option<Vec<u8>>) {
        for index in 0..self.fields.len() {
            let Some(field) = self.fields.get(index).copied() else { break };
            if let Some(value) = change(field.name.of(&self.arena), field.value.of(&self.arena)) {
                let value = self.intern(&value);
                if let Some(field) = self.fields.get_mut(index) {
                    field.value = value;
                }
            }
        }
    }
}
