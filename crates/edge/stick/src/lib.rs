//! Stick tables: what is remembered of clients, sessions or anything else that has a key, for a while and within bounds.
//!
//! A [`Table`] maps keys to entries. What an entry holds is fixed when the table is made ([`Layout`]): counters, rates of
//! events, tags, the server that a client belongs to. Whoever *tracks* an entry holds a reference, and as long as there is
//! one the entry stays. All others go when their time is over, or when room is needed, the oldest first.
//!
//! # How workers share a table
//!
//! Keys are spread over shards by a hash, and each shard has one lock. Everything that a worker does to an entry at one
//! point of a request (find or make it, take a reference, add to any number of counters) is one call with a closure, so it
//! takes that lock once and holds it for some tens of instructions. HAProxy locks the whole table to look up and to move
//! the expiry on, and the entry besides; here three short sections a request and tracked counter are all there is, on a
//! lock that only the keys of the same shard share. Counts are exact because they are made under the lock: no atomic
//! arithmetic whose parts could be seen apart. The number of entries is one atomic counter, reserved before an entry is
//! made, so the size is never exceeded, not even for a moment. Never are two shards locked at the same time.
//!
//! # Memory
//!
//! Entries live in arrays of their shard, not in allocations of their own: a bookkeeping record of 32 bytes, the key, the
//! data in words of 32 bits, and a place in the hash index and in the order of expiry. An entry of an IPv4 address with one
//! rate takes about a hundred bytes. Nothing is allocated before there are entries, and an empty shard gives all back.
//!
//! Nothing here opens a socket, looks at a clock or draws a random number: `now` and the seed of the hash are arguments.

mod data;
mod definition;
mod dictionary;
mod entry;
mod frequency;
pub mod handover;
mod key;
mod query;
mod shard;
mod share;
mod table;
mod updates;

#[cfg(test)]
mod tests;

pub use data::{ARRAY_LEN_MAX, DataType, Kind, Layout, StoreError};
pub use definition::{Definition, KEY_LEN_DEFAULT, KEY_LEN_MAX, SIZE_MAX, ServerKey};
pub use entry::{Entry, Reading};
pub use key::{Key, KeyType};
pub use query::{Gpc, Query};
pub use share::{Limit, Share};
pub use table::{Handle, Removal, Snapshot, Table};
pub use updates::{Learned, StoredValue, Update, Updates};
