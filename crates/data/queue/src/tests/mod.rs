//! The machine against a model of it that has everything in one list.

mod damaged;
mod limits;
mod memory;
mod model;
mod random;
