//! What HTTP/2 and HTTP/3 have in common: the code and the limits of compressed fields (HPACK, QPACK), which fields go between ends that frame
//! their messages, and how much a peer may do that is no use.

mod calm;
mod encoding;
mod error;
mod field;
pub mod huffman;
pub mod integer;
mod priority;
mod static_table;
mod string;
mod table;

pub use self::{
    calm::{Calm, CalmLimits},
    encoding::{Indexing, is_about_connection, lowered, trailer_fields},
    error::{CompressionError, DecodeError, Exceeded},
    field::{FIELD_OVERHEAD, Field, HeaderLimits, Tally},
    priority::Priority,
    static_table::{Entry, StaticIndex, hash, hash_of_name},
    string::{read_string, write_string},
    table::{DynamicTable, NewName},
};
