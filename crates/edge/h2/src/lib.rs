//! HTTP/2 (RFC 9113) without sockets, clocks or tasks.
//!
//! [`hpack`] compresses and decompresses fields, [`frame`] has what stands on the wire, and [`ServerConnection`] is the machine of
//! a connection whose other end is a client. It has requests built as heads of HTTP/1 by [`http::FieldwiseRequest`], which judges
//! them: what is malformed never gets out of here.

mod calm;
mod error;
pub mod frame;
pub mod hpack;
mod server;
mod settings;
mod streams;

pub use self::{
    error::{ConnectionError, ErrorCode},
    server::{Event, ServerConnection},
    settings::{HEADER_TABLE_DEFAULT, Settings, WINDOW_DEFAULT, WINDOW_MAX},
    streams::StreamKey,
};
