//! The edge as a role: a load balancer that runs haproxy.cfg.
//!
//! This crate is glue. What it starts and connects stands in rooms of its own, each of which knows those before it only:
//!
//! ```text
//!   net <- logs <- live <- { proxy, checks, admin } <- edge
//! ```

pub mod keyword_dump;
pub mod libraries;
pub mod role;
pub mod server_state;
