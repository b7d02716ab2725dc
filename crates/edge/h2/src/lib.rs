//! HTTP/2 (RFC 9113) without sockets, clocks or tasks.
//!
//! [`hpack`] compresses and decompresses fields.

pub mod hpack;
