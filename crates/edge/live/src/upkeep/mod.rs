//! Stick tables of the running configuration are kept: what has expired goes, and what the process before left comes in. So are caches.

mod caches;
mod expiry;
mod inheritance;

pub use self::{caches::run as expire_cached, expiry::run as expire, inheritance::run as inherit};
