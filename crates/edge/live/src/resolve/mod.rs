//! Names of hosts: looked up at start, and again while running.
//!
//! Configurations are read without asking anyone for addresses, so that the same files always give the same result. What
//! they leave open is settled here:
//!
//! 1. The master, which has the machine's files and rights, looks every name up ([`Recorded::of`]) and ships the answers
//!    with the configuration. [`settle`] puts them in, obeying `init-addr`, in the master to report what cannot be resolved
//!    and in the worker to run it.
//! 2. [`Watch`] looks the names of servers up again every [`HOLD_DEFAULT`]. A server keeps its address as long as the name
//!    still has it; otherwise it moves to one that the name has. Names that cannot be looked up at the moment change
//!    nothing. The library's lookups take their time and cannot be called off, so they have a thread of their own.
//!
//! In a worker that has changed its root directory, the C library finds `resolv.conf`, `hosts` and `nsswitch.conf` only if
//! they are inside the new root. Without them later lookups fail, and servers keep the addresses of the start.
//!
//! Servers with `resolvers` are looked up by a section of that name instead ([`LiveResolvers`](crate::LiveResolvers)), as `do-resolve` does it.

mod lookup;
mod run;
mod start;
mod watch;

pub use lookup::{Lookup, Recorded, SystemLookup};
pub use run::run_all;
pub use start::{Known, mark_unresolved, settle};
pub use watch::{HOLD_DEFAULT, Watch, look_again};

#[cfg(test)]
mod tests;
