//! HTTP/2 (RFC 9113) without sockets, clocks or tasks.
//!
//! [`hpack`] compresses and decompresses fields, [`frame`] has what stands on the wire, [`ServerConnection`] is the machine of
//! a connection whose other end is a client, [`ClientConnection`] that of one whose other end is a server. Heads are built as those of
//! HTTP/1 by [`http::FieldwiseRequest`] and [`http::FieldwiseResponse`], which judge them: what is malformed never gets out of here.

mod calm;
mod connection;
mod error;
pub mod frame;
pub mod hpack;
mod settings;
mod streams;

pub use self::{
    connection::{ClientConnection, Connection, Event, RequestOptions, ServerConnection},
    error::{ConnectionError, ErrorCode},
    settings::{HEADER_TABLE_DEFAULT, Settings, WINDOW_DEFAULT, WINDOW_MAX},
    streams::StreamKey,
};
