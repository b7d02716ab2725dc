//! Ordered records on disk, and the overlay of those that are not there yet.
//!
//! A store shard keeps its data as records: byte strings in order of their keys ([`record`] says which). This crate has three
//! parts:
//!
//! - [`Engine`]: where records lie. [`FjallEngine`] on disk, [`MemoryEngine`] in memory, [`FailingEngine`] around another one;
//!   with the cargo feature `rocksdb` there is a `RocksEngine`, too.
//! - [`Tables`]: what a shard's loop sees. Changes go into memory first and become one atomic batch a second or so; reads look
//!   there, then below.
//! - Threads: [`Writer`] writes batches, [`Readers`] reads what is not in memory. The loop itself never waits for a disk.
//!
//! The log is the truth (crate `oplog`), records are derived from it. Each batch carries the offset of the log up to which its
//! records are true, in the same atomic write, so recovery is: open, read [`Records::applied`], replay the log from there.

mod batch;
mod bounds;
mod capture;
mod error;
mod failing;
mod fjall_engine;
mod memory;
mod merge;
mod offset;
mod readers;
pub mod record;
mod remove;
#[cfg(feature = "rocksdb")]
mod rocksdb_engine;
mod summary;
mod tables;
mod traits;
mod writer;

#[cfg(test)]
mod suite;

/// Bytes that are cheap to clone: up to 20 lie in the value itself, more are shared and counted.
pub use lsm_tree::Slice as Bytes;

/// The key of a record: 1 to [`KEY_LEN_MAX`] bytes that do not begin with [`RESERVED_PREFIX`].
pub type Key = Bytes;
/// What a record holds, at most [`VALUE_LEN_MAX`] bytes.
pub type Value = Bytes;

pub use batch::{Batch, Change};
pub use bounds::{Bounds, Direction};
pub use capture::{Capture, Page};
pub use error::{DamagePlace, Error, Result};
pub use failing::{FailingEngine, Failure};
pub use fjall_engine::{Compression, FjallEngine, FjallOptions, PageCache, open_frozen};
pub use memory::MemoryEngine;
pub use offset::LogOffset;
pub use readers::{Answer, QueueFull, Readers, ReadersOptions, Request, answer};
pub use remove::{Removed, remove_range};
#[cfg(feature = "rocksdb")]
pub use rocksdb_engine::{RocksEngine, RocksOptions};
pub use summary::{Summary, summary};
pub use tables::{Tables, TablesScan};
pub use traits::{Engine, Lookup, Piece, Records, Scan, Step};
pub use writer::{Job, Report, Writer, WriterOptions};

/// Longest key of a record.
pub const KEY_LEN_MAX: usize = 65_535;
/// Longest value of a record.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;
/// Keys that begin so belong to the engine; no scan shows them and no batch may hold one.
pub const RESERVED_PREFIX: [u8; 2] = [0xff, 0xff];
