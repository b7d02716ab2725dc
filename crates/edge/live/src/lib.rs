//! A configuration that runs: proxies and servers with their state and numbers.
//!
//! An [`Instance`] is made of a checked configuration ([`assemble`]) and replaced as a whole by a reload. What outlives
//! reloads, the process' own numbers, stands in [`Process`]. Both serve whoever carries traffic, checks servers or shows
//! numbers, and know none of them: who is told what happens to servers ([`FarmObserver`]) and who reaches the sessions of
//! a server ([`WakeSessions`]) is handed in at construction.
//!
//! ```text
//!   rates <- counters <- process <- server <- proxy <- resolvers <- instance <- assemble, dynamic, resolve, upkeep
//! ```

pub mod assemble;
pub mod background;
pub mod cache_state;
pub mod caches;
pub mod capture;
pub mod changes;
pub mod counters;
pub mod dynamic;
pub mod files;
pub mod insight;
mod instance;
pub mod limits;
pub mod peering;
pub mod plugins;
mod process;
pub mod programs;
mod proxy;
pub mod published;
pub mod rates;
mod refusal;
pub mod resolve;
mod resolvers;
pub mod ring;
mod server;
mod server_tls;
pub mod sockets;
mod tables;
pub mod tls_store;
pub mod upkeep;
pub mod variables;

pub use self::{
    counters::{SideCounters, Traffic},
    instance::{Instance, Shared},
    limits::WORKERS_MAX,
    process::{CompressionLimits, Process, ProcessRates, WakeSessions},
    proxy::{
        Accelerator, ConnectionSettings, ConnectionTimeouts, DynamicCookie, Farm, FarmObserver, ListenerOrder,
        LiveListener, LiveProxy, LiveTls, Place, Running, Servers, SharedCache, Targets, Verdict,
    },
    resolvers::{Asking, LiveResolvers},
    server::{
        Agent, CheckPlace, LiveServer, PORT_AS_CONFIGURED, PORT_FIXED, ShutCause, configured_port, is_relative, target,
    },
    server_tls::ServerConnector,
    tables::Tables,
};

// So that helpers of tests can be part of other crates' tests.
#[cfg(test)]
extern crate self as live;

#[cfg(test)]
#[path = "../../logs/src/side_by_side.rs"]
pub mod side_by_side;
#[cfg(test)]
pub mod test_instance;
