//! HPACK (RFC 7541): fields of heads and trailers, compressed with a table that both ends keep in step.
//!
//! A [`Decoder`] reads what the other end's encoder wrote, and an [`Encoder`] writes what its decoder reads: each connection has
//! one of either. A block of fields is decoded whole or the connection is over, because whoever skips a part of it no longer has
//! the same table. So what is too large, or refused by whoever gets the fields, is decoded to its end all the same and told
//! afterwards.

mod decoder;
mod encoder;
mod error;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use self::{
    decoder::Decoder,
    encoder::{Encoder, Indexing},
    error::{CompressionError, DecodeError, Exceeded},
};

/// One field, as it stood in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, which nobody has judged.
    pub name: &'a [u8],
    /// Its value, likewise.
    pub value: &'a [u8],
    /// It must never get into a table, here or further on (RFC 7541 section 7.1.3).
    pub is_sensitive: bool,
}

/// How much one block may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Fields, those that are references to a table included.
    pub fields: usize,
    /// Bytes of names and values, and [`FIELD_OVERHEAD`] for each field (RFC 9113 section 6.5.2, `SETTINGS_MAX_HEADER_LIST_SIZE`).
    pub bytes: usize,
}

/// Bytes that a field counts beside its name and its value (RFC 7541 section 4.1).
pub const FIELD_OVERHEAD: usize = 32;

/// The size of a table, in bytes, as long as nobody has said anything else (RFC 9113 section 6.5.2).
pub const TABLE_SIZE_DEFAULT: usize = 4096;
