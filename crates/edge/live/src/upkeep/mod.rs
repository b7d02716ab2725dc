//! Stick tables and caches of the running configuration are kept: what has expired goes, and what the process before left of tables
//! comes in.

mod caches;
mod expiry;
mod inheritance;

pub use self::{caches::run as tend_caches, expiry::run as expire, inheritance::run as inherit};
