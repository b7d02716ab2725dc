//! Stick tables of the running configuration are kept: what has expired goes, and what the process before left comes in.

mod expiry;
mod inheritance;

pub use self::{expiry::run as expire, inheritance::run as inherit};
