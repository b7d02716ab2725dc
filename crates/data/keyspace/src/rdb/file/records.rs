//! Collections whose elements are records of their own, written while they are read.

use std::rc::Rc;

use super::{FileError, FileVersion, FileWriter};
use crate::{
    Value,
    elements::Source,
    encoding::form,
    rdb::stream,
    value::{Descriptor, Stream, stream::rest, walk::CollectionPiece},
};

/// So many entries of a stream's groups are gathered before the sink gets them.
const PENDING_STEP: usize = 1000;

impl FileWriter<'_> {
    /// A key whose record says where its elements are.
    ///
    /// # Errors
    ///
    /// Those of the sink; a record cannot be read, or there are not as many as there should be.
    pub fn described(
        &mut self,
        key: &[u8],
        expire_at_ms: Option<u64>,
        descriptor: &Descriptor,
        source: &Rc<Source>,
    ) -> Result<(), FileError> {
        let failed = |reason: String| FileError::value(key, reason);
        let form = match Descriptor::type_name(descriptor.kind) {
            // Element by element: whoever reads it makes nodes of its own.
            Some("list") => form::LIST,
            Some("set") => form::SET,
            Some("zset") => form::SORTED_SET_2,
            Some("hash") => form::HASH,
            Some("stream") => {
                let Some(Value::Stream(stream)) = Value::described(descriptor, source, 0) else {
                    return Err(failed("its record is of a later version, or damaged".into()));
                };
                let written = self.stream_of_records(key, expire_at_ms, &stream);
                // What could not be read is not there: so it comes before what that led to.
                return source.take_failure().map_or(written, |reason| Err(failed(reason)));
            }
            Some("queue") => return self.queue(key, expire_at_ms, (descriptor, source)),
            _ => return Err(failed("its type is of a later version".into())),
        };
        self.begin_key(key, expire_at_ms, form)?;
        self.put(|writer| writer.number(descriptor.count))?;
        let mut count = 0u64;
        let mut given = Ok(());
        let read = descriptor.each_part(source, &mut |part| {
            given = self.part(part, &mut count);
            given.is_ok()
        });
        given?;
        read.map_err(failed)?;
        if count == descriptor.count {
            return Ok(());
        }
        Err(failed(format!("it has {count} elements, and its record says {}", descriptor.count)))
    }

    fn part(&mut self, part: CollectionPiece<'_>, count: &mut u64) -> Result<(), FileError> {
        *count += 1;
        match part {
            CollectionPiece::Elements(node) => {
                *count -= 1;
                node.places().try_for_each(|(_, element)| {
                    *count += 1;
                    self.string(element)
                })
            }
            CollectionPiece::Member(member) => self.string(&member.text()),
            CollectionPiece::Scored(member) => {
                self.string(&member.name)?;
                self.put(|writer| writer.double(member.score))
            }
            CollectionPiece::Field(name, value) => {
                self.string(name)?;
                self.string(value)
            }
            CollectionPiece::Record(name, value) => {
                self.string(name)?;
                self.string(value)
            }
            CollectionPiece::Entries(first, node) => {
                self.put(|writer| writer.string(&first.to_bytes()))?;
                self.string(&stream::encode_node(first, node))
            }
        }
    }

    /// A queue, which only another store reads.
    fn queue(
        &mut self,
        key: &[u8],
        expire_at_ms: Option<u64>,
        (descriptor, source): (&Descriptor, &Rc<Source>),
    ) -> Result<(), FileError> {
        let failed = |reason: String| FileError::value(key, reason);
        if !self.options.has_queues {
            return Err(failed(
                "it is a queue, which Redis does not have: remove it, or move it to another store".into(),
            ));
        }
        let Some(Value::Queue(queue)) = Value::described(descriptor, source, 0) else {
            return Err(failed("its record is of a later version, or damaged".into()));
        };
        self.begin_key(key, expire_at_ms, form::QUEUE)?;
        self.string(&descriptor.rest)?;
        let mut given = Ok(());
        queue.each_record(None, &mut |name, value| {
            given = self.part(CollectionPiece::Record(name, value), &mut 0);
            given.is_ok()
        });
        given?;
        if let Some(reason) = source.take_failure() {
            return Err(failed(reason));
        }
        self.string(b"")
    }

    fn stream_of_records(&mut self, key: &[u8], expire_at_ms: Option<u64>, of: &Stream) -> Result<(), FileError> {
        let is_old = self.options.version < FileVersion::Ten;
        self.begin_key(key, expire_at_ms, if is_old { form::STREAM_1 } else { form::STREAM_2 })?;
        self.put(|writer| writer.count(of.nodes_len()))?;
        let (mut nodes, mut entries) = (0, 0);
        let mut given = Ok(());
        of.each_node(|first, node| {
            nodes += 1;
            entries += node.live();
            given = self.part(CollectionPiece::Entries(first, node), &mut 0);
            given.is_ok()
        });
        given?;
        if nodes != of.nodes_len() || entries != of.len() {
            let reason = format!("it has {entries} entries in {nodes} nodes, and its record says {}", of.len());
            return Err(FileError::value(key, reason));
        }
        let mut rest = if is_old { rest::RestWriter::of_first_form() } else { rest::RestWriter::default() };
        let mut is_over = false;
        while !is_over {
            self.put(|writer| is_over = rest.go_on(of, writer, PENDING_STEP))?;
        }
        Ok(())
    }
}
