//! The managing side of varnishd: a process that answers varnishadm, compiles VCL and keeps a worker that serves.
//!
//! ```text
//!  varnishadm ── -T ──┐
//!  varnishtest ─ -M ──┼▶ manager ── orders ──▶ worker: the edge, in one process
//!  a terminal ── -d ──┘     │      ◀─ answers ──
//!                           └ programs, labels, parameters: what a worker is told when it begins
//! ```
//!
//! The manager serves no request and knows no cache; the worker reads no file and takes no decision about programs. What a worker is to
//! be told stands in [`orders`]; a worker that ends by itself is started again and told all of it anew. A program goes over with every
//! text and address that it was made of ([`recorded`]), so that both processes compile the same.

pub mod backends;
mod configuration;
pub mod manager;
pub mod orders;
pub mod recorded;

pub use configuration::{Frontend, Listen, Place, configuration};
