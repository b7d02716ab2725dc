//! HTTP caching, without a clock, a socket or a file: `now` is an argument, and what is decided comes with its reason.
//!
//! [`policy`] is RFC 9111 for a shared cache: what may be stored, how long it is fresh, when it may be used again, what validates it
//! and what makes it invalid.

pub mod policy;
