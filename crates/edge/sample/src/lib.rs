//! sample.
