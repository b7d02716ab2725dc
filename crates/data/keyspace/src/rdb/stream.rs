//! Streams, in all three forms.
//!
//! A node is a listpack under the id of its first entry: the number of entries, of those that were removed, the fields of
//! the first entry; then the entries, with ids relative to the node's and without fields where those are the first one's.
//! The second form has more ids in front and a group's count of entries, the third also when a consumer got something.

use std::borrow::Cow;

use super::listpack::{self, Builder, Element, Elements};
use crate::{
    Value,
    value::{
        Stream,
        stream::{Entry, Id, Node, NodeLimits, rest::decode_rest_of},
    },
};
use crate::{
    encoding::{RdbError, Reader},
    value::ValueLimits,
};

const BROKEN: RdbError = RdbError::Format("stream");
/// Flags of entries.
const REMOVED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Fields that are not written again at each entry may be this many times as long as the payload, when they are.
const EXPANSION_MAX: usize = 512;
/// That much is always allowed.
const EXPANSION_FREE: usize = 64 << 20;

/// What was removed is left out.
pub(super) fn encode_node(first: Id, node: &Node) -> Vec<u8> {
    let mut builder = Builder::default();
    let Some(master) = node.entries(first).next() else { return builder.finish() };
    builder.push_integer(node.live() as i64);
    builder.push_integer(0);
    builder.push_integer(master.len() as i64);
    master.pairs().for_each(|(field, _)| builder.push(field));
    builder.push_integer(0);
    let same_fields = |entry: &Entry<'_>| {
        entry.len() == master.len() && entry.pairs().zip(master.pairs()).all(|((one, _), (other, _))| one == other)
    };
    for entry in node.entries(first) {
        let same = same_fields(&entry);
        builder.push_integer(if same { SAME_FIELDS } else { 0 });
        builder.push_integer(entry.id.ms.wrapping_sub(first.ms) as i64);
        builder.push_integer(entry.id.sequence.wrapping_sub(first.sequence) as i64);
        if !same {
            builder.push_integer(entry.len() as i64);
        }
        for (field, value) in entry.pairs() {
            if !same {
                builder.push(field);
            }
            builder.push(value);
        }
        builder.push_integer(elements_of(entry.len() as i64, same));
    }
    builder.finish()
}

/// How many elements of a listpack an entry is, but for this number itself.
fn elements_of(fields: i64, same: bool) -> i64 {
    if same { fields.saturating_add(3) } else { fields.saturating_mul(2).saturating_add(4) }
}

/// The numbers and texts of a node's listpack.
struct Parts<'a>(Elements<'a>);

impl<'a> Parts<'a> {
    fn text(&mut self) -> Result<Cow<'a, [u8]>, RdbError> {
        Ok(self.0.next().ok_or(BROKEN)??.text())
    }

    fn integer(&mut self) -> Result<i64, RdbError> {
        self.0.next().ok_or(BROKEN)?.map(Element::integer)?.ok_or(BROKEN)
    }

    fn count(&mut self) -> Result<u64, RdbError> {
        u64::try_from(self.integer()?).map_err(|_| BROKEN)
    }
}

/// Reads a stream's nodes.
#[derive(Debug)]
pub(super) struct NodeReader {
    stream: Stream,
    /// The id that the next entry has to be above, once there is one.
    last: Option<Id>,
    /// How much fields may still grow by being written again.
    expansion: usize,
}

impl NodeReader {
    /// For a stream of so many bytes.
    pub(super) fn new(len: usize) -> Self {
        let expansion = len.saturating_mul(EXPANSION_MAX).saturating_add(EXPANSION_FREE);
        Self { stream: Stream::default(), last: None, expansion }
    }

    /// Reads a node.
    pub(super) fn next(&mut self, reader: &mut Reader<'_>) -> Result<(), RdbError> {
        let first = reader.string()?;
        let first = Id::from_bytes(first.as_ref().try_into().map_err(|_| BROKEN)?);
        self.node(first, &reader.string()?)
    }

    /// Reads what stands behind the nodes.
    pub(super) fn finish(mut self, form: u8, reader: &mut Reader<'_>) -> Result<Value, RdbError> {
        decode_rest_of(form, reader, &mut self.stream, self.last)?;
        Ok(Value::Stream(Box::new(self.stream)))
    }

    fn node(&mut self, first: Id, listpack: &[u8]) -> Result<(), RdbError> {
        let mut parts = Parts(listpack::elements(listpack)?);
        let (live, removed) = (parts.count()?, parts.count()?);
        let field_count = parts.count()?;
        let mut fields = Vec::new();
        for _ in 0..field_count {
            fields.push(parts.text()?);
        }
        let fields_len: usize = fields.iter().map(|field| field.len() + 1).sum();
        if parts.integer()? != 0 {
            return Err(BROKEN);
        }
        // The first entry opens a node here, as it did there; the others follow it whatever is set.
        let mut limits = NodeLimits { bytes: 1, entries: 1 };
        let total = live.checked_add(removed).ok_or(BROKEN)?;
        for number in 0..total {
            let flags = parts.integer()?;
            let ms = first.ms.wrapping_add(parts.integer()? as u64);
            let sequence = first.sequence.wrapping_add(parts.integer()? as u64);
            let id = Id { ms, sequence };
            let same = flags & SAME_FIELDS != 0;
            let mut words = Vec::new();
            let count = if same { field_count } else { parts.count()? };
            if same {
                self.expansion = self.expansion.checked_sub(fields_len).ok_or(BROKEN)?;
            }
            let mut known = fields.iter();
            for _ in 0..count {
                let field = if same { known.next().cloned().ok_or(BROKEN)? } else { parts.text()? };
                words.push(field);
                words.push(parts.text()?);
            }
            let ascends = self.last.is_none_or(|last| last < id);
            if parts.integer()? != elements_of(count as i64, same) || !ascends || count == 0 {
                return Err(BROKEN);
            }
            if number == 0 && id < first {
                return Err(BROKEN);
            }
            self.last = Some(id);
            if flags & REMOVED == 0 {
                self.stream.append(id, &words, limits);
                limits = NodeLimits { bytes: 0, entries: 0 };
            }
        }
        if parts.0.next().is_some() { Err(BROKEN) } else { Ok(()) }
    }
}

pub(super) fn decode(form: u8, reader: &mut Reader<'_>, _: &ValueLimits) -> Result<Value, RdbError> {
    let mut nodes = NodeReader::new(reader.len());
    for _ in 0..reader.count()? {
        nodes.next(reader)?;
    }
    nodes.finish(form, reader)
}
