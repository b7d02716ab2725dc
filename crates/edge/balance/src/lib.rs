//! balance.
