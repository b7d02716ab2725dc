//! What can be wrong with a block of fields.

use thiserror::Error;

/// Why a block did not give what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError<E> {
    /// The tables of both ends no longer agree: the connection is over (RFC 9113 section 4.3, `COMPRESSION_ERROR`; RFC 9204 section 6).
    #[error("the block cannot be decompressed")]
    Compression(#[from] CompressionError),
    /// It has more than the limits allow. The tables agree: other streams may go on.
    #[error("the fields are too large: {0}")]
    TooLarge(Exceeded),
    /// Who gets the fields did not want one. The tables agree.
    #[error("a field was refused")]
    Refused(E),
}

/// Which limit a block has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Exceeded {
    /// [`crate::HeaderLimits::fields`].
    #[error("more than {0} fields")]
    Fields(usize),
    /// [`crate::HeaderLimits::bytes`].
    #[error("more than {0} bytes")]
    Bytes(usize),
}

/// Why a block means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CompressionError {
    /// It ends within a field.
    #[error("it ends within a field")]
    Truncated,
    /// A number is larger than anything in a block can be.
    #[error("a number in it is too large")]
    NumberTooLarge,
    /// It refers to an entry that no table has.
    #[error("it refers to the entry {0}, which is in no table")]
    UnknownEntry(usize),
    /// A string is no Huffman code, or is padded with something else than the start of the end's code.
    #[error("a string in it is no Huffman code")]
    Huffman,
    /// It wants a larger table than it was allowed.
    #[error("it sets the table's size to {wanted} bytes, of {allowed} allowed")]
    TableTooLarge {
        /// What it says.
        wanted: usize,
        /// What was allowed.
        allowed: usize,
    },
    /// It changes the table's size after its first field.
    #[error("it changes the table's size after a field")]
    LateTableSize,
    /// It does not make the table smaller, as it was told to.
    #[error("it does not make the table smaller, as the settings say")]
    MissingTableSize,
    /// It needs entries that the table has not got (RFC 9204 section 2.1.2): this side has allowed no stream to wait for them.
    #[error("it needs entries that have not come")]
    Blocked,
    /// It says that it needs so many entries as no table of the allowed size can have (RFC 9204 section 4.5.1.1).
    #[error("it needs a number of entries that cannot be")]
    RequiredCount,
    /// It makes an entry that is larger than the table (RFC 9204 section 3.2.2).
    #[error("it makes an entry that is larger than the table")]
    EntryTooLarge,
}
