//! The forms in which rows are shown.

mod csv;
mod json;
pub mod prometheus;
mod typed;

pub use csv::csv;
pub use json::{SCHEMA, json};
pub use typed::typed;
