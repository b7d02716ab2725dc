//! HTTP/1 on the wire, without sockets: message heads, body framing and the strict rules that keep two parties from
//! reading one byte stream differently.

mod headers;

pub use headers::{Field, Headers, Span};
