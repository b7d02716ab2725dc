//! A shard of a store, without sockets, threads or files of its own: what becomes of commands once they have run.
//!
//! `commands` runs commands; this crate makes what they did outlive the process, and says when their replies may go out. It is
//! generic over the log's disk ([`oplog::disk`]), over the [`World`] with its clocks, and over the [`Workers`] who wait for disks in its
//! place. So a simulation runs the very code that serves.
//!
//! ```text
//! commands' effects -> log -> (written, durable, acknowledged) -> replies        commit, release
//! dirty keys -> checkpoint -> tables -> what is gone is removed                  checkpoint, removal
//! keys that are not in memory <- tables                                          reading, gathering, records
//! memory and disk within their bounds                                            owed, pace, disk_bound, long_queries
//! a start: tables, then the log from their offset                                recovery
//! ```

pub mod disk_bound;
pub mod effects;
mod error;
pub mod long_queries;
pub mod pace;
pub mod records;
pub mod release;
pub mod simulated;

mod held;
mod persistence;
mod read_errors;
mod turn;
mod workers;
mod world;

pub use error::{ShardError, chain};
pub use persistence::{Opened, Persistence, applied_of_log};
pub use turn::{MemoryGauge, Shard, ShardOptions, TICK_MS, TurnEnd, follow};
pub use workers::{ReadPurpose, SyncRequest, Workers};
pub use world::World;
