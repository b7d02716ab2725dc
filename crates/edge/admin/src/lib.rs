//! What people and programs see of the edge that runs, and change of it: statistics in all forms (`stats`), the statistics
//! page, and the runtime API of the stats socket (`cli`).
//!
//! Carries no traffic and knows nobody who does: sessions are asked about, and listeners steered, by traits that the role
//! implements ([`cli::AskWorkers`], [`stats::SteerListeners`]).

pub mod cli;
pub mod stats;

#[cfg(test)]
#[path = "../../live/src/test_instance.rs"]
pub mod test_instance;
