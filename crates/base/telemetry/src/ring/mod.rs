//! The transaction ring: what happened, as tagged records in memory that other processes can read.
//!
//! It is the model of Varnish's shared-memory log. Each worker has a ring of its own in a memory file. While a
//! transaction runs, its records gather in a [`Transaction`], a plain buffer; when it is done, [`RingWriter::commit`]
//! copies them into the ring at once, over the oldest ones. The writer takes no lock, makes no system call and never waits
//! for anyone. Readers follow at their own pace and are told what they missed.
//!
//! # How reader and writer agree without a lock
//!
//! A position is a count of bytes since the ring was made; it never wraps, and its place in the ring is the position
//! modulo the size. The writer publishes two of them:
//!
//! ```text
//!         reserved - size          committed       reserved
//!  ... gone  |  intact, may be read    |  being written |
//! ```
//!
//! It raises `reserved` *before* it writes a block and `committed` after. A reader copies a stretch that ends at or before
//! `committed` and then looks at `reserved`: if the stretch begins before `reserved - size`, the writer may have
//! overwritten it meanwhile and the copy is thrown away. The release fence behind the store of `reserved` pairs with the
//! acquire fence before the reader's load of it, so a reader that saw even one new word sees the new `reserved` too. All
//! words are atomic, so a copy that loses the race is garbage but never undefined.
//!
//! A reader that was overrun has lost its place between blocks, so the header keeps, for each sixteenth of the ring, where
//! the first block in it begins. The layout is written down in `docs/formats/transaction-ring.md`.

mod discover;
mod group;
mod layout;
mod memory;
mod reader;
mod summary;
mod tag;
mod tag_set;
mod transaction;
mod writer;

pub use discover::{RingFile, discover};
pub use group::{Group, Grouper, OwnedBlock};
pub use layout::{RING_BYTES_MAX, RING_BYTES_MIN, VERSION};
pub use reader::{Block, Record, Records, RingEvent, RingReader};
pub use summary::Summary;
pub use tag::Tag;
pub use tag_set::TagSet;
pub use transaction::Transaction;
pub use writer::RingWriter;

/// Why a ring could not be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The system refused.
    #[error("cannot map the transaction ring")]
    Io(#[from] std::io::Error),
    /// The file is something else.
    #[error("not a transaction ring")]
    NotARing,
    /// Written by a program that uses another layout.
    #[error("transaction ring of version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// The header contradicts the file.
    #[error("damaged transaction ring")]
    Damaged,
}

#[cfg(test)]
mod tests;
