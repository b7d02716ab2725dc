//! Stick tables of the running configuration: who tracks what, what rules do with it, stickiness.
//!
//! The tables themselves are `stick`'s. A request tracks up to three entries ([`Counters`]) beside those that its
//! connection tracks for as long as it lives; where both would have the same number, the connection's is meant.

mod action;
mod counters;
mod stickiness;

pub use self::{
    action::{Level, act},
    counters::{Counters, Stick},
    stickiness::{server_of, store},
};
