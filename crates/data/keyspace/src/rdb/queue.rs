//! Queues: what their header has, then each record, name and value; then a name without a byte.

use queue::Header;

use crate::{
    Value,
    encoding::{RdbError, Reader},
    value::Queue,
};

/// Reads a queue's records.
#[derive(Debug)]
pub(super) struct RecordReader(Box<Queue>);

impl RecordReader {
    /// Reads the header.
    pub(super) fn new(reader: &mut Reader<'_>) -> Result<Self, RdbError> {
        let header = Header::decode(&reader.string()?).map_err(|_| RdbError::Format("header of a queue"))?;
        Ok(Self(Box::new(Queue::new(header))))
    }

    /// Reads a record. Returns whether there was one.
    pub(super) fn next(&mut self, reader: &mut Reader<'_>) -> Result<bool, RdbError> {
        let name = reader.string()?;
        if name.is_empty() {
            return Ok(false);
        }
        self.0.put_record(&name, &reader.string()?);
        Ok(true)
    }

    /// The queue.
    pub(super) fn finish(self) -> Value {
        Value::Queue(self.0)
    }
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Value, RdbError> {
    let mut records = RecordReader::new(reader)?;
    while records.next(reader)? {}
    Ok(records.finish())
}
