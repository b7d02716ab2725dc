//! Streams, in all three forms.
//!
//! A node is a listpack under the id of its first entry: the number of entries, of those that were removed, the fields of
//! the first entry; then the entries, with ids relative to the node's and without fields where those are the first one's.
//! The second form has more ids in front and a group's count of entries, the third also when a consumer got something.

use std::{borrow::Cow, collections::BTreeMap, ops::Bound};

use super::{
    RdbError, Reader, Writer, form,
    listpack::{self, Builder, Element, Elements},
};
use crate::value::ValueLimits;
use crate::{
    Bytes, Millis, Value,
    value::{
        Stream,
        stream::{ConsumerNumber, Entry, Group, Id, Node, NodeLimits, Pending, Spilled},
    },
};

const BROKEN: RdbError = RdbError::Format("stream");
/// Flags of entries.
const REMOVED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// What stands for a number of entries that is not known.
const UNKNOWN: u64 = u64::MAX;
/// Fields that are not written again at each entry may be this many times as long as the payload, when they are.
const EXPANSION_MAX: usize = 512;
/// That much is always allowed.
const EXPANSION_FREE: usize = 64 << 20;

fn write_id(id: Id, writer: &mut Writer<'_>) {
    writer.number(id.ms);
    writer.number(id.sequence);
}

/// What stands behind the nodes.
pub(super) fn encode_rest(stream: &Stream, writer: &mut Writer<'_>) {
    RestWriter::default().go_on(stream, writer, usize::MAX);
}

/// Writes what stands behind the nodes, over as many steps as it takes. The stream must not change meanwhile.
#[derive(Debug, Default)]
pub(super) struct RestWriter {
    at: RestAt,
    /// What is pending in records of its own is left out.
    without_spilled: bool,
    /// As the first form has it, which Redis 5 and 6 read.
    is_first_form: bool,
    /// The group that is written, and the consumer.
    group: Option<Bytes>,
    consumer: Option<(Bytes, ConsumerNumber)>,
}

/// What comes next of it.
#[derive(Debug, Clone, Copy, Default)]
enum RestAt {
    #[default]
    Numbers,
    Group,
    /// What is pending in the group, from an id on; with the consumer, if there is one.
    Pending(Id),
    Consumer,
    End,
}

impl RestWriter {
    /// For the first form of streams.
    pub(super) fn of_first_form() -> Self {
        Self { is_first_form: true, ..Self::default() }
    }

    /// Goes on. Returns whether that was all.
    pub(super) fn go_on(&mut self, stream: &Stream, writer: &mut Writer<'_>, budget: usize) -> bool {
        let mut left = budget;
        while left > 0 && !matches!(self.at, RestAt::End) {
            self.part(stream, writer, &mut left);
        }
        matches!(self.at, RestAt::End)
    }

    fn part(&mut self, stream: &Stream, writer: &mut Writer<'_>, left: &mut usize) {
        let group = self.group.as_deref().and_then(|name| stream.groups.get(name));
        self.at = match (self.at, group) {
            (RestAt::Numbers, _) => {
                writer.number(stream.len());
                write_id(stream.last_id, writer);
                if !self.is_first_form {
                    write_id(stream.first_id, writer);
                    write_id(stream.max_deleted_id, writer);
                    writer.number(stream.entries_added);
                }
                writer.count(stream.groups.len());
                RestAt::Group
            }
            (RestAt::Group, _) => {
                let from = self.group.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                match stream.groups.range::<[u8], _>((from, Bound::Unbounded)).next() {
                    Some((name, group)) => {
                        writer.string(name);
                        write_id(group.last, writer);
                        if !self.is_first_form {
                            writer.number(group.entries_read.unwrap_or(UNKNOWN));
                        }
                        writer.count(if self.without_spilled { group.kept_len() } else { group.pending_len() });
                        (self.group, self.consumer) = (Some(name.clone()), None);
                        RestAt::Pending(Id::MIN)
                    }
                    None => RestAt::End,
                }
            }
            (RestAt::Pending(from), Some(group)) => match self.pending(group, from, writer, left) {
                Some(next) => RestAt::Pending(next),
                None => {
                    if self.consumer.is_none() {
                        writer.count(group.consumers_len());
                    }
                    RestAt::Consumer
                }
            },
            (RestAt::Consumer, Some(group)) => {
                let behind = self.consumer.as_ref().map(|(name, _)| name.as_slice());
                match group.consumer_behind(behind) {
                    Some((number, consumer)) => {
                        writer.string(&consumer.name);
                        writer.fixed(consumer.seen as u64);
                        let pending_len =
                            if self.without_spilled { consumer.kept_len() } else { consumer.pending_len() };
                        writer.count(pending_len);
                        self.consumer = Some((consumer.name.clone(), number));
                        RestAt::Pending(Id::MIN)
                    }
                    None => RestAt::Group,
                }
            }
            (RestAt::Pending(_) | RestAt::Consumer | RestAt::End, _) => RestAt::End,
        };
        *left = left.saturating_sub(1);
    }

