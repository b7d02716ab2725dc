//! Log lines on their way out: HAProxy's `log` targets.
//!
//! The data path makes the text of a line (`log-format`) and hands it to its worker's [`WorkerLog`]; messages about the
//! process, proxies and servers go through the [`AdminLog`], which any thread may use. Both add the header that each
//! target's `format` asks for and send without ever waiting: a line that a socket or pipe does not take at once is dropped
//! and counted ([`Outputs::counters`]).
//!
//! - [`LogTargets`]: the `log` lines of a proxy, compiled.
//! - [`Outputs`]: sockets and descriptors, shared by the process and kept over reloads.
//! - [`LogRing`]: lines in memory, sent to servers over TCP by the thread of logs.
//! - [`Receivers`]: `log-forward` sections, and that thread.
//! - [`LogSender`]: gathers lines and sends those of one turn of the event loop with as few system calls as possible.
//!
//! # After `chroot`
//!
//! Unix sockets are connected and descriptors are copied when the targets are first compiled, so compile those of the first
//! configuration before `chroot` (`Role::open` of crate `runtime` is the place): they go on working inside. A syslog daemon
//! that is restarted has to be connected to again by its path, which is then looked up inside the new root, as HAProxy
//! does for every line; while that fails, lines are counted as failed and it is tried again each second. UDP needs no path.
//! The time zone is read when the first date is made: [`telemetry::local_offset`] called once before `chroot` sees to that.

mod admin;
mod dates;
mod descriptor;
mod file;
mod forwarder;
mod line;
mod log_ring;
mod loss;
mod message;
mod output;
mod receive;
mod rings;
mod sender;
mod targets;
mod unix;

pub use admin::{AdminLog, Severity};
pub use dates::{accept_date, mail_date};
pub use line::{LogLevel, LogLine};
pub use log_ring::LogRing;
pub use message::{Framed, Message, framed, rewritten};
pub use output::{Counters, Outputs};
pub use receive::{Inlet, Receivers};
pub use sender::{LogSender, WorkerLog};
pub use targets::{Identity, LogTargets};

// So that bodies of fuzz targets can be part of the tests.
#[cfg(test)]
extern crate self as logs;

#[cfg(test)]
pub mod side_by_side;
#[cfg(test)]
mod tests;
