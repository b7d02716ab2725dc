//! QPACK (RFC 9204): fields of heads and trailers, compressed.
//!
//! An encoder uses the static table and literals alone: it needs no memory, and no stream of its own, and no answer ever waits for another
//! one. A [`Decoder`] follows the table of the client's encoder as far as the settings allow one, which is not at all by default. Since no stream
//! may wait for entries that are still on their way, a section that needs one is an error.

mod decoder;
mod encoder;
mod instructions;
mod static_table;
#[cfg(test)]
mod tests;

pub use h2h3::{CompressionError, DecodeError, Exceeded, FIELD_OVERHEAD, Field, HeaderLimits, Indexing};

pub use self::{
    decoder::Decoder,
    encoder::{begin, field},
    instructions::DecoderStream,
};
