//! How errors look.
