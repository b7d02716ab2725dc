//! Health checks: sockets and schedule. What results mean for a server is decided by crate `balance`.
//!
//! ```text
//!  scheduler (one task a worker)           Farm (one a backend)          FarmEvents (any thread)
//!    wait until the next is due
//!    check_begin ------------------------->  may it run?
//!    spawn `run`: connect, send, expect
//!    check_end(report) ------------------->  count, change state
//!    agent_end(what it says) ------------->  set weight, limit, state
//!                                            events --------------------> log and console lines
//!                                                                         followers (`track`)
//!    wake up early  <----- CheckBoard <---------------------------------- fast check after errors
//! ```
//!
//! Servers are spread over workers by their key and over time by [`balance::health::first_check_delays_ms`], as HAProxy
//! spreads them. A server that waits for its next check costs an entry in a heap; one that is being checked costs a task.
//!
//! Order of calls for an instance: [`prepare`] once, then [`start`] on each worker. What [`start`] returns ends the
//! schedule and every check in flight when it is dropped: at a reload, and when a stop begins.

mod board;
mod connect;
mod connection;
mod context;
mod events;
mod expect;
mod expect_tcp;
mod external;
mod fastcgi;
mod http2;
mod mail;
mod request;
mod response;
mod run;
mod schedule;
mod subject;
mod words;

pub use board::CheckBoard;
pub use events::FarmEvents;
pub use schedule::{Checks, prepare, start};

// Helpers of tests, shared with other crates.
#[cfg(test)]
#[path = "../../logs/src/side_by_side.rs"]
pub mod side_by_side;
#[cfg(test)]
#[path = "../../live/src/test_instance.rs"]
pub mod test_instance;
#[cfg(test)]
mod tests;
