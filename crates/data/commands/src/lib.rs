//! Redis without a socket: commands, sessions, scripts, settings.
//!
//! A [`Server`] runs the commands of one shard. It is fed bytes of clients and the time, and gives bytes for clients and *effects*: the
//! commands that reproduce every change, in order, as Redis would propagate them. Nothing in here opens a socket or a
//! file, reads a clock or draws a random number: `now` and a seed are arguments, what is not in memory comes through
//! [`keyspace::Records`]. That is what makes a whole store run in a simulation.

pub mod acl;
pub mod arguments;
pub mod client_info;
pub mod cluster;
pub mod config;
pub mod groups;
pub mod host;
pub mod pubsub;
pub mod reference;
pub mod replication;
pub mod runs;
pub mod sample;
pub mod scripting;
pub mod secrets;
pub mod server;
pub mod session;
pub mod syntax;
pub mod table;
pub mod words;

pub use server::{Context, Server};
pub use session::{Session, SessionId};

use keyspace::{Millis, Records};

use config::Settings;
use host::Stopwatch;
use server::Setup;

impl Server {
    /// One with all commands. `key_seed` belongs to the tables that `records` reads; `seed` may be any number.
    pub fn new(
        settings: Settings,
        key_seed: u64,
        seed: u64,
        now: Millis,
        records: Option<Box<dyn Records>>,
        stopwatch: Stopwatch,
    ) -> Self {
        Self::with_table(groups::table(), Setup { settings, key_seed, seed, now, records, stopwatch })
    }
}

/// The version of Redis whose commands these are, as `INFO` and `HELLO` give it.
pub const REDIS_VERSION: &str = "7.0.15";