    /// Writes some of what is pending. Returns from where on there is more.
    fn pending(&self, group: &Group, from: Id, writer: &mut Writer<'_>, left: &mut usize) -> Option<Id> {
        let of = self.consumer.as_ref().map(|(_, number)| *number);
        let mut next = None;
        let mut each = |id: Id, pending: Pending| {
            if *left == 0 {
                next = Some(id);
                return false;
            }
            *left -= 1;
            writer.raw(&id.to_bytes());
            if of.is_none() {
                writer.fixed(pending.delivered as u64);
                writer.number(pending.count);
            }
            true
        };
        if self.without_spilled {
            group.each_kept(of, |id, pending| id < from || each(id, pending));
        } else {
            group.each_pending(from..=Id::MAX, of, each);
        }
        next
    }
}

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

fn read_id(reader: &mut Reader<'_>) -> Result<Id, RdbError> {
    Ok(Id { ms: reader.number()?, sequence: reader.number()? })
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

/// What a stream has besides its entries, for a record that has them elsewhere.
pub fn encode_stream_rest(stream: &Stream, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out, false);
    RestWriter { without_spilled: true, ..RestWriter::default() }.go_on(stream, &mut writer, usize::MAX);
    let spilled = || stream.groups.iter().filter_map(|(name, group)| Some((name, group, group.spilled()?)));
    // Nothing at all, as it was before there was such a thing.
    if spilled().next().is_some() {
        writer.count(spilled().count());
    }
    for (name, group, spilled) in spilled() {
        let of = spilled.elements().collection();
        writer.string(name);
        writer.number(u64::from(of.slot));
        writer.number(of.version);
        writer.count(spilled.len);
        write_id(spilled.last, &mut writer);
        writer.count(spilled.kept_max);
        for (number, count) in group.spilled_of_consumers() {
            writer.number(u64::from(number));
            writer.count(count);
        }
    }
}

/// Reads what [`encode_stream_rest`] wrote of a stream of so many entries.
///
/// # Errors
///
/// It was written by something else.
pub fn decode_stream_rest(
    stream: &mut Stream,
    bytes: &[u8],
    elements: &crate::space::Elements,
) -> Result<(), RdbError> {
    let mut reader = Reader::new(bytes);
    decode_rest_of(form::STREAM_2, &mut reader, stream, None)?;
    if reader.is_empty() {
        return Ok(());
    }
    let length = |reader: &mut Reader<'_>| usize::try_from(reader.number()?).map_err(|_| BROKEN);
    for _ in 0..reader.number()? {
        let name = reader.string()?;
        let group = stream.groups.get_mut(&*name).ok_or(BROKEN)?;
        let slot = u16::try_from(reader.number()?).map_err(|_| BROKEN)?;
        let elements = elements.beside(slot, reader.number()?);
        let len = length(&mut reader)?;
        let spilled = Spilled::of_records(elements, len, read_id(&mut reader)?, length(&mut reader)?);
        let mut of_consumers = Vec::new();
        for _ in 0..group.consumers_len() {
            let number = u32::try_from(reader.number()?).map_err(|_| BROKEN)?;
            of_consumers.push((number, length(&mut reader)?));
        }
        if !group.set_spilled(spilled, &of_consumers) {
            return Err(BROKEN);
        }
    }
    if reader.is_empty() { Ok(()) } else { Err(RdbError::Surplus) }
}

fn decode_rest_of(form: u8, reader: &mut Reader<'_>, stream: &mut Stream, last: Option<Id>) -> Result<(), RdbError> {
    if reader.number()? != stream.len() {
        return Err(BROKEN);
    }
    stream.last_id = read_id(reader)?;
    if last.is_some_and(|last| last > stream.last_id) {
        return Err(BROKEN);
    }
    if form == form::STREAM_1 {
        // What was not counted then is taken to be what there is.
        stream.entries_added = stream.len();
    } else {
        stream.first_id = read_id(reader)?;
        stream.max_deleted_id = read_id(reader)?;
        stream.entries_added = reader.number()?;
    }
    for _ in 0..reader.count()? {
        let name = Bytes::from_slice(&reader.string()?);
        let group = decode_group(form, reader, stream)?;
        if stream.groups.insert(name, group).is_some() {
            return Err(BROKEN);
        }
    }
    Ok(())
}

fn decode_group(form: u8, reader: &mut Reader<'_>, stream: &Stream) -> Result<Group, RdbError> {
    let last = read_id(reader)?;
    let entries_read = if form == form::STREAM_1 {
        stream.entries_added_to(last)
    } else {
        Some(reader.number()?).filter(|count| *count != UNKNOWN)
    };
    let mut group = Group::new(last, entries_read);
    let mut pending = BTreeMap::new();
    for _ in 0..reader.count()? {
        let id = Id::from_bytes(reader.array()?);
        let delivered = reader.fixed()? as Millis;
        if pending.insert(id, (delivered, reader.number()?)).is_some() {
            return Err(BROKEN);
        }
    }
    for _ in 0..reader.count()? {
        let name = reader.string()?;
        if group.number_of(&name).is_some() {
            return Err(BROKEN);
        }
        let consumer = group.add_consumer(&name, reader.fixed()? as Millis);
        if form == form::STREAM_3 {
            // When it was given something the last time: nothing here asks for that.
            reader.fixed()?;
        }
        for _ in 0..reader.count()? {
            let id = Id::from_bytes(reader.array()?);
            // What is pending belongs to one consumer, and no consumer has more.
            let (delivered, count) = pending.remove(&id).ok_or(BROKEN)?;
            group.give(id, Pending { delivered, count, consumer });
        }
    }
    if pending.is_empty() { Ok(group) } else { Err(BROKEN) }
}
