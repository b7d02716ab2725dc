//! The keys of a store: values of Redis' types, what of them is in memory, and their bytes.
//!
//! A [`Keyspace`] has the keys of all databases as far as they are in memory; what is not there it asks of [`Records`], which its
//! owner hands in. [`value`] has the types; [`rdb`] makes bytes of values, and values of bytes; [`changes`] notes what a command
//! changed. Nothing in here knows of commands, clients or settings: limits, times and seeds are arguments.

pub mod bytes;
pub mod changes;
pub mod digest;
pub mod elements;
pub mod encoding;
pub mod failure;
pub mod glob;
pub mod hash_index;
pub mod long_double;
pub mod number;
pub mod random;
pub mod rdb;
pub mod received_query;

pub mod slot;
pub mod space;
pub mod value;

pub use bytes::Bytes;
pub use elements::{Collection, ElementRecords, Elements, ElementsCopy, Frozen, ReadFailure, Source, Span};
pub use failure::Failure;
pub use space::*;
pub use value::Value;

/// Milliseconds since 1970, the unit of all times of keys.
pub type Millis = i64;
