//! HPACK (RFC 7541): fields of heads and trailers, compressed with a table that both ends keep in step.
//!
//! A [`Decoder`] reads what the other end's encoder wrote, and an [`Encoder`] writes what its decoder reads: each connection has
//! one of either. A block of fields is decoded whole or the connection is over, because whoever skips a part of it no longer has
//! the same table. So what is too large, or refused by whoever gets the fields, is decoded to its end all the same and told
//! afterwards.

mod decoder;
mod encoder;
mod static_table;
#[cfg(test)]
mod tests;

pub use h2h3::{CompressionError, DecodeError, Exceeded, FIELD_OVERHEAD, Field, HeaderLimits, Indexing};

pub use self::{decoder::Decoder, encoder::Encoder};

/// The size of a table, in bytes, as long as nobody has said anything else (RFC 9113 section 6.5.2).
pub const TABLE_SIZE_DEFAULT: usize = 4096;
