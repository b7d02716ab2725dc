//! Redis without a socket: keyspace, types, commands, sessions.
//!
//! A [`Server`] is one shard. It is fed bytes of clients and the time, and gives bytes for clients and *effects*: the
//! commands that reproduce every change, in order, as Redis would propagate them. Nothing in here opens a socket or a
//! file, reads a clock or draws a random number: `now` and a seed are arguments, what is not in memory comes through
//! [`keyspace::Records`]. That is what makes a whole store run in a simulation.

pub mod acl;
pub mod arguments;
pub mod bytes;
pub mod changes;
pub mod client_info;
pub mod config;
pub mod context;
pub mod digest;
pub mod failure;
pub mod glob;
pub mod groups;
pub mod hash_index;
pub mod host;
pub mod keyspace;
pub mod long_double;
pub mod number;
pub mod pubsub;
pub mod random;
pub mod rdb;
pub mod reference;
pub mod runs;
pub mod sample;
pub mod scripting;
pub mod server;
pub mod session;
pub mod slot;
pub mod syntax;
pub mod table;
pub mod value;

pub use bytes::Bytes;
pub use context::Context;
pub use failure::Failure;
pub use server::Server;
pub use session::{Session, SessionId};
pub use value::Value;

/// Milliseconds since 1970, the unit of all times of keys.
pub type Millis = i64;

/// The version of Redis whose commands these are, as `INFO` and `HELLO` give it.
pub const REDIS_VERSION: &str = "7.0.15";
