//! `peers` sections that run: stick tables kept in step with other processes.
//!
//! What is said and when is `peers`' ([`::peers::Section`]). Here are its sockets. All of it runs on the control thread,
//! whichever worker a connection came in on: tables are told of changes under their own locks, and whoever changes an entry
//! does no more for peers than to wake that thread if it sleeps.

mod hub;
mod run;

pub use self::{
    hub::{Arrival, Hub, LiveSection, Start},
    run::run,
};
