//! RDB's lengths, strings and numbers, of which values and records are made.

pub mod lzf;
mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

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
pub(crate) mod form {
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
    /// Ours: Redis has no such type, and refuses it.
    pub const QUEUE: u8 = 200;
}
