//! Values as Redis' RDB has them: what `DUMP` gives and `RESTORE` takes, and what a record on disk holds.
//!
//! Values are written as Redis 7.0 writes them. All forms that Redis and Valkey wrote before are read too: plain ones,
//! ziplists, zipmaps, integer sets, listpacks, quicklists of both kinds, streams of all three kinds. What is read is
//! not trusted: lengths are checked against what is there before anything is allocated, and a value that Redis would not
//! have written (elements twice, wrong order, numbers that do not add up) is refused.

mod collections;
pub mod crc64;
mod encode;
mod file;
mod libraries;
pub mod listpack;
mod payload;
mod queue;
mod restoring;
mod sorted_set;
mod stream;
mod ziplist;

pub use encode::Dumping;
pub use file::{FileError, FileOptions, FileVersion, FileWriter, Written};
pub use libraries::{LibrariesError, decode_libraries, encode_libraries};
pub use payload::{decode_payload, encode_payload};
pub use restoring::{Restoring, weight};

use crate::{
    Bytes, Value,
    encoding::{RdbError, Reader, Writer, form},
    value::ValueLimits,
};

/// The type of a value, by its first byte, as `TYPE` names it.
pub fn type_name(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes.first()? {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "zset",
        4 | 9 | 13 | 16 => "hash",
        15 | 19 | 21 => "stream",
        200 => "queue",
        _ => return None,
    })
}

/// Appends a value, as records on disk have it: without compression.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    encode::encode(value, &mut Writer::new(out, false));
}

/// Reads what [`encode_value`] wrote, or any other form of a value.
pub fn decode_value(bytes: &[u8], limits: &ValueLimits) -> Result<Value, RdbError> {
    let mut reader = Reader::new(bytes);
    let form = reader.byte()?;
    let value = match form {
        form::STRING => Value::String(Bytes::from_slice(&reader.string()?)),
        form::LIST | form::LIST_ZIPLIST | form::LIST_QUICKLIST | form::LIST_QUICKLIST_2 => {
            collections::decode_list(form, &mut reader, limits)?
        }
        form::SET | form::SET_INTEGERS | form::SET_LISTPACK => collections::decode_set(form, &mut reader, limits)?,
        form::HASH | form::HASH_ZIPMAP | form::HASH_ZIPLIST | form::HASH_LISTPACK => {
            collections::decode_hash(form, &mut reader, limits)?
        }
        form::SORTED_SET | form::SORTED_SET_2 | form::SORTED_SET_ZIPLIST | form::SORTED_SET_LISTPACK => {
            sorted_set::decode(form, &mut reader, limits)?
        }
        form::QUEUE => queue::decode(&mut reader)?,
        form::STREAM_1 | form::STREAM_2 | form::STREAM_3 => stream::decode(form, &mut reader, limits)?,
        other => return Err(RdbError::Type(other)),
    };
    if reader.is_empty() { Ok(value) } else { Err(RdbError::Surplus) }
}

#[cfg(test)]
mod tests;
