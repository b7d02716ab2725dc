//! What a shard's records look like: their keys, and the header of a key's record.
//!
//! Byte by byte in docs/formats/records.md. Keys of records begin with the slot, so that a slot can be walked, moved and
//! dropped; then comes the kind, then the database.
//!
//! | kind | behind slot, kind and database | value |
//! |---|---|---|
//! | `k` key | hash of the key, the key | [`Header`], then what the type keeps inline |
//! | `e` element | version, what the type calls the element | as the type wants it |
//! | `x` expiry | milliseconds of the deadline, the key | nothing |
//! | `o` orphan | version | nothing |
//! | `m` meta | a name | as the name says |
//!
//! The hash gives SCAN a cursor without state: slot and hash of the last key, in the order of records. Its seed is a secret of the
//! tables, which a meta record names.
//!
//! A collection's elements carry a version, which its key's record names. To delete a collection is to delete its key's
//! record and to leave an orphan with the version: nobody finds the elements any more, and they are removed little by little
//! ([`remove_range`](crate::remove_range)). Versions are therefore never used again.
//!
//! # Long keys
//!
//! Redis' keys and elements may have 512 MB, an engine's keys 64 kB. What is longer than [`WHOLE_LEN_MAX`] is cut, and its
//! SHA-256 put behind it: see [`Tail`].

mod header;
mod key;
mod tail;

pub use header::{Elements, Header, decode_varint, encode_varint};
pub use key::{Kind, RecordKey, decode, element, expiry, has_hash, hash, key, meta, orphan, range};
pub use tail::{CUT_LEN, Tail, WHOLE_LEN_MAX, split_whole, with_whole};

/// Why bytes are no record. Names what is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a record: {0}")]
pub struct NotARecord(pub &'static str);

#[cfg(test)]
mod tests;
