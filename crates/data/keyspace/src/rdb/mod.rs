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
pub mod lzf;
mod payload;
mod reader;
mod restoring;
mod sorted_set;
mod stream;
mod writer;
mod ziplist;

pub use encode::Dumping;
pub use file::{FileError, FileOptions, FileVersion, FileWriter, Written};
pub use libraries::{LibrariesError, decode_libraries, encode_libraries};
pub use payload::{decode_payload, encode_payload};
pub use reader::Reader;
pub use restoring::{Restoring, weight};
pub(crate) use stream::{decode_stream_rest, encode_stream_rest};
pub use writer::Writer;

use crate::{Bytes, Value, value::ValueLimits};

/// Why bytes are no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RdbError {
    /// They end in the middle.
    #[error("the value ends too early")]
    Truncated,
    /// There is something behind the value.
    #[error("there is more than a value")]
    Surplus,
    /// A type that is not known, or that belongs to a module.
    #[error("a type that is not known: {0}")]
    Type(u8),
    /// A collection of nothing.
    #[error("a collection without elements")]
    Empty,
    /// A part that is not as it has to be.
    #[error("malformed: {0}")]
    Format(&'static str),
    /// The version of a payload is too new, or its checksum wrong.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
}

/// The bytes that say of which type and form a value is.
mod form {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET_2: u8 = 5;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTEGERS: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM_1: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
}

/// The type of a value, by its first byte, as `TYPE` names it.
pub fn type_name(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes.first()? {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "zset",
        4 | 9 | 13 | 16 => "hash",
        15 | 19 | 21 => "stream",
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
        form::STREAM_1 | form::STREAM_2 | form::STREAM_3 => stream::decode(form, &mut reader, limits)?,
        other => return Err(RdbError::Type(other)),
    };
    if reader.is_empty() { Ok(value) } else { Err(RdbError::Surplus) }
}

#[cfg(test)]
mod tests;
