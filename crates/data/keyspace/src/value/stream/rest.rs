//! What a stream has besides its entries, as bytes: its numbers, groups, consumers, and what is pending.

use std::{collections::BTreeMap, ops::Bound};

use super::{ConsumerNumber, Group, Id, Pending, Spilled, Stream};
use crate::{
    Bytes, Millis,
    elements::Elements,
    encoding::{RdbError, Reader, Writer, form},
};

const BROKEN: RdbError = RdbError::Format("stream");
/// What stands for a number of entries that is not known.
const UNKNOWN: u64 = u64::MAX;

fn write_id(id: Id, writer: &mut Writer<'_>) {
    writer.number(id.ms);
    writer.number(id.sequence);
}

/// What stands behind the nodes.
pub(crate) fn encode_rest(stream: &Stream, writer: &mut Writer<'_>) {
    RestWriter::default().go_on(stream, writer, usize::MAX);
}

/// Writes what stands behind the nodes, over as many steps as it takes. The stream must not change meanwhile.
#[derive(Debug, Default)]
pub(crate) struct RestWriter {
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
    pub(crate) fn of_first_form() -> Self {
        Self { is_first_form: true, ..Self::default() }
    }

    /// Goes on. Returns whether that was all.
    pub(crate) fn go_on(&mut self, stream: &Stream, writer: &mut Writer<'_>, budget: usize) -> bool {
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

pub(crate) fn read_id(reader: &mut Reader<'_>) -> Result<Id, RdbError> {
    Ok(Id { ms: reader.number()?, sequence: reader.number()? })
}

/// What a stream has besides its entries, for a record that has them elsewhere.
pub(crate) fn encode_stream_rest(stream: &Stream, out: &mut Vec<u8>) {
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
pub(crate) fn decode_stream_rest(stream: &mut Stream, bytes: &[u8], elements: &Elements) -> Result<(), RdbError> {
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

pub(crate) fn decode_rest_of(
    form: u8,
    reader: &mut Reader<'_>,
    stream: &mut Stream,
    last: Option<Id>,
) -> Result<(), RdbError> {
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
