//! HTTP/3 (RFC 9114) without sockets, clocks or tasks, and without QUIC: the end of a server.
//!
//! [`ServerConnection`] is the machine of a connection: it gets the bytes of each stream as they come, and yields requests, bodies and
//! trailers; whoever answers gives it heads and bodies, which it writes to the sending halves of streams. Heads are built as those of
//! HTTP/1 and HTTP/2 by [`http::FieldwiseRequest`], which judges them: what is malformed never gets out of here.

mod calm;
mod connection;
mod error;
pub mod frame;
pub mod qpack;
mod settings;
mod streams;

pub use h2h3::{CalmLimits, Priority};

pub use self::{
    connection::{Event, Order, OwnStream, SendHalf, ServerConnection},
    error::{ConnectionError, ErrorCode},
    settings::Settings,
    streams::{StreamId, StreamKey},
};
