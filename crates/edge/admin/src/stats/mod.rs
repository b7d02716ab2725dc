//! Statistics: what is counted, in every form in which people and programs want to see it.
//!
//! ```text
//!   counters, farms --collect--> Snapshot (view) --row--> Row --render--> CSV, typed, JSON, Prometheus
//!        |                          |                 (columns: one table)
//!        +--sampler, once a second--+--page--> HTML, live JSON
//!             (rates, an hour of history, the last changes)
//! ```
//!
//! Everything behind [`view::Snapshot`] is pure: it knows neither sockets nor clocks nor what runs.

pub mod change_notes;
mod clear;
pub mod collect;
pub mod columns;
pub mod control;
pub mod files;
pub mod history;
pub mod info;
pub mod live_control;
pub mod page;
pub mod render;
pub mod row;
mod running;
pub mod sampler;
pub mod serve;
pub mod text;
pub mod value;
pub mod view;

pub use running::{RunningEdge, SteerListeners};

#[cfg(test)]
mod live_tests;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
