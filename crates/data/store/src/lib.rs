//! The store: a server that speaks Redis' protocol.
//!
//! Each shard is one thread with one loop (`shard`). All that is Redis is in `commands`; here are sockets, clocks, files.

pub mod allocator;
mod clock;
pub mod command;
mod connection;
mod error;
mod listener;
pub mod options;
mod persistence;
mod records;
mod shard;
mod signals;
mod users;

use commands::config::Settings;

pub use error::StoreError;

/// Runs a store until it is told to stop. `memory_used` says how much memory the process has allocated.
///
/// # Errors
///
/// It could not start: an address is taken, a folder cannot be written.
pub fn run(settings: Settings, memory_used: fn() -> usize) -> Result<(), StoreError> {
    shard::Shard::new(settings, memory_used)?.run()
}
