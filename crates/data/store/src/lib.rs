//! The store: a server that speaks Redis' protocol.
//!
//! Each shard is one thread with one loop (`shard`). All that is Redis is in `commands`; here are sockets, clocks, files.

pub mod allocator;
mod clock;
pub mod command;
mod connection;
mod effects;
mod error;
mod listener;
pub mod log_dump;
pub mod options;
mod pace;
mod persistence;
pub mod point;
mod records;
mod shard;
mod signals;
mod until;
mod users;

pub use error::StoreError;

/// Runs a store until it is told to stop. `memory_used` says how much memory the process has allocated.
///
/// # Errors
///
/// It could not start: an address is taken, a folder cannot be written.
pub fn run(start: options::Start, memory_used: fn() -> usize) -> Result<(), StoreError> {
    shard::Shard::new(start, memory_used)?.run()
}
